"""Choosing by a mask."""

from __future__ import annotations

import numpy as np

from gradlib.backend.array import Array, Namespace

_BITS = {4: np.int32, 8: np.int64}
_LEAST = 4096  # below, the passes cost more than they save


def masked(xp: Namespace, mask: Array, array: Array) -> Array:
    """The elements where a mask holds, 0 elsewhere, also in place of inf and NaN.

    NumPy's ``where`` branches at each element, which costs most where a mask has no pattern; the bits of all ones or zeros that it becomes
    here select without a branch, by several elements at once.

    Args:
        mask: the result of a comparison, whose bytes are 0 and 1; array: broadcasts with it.
    """
    bits = _BITS.get(array.dtype.itemsize) if xp is np and array.dtype.kind == "f" else None
    if bits is None or array.size < _LEAST or mask.shape != array.shape or not (mask.flags.c_contiguous and array.flags.c_contiguous):
        return xp.where(mask, array, xp.zeros((), array.dtype))
    chosen = mask.view(np.int8).astype(bits)
    np.negative(chosen, out=chosen)
    chosen &= array.view(bits)
    return chosen.view(array.dtype)
