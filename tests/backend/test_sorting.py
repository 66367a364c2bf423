"""The kernel for short lines sorts as NumPy's stable sort does, and leaves to CuPy what it does not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.sorting import LONGEST, sorted_lines
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int64", "uint8", "uint64", "bool"])
def test_lines_are_sorted_as_by_numpy(dtype):
    host = np.round(np.random.default_rng(5).normal(size=(3, 20, 4)) * 4)
    if "float" in dtype:
        host[0, :8, 0] = np.nan, -np.inf, -0.0, 0.0, np.inf, -np.nan, -0.0, 1.0
        if dtype != "float16":
            host[1, :4, 1] = 1e-40, -1e-40, 2e-40, 0.0  # subnormal in float32
    host = (np.abs(host) if dtype[0] == "u" else host).astype(as_dtype(dtype))
    array, wide = cupy.asarray(host), host.astype("float32") if dtype == "bfloat16" else host
    for axis in (0, 1, 2, -1):
        for descending in (False, True):
            values, places = sorted_lines(array, axis, descending)
            expected = np.argsort(wide, axis=axis, kind="stable")
            if descending:  # equal elements keep their order
                expected = wide.shape[axis] - 1 - np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
            assert np.array_equal(places.get(), expected)
            assert values.get().tobytes() == np.take_along_axis(host, expected, axis).tobytes()
            assert (values.dtype, places.dtype) == (host.dtype, np.int64)


def test_what_the_kernel_does_not_serve_is_left_to_cupy():
    x = cupy.arange(24, dtype=cupy.float32).reshape(2, 3, 4)
    refused = [(x.T, 0), (x[:0], 0), (x.astype("complex64"), 0), (cupy.ones(LONGEST + 1, "f"), 0), (x, 3), (cupy.ones((), "f"), 0)]
    for array, axis in refused:
        assert sorted_lines(array, axis, False) is None
    turned = gradlib.as_tensor(x.T)
    assert turned.sort(0, descending=True).values.tolist() == x.T[::-1].tolist()
    with pytest.raises(IndexError):
        gradlib.as_tensor(x).sort(3)
