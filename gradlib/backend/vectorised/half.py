"""Rounding to float16, and float32 of float16."""

from __future__ import annotations

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.vectorised.blocks import blocks, fits, row, within

MANY = 1 << 13
"""The elements below which NumPy's own loop takes less time."""
_OVERFLOW = 65520  # from here on a number is infinite in float16
_EXPONENT = np.array(0x7F800000, np.int32)
_GRID = np.array((13 << 23) + (1 << 22) + 1536, np.int32)
_INFINITE = 0x7C00 << 1  # the digits of float16's infinity, without the sign
_SIGN_AND_DIGITS = np.array(-0x70002000, np.int32)
_UNIT = np.array(2.0**112, np.float32)


def _to_half(x: Array, out: Array) -> None:
    """Round to float16, to the nearest and of two to the even one, as NumPy's cast does.

    With g = 1.5 * 2**13 times the power of two in |x|, the sum |x| + g has the last places of a float16, to which it is rounded: its last
    bits are the digits of the float16, whose exponent follows from g's. 1536 makes good what else the two add up to.
    """
    if not within(x, -_OVERFLOW, _OVERFLOW):
        out[...] = x
        return
    size = np.absolute(x)
    large = np.maximum(size, row(2.0**-14)[: x.size])  # below the least normal number the last place stays
    bits, sign = large.view(np.int32), np.empty(x.shape, np.uint16)
    bits &= _EXPONENT
    bits += _GRID
    size += large
    bits >>= 13
    bits += size.view(np.int32)
    made = out.view(np.uint16)
    np.copyto(made, bits, casting="unsafe")
    np.copyto(sign, np.right_shift(x.view(np.int32), 16, bits), casting="unsafe")
    sign &= 0x8000
    made |= sign


def _of_half(x: Array, out: Array) -> None:
    """float32 of float16, exactly: its digits, moved to where float32 has them, are the number divided by 2**112."""
    digits = x.view(np.uint16) << 1
    if digits.item(digits.argmax()) >= _INFINITE:  # or NaN
        out[...] = x
        return
    bits = out.view(np.int32)
    bits[...] = x.view(np.int16)
    bits <<= 13
    bits &= _SIGN_AND_DIGITS  # the sign is repeated in between
    out *= _UNIT


def cast_half(array: Array, dtype: np.dtype) -> Array | None:
    """``array.astype(dtype)`` from float32 to float16 or back; None for other dtypes, and where NumPy's own loop takes less time."""
    if array.size < MANY or array.dtype.char + dtype.char not in ("fe", "ef") or not fits(array, "fe"):
        return None
    return blocks(_to_half if dtype.char == "e" else _of_half, array, dtype=dtype)
