"""Medians, quantiles, averages and covariances, with NumPy's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.joining import concatenate
from gradlib.numpy.operands import axes_of, cast, constant, first_tensor, floating, promoted, reduced_axes, tensor_of, value_of, written
from gradlib.numpy.reductions import mean as mean_of, sum as sum_of
from gradlib.numpy.registry import implements
from gradlib.numpy.sorting import sorted_along
from gradlib.ops import elementwise, finite, join, select

# ---- medians and quantiles -----------------------------------------------------------------------------------------------------


def _together(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """The axes that are reduced as one last axis, and which they were."""
    axes = reduced_axes(axis, x.ndim)
    left = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)
    return x.permute((*left, *axes)).reshape((*[x.shape[i] for i in left], count)), axes


def _kept(result: Tensor, axes: tuple[int, ...], keepdims: Any, leading: int = 0) -> Tensor:
    """Insert axes of size one in the place of those that were reduced."""
    if keepdims:
        for each in sorted(axes):
            result = result.unsqueeze(each + leading)
    return result


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """The middle value; the mean of the two middle ones where their number is even."""
    x = floating(a)
    lines, axes = _together(x, axis)
    count = lines.shape[-1]
    if not count:
        return written(_kept(lines.sum(-1) * math.nan, axes, keepdims), out, "numpy.median")
    ordered = sorted_along(lines, lines.ndim - 1)
    low, high = ordered[..., (count - 1) // 2], ordered[..., count // 2]
    found = low if count % 2 else (low + high) / 2
    if bool(finite.isnan(lines.detach()).any()):
        found = select.where(finite.isnan(lines).any(-1), float("nan"), found)
    return written(_kept(found, axes, keepdims), out, "numpy.median")


_CHOOSING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""The methods whose quantiles are among the values themselves, and have their dtype."""


def _quantile(lines: Tensor, q: np.ndarray, method: str) -> Tensor:
    """Quantiles along the last axis, a new first axis for each of q."""
    count = lines.shape[-1]
    ordered = sorted_along(lines, lines.ndim - 1)
    # The places and shares are NumPy's own, of the numbers 0, 1, 2, ...: between two neighbours the quantile is linear.
    places = np.quantile(np.arange(count, dtype=np.float64), q, method=method) if count > 1 else np.zeros(q.shape)  # type: ignore[call-overload]
    low = np.clip(np.floor(places), 0, count - 1).astype(np.intp)
    high = np.minimum(low + 1, count - 1)
    if method in _CHOOSING:
        return ordered[..., low].movedim(-1, 0)
    share = constant((places - low).astype(lines.dtype if lines.dtype.kind == "f" else np.float64), lines)
    below, above = ordered[..., low], ordered[..., high]
    found = select.where(share == 0, below, below + (above - below) * share)
    if bool(finite.isnan(lines.detach()).any()):
        found = select.where(finite.isnan(lines).any(-1, True), float("nan"), found)
    return found.movedim(-1, 0)


def _quantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool, name: str) -> Tensor:
    chosen = np.asarray(value_of(q), dtype=np.float64)
    if (chosen < 0).any() or (chosen > 1).any():
        raise ValueError("Quantiles must be in the range [0, 1]")
    x = tensor_of(a) if method in _CHOOSING else floating(a)
    if x.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    lines, axes = _together(x, axis)
    if type(q) not in (int, float) and method not in _CHOOSING:
        lines = cast(lines, np.result_type(x.dtype, np.float64))
    found = _quantile(lines, chosen.reshape(-1), method)
    found = _kept(found, axes, keepdims, leading=1)
    return written(found.reshape((*chosen.shape, *found.shape[1:])), out, name)


def _without(reduced: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of vectors, on those elements of each line that are numbers."""

    def each(a: Any, axis: Any, keepdims: Any, leading: tuple[int, ...]) -> Tensor:
        x = floating(a)
        lines, axes = _together(x, axis)
        rest = tuple(lines.shape[:-1])
        if not lines.numel():
            return _kept(x.new_full((*leading, *rest), math.nan), axes, keepdims, len(leading))
        rows = lines.reshape((-1, lines.shape[-1]))
        numbers = ~np.isnan(value_of(rows))
        found = [
            reduced(rows[i][np.flatnonzero(numbers[i])]) if numbers[i].any() else rows[i][:1].broadcast_to((*leading, 1))[..., 0]
            for i in range(rows.shape[0])
        ]
        return _kept(join.stack(found, -1).reshape((*leading, *rest)), axes, keepdims, len(leading))

    return each


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """The median that leaves NaN out."""
    if tensor_of(a).dtype.kind in "biu" and tensor_of(a).numel():
        return median(a, axis, out, keepdims=keepdims)
    return written(_without(median)(a, axis, keepdims, ()), out, "numpy.nanmedian")


def _nanquantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool, name: str) -> Tensor:
    if tensor_of(a).dtype.kind in "biu" and tensor_of(a).numel():
        return _quantiles(a, q, axis, out, method, keepdims, name)
    found = _without(lambda row: _quantiles(row, q, None, None, method, False, name))(a, axis, keepdims, np.shape(value_of(q)))
    return written(found, out, name)


def _percents(q: Any) -> Any:
    """Percents as shares; one number stays one, since it says nothing of the dtype."""
    return q / 100.0 if type(q) in (int, float) else np.asarray(value_of(q), dtype=np.float64) / 100.0


def _of_shares(quantiles: Callable[..., Tensor], name: str, shares: Callable[[Any], Any] = lambda q: q) -> Callable[..., Tensor]:
    """The values below which parts of all lie, named as ``shares`` reads them."""

    def function(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
        weights: Any = None, interpolation: Any = None,
    ) -> Tensor:  # fmt: skip
        if weights is not None:
            raise TypeError(f"numpy.{name} does not take weights= for a Tensor; numpy.average does")
        return quantiles(a, shares(q), axis, out, method, keepdims, f"numpy.{name}")

    return function


implements(np.quantile)(_of_shares(_quantiles, "quantile"))
implements(np.percentile)(_of_shares(_quantiles, "percentile", _percents))
implements(np.nanquantile)(_of_shares(_nanquantiles, "nanquantile"))
implements(np.nanpercentile)(_of_shares(_nanquantiles, "nanpercentile", _percents))


# ---- averages and covariances --------------------------------------------------------------------------------------------------


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean, by weights."""
    like = first_tensor((a, weights))
    if weights is None:
        x = floating(a)
        found = mean_of(x, axis, keepdims=keepdims)
        return (found, found.new_full(tuple(found.shape), x.numel() / max(found.numel(), 1))) if returned else found
    x, w = promoted(a, weights, like=like, floating=True)
    if tuple(w.shape) != tuple(x.shape):
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = axes_of(axis, x.ndim)
        if tuple(w.shape) != tuple(x.shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = np.argsort(axes)
        w = w.permute(tuple(int(i) for i in order)).reshape(tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))
        w = w.broadcast_to(tuple(x.shape))
    total = sum_of(w, axis, keepdims=keepdims)
    if bool((total.detach() == 0).any()):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    found = sum_of(x * w, axis, keepdims=keepdims) / total
    return (found, total.broadcast_to(tuple(found.shape))) if returned else found


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None, aweights: Any = None, *,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix of variables in rows (or columns, unless ``rowvar``)."""
    given = [tensor_of(each, first_tensor((m, y))) for each in (m, y) if each is not None]
    if any(each.ndim > 2 for each in given):
        raise ValueError(f"{'m' if given[0].ndim > 2 else 'y'} has more than 2 dimensions")
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    chosen = np.result_type(*[each.dtype for each in given], np.float64) if dtype is None else dtype
    parts = promoted(*given, dtype=chosen)
    rows = [part.reshape((1, -1)) if part.ndim < 2 else part if rowvar else part.transpose(0, 1) for part in parts]
    x = concatenate(rows, 0) if y is not None else rows[0]
    less = (0 if bias else 1) if ddof is None else ddof
    weights: Any = None
    if fweights is not None:
        if tensor_of(fweights).dtype.kind not in "biu":
            raise TypeError("fweights must be integer")
        weights = _sample_weights(fweights, x, "fweights")
    if aweights is not None:
        shares = _sample_weights(aweights, x, "aweights")
        weights = shares if weights is None else weights * shares
    if weights is None:
        total: Any = x.shape[1]
        center = x.mean(1, True)
    else:
        total = weights.sum()
        center = (x * weights).sum(1, True) / total
    if less == 0:
        divisor = total
    elif aweights is None:
        divisor = total - less
    else:
        divisor = total - less * (weights * shares).sum() / total
    if value_of(divisor) <= 0:  # NumPy divides by no negative number of degrees of freedom
        divisor = 0.0
    away = x - center
    scaled = away if weights is None else away * weights
    other = scaled.conj() if scaled.dtype.kind == "c" else scaled
    found = away @ other.transpose(0, 1) / divisor
    return found.squeeze()


def _sample_weights(value: Any, x: Tensor, name: str) -> Tensor:
    """Weights of the samples of x in its floats. Raises: RuntimeError where they are not one for each, ValueError for negative ones."""
    given = tensor_of(value, x)
    if given.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if tuple(given.shape) != (x.shape[1],):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if given.dtype.kind == "c" or bool((given.detach() < 0).any()):
        raise ValueError(f"{name} cannot be negative, nor complex")
    return cast(given, x.dtype if x.dtype.kind == "f" else np.float64)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """The correlation coefficients of variables in rows (or columns, unless ``rowvar``)."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = elementwise.sqrt(c.diagonal().real if c.dtype.kind == "c" else c.diagonal())
    found = c / spread.unsqueeze(1) / spread.unsqueeze(0)
    return found if found.dtype.kind == "c" else select.clamp(found, -1.0, 1.0)
