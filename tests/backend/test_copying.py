"""The kernels for small copies give what CuPy's functions give."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.backend.copying import PARTS, cast, concatenated, fill, put_along, stacked, taken, taken_along
from gradlib.backend.dtype import as_dtype
from gradlib.testing import hostcuda
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_joined_arrays_are_those_of_cupy(dtype):
    one, other = (cupy.asarray(np.arange(start, start + 24).reshape(2, 3, 4).astype(dtype)) for start in (0, 50))
    for axis in range(3):
        wide, none = cupy.concatenate([one, other], axis=axis), cupy.zeros([0 if d == axis else n for d, n in enumerate(one.shape)], dtype)
        turned = other.swapaxes(1, 2).copy().swapaxes(1, 2)
        few = [one], [one, other], [one, none, wide], [one, turned], [one, other] * (PARTS // 2)
        for arrays in (*few, [one] * (PARTS + 1), [one, turned] * PARTS):
            assert (concatenated(cupy, arrays, axis) == cupy.concatenate(arrays, axis=axis)).all()
    for axis in range(4):
        for arrays in ([one, other], [one, other] * PARTS):
            assert (stacked(cupy, arrays, axis) == cupy.stack(arrays, axis=axis)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_one_number_fills_an_array(dtype):
    array = cupy.zeros((3, 50), as_dtype(dtype))
    for number in (1, True, 0, *([2.5, -0.0, float("inf")] if array.dtype.kind in "fV" else [])):
        for target in (array, array[:, ::2]):
            fill(target, number)
            expected = np.full(target.shape, number).astype(array.dtype)
            assert target.get().tobytes() == expected.tobytes(), number


@pytest.mark.parametrize("places", [np.array([1, -2, 0, 1]), np.array([[1], [0]], np.int32), np.array([], np.int64), np.array(1)])
def test_elements_are_taken_from_where_the_places_say(places):
    array = cupy.arange(24.0).reshape(2, 3, 4)
    for axis in range(3):
        found, expected = taken(array, cupy.asarray(places), axis), array.take(cupy.asarray(places), axis=axis)
        assert found.shape == expected.shape
        assert (found == expected).all()


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])
def test_elements_are_taken_and_put_along_a_dimension(dtype):
    array, places = cupy.asarray(np.arange(24).reshape(2, 3, 4) % 5).astype(dtype), np.array([2, -3, 0, 1])
    for axis, count in enumerate((1, 2, 3)):
        shape = (*array.shape[:axis], count, *array.shape[axis + 1 :])
        chosen = np.broadcast_to(places[:count].reshape([-1 if d == axis else 1 for d in range(3)]), shape)
        for kind in (np.int64, np.int32):
            index = cupy.asarray(np.ascontiguousarray(chosen) % array.shape[axis] - array.shape[axis] * (chosen < 0), kind)
            found, expected = taken_along(array, index, axis), cupy.take_along_axis(array, index, axis=axis)
            assert found.dtype == expected.dtype
            assert (found == expected).all()
            given, other = array.copy(), array.copy()
            assert put_along(given, index, expected[::-1].copy(), axis)
            cupy.put_along_axis(other, index, expected[::-1].copy(), axis=axis)
            assert (given == other).all()
    assert taken_along(array[:, ::2], cupy.zeros((2, 1, 4), int), 1) is None
    assert taken_along(array, cupy.zeros((2, 1, 2), int), 1) is None
    assert taken_along(array, cupy.zeros((2, 0, 4), int), 1) is None
    assert not put_along(array, cupy.zeros((2, 1, 4), int), cupy.zeros((2, 1, 4), "complex64"), 1)


@pytest.mark.parametrize("source", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_cast_elements_are_those_of_cupys_astype(source):
    values = np.array([0, 1, 2, 100, 0.5, 1.7, 3.999, 2.0**-20, 1.0009765])
    array = cupy.asarray(values if source == "bool" else np.concatenate([values, [127]])).astype(as_dtype(source))
    for target in map(as_dtype, ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")):
        made, expected = cast(array, target), array.astype(target)
        assert made.dtype == expected.dtype
        assert made.view("u1").get().tolist() == expected.view("u1").get().tolist(), target
    for other in (array[::2], array[:0], array.get() if source != "bfloat16" else np.zeros(3)):
        assert cast(other, np.dtype("float32")) is None
    assert cast(array, np.dtype("complex64")) is None


@pytest.mark.skipif(not hostcuda.is_active(), reason="hostcuda looks at the places")
def test_a_place_outside_is_a_hazard():
    with hostcuda.expected("gradlib_take_q: the index 3 is outside of an axis of 3"):
        taken(cupy.arange(3.0), cupy.asarray([3]), 0)
