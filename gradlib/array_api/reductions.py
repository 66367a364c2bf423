"""Over axes: sums, extremes, spread, running results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradlib.array_api.array import common_dtype, standard
from gradlib.array_api.data_types import uint64
from gradlib.backend import dtype as dtypes
from gradlib.ops import join, minmax, reduce, scan, shape as shapes, variance
from gradlib.ops.convert import to
from gradlib.ops.create import full
from gradlib.ops.dims import wrap_dims

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip

_Axes = int | tuple[int, ...]


def over(reduction: Callable[[Any, Any, bool], Any], x: Any, axis: Any, keepdims: bool) -> Any:
    """A reduction over axes: None is all of them, and none of them (an empty tuple) is each element by itself."""
    if axis == () and isinstance(axis, tuple):
        return reduction(shapes.unsqueeze(x, -1), (-1,), False)
    dims = tuple(range(x.ndim)) if axis is None else wrap_dims(axis, x.ndim)
    if not dims:
        return reduction(shapes.unsqueeze(x, -1), (-1,), False)
    return reduction(x, dims, keepdims)


def _summed_dtype(x: Any, dtype: Any) -> Any:
    """The dtype of a sum or product: that of the elements, integers in at least the default one of their kind."""
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return {"b": dtypes.int64, "i": dtypes.int64, "u": uint64}.get(x.dtype.kind, x.dtype)


@standard
def sum(x: Any, /, *, axis: _Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over axes, or of all elements."""
    wanted = _summed_dtype(x, dtype)
    return over(lambda y, dims, keep: reduce.sum(y, dims, keep, dtype=wanted), x, axis, keepdims)


@standard
def prod(x: Any, /, *, axis: _Axes | None = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product over axes, or of all elements."""
    wanted = _summed_dtype(x, dtype)

    def product(y: Any, dims: tuple[int, ...], keep: bool) -> Any:
        for dim in sorted((d % y.ndim for d in dims), reverse=True):
            y = reduce.prod(y, dim, keep, dtype=wanted)
        return y

    return over(product, x, axis, keepdims)


@standard
def max(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """The largest element over axes, or of all."""
    return over(minmax.amax, x, axis, keepdims)


@standard
def min(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """The smallest element over axes, or of all."""
    return over(minmax.amin, x, axis, keepdims)


@standard
def mean(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """The mean over axes, or of all elements."""
    return over(reduce.mean, x, axis, keepdims)


@standard
def std(x: Any, /, *, axis: _Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation over axes, the sum of squares divided by their number less ``correction``."""
    return over(lambda y, dims, keep: variance.std(y, dims, None, keep, correction=correction), x, axis, keepdims)


@standard
def var(x: Any, /, *, axis: _Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance over axes, the sum of squares divided by their number less ``correction``."""
    return over(lambda y, dims, keep: variance.var(y, dims, None, keep, correction=correction), x, axis, keepdims)


@standard
def all(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """Whether all elements over axes are not zero."""
    return over(lambda y, dims, keep: reduce.all(to(y, dtypes.bool_), dims, keep), x, axis, keepdims)


@standard
def any(x: Any, /, *, axis: _Axes | None = None, keepdims: bool = False) -> Any:
    """Whether any element over axes is not zero."""
    return over(lambda y, dims, keep: reduce.any(to(y, dtypes.bool_), dims, keep), x, axis, keepdims)


@standard
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The running sum along an axis, which a one-dimensional array need not name; with a zero in front, if asked for."""
    return _running("cumulative_sum", scan.cumsum, 0, x, axis, dtype, include_initial)


@standard
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The running product along an axis, which a one-dimensional array need not name; with a one in front, if asked for."""
    return _running("cumulative_prod", scan.cumprod, 1, x, axis, dtype, include_initial)


def _running(name: str, fold: Callable[..., Any], first: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    if not x.ndim or (axis is None and x.ndim != 1):
        raise ValueError(f"{name}: an array of {x.ndim} dimensions {'needs axis=' if x.ndim else 'has no axis'}")
    (dim,) = wrap_dims(axis or 0, x.ndim)
    result = fold(x, dim, dtype=_summed_dtype(x, dtype))
    if not include_initial:
        return result
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    return join.cat([full(shape, first, dtype=result.dtype, device=x.device), result], dim)


@standard
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along an axis, with arrays put in front and behind first."""
    parts = [part for part in (prepend, x, append) if part is not None]
    common = common_dtype(*parts)
    return scan.diff(join.cat([to(part, common) for part in parts], axis), n, axis)
