"""Reductions and running folds of NumPy's arrays along lines that are short, or that lie across the memory's order.

NumPy takes one line after the other, which costs more than the few numbers of a short line, and its loops run along the line, where each
number waits for the one before. Here a number of every line is taken at once, in the same order along each line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array

_SHORT, _STRIDED = 32, 8
"""The longest lines that are reduced so, of arrays in row-major order and of others."""
MANY = 1 << 9
"""The fewest elements of all lines for which it is worth the calls."""
_AT_ONCE = 1 << 15
"""How many elements a transposed copy has, which stays in the cache."""
_WIDE, _BESIDE, _ROWS = 128, 256, 256
"""The longest rows of which several are reduced as one, how many elements that has, and the fewest rows."""
_STEP, _WIDENED, STEPS = 256, 512, 64
"""The fewest elements of a step of a running fold, those in another dtype, and the longest lines along the memory that have steps."""


def reduced(ufunc: Any, array: Array, axis: Any, keepdims: bool = False) -> Any:
    """``ufunc.reduce(array, axis, keepdims=keepdims)``, of lines along the first of two dimensions in another order.

    Args:
        ufunc: associative but for rounding. axis: None, one from 0 to ndim - 1, or a tuple of such.
    """
    if array.size >= MANY and type(axis) is int:
        width, ordered = array.shape[-1], array.flags.c_contiguous
        if not ordered and array.ndim == 2 and array.flags.f_contiguous:
            made = reduced(ufunc, array.T, 1 - axis)
            return np.expand_dims(made, axis) if keepdims else made
        if axis == array.ndim - 1 and 1 < width <= (_SHORT if ordered else _STRIDED):
            made = _of_short_lines(ufunc, array.reshape(-1, width)).reshape(array.shape[:-1]) if ordered else _of_columns(ufunc, array)
            return made[..., None] if keepdims else made
        if axis == 0 and array.ndim == 2 and ordered and width <= _WIDE and len(array) >= _ROWS:
            made = _of_narrow(ufunc, array)
            return made[None] if keepdims else made
    return ufunc.reduce(array, axis=axis, keepdims=keepdims)


def _of_narrow(ufunc: Any, array: Array) -> Array:
    """The reduction of the columns of a matrix with short rows."""
    beside = max(1, min(_BESIDE // array.shape[1], _ROWS // 4))
    whole = len(array) - len(array) % beside
    long = ufunc.reduce(array[:whole].reshape(-1, beside * array.shape[1]), axis=0).reshape(beside, -1)
    return ufunc.reduce(np.concatenate((long, array[whole:])), axis=0)


def _of_columns(ufunc: Any, array: Array) -> Array:
    """The reduction along the last dimension."""
    made = ufunc(array[..., 0], array[..., 1])
    for place in range(2, array.shape[-1]):
        ufunc(made, array[..., place], out=made)
    return made


def _of_short_lines(ufunc: Any, lines: Array) -> Array:
    """The reduction of each row."""
    count = _AT_ONCE // lines.shape[1]
    if len(lines) <= count:
        return ufunc.reduce(lines.T.copy(), axis=0)
    parts = [ufunc.reduce(lines[begin : begin + count].T.copy(), axis=0) for begin in range(0, len(lines), count)]
    return np.concatenate(parts)


def accumulated(ufunc: Any, array: Array, axis: int, dtype: Any = None) -> Array:
    """``ufunc.accumulate(array, axis)`` of an array that has an axis; in another dtype where one is given, rounded at the end."""
    if array.size < _STEP or not _has_steps(array, axis, _STEP if dtype is None else _WIDENED):
        return ufunc.accumulate(array, axis) if dtype is None else ufunc.accumulate(array.astype(dtype), axis).astype(array.dtype, "C")
    made = np.empty(array.shape, array.dtype)
    steps, results = array.swapaxes(axis, 0), made.swapaxes(axis, 0)
    results[0] = steps[0]
    if dtype is None:
        for before, step, result in zip(results, steps[1:], results[1:], strict=False):
            ufunc(before, step, out=result)
        return made
    held = steps[0].astype(dtype)
    for step, result in zip(steps[1:], results[1:], strict=True):
        ufunc(held, step, out=held)
        result[...] = held
    return made


def _has_steps(array: Array, axis: int, least: int) -> bool:
    """Whether a running fold goes from number to number in steps of so many elements, which in short lines do not lie far apart."""
    count = array.shape[axis]
    return 0 < least * count <= array.size and (count <= STEPS or axis < array.ndim - 1)
