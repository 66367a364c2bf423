"""Shapes, joins, places and order."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradlib.array_api.array import Array, as_standard, common_dtype, standard
from gradlib.array_api.reductions import over
from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor
from gradlib.ops import broadcast, gather, index, join, minmax, rearrange, select, shape as shapes, sort as sorting
from gradlib.ops.complex import view_as_complex, view_as_real
from gradlib.ops.convert import to
from gradlib.ops.copies import clone, contiguous
from gradlib.ops.dims import wrap_dim, wrap_dims

__all__ = [
    "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero", "expand_dims", "flip", "moveaxis",
    "nonzero", "permute_dims", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "take", "take_along_axis", "tile",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack",
]  # fmt: skip

_Axes = int | tuple[int, ...]

# ---- shapes -----------------------------------------------------------------------------------------------------------------------


@standard
def broadcast_arrays(*arrays: Any) -> Any:
    """The arrays in the shape that they have together."""
    return list(broadcast.broadcast_tensors(*arrays)) if arrays else []


@standard
def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """The array in a shape in which some of its dimensions of size 1 are larger; a view."""
    return shapes.broadcast_to(x, shape)


@standard
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays one behind the other along an axis, or flattened, in their common dtype."""
    common = common_dtype(*arrays)
    parts = [to(x, common) for x in arrays]
    return join.cat([shapes.reshape(x, (-1,)) for x in parts] if axis is None else parts, 0 if axis is None else axis)


@standard
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays of one shape along a new axis, in their common dtype."""
    common = common_dtype(*arrays)
    return join.stack([to(x, common) for x in arrays], axis)


@standard
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The parts of an array along an axis, which goes, as views."""
    return tuple(join.unbind(x, axis))


@standard
def expand_dims(x: Any, /, axis: _Axes) -> Any:
    """The array with a new axis of size 1, or several, at these places of the result."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for place in sorted(wrap_dims(axes, x.ndim + len(axes))):
        x = shapes.unsqueeze(x, place)
    return x


@standard
def squeeze(x: Any, /, axis: _Axes) -> Any:
    """The array without these axes. Raises: ValueError where one is not of size 1."""
    axes = wrap_dims(axis, x.ndim)
    if any(x.shape[each] != 1 for each in axes):
        raise ValueError(f"squeeze: axes {axes} of shape {tuple(x.shape)} are not all of size 1")
    return shapes.squeeze(x, axes)


@standard
def flip(x: Any, /, *, axis: _Axes | None = None) -> Any:
    """The elements in reverse order along some axes, or all."""
    return rearrange.flip(x, tuple(range(x.ndim)) if axis is None else wrap_dims(axis, x.ndim))


@standard
def moveaxis(x: Any, source: _Axes, destination: _Axes, /) -> Any:
    """The array with some axes at other places, the rest in their order; a view."""
    return shapes.movedim(x, source, destination)


@standard
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """The array with its axes in another order; a view."""
    return shapes.permute(x, axes)


@standard
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element, or each position along an axis, several times in its place."""
    return rearrange.repeat_interleave(x, to(repeats, dtypes.int64) if isinstance(repeats, Tensor) else repeats, axis)


@standard
def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The same elements in another shape, as a view where that can be.

    Args:
        x: any array.
        shape: its sizes; -1 for one that follows from the others.
        copy: True for memory of its own, False to refuse (ValueError) where that would be needed.
    """
    if copy is False:
        try:
            return shapes.view(x, shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: {error}") from None
    return shapes.reshape(clone(x) if copy else x, shape)


@standard
def roll(x: Any, /, shift: _Axes, *, axis: _Axes | None = None) -> Any:
    """Elements moved along axes, or the flattened array; those that fall off the end come back at the beginning."""
    axes = None if axis is None else axis if isinstance(axis, tuple) else (axis,)
    steps = shift if isinstance(shift, tuple) or axes is None else (shift,) * len(axes)
    return rearrange.roll(x, steps, axes) if axes is None or x.ndim else clone(x)


@standard
def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """The whole array repeated along each axis."""
    return rearrange.tile(x, repetitions)


# ---- places -----------------------------------------------------------------------------------------------------------------------


@standard
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The elements at these places along an axis, which a one-dimensional array need not name; negative ones count from the end."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: an array of {x.ndim} dimensions needs axis=")
    place = wrap_dim(axis or 0, x.ndim)
    flat = gather.index_select(x, place, shapes.reshape(_counted(indices, x.shape[place]), (-1,)))
    return shapes.reshape(flat, (*x.shape[:place], *indices.shape, *x.shape[place + 1 :])) if indices.ndim != 1 else flat


@standard
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """The elements of each line along an axis at the indices in the same line of another array."""
    return gather.take_along_dim(x, _counted(indices, x.shape[axis]), axis)


def _counted(indices: Any, size: int) -> Any:
    """Places counted from the front."""
    places = to(indices, dtypes.int64)
    return places if indices.dtype.kind == "u" else select.where(places < 0, places + size, places)


@standard
def nonzero(x: Any, /) -> Any:
    """The indices of the elements that are not zero, one array for each axis. Raises: ValueError for an array of no dimensions."""
    if not x.ndim:
        raise ValueError("nonzero: an array of no dimensions has no places")
    return index.nonzero(x, as_tuple=True)


@standard
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The place of the largest element along an axis, or of the flattened array."""
    return minmax.argmax(x, axis, keepdims)


@standard
def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The place of the smallest element along an axis, or of the flattened array."""
    return minmax.argmin(x, axis, keepdims)


@standard
def count_nonzero(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """The number of elements that are not zero, along axes or in all."""
    return over(lambda y, dims, keep: (y != 0).sum(dims, keep), x, axis, keepdims)


@standard
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The indices at which numbers must be inserted to keep a vector sorted: before those equal to them, or behind ("right")."""
    common = common_dtype(x1, x2)
    row = to(x1, common)
    if sorter is not None:
        row = gather.index_select(row, 0, to(sorter, dtypes.int64))
    return sorting.searchsorted(row, to(x2, common) if isinstance(x2, Tensor) else x2, side=side)


# ---- order ------------------------------------------------------------------------------------------------------------------------


@standard
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements along an axis in order."""
    return sorting.sort(x, axis, descending, stable=stable)[0]


@standard
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The places of the elements along an axis in order; equal ones in the order in which they are."""
    return sorting.sort(x, axis, descending, stable=True)[1]


class UniqueAll(NamedTuple):
    """The named tuple that ``unique_all`` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The named tuple that ``unique_counts`` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The named tuple that ``unique_inverse`` returns."""

    values: Array
    inverse_indices: Array


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in order, where each is first, which of them each element is, and how often each is there."""
    values, inverse, counts = _unique(x)
    order = sorting.sort(shapes.reshape(inverse, (-1,)), 0, stable=True)[1]
    first = order[counts.cumsum(0) - counts]
    return UniqueAll(*map(as_standard, (values, first, shapes.reshape(inverse, x.shape), counts)))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements in order, and how often each is there."""
    values, _, counts = _unique(x)
    return UniqueCounts(as_standard(values), as_standard(counts))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in order, and which of them each element is."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(as_standard(values), as_standard(shapes.reshape(inverse, x.shape)))


@standard
def unique_values(x: Any, /) -> Any:
    """The different elements in order."""
    return _unique(x)[0]


def _unique(x: Any) -> Any:
    """The different elements, which of them each element is, and how often each is there; complex ones as pairs of real numbers."""
    if x.dtype.kind != "c":
        return sorting.unique(x, return_inverse=True, return_counts=True)
    pairs = view_as_real(contiguous(shapes.reshape(x.detach(), (-1,))))
    values, inverse, counts = sorting.unique(pairs, return_inverse=True, return_counts=True, dim=0)
    return view_as_complex(contiguous(values)), inverse, counts
