"""Sums, products, extrema, means and their kin, along axes and running, with NumPy's arguments."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import (
    axes_of,
    axis_of,
    cast,
    constant,
    flat,
    floating,
    mask_within,
    promoted,
    reduced_axes,
    sizes_with,
    tensor_of,
    value_of,
    written,
)
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import broadcast, elementwise, finite, gather, join, minmax, reduce, scan, select, variance


def _left(x: Tensor, where: Any, instead: Any) -> Tensor:
    """x where ``where=`` holds, ``instead`` elsewhere."""
    return x if where is True or where is None else select.where(mask_within(where, x), x, cast(tensor_of(instead, x), x.dtype))


def _widened(x: Tensor, dtype: Any) -> Tensor:
    """x in the dtype in which NumPy adds it up: small integers and bools as int64."""
    if dtype is not None:
        return cast(x, dtype)
    return x.to(dtypes.int64) if x.dtype.kind in "bu" or (x.dtype.kind == "i" and x.dtype.itemsize < 8) else x


def _dims(axis: Any, x: Tensor) -> Any:
    """An ``axis=`` argument as operations take it."""
    return axis if axis is None or type(axis) is int else reduced_axes(axis, x.ndim)


@implements(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = 0, where: Any = True
) -> Tensor:
    """The sum along axes."""
    x = _widened(a if isinstance(a, Tensor) else tensor_of(a), dtype)
    if where is not True:
        x = _left(x, where, 0)
    result = reduce.sum(x, _dims(axis, x), bool(keepdims)) if axis != () else x.clone()
    if type(initial) is not int or initial != 0:
        result = result + tensor_of(initial, x, x.dtype)
    if dtype is not None:
        result = cast(result, dtype)
    return result if out is None else written(result, out, "numpy.sum")


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = 1, where: Any = True
) -> Tensor:
    """The product along axes."""
    x = _left(_widened(tensor_of(a), dtype), where, 1)
    result = _each_axis(reduce.prod, x, axis, keepdims)
    result = result if type(initial) is int and initial == 1 else result * tensor_of(initial, x, x.dtype)
    return written(cast(result, dtype), out, "numpy.prod")


def _each_axis(operation: Callable[..., Any], x: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """An operation that reduces one axis, for several."""
    if axis is None and not keepdims:
        return operation(x)
    if x.ndim == 0:
        reduced_axes(axis, 0)
        return operation(x)
    axes = axes_of(axis, x.ndim)
    for each in sorted(axes, reverse=True):
        x = operation(x, each, bool(keepdims))
    return x if axes else x.clone()


def _extremum(real: Callable[..., Any], meeting_real: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    argument = np.argmax if name == "max" else np.argmin

    def extremum(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True, dtype: Any = None
    ) -> Tensor:
        plain = (axis is None or type(axis) is int) and out is None and initial is None and where is True and dtype is None
        if plain and type(a) is Tensor and a._array.dtype.kind in "fiu" and a._array.size:
            return real(a) if axis is None and not keepdims else real(a, () if axis is None else axis, bool(keepdims))
        x = cast(tensor_of(a), dtype)
        operation, meeting = (real, meeting_real) if not x.is_complex() else (partial(_first_of_order, argument), _meeting_of(argument))
        if where is True and initial is None and axis != () and x.numel():
            return written(operation(x, () if axis is None else _dims(axis, x), bool(keepdims)), out, f"numpy.{name}")
        if where is not True and initial is None:
            raise ValueError(f"numpy.{name} with where= needs initial=, which has no identity of its own")
        x = _left(x, where, initial)
        axes = reduced_axes(axis, x.ndim)
        if any(x.shape[i] == 0 for i in axes):
            if initial is None:
                raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
            shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
            return written(x.new_full(tuple(shape), initial), out, f"numpy.{name}")
        result = operation(x, axes, bool(keepdims)) if axes else x.clone()
        if initial is not None:
            result = meeting(result, cast(tensor_of(initial, x), x.dtype))
        return written(result, out, f"numpy.{name}")

    return extremum


def _meeting_of(argument: Callable[..., Any]) -> Callable[..., Tensor]:
    """The larger or smaller of complex numbers and another; of several NaN the other."""
    return lambda x, other: _first_of_order(argument, join.stack(broadcast.broadcast_tensors(other, x)), 0, False)


def _first_of_order(argument: Callable[..., Any], x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The largest or smallest of complex numbers, which NumPy orders by their real parts, then by their imaginary ones; ``()``: of all."""
    axes = reduced_axes(None if axis == () else axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    lines = x.permute((*kept, *axes)).reshape((*[x.shape[i] for i in kept], math.prod(x.shape[i] for i in axes)))
    found = gather.take_along_dim(lines, constant(argument(value_of(lines), -1)[..., None], x), -1)
    return found.reshape(tuple([x.shape[i] if i in kept else 1 for i in range(x.ndim) if i in kept or keepdims]))


max = implements(np.max, np.amax)(_extremum(minmax.amax, select.maximum, "max"))
min = implements(np.min, np.amin)(_extremum(minmax.amin, select.minimum, "min"))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The range of the values, largest less smallest."""
    return written(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out, "numpy.ptp")


def _truth(operation: Callable[..., Any], name: str, identity: bool) -> Callable[..., Tensor]:
    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
        x = _left(tensor_of(a), where, identity)
        axes = reduced_axes(axis, x.ndim)
        found = operation(x, axes, bool(keepdims)) if axes else x != 0
        return written(found if found._array.dtype is dtypes.bool_ else found.to(dtypes.bool_), out, f"numpy.{name}")

    return truth


all = implements(np.all, exact=True)(_truth(reduce.all, "all", True))
any_ = implements(np.any, exact=True)(_truth(reduce.any, "any", False))


@implements(np.count_nonzero, exact=True)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements that are not zero."""
    return sum(tensor_of(a) != 0, axis, keepdims=keepdims)


def counted(x: Tensor, axis: Any) -> int:
    """The number of elements that a reduction along these axes takes together."""
    return math.prod(x.shape[i] for i in reduced_axes(axis, x.ndim))


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    """The mean along axes."""
    x = floating(a) if dtype is None else cast(tensor_of(a), dtype)
    if where is True:
        if x.dtype.kind in "fcV" and axis != ():
            return written(reduce.mean(x, _dims(axis, x), bool(keepdims)), out, "numpy.mean")
        return written(cast(sum(floating(x), axis, keepdims=keepdims) / counted(x, axis), x.dtype), out, "numpy.mean")
    chosen, values = mask_within(where, x), floating(x)
    count = sum(chosen, axis, keepdims=keepdims).to(values.dtype)
    return written(cast(sum(values, axis, keepdims=keepdims, where=chosen) / count, x.dtype), out, "numpy.mean")


def _spread(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, around: Any, correction: Any, root: bool) -> Tensor:
    """The variance along axes, which is divided by their count less ``ddof``, or its root."""
    x = floating(a) if dtype is None else cast(tensor_of(a), dtype)
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    less = ddof if correction is None else correction
    if where is True and around is None and axis != ():
        operation = variance.std if root else variance.var
        return operation(x, None if axis is None else reduced_axes(axis, x.ndim), correction=less, keepdim=bool(keepdims))
    x, center = (x, mean(x, axis, keepdims=True, where=where)) if around is None else promoted(x, around)
    away = x - center
    squares = elementwise.square(away) if x.dtype.kind != "c" else elementwise.square(away.real) + elementwise.square(away.imag)
    if where is True:
        freedom: Any = builtins.max(counted(x, axis) - less, 0)
    else:
        freedom = select.clamp_min(sum(mask_within(where, x), axis, keepdims=keepdims).to(squares.dtype) - less, 0)
    found = sum(squares, axis, keepdims=keepdims, where=where) / freedom
    return elementwise.sqrt(found) if root else found


def _deviation(name: str, root: bool) -> Callable[..., Tensor]:
    def deviation(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
        mean: Any = None, correction: Any = None,
    ) -> Tensor:  # fmt: skip
        return written(_spread(a, axis, dtype, ddof, keepdims, where, mean, correction, root), out, f"numpy.{name}")

    return deviation


var = implements(np.var)(_deviation("var", root=False))
std = implements(np.std)(_deviation("std", root=True))


def _running(operation: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
        x, along = flat(_widened(tensor_of(a), dtype), axis)
        made = cast(operation(x, along), dtype)
        return made if out is None else written(made, out, f"numpy.{name}")

    return running


cumsum = implements(np.cumsum)(_running(scan.cumsum, "cumsum"))
cumprod = implements(np.cumprod)(_running(scan.cumprod, "cumprod"))


def _with_initial(running: Callable[..., Tensor], name: str, start: int) -> Callable[..., Tensor]:
    def cumulative(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Tensor:
        x = tensor_of(x)
        x = x.reshape((1,)) if x.ndim == 0 else x
        if axis is None:
            if x.ndim != 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            axis = 0
        result = running(x, axis, dtype)
        if include_initial:
            along = axis_of(axis, x.ndim)
            result = join.cat([result.new_full(sizes_with(x, along, 1), start), result], along)
        return written(result, out, f"numpy.{name}")

    return cumulative


implements(numpy_function("cumulative_sum"))(_with_initial(cumsum, "cumulative_sum", 0))
implements(numpy_function("cumulative_prod"))(_with_initial(cumprod, "cumulative_prod", 1))


# ---- without what is not a number ----------------------------------------------------------------------------------------------


def _without_nan(x: Tensor, instead: Any) -> Tensor:
    return select.where(finite.isnan(x), instead, x) if x.dtype.kind in "fc" else x


def _of_numbers(function: Callable[..., Tensor], name: str, identity: int) -> Callable[..., Tensor]:
    """A sum or product, complete or running, that leaves NaN out."""

    def of_numbers(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        return written(function(_without_nan(tensor_of(a), identity), axis, dtype, None, *args, **kwargs), out, f"numpy.{name}")

    return of_numbers


implements(np.nansum)(_of_numbers(sum, "nansum", 0))
implements(np.nanprod)(_of_numbers(prod, "nanprod", 1))
implements(np.nancumsum)(_of_numbers(cumsum, "nancumsum", 0))
implements(np.nancumprod)(_of_numbers(cumprod, "nancumprod", 1))


def numbers(x: Tensor, where: Any) -> Tensor:
    """A mask of the elements that are numbers, of those that ``where=`` leaves."""
    found = ~finite.isnan(x)
    return found if where is True else found & mask_within(where, x)


def _inexact(a: Any, dtype: Any) -> Tensor:
    """A value in the dtype in which its mean or variance is taken. Raises: TypeError for floats in a dtype of integers."""
    x = tensor_of(a)
    if dtype is not None and x.dtype.kind in "fc" and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")
    return floating(x) if dtype is None else cast(x, dtype)


@implements(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    """The mean that leaves NaN out."""
    x = _inexact(a, dtype)
    if where is True and axis != () and x.dtype.kind in "fV":
        found = reduce.nanmean(x, _dims(axis, x), bool(keepdims))
    else:
        found = mean(x, axis, x.dtype, None, keepdims, where=numbers(x, where))
    return written(found, out, "numpy.nanmean")


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = None, correction: Any = None,
) -> Tensor:  # fmt: skip
    """The variance that leaves NaN out; NaN where no more numbers are left than ``ddof``."""
    if tensor_of(a).dtype.kind in "biu":
        return var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    x = _inexact(a, dtype)
    if mean is not None and np.broadcast_shapes(np.shape(mean), x.shape) != tuple(x.shape):
        raise ValueError(f"mean= must broadcast to the shape {tuple(x.shape)} of the operand, got one of shape {np.shape(mean)}")
    chosen = numbers(x, where)
    found = _spread(x, axis, None, ddof, keepdims, chosen, mean, correction, root=False)
    few = sum(chosen, axis, keepdims=keepdims) <= (ddof if correction is None else correction)
    return written(select.where(few, math.nan, found), out, "numpy.nanvar")


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = None, correction: Any = None,
) -> Tensor:  # fmt: skip
    """The standard deviation that leaves NaN out."""
    found = nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return written(elementwise.sqrt(found), out, "numpy.nanstd")


def _nan_extremum(found: Callable[..., Tensor], name: str, instead: float) -> Callable[..., Tensor]:
    def extremum(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Tensor:
        x = tensor_of(a)
        if x.dtype.kind not in "fc":
            return found(x, axis, out, keepdims, initial, where)
        none = all(finite.isnan(x), axis, keepdims=keepdims)
        unknown = initial is not None and initial != initial
        result = found(_without_nan(x, instead), axis, None, keepdims, instead if unknown else initial, where)
        return written(select.where(none, math.nan, result) if unknown or initial is None else result, out, f"numpy.{name}")

    return extremum


implements(np.nanmax)(_nan_extremum(max, "nanmax", -math.inf))
implements(np.nanmin)(_nan_extremum(min, "nanmin", math.inf))


def _place_of(operation: Callable[..., Any], name: str, instead: float | None = None) -> Callable[..., Tensor]:
    def place(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
        x = tensor_of(a)
        if x.is_complex():  # of which only NumPy has an order
            return written(constant(getattr(np, name)(value_of(x), axis, keepdims=keepdims), x), out, f"numpy.{name}")
        if instead is not None:
            if x.dtype.kind == "f" and bool(all(finite.isnan(x), axis).any()):
                raise ValueError("All-NaN slice encountered")
            x = _without_nan(x, instead)
        if x.dtype == np.bool_:
            x = x.to(dtypes.uint8)
        along = None if axis is None or (x.ndim == 0 and axis in (0, -1)) else axis_of(axis, x.ndim)
        if not (x.numel() if along is None else x.shape[along]):
            raise ValueError(f"attempt to get {name} of an empty sequence")
        if axis is None and keepdims:
            return written(operation(x.detach()).reshape((1,) * x.ndim), out, f"numpy.{name}")
        return written(operation(x.detach(), along, bool(keepdims)), out, f"numpy.{name}")

    return place


implements(np.argmax, exact=True)(_place_of(minmax.argmax, "argmax"))
implements(np.argmin, exact=True)(_place_of(minmax.argmin, "argmin"))
implements(np.nanargmax, exact=True)(_place_of(minmax.argmax, "nanargmax", -math.inf))
implements(np.nanargmin, exact=True)(_place_of(minmax.argmin, "nanargmin", math.inf))
