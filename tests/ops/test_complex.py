"""Complex parts: views, what real tensors give, gradients in torch's convention, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlib
from tests.ops.case import t
from tests.values import host


def test_parts_are_views() -> None:
    z = t([1 + 2j, 3 + 4j])
    z.real.mul_(10)
    z.imag[0] = 7
    assert z.tolist() == [10 + 7j, 30 + 4j]
    assert z.real._base is z
    assert z.imag._version == z._version == 2
    assert z.real.dtype == gradlib.float32
    z.real = t([0.0, 1.0])
    z.imag = 5.0
    assert z.tolist() == [5j, 1 + 5j]


def test_writing_a_part_is_recorded() -> None:
    x = t([2.0, 3.0], gradlib.float64, True)
    z = gradlib.complex(x, x) * 1
    z.imag.copy_(x * x)
    (z.real * z.imag).sum().backward()
    np.testing.assert_allclose(host(x.grad), [12, 27])


def test_real_tensors() -> None:
    x = t([1.0, -2.0])
    assert gradlib.real(x) is x
    assert x.real is x
    assert gradlib.conj(x) is x
    assert x.conj() is x
    assert gradlib.resolve_conj(x) is x
    for wrong in (lambda: x.imag, lambda: gradlib.imag(t([1]))):
        with pytest.raises(RuntimeError, match="non-complex dtypes"):
            wrong()


def test_gradients_follow_torchs_convention() -> None:
    z = t([1 + 2j, -3 + 1j], "complex128", True)
    for value, want in (
        (z.real.sum(), [1, 1]),
        (z.imag.sum(), [1j, 1j]),
        ((z * z.conj()).real.sum(), [2 + 4j, -6 + 2j]),
        (z.abs().square().sum(), [2 + 4j, -6 + 2j]),
        ((z * z).real.sum(), [2 - 4j, -6 - 2j]),
        (z.angle().sum(), [1j * (1 + 2j) / 5, 1j * (-3 + 1j) / 10]),
    ):
        (g,) = gradlib.autograd.grad(value, z, retain_graph=True)
        np.testing.assert_allclose(host(g), want, rtol=1e-12)


def test_second_derivative_through_a_choice_of_complex_numbers() -> None:
    """The gradient that arrives at ``complex`` is complex although its inputs are real."""
    x = t([2.0], gradlib.float64, True)
    z = gradlib.where(t([True]), gradlib.complex(x * x, x * x * x), 0j)
    (z * (1 - 2j)).real.sum().backward()
    np.testing.assert_allclose(host(x.grad), [4 + 2 * 12])


@pytest.mark.nonfinite
def test_infinite_gradient_of_the_imaginary_part_stays_imaginary() -> None:
    z = t([1 + 2j], "complex128", True)
    z.imag.backward(t([math.inf], gradlib.float64))
    assert z.grad.real.tolist() == [0]
    assert z.grad.imag.tolist() == [math.inf]


@pytest.mark.nonfinite
def test_angles_of_real_numbers() -> None:
    found = gradlib.angle(t([1.0, -1.0, 0.0, -0.0, math.nan]))
    np.testing.assert_allclose(host(found), np.float32([0, np.pi, 0, 0, np.nan]))
    assert gradlib.angle(t([-3, 2])).dtype == gradlib.float32
    x = t([-1.0, 0.0, 2.0], requires_grad=True)
    x.angle().sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_angle_at_zero() -> None:
    z = t([0j, 2j], "complex128", True)
    z.angle().sum().backward()
    np.testing.assert_allclose(host(z.grad), [0, -0.5])


def test_complex_from_parts() -> None:
    assert gradlib.complex(t([1.0]), t([2.0])).dtype == gradlib.complex64
    assert gradlib.complex(t(1.0, "float64"), t([[2.0], [3.0]], "float64")).shape == (2, 1)
    for real, imag in ((t([1.0]), t([1.0], "float64")), (t([1]), t([1])), (t([1.0], "float16"), t([1.0], "float16"))):
        with pytest.raises(RuntimeError, match="both parts must be float32 or both float64"):
            gradlib.complex(real, imag)
    with pytest.raises(TypeError, match=r"'imag'.* must be Tensor, not float"):
        gradlib.complex(t([1.0]), 2.0)


def test_conjugate_in_place() -> None:
    z = t([1 + 2j], "complex128", True)
    y = z * 1
    y.conj_physical_()
    assert y.tolist() == [1 - 2j]
    (y * 1j).real.sum().backward()
    assert z.grad.tolist() == [1j]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16"])
def test_the_conjugate_of_real_elements_keeps_their_dtype(dtype: str) -> None:
    x = gradlib.tensor([1, 0, 1], dtype=dtype)
    assert gradlib.conj_physical(x) is x
    x.conj_physical_()
    assert x.dtype == dtype
    assert x.tolist() == [1, 0, 1]


PARTS = [0.0, -0.0, 1.0, -2.0, 1e-30, 1e30, math.inf]
DIVISORS = [complex(a, b) for a in PARTS for b in PARTS]


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_by_zero_infinity_and_numbers_far_from_one(dtype: str) -> None:
    """NumPy's, on every device."""
    for number in (1 + 2j, 0j, 3 + 0j, complex(math.inf, 1)):
        a, b = np.full(len(DIVISORS), number, dtype), np.array(DIVISORS, dtype)
        x, y = t(a), t(b)
        real = y.real.contiguous()
        in_place = x.clone()
        in_place /= y
        for made, right in [
            (x / y, a / b), (in_place, a / b), (x.clone().div_(y), a / b), (x / real, a / b.real.astype(dtype)),
            (real / x, b.real.astype(dtype) / a), (3 / y, np.asarray(3, dtype) / b), (x / 0, a / np.zeros((), dtype)),
            (y.reciprocal(), 1 / b), (x.expand(2, -1).T / y[:, None], (a / b)[:, None].repeat(2, 1)),
        ]:  # fmt: skip
            for part in ("real", "imag"):
                np.testing.assert_allclose(getattr(host(made), part), getattr(right, part), rtol=1e-5 if dtype == "complex64" else 1e-14)


@pytest.mark.nonfinite
@pytest.mark.parametrize("function", [gradlib.log, gradlib.log2, gradlib.log10])
def test_the_logarithm_of_zero_is_infinite_in_its_real_part_alone(function: Any) -> None:
    x = t([0j, complex(math.inf, 1)], gradlib.complex128)
    assert function(x).real.tolist() == [-math.inf, math.inf]
    assert function(x).imag.tolist() == [0, 0]


@pytest.mark.nonfinite
def test_gradients_by_an_infinite_divisor_are_zero() -> None:
    x, y = t([1 + 2j, 3j], requires_grad=True), t([math.inf, 2j], gradlib.complex64)
    (slope,) = gradlib.autograd.grad((x / y).abs().sum(), x)
    np.testing.assert_allclose(host(slope), [0, 0.5j], atol=1e-6)


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh", "atanh", "log", "sqrt"])
def test_on_a_branch_cut_the_slope_is_that_of_the_side_which_a_zeros_sign_tells(name: str) -> None:
    """Each number stays on its side of the cut as it moves along it. torch's slopes of some of these are the other side's."""
    function = getattr(gradlib, name)
    along = 1j if name == "asinh" else 1
    points = [complex(x, zero) if along == 1 else complex(zero, x) for x in (2.0, 0.5, -0.5, -2.0) for zero in (0.0, -0.0)]
    z = t(points, gradlib.complex128, True)
    (slope,) = gradlib.autograd.grad(function(z).sum(), z, t(1 + 0j, gradlib.complex128))
    step = 1e-6
    ahead, behind = z.detach().clone(), z.detach().clone()
    for moved, by in ((ahead, step), (behind, -step)):
        (moved.real if along == 1 else moved.imag).add_(by)  # the other part keeps the sign of its zero
    quotient = (host(function(ahead)) - host(function(behind))) / (2 * step * along)
    np.testing.assert_allclose(host(slope), quotient.conj(), rtol=1e-6, atol=1e-8)


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_is_exact_near_zero_and_numpys_elsewhere(dtype: str) -> None:
    small = np.array([1e-20, -1e-20, 1e-9 + 1e-30j, 3e-8j, 1e-30 + 1e-5j, complex(-0.0, -0.0), 1e-37 - 1e-37j], dtype)
    made = host(gradlib.log1p(t(small)))
    np.testing.assert_allclose(made, small - small**2 / 2 + small**3 / 3, rtol=1e-6 if dtype == "complex64" else 1e-14)
    assert np.signbit(made[5].imag)
    others = [complex(-3, -0.0), complex(1e-20, math.inf), complex(-math.inf, -0.0), complex(math.nan, 1)]
    given = np.array([-1, -3, 2 - 1j, math.inf, -0.5 + 0.8j, *others], dtype)
    np.testing.assert_allclose(host(gradlib.log1p(t(given))), np.log1p(given), rtol=1e-5 if dtype == "complex64" else 1e-14)
