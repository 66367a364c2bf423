"""Sets, counts and histograms, with NumPy's arguments: the values choose, and are counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.indexing import along_axis
from gradlib.numpy.joining import concatenate
from gradlib.numpy.operands import constant, first_tensor, flat, promoted, tensor_of, the_tensor, value_of
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import sort as sorts


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
    if x.is_complex():  # which torch's function refuses
        return constant(np.isin(value_of(x), value_of(others), invert=invert), x)
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


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Tensor, Tensor]:
    """(counts in bins, edges): integers; sums of weights, which carry the derivative, where there are any."""
    like = the_tensor((a, bins, range, weights))
    _check_weights(a, weights)
    span = None if range is None else tuple(value_of(range))
    counts, edges = np.histogram(value_of(a), value_of(bins), span, density=density if weights is None else None)
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
