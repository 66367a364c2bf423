"""Arrays computed block by block, so that what one pass leaves is still in the cache for the next, and which arrays are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradlib.backend.array import Array

LEAST = 1024
"""How many elements there are to be: below, the calls cost more than they save."""
BLOCK = 1 << 16  # elements of float32, of float64 half as many: what is computed of them in several passes stays in the cache
_CACHED = 1 << 22  # bytes: of shorter arrays even the outer cache holds the passes' results


def blocks(form: Callable[..., None], *operands: Any, dtype: Any = None) -> Array:
    """A new array of the first operand's shape, computed block by block.

    Args:
        form: ``form(*parts, out)`` writes a function of parts of the operands into a part of the result.
        operands: arrays in row-major order, of one shape, and numbers.
        dtype: the result's; the first operand's where it is None.
    """
    made = np.empty(operands[0].shape, dtype or operands[0].dtype)
    size = BLOCK if operands[0].dtype.itemsize <= 4 else BLOCK // 2
    if made.ndim == 1 and made.size <= size:
        form(*operands, made)
        return made
    out = made.reshape(-1)
    lines = [x.reshape(-1) if type(x) is np.ndarray else x for x in operands]
    for begin in range(0, out.size, size):
        part = slice(begin, begin + size)
        form(*(x[part] if type(x) is np.ndarray else x for x in lines), out[part])
    return made


def fits(array: Any, chars: str = "f") -> bool:
    """Whether an array is one of those that are computed by blocks, of one of the dtypes with these characters."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char in chars and array.flags.c_contiguous


def fit(a: Any, b: Any, chars: str = "fd") -> bool:
    """Whether two arrays of one shape and dtype are computed by blocks."""
    return fits(a, chars) and fits(b, chars) and a.shape == b.shape and a.dtype is b.dtype


def are_long(*arrays: Any) -> bool:
    """Whether arrays of one shape and dtype are so long that a few passes take less time block by block."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.nbytes <= _CACHED:  # most are not, and are asked at every call
        return False
    return all(
        type(x) is np.ndarray and x.dtype.char in "fd" and x.dtype is first.dtype and x.shape == first.shape and x.flags.c_contiguous
        for x in arrays
    )


def are_alike(input: Any, target: Any) -> bool:
    """Whether these are large arrays of float32 or float64 in row-major order, of one shape."""
    if not (is_large(input) and type(target) is np.ndarray and target.dtype is input.dtype and target.shape == input.shape):
        return False
    return bool(input.flags.c_contiguous and target.flags.c_contiguous)


def is_large(array: Any) -> bool:
    """Whether a temporary result is an array of NumPy's that is worth writing into."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char in "fd"


_LINE = 4096  # elements whose products are summed in float32 without losing digits


def in_lines(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Blocks of arrays as matrices of lines of `_LINE` elements, and what is left as one line."""
    parts = [x.reshape(-1) for x in arrays]
    whole = parts[0].size // _LINE * _LINE
    whole = whole if whole > 4 * _LINE else 0  # of few elements what counts is the number of calls
    for begin in range(0, whole, BLOCK):
        yield tuple(x[begin : min(begin + BLOCK, whole)].reshape(-1, _LINE) for x in parts)
    yield tuple(x[whole:].reshape(1, -1) for x in parts)


def within(x: Array, low: float, high: float) -> bool:
    """Whether all elements lie between two numbers; NaN does not. Two searches take half the time of two reductions."""
    return bool(x.item(x.argmin()) > low and x.item(x.argmax()) < high)


@functools.cache
def row(number: float, char: str = "f") -> Array:
    """A number in each element of a block: NumPy's maximum and minimum with an array are three times as fast as with a number."""
    return np.full(BLOCK, number, char)
