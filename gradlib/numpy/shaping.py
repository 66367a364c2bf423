"""Making, joining, splitting and turning arrays, with NumPy's arguments."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import (
    all_tensors,
    axes_of,
    axis_of,
    cast,
    first_tensor,
    held,
    promoted,
    promoted_arrays,
    reduced_axes,
    tensor_of,
    value_of,
    written,
)
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import create, join, rearrange, rounding, shape as shapes, slices

# ---- new ones ------------------------------------------------------------------------------------------------------------------


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Tensor, tuple[int, ...], np.dtype]:
    x = tensor_of(a)
    return x, tuple(x.shape) if shape is None else _full_sizes(shape), x.dtype if dtype is None else held(dtype)


def _sizes(shape: Any) -> tuple[int, ...]:
    several = isinstance(shape, (tuple, list)) or (isinstance(shape, np.ndarray) and shape.ndim == 1)
    return tuple(map(operator.index, shape)) if several else (operator.index(shape),)


def _full_sizes(shape: Any) -> tuple[int, ...]:
    """Sizes of which none is left open. Raises: ValueError for negative ones."""
    sizes = _sizes(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"sizes must not be negative, got {sizes}")
    return sizes


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Zeros of the same shape, dtype and device."""
    x, sizes, chosen = _like(a, dtype, shape)
    return x.new_zeros(sizes, dtype=chosen)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Ones of the same shape, dtype and device."""
    x, sizes, chosen = _like(a, dtype, shape)
    return x.new_ones(sizes, dtype=chosen)


@implements(np.empty_like)
def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Values that may be anything, of the same shape, dtype and device."""
    x, sizes, chosen = _like(prototype, dtype, shape)
    return x.new_empty(sizes, dtype=chosen)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """One value everywhere, of the same shape, dtype and device; it may be a Tensor."""
    like = first_tensor((a, fill_value))
    _, sizes, chosen = _like(tensor_of(a, like), dtype, shape)
    return cast(tensor_of(fill_value, like), chosen).broadcast_to(sizes).clone()


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """A copy, which carries the derivative."""
    return tensor_of(a).clone()


@implements(numpy_function("astype"))
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The values in another dtype."""
    x, wanted = tensor_of(x), np.dtype(dtype)
    return cast(x, wanted) if x.dtype != wanted or not copy else x.clone()


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced numbers between ends, which may be Tensors."""
    first, last = promoted(start, stop, floating=True)
    first, last = join.broadcast_tensors(first, last)
    parts = builtins.max(num - 1 if endpoint else num, 1)
    share = create.arange(num, dtype=first.dtype if first.dtype.kind != "c" else np.float64, device=first.device)
    share = (share / parts).reshape((num, *[1] * first.ndim))
    result = first + share * (last - first)
    if endpoint and num > 1:  # the end is exactly what was given
        result = join.cat([result[:-1], last.unsqueeze(0)], 0)
    if dtype is not None and np.dtype(dtype).kind in "iu":
        result = rounding.floor(result)
    result = cast(result.movedim(0, axis) if axis != 0 else result, dtype)
    return (result, (last - first) / parts) if retstep else result


@implements(np.logspace)
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Tensor:
    """Numbers evenly spaced on a logarithmic scale: powers of ``base``."""
    like = first_tensor((start, stop, base))
    if np.ndim(base) == 0:
        begin = start if first_tensor((start, stop)) is not None else tensor_of(start, like)
        power, exponents = promoted(base, linspace(begin, stop, num, endpoint, axis=axis))
        return cast(power**exponents, dtype)
    first, last, power = (tensor_of(value, like) for value in (start, stop, base))
    ndim = builtins.max(first.ndim, last.ndim, power.ndim)
    first, last, power = (x.reshape((*[1] * (ndim - x.ndim), *x.shape)) for x in (first, last, power))
    power, exponents = promoted(power.unsqueeze(axis), linspace(first, last, num, endpoint, axis=axis))
    return cast(power**exponents, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """Numbers each of which is a constant multiple of the one before."""
    first, last = promoted(start, stop)
    first, last = promoted(first, last, dtype=np.result_type(first.dtype, np.float64))
    if bool((first.detach() == 0).any()) or bool((last.detach() == 0).any()):
        raise ValueError("Geometric sequence cannot include zero")
    turn = first.detach().sign() if first.dtype.kind != "c" else first
    share = linspace(first.new_zeros(()), first.new_ones(()), num, endpoint)
    share = share.reshape((num, *[1] * builtins.max(first.ndim, last.ndim)))
    size, ratio = first / turn, last / first
    result = turn * size * ratio**share
    return cast(result.movedim(0, axis) if axis != 0 else result, dtype)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Grids of coordinates from vectors of them."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    like, ndim = first_tensor(xi), len(xi)
    places = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else list(range(ndim))
    grids = [tensor_of(x, like).reshape(tuple(-1 if place == i else 1 for i in range(ndim))) for x, place in zip(xi, places, strict=True)]
    if not sparse:
        grids = list(join.broadcast_tensors(*grids))
    return tuple(grid.clone() if copy else grid for grid in grids)


# ---- joining and splitting -----------------------------------------------------------------------------------------------------


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


def _one_d(x: Tensor) -> Tensor:
    return x.reshape((1,)) if x.ndim == 0 else x


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Side by side: along the second axis, of vectors along the first."""
    parts = [_one_d(x) for x in _joined(tup, dtype, casting)]
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
    """As ``atleast_2d`` and ``atleast_3d`` place what is there."""
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
    return rearrange.tile(x, _sizes(reps))


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


# ---- the same elements in another shape or order ---------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Tensor:
    """The same elements in another shape."""
    x, sizes = tensor_of(a), _sizes(shape if newshape is None else newshape)
    if copy is False:
        try:
            return x.view(sizes) if order != "F" else transpose(transpose(x).view(tuple(reversed(sizes))))
        except RuntimeError as error:
            raise ValueError("Unable to avoid creating a copy while reshaping.") from error
    made = _by_columns(x, sizes) if order == "F" else x.reshape(sizes)
    return made.clone() if copy else made


def _by_columns(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return transpose(transpose(x).reshape(tuple(reversed(sizes))))


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Tensor:
    """The elements one after the other."""
    x = tensor_of(a)
    return (transpose(x) if order == "F" else x).reshape((-1,))


@implements(np.transpose, numpy_function("permute_dims"))
def transpose(a: Any, axes: Any = None) -> Tensor:
    """Put the axes in another order, by default reversed."""
    x = tensor_of(a)
    return shapes.permute(x, tuple(reversed(range(x.ndim))) if axes is None else _all_axes(axes, x.ndim))


def _all_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    axes = axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,)
    if len(axes) != ndim:
        raise ValueError("axes don't match array")
    return axes_of(tuple(axes), ndim)


@implements(numpy_function("matrix_transpose"), numpy_function("linalg.matrix_transpose"))
def matrix_transpose(x: Any, /) -> Tensor:
    """Exchange the last two axes."""
    return tensor_of(x).transpose(-1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes."""
    x = tensor_of(a)
    return x.transpose(axis_of(axis1, x.ndim), axis_of(axis2, x.ndim))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Move axes to other places."""
    x = tensor_of(a)
    return x.movedim(axes_of(source, x.ndim), axes_of(destination, x.ndim))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """Move an axis before the one at ``start``."""
    x = tensor_of(a)
    along, before = axis_of(axis, x.ndim), start + x.ndim if start < 0 else start
    return x.movedim(along, before - 1 if along < before else before)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Tensor:
    """Insert new axes of size one."""
    x = tensor_of(a)
    if axis is None:
        raise TypeError("numpy.expand_dims takes an integer or a tuple of them as axis, got None")
    for each in sorted(axes_of(axis, x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1))):
        x = x.unsqueeze(each)
    return x


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Without axes of size one."""
    x = tensor_of(a)
    if axis is None:
        return x.squeeze()
    axes = reduced_axes(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x.squeeze(axes) if axes else x


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    """Seen in a larger shape."""
    return tensor_of(array).broadcast_to(_full_sizes(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """All in the shape in which they meet."""
    return tuple(join.broadcast_tensors(*all_tensors(args)))


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Tensor:
    """Reverse the order of elements along axes."""
    x = tensor_of(m)
    return rearrange.flip(x, axes_of(axis, x.ndim))


@implements(np.flipud)
def flipud(m: Any) -> Tensor:
    """Upside down."""
    return flip(m, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> Tensor:
    """Exchange left and right."""
    return flip(m, 1)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Move elements along an axis, those at the end to the front."""
    x, shift = tensor_of(a), value_of(shift)
    if axis is None:
        return rearrange.roll(x.reshape((-1,)), int(np.sum(shift)), 0).reshape(x.shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    for by, along in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        x = rearrange.roll(x, by, axis_of(along, x.ndim))
    return x if shifts.size else x.clone()


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Tensor:
    """Move the middle of each axis to the front."""
    t = tensor_of(x)
    named = axes_of(axes, t.ndim)
    return roll(t, [t.shape[i] // 2 for i in named], list(named))


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """``fftshift`` undone."""
    t = tensor_of(x)
    named = axes_of(axes, t.ndim)
    return roll(t, [-(t.shape[i] // 2) for i in named], list(named))


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """Turned by quarters in a plane."""
    x = tensor_of(m)
    return rearrange.rot90(x, k, list(axes_of(tuple(axes), x.ndim)))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Tensor:
    """The elements again and again until the shape is full."""
    x, sizes = tensor_of(a).reshape((-1,)), _full_sizes(new_shape)
    count = math.prod(sizes)
    if x.shape[0] == 0:
        return x.new_zeros(sizes)
    return rearrange.tile(x, (-(-count // x.shape[0]),))[:count].reshape(sizes)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with this diagonal."""
    x = tensor_of(v)
    if x.ndim not in (1, 2):
        raise ValueError("Input must be 1- or 2-d.")
    return slices.diag(x, k)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Tensor:
    """A matrix with these elements on its diagonal."""
    return slices.diag(tensor_of(v).reshape((-1,)), k)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of the matrices in two axes."""
    return slices.diagonal(tensor_of(a), offset, axis1, axis2)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Tensor:
    """The lower triangle; zeros above it."""
    x = tensor_of(m)
    return rearrange.tril(x if x.ndim > 1 else x.broadcast_to((x.shape[0], x.shape[0])), k)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Tensor:
    """The upper triangle; zeros below it."""
    x = tensor_of(m)
    return rearrange.triu(x if x.ndim > 1 else x.broadcast_to((x.shape[0], x.shape[0])), k)


# ---- what they tell of themselves ----------------------------------------------------------------------------------------------


@implements(np.shape, exact=True)
def shape(a: Any) -> tuple[int, ...]:
    """The sizes."""
    return tuple(tensor_of(a).shape)


@implements(np.ndim, exact=True)
def ndim(a: Any) -> int:
    """The number of axes."""
    return int(tensor_of(a).ndim)


@implements(np.size, exact=True)
def size(a: Any, axis: Any = None) -> int:
    """The number of elements, in all or along axes."""
    x = tensor_of(a)
    return math.prod(x.shape[i] for i in axes_of(axis, x.ndim))
