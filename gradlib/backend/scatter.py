"""Writes through repeated indices, where every repeat counts: NumPy's ``ufunc.at``.

CuPy has it for addition in some dtypes, and for extremes in single precision that overlooks NaN; the rest is made of these and of sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, apart, cupy, namespace
from gradlib.backend.dtype import float16, float32, float64, int32, int64, is_bfloat16
from gradlib.backend.flat_index import FEW, flat_index

_ADDED_AT_ONCE = (int32, float16, float32, float64)
"""The dtypes of gradlib's that CuPy adds with one atomic instruction; it has unsigned 32 and 64 bits besides."""


def scatter_add(target: Array, index: Any, values: Any) -> None:
    """``target[index] += values`` in place, where repeated indices all count."""
    if type(target) is np.ndarray and target.size < _LONG:  # too few for more than the call
        return np.add.at(target, index, values)
    if not isinstance(target, np.ndarray):
        index = tuple(apart(part, target) for part in index) if isinstance(index, tuple) else apart(index, target)
        return _add_on_device(target, index, apart(cupy().asarray(values, target.dtype), target))
    index = index if isinstance(index, tuple) else (index,)
    first = index[0] if len(index) == 1 and target.ndim > 1 else None
    if type(first) is np.ndarray and first.ndim == 1 and first.dtype.kind in "iu" and math.prod(target.shape[1:]) >= _LONG:
        rows = np.broadcast_to(values, (len(first), *target.shape[1:]))
        add = np.add
        for place, row in zip(first.tolist(), rows, strict=True):
            line = target[place]
            add(line, row, line)
        return None
    return _at(np.add, target, index, values)


def _at(ufunc: Any, target: Array, index: Any, values: Any) -> None:
    """``ufunc.at``, which has a short path for one index into one dimension, several times faster."""
    few = target.ndim < 2 or target.size < FEW
    places = None if few else flat_index(target, index if isinstance(index, tuple) else (index,))
    if places is not None:
        target, index = target.reshape(-1), (places.reshape(-1),)
        values = values if getattr(values, "size", 1) == 1 else np.broadcast_to(values, places.shape).reshape(-1)
    ufunc.at(target, index, values)


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


def multiply_at(target: Array, index: Any, values: Array) -> None:
    """``target[index] *= values`` in place, where repeated indices all count."""
    if isinstance(target, np.ndarray):
        _at(np.multiply, target, index, values)
    else:
        fold_at(cupy().multiply, target, index, values)


def extreme_at(target: Array, index: Any, values: Array, largest: bool) -> None:
    """The elements of target at index become the largest (smallest) of themselves and all the values that come there; NaN wins."""
    ufunc = getattr(namespace(target), "maximum" if largest else "minimum")
    if isinstance(target, np.ndarray):
        _at(ufunc, target, index, values)
    else:
        fold_at(ufunc, target, index, values)


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
