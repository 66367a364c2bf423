"""``where``, and ``maximum`` and ``minimum`` with a number, in forms that NumPy runs at the speed of memory."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace, device_array
from gradlib.backend.where import where

_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # an integer of the size of an element
_BLOCK = 1 << 15
LEAST = 4096  # below, the passes cost more than they save


def masked(xp: Namespace, mask: Array, array: Array) -> Array:
    """The elements where a mask is True, and 0 elsewhere, also in place of inf and NaN.

    Args:
        mask: bool; array: broadcasts with it.
    """
    return chosen(xp, mask, array, 0)


def chosen(xp: Namespace, mask: Array, input: Any, other: Any) -> Array:
    """``xp.where(mask, input, other)``.

    NumPy's ``where`` branches at each element, which is slow for a mask without a pattern. Here the bits of each element, read as an
    integer, are multiplied by 1 or 0, several at once without a branch.

    Args:
        mask: bool, broadcasts with the others; input, other: arrays of one dtype, or one of them a number.
    """
    if xp is not np:
        return where(mask, input, other) if type(mask) is device_array() else xp.where(mask, input, other)
    if type(mask) is bool or mask.size < LEAST or mask.dtype.char != "?" or not mask.flags.c_contiguous:
        return xp.where(mask, input, other)
    array, rest = (input, other) if _fits(input, mask) else (other, input)
    is_pair = _fits(rest, mask) and mask.size >= _BLOCK and rest.dtype is array.dtype
    if not _fits(array, mask) or not (is_pair or _is_number(rest, array.dtype)):
        return xp.where(mask, input, other)
    if not is_pair and rest == 0 and math.copysign(1, rest) > 0:
        return _kept(mask if array is input else ~mask, array)
    bits = _BITS[array.itemsize]
    a, b = (x.view(bits) if type(x) is np.ndarray and x.ndim else np.array(x, array.dtype).view(bits)[()] for x in (input, other))
    made = np.empty(array.shape, array.dtype)  # which owns its memory, as a view of integers would not
    out = made.view(bits)
    np.bitwise_xor(a, b, out)
    out *= mask.view(np.int8)
    out ^= b
    return made


def _kept(mask: Array, array: Array) -> Array:
    """The elements of an array where a mask of its shape is True, and 0 elsewhere."""
    bits = _BITS[array.itemsize]
    made = np.empty(array.shape, array.dtype)
    np.multiply(array.view(bits), mask.view(np.int8), made.view(bits))
    return made


def stepped(xp: Namespace, mask: Array, high: float, low: float, dtype: np.dtype) -> Array:
    """``xp.where(mask, high, low)`` of two numbers in a dtype."""
    if xp is not np or mask.size < LEAST or not mask.flags.c_contiguous or dtype.itemsize not in _BITS:
        return xp.where(mask, dtype.type(high), dtype.type(low))
    made = np.empty(mask.shape, dtype)
    bits = made.view(_BITS[dtype.itemsize])
    one, other = (np.array(x, dtype).view(bits.dtype)[()] for x in (high, low))
    np.multiply(mask.view(np.int8), one ^ other, out=bits)
    bits ^= other
    return made


def _fits(array: Any, mask: Array) -> bool:
    """Whether an array has the shape of the mask, and elements of the size of an integer."""
    return type(array) is np.ndarray and array.shape == mask.shape and array.itemsize in _BITS and array.dtype.kind != "O"


def _is_number(x: Any, dtype: np.dtype) -> bool:
    """Whether ``x`` is a real number, or an array of one, that ``where`` leaves in this dtype."""
    if type(x) is np.ndarray:
        return x.ndim == 0 and x.dtype is dtype and dtype.kind in "fiub"
    return (type(x) is int and dtype.kind in "fiu") or (type(x) is float and dtype.kind == "f")


def extreme(ufunc: Any, array: Array, number: Any, into: Array | None = None) -> Array:
    """``ufunc(array, number)`` for maximum or minimum.

    NumPy compares with a number one element at a time, but with an array several at once: so the number is repeated in an array, which is
    kept. Its ``clip`` takes a number as fast, after a longer call; of two zeros it keeps the array's, as torch does.

    Args:
        ufunc: ``xp.maximum`` or ``xp.minimum``; array: any; number: a number, or an array that broadcasts.
        into: an array of the same shape and dtype that may be written, as array itself; the result may be another.
    """
    if array.size < _SOME or type(array) is not np.ndarray or type(number) not in (int, float) or array.dtype.char not in "fd":
        return ufunc(array, number)
    if not array.flags.c_contiguous:
        return ufunc(array, number)
    if array.size > _BLOCK:
        return array.clip(number, math.inf, out=into) if ufunc is np.maximum else array.clip(-math.inf, number, out=into)
    row = _repeated(number, not number and math.copysign(1, number), array.dtype.char)[: array.size]
    return ufunc(array, row if array.ndim == 1 else row.reshape(array.shape), out=into)


_SOME = 2048


@functools.lru_cache(maxsize=16)
def _repeated(number: float, sign: float, char: str) -> Array:
    """A number in each element of a block; ``sign``: that of a zero, which keeps the two apart."""
    return np.full(_BLOCK, number, char)


def irregular_places(array: Array, mask: Any) -> Array | None:
    """The places in row-major memory of the elements of a contiguous NumPy array that a mask of its shape marks.

    Returns: None for no such mask, and where NumPy does better with the mask itself: it asks each element, and waits where the answer
        often changes.
    """
    if array.size < LEAST or type(mask) is not np.ndarray or mask.dtype.kind != "b" or mask.shape != array.shape:
        return None
    if not array.flags.c_contiguous:
        return None
    line = mask.reshape(-1)
    changes = np.count_nonzero(line[1:] != line[:-1])
    return line.nonzero()[0] if 8 * changes > line.size else None
