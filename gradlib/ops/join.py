"""Several tensors into one and one into several: ``cat`` and ``split_with_sizes``, ``stack`` and ``unbind`` are each other's derivative."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Namespace, rows
from gradlib.backend.columns import LEAST, has_columns, joined
from gradlib.backend.copying import concatenated, row_major, stacked
from gradlib.core.compile import named
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.broadcast import as_1d, as_2d, as_3d
from gradlib.ops.create import zeros_of
from gradlib.ops.dims import WHOLE, wrap_dim
from gradlib.ops.index import slice_backward, slice_op
from gradlib.ops.shape import reshape

__all__ = [
    "cat", "chunk", "column_stack", "dsplit", "dstack", "hsplit", "hstack", "split", "split_with_sizes", "stack", "tensor_split",
    "unbind", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit", "vstack",
]  # fmt: skip


# ---- into one -------------------------------------------------------------------------------------------------------------------


def _is_nothing(shape: tuple[int, ...]) -> bool:
    """Shape (0,) joins tensors of any shape, as in torch."""
    return tuple(shape) == (0,)


def _parted(g: Any, shapes: Sequence[tuple[int, ...]], dim: int) -> list[Any]:
    """The gradient of a concatenation, split into its parts."""
    ndim = len(g.shape)
    at = wrap_dim(dim, ndim)
    sizes = [shape[at] if len(shape) == ndim else 0 for shape in shapes]  # one of shape (0,), which `_is_nothing`, may have fewer
    parts = split_with_sizes(g, sizes, dim)
    return [part if len(shape) == ndim else reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


@op(
    "linear",
    promote="same",
    sequence="tensors",
    method=False,
    aliases=("concat", "concatenate"),
    complex="explicit",
    tensors=lambda g, tensors_shape, dim: _parted(g, tensors_shape, dim),
)
def cat(xp: Namespace, tensors: Any, dim: int = 0) -> Any:
    """Tensors one behind another along a dimension, in their common dtype.

    Args:
        tensors: of equal sizes but for that dimension; those of shape (0,) add nothing.
        dim: the dimension along which they are joined.
    Raises: RuntimeError for sizes that do not match, or 0-d tensors; ValueError for no tensors.
    Source: torch.cat.
    Example:
        >>> gradlib.cat([gradlib.tensor([1, 2]), gradlib.tensor([3])])
        tensor([1, 2, 3])
    """
    if not tensors:
        raise ValueError("cat expects a non-empty list of Tensors")
    first = tensors[0]
    if not first.size and first.shape == (0,):
        first = next((x for x in tensors if x.shape != (0,)), first)
    at = dim if type(dim) is int and 0 <= dim < first.ndim else wrap_dim(dim, first.ndim)
    try:
        if xp is np:
            join = joined if first.size >= LEAST and has_columns(first) else np.concatenate
            made = join(tensors, at)
        else:
            made = concatenated(xp, tensors, at)
        return made if made.flags.c_contiguous else row_major(made)
    except (ValueError, TypeError):  # CuPy's for what has no dimensions
        parts = [x for x in tensors if not _is_nothing(x.shape)]
        if len(parts) == len(tensors):
            raise RuntimeError(_misfit(tensors, at)) from None
        return cat(parts, at)


def _misfit(tensors: Any, dim: int) -> str:
    """The error text for tensors that cannot be joined along a dimension."""
    first = tensors[0]
    for i, x in enumerate(tensors):
        if not x.ndim:
            return f"zero-dimensional tensor (at position {i}) cannot be concatenated"
        if x.ndim != first.ndim:
            return f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}"
        if any(a != b for d, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if d != dim):
            break
    return (
        f"Sizes of tensors must match except in dimension {dim}. Expected shape {list(first.shape)} but got {list(x.shape)} for tensor "
        f"number {i} in the list."
    )


@op("linear", promote="same", sequence="tensors", method=False, complex="explicit", tensors=lambda g, dim: list(unbind(g, dim)))
def stack(xp: Namespace, tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape side by side along a new dimension.

    Args:
        tensors: a list of tensors of one shape.
        dim: where the new dimension comes to stand.
    Raises: RuntimeError for unequal shapes.
    Source: torch.stack.
    Example:
        >>> gradlib.stack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    shape = _some("stack", tensors)[0].shape
    for x in tensors:
        if x.shape != shape:
            place = next(i for i, each in enumerate(tensors) if each is x)
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(x.shape)} at entry {place}"
            )
    return row_major(stacked(xp, tensors, wrap_dim(dim, len(shape) + 1)))


def _some(name: str, tensors: Any) -> Sequence[Any]:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def _at_least(name: str, ndim: int, tensors: Any, grow: Callable[[Any], Any]) -> Sequence[Any]:
    """Tensors of at least so many dimensions: each as ``grow`` makes it, where one has fewer."""
    for x in _some(name, tensors):
        if (x._array if type(x) is Tensor else x).ndim < ndim:
            return tuple(map(grow, tensors))
    return tensors


@composite(method=False)
def hstack(tensors: Sequence[Any]) -> Any:
    """Tensors side by side: along dimension 1, or 0 for vectors.

    Args:
        tensors: of sizes that differ along dimension 1 only (0 for vectors).
    Source: torch.hstack.
    Example:
        >>> gradlib.hstack([gradlib.tensor([1, 2]), gradlib.tensor([3])])
        tensor([1, 2, 3])
    """
    parts = _at_least("hstack", 1, tensors, as_1d)
    first = parts[0]
    return cat(parts, 0 if (first._array if type(first) is Tensor else first).ndim == 1 else 1)


@composite(method=False, aliases=("row_stack",))
def vstack(tensors: Sequence[Any]) -> Any:
    """Tensors one above another: along dimension 0, vectors as rows.

    Args:
        tensors: of sizes that differ along dimension 0 only.
    Source: torch.vstack.
    Example:
        >>> gradlib.vstack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    return cat(_at_least("vstack", 2, tensors, as_2d), 0)


@composite(method=False)
def dstack(tensors: Sequence[Any]) -> Any:
    """Tensors one behind another: along dimension 2.

    Args:
        tensors: of sizes that differ along dimension 2 only.
    Source: torch.dstack.
    Example:
        >>> gradlib.dstack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])])
        tensor([[[1, 3],
                 [2, 4]]])
    """
    if _are_matrices(tensors):
        return stack(tensors, 2)
    return cat(_at_least("dstack", 3, tensors, as_3d), 2)


def _are_matrices(tensors: Sequence[Any]) -> bool:
    """Whether these are Tensors of one shape with two dimensions, the common case."""
    shape = None
    for x in tensors:
        if type(x) is not Tensor or (shape is not None and x._array.shape != shape):
            return False
        shape = x._array.shape
    return shape is not None and len(shape) == 2


@composite(method=False)
def column_stack(tensors: Sequence[Any]) -> Any:
    """As ``hstack``, with numbers and vectors as columns.

    Args:
        tensors: of at most 2 dimensions, with as many rows.
    Source: torch.column_stack.
    Example:
        >>> gradlib.column_stack([gradlib.tensor([1, 2]), gradlib.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    return hstack([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in _some("column_stack", tensors)])


# ---- into several ---------------------------------------------------------------------------------------------------------------


def _present(g: list[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The gradients of several outputs, with zeros for outputs that nothing used."""
    like = next(each for each in g if each is not None)
    return [zeros_of(like, shape) if each is None else each for each, shape in zip(g, shapes, strict=True)]


def _unbound(g: list[Any], shape: tuple[int, ...], dim: int) -> Any:
    at = wrap_dim(dim, len(shape))
    used = [i for i, each in enumerate(g) if each is not None]
    if len(used) == 1 < len(g):
        return slice_backward(g[used[0]], shape, (*(WHOLE,) * at, used[0]))
    part = shape[:at] + shape[at + 1 :]
    return stack(_present(g, [part] * len(g)), at)


@op("linear", view=True, outputs=("first", "others"), complex="explicit", input=lambda g, input_shape, dim: _unbound(g, input_shape, dim))
def unbind(xp: Namespace, input: Any, dim: int = 0) -> Any:
    """Every position along a dimension as a tensor of its own; views, which cannot be written in place while they are recorded.

    Args:
        input: any shape and dtype.
        dim: the dimension that goes.
    Returns: a tuple of views, one dimension smaller.
    Raises: IndexError for a tensor without dimensions.
    Source: torch.unbind.
    Example:
        >>> gradlib.unbind(gradlib.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    at = wrap_dim(dim, input.ndim)
    if xp is not np:
        return rows(input, at)
    if not at and input.ndim > 1:
        return tuple(itertools.islice(input, len(input)))  # the same views; to iterate to the end takes an IndexError more
    before = (WHOLE,) * at
    return tuple([input[(*before, i, ...)] for i in range(input.shape[at])])


def _iterate(self: Tensor) -> Any:
    """The positions along the first dimension, as ``unbind`` gives them. Raises: TypeError for a 0-d tensor."""
    if not self._array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


publish(_iterate, "__iter__")


def _joined(g: list[Any], shape: tuple[int, ...], sizes: Sequence[int], dim: int) -> Any:
    at = wrap_dim(dim, len(shape))
    used = [i for i, each in enumerate(g) if each is not None]
    if len(used) == 1 < len(g):
        ends = list(itertools.accumulate(sizes, initial=0))
        return slice_backward(g[used[0]], shape, (*(WHOLE,) * at, slice(*ends[used[0] : used[0] + 2])))
    return cat(_present(g, [(*shape[:at], size, *shape[at + 1 :]) for size in sizes]), at)


def _dim_to_cut(dim: int, shape: tuple[int, ...]) -> int:
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    return wrap_dim(dim, len(shape))


def _split_on_device(input: Any, split_sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    """``split_with_sizes`` of CuPy arrays, from sizes and steps: at less cost than by slices."""
    made, shape, steps, start = type(input), input.shape, input.strides, input.data
    at = dim if 0 <= dim < len(shape) else _dim_to_cut(dim, shape)
    kind, before, after, left = input.dtype.type, shape[:at], shape[at + 1 :], shape[at]
    step = steps[at] if start.ptr else 0  # an array without elements may have no memory to count from
    results, offset, layout = [], 0, () if at == 0 and input._c_contiguous else (steps,)
    for size in split_sizes:
        if size < 0:
            raise _missized(split_sizes, shape[at], at)
        results.append(made((*before, size, *after), kind, start + offset if offset else start, *layout))
        offset += size * step
        left -= size
    if left:
        raise _missized(split_sizes, shape[at], at)
    return tuple(results)


@op(
    "linear", view=True, outputs=("first", "others"), complex="explicit", device=_split_on_device,
    input=lambda g, input_shape, split_sizes, dim: _joined(g, input_shape, split_sizes, dim),
)  # fmt: skip
def split_with_sizes(xp: Namespace, input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Consecutive slices of the given sizes along a dimension, as views.

    Args:
        input: any shape and dtype.
        split_sizes: the sizes, which add up to the dimension's.
        dim: the dimension that is cut.
    Returns: a tuple of views.
    Raises: RuntimeError unless the sizes are not negative and add up to the dimension's, and for a tensor without dimensions.
    Source: torch.split_with_sizes.
    Example:
        >>> gradlib.split_with_sizes(gradlib.arange(3), (1, 2))
        (tensor([0]), tensor([1, 2]))
    """
    return _slices(input, split_sizes, dim)


def _slices(input: Any, split_sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    shape = input.shape
    at = _dim_to_cut(dim, shape)
    before, end, made = (WHOLE,) * at, 0, []
    for size in split_sizes:
        begin = end
        end += size
        if end < begin:
            raise _missized(split_sizes, shape[at], at)
        made.append(input[(*before, slice(begin, end))])
    if end != shape[at]:
        raise _missized(split_sizes, shape[at], at)
    return tuple(made)


def _missized(split_sizes: Sequence[int], size: int, dim: int) -> RuntimeError:
    return RuntimeError(
        f"split_with_sizes expects split_sizes to be non-negative and to sum exactly to {size} (input tensor's size at dimension {dim}), "
        f"but got split_sizes={list(split_sizes)}"
    )


@composite(method=False)
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Consecutive slices along a dimension, as views.

    Args:
        tensor: any shape and dtype.
        split_size_or_sections: the size of every slice (the last one may be smaller), or a list of sizes.
        dim: the dimension that is cut.
    Returns: a tuple of views.
    Raises: RuntimeError for a tensor without dimensions, a size that is negative or 0, and sizes that do not add up to the dimension's.
    Source: torch.split.
    Example:
        >>> gradlib.split(gradlib.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    split_size = split_size_or_sections
    sizes = tuple(split_size) if isinstance(split_size, (tuple, list)) else _equal_sizes(tensor, split_size, dim)
    return split_with_sizes(tensor, sizes, dim)


def _equal_sizes(tensor: Any, split_size: Any, dim: int) -> tuple[int, ...]:
    """The sizes of slices that are all of one size but the last, which may be smaller. Raises: as ``split``."""
    split_size = operator.index(split_size)
    shape = tensor._array.shape if type(tensor) is Tensor else raw(tensor).shape
    size = shape[dim if 0 <= dim < len(shape) else _dim_to_cut(dim, shape)]
    if split_size < 0 or (split_size == 0 and size):
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, and not negative, but got split_size {split_size} for dimension size {size}"
        )
    if not size:
        return (0,)
    full = size // split_size
    rest = size - full * split_size
    return (*(split_size,) * full, rest) if rest else (split_size,) * full


def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> Any:
    """Consecutive slices of a size, or of a list of sizes, along a dimension, as views. Source: torch.Tensor.split."""
    return split(self, split_size, dim)


publish(_split_method, "split")


@composite
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most ``chunks`` slices of equal size (the last may be smaller) along a dimension, as views.

    Args:
        input: any shape and dtype.
        chunks: how many; fewer come where the size does not allow it.
        dim: the dimension that is cut.
    Returns: a tuple of views.
    Raises: RuntimeError for a tensor without dimensions and for fewer chunks than one.
    Source: torch.chunk.
    Example:
        >>> gradlib.chunk(gradlib.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return split_with_sizes(input, _sizes_of_chunks(input, chunks, dim), dim)


def _sizes_of_chunks(input: Any, chunks: Any, dim: int) -> tuple[int, ...]:
    """The sizes of the slices that ``chunk`` gives. Raises: as it does."""
    chunks = operator.index(chunks)
    shape = input._array.shape if type(input) is Tensor else raw(input).shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = shape[wrap_dim(dim, len(shape))]
    return _equal_sizes(input, -(-size // chunks), dim) if size else (0,) * chunks


@op(
    "linear", outputs=("first", "others"), complex="explicit", device=_split_on_device,
    input=lambda g, input_shape, split_sizes, dim: _joined(g, input_shape, split_sizes, dim),
)  # fmt: skip
def unsafe_split_with_sizes(xp: Namespace, input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """As ``split_with_sizes``, but none of the slices counts as a view, so that each may be written in place while recording.

    They share the tensor's memory nevertheless, and what reads one of them, or the tensor, does not see that another was written.

    Args:
        input: any shape and dtype.
        split_sizes: the sizes, which add up to the dimension's.
        dim: the dimension that is cut.
    Returns: a tuple with a slice for each size.
    Raises: as ``split_with_sizes``.
    Source: torch.unsafe_split_with_sizes.
    Example:
        >>> gradlib.unsafe_split_with_sizes(gradlib.arange(3), (1, 2))
        (tensor([0]), tensor([1, 2]))
    """
    return _slices(input, split_sizes, dim)


_unsafe_split = named(unsafe_split_with_sizes, "unsafe_split")


@composite
def unsafe_split(tensor: Any, split_size: int, dim: int = 0) -> Any:
    """As ``split`` with one size, with the slices of ``unsafe_split_with_sizes``.

    Args:
        tensor: any shape and dtype.
        split_size: the size of a part; the last may be smaller.
        dim: the dimension that is cut.
    Returns: a tuple of slices.
    Source: torch.unsafe_split.
    Example:
        >>> gradlib.unsafe_split(gradlib.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return _unsafe_split(tensor, _equal_sizes(tensor, split_size, dim), dim)


@composite
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """As ``chunk``, with the slices of ``unsafe_split_with_sizes``.

    Args:
        input: any shape and dtype.
        chunks: how many; fewer come where the size does not allow it.
        dim: the dimension that is cut.
    Returns: a tuple of slices.
    Source: torch.unsafe_chunk.
    Example:
        >>> gradlib.unsafe_chunk(gradlib.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return _unsafe_split(input, _sizes_of_chunks(input, chunks, dim), dim)


@functools.lru_cache(maxsize=512)
def _bounds(parts: Any, size: int) -> list[tuple[int, int]]:
    """The begin and end of each slice of ``tensor_split``."""
    if type(parts) is tuple:
        cuts = [min(max(i + (size if i < 0 else 0), 0), size) for i in parts]
        return [(a, max(a, b)) for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if parts <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {parts}")
    small, larger = divmod(size, parts)
    bounds, begin = [], 0
    for i in range(parts):
        end = begin + small + (i < larger)
        bounds.append((begin, end))
        begin = end
    return bounds


@composite
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Slices along a dimension that begin at given positions, or a number of them of nearly equal size.

    Args:
        indices_or_sections: a list of positions, or the number of slices; an integer Tensor is read as either.
        dim: the dimension that is cut.
    Returns: a tuple of views.
    Raises: RuntimeError for a tensor without dimensions and for fewer slices than one.
    Source: torch.tensor_split.
    Example:
        >>> gradlib.tensor_split(gradlib.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    shape = input._array.shape if type(input) is Tensor else raw(input).shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    parts = indices_or_sections
    if type(parts) is not int and isinstance(parts, (Tensor, np.ndarray)):
        parts = parts.tolist()
    at = wrap_dim(dim, len(shape))
    before, made = (WHOLE,) * at, []
    cuts = tuple(map(operator.index, parts)) if isinstance(parts, (tuple, list)) else operator.index(parts)
    for begin, end in _bounds(cuts, shape[at]):
        made.append(slice_op(input, (*before, slice(begin, end))))
    return tuple(made)


def _split_along(name: str, input: Any, parts: Any, dim: int, least: int) -> tuple[Any, ...]:
    if input.ndim < least:
        raise RuntimeError(f"{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} dimensions!")
    if isinstance(parts, int) and (parts <= 0 or input.shape[dim] % parts):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is not divisible by the "
            f"split_size {parts}!"
        )
    return tensor_split(input, parts, dim)


@composite
def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """``tensor_split`` along dimension 1 (0 for a vector), into equal parts.

    Args:
        input: any dtype.
        indices_or_sections: how many equal parts, or the places where parts begin.
    Returns: a tuple of views.
    Raises: RuntimeError for a tensor without dimensions, and for parts that would not be equal.
    Source: torch.hsplit.
    Example:
        >>> gradlib.hsplit(gradlib.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@composite
def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """``tensor_split`` along dimension 0, into equal parts.

    Args:
        input: any dtype.
        indices_or_sections: how many equal parts, or the places where parts begin.
    Returns: a tuple of views.
    Raises: RuntimeError for fewer than two dimensions, and for parts that would not be equal.
    Source: torch.vsplit.
    Example:
        >>> gradlib.vsplit(gradlib.tensor([[1, 2], [3, 4]]), 2)
        (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@composite
def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """``tensor_split`` along dimension 2, into equal parts.

    Args:
        input: any dtype.
        indices_or_sections: how many equal parts, or the places where parts begin.
    Returns: a tuple of views.
    Raises: RuntimeError for fewer than three dimensions, and for parts that would not be equal.
    Source: torch.dsplit.
    Example:
        >>> [part.shape for part in gradlib.dsplit(gradlib.zeros(1, 1, 4), 2)]
        [gradlib.Size([1, 1, 2]), gradlib.Size([1, 1, 2])]
    """
    return _split_along("dsplit", input, indices_or_sections, 2, 3)
