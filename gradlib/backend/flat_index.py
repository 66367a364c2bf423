"""Index arrays combined to one flat index: NumPy reads and writes by it several times as fast as by an index array for each dimension."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace
from gradlib.backend.columns import has_columns, with_row
from gradlib.backend.placing import taken

WHOLE = slice(None)
FEW = 4096
"""The least number of places for which a flat index saves more than it costs."""


def positions(size: int, behind: int) -> Array:
    """0 to size - 1 along a dimension that has ``behind`` others behind it; not to be written, since short ones are kept for good."""
    return _kept_positions(size, behind) if size <= _SHORT else np.arange(size).reshape(-1, *(1,) * behind)


@lru_cache(maxsize=256)
def _kept_positions(size: int, behind: int) -> Array:
    made = np.arange(size).reshape(-1, *(1,) * behind)
    made.flags.writeable = False
    return made


_SHORT = 512


def flat_index(target: Array, index: tuple[Any, ...], each: bool = False) -> Array | None:
    """The index into ``target.reshape(-1)`` that selects the elements of ``target[index]``, of that shape.

    Args:
        target: a NumPy array.
        index: whole dimensions, then integer arrays, which broadcast together; dimensions after these are whole.
        each: whether NumPy takes its time for each element, as ``ufunc.at`` does; it reads and writes whole dimensions at once.
    Returns: int64; None for few places, for a target that is not contiguous, for an index of another form, and for indices out
        of range or of shapes that do not broadcast, which are left to NumPy to refuse.
    """
    if not target.flags.c_contiguous:
        return None
    shape, lead = target.shape, 0
    while lead < len(index) and type(index[lead]) is slice:
        lead += 1
    arrays = index[lead:]
    for part in arrays:
        if type(part) is not np.ndarray or part.dtype.kind not in "iu":
            return None
    after = lead + len(arrays)
    width = math.prod(shape[after:])
    try:
        count = np.broadcast(*arrays).size if arrays else 0
    except ValueError:
        return None
    if count * (width * math.prod(shape[:lead]) if each else 1) < FEW:
        return None
    terms, step = [], 1  # in units of what lies behind the arrays' dimensions
    for size, part in zip(shape[after - 1 : lead - 1 if lead else None : -1], arrays[::-1], strict=True):
        part = _from_front(part, size)
        if part is None:
            return None
        terms.append(part if step == 1 else part * step)
        step *= size
    terms.sort(key=_size)  # small arrays first: each sum is a pass over memory
    places = sum(terms[1:], terms[0])
    if after < len(shape):
        if step <= places.size:  # the places of every row, of which whole rows are copied: a third of the time of adding
            all_rows = np.arange(step * width).reshape(step, *shape[after:])
            places = all_rows.take(places, 0, None, "wrap")  # they are in range
        else:
            places = ((places * width)[..., None] + np.arange(width)).reshape(*places.shape, *shape[after:])
    if lead:
        first = np.arange(0, target.size, step * width).reshape(*shape[:lead], *(1,) * places.ndim)
        places = first + places
    return places


def take_along_axis(xp: Namespace, array: Array, index: Array, dim: int) -> Array:
    """NumPy's ``take_along_axis``, at less cost; the result is contiguous if ``array`` is.

    Args:
        index: integers, of array's rank, and of its sizes or fewer but along ``dim``.
    """
    dim %= array.ndim
    if xp is not np:
        made = taken(array, dim, index, along=True)
        return array[along_grid(xp, index.shape, index, dim)] if made is None else made
    if array.ndim == 1:
        return array[index]
    if index.size < FEW:
        return array[along_grid(xp, index.shape, index, dim)]
    if (vector := vector_along(index, dim, array.shape[dim])) is not None:
        return array[region(index, dim, WHOLE)].take(vector, dim, None, "wrap")
    places = along(array, index, dim)
    if places is None:
        return array[along_grid(xp, index.shape, index, dim)]
    return array.reshape(-1).take(places, None, None, "wrap")  # which takes less time than "clip", and both than a look at each place


def put_along_axis(array: Array, index: Array, values: Any, dim: int) -> None:
    """NumPy's ``put_along_axis`` for NumPy's arrays, at less cost. ``dim``: from 0; index: as for ``take_along_axis``."""
    if array.ndim == 1:
        array[index] = values
        return
    if index.size >= FEW and (vector := vector_along(index, dim, array.shape[dim])) is not None:
        array[region(index, dim, vector)] = values
        return
    places = None if index.size < FEW else along(array, index, dim)
    if places is None:
        array[along_grid(np, index.shape, index, dim)] = values
    else:
        array.reshape(-1)[places] = values


def along_grid(xp: Namespace, shape: tuple[int, ...], index: Array, dim: int) -> tuple[Array, ...]:
    """Index arrays, one for each dimension, that select by ``index`` along ``dim`` and every place along the others, of these sizes."""
    grid: tuple[Array, ...] = ()
    behind = len(shape)
    for d, n in enumerate(shape):
        behind -= 1
        grid += (index if d == dim else positions(n, behind) if xp is np else xp.arange(n).reshape(n, *(1,) * behind),)
    return grid


def vector_along(index: Array, dim: int, size: int) -> Array | None:
    """The vector that an index along a dimension repeats along all others, and so names whole slices; None for another index.

    Also None where a place is not from 0 to size - 1.
    """
    shape = index.shape
    for d, step in enumerate(index.strides):
        if d != dim and step and shape[d] > 1:
            return None
    vector = index[tuple([WHOLE if d == dim else 0 for d in range(index.ndim)])]
    return vector if len(vector) < index.size and are_within(vector, size) else None


def region(index: Array, dim: int, at: Any) -> tuple[Any, ...]:
    """The key of the part of an array that an index along a dimension reaches: in the others its sizes, and ``at`` in that one."""
    return tuple([at if d == dim else slice(0, n) for d, n in enumerate(index.shape)])


def along(array: Array, index: Array, dim: int) -> Array | None:
    """The flat index into an array of an index along a dimension; None where that has gaps, and where a place is out of range."""
    shape = array.shape
    if not array.flags.c_contiguous or not are_within(index, shape[dim]):
        return None
    if index.ndim == 2 and dim == 1:  # the beginning of a row for each of its places, without a loop over short rows
        places = np.arange(0, len(index) * shape[1], shape[1]).repeat(index.shape[1])
        places += index.reshape(-1)
        return places.reshape(index.shape)
    begins: Any = 0  # small until the index joins: each sum is a pass over memory
    for d, n in enumerate(index.shape):
        if d != dim:
            begins = begins + positions(n, len(shape) - 1 - d) * math.prod(shape[d + 1 :])
    step = math.prod(shape[dim + 1 :])
    if step > 1:
        index = index * step
    if index.ndim == 2 and has_columns(index):
        return with_row(np.add, index.astype(np.intp, copy=False), begins.reshape(-1))
    return begins + index


def _size(array: Array) -> int:
    return int(array.size)


def are_within(places: Array, size: int) -> bool:
    """Whether integers, of which there are some, are of dtype int64 or int32 and all from 0 to size - 1."""
    kind = _UNSIGNED.get(places.dtype)
    if kind is None:
        return False
    seen = places.view(kind)
    return bool(seen.item(seen.argmax()) < size)  # half the time of NumPy's max(); seen as unsigned, what is negative is large


_UNSIGNED: dict[Any, Any] = {np.dtype(np.int64): np.dtype(np.uint64), np.dtype(np.int32): np.dtype(np.uint32)}


def _from_front(part: Array, size: int) -> Array | None:
    """Indices with negative ones counted from the front; None if one is out of range."""
    if are_within(part, size):
        return part.astype(np.intp, copy=False)
    low, high = np.minimum.reduce(part, axis=None), np.maximum.reduce(part, axis=None)
    if low < -size or high >= size:
        return None
    part = part.astype(np.intp, copy=False)
    return part if low >= 0 else np.where(part < 0, part + size, part)
