"""Comparisons, logic, bits, agreement: dtypes, edges, errors."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import gradlib
from tests.ops.case import beside, t


def test_comparisons_promote() -> None:
    assert (t([1, 2]) == 2.5).tolist() == [False, False]
    assert (t([1, 2]) < 1.5).tolist() == [True, False]
    assert (t([255], "uint8") == -1).tolist() == [True]
    assert (t([0.1], "float32") == 0.1).tolist() == [True]
    assert (t([True, False]) < t([1, 1])).tolist() == [False, True]
    assert operator.gt(2, t([1.0, 3.0])).tolist() == [True, False]
    x = t([2.0, 2.0])
    assert (beside(x, np.array([1.0, 3.0])) >= x).tolist() == [False, True]
    assert (t([1j, 2]) == t([1j, 1])).tolist() == [True, False]


def test_equality_with_what_is_no_number() -> None:
    x = t([1.0])
    for other in (None, "a", [1.0], object()):
        assert (x == other) is False
        assert (x != other) is True
        with pytest.raises(TypeError):
            operator.lt(x, other)
    assert x in [None, x]
    assert len({x, x}) == 1


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_complex_numbers_have_no_order(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name} is not implemented for complex64"):
        getattr(gradlib, name)(t([1j]), t([1j]))


def test_comparisons_record_nothing() -> None:
    x = gradlib.ones(2, requires_grad=True)
    assert not (x > 0).requires_grad
    assert not gradlib.isclose(x, x).requires_grad


@pytest.mark.nonfinite
def test_nan_equals_nothing() -> None:
    x = t([math.nan, 1.0])
    assert (x == x).tolist() == [False, True]
    assert (x != x).tolist() == [True, False]
    assert (x >= x).tolist() == [False, True]


def test_in_place_comparisons_keep_the_dtype() -> None:
    x = t([1.0, 2.0])
    assert x.eq_(2) is x
    assert x.tolist() == [0, 1]
    assert t([1, 5]).gt_(3).tolist() == [0, 1]
    assert t([0.0, 2.0]).logical_not_().tolist() == [1, 0]
    assert t([6, 5]).bitwise_and_(3).tolist() == [2, 1]


def test_logic_of_every_dtype() -> None:
    for dtype in ("bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"):
        a, b = t([0, 0, 1, 1], dtype), t([0.0, 1.5, 0.0, 1.5])
        assert gradlib.logical_and(a, b).tolist() == [False, False, False, True]
        assert gradlib.logical_or(a, b).tolist() == [False, True, True, True]
        assert gradlib.logical_xor(a, b).tolist() == [False, True, True, False]
        assert gradlib.logical_not(a).tolist() == [True, True, False, False]


def test_bits_of_integers_and_masks() -> None:
    n, mask = t([6, -1]), t([True, False])
    assert (n & 3).tolist() == [2, 3]
    assert (3 | n).tolist() == [7, -1]
    assert (2 ^ n).tolist() == [4, -3]
    assert (~n).tolist() == [-7, 0]
    assert (~mask).tolist() == [False, True]
    assert (mask ^ True).tolist() == [False, True]
    assert (mask & n).tolist() == [0, 0]
    assert (n << 2).tolist() == [24, -4]
    assert (n >> 1).tolist() == [3, -1]
    assert (t([1, -8]) << 70).tolist() == [0, 0]
    assert (t([-8]) >> 70).tolist() == [-1]
    assert (t([200, 3], dtype="uint8") >> 9).tolist() == [0, 0]
    assert (t([5, -5], dtype="int32") >> t([32, 40], dtype="int32")).tolist() == [0, -1]
    assert (2 << t([1, 3])).tolist() == [4, 16]
    assert (64 >> t([1, 3])).tolist() == [32, 8]
    m = t([6])
    m <<= 1
    m |= 1
    m ^= 3
    m >>= 1
    m &= 6
    assert m.tolist() == [6]


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_floats_have_no_bits(function: Any) -> None:
    with pytest.raises(RuntimeError, match="not implemented for float32"):
        function(t([1.0]), t([1.0]))
    with pytest.raises(RuntimeError, match="not implemented for float32"):
        function(t([1]), 2.0)


def test_inverting_floats() -> None:
    with pytest.raises(TypeError, match="only implemented on integer and Boolean"):
        operator.invert(t([1.0]))
    with pytest.raises(RuntimeError, match="bitwise_not"):
        gradlib.bitwise_not(t([1.0]))
    with pytest.raises(RuntimeError, match="bitwise_not"):
        t([1.0]).bitwise_not_()


@pytest.mark.nonfinite
def test_isclose_at_infinities_and_nan() -> None:
    inf = math.inf
    a = t([1.0, 1.0, inf, inf, math.nan, 1.0])
    b = t([1.000005, 1.0001, inf, -inf, math.nan, inf])
    assert gradlib.isclose(a, b).tolist() == [True, False, True, False, False, False]
    assert gradlib.isclose(a, b, equal_nan=True).tolist() == [True, False, True, False, True, False]
    assert gradlib.isclose(a, b, rtol=0, atol=0).tolist() == [False, False, True, False, False, False]
    assert gradlib.isclose(t([10, 11]), t([10, 10]), rtol=0.05).tolist() == [True, False]
    assert gradlib.isclose(t([1j]), t([1j + 1e-9])).tolist() == [True]
    assert gradlib.isclose(t([True]), t([False])).tolist() == [False]
    assert t([1.0]).allclose(t([1.0 + 1e-7]))
    assert not gradlib.allclose(t([1.0, 2.0]), t([1.0, 2.1]))
    with pytest.raises(RuntimeError, match="must not be negative"):
        gradlib.isclose(a, b, rtol=-1)
    with pytest.raises(RuntimeError, match="float32 and float64"):
        gradlib.isclose(a, b.to(gradlib.float64))


def test_isclose_of_bools_counts_them_as_numbers() -> None:
    a, b = t([True, False]), t([True, True])
    assert gradlib.isclose(a, b).tolist() == [True, False]
    assert gradlib.isclose(a, b, atol=1).tolist() == [True, True]


def test_isclose_is_relative_to_the_second() -> None:
    assert gradlib.isclose(t([100.0]), t([110.0]), rtol=0.095).item()
    assert not gradlib.isclose(t([110.0]), t([100.0]), rtol=0.095).item()


def test_equal_asks_shape_and_values() -> None:
    x = t([1.0, 2.0])
    assert gradlib.equal(x, t([1.0, 2.0])) is True
    assert gradlib.equal(x, t([1, 2]))
    assert not x.equal(t([1.0]))
    assert not gradlib.equal(x, t([[1.0, 2.0]]))
    assert gradlib.equal(t([]), t([]))
    many = gradlib.zeros(3, 3000)
    for place in ((0, 0), (0, 70), (2, 2999)):
        other = gradlib.zeros(3, 3000)
        assert gradlib.equal(many.mT, other.mT)
        other[place] = float("nan")
        assert not gradlib.equal(many, other)
        assert not gradlib.equal(other.mT, other.mT)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_the_distance_of_integers_does_not_wrap(dtype: str) -> None:
    limits = gradlib.iinfo(gradlib.zeros((), dtype=dtype).dtype)
    a = gradlib.tensor([limits.min, limits.min, limits.max, 1, 2], dtype=dtype)
    b = gradlib.tensor([limits.max, limits.min, limits.max - 1, 2, 1], dtype=dtype)
    assert gradlib.isclose(a, b, rtol=0.0, atol=0.5).tolist() == [False, True, False, False, False]
    assert gradlib.isclose(a, b, rtol=0.0, atol=1.0).tolist() == [False, True, True, True, True]


def test_in_compares_as_the_operator_does() -> None:
    for name in ("float16", "bfloat16", "float32", "float64"):
        x = t([0.1, 2.0], dtype=name)
        assert [0.1 in x, np.float64(0.1) in x, 2 in x, t(0.1, dtype=name) in x, 0.3 in x, True in x] == [True] * 4 + [False] * 2
    assert t([1, 2]) in t([[0, 2], [3, 4]])
    assert 1j not in gradlib.ones(2, 0)
    for value in (None, "1", [1.0], (1.0,), object()):
        with pytest.raises(RuntimeError, match="__contains__ only supports Tensor or scalar"):
            value in t([1.0])  # noqa: B015
    with pytest.raises(RuntimeError, match="do not fit together"):
        t([1, 2, 3]) in t([[1, 2]])  # noqa: B015
