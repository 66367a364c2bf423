"""Joining, splitting and repeating arrays, with NumPy's arguments."""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import all_tensors, axis_of, first_tensor, held, promoted_arrays, sizes_of, tensor_of, value_of, written
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import join, rearrange


def _joined(arrays: Any, dtype: Any, casting: str) -> list[Tensor]:
    """What is to be joined, in one dtype. Raises: TypeError where a part may not be cast to ``dtype``."""
    if dtype is None:
        return promoted_arrays(*arrays)
    parts = promoted_arrays(*arrays, dtype=held(dtype))
    for each in arrays:
        given = each.dtype if hasattr(each, "dtype") else tensor_of(each, parts[0]).dtype
        if not np.can_cast(given, dtype, casting=casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {given!r} to {np.dtype(dtype)!r} according to the rule '{casting}'")
    return parts


@implements(np.concatenate)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Arrays one behind the other."""
    parts = _joined(arrays, dtype, casting)
    if axis is None:
        return written(join.cat([part.reshape((-1,)) for part in parts], 0), out, "numpy.concatenate")
    first = parts[0].ndim
    if not first:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    for part in parts:
        if part.ndim != first:
            raise ValueError(f"all the input array dimensions must have the same number, got {[each.ndim for each in parts]}")
    made = join.cat(parts, axis)
    return made if out is None else written(made, out, "numpy.concatenate")


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Arrays of one shape along a new axis."""
    parts = _joined(arrays, dtype, casting)
    first = parts[0].shape
    for part in parts:
        if part.shape != first:
            raise ValueError("all input arrays must have the same shape")
    made = join.stack(parts, axis)
    return made if out is None else written(made, out, "numpy.stack")


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Side by side: along the second axis, of vectors along the first."""
    parts = [_at_least(x, 1) for x in _joined(tup, dtype, casting)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """One above the other, vectors as rows."""
    return concatenate([_at_least(x, 2) for x in _joined(tup, dtype, casting)], 0)


@implements(np.dstack)
def dstack(tup: Any) -> Tensor:
    """One behind the other, along the third axis."""
    return concatenate([_at_least(x, 3) for x in promoted_arrays(*tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Tensor:
    """Side by side, vectors as columns."""
    return concatenate([x.reshape((-1, 1)) if x.ndim < 2 else x for x in promoted_arrays(*tup)], 1)


def _at_least(x: Tensor, ndim: int) -> Tensor:
    """As ``atleast_2d`` and ``atleast_3d`` place the dimensions that are there."""
    if ndim == 1 or x.ndim == 0:
        return x.reshape((1,) * ndim) if x.ndim == 0 else x
    if x.ndim == 1:
        return x.unsqueeze(0) if ndim == 2 else x.unsqueeze(0).unsqueeze(-1)
    return x.unsqueeze(-1) if x.ndim == 2 and ndim == 3 else x


def _atleast(ndim: int) -> Any:
    def atleast(*arys: Any) -> Any:
        found = tuple(_at_least(x, ndim) for x in all_tensors(arys))
        return found[0] if len(found) == 1 else found

    return atleast


implements(np.atleast_1d)(_atleast(1))
implements(np.atleast_2d)(_atleast(2))
implements(np.atleast_3d)(_atleast(3))


@implements(np.block)
def block(arrays: Any) -> Tensor:
    """An array from nested lists of blocks: the innermost side by side, the next one above the other."""

    def depth(value: Any) -> int:
        return 1 + depth(value[0]) if isinstance(value, list) else 0

    levels = depth(arrays)
    parts: list[Tensor] = []

    def leaves(value: Any) -> Any:
        if isinstance(value, list):
            return [leaves(each) for each in value]
        parts.append(tensor_of(value, like))
        return parts[-1]

    like = first_tensor(arrays)
    nested = leaves(arrays)
    ndim = builtins.max(levels, *[part.ndim for part in parts])

    def joined(value: Any, level: int) -> Tensor:
        if not isinstance(value, list):
            return value.reshape((*[1] * (ndim - value.ndim), *value.shape))
        return concatenate([joined(each, level + 1) for each in value], ndim - levels + level)

    return joined(nested, 0) if levels else joined(nested, 0).clone()


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    """Add values at the end."""
    return concatenate([arr, values], axis) if axis is not None else concatenate(promoted_arrays(arr, values), None)


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: so many of one size, or between these places."""
    x = tensor_of(ary)
    if np.ndim(value_of(indices_or_sections)) == 0:
        count, size = operator.index(indices_or_sections), x.shape[axis_of(axis, x.ndim)]
        if size % count:
            raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis, the first ones longer by one where they do not divide it."""
    x = tensor_of(ary)
    along = axis_of(axis, x.ndim)
    chosen = value_of(indices_or_sections)
    if np.ndim(chosen) == 0:
        if operator.index(chosen) <= 0:
            raise ValueError("number sections must be larger than 0.")
        return list(join.tensor_split(x, operator.index(chosen), along))
    ends = [int(i) for i in chosen]
    return [x[(slice(None),) * along + (slice(a, b),)] for a, b in zip([0, *ends], [*ends, x.shape[along]], strict=True)]


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts side by side."""
    x = _of_dims(ary, 1, "hsplit")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts one above the other."""
    return split(_of_dims(ary, 2, "vsplit"), indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts along the third axis."""
    return split(_of_dims(ary, 3, "dsplit"), indices_or_sections, 2)


def _of_dims(ary: Any, least: int, name: str) -> Tensor:
    x = tensor_of(ary)
    if x.ndim < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    return x


@implements(numpy_function("unstack"))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis, without it."""
    return tuple(tensor_of(x).unbind(axis))


@implements(np.tile)
def tile(A: Any, reps: Any) -> Tensor:
    """Repeated as a whole, so often along each axis."""
    x = tensor_of(A)
    return rearrange.tile(x, sizes_of(reps))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """Each element repeated."""
    x = tensor_of(a)
    x, along = (x.reshape((-1,)), 0) if axis is None else (x, axis_of(axis, x.ndim))
    counts = np.atleast_1d(np.asarray(value_of(repeats)))
    return rearrange.repeat_interleave(x, int(counts[0]), along) if counts.size == 1 else _repeated(x, counts, along)


def _repeated(x: Tensor, counts: np.ndarray, along: int) -> Tensor:
    if counts.size != x.shape[along]:
        raise ValueError(f"operands could not be broadcast together with shape ({x.shape[along]},) ({counts.size},)")
    return x[(slice(None),) * along + (np.repeat(np.arange(x.shape[along]), counts),)]
