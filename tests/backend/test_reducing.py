"""The kernels for small reductions give what NumPy gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.reducing import LONGEST, extreme, summed
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
AXES = [None, 0, 1, 2, (0, 1), (1, 2), (2, 1, 0)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_and_extremes_are_those_of_numpy(dtype):
    host = np.round(np.random.default_rng(3).normal(size=(3, 40, 5)) * 8) / 8  # of which sums are exact
    host[1, 7, 2], host[0, 3] = np.nan, 9.0  # and the largest ones are equal
    array = cupy.asarray(host.astype(as_dtype(dtype)))
    for axis in AXES:
        for keepdim in (False, True):
            for mean in (False, True):
                made, expected = summed(array, axis, keepdim, mean), (np.mean if mean else np.sum)(host, axis=axis, keepdims=keepdim)
                assert made.dtype == array.dtype
                assert np.array_equal(made.astype("f").get(), expected.astype(as_dtype(dtype)).astype("f"), equal_nan=True)
            for name in ("max", "min"):
                made, places = extreme(name, array, axis, keepdim, placed=isinstance(axis, int))
                assert np.array_equal(made.astype("f").get(), getattr(host, name)(axis=axis, keepdims=keepdim).astype("f"), equal_nan=True)
                if isinstance(axis, int):
                    assert places.dtype == np.int64
                    assert np.array_equal(places.get(), getattr(host, f"arg{name}")(axis=axis, keepdims=keepdim))


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x = cupy.ones((2, 3, 4), cupy.float32)
    for array, axis in ((x, (0, 2)), (x[:, :, ::2], 0), (x[:0], 0), (x.astype("int64"), 0), (cupy.ones(LONGEST + 1, cupy.float32), 0)):
        assert summed(array, axis, False) is None
        assert extreme("max", array, axis, False, placed=False) is None
    assert summed(cupy.ones((), cupy.float32), None, False) == 1


def test_one_dimension_of_extremes_is_one_and_no_tuple():
    x = gradlib.ones(2, 3, device="cuda")
    with pytest.raises(TypeError):
        gradlib.max(x, (0, 1))
    with pytest.raises(IndexError):
        gradlib.sum(x, 2)
