"""Raw arrays of either library: views, copies, moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import array as arrays
from gradlib.backend.array import address, broadcast_to, device_index, is_dense, is_view_of, rows, strided
from gradlib.backend.copying import copy
from gradlib.backend.pinned import from_pinned, pinned_copy
from tests.values import host

Make = Callable[[tuple[int, ...], str], Any]


@pytest.fixture
def make(device: str) -> Make:
    """Zeros of a shape and dtype, of the library that the device needs."""
    index = None if device == "cpu" else 0
    return lambda shape, dtype: arrays.zeros(shape, np.dtype(dtype), index)


def test_strided_reads_the_memory_behind_an_array(make: Make) -> None:
    array = make((3, 4), "float32")
    made = strided(array, (2, 2), (16, 4), 4)
    assert (made.shape, made.strides, address(made)) == ((2, 2), (16, 4), address(array) + 4)
    for view in (array, array[1:, 1:], array.T, array[::-1]):
        made = strided(view, (1, 1), (4, 4))
        assert address(made) == address(view)
        assert is_view_of(made, array)
    pairs = strided(make((3, 4), "complex64"), (3, 4, 2), (32, 8, 4), dtype=np.dtype("float32"))
    assert (pairs.shape, pairs.strides, pairs.dtype) == ((3, 4, 2), (32, 8, 4), np.float32)
    assert strided(array[1:], (2,), (4,), -16).strides == (4,)
    assert strided(array, (2, 0), (400, 4)).shape == (2, 0)


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "int64", "complex128"])
def test_rows_are_the_views_that_indices_give(dtype: str) -> None:
    library, kind = arrays.cupy(), gradlib.bfloat16 if dtype == "bfloat16" else dtype
    array = library.asarray(np.arange(24).reshape(2, 3, 4) % 7).astype(kind)
    for each in (array, array[1:], array.T, array[:, ::-2], array[..., :0], array[1, 2]):
        for axis in range(each.ndim):
            expected = [each[(*(slice(None),) * axis, k)] for k in range(each.shape[axis])]
            for made, view in zip(rows(each, axis), expected, strict=True):
                assert (made.shape, made.strides, made.dtype) == (view.shape, view.strides, view.dtype)
                assert not made.size or address(made) == address(view)
                assert is_view_of(made, array)


def test_strided_stays_inside_the_memory(make: Make, device: str) -> None:
    behind = 48 if device == "cpu" else 512  # CuPy knows the block of its pool only
    for shape, step, start in (((behind // 4 + 1,), 4, 0), ((2,), 4, behind - 4), ((2,), -4, 0), ((1,), 4, -4)):
        with pytest.raises(ValueError, match=r"strides|memory|buffer"):
            strided(make((3, 4), "float32"), shape, (step,), start)


@pytest.mark.parametrize("order", [lambda x: x, lambda x: x.T, lambda x: x[:, ::2]])
def test_broadcasting_gives_a_view(make: Make, order: Callable[[Any], Any]) -> None:
    array = order(make((3, 1), "float32"))
    shape = (2, *(5 if n == 1 else n for n in array.shape))
    made = broadcast_to(array, shape)
    assert made.shape == shape
    assert made.strides[0] == 0
    assert is_view_of(made, array)
    with pytest.raises(ValueError, match="broadcast"):
        broadcast_to(array, (4, 4))


@pytest.mark.host  # a CuPy array can always be written
def test_a_broadcast_view_is_writable_where_its_source_is() -> None:
    array = np.zeros((1, 3))
    for source in (array, array.T, array[:, ::2]):
        assert broadcast_to(source, (2, *source.shape)).flags.writeable
    array.flags.writeable = False
    for source in (array, array[:, ::2]):
        assert not broadcast_to(source, (2, *source.shape)).flags.writeable


def test_what_is_a_view(make: Make) -> None:
    array = make((2, 3), "float64")
    other = make((2, 3), "float64")
    views = [array, array.T, array[0], array[..., None], array.reshape(-1), array[::-1].reshape(2, 3, 1), array[0][1:]]
    assert all(is_view_of(view, array) for view in views)
    assert is_view_of(array[0], array[1])
    assert not is_view_of(array.T.reshape(-1), array)
    assert not is_view_of(other[0], array)
    assert not is_view_of(other, array)


def test_what_is_dense(make: Make) -> None:
    array = make((2, 3), "float64")
    assert all(map(is_dense, (array, array.T, array[None], array[:, :0], array[1], array[0, 0])))
    assert not any(map(is_dense, (array[:, ::2], array[:, 0], broadcast_to(array[0], (2, 3)))))


def test_copies_keep_order_and_device(make: Make) -> None:
    """A copy keeps the order of a dense array's axes, and the array's device where another is current."""
    array = make((2, 3), "float32")
    for source in (array, array.T, array[:, ::2]):
        made = copy(source)
        assert (made.shape, made.dtype, device_index(made)) == (source.shape, source.dtype, device_index(source))
        assert not is_view_of(made, source)
    assert copy(array.T).strides == array.T.strides
    assert host(arrays.zeros_like(make((2, 3), "complex64") + 1)).tolist() == [[0] * 3] * 2


def test_moves_between_host_and_devices(make: Make) -> None:
    array = make((2, 3), "float32") + 2
    assert arrays.move(array, device_index(array)) is array
    for index in (None, 0):
        there = arrays.move(array, index)
        assert device_index(there) == index
        assert arrays.namespace(there).__name__ == ("numpy" if index is None else "cupy")
        np.testing.assert_array_equal(arrays.move(there, None), np.full((2, 3), 2, "float32"))


@pytest.mark.parametrize("order", [lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:0]])
def test_through_pinned_memory(make: Make, order: Callable[[Any], Any]) -> None:
    array = order(make((2, 3), "float32") + 2)
    pinned = pinned_copy(array)
    array[...] = 5
    back = from_pinned(pinned, device_index(array))
    assert isinstance(pinned, np.ndarray)
    assert device_index(back) == device_index(array)
    np.testing.assert_array_equal(host(back), np.full(array.shape, 2, "float32"))


def test_what_is_no_array() -> None:
    assert not arrays.is_array([1.0])
    assert not arrays.is_array(np.float32(1))
    with pytest.raises(TypeError, match="expected a Tensor, a NumPy array or a CuPy array, got list"):
        arrays.namespace([1.0])
