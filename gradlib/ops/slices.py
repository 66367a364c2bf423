"""Views of a part of a tensor: a slice, a diagonal, windows, any sizes and strides."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, Namespace, address, is_dense, strided
from gradlib.backend.copying import assign
from gradlib.backend.scatter import scatter_add
from gradlib.core.batched import Batched
from gradlib.core.inplace import check_inplace
from gradlib.core.modes import thread_state
from gradlib.core.op import composite, op, public, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.copies import clone
from gradlib.ops.dims import part_at, sizes_of, wrap_dim
from gradlib.ops.index import slice_op

__all__ = ["as_strided", "diag", "diag_embed", "diagonal", "narrow", "select"]


# ---- a slice --------------------------------------------------------------------------------------------------------------------


@composite
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """The elements start to start + length - 1 along a dimension, as a view.

    Args:
        dim: the dimension that is cut.
        start: where to begin; negative numbers count from the end; a 0-d integer tensor is read.
        length: how many elements.
    Raises: IndexError or RuntimeError for a slice that is not within the tensor.
    Source: torch.narrow.
    Example:
        >>> gradlib.narrow(gradlib.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}")
    at = wrap_dim(dim, input.ndim)
    size, begin = input.shape[at], operator.index(start)
    if not -size <= begin <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {begin})")
    begin += size if begin < 0 else 0
    if begin + length > size:
        raise RuntimeError(f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return slice_op(input, part_at(at, input.ndim, slice(begin, begin + length)))


@composite
def select(input: Any, dim: int, index: Any) -> Any:
    """One position along a dimension, which disappears; a view.

    Args:
        input: any shape and dtype.
        dim: the dimension that goes.
        index: the place in it.
    Raises: IndexError outside the tensor.
    Source: torch.select.
    Example:
        >>> gradlib.select(gradlib.tensor([[1, 2], [3, 4]]), 0, 1)
        tensor([3, 4])
    """
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at, number, shape = wrap_dim(dim, input.ndim), operator.index(index), input.shape
    if not -shape[at] <= number < shape[at]:
        raise IndexError(f"select(): index {number} out of range for tensor of size {list(shape)} at dimension {at}")
    return slice_op(input, (*(slice(None),) * at, number, ...))


# ---- diagonals ------------------------------------------------------------------------------------------------------------------


@op(
    "linear", view=True, complex="explicit",
    input=lambda g, input_shape, offset, dim1, dim2: diagonal_backward(g, input_shape, offset, dim1, dim2),
)  # fmt: skip
def diagonal(xp: Namespace, input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two dimensions as the last dimension; a view.

    Args:
        offset: 0 for the main diagonal, positive above it, negative below.
        dim1, dim2: the dimensions of the matrix whose diagonal is taken.
    Raises: RuntimeError when the two dimensions are the same one.
    Source: torch.diagonal.
    Example:
        >>> gradlib.diagonal(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    first, second = (0, 1) if dim1 == 0 and dim2 == 1 and input.ndim > 1 else _two(dim1, dim2, input.ndim)
    result = input.diagonal(offset, first, second)
    if type(result) is np.ndarray:
        result.setflags(write=input.flags.writeable)
    elif not result.size:  # which CuPy makes anew where the diagonal lies outside
        return strided(input, result.shape, result.strides)
    return result


@public
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write one value where all indices are equal, in place.

    Args:
        fill_value: a number or a 0-d tensor.
        wrap: for a matrix of more rows than columns, begin again one row below the end of each diagonal.
    Returns: this tensor.
    Raises: RuntimeError for fewer than two dimensions, and for more than two of different sizes. Source: torch.Tensor.fill_diagonal_.
    """
    if self.ndim < 2:
        raise RuntimeError(f"fill_diagonal_: dimensions must be larger than 1, got shape {list(self.shape)}")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(f"fill_diagonal_: all dimensions of input must be of equal length, got shape {list(self.shape)}")
    if getattr(fill_value, "ndim", 0):
        raise TypeError(f"fill_diagonal_: fill_value must be a number, got shape {list(fill_value.shape)}")
    check_inplace(self, "fill_diagonal_")
    rows, columns = self.shape[:2]
    for start in range(0, rows, columns + 1) if wrap and self.ndim == 2 else (0,):
        places = self[start:] if start else self
        while places.ndim > 1:
            places = diagonal(places, 0, 0, places.ndim - 1)
        places.fill_(fill_value)
    return self


publish(fill_diagonal_, "fill_diagonal_")


def _two(dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


@op("linear", method=False, complex="explicit", input=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2))
def diagonal_backward(xp: Namespace, input: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    """Zeros of that shape with input on the diagonal: the adjoint of ``diagonal``."""
    made = xp.zeros(shape, input.dtype)
    places = made.diagonal(offset, *_two(dim1, dim2, len(shape)))
    if xp is np:
        places.setflags(write=True)
        places[...] = input
    else:
        assign(places, ..., input)
    return made


@composite
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension as the diagonal of two new ones, zeros elsewhere.

    Args:
        input: (..., n), any dtype.
        offset: 0 for the main diagonal, positive above it, negative below.
        dim1, dim2: where the two dimensions come to stand.
    Source: torch.diag_embed.
    Example:
        >>> gradlib.diag_embed(gradlib.tensor([[1, 2]])).shape
        gradlib.Size([1, 2, 2])
    """
    shape = list(input.shape)
    first, second = _two(dim1, dim2, len(shape) + 1)
    if first > second:
        first, second, offset = second, first, -offset
    size = shape.pop() + abs(offset)
    shape.insert(first, size)
    shape.insert(second, size)
    return diagonal_backward(input, tuple(shape), offset, first, second)


@composite
def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.

    Args:
        input: (n,) or (n, m), any dtype.
        diagonal: 0 for the main diagonal, positive above it, negative below.
    Raises: RuntimeError for other numbers of dimensions than one or two.
    Source: torch.diag.
    Example:
        >>> gradlib.diag(gradlib.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return clone(_diagonal(input, diagonal))


_diagonal = diagonal


# ---- windows --------------------------------------------------------------------------------------------------------------------


@op(
    "linear", view=True, complex="explicit",
    input=lambda g, input_shape, dimension, size, step: unfold_backward(g, input_shape, dimension, size, step),
)  # fmt: skip
def unfold(xp: Namespace, input: Any, dimension: int, size: int, step: int) -> Any:
    """All windows of ``size`` along a dimension, ``step`` apart; each window lies along a new last dimension. A view.

    Raises: RuntimeError for a window longer than the dimension or a step below 1.
    Source: torch.Tensor.unfold.
    """
    layout = _windows(input.shape, input.strides, operator.index(dimension), operator.index(size), operator.index(step))
    return strided(input, *layout) if input.ndim else input.reshape(1)[:size]


@functools.lru_cache(maxsize=512)
def _windows(sizes: tuple[int, ...], strides: tuple[int, ...], dim: int, size: int, step: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides of all windows along a dimension. Raises: as ``unfold``."""
    at = wrap_dim(dim, len(sizes))
    have = sizes[at] if sizes else 1
    if not 0 <= size <= have:
        raise RuntimeError(f"maximum size for tensor at dimension {at} is {have} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not sizes:
        return (), ()
    shape = (*sizes[:at], (have - size) // step + 1, *sizes[at + 1 :], size)
    return shape, (*strides[:at], strides[at] * step, *strides[at + 1 :], strides[at])


@op("linear", method=False, complex="explicit", input=lambda g, dim, size, step: unfold(g, dim, size, step))
def unfold_backward(xp: Namespace, input: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    """The sum over all windows at each position of a tensor of that shape: the adjoint of ``unfold``."""
    if not shape:
        return input.reshape(-1)[0] if input.size else xp.zeros((), input.dtype)
    made = xp.zeros(shape, input.dtype)
    at = wrap_dim(dim, len(shape))
    count = input.shape[at]
    for k in range(size):
        made[part_at(at, len(shape), slice(k, k + (count - 1) * step + 1, step))] += input[..., k]
    return made


# ---- any sizes and steps --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def _bytes(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple([step * itemsize for step in strides])


@functools.lru_cache(maxsize=512)
def _elements(strides: tuple[int, ...], itemsize: int, ndim: int) -> tuple[int, ...]:
    """The steps along the last dimensions."""
    return tuple([step // itemsize for step in strides[len(strides) - ndim :]])


def _outside(size: Sequence[int], stride: Sequence[int], offset: int, itemsize: int) -> RuntimeError:
    need = (offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))) * itemsize
    return RuntimeError(
        f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {itemsize} requiring a storage "
        f"size of {need} are out of bounds for the memory behind this tensor"
    )


@op(
    "linear", view=True, complex="explicit",
    jvp=lambda t_input, size, stride, start, layout: as_strided_gather(t_input, size, stride, start, layout),
    input=lambda g, input_shape, size, stride, start, layout: as_strided_backward(g, input_shape, size, stride, start, layout),
)  # fmt: skip
def as_strided_op(xp: Namespace, input: Any, size: tuple[int, ...], stride: tuple[int, ...], start: int, layout: Layout) -> Any:
    """The view; ``start`` counts elements from the input's first one, ``layout`` is the input's own."""
    try:
        return strided(input, size, _bytes(stride, input.itemsize), 0 if 0 in size else start * input.itemsize)
    except ValueError:
        raise _outside(size, stride, start, input.itemsize) from None


@public
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view of the tensor's storage with any sizes and steps, which may overlap.

    Args:
        size: the sizes.
        stride: the steps along each dimension, in elements.
        storage_offset: where to begin, in elements from the beginning of the storage (that of the base, for a view and what was detached
            from one); defaults to where this tensor begins.
    Raises: RuntimeError for a view that reaches outside the storage, and where the storage is itself spaced (an array wrapped with
        gaps between its elements).
    Source: torch.as_strided.
    Example:
        >>> gradlib.as_strided(gradlib.arange(5), (3, 2), (1, 1))
        tensor([[0, 1],
                [1, 2],
                [2, 3]])
    """
    sizes, steps = sizes_of((size,)), sizes_of((stride,))
    reach = _extent(sizes, steps)
    whole = input
    while type(whole) is Batched:
        whole = whole.value
    array = whole._array if type(whole) is Tensor else raw(whole)
    base = whole._storage() if isinstance(whole, Tensor) else array
    if not is_dense(base):
        raise RuntimeError(
            f"as_strided: the storage has gaps (shape {list(base.shape)}, strides {list(base.strides)} in bytes); call contiguous() first"
        )
    here = 0 if base is array else (address(array) - address(base)) // array.itemsize
    first = here if storage_offset is None else storage_offset
    itemsize = array.itemsize
    layout = _elements(array.strides, itemsize, array.ndim if whole is input else input.ndim)
    last = first + reach
    if whole is not input:
        _refuse_neighbours(input.shape, layout, here, sizes, steps, first)
    elif 0 not in sizes and not 0 <= first <= last < base.nbytes // itemsize:
        raise _outside(sizes, steps, first, array.itemsize)
    if thread_state.interpreters and isinstance(input, Tensor) and 0 not in sizes:
        _refuse_unknown_tangents(input, layout, sizes, steps, first - here)
    return as_strided_op(input, sizes, steps, first - here, layout)


@functools.lru_cache(maxsize=512)
def _extent(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """The distance from the first element to the last one. Raises: RuntimeError for sizes and steps that are none."""
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    if size and (min(size) < 0 or min(stride) < 0):
        raise RuntimeError(f"as_strided: sizes and strides must not be negative, got {list(size)} and {list(stride)}")
    return _reach(size, stride)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


@functools.lru_cache(maxsize=512)
def _is_part(shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], start: int, layout: Layout) -> bool:
    """Whether a view of a contiguous array lies within it, no two of its elements in one place."""
    return layout == _row_major(shape) and 0 <= start <= start + _reach(size, stride) < math.prod(shape) and _is_apart(size, stride)


@functools.lru_cache(maxsize=512)
def _is_apart(size: tuple[int, ...], stride: Layout) -> bool:
    """Whether no two elements lie in one place, as far as sizes and strides show it."""
    reach = 0
    for step, n in sorted(zip([step or 0 for step in stride], size, strict=True)):
        if n > 1 and step <= reach:
            return False
        reach += (n - 1) * step
    return True


def _reach(size: Sequence[int], stride: Sequence[int]) -> int:
    """The distance from the first element to the last one."""
    last = 0
    for n, step in zip(size, stride, strict=True):
        last += (n - 1) * step
    return last


def _refuse_unknown_tangents(input: Tensor, layout: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], start: int) -> None:
    """Refuse in forward mode to read beyond a view of a dual tensor: the tangents there are known to the dual tensor alone."""
    view = None if input._meta is None else input._meta.view
    if view is None or all(level.tangent(input) is None or level in (view.duals or ()) for level in thread_state.interpreters):
        return
    _, places, viewed = _places(np, tuple(input.shape), size, stride, start, layout)
    if not np.isin(viewed, places).all():
        raise RuntimeError(
            f"as_strided: sizes {list(size)} and strides {list(stride)} reach beyond this view of shape {list(input.shape)}, whose tangent "
            "ends with it. In forward mode, call as_strided on the dual tensor of which it is a view."
        )


def _refuse_neighbours(
    shape: Sequence[int], layout: Sequence[int], here: int, size: Sequence[int], stride: Sequence[int], first: int
) -> None:
    """Refuse a view of a row that reaches memory which is none of the row's; places count from the storage's beginning, in elements."""
    end, last = here + _reach(shape, layout), first + _reach(size, stride)
    if 0 not in size and not here <= first <= last <= end:
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {first}) can access memory outside of `tensor`. `result` can access "
            f"some memory in range [{first}, {last + 1}], but `tensor` can only access some memory in range [{here}, {end + 1}]. This is "
            "not supported inside of vmap, please try to rewrite the `as_strided` call as a sequence of view operations"
        )


publish(as_strided, "as_strided")


Layout = tuple[int | None, ...]
"""Strides in elements; None along a dimension of rows that share one memory, of which each has its own derivative."""


@functools.lru_cache(maxsize=512)
def _spans(
    shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], start: int, layout: Layout
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Of the memory that an input and a view of it span: how many places there are, that of the input's first element, and the steps of
    both.
    """
    steps, to = [0 if step is None else step for step in layout], list(stride)
    for dim, step in enumerate(layout):
        if step is None:  # so far from each other that they do not meet
            steps[dim] = to[dim] = 1 + abs(start) + _reach(shape, steps) + _reach(size, to)
    low, high = min(0, start), max(_reach(shape, steps), start + _reach(size, to))
    return high - low + 1, -low, tuple(steps), tuple(to)


def _places(
    xp: Namespace, shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], start: int, layout: Layout
) -> tuple[int, Array, Array]:
    """How many places there are in the memory that an input and a view of it span, and that of each element of the one and of the other."""
    count, first, steps, to = _spans(shape, size, stride, start, layout)
    line = xp.arange(count)
    return count, strided(line, shape, _bytes(steps, 8), 8 * first), strided(line, size, _bytes(to, 8), 8 * (start + first))


def _sharing(xp: Namespace, shape: tuple[int, ...], layout: Layout, count: int, places: Array, dtype: Any) -> Array | None:
    """How many elements lie in the place of each; None where each lies alone."""
    if _is_apart(shape, layout):
        return None
    return xp.bincount(places.ravel(), minlength=count)[places].astype(dtype)


@op(
    "linear", method=False, complex="explicit",
    input=lambda g, size, stride, start, layout: as_strided_gather(g, size, stride, start, layout),
)  # fmt: skip
def as_strided_backward(xp: Namespace, input: Any, shape: Any, size: Any, stride: Any, start: int, layout: Any) -> Any:
    """Each element of input added to the element of a tensor of that shape of which it is a view, in equal parts where several share its
    place: the adjoint of ``as_strided``."""
    if _is_part(shape, size, stride, start, layout):
        made = xp.zeros(shape, input.dtype)
        region = strided(made, size, _bytes(stride, made.itemsize), start * made.itemsize)
        assign(region, ..., input)
        return made
    if 0 in size or 0 in shape:
        return xp.zeros(shape, input.dtype)
    count, places, viewed = _places(xp, shape, size, stride, start, layout)
    made = xp.zeros(count, input.dtype)
    scatter_add(made, viewed, input)
    number = _sharing(xp, shape, layout, count, places, dtypes.to_real(input.dtype))
    return made[places] if number is None else made[places] / number


@op(
    "linear", method=False, complex="explicit",
    input=lambda g, input_shape, size, stride, start, layout: as_strided_backward(g, input_shape, size, stride, start, layout),
)  # fmt: skip
def as_strided_gather(xp: Namespace, input: Any, size: Any, stride: Any, start: int, layout: Any) -> Any:
    """The values that ``as_strided`` would show of a tensor of that layout, as a copy; zeros where it shows none of its elements, and the
    mean of those that share a place."""
    if 0 in size or 0 in input.shape:
        return xp.zeros(size, input.dtype)
    count, places, viewed = _places(xp, input.shape, size, stride, start, layout)
    made = xp.zeros(count, input.dtype)
    number = _sharing(xp, input.shape, layout, count, places, dtypes.to_real(input.dtype))
    if number is None:
        made[places] = input
    else:
        scatter_add(made, places, input / number)
    return made[viewed]
