"""Sorting, sets, quantiles and counts, with NumPy's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.indexing import along_axis
from gradlib.numpy.operands import (
    axes_of,
    axis_of,
    cast,
    constant,
    first_tensor,
    flat,
    floating,
    promoted,
    reduced_axes,
    tensor_of,
    the_tensor,
    value_of,
    vector,
    written,
)
from gradlib.numpy.reductions import mean as mean_of
from gradlib.numpy.registry import implements, numpy_function
from gradlib.numpy.shaping import concatenate
from gradlib.ops import elementwise, finite, gather, select, sort as sorts


def _ordered(x: Tensor, along: int) -> Tensor:
    """The places in ascending order, equal ones as they stand."""
    key = x.detach()
    if key.dtype.kind == "c":
        return constant(np.argsort(value_of(key), along, "stable"), x)
    return sorts.argsort(key, along, False, stable=True)


def _sorted(x: Tensor, along: int) -> Tensor:
    if x.dtype.kind != "c":
        return sorts.sort(x, stable=True, dim=along)[0] if x.ndim else x.clone()
    return gather.take_along_dim(x, _ordered(x, along), along)


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """Sort in ascending order along an axis."""
    x = tensor_of(a)
    return _sorted(x.reshape((-1,)), 0) if axis is None else _sorted(x, axis_of(axis, x.ndim))


@implements(np.argsort, exact=True)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    """The places in ascending order along an axis."""
    return _ordered(*flat(tensor_of(a), axis))


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """Put the k-th smallest in its place, smaller ones before it and larger ones behind: here wholly sorted."""
    x = tensor_of(a)
    _check_kth(kth, x.numel() if axis is None else x.shape[axis_of(axis, x.ndim)], kind)
    return sort(x, axis)


def _check_kth(kth: Any, size: int, kind: str) -> None:
    """Refuse places to partition by that are none. Raises: ValueError for them, and for a kind that NumPy has not."""
    if kind != "introselect":
        raise ValueError(f"partition takes kind='introselect', got {kind!r}")
    for each in np.atleast_1d(np.asarray(value_of(kth))).tolist():
        if size and not -size <= each < size:
            raise ValueError(f"kth(={each}) out of bounds ({size})")


@implements(np.argpartition, exact=True)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tensor:
    """The places of ``partition``."""
    x, along = flat(tensor_of(a), axis)
    _check_kth(kth, x.shape[along], kind)
    return _ordered(x, along)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Tensor:
    """Sort in ascending order, as complex numbers."""
    x = tensor_of(a)
    small = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    return _sorted(x if x.dtype.kind == "c" else x.to(np.complex64 if small else np.complex128), axis_of(-1, x.ndim))


@implements(np.lexsort, exact=True)
def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """The places in the order of several keys, the last one first."""
    like = the_tensor(keys)
    return constant(np.lexsort([value_of(k) for k in keys] if not isinstance(keys, Tensor) else value_of(keys), axis), like)


@implements(np.searchsorted, exact=True)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """The indices at which values would go into a sorted vector."""
    like = first_tensor((a, v))
    x, values = vector(tensor_of(a, like), "numpy.searchsorted").detach(), tensor_of(v, like).detach()
    if sorter is not None:
        x = x[value_of(sorter)]
    x, values = promoted(x, values)
    return sorts.searchsorted(x, values, right=side == "right")


@implements(np.digitize, exact=True)
def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The index of the bin in which each value lies."""
    like = first_tensor((x, bins))
    edges = vector(tensor_of(bins, like), "numpy.digitize, as bins,").detach()
    if tensor_of(x, like).dtype.kind == "c":
        raise TypeError("x may not be complex")
    if edges.shape[0] > 1 and bool((edges[1:] < edges[:-1]).any()):
        return edges.shape[0] - searchsorted(edges.flip(0), x, "left" if right else "right")
    return searchsorted(edges, x, "left" if right else "right")


# ---- medians and quantiles -----------------------------------------------------------------------------------------------------


def _together(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """The axes that are reduced as one last axis, and which they were."""
    axes = reduced_axes(axis, x.ndim)
    left = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)
    return x.permute((*left, *axes)).reshape((*[x.shape[i] for i in left], count)), axes


def _kept(result: Tensor, axes: tuple[int, ...], ndim: int, keepdims: Any, leading: int = 0) -> Tensor:
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
        return written(_kept(lines.sum(-1) * math.nan, axes, x.ndim, keepdims), out, "numpy.median")
    ordered = _sorted(lines, lines.ndim - 1)
    low, high = ordered[..., (count - 1) // 2], ordered[..., count // 2]
    found = low if count % 2 else (low + high) / 2
    if bool(finite.isnan(lines.detach()).any()):
        found = select.where(finite.isnan(lines).any(-1), float("nan"), found)
    return written(_kept(found, axes, x.ndim, keepdims), out, "numpy.median")


_CHOOSING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""The methods whose quantiles are among the values themselves, and have their dtype."""


def _quantile(lines: Tensor, q: np.ndarray, method: str) -> Tensor:
    """Quantiles along the last axis, a new first axis for each of q."""
    count = lines.shape[-1]
    ordered = _sorted(lines, lines.ndim - 1)
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
    if keepdims:
        found = _kept(found, axes, x.ndim, True, leading=1)
    return written(found.reshape((*chosen.shape, *found.shape[1:])), out, name)


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: Any = None, interpolation: Any = None,
) -> Tensor:  # fmt: skip
    """The values below which these shares of all lie."""
    _no_weights(weights, "numpy.quantile")
    return _quantiles(a, q, axis, out, method, keepdims, "numpy.quantile")


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: Any = None, interpolation: Any = None,
) -> Tensor:  # fmt: skip
    """The values below which so many percent of all lie."""
    _no_weights(weights, "numpy.percentile")
    return _quantiles(a, _shares(q), axis, out, method, keepdims, "numpy.percentile")


def _shares(q: Any) -> Any:
    """Percents as shares; one number stays one, since it says nothing of the dtype."""
    return q / 100.0 if type(q) in (int, float) else np.asarray(value_of(q), dtype=np.float64) / 100.0


def _no_weights(weights: Any, name: str) -> None:
    if weights is not None:
        raise TypeError(f"{name} does not take weights= for a Tensor; numpy.average does")


def _without(reduced: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of vectors, on those elements of each line that are numbers."""

    def each(a: Any, axis: Any, keepdims: Any, leading: tuple[int, ...]) -> Tensor:
        x = floating(a)
        lines, axes = _together(x, axis)
        rest = tuple(lines.shape[:-1])
        if not lines.numel():
            return _kept(x.new_full((*leading, *rest), math.nan), axes, x.ndim, keepdims, len(leading))
        rows = lines.reshape((-1, lines.shape[-1]))
        numbers = ~np.isnan(value_of(rows))
        from gradlib.ops.join import stack

        found = [
            reduced(rows[i][np.flatnonzero(numbers[i])]) if numbers[i].any() else rows[i][:1].broadcast_to((*leading, 1))[..., 0]
            for i in range(rows.shape[0])
        ]
        result = stack(found, -1).reshape((*leading, *rest))
        return _kept(result, axes, x.ndim, keepdims, len(leading))

    return each


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """The median of what is a number."""
    if tensor_of(a).dtype.kind in "biu" and tensor_of(a).numel():
        return median(a, axis, out, keepdims=keepdims)
    return written(_without(median)(a, axis, keepdims, ()), out, "numpy.nanmedian")


def _nanquantiles(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool, name: str) -> Tensor:
    if tensor_of(a).dtype.kind in "biu" and tensor_of(a).numel():
        return _quantiles(a, q, axis, out, method, keepdims, name)
    found = _without(lambda row: _quantiles(row, q, None, None, method, False, name))(a, axis, keepdims, np.shape(value_of(q)))
    return written(found, out, name)


@implements(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: Any = None, interpolation: Any = None,
) -> Tensor:  # fmt: skip
    """The quantiles of what is a number."""
    _no_weights(weights, "numpy.nanquantile")
    return _nanquantiles(a, q, axis, out, method, keepdims, "numpy.nanquantile")


@implements(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: Any = None, interpolation: Any = None,
) -> Tensor:  # fmt: skip
    """The percentiles of what is a number."""
    _no_weights(weights, "numpy.nanpercentile")
    return _nanquantiles(a, _shares(q), axis, out, method, keepdims, "numpy.nanpercentile")


# ---- averages and covariances --------------------------------------------------------------------------------------------------


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean, by weights."""
    like = first_tensor((a, weights))
    if weights is None:
        x = floating(a)
        found = mean_of(x, axis, keepdims=keepdims)
        return (found, (found * 0).detach() + x.numel() / max(found.numel(), 1)) if returned else found
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
    from gradlib.numpy.reductions import sum as sum_of

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


# ---- sets and counts: the values choose, and are counted ------------------------------------------------------------------------


class _All(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class _Counts(NamedTuple):
    values: Tensor
    counts: Tensor


class _Inverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


@implements(np.unique)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The different values in ascending order, each taken from its first place, to which its gradient goes."""
    x = tensor_of(ar)
    _, first, inverse, counts = np.unique(value_of(x), True, True, True, axis, equal_nan=equal_nan)
    along = flat(x, axis)
    values = along[0][along_axis(along[1], first)]
    asked = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    more = [constant(each, x) for wanted, each in asked if wanted]
    return (values, *more) if more else values


@implements(numpy_function("unique_values"))
def unique_values(x: Any) -> Tensor:
    """The different values."""
    return unique(x, equal_nan=False)


@implements(numpy_function("unique_all"))
def unique_all(x: Any) -> _All:
    """The different values, their first places, where each element is among them, and how often."""
    return _All(*unique(x, True, True, True, equal_nan=False))


@implements(numpy_function("unique_counts"))
def unique_counts(x: Any) -> _Counts:
    """The different values, and how often each occurs."""
    return _Counts(*unique(x, return_counts=True, equal_nan=False))


@implements(numpy_function("unique_inverse"))
def unique_inverse(x: Any) -> _Inverse:
    """The different values, and where each element is among them."""
    return _Inverse(*unique(x, return_inverse=True, equal_nan=False))


def _firsts(x: Tensor, assume_unique: bool = False) -> Tensor:
    """The different elements in ascending order, each taken from its first place; all of them where they are known to be different."""
    line = x.reshape((-1,))
    return line if assume_unique else line[np.unique(value_of(line), return_index=True)[1]]


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Tensor:
    """The values in one or the other."""
    return _firsts(concatenate(promoted(ar1, ar2), None))


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """The values in the first only."""
    x = _firsts(tensor_of(ar1, first_tensor(ar2)), assume_unique)
    return x[np.flatnonzero(~np.isin(value_of(x), value_of(tensor_of(ar2))))]


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """The values in one of both only."""
    both = concatenate([_firsts(each, assume_unique) for each in promoted(ar1, ar2)])
    order = np.argsort(value_of(both), kind="stable")
    ordered = value_of(both)[order]
    new = np.concatenate(([True], ordered[1:] != ordered[:-1], [True])) if order.size else np.zeros(1, bool)
    return both[order[new[1:] & new[:-1]]]


@implements(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The values in both."""
    x, y = promoted(ar1, ar2)
    _, here, there = np.intersect1d(value_of(x), value_of(y), assume_unique, True)
    found = x.reshape((-1,))[here]
    return (found, constant(here, x), constant(there, x)) if return_indices else found


@implements(np.isin, exact=True)
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Tensor:
    """Whether each element is among others."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    x, others = promoted(element, test_elements)
    return sorts.isin(x.detach(), others.detach(), invert=invert)


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of each integer, or the sum of its weights, which carry the derivative."""
    like = the_tensor((x, weights))
    places = np.asarray(value_of(x))
    if not np.can_cast(places.dtype, np.int64):
        raise TypeError(f"Cannot cast array data from {places.dtype!r} to dtype('int64') according to the rule 'safe'")
    count = max(int(places.max()) + 1 if places.size else 0, minlength)
    if weights is None:
        return constant(np.bincount(places, minlength=minlength), like)
    w = tensor_of(weights, like, np.float64)
    return w.new_zeros((count,)).index_add(0, constant(places.astype(np.int64), like), w)


def _check_weights(a: Any, weights: Any) -> None:
    if weights is not None and np.shape(value_of(weights)) != np.shape(value_of(a)):
        raise ValueError("weights should have the same shape as a.")


def _histogram(a: Any, bins: Any, range: Any, weights: Any, density: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.histogram(value_of(a), value_of(bins), None if range is None else tuple(value_of(range)), density=density)


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Tensor, Tensor]:
    """(counts in bins, edges): integers; sums of weights, which carry the derivative, where there are any."""
    like = the_tensor((a, bins, range, weights))
    _check_weights(a, weights)
    counts, edges = _histogram(a, bins, range, None, density if weights is None else None)
    if weights is None:
        return constant(counts, like), constant(edges, like)
    values = np.asarray(value_of(a)).ravel()
    w = tensor_of(weights, like).reshape((-1,))
    places = np.searchsorted(edges, values, "right") - 1
    places[values == edges[-1]] = len(edges) - 2
    inside = np.flatnonzero((places >= 0) & (places < len(edges) - 1))
    found = w.new_zeros((len(edges) - 1,)).index_add(0, constant(places[inside].astype(np.int64), like), w[inside])
    if density:
        found = found / constant(np.diff(edges), like) / found.sum()
    return found, constant(edges, like)


@implements(np.histogram_bin_edges, exact=True)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """The edges of a histogram's bins, which do not follow the values by a derivative."""
    like = the_tensor((a, bins, range, weights))
    _check_weights(a, weights)
    return constant(np.histogram_bin_edges(value_of(a), value_of(bins), range, None), like)


@implements(np.histogram2d, exact=True)
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Tensor, ...]:
    """(counts, edges of x, edges of y)."""
    like = first_tensor((x, y, bins))
    _refuse_weights(weights, "numpy.histogram2d")
    return tuple(constant(each, like) for each in np.histogram2d(value_of(x), value_of(y), value_of(bins), range, density))  # type: ignore[arg-type]


@implements(np.histogramdd, exact=True)
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Tensor, Any]:
    """(counts, edges along each axis)."""
    like = the_tensor((sample, bins))
    _refuse_weights(weights, "numpy.histogramdd")
    counts, edges = np.histogramdd(value_of(sample), value_of(bins), range, density)
    return constant(counts, like), tuple(constant(each, like) for each in edges)


def _refuse_weights(weights: Any, name: str) -> None:
    if first_tensor((weights,)) is not None:
        raise TypeError(f"{name} does not take weights= that are a Tensor; numpy.histogram and numpy.bincount do")
