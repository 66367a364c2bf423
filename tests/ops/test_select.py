"""Pointwise choices: ties, NaN, bounds, and branches that must not leak."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlib
from tests.ops.case import t
from tests.values import host


def grads(function: Any, *values: Any) -> list[Any]:
    inputs = [t(v, gradlib.float64, True) for v in values]
    return [g.tolist() for g in gradlib.autograd.grad(function(*inputs).sum(), inputs)]


# ---- where ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.nonfinite
def test_where_keeps_the_branch_not_taken_out_of_the_gradient() -> None:
    x = t([0.0, 4.0], gradlib.float64, True)
    safe = gradlib.where(x > 0, x, 1.0)
    gradlib.where(x > 0, 1 / gradlib.sqrt(safe), 0.0).sum().backward()
    assert x.grad.tolist() == [0, -0.0625]
    a, b = t([1.0, 2.0], requires_grad=True), t([3.0, 4.0], requires_grad=True)
    gradlib.where(t([True, False]), a, b).backward(t([math.inf, math.nan]))
    assert a.grad.tolist() == [math.inf, 0]
    assert b.grad[0] == 0
    assert math.isnan(b.grad[1])


def test_where_keeps_bfloat16() -> None:
    x = t([1.0, 2.0], gradlib.bfloat16)
    chosen, raw = gradlib.where(x > 1, x, x + 1), gradlib.where((x > 1)._array, x._array, x._array)
    assert (chosen.dtype, chosen.tolist(), raw.dtype) == (gradlib.bfloat16, [2, 2], gradlib.bfloat16)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (([1.0],), ([2],), "float32"), (([1.0],), ([2.0], "float64"), "float64"), (([1],), 2.5, "float32"), (([1], "int8"), 2, "int8"),
        (1, 2, "int64"), (1.0, 2, "float32"), (([True],), 1, "int64"), (([1.0], "float16"), 2.0, "float16"), (([1.0],), 1j, "complex64"),
    ],
)  # fmt: skip
def test_where_promotes_its_branches(first: Any, second: Any, result: str) -> None:
    """A branch is a number, or what makes a tensor."""
    condition = t([True])
    first, second = (t(*branch) if isinstance(branch, tuple) else branch for branch in (first, second))
    assert gradlib.where(condition, first, second).dtype.name == result
    assert gradlib.where(condition, second, first).dtype.name == result


def test_where_takes_a_mask() -> None:
    x = t([1.0, 2.0])
    with pytest.raises(RuntimeError, match="boolean tensor, but got a tensor with dtype int64"):
        gradlib.where(t([1, 0]), x, x)
    assert gradlib.where(t([1, 0], "uint8"), x, 0.0).tolist() == [1, 0]
    assert x.where(x > 1, -1).tolist() == [-1, 2]
    assert gradlib.where(t(True), x, 0).tolist() == [1, 2]
    assert [i.tolist() for i in gradlib.where(t([[True, False], [True, True]]))] == [[0, 1, 1], [0, 0, 1]]


# ---- the larger or smaller of two -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("maximum", [0, 0.5, 1], [1, 0.5, 0]), ("minimum", [1, 0.5, 0], [0, 0.5, 1]),
        ("fmax", [0, 1, 1], [1, 0, 0]), ("fmin", [1, 1, 0], [0, 0, 1]),
    ],
)  # fmt: skip
def test_gradient_is_shared_among_ties(name: str, first: list[float], second: list[float]) -> None:
    assert grads(getattr(gradlib, name), [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]) == [first, second]


@pytest.mark.nonfinite
def test_nan_wins_or_is_left_out() -> None:
    a, b = [math.nan, 1.0, math.nan], [1.0, math.nan, math.nan]
    for name in ("maximum", "minimum"):
        function = getattr(gradlib, name)
        assert function(t(a), t(b)).isnan().tolist() == [True, True, True]
        assert grads(function, a, b) == [[1, 1, 1], [1, 1, 1]]
    for name in ("fmax", "fmin"):
        function = getattr(gradlib, name)
        found = function(t(a), t(b))
        assert found[:2].tolist() == [1, 1]
        assert found[2].isnan()
        assert grads(function, a, b) == [[0, 1, 1], [1, 0, 0]]


def test_operands_of_several_dtypes() -> None:
    assert gradlib.maximum(t([1.5]), t([2])).dtype == gradlib.float32
    assert gradlib.maximum(t([True]), t([False])).tolist() == [True]
    assert gradlib.fmin(t([1]), t([2], "int8")).dtype == gradlib.int64
    for name in ("maximum", "minimum", "fmax", "fmin"):
        with pytest.raises(RuntimeError, match=f"{name} is not implemented for complex64"):
            getattr(gradlib, name)(t([1j]), t([1j]))


# ---- clamping -----------------------------------------------------------------------------------------------------------------------


def test_the_gradient_passes_inside_the_closed_interval() -> None:
    assert grads(lambda x: x.clamp(-1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0]) == [[0, 1, 1, 1, 0]]
    assert grads(lambda x: x.clamp(min=0), [-1.0, 0.0, 1.0]) == [[0, 1, 1]]
    assert grads(lambda x: x.clip(max=0), [-1.0, 0.0, 1.0]) == [[1, 1, 0]]


def test_bounds_have_gradients_where_they_hold() -> None:
    x, low, high = [-2.0, 0.0, 2.0, 0.0], [-1.0, -1.0, -1.0, 3.0], [1.0, 1.0, 1.0, 2.0]
    assert grads(gradlib.clamp, x, low, high) == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]]
    assert gradlib.clamp(t(x), t(low), t(high)).tolist() == [-1, 0, 1, 2]
    assert grads(lambda a, m: gradlib.clamp(a, min=m), [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == [[0, 1, 1], [1, 0, 0]]
    assert grads(lambda a, m: gradlib.clamp(a, max=m), [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]) == [[1, 1, 0], [0, 0, 1]]


def test_crossed_bounds_give_the_upper_one() -> None:
    assert t([0.0, 5.0]).clamp(2, 1).tolist() == [1, 1]


@pytest.mark.nonfinite
def test_nan_passes_through() -> None:
    assert t([math.nan]).clamp(0, 1).isnan().item()
    assert t([0.5]).clamp(0, math.nan).isnan().item()
    assert grads(lambda x: x.clamp(0, 1), [math.nan]) == [[0]]


def test_bounds_promote() -> None:
    assert t([-3, 2]).clamp(0.5).tolist() == [0.5, 2]
    assert t([-3, 2]).clamp(0, 1).dtype == gradlib.int64
    assert t([-3.0], "float16").clamp(t(0.0, "float64")).dtype == gradlib.float16
    with pytest.raises(RuntimeError, match="at least one of min or max"):
        t([1.0]).clamp()
    with pytest.raises(RuntimeError, match="complex"):
        t([1j]).clamp(0)


def test_clamp_in_place() -> None:
    x = t([-2.0, 0.5, 2.0], requires_grad=True)
    y = x * 1
    assert y.clamp_(-1, 1) is y
    y.clamp_min_(0).clip_(max=0.75).clamp_max_(0.7)
    np.testing.assert_allclose(host(y), [0, 0.5, 0.7])
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        t([1, 2]).clamp_(0.5)
