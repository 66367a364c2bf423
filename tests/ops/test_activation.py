"""Activation functions: kinks, tails, half precision, in place; dropout's statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.ops import activation
from tests.ops.case import t
from tests.values import host

SMOOTH = [activation.gelu, lambda x: activation.gelu(x, approximate="tanh"), activation.silu, activation.softplus, activation.logsigmoid]


def slope(function: Any, values: list[float]) -> list[float]:
    x = t(values, gradlib.float64, True)
    function(x).sum().backward()
    return x.grad.tolist()


def test_slopes_at_the_kink() -> None:
    assert slope(gradlib.relu, [-1.0, 0.0, 1.0]) == [0, 0, 1]
    assert slope(lambda x: activation.leaky_relu(x, 0.25), [-1.0, 0.0, 1.0]) == [0.25, 0.25, 1]
    assert slope(lambda x: activation.elu(x, 2.0), [0.0, 1.0]) == [2, 1]
    assert slope(lambda x: activation.softplus(x, 1.0, 20.0), [20.0, 20.5])[1] == 1


@pytest.mark.nonfinite
def test_relu_of_nan_and_its_masked_gradient() -> None:
    assert gradlib.relu(t([math.nan])).isnan().item()
    x = t([-1.0, 1.0], requires_grad=True)
    gradlib.relu(x).backward(t([math.nan, 2.0]))
    assert x.grad.tolist() == [0, 2]


@pytest.mark.parametrize("function", [*SMOOTH, activation.elu, activation.leaky_relu, gradlib.relu])
def test_far_tails_stay_finite(function: Any) -> None:
    """Under the tests' rule that NumPy's floating errors raise."""
    for dtype in (gradlib.float32, gradlib.float64):
        x = t([-1e4, -100.0, 100.0, 1e4], dtype, True)
        y = function(x)
        y.sum().backward()
        assert np.isfinite(host(y)).all()
        assert np.isfinite(host(x.grad)).all()
    np.testing.assert_allclose(host(activation.softplus(t([-100.0], gradlib.float64))), [math.exp(-100)], rtol=1e-12)
    np.testing.assert_allclose(host(activation.logsigmoid(t([100.0], gradlib.float64))), [-math.exp(-100)], rtol=1e-12)


@pytest.mark.parametrize("function", [*SMOOTH, activation.elu, activation.leaky_relu])
def test_half_types_are_computed_in_single(function: Any) -> None:
    values = np.linspace(-4, 4, 33)
    for dtype, tolerance in ((gradlib.float16, 1e-3), (gradlib.bfloat16, 8e-3)):
        x = t(values, dtype)
        found = function(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(host(found.to(gradlib.float32)), host(function(x.to(gradlib.float32))), rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "gelu", "silu", "softplus", "logsigmoid"])
def test_integers_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name} is not implemented for int64"):
        getattr(activation, name)(t([1]))


def test_relu_of_integers() -> None:
    found = gradlib.relu(t([-2, 3], "int8"))
    assert found.dtype == gradlib.int8
    assert found.tolist() == [0, 3]
    with pytest.raises(RuntimeError, match="relu is not implemented for bool"):
        gradlib.relu(t([True]))


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "silu"])
def test_in_place(name: str) -> None:
    function = getattr(activation, name)
    x, y = (t([-1.5, 0.5, 2.0], gradlib.float64, True) for _ in range(2))
    written = x * 1
    assert function(written, inplace=True) is written
    written.sum().backward()
    expected = function(y)
    expected.sum().backward()
    np.testing.assert_array_equal(host(written), host(expected))
    np.testing.assert_allclose(host(x.grad), host(y.grad))


def test_gelu_knows_two_forms() -> None:
    with pytest.raises(RuntimeError, match="either none or tanh, got 'erf'"):
        activation.gelu(t([1.0]), approximate="erf")


def test_dropout_drops_and_rescales() -> None:
    x = gradlib.ones(100, 100, requires_grad=True)
    y = activation.dropout(x, 0.25)
    kept = host(y) != 0
    assert 0.73 < kept.mean() < 0.77
    np.testing.assert_allclose(host(y)[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(host(x.grad), host(y))


def test_dropout_follows_the_seed_and_keeps_the_dtype() -> None:
    for dtype in (gradlib.float16, gradlib.bfloat16, gradlib.float64, gradlib.complex64):
        x = gradlib.ones(50, dtype=dtype)
        gradlib.manual_seed(5)
        first = activation.dropout(x)
        gradlib.manual_seed(5)
        assert first.dtype == dtype
        assert activation.dropout(x).tolist() == first.tolist()
        assert set(first.tolist()) == {0, 2}


def test_dropout_at_its_limits() -> None:
    x = gradlib.ones(4)
    assert activation.dropout(x, 0.0) is x
    assert activation.dropout(x, 0.5, training=False) is x
    assert activation.dropout(x, 1.0).tolist() == [0, 0, 0, 0]
    assert activation.dropout(x, 1.0, inplace=True) is x
    assert x.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        activation.dropout(x, 1.5)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_dropout_refuses_integers_where_it_would_divide_them(dtype: str) -> None:
    x = gradlib.ones(4, dtype=dtype)
    for inplace in (False, True):
        with pytest.raises(RuntimeError, match=f"can't be cast to the dtype of its input, {dtype}"):
            activation.dropout(x, 0.3, inplace=inplace)
    with pytest.raises(RuntimeError, match="can't be cast"):
        gradlib.vmap(lambda row: activation.dropout(row, 0.3), randomness="different")(x.reshape(2, 2))
    assert activation.dropout(x, 0.0) is x
    assert activation.dropout(x, 1.0).tolist() == [0, 0, 0, 0]
    assert activation.dropout(x, 0.5, training=False) is x


@pytest.mark.parametrize("function", [gradlib.relu, activation.leaky_relu])
def test_second_derivatives_of_what_is_bent_once_are_zeros(function: Callable[[Any], Any]) -> None:
    """As in torch: zeros that are part of the graph, where code that differentiates twice would else be refused."""
    x = gradlib.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    (slope,) = gradlib.autograd.grad(function(x).sum(), x, create_graph=True)
    assert slope.requires_grad
    assert gradlib.autograd.grad(slope.sum(), x)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("alpha", [1.0, 2.0, -0.5])
def test_the_second_derivative_of_elu_at_zero_is_zero(alpha: float) -> None:
    """As in torch; the first is that of the side below."""
    x = gradlib.tensor([-1.0, 0.0, -0.0, 2.0], dtype="float64", requires_grad=True)
    (slope,) = gradlib.autograd.grad(activation.elu(x, alpha).sum(), x, create_graph=True)
    below = alpha * math.exp(-1)
    np.testing.assert_allclose(host(slope), [below, alpha, alpha, 1])
    np.testing.assert_allclose(host(gradlib.autograd.grad(slope.sum(), x)[0]), [below, 0, 0, 0])


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gelu_by_tanh_far_out(dtype: str) -> None:
    """Where the square of the input overflows."""
    large = 6e4 if dtype == "float16" else 3e38
    x = gradlib.tensor([large, -large, 300.0], dtype=dtype, requires_grad=True)
    (slope,) = gradlib.autograd.grad(gradlib.nn.functional.gelu(x, approximate="tanh"), x, gradlib.ones_like(x))
    np.testing.assert_array_equal(host(slope), [1, 0, 1])


@pytest.mark.nonfinite
def test_elu_is_zero_at_zero_whatever_its_limit() -> None:
    assert gradlib.nn.functional.elu(gradlib.tensor([0.0, 1.0]), math.inf).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["elu", "gelu", "silu", "softplus", "smooth_l1_loss", "huber_loss"])
def test_slopes_of_many_numbers_are_those_of_few(name: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(2000) * rng.choice([0.1, 1, 5, 30], 2000)).astype(np.float32)
    values[:10] = 0, -0.0, math.nan, 1, -1, 17, 20, -87, -120, 120
    function, more = getattr(gradlib.nn.functional, name), {"reduction": "none"} if "loss" in name else {}

    def slope(part: np.ndarray) -> np.ndarray:
        x = gradlib.tensor(part, requires_grad=True)
        y = function(x, gradlib.zeros_like(x), **more) if more else function(x)
        return host(gradlib.autograd.grad(y.sum(), x)[0])

    with np.errstate(over="ignore", invalid="ignore"):
        few = np.concatenate([slope(part) for part in np.split(values, 20)])
        assert np.allclose(slope(values), few, rtol=2e-6, atol=5e-7, equal_nan=True)
