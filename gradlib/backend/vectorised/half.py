"""Rounding to float16."""

from __future__ import annotations

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.vectorised.blocks import blocks, row, within

_MANY = 1 << 13  # elements: below, NumPy's own loop takes less time
_OVERFLOW = 65520  # from here on a number is infinite in float16
_EXPONENT = np.array(0x7F800000, np.int32)
_GRID = np.array((13 << 23) + (1 << 22) + 1536, np.int32)


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


def to_half(array: Array) -> Array:
    """``array.astype(float16)``, of an array that `fits`."""
    return blocks(_to_half, array, dtype=np.float16) if array.size >= _MANY else array.astype(np.float16)
