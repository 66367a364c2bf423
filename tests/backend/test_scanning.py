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
