"""Rows of a few elements that do not follow each other without gaps, column by column.

NumPy copies and computes with such an array row by row, and to go from one to the next costs more than the few elements: those of a column,
many at equal distances, take a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array

WIDTH = 4
"""The most elements of such a row; of columns side by side memory is read once for each."""
_BYTES = 32
"""The most bytes of one."""
LARGE = 1 << 17
"""The bytes of an array from which on `broadcast` is called: its questions take a few hundredths of the time that so many take."""
_SHORT, _ROW = 64, 32
"""The longest rows that gain by it, beside a number for each and beside a row for all."""
_BESIDE = 256
"""How many elements rows have that are computed with as one."""
LEAST = 1 << 10
"""The fewest rows for which it is worth the calls."""


def has_columns(array: Array) -> bool:
    """Whether a NumPy array is one of many rows of a few elements."""
    shape = array.shape
    if len(shape) < 2 or not 0 < shape[-1] <= WIDTH:  # first what most arrays have not
        return False
    return shape[-1] * array.itemsize <= _BYTES and array.size >= shape[-1] * LEAST


def _matrix(array: Array) -> Array | None:
    """A view of an array as a matrix with its rows; None where its dimensions before the last are not one in memory."""
    if array.ndim == 2:
        return array
    shape, strides = array.shape, array.strides
    for d in range(array.ndim - 2):
        if strides[d] != strides[d + 1] * shape[d + 1]:
            return None
    return array.reshape(-1, shape[-1])


def write(target: Array, source: Array) -> None:
    """``target[...] = source``, of NumPy arrays of one shape that do not overlap."""
    if has_columns(target) and not (target.flags.c_contiguous and source.flags.c_contiguous):
        into, given = _matrix(target), _matrix(source)
        if into is not None and given is not None:
            for place in range(into.shape[1]):
                into[:, place] = given[:, place]
            return
    target[...] = source


def row_major_copied(array: Array) -> Array:
    """A copy of a NumPy array in row-major order."""
    made = np.empty(array.shape, array.dtype)
    write(made, array)
    return made


def joined(arrays: Sequence[Any], axis: int) -> Array:
    """``np.concatenate(arrays, axis)``, of arrays; ``axis`` counts from the first dimension."""
    first, width = arrays[0], 0
    if axis != first.ndim - 1 or not has_columns(first):
        return np.concatenate(arrays, axis)
    for each in arrays:
        if each.dtype is not first.dtype or each.shape[:-1] != first.shape[:-1] or not has_columns(each):
            return np.concatenate(arrays, axis)
        width += each.shape[-1]
    made, begin = np.empty((*first.shape[:-1], width), first.dtype), 0
    for each in arrays:
        end = begin + each.shape[-1]
        write(made[..., begin:end], each)
        begin = end
    return made


def subtract(a: Array, b: Array, out: Array) -> None:
    """``np.subtract(a, b, out)``, of NumPy arrays of one shape and dtype; ``out`` may be one of them."""
    given = [_matrix(each) for each in (a, b, out)] if has_columns(out) else [None]
    if any(each is None for each in given):
        np.subtract(a, b, out)
        return
    for place in range(out.shape[-1]):
        np.subtract(*[each[:, place] for each in given])  # type: ignore[index]


def broadcast(ufunc: Any, a: Any, b: Any) -> Any:
    """``ufunc(a, b)`` of NumPy arrays and numbers, for a ufunc that gives what it takes; quicker where `b` has one row for all short rows
    of `a`, or one number for each.
    """
    if type(b) is np.ndarray and b.nbytes < a.nbytes and a.ndim > 1 and b.ndim and a.dtype is b.dtype and a.dtype.char in "fd":
        width, last = a.shape[-1], b.shape[-1]
        if 1 < width <= _SHORT and a.size >= LEAST * width and a.flags.c_contiguous:
            if last == width == b.size and b.ndim <= a.ndim and width <= _ROW:
                return with_row(ufunc, a.reshape(-1, width), b.reshape(-1)).reshape(a.shape)
            if last == 1 and b.ndim == a.ndim and b.shape[:-1] == a.shape[:-1]:
                return with_column(ufunc, a.reshape(-1, width), b.reshape(-1)).reshape(a.shape)
    return ufunc(a, b)


def with_row(ufunc: Any, array: Array, row: Array) -> Array:
    """``ufunc(array, row)``, of a matrix in row-major order and a number for each column, of dtypes of which the first is the result's."""
    count, width = array.shape
    beside = _BESIDE // width
    made, whole = np.empty(array.shape, array.dtype), count - count % beside
    repeated = np.empty((beside, width), row.dtype)
    repeated[...] = row
    ufunc(array[:whole].reshape(-1, beside * width), repeated.reshape(-1), out=made[:whole].reshape(-1, beside * width))
    if whole < count:
        ufunc(array[whole:], row, out=made[whole:])
    return made


def with_column(ufunc: Any, array: Array, column: Array) -> Array:
    """The same of a matrix and a number of its dtype for each row."""
    made = column.repeat(array.shape[1]).reshape(array.shape)
    return ufunc(array, made, out=made)
