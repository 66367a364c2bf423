"""``check_derivatives``: right derivatives pass, and one that is wrong by 0.1 % fails, in each precision that can show it."""

from __future__ import annotations

import pytest

import gradlib
from gradlib.autograd import Function, GradcheckError
from gradlib.autograd.adaptive_check import check_derivatives

pytestmark = pytest.mark.host

FUNCTIONS = {
    "sin": (gradlib.sin, -3, 3),
    "exp": (lambda x: gradlib.exp(5 * x), -2, 2),
    "log": (gradlib.log, 0.05, 5),
    "reciprocal": (lambda x: 1 / x, 0.1, 4),
    "cube": (lambda x: x**3, -3, 3),
    "abs": (gradlib.abs, -2, 2),
    "wave": (lambda x: gradlib.sin(20 * x), -3, 3),
    "small": (lambda x: 1e-4 * x * x, 0.5, 2),
    "large": (lambda x: 1e4 * x * x, 0.5, 2),
    "of_large": (gradlib.sqrt, 1e3, 1e5),
    "sum": (lambda x: x.square().sum(), -3, 3),
    "several": (lambda x: (gradlib.cumsum(x, 0), x[0] * x[1]), 0.5, 3),
}


class Off(Function):
    """The identity, whose gradient is wrong: by 0.1 %, or by a factor."""

    @staticmethod
    def forward(ctx, x, factor=1.001):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_what_is_right_passes_and_what_is_off_by_a_thousandth_fails(dtype, rng):
    wrong = []
    for name, (function, low, high) in FUNCTIONS.items():
        if dtype.startswith("complex") and name in ("abs", "wave"):
            continue
        drawn = [rng.uniform(low, high, 3) for _ in range(2)]
        x = gradlib.tensor(drawn[0] + 1j * drawn[1] if dtype.startswith("complex") else drawn[0], dtype=dtype, requires_grad=True)
        try:
            check_derivatives(function, (x,))
        except GradcheckError as error:
            wrong.append(f"{name} is right: {error}")
        try:
            check_derivatives(lambda x, function=function: function(Off.apply(x)), (x,))
            wrong.append(f"{name} is off by 0.1 %")
        except GradcheckError:
            pass
    assert not wrong


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_show_what_they_can(dtype, rng):
    x = gradlib.tensor(rng.uniform(0.5, 2, 3)).to(dtype).requires_grad_()
    for function in (gradlib.sin, gradlib.log, lambda x: (x * x).sum()):
        check_derivatives(function, (x,))
        with pytest.raises(GradcheckError):
            check_derivatives(lambda x, function=function: function(Off.apply(x, 3.0)), (x,))


def test_second_derivatives_and_tolerances():
    x = gradlib.tensor([0.5, 1.0], dtype=gradlib.float32, requires_grad=True)
    check_derivatives(gradlib.tanh, (x,), second=True)
    off = lambda x: gradlib.tanh(Off.apply(x))  # noqa: E731
    with pytest.raises(GradcheckError, match=r"Difference .* allowed"):
        check_derivatives(off, (x,), second=True)
    check_derivatives(off, (x,), rtol=0.01)
    check_derivatives(off, (x,), atol=0.01)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_values_that_are_less_exact_than_their_dtype_raise_no_alarm(dtype, rng):
    for _ in range(10):
        x = gradlib.tensor(rng.uniform(-1, 1, 3), dtype=dtype, requires_grad=True)
        check_derivatives(lambda x: (x + 1000.0) - 1000.0, (x,))


def test_a_kink_beside_a_value_is_stepped_around():
    x = gradlib.tensor([0.001, -0.001, 1.0], dtype=gradlib.float32, requires_grad=True)
    check_derivatives(gradlib.relu, (x,))
