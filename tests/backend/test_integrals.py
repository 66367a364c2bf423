"""The kernels of integrals between places give what the host gives, also their derivatives, and leave to the declared steps the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.integrals import integral, spread
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
CASES = [
    ((5,), (5,), -1), ((4, 9), (9,), -1), ((4, 9), (4,), 0), ((4, 9), (4, 9), 0), ((2, 70, 3), (70,), 1), ((2, 70, 3), (2, 70, 3), 1),
    ((1, 3), (1,), 0), ((4, 1), (4, 1), 1), ((2, 3), (1, 3), -1), ((3, 0), (3,), 0),
]  # fmt: skip


def drawn(of: Any, *shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(4)
    return [random.normal(size=shape).astype(of) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "places", "dim"), CASES)
def test_integrals_and_gradients_are_those_of_the_host(shape, places, dim, dtype):
    """Of half types those of float64: the kernels round once."""
    of, found = as_dtype(dtype), []
    hosts = drawn(of, shape, places)
    for place, kind in ((np.asarray, np.float64), (cupy.asarray, of)):
        y, x = (gradlib.as_tensor(place(each.astype(kind))).requires_grad_() for each in hosts)
        made = gradlib.trapezoid(y, x, dim=dim)
        assert made.dtype == kind
        g = gradlib.as_tensor(place(np.linspace(-1, 2, made.numel()).astype(of).astype(kind).reshape(made.shape)))
        spread = gradlib.autograd.grad(gradlib.trapezoid(y, x, dim=dim).sum(), [y, x])
        found.append([each.detach().double().numpy(force=True) for each in (made, *gradlib.autograd.grad(made, [y, x], g), *spread)])
    eps = float(gradlib.finfo(of).eps)
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, rtol=16 * eps, atol=64 * eps)


@pytest.mark.parametrize(("shape", "places", "dim"), CASES[:9])
def test_derivatives_on_a_device(shape, places, dim):
    y, x = (gradlib.as_tensor(cupy.asarray(each)).requires_grad_() for each in drawn(np.float64, shape, places))

    def function(y, x):
        return gradlib.trapezoid(y, x, dim=dim)

    assert gradlib.autograd.gradcheck(function, (y, x), check_forward_ad=True, check_batched_grad=True)
    assert gradlib.autograd.gradgradcheck(function, (y, x), fast_mode=True)


def test_what_the_kernels_do_not_serve_is_left_to_the_declared_steps():
    y, x = (cupy.asarray(each) for each in drawn(np.float32, (4, 9), (9,)))
    made, apart, pairs = integral(y, x, 1)
    assert (made.shape, apart.shape, pairs.shape) == ((4,), (8,), (4, 8))
    for given in ((y.T, x, 0), (y, x[:8], 1), (y, x.astype("float64"), 1), (y, x[::-1], 1), (y.astype("int64"), x.astype("int64"), 1)):
        assert integral(*given) is None
    assert spread(apart, 1, made, y.shape, 1.0) is not None
    for given in ((x, 1, made), (pairs[:, ::2], 1, made), (apart, 1, made[:2]), (apart.astype("int64"), 1, made)):
        assert spread(*given, y.shape, 1.0) is None
    expected = gradlib.trapezoid(gradlib.as_tensor(y.get()), gradlib.as_tensor(x.get()))
    tensors = gradlib.as_tensor(y.copy(order="F")), gradlib.as_tensor(x[::-1].copy()[::-1])
    made = gradlib.trapezoid(*tensors)
    np.testing.assert_allclose(made.numpy(force=True), expected.numpy(), rtol=1e-5)
