"""Views on raw arrays of either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradlib.backend.array import address, broadcast_to, is_dense, is_view_of, strided


def host(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.zeros(shape, dtype)


def cupy_array(shape: tuple[int, ...], dtype: str) -> Any:
    import cupy

    return cupy.zeros(shape, dtype)


either = pytest.mark.parametrize("make", [host, cupy_array], ids=["numpy", "cupy"])
Make = Callable[[tuple[int, ...], str], Any]


@either
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


@either
@pytest.mark.parametrize(("shape", "strides", "start"), [((13,), (4,), 0), ((2,), (4,), 44), ((2,), (-4,), 0), ((1,), (4,), -4)])
def test_strided_stays_inside_the_memory(make: Make, shape: Any, strides: Any, start: int) -> None:
    with pytest.raises(ValueError, match=r"strides|memory|buffer"):
        strided(make((3, 4), "float32"), shape, strides, start)


@either
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


def test_a_broadcast_view_is_writable_where_its_source_is() -> None:
    array = np.zeros((1, 3))
    for source in (array, array.T, array[:, ::2]):
        assert broadcast_to(source, (2, *source.shape)).flags.writeable
    array.flags.writeable = False
    for source in (array, array[:, ::2]):
        assert not broadcast_to(source, (2, *source.shape)).flags.writeable


@either
def test_what_is_a_view(make: Make) -> None:
    array = make((2, 3), "float64")
    other = make((2, 3), "float64")
    views = [array, array.T, array[0], array[..., None], array.reshape(-1), array[::-1].reshape(2, 3, 1), array[0][1:]]
    assert all(is_view_of(view, array) for view in views)
    assert is_view_of(array[0], array[1])
    if make is host:
        assert not is_view_of(array.T.reshape(-1), array)
        assert not is_view_of(other[0], array)
        assert not is_view_of(other, array)


@either
def test_what_is_dense(make: Make) -> None:
    array = make((2, 3), "float64")
    assert all(map(is_dense, (array, array.T, array[None], array[:, :0], array[1], array[0, 0])))
    assert not any(map(is_dense, (array[:, ::2], array[:, 0], broadcast_to(array[0], (2, 3)))))
