"""Elements repeated, turned round or left out: always new memory."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Namespace, broadcast_to, device_index, is_array, move, namespace, on_device_of
from gradlib.backend.columns import LEAST, has_columns, joined
from gradlib.backend.copying import copied, copy, rolled, row_major, row_major_copy
from gradlib.backend.matrices import part_of_matrices
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.op import composite, op, public, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.create import at, finished
from gradlib.ops.dims import WHOLE, sized_method, wrap_dim, wrap_dims
from gradlib.ops.index import index
from gradlib.ops.reduce import sum as summed
from gradlib.ops.shape import ravel, reshape

__all__ = ["flip", "repeat_interleave", "roll", "rot90", "tile", "tril", "tril_indices", "triu", "triu_indices"]


# ---- repeated -------------------------------------------------------------------------------------------------------------------


def _folded(shape: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a repeated tensor with a dimension of its own for each repetition: (r0, n0, r1, n1, ...)."""
    padded = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    return tuple([size for pair in zip(repeats, padded, strict=True) for size in pair])


@op(
    "linear", method=False, complex="explicit",
    input=lambda g, input_shape, repeats: summed(reshape(g, _folded(input_shape, repeats)), tuple(range(0, 2 * len(repeats), 2))),
)  # fmt: skip
def repeat(xp: Namespace, input: Any, repeats: Any) -> Any:
    """The whole tensor repeated along each dimension.

    Raises: RuntimeError for fewer repeats than dimensions. Source: torch.Tensor.repeat.
    """
    if len(repeats) < input.ndim:
        raise RuntimeError(
            f"Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: {list(repeats)} for shape "
            f"{list(input.shape)}"
        )
    if min(repeats, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats {list(repeats)}")
    if xp is np or not repeats:
        return xp.tile(input, repeats) if repeats else input.copy()
    once = input.reshape(_folded(input.shape, (1,) * len(repeats)))
    made = row_major_copy(broadcast_to(once, _folded(input.shape, repeats)))
    return made.reshape([many * size for many, size in zip(made.shape[::2], made.shape[1::2], strict=True)])


publish(sized_method(repeat, "repeats"), "repeat")


@composite(method=False)
def tile(input: Any, dims: Any) -> Any:
    """The whole tensor repeated; dimensions for which no number is given count as 1.

    Args:
        input: any shape and dtype.
        dims: how often along each dimension.
    Source: torch.tile.
    Example:
        >>> gradlib.tile(gradlib.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    return repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


publish(sized_method(tile, "dims"), "tile")


@op(
    "linear", method=False, complex="explicit",
    input=lambda g, input_shape, repeats, dim: summed(reshape(g, (*input_shape[: dim + 1], repeats, *input_shape[dim + 1 :])), dim + 1),
)  # fmt: skip
def interleave(xp: Namespace, input: Any, repeats: int, dim: int) -> Any:
    """Each position along a dimension ``repeats`` times in a row."""
    if xp is np:
        return xp.repeat(input, repeats, axis=dim)
    before, size, behind = input.shape[:dim], input.shape[dim], input.shape[dim + 1 :]
    made = row_major_copy(broadcast_to(input.reshape((*before, size, 1, *behind)), (*before, size, repeats, *behind)))
    return made.reshape((*before, size * repeats, *behind))


@composite
def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Each element repeated in its place along a dimension, or along the flattened tensor.

    Args:
        repeats: how often, for all or (an integer Tensor) for each position along dim. Without it, input says how often each position is
            to stand in the result.
        output_size: the resulting size where it is known; a CUDA device then need not tell the host.
    Raises: RuntimeError for negative repeats or a wrong number of them.
    Source: torch.repeat_interleave.
    Example:
        >>> gradlib.repeat_interleave(gradlib.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    if type(input if repeats is None else repeats) is Batched:
        refuse_values()
    if repeats is None:
        array = raw(input)
        return finished(_positions(array, array.size, output_size, array).astype(array.dtype, copy=False), False)
    if dim is None:
        input, dim = ravel(input), 0
    elif not input.ndim:
        input = reshape(input, (1,))
    dim = wrap_dim(dim, input.ndim)
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError(f"Repeats must be non-negative, got {repeats}")
        if output_size is not None and output_size != repeats * input.shape[dim]:
            raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {repeats * input.shape[dim]} but got {output_size}")
        return interleave(input, repeats, dim)
    return index(input, [None] * dim + [_positions(raw(repeats), input.shape[dim], output_size, raw(input))])


def _positions(repeats: Any, size: int, output_size: int | None, like: Any) -> Any:
    """The position from which each element of an interleaved repetition comes."""
    if not is_array(repeats) or repeats.ndim > 1:
        raise RuntimeError(
            f"repeats must be 0-dim or 1-dim tensor, got {type(repeats).__name__} of shape {list(getattr(repeats, 'shape', []))}"
        )
    if repeats.dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(f"repeats has to be Long or Int tensor, got {repeats.dtype}")
    xp = namespace(like)
    repeats = move(repeats, device_index(like))
    if repeats.size == 1:
        repeats = xp.broadcast_to(repeats.reshape(1), (size,))
    if repeats.size != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.size} and input.size(0) = {size}"
        )
    with on_device_of(like):
        ends = xp.cumsum(repeats)
        if output_size is None or xp is np:
            if size and int(repeats.min()) < 0:
                raise RuntimeError("repeats can not be negative")
            found = int(ends[-1]) if size else 0
            if output_size is not None and output_size != found:
                raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {found} but got {output_size}")
            output_size = found
        return xp.searchsorted(ends, xp.arange(output_size), side="right")


# ---- turned round ---------------------------------------------------------------------------------------------------------------


@op("linear", method=False, complex="explicit", input=lambda g, dims: flip(g, dims))
def flip(xp: Namespace, input: Any, dims: Any) -> Any:
    """The order of the elements reversed along some dimensions.

    Args:
        input: any shape and dtype.
        dims: the dimensions to turn round.
    Source: torch.flip.
    Example:
        >>> gradlib.flip(gradlib.tensor([1, 2, 3]), (0,))
        tensor([3, 2, 1])
    """
    chosen = wrap_dims(dims, input.ndim)
    if not input.ndim:
        return copy(input)
    order = [WHOLE] * input.ndim
    for dim in chosen:
        order[dim] = _BACKWARDS
    return (copied if input.size >= LEAST and xp is np and has_columns(input) else copy)(input[tuple(order)])


_BACKWARDS = slice(None, None, -1)


publish(sized_method(flip, "dims"), "flip")


def _negated(shifts: Any) -> Any:
    return tuple(-s for s in shifts) if isinstance(shifts, (tuple, list)) else -shifts


@op("linear", complex="explicit", input=lambda g, shifts, dims: roll(g, _negated(shifts), dims))
def roll(xp: Namespace, input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved along dimensions; those that fall off the end come back at the beginning.

    Args:
        shifts: how far, one number or one for each of dims.
        dims: along which; the flattened tensor when left out.
    Raises: RuntimeError unless shifts and dims are equally many; IndexError for a dimension that a tensor with elements does not have.
    Source: torch.roll.
    Example:
        >>> gradlib.roll(gradlib.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    steps = tuple(map(operator.index, shifts if isinstance(shifts, (tuple, list)) else (shifts,)))
    along = () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if not steps:
        raise RuntimeError("`shifts` required: roll needs at least one")
    if len(steps) != len(along) and (along or len(steps) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    if not input.size:  # as in torch whatever the dimensions are
        return input.copy()
    if not along:
        return _rolled(xp, input.reshape(-1), steps, (0,)).reshape(input.shape)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    return row_major(_rolled(xp, input, steps, tuple([wrap_dim(d, input.ndim) for d in along])))


def _rolled(xp: Namespace, input: Any, steps: tuple[int, ...], places: tuple[int, ...]) -> Any:
    """``xp.roll``, in a third of its time along one dimension, and on a device."""
    if xp is not np:
        made = rolled(input if input._c_contiguous else row_major_copy(input), steps, places)
        return xp.roll(input, steps, places) if made is None else made
    if len(places) > 1:
        return np.roll(input, steps, places)
    (shift,), (dim,) = steps, places
    before, size = (WHOLE,) * dim, input.shape[dim]
    cut = size - shift % size
    parts = input[(*before, slice(cut, None))], input[(*before, slice(0, cut))]
    return joined(parts, dim) if input.size >= LEAST and has_columns(parts[0]) else np.concatenate(parts, dim)


@op("linear", complex="explicit", input=lambda g, k, dims: rot90(g, -k, dims))
def rot90(xp: Namespace, input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """A quarter turn, k times, in the plane of two dimensions, from the first towards the second.

    Args:
        input: at least 2 dimensions.
        k: how many quarter turns.
        dims: the plane, from the first dimension to the second.
    Raises: RuntimeError for an input of fewer dimensions, and unless dims are two different ones.
    Source: torch.rot90.
    Example:
        >>> gradlib.rot90(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = map(wrap_dim, dims, (input.ndim,) * 2)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns, places = operator.index(k) % 4, [slice(None)] * input.ndim
    if turns in (1, 2):
        places[second] = slice(None, None, -1)
    if turns in (2, 3):
        places[first] = slice(None, None, -1)
    made = copy(input[tuple(places)])
    return made.swapaxes(first, second) if turns % 2 else made


# ---- triangles ------------------------------------------------------------------------------------------------------------------


def _part_on_device(upper: bool) -> Any:
    """The kernel of ``triu`` or ``tril``."""

    def run(input: Any, diagonal: Any) -> Any:
        return part_of_matrices(input, diagonal, upper) if input.ndim > 1 and type(diagonal) is int else None

    return run


@op(
    "linear", promote="same", inplace=True, complex="explicit", input=lambda g, diagonal: tril(g, diagonal),
    kernels={"out": _part_on_device(upper=False)},
)  # fmt: skip
def tril(xp: Namespace, input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of each matrix, up to a diagonal (0: the main one), zeros above it.

    Args:
        input: (..., n, m), any dtype.
        diagonal: the last diagonal that stays: 0 for the main one, positive above it, negative below.
    Source: torch.tril.
    Example:
        >>> gradlib.tril(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[1, 0],
                [3, 4]])
    """
    return _part_of_matrices("tril", xp, input, diagonal)


def _part_of_matrices(name: str, xp: Namespace, input: Any, diagonal: Any) -> Any:
    """A triangle of each matrix, in row-major order. Raises: RuntimeError for anything but a matrix."""
    shape, upper = input.shape, name == "triu"
    if len(shape) < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got shape {list(shape)}")
    small = shape[-1] * shape[-2] <= _SMALL
    if type(diagonal) is not int:
        diagonal = operator.index(diagonal)
    if xp is not np or not (small or shape[-1] >= _ROWS):
        return row_major(getattr(xp, name)(input, diagonal))
    if not small:
        return _by_rows(input, diagonal, upper)
    if input.size <= _FEW and len(shape) == 2:
        made = input.copy()
        made.put(_places(_below if upper else _above, *shape, diagonal), 0)
        return made
    bits = _BITS.get(input.itemsize)
    if bits is None or not input.flags.c_contiguous:
        return row_major(getattr(np, name)(input, diagonal))
    made = np.empty(shape, input.dtype)
    np.bitwise_and(input.view(bits), _kept(upper, shape[-2], shape[-1], diagonal, bits), out=made.view(bits))
    return made


def _by_rows(input: Any, diagonal: int, upper: bool) -> Any:
    """The same some rows at a time, so that only what they share with the diagonal is looked at element by element."""
    made, (rows, columns) = np.zeros(input.shape, input.dtype), input.shape[-2:]
    for begin in range(0, rows, _ROWS):
        end = min(begin + _ROWS, rows)
        low, high = (min(max(row + diagonal, 0), columns) for row in (begin, end))
        whole = (..., slice(begin, end), slice(high, None) if upper else slice(low))
        made[whole] = input[whole]
        mixed, size, offset = (..., slice(begin, end), slice(low, high)), (end - begin, high - low), begin + diagonal - low
        np.copyto(made[mixed], input[mixed], where=_above(*size, offset - 1) if upper else _below(*size, offset + 1))
    return made


_ROWS, _FEW, _SMALL = 128, 256, 1 << 14


@functools.lru_cache(32)
def _places(others: Callable[[int, int, int], Any], rows: int, columns: int, diagonal: int) -> Any:
    """Where the mask is true, in the matrix read as one row."""
    return np.flatnonzero(others(rows, columns, diagonal))


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@functools.lru_cache(32)
def _kept(upper: bool, rows: int, columns: int, diagonal: int, bits: Any) -> Any:
    """All bits of the elements that stay, and none of the others."""
    return np.negative(~(_below if upper else _above)(rows, columns, diagonal), dtype=bits)


@functools.lru_cache(32)
def _above(rows: int, columns: int, diagonal: int) -> Any:
    """A mask of the elements above a diagonal of a small matrix."""
    return ~np.tri(rows, columns, diagonal, dtype=bool)


@functools.lru_cache(32)
def _below(rows: int, columns: int, diagonal: int) -> Any:
    """A mask of the elements below a diagonal of a small matrix."""
    return np.tri(rows, columns, diagonal - 1, dtype=bool)


@op(
    "linear", promote="same", inplace=True, complex="explicit", input=lambda g, diagonal: triu(g, diagonal),
    kernels={"out": _part_on_device(upper=True)},
)  # fmt: skip
def triu(xp: Namespace, input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of each matrix, from a diagonal (0: the main one), zeros below it.

    Args:
        input: (..., n, m), any dtype.
        diagonal: the last diagonal that stays: 0 for the main one, positive above it, negative below.
    Source: torch.triu.
    Example:
        >>> gradlib.triu(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[1, 2],
                [0, 4]])
    """
    return _part_of_matrices("triu", xp, input, diagonal)


def _triangle(name: str, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    chosen = dtypes.as_dtype(dtype) or dtypes.int64
    row, col, offset = map(operator.index, (row, col, offset))
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")
    if chosen not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"{name} gives int64 or int32, not {chosen}")
    xp, place = at(device)
    with place:
        inside = xp.tri(row, col, offset, dtype=bool) if name == "tril_indices" else ~xp.tri(row, col, offset - 1, dtype=bool)
        return finished(xp.stack(xp.nonzero(inside)).astype(chosen, copy=False), False)


@public
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the lower triangle of a (row, col) matrix, as a (2, n) tensor in row-major order.

    Args:
        row, col: the numbers of rows and of columns.
        offset: the diagonal: 0 for the main one, positive above it, negative below.
        dtype: int64 when left out.
        device: as in ``tensor``.
    Source: torch.tril_indices.
    Example:
        >>> gradlib.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    return _triangle("tril_indices", row, col, offset, dtype, device)


@public
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the upper triangle of a (row, col) matrix, as a (2, n) tensor in row-major order.

    Args:
        row, col: the numbers of rows and of columns.
        offset: the diagonal: 0 for the main one, positive above it, negative below.
        dtype: int64 when left out.
        device: as in ``tensor``.
    Source: torch.triu_indices.
    Example:
        >>> gradlib.triu_indices(2, 2)
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    return _triangle("triu_indices", row, col, offset, dtype, device)
