"""The kernels for gradients of norms, extremes and softmax give what the host gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import line_slopes
from gradlib.backend.dtype import as_dtype
from gradlib.backend.line_layout import LONGEST
from gradlib.ops import minmax, reduce, softmax, sort
from gradlib.ops.linalg import norms
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

CASES: dict[str, Callable[..., Any]] = {
    "norm": lambda x, dim: gradlib.linalg.vector_norm(x, 2, dim), "norm of all": lambda x, dim: x.norm(),
    "norm 1": lambda x, dim: gradlib.linalg.vector_norm(x, 1, dim), "norm 3": lambda x, dim: gradlib.linalg.vector_norm(x, 3, dim, True),
    "norm 0.5 of all": lambda x, dim: gradlib.linalg.vector_norm(x, 0.5), "norm -2": lambda x, dim: gradlib.linalg.vector_norm(x, -2, dim),
    "norm inf": lambda x, dim: x.norm(np.inf, dim), "norm -inf of all": lambda x, dim: x.norm(-np.inf),
    "amax": lambda x, dim: x.amax(dim), "amin, kept": lambda x, dim: x.amin(dim, True), "amax of two": lambda x, dim: x.amax((0, 1)),
    "max": lambda x, dim: x.max(dim).values, "min, kept": lambda x, dim: x.min(dim, True).values, "max of all": lambda x, dim: x.max(),
    "median": lambda x, dim: x.median(dim).values, "median of all": lambda x, dim: x.median(), "min of all": lambda x, dim: x.min(),
    "kthvalue": lambda x, dim: x.kthvalue(2, dim).values, "softmax": lambda x, dim: x.softmax(dim),
    "prod": lambda x, dim: (x * 2).prod(dim), "prod of all": lambda x, dim: x.prod(),
    "log_softmax": lambda x, dim: x.log_softmax(dim), "logsumexp": lambda x, dim: x.logsumexp(dim),
}  # fmt: skip


def drawn(missing: bool) -> Any:
    """Numbers of which many are equal; a line of zeros, and where asked some NaN."""
    host = np.random.default_rng(5).integers(-4, 5, (3, 5, 40)) / 4.0
    host[1, 2] = 0
    if missing:
        host[0, 0, :3] = host[2, 4, 7] = np.nan
    return host


@pytest.mark.parametrize("missing", [False, True], ids=["numbers", "NaN"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.nonfinite
def test_gradients_are_those_of_the_host_by_a_kernel(name, dim, dtype, missing, monkeypatch):
    case, results, asked, run = CASES[name], [], [], line_slopes.slope
    for module in (minmax, reduce, softmax, norms):
        monkeypatch.setattr(module, "slope", lambda *args: asked.append(run(*args)) or asked[-1])
    host = drawn(missing).astype(as_dtype(dtype))
    with np.errstate(all="ignore"):
        for place in (lambda x: x, cupy.asarray):
            x = gradlib.as_tensor(place(host)).requires_grad_()
            made = case(x, dim)
            weights = gradlib.as_tensor(place(np.linspace(-1, 2, made.numel()).reshape(made.shape).astype(host.dtype)))
            ones, one = gradlib.ones_like(made), case(x, dim).sum()  # whose gradient is one number for all
            results.append([gradlib.autograd.grad(*each, retain_graph=True)[0] for each in ((made, x, weights), (made, x, ones), (one, x))])
    assert len(asked) == 3
    assert all(each is not None for each in asked)
    eps = float(gradlib.finfo(host.dtype).eps)
    for expected, found in zip(*results, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        a, b = (each.double().numpy(force=True) for each in (found, expected))
        np.testing.assert_allclose(a, b, rtol=16 * eps, atol=16 * eps)


def test_only_what_is_served_is_computed():
    x = cupy.asarray(drawn(False))
    g, out = cupy.ones((3, 40)), x.max(1)
    assert line_slopes.slope("extreme", g, x.shape, 1, x, out) is not None
    for given, shape, axis, other, result in (
        (g[:, ::2], x.shape, 1, x, out), (g.astype("f"), x.shape, 1, x, out), (g, x.shape, 1, x.astype("f"), out), (g, x.shape, 2, x, out),
        (g, x.shape, 1, x, out[:, ::-1]), (g, x.shape, 1, x, out[:2]), (g.get(), x.shape, 1, x, out),
        (cupy.ones(1), (LONGEST + 1,), 0, cupy.ones(LONGEST + 1), cupy.ones(1)),
        (g.astype("l"), x.shape, 1, x.astype("l"), out.astype("l")),
    ):  # fmt: skip
        assert line_slopes.slope("extreme", given, shape, axis, other, result) is None
    slopes = [line_slopes.slope("extreme", g, x.shape, 1, each, out) for each in (x, x[:, ::-1])]  # of which a copy is made
    assert np.array_equal(slopes[0].get(), slopes[1].get()[:, ::-1])
    assert sort.picked_on_device([g, None], x.argmax(1).astype("i"), 1, False, x.shape) is None


@pytest.mark.nonfinite
def test_products_that_are_0_or_not_finite_have_the_gradients_of_the_host():
    rows = [[2, 3, 4], [0, 3, 4], [0, 3, 0], [np.inf, 3, 4], [np.inf, 0, 4], [1e-30, 1e-30, 1], [1e30, 1e30, 1e-30], [np.nan, 0, 1]]
    found = []
    for device in ("cpu", "cuda"):
        x = gradlib.tensor(rows, device=device, requires_grad=True)
        with np.errstate(all="ignore"):
            x.prod(1).sum().backward()
        found.append(x.grad.numpy(force=True))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.nonfinite
@pytest.mark.parametrize("order", [-2, 0.5, 3])
def test_what_is_not_finite_reaches_zeros_as_on_the_host(order):
    """Of which second derivatives are made."""
    rows = [[0, 1, -2], [0, np.inf, 1], [0, np.nan, 1], [1, 2, np.inf], [0, 0, 0], [1, 0, 3]]
    found = []
    for device in ("cpu", "cuda"):
        x = gradlib.tensor(rows, device=device, requires_grad=True)
        with np.errstate(all="ignore"):
            given = gradlib.tensor([1, 1, 1, 1, np.nan, np.nan], dtype=x.dtype, device=device)
            (first,) = gradlib.autograd.grad(gradlib.linalg.vector_norm(x, order, 1), x, given, create_graph=True)
            (second,) = gradlib.autograd.grad((first * gradlib.arange(1, 4, device=device)).sum(), x)
        found.append([first.numpy(force=True), second.numpy(force=True)])
    for host, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, host, rtol=1e-5)
