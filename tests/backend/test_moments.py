"""The kernels for variances, normalised rows and means without NaN give what the host gives, also their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import moments
from gradlib.backend.dtype import as_dtype
from gradlib.backend.line_layout import LONGEST
from gradlib.backend.reducing import folded
from gradlib.nn import functional
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
DTYPES = ["float16", "bfloat16", "float32", "float64"]
DIMS = [None, 0, 1, -1, (0, 1), (1, 2), (0, 2)]

CASES: dict[str, Callable[..., Any]] = {
    "var": lambda x, dim: x.var(dim), "var, kept": lambda x, dim: x.var(dim, correction=0.5, keepdim=True),
    "std": lambda x, dim: x.std(dim, correction=0), "std_mean": lambda x, dim: gradlib.std_mean(x, dim)[0],
    "nansum": lambda x, dim: x.nansum(dim), "nanmean": lambda x, dim: x.nanmean(dim, keepdim=True),
    "trapezoid": lambda x, dim: gradlib.trapezoid(x, dim=dim if isinstance(dim, int) else 1, dx=0.5),
    "layer_norm, affine": lambda x, dim: functional.layer_norm(x, (40,), x[0, 0], x[0, 1]),
    "norm": lambda x, dim: gradlib.linalg.vector_norm(x, 2, dim), "norm, kept": lambda x, dim: gradlib.linalg.vector_norm(x, 2, dim, True),
    "norm, 1": lambda x, dim: gradlib.linalg.vector_norm(x, 1, dim),
    "layer_norm": lambda x, dim: functional.layer_norm(x, x.shape[1:] if isinstance(dim, tuple) else x.shape[2:]),
}  # fmt: skip


def drawn(name: str) -> Any:
    """Numbers among which one line over the last dimension is all the same."""
    host = np.random.default_rng(11).normal(size=(3, 7, 40))
    host[1, 2] = 0.5
    if name.startswith("norm"):
        host[2, 3] = 0
    if name.startswith("nan"):
        host[host > 1.5], host[0, 3] = np.nan, np.nan
    return host


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_host(name, dim, dtype):
    case, results = CASES[name], []
    host = drawn(name).astype(as_dtype(dtype))
    with np.errstate(all="ignore"):
        for place in (lambda x: x, cupy.asarray):
            x = gradlib.as_tensor(place(host)).requires_grad_()
            made = case(x, dim)
            weights = gradlib.as_tensor(place(np.linspace(-1, 2, made.numel()).reshape(made.shape).astype(host.dtype)))
            one = gradlib.autograd.grad(case(x, dim).sum(), x)[0]  # whose gradient is one number for all
            results.append([made, gradlib.autograd.grad(made, x, weights)[0], one])
    eps = float(gradlib.finfo(host.dtype).eps)
    for expected, found in zip(*results, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        a, b = (each.detach().double().numpy(force=True) for each in (found, expected))
        np.testing.assert_allclose(a, b, rtol=16 * eps, atol=16 * eps)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_those_of_the_host(name):
    case, results = CASES[name], []
    for place in (lambda x: x, cupy.asarray):
        x = gradlib.as_tensor(place(drawn(name)[:, :2])).requires_grad_()
        made = case(x, -1)
        made = made[made == made]
        (slope,) = gradlib.autograd.grad((made**2).sum(), x, create_graph=True)
        weights = gradlib.as_tensor(place(np.linspace(0, 1, slope.numel()).reshape(slope.shape)))
        results.append(gradlib.autograd.grad((slope * weights).sum(), x)[0].numpy(force=True))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2])
def test_variances_of_too_few_elements_are_those_of_the_host(size):
    for case in (lambda x: x.var(), lambda x: x.std(-1), lambda x: x.var(correction=2), lambda x: x.std(0, correction=3)):
        found = []
        for device in ("cpu", "cuda"):
            x = gradlib.tensor([1.5, 3.0][:size], device=device, requires_grad=True)
            with np.errstate(all="ignore"):
                made = case(x)
                made.sum().backward()
            found.append([*np.atleast_1d(made.numpy(force=True)), *x.grad.tolist()])
        np.testing.assert_array_equal(found[1], found[0])


def test_only_what_is_served_is_computed():
    x = cupy.asarray(drawn("var"))
    assert moments.variance(x, (0, 1), 1, False, False) is not None
    assert moments.normalised(x, (1, 2), 1e-5) is not None
    assert moments.normalised(x.T, (2,), 1e-5) is None
    for given, axis in ((x[:0], 0), (x.astype("int64"), 0), (cupy.ones(LONGEST + 1), 0)):
        assert (
            moments.variance(given, axis, 1, False, False) is moments.normalised(given, axis, 1e-5) is folded("nanmean", given, axis, False)
        )
        assert folded("nanmean", given, axis, False) is None
    out, centre, rstd = moments.normalised(x, (2,), 1e-5)
    for g in (out.astype("float32"), out[:, ::2], cupy.broadcast_to(out[:1], out.shape)):
        assert moments.normalised_slope(g, x, centre, rstd, (2,)) is None
    for line in (out[..., 0], out[0, 0], rstd.astype("float32")):
        assert moments.variance_slope(line, x, None, 2, 1) is None


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_value_and_the_gradient(name, monkeypatch):
    """CuPy is asked for memory alone."""
    case = CASES[name]
    x = gradlib.as_tensor(cupy.asarray(drawn("var"))).requires_grad_()
    made = case(x, -1)
    weights = gradlib.ones_like(made)
    before = [made.tolist(), gradlib.autograd.grad(made, x, weights)[0].tolist()]
    for name in ("add", "subtract", "multiply", "divide", "true_divide", "sqrt", "sum", "where"):
        monkeypatch.setattr(cupy, name, None)
    made = case(x, -1)
    assert [made.tolist(), gradlib.autograd.grad(made, x, weights)[0].tolist()] == before


def test_norms_of_one_element_do_not_overflow():
    x = gradlib.tensor([[1e30], [-1e-30]], device="cuda", requires_grad=True)
    made = gradlib.linalg.vector_norm(x, 2, 1)
    assert made.tolist() == x.detach().abs()[:, 0].tolist()
    made.sum().backward()
    assert x.grad.tolist() == [[1], [-1]]
