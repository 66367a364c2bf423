"""The kernels for running sums, products and extremes give what NumPy gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import scanning
from gradlib.backend.dtype import as_dtype
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

SHAPES = [((1,), 0), ((5,), 0), ((32,), 0), ((33,), 0), ((3, 70, 2), 1), ((4, 9), 0), ((2, 100), 1)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "bool", "int32", "int64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_running_folds_are_those_of_numpy(shape, axis, dtype):
    dtype, size = as_dtype(dtype), int(np.prod(shape))
    x = ((np.arange(size) * 7 % 5 - 2) / (1 if dtype.kind in "bi" else 4)).astype(dtype).reshape(shape)
    y = x if dtype.kind in "bi" else (1 + x.astype(np.float64) / 64).astype(dtype)
    wide = np.int64 if dtype.kind in "bi" else np.float64
    for name, given, fold in (("sum", x, np.cumsum), ("prod", y, np.cumprod)):
        (made,) = scanning.running(name, cupy.asarray(given), axis)
        assert made.dtype == (np.int64 if dtype.kind in "bi" else dtype)
        close = {"rtol": 2 * float(gradlib.finfo(dtype).eps), "atol": 1e-6} if dtype.kind not in "bi" else {"rtol": 0}
        np.testing.assert_allclose(made.get().astype(wide), fold(given.astype(wide), axis), **close)
    (made,) = scanning.running("sum", cupy.asarray(x), axis, from_end=True)
    np.testing.assert_allclose(made.get().astype(wide), np.flip(np.cumsum(np.flip(x.astype(wide), axis), axis), axis), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_running_extremes_and_where_they_are_met_latest(shape, axis, dtype):
    x = (np.arange(int(np.prod(shape))) * 7 % 11).astype(dtype).reshape(shape)
    if dtype.startswith("float") and x.size > 30:
        x.reshape(-1)[[7, 20, 29]] = np.nan
    for name in ("cummax", "cummin"):
        host, device = (getattr(gradlib.as_tensor(each), name)(axis) for each in (x, cupy.asarray(x)))
        np.testing.assert_array_equal(device.values.numpy(force=True), host.values.numpy())
        assert device.indices.tolist() == host.indices.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_sums_of_exponentials_do_not_overflow(dtype):
    x = np.array([[-np.inf, -np.inf, 1000, 999, -1000, 0], [1, 2, np.inf, 1, 1, 1], [0, 1, np.nan, 1, -np.inf, 1]], dtype)
    for axis in (0, 1):
        with np.errstate(invalid="ignore"):
            host, device = (gradlib.logcumsumexp(gradlib.as_tensor(each), axis).numpy(force=True) for each in (x, cupy.asarray(x)))
        np.testing.assert_allclose(device, host, rtol=4 * np.finfo(dtype).eps)


def test_derivatives_and_dtypes_are_those_of_the_host():
    x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
    for function in ("cumsum", "cumprod", "logcumsumexp"):
        for dim in (0, -1):
            found = []
            for each in (x, cupy.asarray(x)):
                leaf = gradlib.as_tensor(each).requires_grad_()
                (g,) = gradlib.autograd.grad((getattr(leaf, function)(dim) ** 2).sum(), leaf)
                found.append(g.numpy(force=True))
            np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    i = gradlib.as_tensor(cupy.arange(5, dtype="int32"))
    assert [i.cumsum(0).dtype, i.cumsum(0, dtype=gradlib.int32).dtype, i.cumsum(0, dtype=gradlib.float32).dtype] == [
        gradlib.int64,
        gradlib.int32,
        gradlib.float32,
    ]


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x = cupy.ones((4, 6), cupy.float32)
    for given in (x.T, x[:, ::2], x.astype("uint8"), x.astype("complex64"), x[:0], cupy.ones(scanning.LONGEST + 1)):
        assert scanning.running("sum", given, 0) is None
    assert scanning.running("logsumexp", x.astype("int64"), 0) is None
    assert gradlib.cumsum(gradlib.as_tensor(x.T), 0).tolist() == np.cumsum(np.ones((6, 4)), 0).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_gradients_are_those_of_the_host_by_a_kernel(name, shape, axis, dtype, monkeypatch):
    asked, run = [], scanning.slope
    monkeypatch.setattr(scanning, "slope", lambda *args: asked.append(run(*args)) or asked[-1])
    host = 0.5 + (np.arange(int(np.prod(shape))) * 7 % 5).reshape(shape) / 4
    if name == "cumprod":
        host.reshape(-1)[3::11] = 0
    else:
        host.reshape(-1)[:2] = -np.inf
    found = []
    for each in (host, cupy.asarray(host.astype(as_dtype(dtype)))):
        x = gradlib.as_tensor(each).requires_grad_()
        made = getattr(x, name)(axis - len(shape))
        g = gradlib.linspace(-1, 2, x.numel()).reshape(shape).to(x)
        grads = [gradlib.autograd.grad(made, x, g, retain_graph=True)[0], gradlib.autograd.grad(getattr(x, name)(axis).sum(), x)[0]]
        found.append([each.numpy(force=True).astype(float) for each in grads])
    assert len(asked) == 2
    assert all(each is not None for each in asked)
    eps = float(gradlib.finfo(as_dtype(dtype)).eps)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=64 * eps, atol=16 * eps * np.abs(one).max())


def test_other_gradients_of_running_folds_are_left_to_the_formula():
    x = cupy.ones((4, 6), cupy.float32)
    for given in (x.T, x.astype("complex64"), x[:0], x[0, 0], cupy.ones(scanning.LONGEST + 1, "f")):
        assert scanning.slope("prod", given, given, given, 0) is None
    assert scanning.slope("prod", x.astype("d"), x, x, 0) is None
    assert scanning.slope("prod", x[:2], x, x, 0) is None
    leaf = gradlib.as_tensor(x.astype("float16")).requires_grad_()
    leaf.cumprod(0, dtype=gradlib.float32).sum().backward()
    assert leaf.grad[:, 0].tolist() == [4, 3, 2, 1]
