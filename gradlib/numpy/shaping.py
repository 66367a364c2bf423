"""The same elements in another shape or order, with NumPy's arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import all_tensors, axes_of, axis_of, full_sizes, reduced_axes, sizes_of, tensor_of, value_of
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import broadcast, rearrange, shape as shapes, slices


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Tensor:
    """The same elements in another shape."""
    x, sizes = tensor_of(a), sizes_of(shape if newshape is None else newshape)
    if _order(order) == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    by_columns = _by_columns(x, order)
    if copy is False:
        try:
            return transpose(transpose(x).view(tuple(reversed(sizes)))) if by_columns else x.view(sizes)
        except RuntimeError as error:
            raise ValueError("Unable to avoid creating a copy while reshaping.") from error
    made = transpose(transpose(x).reshape(tuple(reversed(sizes)))) if by_columns else x.reshape(sizes)
    return made.clone() if copy else made


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Tensor:
    """The elements one after the other."""
    x = tensor_of(a)
    if _order(order) == "K":  # as they lie in memory
        x = transpose(x, sorted(range(x.ndim), key=lambda axis: -abs(x.stride(axis))))
    elif _by_columns(x, order):
        x = transpose(x)
    return x.reshape((-1,))


def _order(name: str | None) -> str:
    """One of C, F, A and K. Raises: ValueError for others, as NumPy does."""
    found = (name or "C").upper()
    if found not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {name!r})")
    return found


def _by_columns(x: Tensor, order: str) -> bool:
    """Whether elements are read by columns: "A" asks for it where they lie so in memory."""
    return _order(order) == "F" or (_order(order) == "A" and not x.is_contiguous() and transpose(x).is_contiguous())


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
    return tensor_of(array).broadcast_to(full_sizes(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """All in the shape in which they meet."""
    return tuple(broadcast.broadcast_tensors(*all_tensors(args)))


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
    x, sizes = tensor_of(a).reshape((-1,)), full_sizes(new_shape)
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
