"""Sums of NumPy's arrays as products of lines with ones, or with each other: BLAS takes a quarter to four fifths of a reduction's time.

BLAS adds up a product of two lines in many parts side by side; lines are kept so short that none loses digits. All are sums of float32 or
float64: a complex infinity times 1 is NaN.
"""

from __future__ import annotations

import functools
import math

import numpy as np

SHORT = 128
"""The most numbers that BLAS adds up as exactly as NumPy, whose pairwise sums begin with as many."""
LEAST = 1024
"""The fewest elements for which `sums` is worth its questions."""
LEAST_ALONE = 1 << 15
"""The same of a line that is not one of many."""

_LONG = 1024  # numbers in one product
_LINES, _MANY = 64, 1 << 15  # lines, and elements in lines that are not short: fewer NumPy adds up in less time
_PIECE = 512  # numbers that are added up at once of a line too long for one product
_WIDTH, _BLOCK = 32, 128  # columns: fewer NumPy adds up in less time; and how many of their rows are added up at once
_BESIDE = 256  # numbers of narrow rows that are added up as one wide row


@functools.lru_cache(maxsize=256)
def kept_ones(size: int, dtype: np.dtype) -> np.ndarray:
    """So many ones, read-only: a line times these is its sum."""
    made = np.ones(size, dtype)
    made.flags.writeable = False
    return made


def row_sums(array: np.ndarray) -> np.ndarray:
    """Sums over the last dimension of an array of few elements, or whose rows are `SHORT`."""
    shape = array.shape
    ones = kept_ones(shape[-1], array.dtype)
    if len(shape) < 3:
        return array.dot(ones)
    return array.reshape(math.prod(shape[:-1]), shape[-1]).dot(ones).reshape(shape[:-1])  # NumPy hands BLAS matrices alone as a whole


def sums(array: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray | None:
    """Sums over all, the first or the last dimensions of an array in row-major order, of at least `LEAST` elements.

    Args:
        axis: one dimension, several in any order, or all (None), counted from the front.
    Returns: None for what NumPy adds up in no more time.
    """
    shape, every = array.shape, array.size
    if isinstance(axis, int):
        begin, end = axis, axis + 1
    elif axis is None:
        begin, end = 0, len(shape)
    else:
        begin, end = min(axis), max(axis) + 1
        if end - begin != len(axis):
            return None
    if end == len(shape):
        size = shape[begin] if end - begin == 1 else math.prod(shape[begin:])
        is_quicker = every >= LEAST_ALONE if size > _LONG else every >= _LINES * size and (size <= SHORT or every >= _MANY)
        if is_quicker:
            return _of_lines(array.reshape(-1, size)).reshape(shape[:begin])
        return None if end - begin == 1 else np.add.reduce(array.reshape(-1, size), axis=1).reshape(shape[:begin])  # in pairs
    width = math.prod(shape[end:])
    if begin:
        return None
    lines = array.reshape(-1, width)
    return (_of_columns(lines) if width >= _WIDTH else _of_narrow(lines)).reshape(shape[end:])


def _of_lines(lines: np.ndarray) -> np.ndarray:
    count, size = lines.shape
    if size <= SHORT:
        return row_sums(lines)
    if size <= _LONG:
        return np.vecdot(lines, kept_ones(size, lines.dtype))
    rest = size % _PIECE
    pieces = lines[:, : size - rest].reshape(count, -1, _PIECE)
    made: np.ndarray = np.add.reduce(np.vecdot(pieces, kept_ones(_PIECE, lines.dtype)), axis=1)
    if rest:
        made += np.vecdot(lines[:, size - rest :], kept_ones(rest, lines.dtype))
    return made


def _of_columns(lines: np.ndarray) -> np.ndarray:
    """Sums of blocks of rows, and then of these sums: so long columns keep their digits."""
    size, ones = len(lines), kept_ones(_BLOCK, lines.dtype)
    if size <= _BLOCK:
        return ones[:size].dot(lines)
    rest = size % _BLOCK
    made = _of_columns(ones @ lines[: size - rest].reshape(-1, _BLOCK, lines.shape[1]))
    if rest:
        made += ones[:rest].dot(lines[size - rest :])
    return made


def _of_narrow(lines: np.ndarray) -> np.ndarray:
    """Sums of a few columns: rows side by side are wide ones, whose sums are added up in float64."""
    size, width = lines.shape
    beside = _BESIDE // width
    whole = size - size % beside
    wide = lines[:whole].reshape(-1, beside * width)
    of_wide = np.add.reduce(wide, axis=0) if lines.dtype.char == "d" else _of_columns(wide)
    made = np.add.reduce(of_wide.reshape(beside, width), axis=0, dtype=np.float64)
    if whole < size:
        made += np.add.reduce(lines[whole:], axis=0, dtype=np.float64)
    return made.astype(lines.dtype, copy=False)


def line_products(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Sums of ``a * b`` over the last dimension of arrays of one shape and dtype; None for lines too long for one product and with gaps."""
    size = a.shape[-1]
    if size > _LONG:
        return _of_long_products(a, b) if a.flags.c_contiguous and b.flags.c_contiguous and a.size >= LEAST_ALONE else None
    return row_sums(a * b) if 2 * size < SHORT and a.size >= LEAST else np.vecdot(a, b)  # which takes its time for each line


def _of_long_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same of long lines, piece by piece."""
    size = a.shape[-1]
    rest, lines = size % _PIECE, (a.reshape(-1, size), b.reshape(-1, size))
    made: np.ndarray = np.add.reduce(np.vecdot(*[x[:, : size - rest].reshape(len(x), -1, _PIECE) for x in lines]), axis=1)
    if rest:
        made += np.vecdot(*[x[:, size - rest :] for x in lines])
    return made.reshape(a.shape[:-1])


def square_sum(line: np.ndarray) -> np.ndarray:
    """The sum of the squares of all elements of an array with one dimension: 0-d, or a number, which few calls make of few elements."""
    if line.size <= 16 * _LONG:
        return line.dot(line)
    rest = line.size % _LONG
    lines, last = line[: line.size - rest].reshape(-1, _LONG), line[line.size - rest :]
    return np.asarray(np.add.reduce(np.vecdot(lines, lines)) + last.dot(last))
