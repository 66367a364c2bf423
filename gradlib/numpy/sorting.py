"""Sorting and searching, with NumPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import axis_of, constant, first_tensor, flat, promoted, tensor_of, the_tensor, value_of, vector
from gradlib.numpy.registry import implements
from gradlib.ops import gather, sort as sorts


def _ordered(x: Tensor, along: int) -> Tensor:
    """The places in ascending order, equal ones as they stand."""
    key = x.detach()
    if key.dtype.kind == "c":
        return constant(np.argsort(value_of(key), along, "stable"), x)
    return sorts.argsort(key, along, False, stable=True)


def sorted_along(x: Tensor, along: int) -> Tensor:
    if x.dtype.kind != "c":
        return sorts.sort(x, stable=True, dim=along)[0] if x.ndim else x.clone()
    return gather.take_along_dim(x, _ordered(x, along), along)


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """Sort in ascending order along an axis."""
    x = tensor_of(a)
    return sorted_along(x.reshape((-1,)), 0) if axis is None else sorted_along(x, axis_of(axis, x.ndim))


@implements(np.argsort, exact=True)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """The places in ascending order along an axis."""
    return _ordered(*flat(tensor_of(a), axis))


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Put the k-th smallest in its place, smaller ones before it and larger ones behind: here wholly sorted."""
    x = tensor_of(a)
    _check_kth(kth, x.numel() if axis is None else x.shape[axis_of(axis, x.ndim)], kind)
    return sort(x, axis)


def _check_kth(kth: Any, size: int, kind: str) -> None:
    """Refuse places to partition by that are none. Raises: ValueError for them, and for a kind that NumPy has not."""
    if kind != "introselect":
        raise ValueError(f"partition takes kind='introselect', got {kind!r}")
    for each in np.atleast_1d(np.asarray(value_of(kth))).tolist():
        if size and not -size <= each < size:
            raise ValueError(f"kth(={each}) out of bounds ({size})")


@implements(np.argpartition, exact=True)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """The places of ``partition``."""
    x, along = flat(tensor_of(a), axis)
    _check_kth(kth, x.shape[along], kind)
    return _ordered(x, along)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Tensor:
    """Sort in ascending order, as complex numbers."""
    x = tensor_of(a)
    small = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    return sorted_along(x if x.dtype.kind == "c" else x.to(np.complex64 if small else np.complex128), axis_of(-1, x.ndim))


@implements(np.lexsort, exact=True)
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """The places in the order of several keys, the last one first."""
    like = the_tensor(keys)
    return constant(np.lexsort([value_of(k) for k in keys] if not isinstance(keys, Tensor) else value_of(keys), axis), like)


@implements(np.searchsorted, exact=True)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """The indices at which values would go into a sorted vector."""
    like = first_tensor((a, v))
    x, values = vector(tensor_of(a, like), "numpy.searchsorted").detach(), tensor_of(v, like).detach()
    if sorter is not None:
        x = x[value_of(sorter)]
    x, values = promoted(x, values)
    return sorts.searchsorted_op(x, values, side == "right", None)  # which takes masks and complex numbers too


@implements(np.digitize, exact=True)
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The index of the bin in which each value lies."""
    like = first_tensor((x, bins))
    edges = vector(tensor_of(bins, like), "numpy.digitize, as bins,").detach()
    if tensor_of(x, like).dtype.kind == "c":
        raise TypeError("x may not be complex")
    if edges.shape[0] > 1 and bool((edges[1:] < edges[:-1]).any()):
        return edges.shape[0] - searchsorted(edges.flip(0), x, "left" if right else "right")
    return searchsorted(edges, x, "left" if right else "right")
