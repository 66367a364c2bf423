"""The kernels for places that several arrays name give what NumPy gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.backend.dtype import as_dtype
from gradlib.backend.placing import fold, places, put
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

KEYS = {
    "rows": (np.array([2, -1, 0]),),
    "elements": (np.array([2, -1, 0]), np.array([0, 1, -3])),
    "grid": (np.array([[2], [0]]), np.array([[1, 3, -4]])),
    "all": (np.array([2, 0]), np.array([1, 1]), np.array([-1, 0])),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "int64"])
def test_values_come_to_the_places_that_arrays_name(name, dtype):
    key, expected = KEYS[name], np.zeros((3, 4, 5)).astype(as_dtype(dtype))
    target, on_device = cupy.asarray(expected), tuple(map(cupy.asarray, key))
    values = (np.arange(expected[key].size).reshape(expected[key].shape) % 9).astype(expected.dtype)
    for given in (values, 1):
        expected[key] = given
        assert put(target, on_device, cupy.asarray(given) if given is values else given)
        assert target.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_values_that_meet_at_one_place_are_all_added(dtype):
    key, expected = (np.array([[2], [0], [2]]), np.array([[1, 1, -4]])), np.ones((3, 4, 5), dtype)
    target, values = cupy.asarray(expected), (np.arange(45).reshape(3, 3, 5) - 20).astype(dtype)
    np.add.at(expected, key, values)
    assert put(target, tuple(map(cupy.asarray, key)), cupy.asarray(values), add=True)
    assert np.array_equal(target.get(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["prod", "max", "min"])
def test_values_that_meet_at_one_place_are_all_folded(name, dtype):
    key, target = (np.array([[2], [0], [2], [2]]), np.array([[1, 1, -4]])), np.full((3, 4, 5), 2, dtype)
    values = (np.arange(60).reshape(4, 3, 5) % 7 - 3).astype(dtype)
    if dtype.startswith("float"):
        values[0, 0, 0] = target[0, 0, 0] = np.nan
    made, ufunc = cupy.asarray(target), {"prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    ufunc.at(target, key, values)
    assert fold(name, made, tuple(map(cupy.asarray, key)), cupy.asarray(values))
    np.testing.assert_array_equal(made.get(), target)
    assert not fold(name, made, (cupy.asarray([0]),), 1.0)
    assert not fold(name, made.astype("float16"), (cupy.asarray([0]),), made[:1].astype("float16"))


@pytest.mark.skipif(HAS_GPU, reason="hostcuda reports what a GPU lets wrap around")
@pytest.mark.parametrize("key", [([3, 0],), ([0, -4],), ([2, 0], [4, 1]), ([0], [0], [-6])])
def test_a_place_outside_is_reported_as_by_the_kernels_of_cupy(key):
    target, key = cupy.zeros((3, 4, 5), cupy.float32), tuple(map(cupy.asarray, key))
    rows = cupy.ones((*key[0].shape, *target.shape[len(key) :]), cupy.float32)
    with hostcuda.expected(r"index -?\d is outside of an axis of \d, and wraps around"):
        places(target.shape, key, 0)
    for add in (False, True):
        with hostcuda.expected(r"index -?\d is outside of an axis of \d, and wraps around"):
            put(target, key, rows, add)


def test_places_in_the_memory_that_is_written_are_read_before():
    p = cupy.asarray([1, 2, 0, 3])
    assert put(p, (p,), cupy.asarray([5, 6, 7, 8]))
    assert p.tolist() == [7, 5, 6, 8]


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x, i = cupy.zeros((3, 4), cupy.float32), cupy.asarray([0, 2])
    for key, values in (
        ((slice(None), i), x[:, :2]), ((x > 0,), 1.0), ((i.astype("int32"),), 1.0), ((i,), x[:2]), ((i,), cupy.ones((2, 4))),
        ((i,), cupy.ones(4, cupy.float32)), ((i[:0],), x[:0].copy()), ((i, cupy.asarray([0, 1, 2])), 1.0), ((i, i, i), 1.0),
    ):  # fmt: skip
        assert not put(x, key, values), key
    assert not put(x[:, ::2], (i,), 1.0)
    assert not put(x.astype("float16"), (i,), cupy.ones((2, 4), "float16"), add=True)
    assert places((3, 0), (i,), 0) is None
    assert not x.any()
