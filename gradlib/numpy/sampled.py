"""Functions of samples along an axis: differences, integrals, interpolation, convolution, padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.indexing import along_axis
from gradlib.numpy.joining import concatenate, stack
from gradlib.numpy.operands import (
    axes_of,
    axis_of,
    cast,
    constant,
    first_tensor,
    floating,
    promoted,
    sizes_with,
    tensor_of,
    value_of,
    vector,
)
from gradlib.numpy.registry import implements, numpy_function
from gradlib.numpy.statistics import median
from gradlib.ops import finite, minmax, reduce, rounding, select


def _part(x: Tensor, along: int, start: int | None, stop: int | None) -> Tensor:
    return x[along_axis(along, slice(start, stop))]


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours, n times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    like = first_tensor((a, prepend, append))
    x = tensor_of(a, like)
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    along = axis_of(axis, x.ndim)
    edges = [tensor_of(e, like) for e in (prepend, append) if e is not None]
    if edges:
        edges = [e.broadcast_to(sizes_with(x, along, 1)) if e.ndim == 0 else e for e in edges]
        x = concatenate([*edges[: prepend is not None], x, *edges[prepend is not None :]], along)
    for _ in range(n):
        later, earlier = _part(x, along, 1, None), _part(x, along, None, -1)
        x = later != earlier if x.dtype == np.bool_ else later - earlier
    return x


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """The differences of neighbours of the flattened array, with values before and behind."""
    like = first_tensor((ary, to_end, to_begin))
    x = tensor_of(ary, like).reshape((-1,))
    parts = [x[1:] - x[:-1]]
    if to_begin is not None:
        parts.insert(0, _edge(to_begin, x, "to_begin"))
    if to_end is not None:
        parts.append(_edge(to_end, x, "to_end"))
    return concatenate(parts)


def _edge(value: Any, x: Tensor, name: str) -> Tensor:
    """Values before or behind the differences. Raises: TypeError where their dtype is of another kind than x's."""
    given = tensor_of(value, x)
    if not np.can_cast(given.dtype, x.dtype, casting="same_kind"):
        raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return cast(given, x.dtype).reshape((-1,))


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Differences that estimate the derivative along axes: of second order inside, of ``edge_order`` at the ends."""
    like = first_tensor((f, varargs))
    y = floating(f, like)
    axes = axes_of(axis, y.ndim)
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if len(varargs) not in (0, 1, len(axes)) or (len(varargs) == 1 and len(axes) > 1 and tensor_of(varargs[0], like).ndim):
        raise TypeError("invalid number of arguments")
    steps = [1.0] * len(axes) if not varargs else list(varargs) * (len(axes) // len(varargs))
    found = tuple(_slopes(y, along, _step(step, y, along), edge_order) for along, step in zip(axes, steps, strict=True))
    return found[0] if len(found) == 1 else found


def _step(step: Any, y: Tensor, along: int) -> Any:
    """The distance of samples: one number, or one for each pair of neighbours, along the axis."""
    places = tensor_of(step, y)
    if places.ndim == 0:
        return step
    if places.ndim != 1 or places.shape[0] != y.shape[along]:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = floating(places[1:] - places[:-1])
    if bool((steps.detach() == steps.detach()[0]).all()):
        return steps[0]
    return steps.reshape(tuple(-1 if i == along else 1 for i in range(y.ndim)))


def _slopes(y: Tensor, along: int, step: Any, edge_order: int) -> Tensor:
    size = y.shape[along]
    if size < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required.")

    def at(start: int, stop: int | None) -> Tensor:
        return _part(y, along, start, stop)

    uneven = isinstance(step, Tensor) and step.ndim > 0

    def space(start: int, stop: int | None) -> Any:
        return _part(step, along, start, stop) if uneven else step

    if uneven:
        h, k = space(0, -1), space(1, None)
        inside = at(0, -2) * (-k / (h * (h + k))) + at(1, -1) * ((k - h) / (h * k)) + at(2, None) * (h / (k * (h + k)))
    else:
        inside = (at(2, None) - at(0, -2)) / (2.0 * step)
    if edge_order == 1:
        first, last = (at(1, 2) - at(0, 1)) / space(0, 1), (at(-1, None) - at(-2, -1)) / space(-1, None)
    else:
        h, k = space(0, 1), space(1, 2)
        first = at(0, 1) * (-(2.0 * h + k) / (h * (h + k))) + at(1, 2) * ((h + k) / (h * k)) + at(2, 3) * (-h / (k * (h + k)))
        h, k = space(-2, -1), space(-1, None)
        last = at(-3, -2) * (k / (h * (h + k))) + at(-2, -1) * (-(k + h) / (h * k)) + at(-1, None) * ((2.0 * k + h) / (k * (h + k)))
    return concatenate([first, inside, last], along)


@implements(numpy_function("trapezoid"), numpy_function("trapz"))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule."""
    like = first_tensor((y, x, dx))
    t = floating(y, like)
    along = axis_of(axis, t.ndim)
    width: Any = dx
    if x is not None:
        places = floating(x, like)
        if places.ndim == 1:
            width = (places[1:] - places[:-1]).reshape(tuple(-1 if i == along else 1 for i in range(t.ndim)))
        else:
            width = diff(places, axis=axis)
    return reduce.sum((_part(t, along, 1, None) + _part(t, along, None, -1)) / 2.0 * width, axis)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """Straight lines between points (xp, fp); differentiable in the places and in the points."""
    like = first_tensor((x, xp, fp, left, right))
    at, places, values = tensor_of(x, like), vector(tensor_of(xp, like), "numpy.interp"), vector(tensor_of(fp, like), "numpy.interp")
    if "c" in at.dtype.kind + places.dtype.kind:
        raise TypeError(f"numpy.interp takes real places, got {at.dtype} and {places.dtype}")
    if places.shape != values.shape:
        raise ValueError("fp and xp are not of the same length.")
    at, places = at.to(np.float64), places.to(np.float64)
    values = cast(values, np.complex128 if values.dtype.kind == "c" else np.float64)
    if period is not None:
        if value_of(period) == 0:
            raise ValueError("period must be a non-zero value")
        size = abs(value_of(period))
        at, places = at % size, places % size
        order = np.argsort(value_of(places), kind="stable")
        places, values = places[order], values[order]
        places = concatenate([places[-1:] - size, places, places[:1] + size])
        values = concatenate([values[-1:], values, values[:1]])
        left = right = None
    count = places.shape[0]
    if count == 0:
        raise ValueError("array of sample points is empty")
    known, wanted = value_of(places), value_of(at)
    begin = np.clip(np.searchsorted(known, wanted, "right") - 1, 0, max(count - 2, 0))
    end = np.minimum(begin + 1, count - 1)
    width = places[end] - places[begin]
    safe = select.where(width == 0, 1.0, width)
    found = values[begin] + (values[end] - values[begin]) / safe * (at - places[begin])
    found = select.where(constant(wanted == known[end], at), values[end], found)
    below, above = constant(wanted < known[0], at), constant(wanted > known[-1], at)
    found = select.where(below, values[0] if left is None else cast(tensor_of(left, like), values.dtype), found)
    found = select.where(above, values[-1] if right is None else cast(tensor_of(right, like), values.dtype), found)
    return select.where(finite.isnan(at), at.detach(), found) if bool(np.isnan(wanted).any()) else found


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Tensor:
    """Take out jumps of more than half a period by whole periods."""
    x = tensor_of(p)
    corrected = np.unwrap(value_of(x), discont, axis, period=period) - value_of(x)
    return x + constant(corrected, x)


# ---- convolutions --------------------------------------------------------------------------------------------------------------


def _full_convolution(x: Tensor, y: Tensor) -> Tensor:
    """Sums of products at all shifts: of the columns of the matrix whose row i is y times x's i-th number behind i zeros."""
    rows, columns = x.shape[0], y.shape[0]
    products = x[:, None] * y  # before there are zeros beside them: an infinity times one is NaN
    padded = concatenate([products, products.new_zeros((rows, rows))], 1)
    return padded.reshape((-1,))[: rows * (rows + columns - 1)].reshape((rows, rows + columns - 1)).sum(0, dtype=products.dtype)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The discrete convolution of two vectors."""
    x, y = (vector(each, "numpy.convolve") for each in promoted(a, v))
    if not x.numel() or not y.numel():
        raise ValueError(f"{'a' if not x.numel() else 'v'} cannot be empty")
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _of_mode(_full_convolution(y, x), x.shape[0], y.shape[0], mode)


def _of_mode(full: Tensor, long: int, short: int, mode: str) -> Tensor:
    if mode in ("full", 2):
        return full
    if mode in ("same", 1):
        return full[(short - 1) // 2 : (short - 1) // 2 + long]
    if mode in ("valid", 0):
        return full[short - 1 : long]
    raise ValueError(f"mode must be one of 'valid', 'same', or 'full', got {mode!r}")


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """The cross-correlation of two vectors; v conjugated."""
    x, y = (vector(each, "numpy.correlate") for each in promoted(a, v))
    if not x.numel() or not y.numel():
        raise ValueError(f"{'first' if not x.numel() else 'second'} array argument cannot be empty")
    y = (y.conj() if y.dtype.kind == "c" else y).flip(0)
    if y.shape[0] <= x.shape[0]:
        return convolve(x, y, mode)
    full = _full_convolution(x, y)
    long, short = y.shape[0], x.shape[0]
    if mode in ("same", 1):
        return full[short // 2 : short // 2 + long]
    return _of_mode(full, long, short, mode)


# ---- padding -------------------------------------------------------------------------------------------------------------------


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """Add values at both ends of each axis, by one of NumPy's modes."""
    like = first_tensor((array, *kwargs.values()))
    x = tensor_of(array, like)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, (0, 0))) for i in range(x.ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = np.broadcast_to(np.asarray(value_of(pad_width)), (x.ndim, 2)).astype(int).tolist()
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode) or mode == "empty":
        return x[_arranged(x, widths, "edge")] if mode == "empty" else _refuse_mode(mode)
    if mode in ("edge", "wrap", "symmetric", "reflect") and kwargs.get("reflect_type", "even") == "even":
        return x[_arranged(x, widths, mode)]
    if mode not in _ENDS:
        return _refuse_mode(mode)
    for along, (before, behind) in enumerate(widths):
        if mode != "constant" and not x.shape[along] and before + behind:
            raise ValueError(f"can't extend empty axis {along} using modes other than 'constant' or 'empty'")
        x = _ENDS[mode](x, along, before, behind, kwargs)
    return x if widths else x.clone()


def _refuse_mode(mode: Any) -> Tensor:
    raise TypeError(
        f"numpy.pad does not take mode={mode!r} with these arguments for a Tensor; modes are constant, edge, empty, linear_ramp, maximum, "
        "mean, median, minimum, reflect (even), symmetric (even) and wrap"
    )


def _arranged(x: Tensor, widths: list[list[int]], mode: Any) -> tuple[np.ndarray, ...]:
    """The places that a padding repeats, as NumPy says of the numbers 0, 1, 2, ... along each axis."""
    places = [np.pad(np.arange(size), pair, mode=mode) for size, pair in zip(x.shape, widths, strict=True)]
    return np.ix_(*places) if places else ()


def _pair(value: Any, along: int, ndim: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """An argument's values for both ends of an axis."""
    given = tensor_of(value, like).broadcast_to((ndim, 2))
    return given[along, 0], given[along, 1]


def _constant_ends(x: Tensor, along: int, before: int, behind: int, options: dict[str, Any]) -> Tensor:
    values = _pair(options.get("constant_values", 0), along, x.ndim, x)
    first, last = (cast(v, x.dtype).broadcast_to(sizes_with(x, along, width)) for v, width in zip(values, (before, behind), strict=True))
    return concatenate([first, x, last], along)


def _ramps(x: Tensor, along: int, before: int, behind: int, options: dict[str, Any]) -> Tensor:
    first, last = _pair(options.get("end_values", 0), along, x.ndim, x)

    def ramp(edge: Tensor, end: Tensor, width: int) -> Tensor:
        shape = tuple(-1 if i == along else 1 for i in range(x.ndim))
        share = constant(np.arange(width) / max(width, 1), x).to(edge.dtype if edge.dtype.kind in "fc" else np.float64).reshape(shape)
        found = end + (edge - end) * share
        return cast(rounding.floor(found) if x.dtype.kind in "iu" else found, x.dtype)

    head = ramp(_part(x, along, 0, 1), first, before)
    tail = ramp(_part(x, along, x.shape[along] - 1, None), last, behind).flip(along)
    return concatenate([head, x, tail], along)


def _statistic(reduced: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def ends(x: Tensor, along: int, before: int, behind: int, options: dict[str, Any]) -> Tensor:
        size = x.shape[along]
        lengths = options.get("stat_length")
        counts = [size, size] if lengths is None else np.broadcast_to(np.asarray(lengths), (x.ndim, 2))[along].tolist()
        parts = []
        for count, width, first in ((counts[0], before, True), (counts[1], behind, False)):
            taken = _part(x, along, 0, min(count, size)) if first else _part(x, along, size - min(count, size), None)
            value = reduced(taken, along)
            value = rounding.round(value) if x.dtype.kind in "iu" and value.dtype.kind == "f" else value
            parts.append(cast(value, x.dtype).broadcast_to(sizes_with(x, along, width)))
        return concatenate([parts[0], x, parts[1]], along)

    return ends


_ENDS: dict[Any, Callable[..., Tensor]] = {
    "constant": _constant_ends, "linear_ramp": _ramps, "maximum": _statistic(lambda x, i: minmax.amax(x, (i,), True)),
    "minimum": _statistic(lambda x, i: minmax.amin(x, (i,), True)), "mean": _statistic(lambda x, i: reduce.mean(floating(x), (i,), True)),
    "median": _statistic(lambda x, i: median(x, i, keepdims=True)),
}  # fmt: skip


# ---- a function of the user's along axes ------------------------------------------------------------------------------------------


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """A function of vectors, on each line along an axis."""
    x = tensor_of(arr, first_tensor((arr, args)))
    along = axis_of(axis, x.ndim)
    rest = tuple(n for i, n in enumerate(x.shape) if i != along)
    lines = x.movedim(along, -1).reshape((-1, x.shape[along]))
    if not lines.shape[0]:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    found = [tensor_of(func1d(lines[i], *args, **kwargs), x) for i in range(lines.shape[0])]
    result = stack(found).reshape((*rest, *found[0].shape))
    count, first = found[0].ndim, len(rest)
    return result.movedim(tuple(range(first, first + count)), tuple(range(along, along + count))) if count else result


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """A function ``func(a, axis)`` over one axis after the other, which stay with size one."""
    x = tensor_of(a)
    for axis in np.atleast_1d(axes).tolist():
        found = func(x, axis_of(axis, x.ndim))
        x = found if found.ndim == x.ndim else found.unsqueeze(axis_of(axis, x.ndim))
    return x
