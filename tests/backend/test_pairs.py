"""The kernels for the distances of pairs of points give what the host gives, also their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib
from gradlib.backend import pairs
from gradlib.backend.dtype import as_dtype
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
NORMS = [0, 1, 2, 0.5, 1.5, 3, math.inf]


def points() -> tuple[np.ndarray, np.ndarray]:
    """Two sets of points, of which two coincide and some share coordinates."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 4, 3))
    y[0, 1], y[1, 2, :2] = x[0, 2], x[1, 0, :2]
    return x, y


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("p", NORMS)
def test_distances_and_gradients_are_those_of_the_host(p, dtype):
    results = []
    for place in (lambda x: x, cupy.asarray):
        x, y = (gradlib.as_tensor(place(each.astype(as_dtype(dtype)))).requires_grad_() for each in points())
        made = gradlib.cdist(x, y, p)
        weights = gradlib.as_tensor(place(np.linspace(-1, 2, 40).reshape(2, 5, 4).astype(x.dtype)))
        one = gradlib.autograd.grad(gradlib.cdist(x, y, p).sum(), (x, y))  # whose gradient is one number for all
        results.append([made, *gradlib.autograd.grad(made, (x, y), weights), *one])
    eps = float(gradlib.finfo(as_dtype(dtype)).eps)
    for expected, found in zip(*results, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        a, b = (each.detach().double().numpy(force=True) for each in (found, expected))
        np.testing.assert_allclose(a, b, rtol=64 * eps, atol=64 * eps)
    assert pairs.distances(x._array, y._array, p) is not None


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_second_derivatives_are_those_of_the_host(p):
    results = []
    for place in (lambda x: x, cupy.asarray):
        x, y = (gradlib.as_tensor(place(each + k)).requires_grad_() for k, each in enumerate(points()))
        slopes = gradlib.autograd.grad((gradlib.cdist(x, y, p) ** 2).sum(), (x, y), create_graph=True)
        made = gradlib.autograd.grad(sum((slope * slope).sum() for slope in slopes), (x, y))
        results.append([each.numpy(force=True) for each in made])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_only_what_is_served_is_computed():
    x, y = map(cupy.asarray, points())
    turned = cupy.asarray(np.swapaxes(points()[1], 1, 2)).swapaxes(1, 2)
    for given in (turned, y[:1], y.astype("float32"), y[..., :2].copy(), y[:, :0]):
        assert pairs.distances(x, given, 2.0) is None
    made = pairs.distances(x, y, 2.0)
    for g in (made.astype("float32"), made[:, ::2], cupy.broadcast_to(made[:1], made.shape)):
        assert pairs.slope(g, x, y, made, 2.0, False) is None
    for given in (turned, y[:, ::2], cupy.broadcast_to(y[:1], y.shape)):  # which the declared formula serves
        host = gradlib.cdist(*(gradlib.as_tensor(each.get()) for each in (x, given)), 3.0)
        found = gradlib.cdist(gradlib.as_tensor(x), gradlib.as_tensor(given), 3.0)
        np.testing.assert_allclose(found.numpy(force=True), host.numpy(), rtol=1e-12)
