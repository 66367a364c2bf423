"""Tensors brought to one shape, or to as many dimensions: broadcasting, grids, ``atleast_1d`` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.core.op import composite
from gradlib.core.tensor import Size, Tensor
from gradlib.ops.shape import expand, reshape, unsqueeze

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "meshgrid"]


def _listed(tensors: tuple[Any, ...]) -> list[Any]:
    """Tensors given one by one or as one list."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)


def as_1d(x: Any) -> Any:
    """A tensor of at least one dimension."""
    return x if x.ndim else reshape(x, (1,))


def as_2d(x: Any) -> Any:
    """One of at least two: a vector is a row."""
    return x if x.ndim > 1 else reshape(x, (1, -1))


def as_3d(x: Any) -> Any:
    """One of at least three, as ``atleast_3d`` has them."""
    return x if x.ndim > 2 else unsqueeze(x, 2) if x.ndim == 2 else reshape(x, (1, -1, 1))


def _each(tensors: tuple[Any, ...], grow: Callable[[Any], Any]) -> Any:
    """``grow`` of one tensor; a tuple for several tensors, and for a list of them."""
    alone = len(tensors) == 1 and not isinstance(tensors[0], (tuple, list))
    return grow(tensors[0]) if alone else tuple(map(grow, _listed(tensors)))


@composite(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """A 0-d tensor with one dimension, others as they are; several tensors give a tuple.

    Args:
        tensors: one tensor, several, or a list of them.
    Source: torch.atleast_1d.
    Example:
        >>> gradlib.atleast_1d(gradlib.tensor(3))
        tensor([3])
    """
    return _each(tensors, as_1d)


@composite(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Numbers and vectors as one row, others as they are; several tensors give a tuple.

    Args:
        tensors: one tensor, several, or a list of them.
    Source: torch.atleast_2d.
    Example:
        >>> gradlib.atleast_2d(gradlib.tensor([1, 2]))
        tensor([[1, 2]])
    """
    return _each(tensors, as_2d)


@composite(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Vectors (n,) as (1, n, 1), matrices (n, m) as (n, m, 1), others as they are; several give a tuple.

    Args:
        tensors: one tensor, several, or a list of them.
    Source: torch.atleast_3d.
    Example:
        >>> gradlib.atleast_3d(gradlib.tensor([1, 2])).shape
        gradlib.Size([1, 2, 1])
    """
    return _each(tensors, as_3d)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all of these broadcast.

    Args:
        shapes: tuples or numbers.
    Raises: RuntimeError when there is none.
    Source: torch.broadcast_shapes.
    Example:
        >>> gradlib.broadcast_shapes((3, 1), (2,))
        gradlib.Size([3, 2])
    """
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        raise RuntimeError(f"shapes cannot be broadcast together: {', '.join(map(str, shapes))}; sizes must be equal or 1") from None


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Every tensor expanded to their common shape, itself where it has that already.

    Args:
        tensors: any shapes that broadcast together, and any dtypes.
    Returns: a tuple of them, in the order given; views that share memory with what they were made of.
    Raises: RuntimeError for shapes that do not broadcast together.
    Source: torch.broadcast_tensors.
    Example:
        >>> gradlib.broadcast_tensors(gradlib.tensor([1, 2]), gradlib.tensor([[3], [4]]))[0]
        tensor([[1, 2],
                [1, 2]])
    """
    parts = _listed(tensors)
    shapes = [x._array.shape if type(x) is Tensor else tuple(x.shape) for x in parts]
    shape = tuple(broadcast_shapes(*shapes))
    return tuple([x if have == shape else expand(x, shape) for x, have in zip(parts, shapes, strict=True)])


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """The coordinates of a grid: each vector expanded along the dimensions of all the others.

    Args:
        tensors: vectors or numbers of one dtype.
        indexing: "ij" (the i-th vector runs along dimension i) or "xy" (the first two exchanged).
    Returns: a tuple with one tensor of the grid's shape for each vector.
    Raises: RuntimeError for no vectors, tensors of more than one dimension, several dtypes, or another indexing.
    Source: torch.meshgrid.
    Example:
        >>> rows, columns = gradlib.meshgrid(gradlib.arange(2), gradlib.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    parts, sizes, dtype = _listed(tensors), [], None
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not parts:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in parts:
        array = x._array if type(x) is Tensor else x
        if array.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensor in the tensor list but got shape {list(array.shape)}")
        dtype = dtype or array.dtype
        if array.dtype is not dtype and array.dtype != dtype:
            raise RuntimeError(f"meshgrid expects all tensors to have the same dtype, got {dtype} and {array.dtype}")
        sizes.append(array.shape[0] if array.ndim else 1)
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[:2], sizes[:2] = [1, 0], sizes[1::-1]
    whole, made = tuple(sizes), []
    for x, d in zip(parts, order, strict=True):
        after = len(parts) - d - 1
        made.append(expand(reshape(x, (-1,) + (1,) * after) if after else x, whole))
    return tuple(made)
