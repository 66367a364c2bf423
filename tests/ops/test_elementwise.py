"""Pointwise operations of one input: dtypes, edges, in-place forms. Values and derivatives in general: the table."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes

import gradlib
from tests.values import host

TO_FLOAT = [
    "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "erf", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "angle",
]  # fmt: skip
INPLACE = [
    "abs", "absolute", "neg", "negative", "sign", "sgn", "sqrt", "rsqrt", "square", "reciprocal", "exp", "exp2", "expm1", "log",
    "log1p", "log2", "log10", "sigmoid", "erf", "sin", "cos", "tan", "asin", "arcsin", "acos", "arccos", "atan", "arctan", "sinh",
    "cosh", "tanh", "asinh", "arcsinh", "atanh", "arctanh", "floor", "ceil", "trunc", "fix", "round", "frac", "nan_to_num",
]  # fmt: skip


def grad_of(function: object, values: object) -> np.ndarray:
    x = gradlib.tensor(values, dtype=gradlib.float64, requires_grad=True)
    (g,) = gradlib.autograd.grad(function(x).sum(), x)
    return host(g)


@pytest.mark.nonfinite
@pytest.mark.parametrize("name", TO_FLOAT)
def test_integers_give_the_default_float_dtype(name: str) -> None:
    function = getattr(gradlib, name)
    for dtype in ("bool", "uint8", "int8", "int32", "int64"):
        x = gradlib.tensor([0, 1], dtype=dtype)
        found = function(x)
        assert found.dtype == gradlib.float32
        np.testing.assert_allclose(host(found), host(function(x.to(gradlib.float32))), rtol=1e-6)
    gradlib.set_default_dtype(gradlib.float64)
    try:
        assert function(gradlib.tensor([0, 1])).dtype == gradlib.float64
    finally:
        gradlib.set_default_dtype(gradlib.float32)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_leaves_integers_and_refuses_what_has_no_order(name: str) -> None:
    function = getattr(gradlib, name)
    x = gradlib.tensor([-3, 2], dtype="int8")
    found = function(x)
    assert found.dtype == gradlib.int8
    assert found.tolist() == [-3, 2]
    assert found.data_ptr() != x.data_ptr()
    for refused in (gradlib.tensor([True]), gradlib.tensor([1j])):
        with pytest.raises(RuntimeError, match=f"{name} is not implemented for (bool|complex64)"):
            function(refused)


def test_rounding_to_even_and_by_tens() -> None:
    x = gradlib.tensor([0.5, 1.5, 2.5, -0.5, -1.5])
    assert gradlib.round(x).tolist() == [0, 2, 2, 0, -2]
    np.testing.assert_allclose(host(x.mul(1.23).round(decimals=1)), [0.6, 1.8, 3.1, -0.6, -1.8], rtol=1e-6)
    assert gradlib.tensor([1234.0, -1251.0]).round(decimals=-2).tolist() == [1200, -1300]
    with pytest.raises(NotImplementedError, match="decimals"):
        gradlib.round(gradlib.tensor([1]), decimals=1)


def test_signs_of_integers_and_special_values() -> None:
    assert gradlib.sign(gradlib.tensor([True, False])).tolist() == [True, False]
    assert gradlib.sign(gradlib.tensor([-3, 0, 2], dtype="int16")).tolist() == [-1, 0, 1]
    assert gradlib.sign(gradlib.tensor([-math.inf, -0.0, math.nan])).tolist() == [-1, 0, 0]
    np.testing.assert_allclose(host(gradlib.sgn(gradlib.tensor([3 + 4j, 0j]))), [0.6 + 0.8j, 0])
    with pytest.raises(NotImplementedError, match=r"sgn\(\)"):
        gradlib.sign(gradlib.tensor([1j]))


def test_absolute_values() -> None:
    assert abs(gradlib.tensor([-3, 2], dtype="int32")).tolist() == [3, 2]
    found = gradlib.tensor([3 + 4j], dtype="complex64").abs()
    assert found.dtype == gradlib.float32
    assert found.tolist() == [5]
    with pytest.raises(RuntimeError, match="abs is not implemented for bool"):
        gradlib.abs(gradlib.tensor([True]))


def test_minus_and_plus_of_masks_are_refused() -> None:
    mask = gradlib.tensor([True])
    with pytest.raises(RuntimeError, match=r"Use ~ or logical_not\(\)"):
        operator.neg(mask)
    with pytest.raises(RuntimeError, match="bool"):
        operator.pos(mask)
    x = gradlib.tensor([1.0])
    assert +x is x
    assert (-gradlib.tensor([1, -2], dtype="uint8")).tolist() == [255, 2]


def test_square_of_a_mask_counts() -> None:
    found = gradlib.square(gradlib.tensor([True, False]))
    assert found.dtype == gradlib.int64
    assert found.tolist() == [1, 0]


def test_sigmoid_is_exact_in_both_tails() -> None:
    x = gradlib.tensor([-1000, -100, 0, 100, 1000], dtype=gradlib.float64, requires_grad=True)
    y = gradlib.sigmoid(x)
    np.testing.assert_allclose(host(y), [0, math.exp(-100), 0.5, 1, 1], rtol=1e-14)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), [0, math.exp(-100), 0.25, 0, 0], rtol=1e-14, atol=0)


def test_steps_have_zero_gradients() -> None:
    for name in ("floor", "ceil", "trunc", "round", "sign"):
        assert grad_of(getattr(gradlib, name), [0.0, 1.5, -2.0]).tolist() == [0, 0, 0]


def test_gradients_at_zero() -> None:
    assert grad_of(gradlib.abs, [0.0, -2.0, 3.0]).tolist() == [0, -1, 1]
    z = gradlib.tensor([0j, 3 + 4j], dtype="complex128", requires_grad=True)
    size = z.abs()
    (g,) = gradlib.autograd.grad(size.sum(), z, create_graph=True)
    np.testing.assert_allclose(host(g), [0, 0.6 + 0.8j])
    (second,) = gradlib.autograd.grad(g.real.sum(), z)
    np.testing.assert_allclose(host(second), [0, (0.64 - 0.48j) / 5])


@pytest.mark.nonfinite
def test_gradients_at_the_edge_of_the_domain() -> None:
    assert grad_of(gradlib.sqrt, [0.0]).tolist() == [math.inf]
    assert grad_of(gradlib.asin, [1.0]).tolist() == [math.inf]
    assert grad_of(gradlib.acosh, [1.0]).tolist() == [math.inf]
    assert grad_of(gradlib.atanh, [-1.0]).tolist() == [math.inf]
    assert grad_of(gradlib.log, [0.0]).tolist() == [math.inf]


@pytest.mark.nonfinite
def test_tests_for_special_values() -> None:
    x = gradlib.tensor([math.nan, math.inf, -math.inf, 1.0])
    assert gradlib.isnan(x).tolist() == [True, False, False, False]
    assert gradlib.isinf(x).tolist() == [False, True, True, False]
    assert gradlib.isfinite(x).tolist() == [False, False, False, True]
    z = gradlib.tensor([complex(1, math.nan), complex(math.inf, 0), 1j])
    assert z.isnan().tolist() == [True, False, False]
    assert z.isinf().tolist() == [False, True, False]
    for dtype in ("bool", "int64"):
        assert gradlib.isfinite(gradlib.tensor([0, 1], dtype=dtype)).tolist() == [True, True]


def test_nan_to_num() -> None:
    values = [math.nan, math.inf, -math.inf, 1.5]
    x = gradlib.tensor(values, dtype=gradlib.float64, requires_grad=True)
    largest = np.finfo(np.float64).max
    y = gradlib.nan_to_num(x)
    assert y.tolist() == [0, largest, -largest, 1.5]
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]
    assert gradlib.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0).tolist() == [1, 2, 3, 1.5]
    assert gradlib.nan_to_num(gradlib.tensor([complex(math.nan, math.inf)]), posinf=7.0).tolist() == [7j]
    assert gradlib.nan_to_num(gradlib.tensor([1, 2])).tolist() == [1, 2]
    signs = [math.copysign(1, gradlib.nan_to_num(gradlib.tensor([math.nan]), nan=zero).item()) for zero in (0.0, -0.0)]
    assert signs == [1, -1]
    half = gradlib.nan_to_num(gradlib.tensor([math.inf], dtype=gradlib.bfloat16))
    assert half.dtype == gradlib.bfloat16
    assert half.tolist() == [float.fromhex("0x1.fep127")]


@pytest.mark.parametrize("name", INPLACE)
def test_in_place_forms(name: str) -> None:
    values = np.array([0.3, 0.7, 0.55])
    x, y = (gradlib.tensor(values, requires_grad=True) for _ in range(2))
    written = x * 1
    same = written.detach()
    result = getattr(written, f"{name}_")()
    assert result is written
    expected = getattr(gradlib, name)(y)
    np.testing.assert_array_equal(host(same), host(expected))
    (result * 2).sum().backward()
    (expected * 2).sum().backward()
    np.testing.assert_allclose(host(x.grad), host(y.grad), rtol=1e-14)


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "sigmoid"])
def test_in_place_on_a_view_keeps_the_saved_output(name: str) -> None:
    x = gradlib.tensor([0.3, 0.7, 0.5], requires_grad=True)
    base = x * 2
    getattr(base[1:], f"{name}_")()
    base.sum().backward()
    y = gradlib.tensor([0.7, 0.5], requires_grad=True)
    getattr(gradlib, name)(y * 2).sum().backward()
    np.testing.assert_allclose(host(x.grad), [2, *host(y.grad)], rtol=1e-6)


def test_in_place_keeps_the_dtype() -> None:
    with pytest.raises(RuntimeError, match="can't be cast"):
        gradlib.tensor([1, 2]).sin_()
    x = gradlib.tensor([-1.5, 2.0])
    assert x.abs_().tolist() == [1.5, 2]


@pytest.mark.nonfinite
def test_powers_of_two_of_infinite_complex_numbers() -> None:
    inf, nan = math.inf, math.nan
    x = gradlib.tensor([complex(inf, 0), complex(-inf, 1), complex(-inf, nan), complex(3, 0)], dtype="complex128")
    np.testing.assert_array_equal(host(gradlib.exp2(x)), [complex(inf, 0), 0, 0, gradlib.exp2(x)[3].item()])
    assert gradlib.exp2(x)[3].item() == pytest.approx(8)


def test_out_is_written_and_refused() -> None:
    out = gradlib.zeros(2)
    assert gradlib.exp(gradlib.tensor([0.0, 1.0]), out=out) is out
    np.testing.assert_allclose(host(out), [1, math.e], rtol=1e-6)
    with pytest.raises(RuntimeError, match="cast"):
        gradlib.exp(gradlib.tensor([0.0]), out=gradlib.zeros(1, dtype="int64"))


def test_clone_copies_memory_and_its_order() -> None:
    x = gradlib.tensor(np.arange(6.0).reshape(2, 3)).t()
    y = x.clone()
    assert y.stride() == x.stride() == (1, 3)
    y[0, 0] = 7
    assert x[0, 0] == 0


@given(shape=array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3), name=st.sampled_from(["sin", "exp", "sigmoid", "abs", "floor"]))
def test_every_shape_is_kept(shape: tuple[int, ...], name: str) -> None:
    x = gradlib.zeros(shape, requires_grad=True)
    y = getattr(gradlib, name)(x)
    assert y.shape == shape
    y.sum().backward()
    assert x.grad.shape == shape
    assert y._array.base is None


@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float32"])
def test_results_of_an_expanded_tensor_are_contiguous(dtype: str) -> None:
    """Also where it is cast first: NumPy keeps an order of axes that an expanded array does not have."""
    x = gradlib.ones(2, 3, dtype=dtype).expand(4, 2, 3)
    calls = (gradlib.exp, gradlib.nan_to_num, lambda x: x * 2.5, lambda x: x + x, lambda x: x < 2.5, lambda x: x.double())
    for place, call in enumerate(calls):
        assert call(x).view(-1).shape == (24,), place
