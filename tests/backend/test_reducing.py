"""The kernels for small reductions give what NumPy gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.line_layout import LONGEST
from gradlib.backend.reducing import exponentials, extreme, folded, nonzero
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
AXES = [None, 0, 1, 2, (0, 1), (1, 2), (2, 0), (2, 1, 0)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_and_extremes_are_those_of_numpy(dtype):
    host = np.round(np.random.default_rng(3).normal(size=(3, 40, 5)) * 8) / 8  # of which sums are exact
    host[1, 7, 2], host[0, 3] = np.nan, 9.0  # and the largest ones are equal
    array = cupy.asarray(host.astype(as_dtype(dtype)))
    for axis in AXES:
        for keepdim in (False, True):
            for mean in (False, True):
                made, expected = folded("sum", array, axis, keepdim, mean), (np.mean if mean else np.sum)(host, axis=axis, keepdims=keepdim)
                assert made.dtype == array.dtype
                assert np.array_equal(made.astype("f").get(), expected.astype(as_dtype(dtype)).astype("f"), equal_nan=True)
            for name in ("max", "min"):
                made, places = extreme(name, array, axis, keepdim, placed=isinstance(axis, int))
                assert np.array_equal(made.astype("f").get(), getattr(host, name)(axis=axis, keepdims=keepdim).astype("f"), equal_nan=True)
                if isinstance(axis, int):
                    assert places.dtype == np.int64
                    assert np.array_equal(places.get(), getattr(host, f"arg{name}")(axis=axis, keepdims=keepdim))


ORDERS = [0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.nonfinite
def test_norms_of_every_order_are_those_of_the_host(ord, dtype):
    """Half types are computed in float32: the host computes them from float64."""
    of = as_dtype(dtype)
    for host in (
        np.random.default_rng(3).normal(size=(3, 40, 5)),
        np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, -np.inf], [0.0, 0.0, -0.0]]),
    ):
        host = host.astype(of)
        x, y = gradlib.as_tensor(host.astype("D" if of.kind == "c" else "d")), gradlib.as_tensor(cupy.asarray(host))
        for dim in (None, 0, -1, (0, 1)):
            with np.errstate(all="ignore"):
                expected = gradlib.linalg.vector_norm(x, ord, dim, keepdim=dim == 0).numpy()
            made = gradlib.linalg.vector_norm(y, ord, dim, keepdim=dim == 0)
            assert (made.dtype, made.shape) == (np.float32 if of.kind == "c" else of, expected.shape)
            with np.errstate(all="ignore"):
                expected = expected.astype(made.dtype).astype("d")
            close = 100 * float(gradlib.finfo(made.dtype).eps)
            np.testing.assert_allclose(made.double().numpy(force=True), expected, rtol=close, atol=close / 100)
    assert gradlib.linalg.vector_norm(gradlib.as_tensor(cupy.full((2, 1), -1e30, "f")), ord, 1).tolist() == (
        [1, 1] if ord == 0 else [np.float32(1e30)] * 2
    )


@pytest.mark.parametrize("ord", [1, 3, -2.5, np.inf, -np.inf])
def test_second_derivatives_of_norms(ord):
    x = gradlib.as_tensor(cupy.asarray(np.random.default_rng(3).normal(size=(3, 4)))).requires_grad_()
    for dim in (None, 0, -1):
        assert gradlib.autograd.gradcheck(lambda x, dim=dim: gradlib.linalg.vector_norm(x, ord, dim), x, check_forward_ad=True)
        assert gradlib.autograd.gradgradcheck(lambda x, dim=dim: gradlib.linalg.vector_norm(x, ord, dim), x)


@pytest.mark.parametrize("ord", [1, -1, np.inf, -np.inf])
def test_norms_of_matrices_by_sums_are_those_of_numpy(ord):
    host = np.random.default_rng(3).normal(size=(2, 4, 3))
    for x in (gradlib.as_tensor(host), gradlib.as_tensor(cupy.asarray(host))):
        x = x.requires_grad_()
        made = gradlib.linalg.matrix_norm(x, ord)
        np.testing.assert_allclose(made.numpy(force=True), [np.linalg.norm(each, ord) for each in host], rtol=1e-12)
        assert gradlib.autograd.gradcheck(lambda x: gradlib.linalg.matrix_norm(x, ord, keepdim=True), x)
    assert gradlib.linalg.matrix_norm(gradlib.zeros(2, 0, 3), 1).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
def test_extremes_of_integers_and_masks_are_those_of_numpy(dtype):
    host = (np.random.default_rng(3).integers(-4, 5, (3, 40, 5)) * (1 if dtype == "bool" else 1 << 28)).astype(dtype)
    for axis in AXES:
        for name in ("max", "min"):
            made, places = extreme(name, cupy.asarray(host), axis, False, placed=isinstance(axis, int))
            assert made.dtype == host.dtype
            assert np.array_equal(made.get(), getattr(host, name)(axis=axis))
            if isinstance(axis, int):
                assert np.array_equal(places.get(), getattr(host, f"arg{name}")(axis=axis))
    assert folded("sum", cupy.asarray(host), 0, False) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exponentials_of_lines_are_those_of_the_host(dtype):
    host = np.random.default_rng(3).normal(size=(3, 40, 5)) * 4
    host[0, 1], host[1, :, 2], host[2, 3, 0], host[2, 4, 1], host[0, 2, 3] = 1000, -np.inf, np.inf, np.nan, -np.inf
    host = host.astype(as_dtype(dtype))
    x, y = gradlib.as_tensor(host), gradlib.as_tensor(cupy.asarray(host))
    close = {"rtol": 8 * float(gradlib.finfo(as_dtype(dtype)).eps), "atol": 1e-6}
    for name, dims in (("softmax", (0, 1, -1)), ("log_softmax", (0, 1, -1)), ("logsumexp", (0, -1, (0, 1), (1, 2), (0, 1, 2)))):
        for dim in dims:
            with np.errstate(all="ignore"):
                expected, made = (getattr(each, name)(dim) for each in (x, y))
            assert made.dtype == expected.dtype
            assert made.shape == expected.shape
            np.testing.assert_allclose(made.double().numpy(force=True), expected.double().numpy(), **close)
        assert exponentials(name, y._array, 1) is not None
        if name != "logsumexp":  # of which a copy in row-major order is made
            assert np.array_equal(exponentials(name, y._array.T, 1).get(), exponentials(name, y._array.T.copy(), 1).get(), equal_nan=True)
            assert exponentials(name, y._array.T, 1)._c_contiguous
    for name in ("softmax", "log_softmax"):  # in another dtype, as which the input is read
        with np.errstate(all="ignore"):
            expected, made = (getattr(each, name)(1, dtype=gradlib.float64) for each in (x, y))
        assert made.dtype == gradlib.float64
        np.testing.assert_allclose(made.numpy(force=True), expected.numpy(), rtol=1e-12, atol=1e-12)
    assert y.logsumexp(1, keepdim=True).shape == (3, 1, 5)
    for given in (y._array[:0], y._array.reshape(-1)[0], cupy.zeros(4, "int64"), cupy.zeros(LONGEST + 1)):
        assert exponentials("softmax", given, 0) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_are_those_of_numpy(dtype):
    host = np.random.default_rng(3).choice([1.0, -1.0], (3, 40, 5))  # of which products are exact
    host[0, 5], host[1, 5] = 2.0, 0.5
    array = cupy.asarray(host.astype(as_dtype(dtype)))
    for axis in AXES:
        made = folded("prod", array, axis, True)
        assert made.dtype == array.dtype
        assert np.array_equal(made.astype("d").get(), host.prod(axis=axis, keepdims=True).astype(as_dtype(dtype)).astype("d"))


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x = cupy.ones((2, 3, 4), cupy.float32)
    for array, axis in ((x[::-1], 0), (x[:0], 0), (x.astype("int16"), 0), (cupy.ones(LONGEST + 1, cupy.float32), 0)):
        assert folded("sum", array, axis, False) is None
        assert extreme("max", array, axis, False, placed=False) is None
    assert folded("sum", cupy.ones((), cupy.float32), None, False) == 1


def test_one_dimension_of_extremes_is_one_and_no_tuple():
    x = gradlib.ones(2, 3, device="cuda")
    with pytest.raises(TypeError):
        gradlib.max(x, (0, 1))
    with pytest.raises(IndexError):
        gradlib.sum(x, 2)
    assert gradlib.sum(x, (1, 0)) == 6
    for dims in ((True, False), [1, False], (1, -1), (2, 0), (1.0, 0)):  # of which the first equals what was asked before
        with pytest.raises((TypeError, IndexError, RuntimeError)):
            gradlib.sum(x, dims)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_elements_that_are_not_zero_are_counted(dtype):
    host = (np.random.default_rng(3).integers(-2, 3, (3, 40, 5)) * 0.5).astype(as_dtype(dtype))
    if dtype.startswith(("float", "bfloat")):
        host[0, 1], host[1, 2] = -0.0, np.nan
    for axis in AXES:
        made = nonzero(cupy.asarray(host), axis)
        assert made.dtype == np.int64
        assert np.array_equal(made.get(), np.count_nonzero(host != 0, axis=axis))
    x = gradlib.as_tensor(cupy.asarray(host))
    assert x.count_nonzero(-1).tolist() == np.count_nonzero(host != 0, axis=-1).tolist()
    assert x.count_nonzero([0, 2]).tolist() == np.count_nonzero(host != 0, axis=(0, 2)).tolist()
    assert nonzero(cupy.asarray(host)[::-1], 0) is nonzero(cupy.zeros((0, 2)), 0) is nonzero(cupy.zeros(3, "uint8"), 0) is None
