"""Where the elements that an index names lie in memory: NumPy reads and writes through one array of places several times as fast as through
one for each dimension.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace

_SIGNED, _UNSIGNED = np.dtype(np.int64), np.dtype(np.uint64)
FEW = 500
"""How many places there are to be: below, the calls cost more than they save."""


def flat_places(target: Array, index: tuple[Any, ...]) -> Array | None:
    """The places in ``target.reshape(-1)`` that ``target[index]`` names, in its shape.

    Args:
        target: a NumPy array.
        index: whole dimensions, then integer arrays, which broadcast together; dimensions after these are whole.
    Returns: int64; None where there are few places, the elements are not in row-major order, the index has another form, or it names
        elements that are not there, which NumPy refuses.
    """
    if target.size < FEW or not target.flags.c_contiguous:
        return None
    shape, lead = target.shape, 0
    while lead < len(index) and isinstance(index[lead], slice):
        lead += 1
    arrays = index[lead:]
    after = lead + len(arrays)
    step = width = math.prod(shape[after:])
    terms = []
    for size, part in zip(shape[after - 1 : lead - 1 if lead else None : -1], arrays[::-1], strict=True):
        if type(part) is not np.ndarray or part.dtype.kind not in "iu" or not part.size:
            return None
        part = _counted(part, size)
        if part is None:
            return None
        terms.append(part if step == 1 else part * step)
        step *= size
    if not terms:
        return None
    terms.sort(key=_size)  # small ones first: each sum is a pass
    places = sum(terms[1:], terms[0])
    if after < len(shape):
        places = (places[..., None] + np.arange(width)).reshape(*places.shape, *shape[after:])
    if lead:
        first = np.arange(0, target.size, step).reshape(*shape[:lead], *(1,) * places.ndim)
        places = first + places
    return places if places.size >= FEW else None


def taken(xp: Namespace, array: Array, index: Array, dim: int) -> Array:
    """``take_along_axis`` at less cost; in row-major order where array is.

    Args:
        index: integers from 0, of array's rank, and of its size but along ``dim``.
    """
    if xp is not np:
        return xp.take_along_axis(array, index, axis=dim)
    if array.ndim == 1:
        return array[index]
    if array.ndim == 2:
        rows, columns = index.shape
        grid: tuple[Array, ...] = (np.arange(rows)[:, None], index) if dim in (1, -1) else (index, np.arange(columns))
    else:
        dim %= array.ndim
        grid = tuple(index if d == dim else np.arange(n).reshape((n,) + (1,) * (array.ndim - 1 - d)) for d, n in enumerate(index.shape))
    places = None if array.size < FEW else flat_places(array, grid)
    return array[grid] if places is None else array.reshape(-1).take(places)


def _size(array: Array) -> int:
    return int(array.size)


def _counted(part: Array, size: int) -> Array | None:
    """Places along a dimension counted from its beginning; None where one is outside."""
    if part.dtype == _SIGNED and np.maximum.reduce(part.view(_UNSIGNED), axis=None) < size:  # so seen, what is negative is large
        return part
    low, high = np.minimum.reduce(part, axis=None), np.maximum.reduce(part, axis=None)
    if low < -size or high >= size:
        return None
    part = part.astype(np.intp, copy=False)
    return part if low >= 0 else np.where(part < 0, part + size, part)
