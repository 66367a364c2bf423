"""Sorting along one dimension, what can be read off a sorted line (top k, k-th, median), sets of values,
and places in sorted numbers.

NaN counts as larger than every number. Equal elements keep their order, asked or not.
"""

from __future__ import annotations

import operator
from collections import namedtuple
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, Namespace, has_nan, is_array
from gradlib.backend.copying import row_major
from gradlib.backend.flat_index import take_along_axis
from gradlib.backend.searching import among, distinct as distinct_on_device, places
from gradlib.backend.sorting import sorted_lines
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.dims import wrap_dim
from gradlib.ops.minmax import picked, picked_on_device, picked_tangent, share_of_all, shares_of_all_on_device, tangent_of_all
from gradlib.ops.take_along import put_along, take_along

__all__ = ["argsort", "bucketize", "isin", "kthvalue", "median", "searchsorted", "sort", "topk", "unique"]

Sort = namedtuple("Sort", ["values", "indices"])
TopK = namedtuple("TopK", ["values", "indices"])
KthValue = namedtuple("KthValue", ["values", "indices"])
Median = namedtuple("Median", ["values", "indices"])


def _ordered(name: str, input: Array, bool_too: bool = True) -> None:
    """Refuse dtypes that the operation does not order."""
    if input.dtype.kind == "c" or (input.dtype.kind == "b" and not bool_too):
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}; sort by a real number of it, such as .abs() or .int()")


def _comparable(input: Array) -> Array:
    """The same values in a dtype that sorts NaN last; bfloat16 does not."""
    return input.astype(dtypes.float32) if input.dtype.kind == "V" else input


def _order(xp: Namespace, input: Array, dim: int, descending: bool) -> Array:
    """The indices that sort along ``dim``; equal elements keep their order, also descending."""
    if input.dtype.kind == "V":
        input = _comparable(input)
    if not descending:
        return input.argsort(axis=dim, kind="stable")
    backwards = (slice(None),) * (dim % input.ndim) + (slice(None, None, -1),)
    return (input.shape[dim] - 1 - input[backwards].argsort(axis=dim, kind="stable"))[backwards]


def _unsorted(g: Any, indices: Any, dim: int, input_shape: tuple[int, ...]) -> Any:
    """Each gradient back to the place its element came from."""
    return put_along(g[0], indices, dim, input_shape)


# ---- whole lines --------------------------------------------------------------------------------------------------------------


@op(
    "other", kernels={"out": sorted_lines}, outputs=("values", "indices"), differentiable=(0,), input=_unsorted,
    jvp=lambda t_input, indices, dim: (take_along(t_input, indices, dim), None),
)  # fmt: skip
def sort_op(xp: Namespace, input: Any, dim: int = -1, descending: bool = False) -> Any:
    """``sort`` as a plain pair."""
    _ordered("sort", input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), dtypes.int64)
    indices = _order(xp, input, dim, descending)
    return take_along_axis(xp, input, indices, dim), xp.ascontiguousarray(indices)


@composite
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False, out: Any = None) -> Any:
    """The elements in ascending order along ``dim``, and where each came from.

    Args:
        input: any shape, real dtype; NaN comes last (first when descending).
        dim: the dimension along which elements are ordered.
        descending: largest first.
        stable: equal elements keep their order; they do in any case.
    Returns: the named tuple (values, indices), indices of dtype int64.
    Raises: NotImplementedError for complex numbers.
    Source: torch.sort.
    Example:
        >>> values, indices = gradlib.sort(gradlib.tensor([3, 1, 2]))
        >>> values, indices
        (tensor([1, 2, 3]), tensor([1, 2, 0]))
    """
    return Sort(*sort_op(input, dim, descending, out=out))


def _order_on_device(input: Any, dim: int, descending: bool, stable: bool) -> Any:
    made = sorted_lines(input, dim, descending)
    return None if made is None else made[1]


@op("none", keyword_only=("stable",), also=("input",), kernels={"out": _order_on_device})
def argsort(xp: Namespace, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices of ``sort``.

    Args:
        input: any shape, real dtype.
        dim, descending, stable: as in ``sort``.
    Source: torch.argsort.
    Example:
        >>> gradlib.argsort(gradlib.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
    _ordered("argsort", input)
    dim = wrap_dim(dim, input.ndim)
    return _order(xp, input, dim, descending) if input.ndim else xp.zeros((), dtypes.int64)


# ---- parts of sorted lines ----------------------------------------------------------------------------------------------------


def _topk_on_device(input: Any, k: int, dim: int, largest: bool) -> Any:
    return None if input.dtype.kind == "b" else sorted_lines(input, dim, largest, 0, k)


@op(
    "other", kernels={"out": _topk_on_device}, outputs=("values", "indices"), differentiable=(0,), input=_unsorted,
    jvp=lambda t_input, indices, dim: (take_along(t_input, indices, dim), None),
)  # fmt: skip
def topk_op(xp: Namespace, input: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
    """``topk`` as a plain pair."""
    _ordered("topk", input, bool_too=False)
    dim = wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(f"topk: selected index k out of range: k = {k} of {list(input.shape)} along dim {dim}")
    if not input.ndim:
        return input.copy(), xp.zeros((), dtypes.int64)
    last = dim == input.ndim - 1
    lines = input if last else xp.moveaxis(input, dim, -1)
    size = lines.shape[-1]
    indices = _few_best(lines, k, largest) if xp is np and 0 < k <= _FEW and lines.size >= _LARGE else None
    if indices is not None:
        pass
    elif xp is np and 0 < k < size // 4:  # CuPy's argpartition sorts everything, and makes the host wait
        chosen = xp.argpartition(_comparable(lines), size - k if largest else k - 1, axis=-1)
        chosen = xp.sort(chosen[..., size - k :] if largest else chosen[..., :k], axis=-1)
        order = _order(xp, take_along_axis(xp, lines, chosen, -1), -1, largest)
        indices = take_along_axis(xp, chosen, order, -1)
    else:
        indices = _order(xp, lines, -1, largest)[..., :k]
    values = take_along_axis(xp, lines, indices, -1)
    if last:
        return row_major(values), xp.ascontiguousarray(indices)
    return row_major(xp.moveaxis(values, -1, dim)), row_major(xp.moveaxis(indices, -1, dim))


@composite
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """The ``k`` largest (or smallest) elements along ``dim``, best first, and where they are.

    Args:
        input: any shape, integer or real float dtype; NaN counts as largest.
        k: from 0 to the size of ``dim``.
        largest: False for the smallest.
        sorted: whether the order matters to the caller; the result is sorted in any case.
    Returns: the named tuple (values, indices), indices of dtype int64.
    Raises: RuntimeError for a k out of range, NotImplementedError for bools and complex numbers.
    Source: torch.topk.
    Example:
        >>> gradlib.topk(gradlib.tensor([3, 1, 2]), 2).values
        tensor([3, 2])
    """
    return TopK(*topk_op(input, k, dim, largest, out=out))


def _few_best(lines: Array, k: int, largest: bool) -> Array | None:
    """The places of the k best of each line, found one after another; None where one of them is infinite or NaN."""
    if lines.dtype.char not in "fd" or lines.shape[-1] < 2 * k:
        return None
    rest = np.array(lines, order="C").reshape(-1, lines.shape[-1])
    rows, made = np.arange(len(rest)), np.empty((len(rest), k), np.int64)
    for place in range(k):
        made[:, place] = at = rest.argmax(1) if largest else rest.argmin(1)
        if not np.isfinite(rest[rows, at]).all():
            return None
        rest[rows, at] = -np.inf if largest else np.inf
    return made.reshape(*lines.shape[:-1], k)


_FEW = 4


def _kth(xp: Namespace, input: Array, place: Any, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The element at ``place`` of each sorted line (a number, or for each line one), with its index."""
    single = isinstance(place, int)
    indices = _kth_alone(input, place, dim) if single and xp is np and input.size >= _LARGE else None
    if indices is None:
        order = _order(xp, input, dim, False)
        indices = order[(slice(None),) * dim + (slice(place, place + 1),)].copy() if single else take_along_axis(xp, order, place, dim)
    values = take_along_axis(xp, input, indices, dim)
    found = (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
    return row_major(found[0]), row_major(found[1])


def _kth_alone(input: Array, place: int, dim: int) -> Array | None:
    """The index of the element at a place of each sorted line, without sorting; None where it is NaN or has an equal."""
    if input.dtype.char not in "fd":
        return None
    part = (slice(None),) * dim + (slice(place, place + 1),)
    found = np.partition(input, place, axis=dim)[part]
    same = input == found
    if np.count_nonzero(same) != found.size or has_nan(found):
        return None
    return same.argmax(axis=dim, keepdims=True)


_LARGE = 1000


def _along_one(name: str, input: Array, dim: int) -> int:
    _ordered(name, input, bool_too=False)
    dim = wrap_dim(dim, input.ndim)
    if input.ndim and not input.shape[dim]:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size, got shape {list(input.shape)}.")
    return dim


def _kth_on_device(input: Any, k: int, dim: int, keepdim: bool) -> Any:
    return None if input.dtype.kind == "b" or type(k) is not int else sorted_lines(input, dim, False, k - 1, 1, keepdim=keepdim)


@op(
    "other", outputs=("values", "indices"), differentiable=(0,), input=picked, jvp=picked_tangent,
    kernels={"out": _kth_on_device, "input": picked_on_device},
)  # fmt: skip
def kthvalue_op(xp: Namespace, input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """``kthvalue`` as a plain pair."""
    dim, k = _along_one("kthvalue", input, dim), operator.index(k)
    if not 1 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k = {k} out of range for dimension {dim} of shape {list(input.shape)}")
    if not input.ndim:
        return input.copy(), xp.zeros((), dtypes.int64)
    return _kth(xp, input, k - 1, dim, keepdim)


@composite
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The ``k``-th smallest element along ``dim`` (counted from 1), and where it is.

    Args:
        input: any shape, integer or real float dtype; NaN counts as largest.
        k: which, from 1.
        dim: the dimension that is searched.
        keepdim: leave the dimension with size 1.
    Returns: the named tuple (values, indices), indices of dtype int64.
    Raises: RuntimeError for a k out of range.
    Source: torch.kthvalue.
    Example:
        >>> gradlib.kthvalue(gradlib.tensor([3, 1, 2]), 2).values
        tensor(2)
    """
    return KthValue(*kthvalue_op(input, k, dim, keepdim, out=out))


def _median_on_device(input: Any, dim: int, keepdim: bool) -> Any:
    if input.dtype.kind == "b" or type(dim) is not int or not -input.ndim <= dim < input.ndim:
        return None
    return sorted_lines(input, dim, False, (input.shape[dim] - 1) // 2, 1, keepdim=keepdim, median=True)


@op(
    "other", outputs=("values", "indices"), differentiable=(0,), input=picked, jvp=picked_tangent,
    kernels={"out": _median_on_device, "input": picked_on_device},
)  # fmt: skip
def median_op(xp: Namespace, input: Any, dim: int, keepdim: bool = False) -> Any:
    """``median(input, dim)`` as a plain pair."""
    dim = _along_one("median", input, dim)
    if not input.ndim:
        return input.copy(), xp.zeros((), dtypes.int64)
    middle = (input.shape[dim] - 1) // 2
    if input.dtype.kind in "iu" or (xp is np and input.dtype.char in "fd" and not has_nan(input)):
        return _kth(xp, input, middle, dim, keepdim)
    missing = xp.add.reduce(input != input, axis=dim, keepdims=True)  # NaN sorts last: the first one stands where the numbers end
    if xp is np and not missing.any():
        return _kth(xp, input, middle, dim, keepdim)
    return _kth(xp, input, xp.where(missing > 0, input.shape[dim] - missing, middle), dim, keepdim)


@composite
def median(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The middle element (the lower of two) of all, or along ``dim``; NaN where any element is NaN.

    Args:
        input: any shape, integer or real float dtype.
        dim: the dimension that is searched; all when left out.
        keepdim: leave the dimension with size 1.
    Returns: a 0-d tensor (whose gradient goes in equal parts to all elements of that value), or the named tuple (values, indices).
    Source: torch.median.
    Example:
        >>> gradlib.median(gradlib.tensor([3.0, 1.0, 2.0]))
        tensor(2.)
    """
    if dim is not None:
        return Median(*median_op(input, dim, keepdim, out=out))
    return median_all(input, out=out)


def _median_all_on_device(input: Any, lead: int) -> Any:
    if input.dtype.kind == "b" or not input.size:
        return None
    lines = input.reshape((*input.shape[:lead], -1))
    made = sorted_lines(lines, lead, False, (lines.shape[lead] - 1) // 2, 1, keepdim=False, median=True)
    return None if made is None else made[0]


@op(
    "other", method=False, label="median", input=share_of_all, jvp=tangent_of_all,
    kernels={"out": _median_all_on_device, "input": shares_of_all_on_device},
)  # fmt: skip
def median_all(xp: Namespace, input: Any, lead: int = 0) -> Any:
    """The middle one of all elements, or of all behind the first ``lead`` dimensions; NaN of nothing and beside NaN."""
    _ordered("median", input, bool_too=False)
    kept = input.shape[:lead]
    if not input.size:
        return xp.full(kept, xp.nan, input.dtype)
    lines = input.reshape((*kept, -1))
    place = (lines.shape[-1] - 1) // 2
    if xp is np and input.dtype.kind == "f" and not has_nan(input):
        return np.asarray(np.partition(lines, place)[..., place])
    lines = xp.sort(_comparable(lines))
    middle, last = lines[..., place], lines[..., -1]
    return (middle if input.dtype.kind in "iu" else xp.where(last == last, middle, last)).astype(input.dtype, copy=False)


# ---- sets of values -----------------------------------------------------------------------------------------------------------


@composite
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The distinct elements in ascending order, or with ``dim`` the distinct slices along it; no gradient.

    Args:
        input: any shape, real dtype; every NaN is distinct.
        sorted: whether the order matters to the caller; the result is sorted in any case.
        return_inverse: also give, for each element (or slice), the place of its value in the result.
        return_counts: also give how often each value occurs.
        dim: compare slices along this dimension instead of elements.
    Returns: the values, or a tuple of them with the inverse and the counts (int64) that were asked for, in this order.
    Source: torch.unique.
    Example:
        >>> gradlib.unique(gradlib.tensor([2, 1, 2]))
        tensor([1, 2])
    """
    values, inverse, counts = distinct(input, dim, not (return_inverse or return_counts))
    asked = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return asked[0] if len(asked) == 1 else tuple(asked)


@op(
    "none", also=("input",), outputs=("values", "inverse", "counts"), method=False,
    kernels={"out": lambda input, dim, alone: distinct_on_device(input) if dim is None else None},
)  # fmt: skip
def distinct(xp: Namespace, input: Any, dim: int | None = None, alone: bool = False) -> Any:
    """All that ``unique`` may give: sorted distinct values, where each element's value is among them, how often each occurs.

    Args:
        alone: whether the values are all that is asked for; the others are empty then, where that is quicker.
    """
    _ordered("unique", input)
    given, input = input, _comparable(input)
    if alone and dim is None and xp is np and given is input:
        return np.unique(input, equal_nan=False), *np.empty((2, 0), dtypes.int64)
    if dim is None:
        line, shape = input.reshape(1, -1), input.shape
    else:
        if not input.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        dim = wrap_dim(dim, input.ndim)
        if not input.size and input.shape[dim]:
            raise RuntimeError(f"unique: dimensions of size 0 other than dim {dim} leave nothing to compare, got shape {list(input.shape)}")
        moved = xp.moveaxis(input, dim, 0)
        line, shape = moved.reshape(moved.shape[0], -1).T if input.size else input.reshape(1, 0), moved.shape[:1]
    order = xp.lexsort(line[::-1]) if line.shape[0] > 1 else xp.argsort(line[0], kind="stable")
    ranked = line[:, order]
    first = xp.ones(ranked.shape[1], bool)
    first[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(0)
    starts = xp.flatnonzero(first)
    inverse = xp.empty(order.shape, dtypes.int64)
    inverse[order] = xp.cumsum(first) - 1
    counts = xp.diff(xp.append(starts, first.size))
    picked = order[starts]
    values = given.reshape(-1)[picked] if dim is None else xp.take(given, picked, axis=dim)
    return values, inverse.reshape(shape), counts.astype(dtypes.int64, copy=False)


@composite(method=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element is one of the test elements.

    Args:
        elements, test_elements: tensors of any shape, at most one of them a number; integer or real float dtype.
        assume_unique: neither holds a value twice; taken as advice.
        invert: whether each element is none of them.
    Returns: bool, of the shape of ``elements``.
    Raises: TypeError for two numbers.
    Source: torch.isin.
    Example:
        >>> gradlib.isin(gradlib.tensor([1, 2, 3]), gradlib.tensor([2, 5]))
        tensor([False,  True, False])
    """
    if not any(isinstance(x, Tensor) or is_array(x) for x in (elements, test_elements)):
        raise TypeError("isin(): at least one argument must be a Tensor, got two numbers")
    return isin_op(elements, test_elements, invert)


@op("none", kernels={"out": among}, also=("elements", "test_elements"), promote="same")
def isin_op(xp: Namespace, elements: Any, test_elements: Any, invert: bool = False) -> Any:
    """``isin`` with both brought to one dtype."""
    like = elements if is_array(elements) else test_elements
    if like.dtype.kind in "bc":
        raise RuntimeError(f"Unsupported input type encountered for isin(): {like.dtype}")
    each, tested = (_comparable(xp.asarray(x, like.dtype)) for x in (elements, test_elements))
    return xp.isin(each, tested, invert=invert)


# ---- sorted numbers -------------------------------------------------------------------------------------------------------------------


@op(
    "none", also=("sorted_sequence", "input", "sorter"),
    kernels={"out": lambda sorted_sequence, input, right, sorter: places(sorted_sequence, input, right) if sorter is None else None},
)  # fmt: skip
def searchsorted_op(xp: Any, sorted_sequence: Any, input: Any, right: bool, sorter: Any) -> Any:
    """The index at which each value would go into its sorted line."""
    sorted_sequence, values = _comparable(sorted_sequence), _comparable(xp.asarray(input))
    if sorted_sequence.ndim == 1 and xp is np:
        return sorted_sequence.searchsorted(values, "right" if right else "left", sorter)
    if sorted_sequence.ndim == 1:
        return xp.searchsorted(sorted_sequence, values, side="right" if right else "left", sorter=sorter)
    ordered = sorted_sequence if sorter is None else xp.take_along_axis(sorted_sequence, sorter, axis=-1)
    size = ordered.shape[-1]
    low, high = xp.zeros(values.shape, np.int64), xp.full(values.shape, size, np.int64)
    for _ in range(size.bit_length()):  # bisect every row at once
        middle = (low + high) // 2
        there = xp.take_along_axis(ordered, xp.minimum(middle, size - 1), axis=-1)
        nan = values != values
        after = (there <= values) | nan if right else (there < values) | (nan & (there == there))
        after &= low < high
        low, high = xp.where(after, middle + 1, low), xp.where(after, high, middle)
    return low


@composite(method=False)
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """The index at which each value would have to be inserted to keep a sequence in order. NaN counts as larger than every number.

    Args:
        sorted_sequence: (n,), or (..., n) with rows in ascending order.
        input: any shape for one sequence, (..., m) for rows; or a number.
        out_int32: give int32 instead of int64.
        right: behind equal elements instead of before them.
        side: "left" or "right", the same in words.
        sorter: the places that put sorted_sequence in order, when it is not.
    Raises: RuntimeError for shapes that do not fit and for right against side, NotImplementedError for complex numbers and masks in masks.
    Source: torch.searchsorted.
    Example:
        >>> gradlib.searchsorted(gradlib.tensor([1, 3, 5]), gradlib.tensor([2, 5]))
        tensor([1, 2])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted: side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("searchsorted: side and right can't be set to opposites, got side of left while right was True")
    line, values = raw(sorted_sequence), raw(input)
    shape, given = line.shape, getattr(values, "shape", ())
    if not shape or (len(shape) > 1 and (len(given) != len(shape) or given[:-1] != shape[:-1])):
        raise RuntimeError(
            "searchsorted: the sequence should have 1 dimension, or all dimensions but the last in common with the input, got "
            f"{list(shape)} and {list(given)}"
        )
    if sorter is not None and tuple(sorter.shape) != shape:
        raise RuntimeError(f"searchsorted: sorter must have the sequence's shape {list(shape)}, got {list(sorter.shape)}")
    kind, of = line.dtype.kind, values.dtype if hasattr(values, "dtype") else dtypes.scalar_dtype(values)
    if kind == "c" or of.kind == "c" or kind == of.kind == "b":
        raise NotImplementedError(f"searchsorted is not implemented for {of} in a sequence of {line.dtype}")
    found = searchsorted_op(sorted_sequence, input, right or side == "right", sorter)
    if not out_int32:
        return found
    return found.to(dtypes.int32) if isinstance(found, Tensor) else found.astype(dtypes.int32)


@composite(method=False)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the interval into which each value falls, between boundaries (a vector in ascending order).

    Args:
        input: any shape, or a number.
        boundaries: (n,), ascending.
        out_int32: give int32 instead of int64.
        right: whether a value equal to a boundary falls into the interval above it.
    Raises: RuntimeError for boundaries that are no vector.
    Source: torch.bucketize.
    Example:
        >>> gradlib.bucketize(gradlib.tensor([0.5, 1.5]), gradlib.tensor([0.0, 1.0, 2.0]))
        tensor([1, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got shape {list(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
