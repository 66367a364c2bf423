"""Reductions and running folds of NumPy's arrays along lines that are short, or that lie across the memory's order.

NumPy takes one line after the other, which costs more than the few numbers of a short line, and its loops run along the line, where each
number waits for the one before. Here a number of every line is taken at once, in the same order along each line.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gradlib.backend.array import Array, has_nan

_SHORT, _STRIDED = 32, 8
"""The longest lines that are reduced so, of arrays in row-major order and of others."""
_LONG, _LINES = 1000, 100
"""The longest lines, and the fewest, of which the extremes are read from their places where they are not that short."""
MANY = 1 << 9
"""The fewest elements of all lines for which it is worth the calls."""
_AT_ONCE = 1 << 15
"""How many elements a transposed copy has, which stays in the cache."""
_WIDE, _BESIDE, _ROWS = 128, 256, 256
"""The longest rows of which several are reduced as one, how many elements that has, and the fewest rows."""
SHORTER, LINES = 8, 1 << 12
"""The longest lines whose extremes are placed so, and the fewest of them."""
_BLOCKS, _BLOCK = 1 << 14, 8
"""The fewest elements of a running fold that goes by blocks, and how long these are."""
_STEP, _WIDENED, STEPS = 256, 512, 64
"""The fewest elements of a step of a running fold, those in another dtype, and the longest lines along the memory that have steps."""

_PLACES = {np.maximum: "argmax", np.minimum: "argmin"}
"""What finds where the extremes are that a ufunc gives."""


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
        has_places = _SHORT < width <= _LONG and array.size >= _LINES * width and ufunc in _PLACES and array.dtype.kind in "fiu"
        if has_places and axis == array.ndim - 1 and ordered:  # NumPy finds them in less time than the extremes
            places = getattr(array, _PLACES[ufunc])(axis=axis, keepdims=keepdims)
            places += np.arange(0, array.size, width).reshape(places.shape)
            return array.reshape(-1).take(places)
        if axis == 0 and array.ndim == 2 and ordered and width <= _WIDE and len(array) >= _ROWS:
            made = _of_narrow(ufunc, array)
            return made[None] if keepdims else made
    return ufunc.reduce(array, axis=axis, keepdims=keepdims)


def _of_narrow(ufunc: Any, array: Array) -> Array:
    """The reduction of the columns of a matrix with short rows."""
    width = array.shape[1]
    beside = max(1, min((_BESIDE if width < SHORTER else 4 * _BESIDE) // width, _ROWS // 4))  # the longer, the fewer steps
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


def counted(mask: Array, axis: int) -> Array:
    """How many bools along a dimension, counted from 0, are True: int64."""
    if not mask.flags.c_contiguous:
        return counted(mask.T, 1 - axis) if mask.ndim == 2 and mask.flags.f_contiguous else np.add.reduce(mask, axis=axis)
    width = mask.shape[axis]
    if axis < mask.ndim - 1 or not 1 < width <= _SHORT or mask.size < MANY:
        return reduced(np.add, mask, axis)
    lines, count = mask.view(np.int8).reshape(-1, width), _AT_ONCE // width
    made = np.empty(len(lines), np.int64)
    for begin in range(0, len(lines), count):
        columns = lines[begin : begin + count].T.copy()
        made[begin : begin + count] = np.add.reduce(columns, axis=0, dtype=np.int8)  # which holds the few that there may be
    return made.reshape(mask.shape[:-1])


def has_short_lines(array: Array, axis: int) -> bool:
    """Whether a NumPy array has many short lines along a dimension, counted from 0, for `first_extremes`."""
    if axis != array.ndim - 1 or array.size < 2 * LINES:
        return False
    width = array.shape[-1]
    return 1 < width <= SHORTER and width * LINES <= array.size and array.dtype.char in "fdilq" and array.flags.c_contiguous


def first_extremes(ufunc: Any, array: Array) -> tuple[Array, Array] | None:
    """The extremes (``np.maximum``, ``np.minimum``) along the last dimension, and the first place of each; None where one is NaN.

    Args:
        array: of which `has_short_lines` says so.
    """
    width, left = array.shape[-1], array.shape[:-1]
    lines, count = array.reshape(-1, width), _AT_ONCE // width
    values, places = np.empty(len(lines), array.dtype), np.empty(len(lines), np.int64)
    for begin in range(0, len(lines), count):
        columns, found = lines[begin : begin + count].T.copy(), values[begin : begin + count]
        ufunc.reduce(columns, axis=0, out=found)
        before = np.not_equal(columns[:-1], found)  # the last is the extreme where no other is
        for place in range(1, width - 1):
            np.logical_and(before[place - 1], before[place], out=before[place])
        places[begin : begin + count] = np.add.reduce(before.view(np.int8), axis=0, dtype=np.int8)
    if array.dtype.kind == "f":
        if has_nan(values):
            return None
        if np.count_nonzero(values == 0):  # which of the zeros it is, 0.0 or -0.0, the reduction does not say
            values = lines.reshape(-1).take(places + np.arange(0, array.size, width))
    return values.reshape(left), places.reshape(left)


def accumulated(ufunc: Any, array: Array, axis: int, dtype: Any = None, from_end: bool = False) -> Array:
    """``ufunc.accumulate(array, axis)`` of an array that has an axis, in row-major order where it is large.

    Args:
        axis: from 0. dtype: what is computed in, the result being rounded at the end; the array's own without it.
        from_end: from the last element to the first.
    """
    stepped = array.size >= _STEP and _has_steps(array, axis, _STEP if dtype is None else _WIDENED)
    if not stepped and array.size >= _BLOCKS and (blocks := _in_blocks(ufunc, array, axis, dtype, from_end)) is not None:
        return blocks
    if from_end:
        array = np.flip(array, axis)
    if not stepped:
        made = ufunc.accumulate(array, axis) if dtype is None else ufunc.accumulate(array.astype(dtype), axis).astype(array.dtype, "C")
        return np.flip(made, axis).copy() if from_end else made
    made = np.empty(array.shape, array.dtype)
    steps, results = array.swapaxes(axis, 0), made.swapaxes(axis, 0)[:: -1 if from_end else 1]
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


def _in_blocks(ufunc: Any, array: Array, axis: int, dtype: Any, from_end: bool) -> Array | None:
    """The same along the first of two dimensions or the last of any, for the blocks of each line side by side.

    Returns: None for other dimensions and ufuncs, for lines too short, and where sums leave the finite numbers: those of a block may do so
    where the whole line's do not.
    """
    count, last = array.shape[axis], axis == array.ndim - 1
    if ufunc not in _IN_BLOCKS or count < _BLOCK * _BLOCK or not (last or array.ndim == 2):
        return None
    made = np.empty(array.shape, array.dtype)
    lines, results = (x.reshape(-1, count).T if last else x for x in (array, made))
    if from_end:
        lines, results = lines[::-1], results[::-1]
    width = lines.shape[1]
    group = max(1, _AT_ONCE // count) if last else width
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, width, group):
            whole = slice(begin, begin + group)
            if not _of_blocks(ufunc, lines[:, whole], results[:, whole], dtype or array.dtype, not last and width >= _BLOCK):
                return None
    return made


def _of_blocks(ufunc: Any, lines: Array, results: Array, dtype: Any, in_rows: bool) -> bool:
    """Write the running fold of each column; ``in_rows``: whether rows are long enough to be moved as they lie.

    Returns: whether all of it is finite, where that is asked.
    """
    width, size = lines.shape[1], 2 * _BLOCK if in_rows else _BLOCK
    at_once = max(1, _AT_ONCE // (width * size)) * size
    before: Any = None
    for begin in range(0, len(lines), at_once):
        part, out = lines[begin : begin + at_once], results[begin : begin + at_once]
        whole = len(part) // size * size
        if whole:
            blocks, into = (x[:whole].reshape(-1, size, width) for x in (part, out))
            steps = blocks.transpose((1, 0, 2) if in_rows else (1, 2, 0)).astype(dtype, order="C")
            for step, following in itertools.pairwise(steps):
                ufunc(step, following, out=following)
            ends = steps[-1] if in_rows else steps[-1].T
            if before is not None:
                ends[0] = ufunc(before, ends[0])
            ends = ufunc.accumulate(ends, 0)
            others = steps if in_rows else steps.swapaxes(1, 2)
            ufunc(others[:, 1:], ends[:-1], out=others[:, 1:])
            if before is not None:
                ufunc(others[:-1, 0], before, out=others[:-1, 0])
            into[...] = others.swapaxes(0, 1)
            before = ends[-1]
        if whole < len(part):
            rest = part[whole:].astype(dtype)
            if before is not None:
                rest[0] = ufunc(before, rest[0])
            rest = ufunc.accumulate(rest, 0)
            out[whole:] = rest
            before = rest[-1]
    return ufunc is not np.add or bool(np.isfinite(before).all())


_IN_BLOCKS = (np.add, np.maximum, np.minimum)
"""The folds whose parts may be folded first."""
