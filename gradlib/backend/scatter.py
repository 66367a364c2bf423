"""Writes through repeated indices, where every repeat counts: NumPy's ``ufunc.at``.

CuPy has it for addition in some dtypes, and for extremes in single precision that overlooks NaN; the rest is made of these and of sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradlib.backend import folding
from gradlib.backend.array import Array, cupy, namespace
from gradlib.backend.columns import LEAST
from gradlib.backend.copying import apart, assign
from gradlib.backend.dtype import float16, float32, float64, int32, int64, is_bfloat16
from gradlib.backend.flat_index import FEW, WHOLE, along, along_grid, flat_index, put_along_axis, region, vector_along
from gradlib.backend.placing import put, put_along

_ADDED_AT_ONCE = (int32, float16, float32, float64)
"""The dtypes of gradlib's that CuPy adds with one atomic instruction; it has unsigned 32 and 64 bits besides."""


def scatter_add(target: Array, index: Any, values: Any) -> None:
    """``target[index] += values`` in place, where repeated indices all count."""
    if type(target) is np.ndarray and target.size < _LONG:  # too few for more than the call
        return np.add.at(target, index, values)
    if not isinstance(target, np.ndarray):
        if folding.adder(target.dtype.char)(target, index if isinstance(index, tuple) else (index,), values):
            return None
        index = tuple(apart(part, target) for part in index) if isinstance(index, tuple) else apart(index, target)
        return _add_on_device(target, index, apart(cupy().asarray(values, target.dtype), target))
    index = index if isinstance(index, tuple) else (index,)
    if len(index) == 1 and _picks_long_rows(target.shape, index[0]):
        rows = np.broadcast_to(values, (*index[0].shape, *target.shape[1:]))
        return _add_rows(target, index[0].reshape(-1).tolist(), rows.reshape(-1, *target.shape[1:]), range(index[0].size))
    return _at(np.add, target, index, values)


def _picks_long_rows(shape: tuple[int, ...], index: Any) -> bool:
    """Whether an index picks rows of a NumPy array of that shape that are so long that Python adds them quicker than ``ufunc.at``."""
    return type(index) is np.ndarray and index.ndim > 0 and index.dtype.kind in "iu" and len(shape) > 1 and math.prod(shape[1:]) >= _LONG


def _add_rows(target: Array, places: list[int], rows: Array, which: Iterable[int]) -> None:
    """Add those of the rows at their places."""
    add = np.add
    for k in which:
        line = target[places[k]]
        add(line, rows[k], line)


def rows_into_zeros(shape: tuple[int, ...], index: Any, values: Array) -> Array | None:
    """Zeros of a shape with values added to the rows that the index names: one row for each is copied, the others are added.

    Returns: None where the index picks no long rows.
    """
    if not _picks_long_rows(shape, index) or not index.size:
        return None
    index, rows = index.reshape(-1), values.reshape(-1, *shape[1:])
    order, held = np.arange(len(index)), np.full(shape[0], -1)
    held[index] = order  # whichever is held of several
    named = held >= 0
    if 2 * np.count_nonzero(named) > len(named):
        made = rows.take(held, 0, None, "wrap")
        made[~named] = 0
    else:
        made = np.zeros(shape, rows.dtype)
        made[named] = rows[held[named]]
    _add_rows(made, index.tolist(), rows, np.flatnonzero(held[index] != order).tolist())
    return made


def _at(ufunc: Any, target: Array, index: Any, values: Any) -> None:
    """``ufunc.at``, which has a short path for one index into one dimension, several times faster."""
    index = index if isinstance(index, tuple) else (index,)
    if len(index) == 1 and _adds_narrow_rows(target, index[0]):
        rows = np.broadcast_to(values, (len(index[0]), target.shape[1]))
        for place in range(target.shape[1]):
            ufunc.at(target[:, place], index[0], rows[:, place])
        return
    places = None if target.ndim < 2 else flat_index(target, index, each=True)
    if places is not None:
        target, index = target.reshape(-1), (places.reshape(-1),)
        values = np.broadcast_to(values, places.shape).reshape(-1) if np.ndim(values) else values
    ufunc.at(target, index, values)


def _adds_narrow_rows(target: Array, index: Any) -> bool:
    """Whether a vector of many integers picks rows of a matrix that are so short that their columns are written one after the other."""
    if target.ndim != 2 or type(index) is not np.ndarray or index.ndim != 1 or index.dtype.kind not in "iu":
        return False
    return len(index) >= LEAST and target.shape[1] <= _NARROW


_NARROW = 8
"""The most elements of such a row."""
_LONG = 256
"""How long a row is to be for Python to add it quicker than ``ufunc.at``; of fewer elements no other way is worth a question."""


def _add_on_device(target: Array, index: Any, values: Array) -> None:
    add = cupy().add.at
    if target.dtype in _ADDED_AT_ONCE:
        add(target, index, values)
    elif target.dtype == int64:  # the same bits
        add(target.view(np.uint64), index, values.view(np.uint64))
    elif target.dtype.kind == "c":
        add(target.real, index, values.real)
        add(target.imag, index, values.imag)
    else:
        wide = float32 if is_bfloat16(target.dtype) else int32
        total = target.astype(wide)
        add(total, index, values.astype(wide))
        target[...] = total.astype(target.dtype)


_FOLDS = {"prod": "multiply", "max": "maximum", "min": "minimum"}
"""By name, the ufunc of a fold; of extremes NaN counts before all."""


def reduce_at(how: str, target: Array, index: tuple[Any, ...], values: Array) -> None:
    """``target[index] *= values`` in place ("prod"), or the larger or smaller of both ("max", "min"), where repeated indices all count."""
    ufunc = getattr(namespace(target), _FOLDS[how])
    if isinstance(target, np.ndarray):
        _at(ufunc, target, index, values)
    elif not put(target, index, values, how):
        fold_at(ufunc, target, index, values)


def write_along(how: str, target: Array, index: Array, dim: int, values: Any) -> None:
    """Write values at places along a dimension in place.

    Args:
        how: "put"; "add", or as for ``reduce_at``, where repeats all count.
        index: integers, of target's rank, and of its sizes or fewer but along ``dim``, which counts from 0.
        values: of index's shape, or a number.
    """
    on_host = type(target) is np.ndarray
    if not on_host and (put_along(target, dim, index, values, how) or (how != "put" and _folded(target, dim, index, values, how))):
        return
    if how == "put" and on_host:
        put_along_axis(target, index, values, dim)
        return
    key: tuple[Any, ...] | None = None
    if on_host and index.size >= FEW:
        if (vector := vector_along(index, dim, target.shape[dim])) is not None:
            target, key = target[region(index, dim, WHOLE)], (*(WHOLE,) * dim, vector)
        elif (places := along(target, index, dim)) is not None:
            target, key = target.reshape(-1), (places.reshape(-1),)
            values = values.reshape(-1) if np.ndim(values) else values
    if key is None:
        key = along_grid(np if on_host else cupy(), index.shape, index, dim)
    if how == "put":
        assign(target, key, values)
    elif how == "add":
        scatter_add(target, key, values)
    else:
        reduce_at(how, target, key, values)


def _folded(target: Array, dim: int, index: Array, values: Any, how: str) -> bool:
    """The same for repeats that count, in a dtype that no atomic instruction serves."""
    return folding.folded(target, values, index, dim, {"add": "sum", "max": "amax", "min": "amin"}.get(how, how), True, True) is not None


def fold_at(function: Callable[[Array, Array], Array], target: Array, index: Any, values: Array) -> None:
    """``target[index] = function(target[index], values)`` in place, where repeated indices all count; the host waits for nothing.

    The values are sorted by place; then the folds of equal places, which are neighbours, grow by doubling.

    Args:
        function: associative and commutative, on arrays of one shape.
    """
    xp = namespace(target)
    places = xp.arange(target.size).reshape(target.shape)[index]
    values = xp.broadcast_to(values, places.shape).reshape(-1)
    order = xp.argsort(places.reshape(-1))
    places, values = places.reshape(-1)[order], values[order]
    step = 1
    while step < places.size:
        values[:-step] = xp.where(places[:-step] == places[step:], function(values[:-step], values[step:]), values[:-step])
        step *= 2
    whole = values[xp.searchsorted(places, places)]  # of each run its first; written once for each element, all alike
    flat = target.reshape(-1).copy()
    flat[places] = function(flat[places], whole)
    target[...] = flat.reshape(target.shape)
