"""Running sums, products and extremes along one dimension; differences and the trapezoidal rule.

float32 is accumulated in float64 and half types in float32, as torch does on the CPU.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, scanning
from gradlib.backend.array import Namespace, cupy, has_nan, running_fold
from gradlib.backend.columns import LEAST, has_columns, row_major_copied, subtract, write
from gradlib.backend.copying import row_major
from gradlib.backend.flat_index import positions
from gradlib.backend.integrals import integral, spread
from gradlib.backend.kernel_text import CTYPES
from gradlib.backend.lines import STEPS, accumulated
from gradlib.backend.neighbours import differences
from gradlib.backend.reducing import folded
from gradlib.backend.rows import by_rows, has_rows
from gradlib.core.compile import named
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.dims import WHOLE, wrap_dim
from gradlib.ops.elementwise import exp
from gradlib.ops.index import slice_backward, slice_op
from gradlib.ops.join import cat
from gradlib.ops.reduce import back, may_divide, sum, total
from gradlib.ops.select import where_op
from gradlib.ops.shape import movedim, unsqueeze
from gradlib.ops.take_along import put_along, take_along

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp", "trapezoid"]

_WIDER = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}


def _running(xp: Namespace, name: str, input: Any, dim: int, dtype: Any) -> Any:
    """``cumsum`` or ``cumprod`` in a wider dtype, rounded once at the end; integers and bools in int64."""
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
        if input.dtype.kind == "b":
            raise NotImplementedError(f"{name} is not implemented for dtype=bool; leave it out for an int64 result")
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input.astype(dtypes.int64) if input.dtype.kind in "biu" and dtype is None else input.copy()
    char = input.dtype.char
    if xp is np and (char == "d" or char == "f"):
        if input.size >= _LARGE and _has_rows(name, input, dim):
            return _by_rows(name, input)
        ufunc = np.add if name == "cumsum" else np.multiply  # in half of the time of the method
        return row_major(accumulated(ufunc, input, dim, None if char == "d" else dtypes.float64))
    if xp is not np and (found := scanning.running(name[3:], input, dim)) is not None:
        return found[0] if dtype is None else found[0].astype(dtypes.as_dtype(dtype), copy=False)
    if input.dtype.kind in "biu":
        return row_major(getattr(input, name)(axis=dim, dtype=dtypes.int64).astype(dtype or dtypes.int64, copy=False))
    wide = _WIDER.get(input.dtype, dtypes.float32 if input.dtype.itemsize == 2 else input.dtype)
    return row_major(getattr(input, name)(axis=dim, dtype=wide).astype(input.dtype, copy=False))


def _has_rows(name: str, input: Any, dim: int) -> bool:
    """Whether a large array is one of those that are run through by rows; a product of float64 gains nothing by it."""
    chars = "fd" if name == "cumsum" else "f"
    return input.dtype.char in chars and dim == input.ndim - 1 and input.shape[dim] > STEPS and input.flags.c_contiguous


def _by_rows(name: str, input: Any, from_end: bool = False) -> Any:
    """The same of large arrays along the last dimension, for rows that stay in the cache; ``from_end``: from the last element to the first.

    A running sum waits for the sum before; those of two rows run side by side as the parts of complex numbers.
    """
    made = np.empty(input.shape, input.dtype)
    lines, results = (x.reshape(-1, input.shape[-1])[:, :: -1 if from_end else 1] for x in (input, made))
    size = max(1, _LARGE // lines.shape[1] // 2)
    for begin in range(0, len(lines), 2 * size):
        part, out = lines[begin : begin + 2 * size], results[begin : begin + 2 * size]
        half = len(part) // 2 if name == "cumsum" else 0
        if half:
            pairs = np.empty((half, lines.shape[1]), dtypes.complex128)
            pairs.real, pairs.imag = part[:half], part[half : 2 * half]
            np.add.accumulate(pairs, 1, out=pairs)
            out[:half], out[half : 2 * half] = pairs.real, pairs.imag
        single = part[2 * half :].astype(dtypes.float64)
        (np.add if name == "cumsum" else np.multiply).accumulate(single, 1, out=single)
        out[2 * half :] = single
    return made


_SOME, _LARGE = 1 << 11, 1 << 16
_SHORT = 8  # elements of a line, of which the runs of one index are no fewer than half

# ---- sums ---------------------------------------------------------------------------------------------------------------------


@op("linear", keyword_only=("dtype",), inplace=True, complex="explicit", input=lambda g, dim: cumsum_from_end(g, dim))
def cumsum(xp: Namespace, input: Any, dim: int, dtype: Any = None) -> Any:
    """Running sum along ``dim``: element i is the sum of the input's elements 0 to i.

    Args:
        input: any shape and dtype.
        dim: the dimension to run along.
        dtype: convert the input to this dtype first; integers and bools give int64 without it.
    Source: torch.cumsum.
    Example:
        >>> gradlib.cumsum(gradlib.tensor([1, 2, 3]), 0)
        tensor([1, 3, 6])
    """
    return _running(xp, "cumsum", input, dim, dtype)


@op("linear", method=False, complex="explicit", input=lambda g, dim: cumsum(g, dim))
def cumsum_from_end(xp: Namespace, input: Any, dim: int) -> Any:
    """Running sum from the last element to the first: the transpose of ``cumsum``."""
    if not input.ndim:
        return input
    if xp is np and (char := input.dtype.char) in "fd":
        at = wrap_dim(dim, input.ndim)
        if input.size >= _LARGE and _has_rows("cumsum", input, at):
            return _by_rows("cumsum", input, from_end=True)
        return row_major(accumulated(np.add, input, at, None if char == "d" else dtypes.float64, from_end=True))
    if xp is not np and (made := scanning.running("sum", input, wrap_dim(dim, input.ndim), from_end=True)) is not None:
        return made[0].astype(input.dtype, copy=False)
    return xp.ascontiguousarray(xp.flip(_running(xp, "cumsum", xp.flip(input, dim), dim, None), dim))  # no tensor has steps backwards


# ---- products -----------------------------------------------------------------------------------------------------------------


def recur_from_end(start: Any, factor: Any) -> Any:
    """The linear recurrence t[k] = start[k] + factor[k] * t[k + 1] along the last dimension, from the end, in log2(size) steps.

    Each step doubles how many terms of the sum every element holds. Only sums and products, so every derivative follows.

    Args:
        start: (..., n); factor: (..., n - 1).
    Returns: t, of start's shape.
    """
    size, reach = start.shape[-1], 1
    while reach < size:
        grown = start[..., : size - reach] + factor * start[..., reach:]
        start = cat((grown, start[..., size - reach :]), -1)
        if 2 * reach < size:
            factor = factor[..., : size - 2 * reach] * factor[..., reach:]
        reach *= 2
    return start


def _cumprod_rule(g: Any, input: Any, out: Any, dim: int) -> Any:
    """Each factor's product with the factors before it, times the sum over what follows: no division, so zeros do no harm.

    Where none is, and nothing is recorded, a sum from the end of the products is divided by each factor, as in torch.
    """
    if not input.ndim or input.shape[dim] < 2:
        return g
    if may_divide(input, out):
        return cumsum_from_end(g * out, dim) / input
    if input.dtype.kind == "c" and g.dtype.kind != "c":  # a real dtype was asked for: what was multiplied are the real parts
        input = input.real
    g, input, out = movedim(g, dim, -1), movedim(input, dim, -1), movedim(out, dim, -1)
    after = recur_from_end(g, input[..., 1:])
    return movedim(cat((after[..., :1], after[..., 1:] * out[..., :-1]), -1), -1, dim)


@op(
    "other", keyword_only=("dtype",), inplace=True, input=_cumprod_rule,
    kernels={"input": lambda g, input, out, dim: scanning.slope("prod", g, input, out, dim)},
)  # fmt: skip
def cumprod(xp: Namespace, input: Any, dim: int, dtype: Any = None) -> Any:
    """Running product along ``dim``: element i is that of the input's elements 0 to i. As ``cumsum`` otherwise.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        dtype: the dtype of input before it is multiplied; int64 for bools and integers when left out.
    Source: torch.cumprod.
    Example:
        >>> gradlib.cumprod(gradlib.tensor([1, 2, 3]), 0)
        tensor([1, 2, 6])
    """
    return _running(xp, "cumprod", input, dim, dtype)


# ---- log of running sums of exponentials --------------------------------------------------------------------------------------


def _logcumsumexp_rule(g: Any, input: Any, out: Any, dim: int) -> Any:
    """exp(x[k]) * sum over i >= k of g[i] exp(-out[i]), arranged so that no exponent is positive."""
    if not input.ndim:
        return g
    g, input, out = movedim(g, dim, -1), movedim(input, dim, -1), movedim(out, dim, -1)
    nothing = out == -math.inf
    level = where_op(nothing, 0.0, out)
    shrink = exp(where_op(nothing[..., :-1], 0.0, level[..., :-1] - level[..., 1:]))
    return movedim(exp(input - level) * recur_from_end(g, shrink), -1, dim)


def _accumulate(name: str, array: Any, dim: int) -> Any:
    """The running fold of an associative ufunc, which CuPy has not."""
    if isinstance(array, np.ndarray):
        return accumulated(getattr(np, name), array, dim)
    return running_fold(getattr(cupy(), name), array, dim)


def _log_add(xp: Namespace, one: Any, two: Any) -> Any:
    """log(exp(one) + exp(two)) of complex numbers."""
    top = xp.maximum(one.real, two.real)
    return xp.log(xp.exp(one - top) + xp.exp(two - top)) + top


def _logcumsumexp_on_device(input: Any, dim: int) -> Any:
    made = scanning.running("logsumexp", input, wrap_dim(dim, input.ndim)) if input.ndim else None
    return None if made is None else made[0]


@op(
    "other", input=_logcumsumexp_rule,
    kernels={"out": _logcumsumexp_on_device, "input": lambda g, input, out, dim: scanning.slope("logsumexp", g, input, out, dim)},
)  # fmt: skip
def logcumsumexp(xp: Namespace, input: Any, dim: int) -> Any:
    """Logarithm of the running sum of exponentials along ``dim``, without overflow.

    Args:
        input: any shape, float or complex dtype.
        dim: the dimension along which the sum runs.
    Raises: NotImplementedError for integers and bools.
    Source: torch.logcumsumexp.
    Example:
        >>> gradlib.logcumsumexp(gradlib.tensor([0.0, 0.0]), 0)
        tensor([0.0000, 0.6931])
    """
    dim = wrap_dim(dim, input.ndim)
    if input.dtype.kind in "biu":
        raise NotImplementedError(f"logcumsumexp is not implemented for {input.dtype}; convert it first, for example with .float()")
    if not input.ndim:
        return input.copy()
    if input.dtype.kind == "c":
        return running_fold(lambda one, two: _log_add(xp, one, two), input, dim)
    wide = dtypes.float32 if input.dtype.itemsize == 2 else input.dtype
    return row_major(_accumulate("logaddexp", input.astype(wide, copy=False), dim).astype(input.dtype, copy=False))


# ---- extremes -----------------------------------------------------------------------------------------------------------------

Cummax = namedtuple("Cummax", ["values", "indices"])
Cummin = namedtuple("Cummin", ["values", "indices"])


def _chosen_rule(g: Any, indices: Any, dim: int, input_shape: tuple[int, ...]) -> Any:
    """Each output's gradient goes to the element that was the extreme there."""
    if type(g[0]) is type(indices) is np.ndarray and indices.size >= _SOME and indices.shape[dim] > _SHORT:
        if dim in (-1, indices.ndim - 1):
            return _added_by_runs(g[0], indices)
        if indices.ndim == 2:
            return row_major(_added_by_runs(g[0].T.copy(), indices.T.copy()).T)
    return put_along(g[0], indices, dim, input_shape, True)


def _chosen_tangent(t_input: Any, indices: Any, dim: int) -> tuple[Any, None]:
    """The tangents of the elements that were the extremes; their places have none."""
    return take_along(t_input, indices, dim, True), None


def _added_by_runs(g: Any, indices: Any) -> Any:
    """Numbers added at their indices along the last dimension, which do not fall in any line: those of one index stand side by side."""
    begins = np.ones(indices.shape, bool)
    np.not_equal(indices[..., 1:], indices[..., :-1], out=begins[..., 1:])
    at = np.flatnonzero(begins)
    made = np.zeros(g.shape, g.dtype)
    made.reshape(-1)[at - at % g.shape[-1] + indices.reshape(-1)[at]] = np.add.reduceat(g.reshape(-1), at)
    return made


def _running_extreme(xp: Namespace, name: str, input: Any, dim: int) -> Any:
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim or not input.size:
        return input.copy(), xp.zeros(input.shape, dtypes.int64)
    if input.dtype.kind == "c":
        raise NotImplementedError(f"complex numbers have no order, hence no running {name} (got {input.dtype}); take .abs() first")
    if xp is not np and (made := scanning.running(name[:3], input, dim)) is not None:
        return made
    values = _accumulate(name, input, dim)
    attained = input == values
    if xp is not np or has_nan(values):
        attained |= input != input
    if xp is np and attained.flags.c_contiguous and np.count_nonzero(attained) * 8 < attained.size:
        if dim == input.ndim - 1:
            return values, _held(attained)
        if input.ndim == 2:
            return row_major(values), _held_in_columns(attained)
    if xp is np:
        places = attained * positions(input.shape[dim], input.ndim - 1 - dim)  # of large arrays in a tenth of the time of where
    else:
        places = xp.where(attained, xp.arange(input.shape[dim]).reshape(-1, *[1] * (input.ndim - 1 - dim)), 0)
    return row_major(values), row_major(_accumulate("maximum", places, dim))


def _held(attained: Any) -> Any:
    """The index along the last dimension of the latest marked element, for each element; each line's first is marked."""
    at = np.flatnonzero(attained)
    return np.repeat(at % attained.shape[-1], np.diff(at, append=attained.size)).reshape(attained.shape)


def _held_in_columns(attained: Any) -> Any:
    """The same along the first of two dimensions."""
    count, width = attained.shape
    at = np.flatnonzero(attained)
    begins = np.sort(at % width * count + at // width)  # the columns one behind the other
    return row_major_copied(np.repeat(begins % count, np.diff(begins, append=attained.size)).reshape(width, count).T)


@op("other", complex="explicit", outputs=("values", "indices"), differentiable=(0,), input=_chosen_rule, jvp=_chosen_tangent)
def cummax_op(xp: Namespace, input: Any, dim: int) -> Any:
    """``cummax`` as a plain pair."""
    return _running_extreme(xp, "maximum", input, dim)


@op("other", complex="explicit", outputs=("values", "indices"), differentiable=(0,), input=_chosen_rule, jvp=_chosen_tangent)
def cummin_op(xp: Namespace, input: Any, dim: int) -> Any:
    """``cummin`` as a plain pair."""
    return _running_extreme(xp, "minimum", input, dim)


@composite
def cummax(input: Any, dim: int, *, out: Any = None) -> Any:
    """Running maximum along ``dim`` and the index of the latest element that attains it.

    Args:
        input: any shape, real dtype.
        dim: the dimension along which the maximum runs.
    Returns: the named tuple (values, indices), indices of dtype int64; NaN, once met, stays.
    Source: torch.cummax.
    Example:
        >>> gradlib.cummax(gradlib.tensor([1, 3, 2]), 0).values
        tensor([1, 3, 3])
    """
    return Cummax(*cummax_op(input, dim, out=out))


@composite
def cummin(input: Any, dim: int, *, out: Any = None) -> Any:
    """Running minimum along ``dim`` and the index of the latest element that attains it, as ``cummax``.

    Args:
        input: any shape, real dtype.
        dim: the dimension.
    Source: torch.cummin.
    Example:
        >>> gradlib.cummin(gradlib.tensor([3, 1, 2]), 0).values
        tensor([3, 1, 1])
    """
    return Cummin(*cummin_op(input, dim, out=out))


# ---- differences and integrals ------------------------------------------------------------------------------------------------


def _part(input: Any, dim: int, start: int | None, stop: int | None) -> Any:
    return slice_op(input, (*(WHOLE,) * dim, slice(start, stop), ...))


@op("linear", method=False, label="diff", complex="explicit", input=lambda g, dim: diff_backward(g, dim), kernels={"out": differences})
def diff_op(xp: Namespace, input: Any, dim: int) -> Any:
    """The differences of neighbours along a dimension, counted from 0, of at least one element; of bools whether they differ."""
    whole = (slice(None),) * dim
    differ: Any = xp.not_equal if input.dtype.kind == "b" else xp.subtract
    given = input[(*whole, slice(1, None))], input[(*whole, slice(0, -1))]
    if input.size >= LEAST and xp is np and dim == input.ndim - 1 and has_columns(given[0]) and differ is np.subtract:
        made = np.empty(given[0].shape, input.dtype)
        subtract(*given, made)
        return made
    return row_major(by_rows(differ, *given) if has_rows(input) else differ(*given))


@op(
    "linear", method=False, complex="explicit", input=lambda g, dim: diff_op(g, dim),
    kernels={"out": lambda input, dim: differences(input, dim, slope=True)},
)  # fmt: skip
def diff_backward(xp: Namespace, input: Any, dim: int) -> Any:
    """The transpose of ``diff_op``: each difference is taken from the element before it, and added to the one after."""
    shape, whole = list(input.shape), (slice(None),) * dim
    shape[dim] += 1
    made = xp.empty(shape, input.dtype)
    rest = made[(*whole, slice(0, -1))]
    if input.size >= LEAST and xp is np and dim == input.ndim - 1 and has_columns(input):
        write(made[..., 1:], input)
        made[..., 0] = 0
        subtract(rest, input, rest)
        return made
    made[(*whole, slice(1, None))] = input
    made[(*whole, 0)] = 0
    if has_rows(input):
        by_rows(np.subtract, rest, input, rest)
    else:
        rest -= input
    return made


@composite
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along ``dim``, taken ``n`` times (bools: whether neighbours differ).

    Args:
        input: one dimension or more.
        n: how often.
        dim: the dimension whose neighbours are taken.
        prepend, append: put before and after the input first; same number of dimensions.
    Raises: RuntimeError for a 0-d input and for a negative n.
    Source: torch.diff.
    Example:
        >>> gradlib.diff(gradlib.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    ndim = input.ndim
    if not ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, ndim)
    ends = () if prepend is append is None else [x for x in (prepend, append) if x is not None]
    for end in ends:
        if end.ndim != ndim:
            raise RuntimeError(f"diff expects prepend or append to be the same dimension as input, got {end.ndim} and {ndim}")
    if n == 0:
        return input + 0 if input.dtype.kind != "b" else input != False  # noqa: E712  (a copy, elementwise)
    if ends:
        input = cat([x for x in (prepend, input, append) if x is not None], dim)
    for _ in range(min(n, raw(input).shape[dim])):
        input = diff_op(input, dim)
    return input


@op(
    "linear", method=False, complex="explicit", input=lambda g, input_shape, dim: trapezoid_backward(g, input_shape, dim),
    kernels={"out": lambda input, dim: folded("trapezoid", input, dim, False)}, node="sub",
)  # fmt: skip
def trapezoid_op(xp: Namespace, input: Any, dim: int) -> Any:
    """The integral of floats a distance of 1 apart along a dimension, counted from 0, of at least one element."""
    before = (slice(None),) * dim
    ends = (input[(*before, 0)] + input[(*before, -1)]) * 0.5
    return back(total(xp, input, dim, False) - ends, input.dtype)


@op("linear", method=False, complex="explicit", input=lambda g, dim: trapezoid_op(g, dim))
def trapezoid_backward(xp: Namespace, input: Any, shape: tuple[int, ...], dim: int) -> Any:
    """The transpose of ``trapezoid_op``: each integral for all samples, half of it for the first and half for the last."""
    before, made = (slice(None),) * dim, xp.empty(shape, input.dtype)
    made[...] = xp.expand_dims(input if shape[dim] > 1 else input * 0, dim)
    for end in (0, -1):
        made[(*before, end)] *= 0.5
    return made


def _both_ends(between: Any, dim: int) -> Any:
    """What stands between neighbours along a dimension, given to both: the transpose of the sums of pairs."""
    shape, whole = list(between.shape), (WHOLE,) * dim
    shape[dim] += 1
    behind, before = ((*whole, slice(1, None), ...), (*whole, slice(0, -1), ...))
    return slice_backward(between, tuple(shape), behind) + slice_backward(between, tuple(shape), before)


def _by_samples(g: Any, apart: Any, dim: int, input_shape: tuple[int, ...]) -> Any:
    """The derivative of ``integral_at`` by samples of a shape: half the distance of both neighbours, or of the one at an end."""
    apart = _as_wide(apart, dim, len(input_shape))
    return unsqueeze(g, dim) * _both_ends(apart * 0.5, dim - len(input_shape) + apart.ndim)


def _by_places(g: Any, pairs: Any, dim: int, x_shape: tuple[int, ...]) -> Any:
    """The same by the places, of which samples may share one line."""
    return _in_one_line(diff_backward(unsqueeze(g, dim) * (pairs * 0.5), dim), dim, x_shape)


def _as_wide(line: Any, dim: int, ndim: int) -> Any:
    """A line along a dimension of samples that have so many, so that it broadcasts with them; what is none as it is."""
    return line.reshape((-1, *[1] * (ndim - 1 - dim))) if line.ndim < ndim else line


def _in_one_line(made: Any, dim: int, shape: tuple[int, ...]) -> Any:
    """A gradient by the places of each line, summed where they share these."""
    return made if len(shape) == made.ndim else sum(made, tuple(d for d in range(made.ndim) if d != dim))


def _by_places_on_device(g: Any, pairs: Any, dim: int, x_shape: tuple[int, ...]) -> Any:
    made = spread(pairs, dim, g, (*pairs.shape[:dim], pairs.shape[dim] + 1, *pairs.shape[dim + 1 :]), -1.0)
    return None if made is None else _in_one_line(made, dim, x_shape)


@op(
    "bilinear", method=False, complex="none", input=_by_samples, x=_by_places, steps=lambda input, x, dim: _in_steps(input, x, dim),
    hidden={
        "apart": {"x": lambda g, dim, x_shape: diff_backward(g, dim if len(x_shape) > 1 else 0)},
        "pairs": {"input": lambda g, dim: _both_ends(g, dim)},
    },
    kernels={
        "out": integral,
        "input": lambda g, apart, dim, input_shape: spread(apart, dim, g, input_shape, 1.0),
        "x": _by_places_on_device,
    },
)  # fmt: skip
def integral_at(xp: Namespace, input: Any, x: Any, dim: int) -> Any:
    """The integral of floats along a dimension, counted from 0, between places of their shape or in one line, for a device; how far the
    places are apart; and the sums of pairs of samples.
    """
    pairs, along = _part(input, dim, 1, None) + _part(input, dim, 0, input.shape[dim] - 1), dim if x.ndim == input.ndim else 0
    apart = _part(x, along, 1, None) - _part(x, along, 0, x.shape[along] - 1)
    return back(total(xp, _as_wide(apart, dim, input.ndim) * pairs, dim, False) / 2, input.dtype), apart, pairs


_between = named(integral_at, "trapezoid")


def _in_steps(y: Any, x: Any, dim: int) -> Any:
    """The integral of samples along a dimension, counted from 0, between places that broadcast with them, step by step."""
    pairs = _part(y, dim, 1, None) + _part(y, dim, 0, y.shape[dim] - 1)
    if x.ndim == 1 and y.ndim > 1:
        if x.shape[0] != y.shape[dim]:
            raise _unpaired(x, y, dim)
        x = _as_wide(x, dim, y.ndim)
    while x.ndim < y.ndim:
        x = unsqueeze(x, 0)
    along = _sampled(x, dim - y.ndim)
    if x.shape[along] != y.shape[dim]:
        raise _unpaired(x, y, dim)
    return sum((_part(x, along, 1, None) - _part(x, along, 0, x.shape[along] - 1)) * pairs, dim) / 2.0


def _are_floats_on_device(y: Any, x: Any, dim: int) -> bool:
    """Whether these are Tensors of floats on a device, of one dtype, with as many places as samples: their integral is one operation."""
    if type(y) is not Tensor or type(x) is not Tensor:
        return False
    a, b = y._array, x._array
    if type(a) is np.ndarray or type(b) is not type(a) or a.dtype is not b.dtype or a.dtype.char not in CTYPES:
        return False
    return b.shape in (a.shape, a.shape[dim : dim + 1])


@composite(method=False, aliases=("trapz",))
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Integral of samples along ``dim`` by the trapezoidal rule.

    Args:
        y: the samples, one dimension or more.
        x: where they were taken: (n,) or a shape that broadcasts with y's.
        dx: their distance, when x is not given; 1 unless said.
        dim: the dimension along which the samples follow each other.
    Raises: RuntimeError for bools and for an x of another length; TypeError for x and dx at once.
    Source: torch.trapezoid.
    Example:
        >>> gradlib.trapezoid(gradlib.tensor([1.0, 2.0, 3.0]), dx=0.5)
        tensor(2.)
    """
    if x is not None and dx is not None:
        raise TypeError("trapezoid() takes x or dx, got both")
    if y.dtype.kind == "b" or (x is not None and x.dtype.kind == "b"):
        raise RuntimeError("trapezoid: received a bool input for `y` or `x`, but bool is not supported")
    dim = _sampled(y, dim)
    if not raw(y).shape[dim]:
        return sum(y, dim, dtype=y.dtype)
    if x is None:
        if y.dtype.kind in "iu":  # whose sum is exact
            before = (WHOLE,) * dim
            made = sum(y, dim) - (slice_op(y, (*before, 0, ...)) + slice_op(y, (*before, -1, ...))) * 0.5
        else:
            made = trapezoid_op(y, dim)
        return made if dx is None else made * dx
    if _are_floats_on_device(y, x, dim):
        return _between(y, x, dim)
    return _in_steps(y, x, dim)


def _sampled(samples: Any, dim: int) -> int:
    if not samples.ndim:
        raise IndexError("trapezoid: Dimension specified as -1 but tensor has no dimensions")
    return wrap_dim(dim, samples.ndim)


def _unpaired(x: Any, y: Any, dim: int) -> RuntimeError:
    return RuntimeError(
        f"trapezoid: There must be one `x` value for each sample point; x has shape {list(x.shape)}, y has {list(y.shape)} along dim {dim}"
    )
