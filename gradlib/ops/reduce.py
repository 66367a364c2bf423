"""Reductions that add: sums, means, products, and the map back from a reduced shape.

Sums of half-precision numbers run in float32 and of integers in int64, as torch's do.
"""

from __future__ import annotations

from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.core.op import op
from gradlib.ops.dims import wrap_dim, wrap_dims

__all__ = ["mean", "sum"]


# ---- what reductions share ----------------------------------------------------------------------------------------------------


def axes(ndim: int, dim: Any) -> Any:
    """NumPy's axis for torch's dim: None, () and [] mean all of them; a 0-d array has a dimension 0 (and -1) to reduce.

    Returns: None, an int, or a tuple of at least one int, each from 0 to ndim - 1.
    Raises: IndexError for a dimension that is not there, RuntimeError for one named twice.
    """
    if dim is None:
        return None
    if isinstance(dim, (tuple, list)):
        found = wrap_dims(dim, ndim)
        return found if found and ndim else None
    return wrap_dim(dim, ndim) if ndim else wrap_dim(dim, ndim) or None


def count(shape: tuple[int, ...], dim: Any) -> int:
    """How many elements of an array of this shape meet in each element of its reduction."""
    number = 1
    chosen = axes(len(shape), dim)
    for i in range(len(shape)) if chosen is None else (chosen if isinstance(chosen, tuple) else (chosen,)):
        number *= shape[i]
    return number


def kept(shape: tuple[int, ...], dim: Any) -> tuple[int, ...]:
    """The shape of a reduction that keeps its dimensions."""
    chosen = axes(len(shape), dim)
    if chosen is None:
        return (1,) * len(shape)
    chosen = chosen if isinstance(chosen, tuple) else (chosen,)
    return tuple(1 if i in chosen else size for i, size in enumerate(shape))


def total(xp: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    """The sum in the dtype in which it is exact enough: float32 for half types, int64 for integers and bools."""
    dtype = input.dtype
    wide = None
    if dtype.itemsize < 4 or dtype.kind not in "fc":
        wide = dtypes.int64 if dtype.kind in "biu" else dtypes.float32
    return xp.add.reduce(input, axis=axes(input.ndim, dim), dtype=wide, keepdims=keepdim)


def back(result: Any, dtype: Any) -> Any:
    """A result computed in float32 in the half type of its input; any other as it is."""
    return result.astype(dtype) if dtype.itemsize == 2 and dtype.kind not in "iu" else result


@op("linear", method=False, complex="explicit", input=lambda g, dim, keepdim: sum(g, dim, keepdim))
def spread(xp: Any, input: Any, shape: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Repeat a reduction's result over the dimensions it reduced: the transpose of ``sum``, as a read-only view.

    Args:
        input: of the shape that reducing ``shape`` over dim gives.
        shape: what was reduced; dim, keepdim: how.
    """
    return xp.broadcast_to(input if keepdim or (dim is None and len(shape) == input.ndim) else input.reshape(kept(shape, dim)), shape)


# ---- sums ---------------------------------------------------------------------------------------------------------------------


@op("linear", complex="explicit", input=lambda g, input_shape, dim, keepdim: spread(g, input_shape, dim, keepdim))
def sum(xp: Any, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum over ``dim`` (a number, several, or all).

    Args:
        input: any shape and dtype.
        dim: the dimensions to add up; None for all.
        keepdim: leave them in place with size 1.
        dtype: convert the input to this dtype first; integers and bools give int64 without it.
    Source: torch.sum.
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    return back(total(xp, input, dim, keepdim), input.dtype)


@op("linear", complex="explicit", input=lambda g, input_shape, dim, keepdim: spread(g / count(input_shape, dim), input_shape, dim, keepdim))
def mean(xp: Any, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Arithmetic mean over ``dim`` (a number, several, or all); NaN of nothing.

    Args:
        input: any shape, float or complex dtype.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers and bools without ``dtype``.
    Source: torch.mean.
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    if input.dtype.kind in "biu":
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {input.dtype}"
        )
    return back(total(xp, input, dim, keepdim) / count(input.shape, dim), input.dtype)
