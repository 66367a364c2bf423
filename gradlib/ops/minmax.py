"""Reductions that choose: the largest and smallest elements, their places, and the median."""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import SMALL, Namespace, has_nan, is_array, zero_d
from gradlib.backend.copying import row_major
from gradlib.backend.flat_index import take_along_axis
from gradlib.backend.line_slopes import slope
from gradlib.backend.lines import first_extremes, has_short_lines, reduced
from gradlib.backend.reducing import extreme as smallest_or_largest
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
from gradlib.ops.create import ones_like
from gradlib.ops.dims import wrap_dim
from gradlib.ops.reduce import axes, kept, spread, sum, tangent
from gradlib.ops.select import maximum, minimum, where_op
from gradlib.ops.take_along import put_along, take_along

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]


def _refuse(name: str, input: Any, dim: Any, error: type[Exception] = RuntimeError) -> None:
    """Raise torch's errors for an empty input, and for complex numbers, which have no order."""
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name}(): does not support complex input, which has no order; take .abs() or .real first (got {input.dtype})")
    if input.size:
        return
    if dim is None or dim in ((), []):
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0 (shape {list(input.shape)}). "
            "Specify the reduction dim with the 'dim' argument."
        )
    for each in dim if isinstance(dim, (tuple, list)) else (dim,):  # of which one may appear twice
        if input.shape[wrap_dim(each, input.ndim)] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {each} to have non-zero size, got shape {list(input.shape)}.")


def _extreme(xp: Namespace, name: str, input: Any, axis: Any, keepdim: bool) -> Any:
    """The array's method ``max`` or ``min``, on the host by what NumPy's calls."""
    if xp is np and axis is None and not keepdim and input.size <= _PLACED and input.dtype.kind in "fiub":
        place = input.argmax() if name == "max" else input.argmin()
        return np.array(input.item(place), input.dtype)  # half the time of a reduction; both take NaN for the extreme
    if xp is np and axis == input.ndim - 1 and _LINES * input.shape[-1] <= input.size <= _PLACED and input.flags.c_contiguous:
        places = input.argmax(axis, keepdims=keepdim) if name == "max" else input.argmin(axis, keepdims=keepdim)
        places += _begins(input.shape, places.shape)
        return input.reshape(-1)[places]
    if xp is np:
        return reduced(np.maximum if name == "max" else np.minimum, input, axis, keepdim)
    return getattr(input, name)(axis=axis, keepdims=keepdim)


@functools.lru_cache(maxsize=16)
def _begins(shape: tuple[int, ...], left: tuple[int, ...]) -> Any:
    """Where each line along the last dimension begins in the array read as one."""
    return np.arange(0, math.prod(shape), shape[-1]).reshape(left)


_PLACED = 1 << 15  # elements up to which it takes less time to find the place
_LINES = 100  # of which, and of more, the same is true; fewer, and so longer, ones take no longer either way


def _on_device(name: str, placed: bool) -> Any:
    """The kernel of ``max`` or ``min`` over any dimensions, or over one, with the places."""

    def run(input: Any, dim: Any, keepdim: bool) -> Any:
        if (placed and not input.ndim) or not input.size:
            return None
        axis = dim
        if dim is not None and (placed or type(dim) is not int):
            axis = wrap_dim(dim, input.ndim) if placed else axes(input.ndim, dim)
        made = smallest_or_largest(name, input, axis, keepdim, placed)
        return made if placed or made is None else made[0]

    return run


def _all_on_device(name: str) -> Any:
    """The same of ``max_all`` or ``min_all``."""

    def run(input: Any, lead: int) -> Any:
        made = smallest_or_largest(name, input, tuple(range(lead, input.ndim)) if lead else None, False, False)
        return None if made is None else made[0]

    return run


def _shares_on_device(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    return slope("extreme", g, input.shape, None if dim is None else axes(input.ndim, dim), input, out)


def shares_of_all_on_device(g: Any, input: Any, out: Any, lead: int) -> Any:
    """The kernel of `share_of_all`."""
    return slope("extreme", g, input.shape, tuple(range(lead, input.ndim)) if lead else None, input, out, True)


def picked_on_device(g: Any, indices: Any, dim: int, keepdim: bool, input_shape: tuple[int, ...]) -> Any:
    """The kernel of `picked`."""
    return slope("picked", g[0], input_shape, dim, None, indices) if input_shape else None


# ---- over any dimensions: ties share the gradient -----------------------------------------------------------------------------


def _shared(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient goes in equal parts to all elements that attain the extreme; it is NaN where that is."""
    if type(g) is type(input) is np.ndarray and input.size <= SMALL and g.dtype.char in "fd" and not has_nan(out):
        return _shared_of_few(g, input, out, dim, keepdim)
    mask = input == spread(out, input.shape, dim, keepdim)
    number = sum(mask, dim, keepdim, dtype=dtypes.float32 if g.dtype.itemsize == 2 else g.dtype)
    if type(out) is np.ndarray and not has_nan(out):
        return where_op(mask, spread(g / number, input.shape, dim, keepdim), 0)
    share = where_op(out == out, g / number, math.nan)  # no element equals a NaN
    return where_op(mask | spread(out != out, input.shape, dim, keepdim), spread(share, input.shape, dim, keepdim), 0)


def _shared_tangent(t_input: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    share = _shared(ones_like(out), input, out, dim, keepdim)
    return tangent(where_op(share == 0, 0.0, t_input), share, dim, keepdim)  # NaN of what was not chosen counts for nothing


def _shared_of_few(g: np.ndarray, input: np.ndarray, out: np.ndarray, dim: Any, keepdim: bool) -> Any:
    """The same of few of NumPy's float32 or float64, of which none is NaN."""
    if not keepdim:
        shape = kept(input.shape, dim)
        g, out = g.reshape(shape), out.reshape(shape)
    mask = input == out
    number = np.add.reduce(mask, axis=axes(input.ndim, dim), dtype=g.dtype, keepdims=True)
    return np.where(mask, g / number, zero_d(0.0, g.dtype))


@op("other", kernels={"out": _on_device("max", placed=False), "input": _shares_on_device}, input=_shared, jvp=_shared_tangent)
def amax(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Largest element over ``dim`` (a number, several, or all); its gradient is shared equally among ties.

    Args:
        input: any shape, real dtype.
        dim, keepdim: as in ``sum``.
    Raises: RuntimeError when there is nothing to choose from.
    Source: torch.amax.
    Example:
        >>> gradlib.amax(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        tensor([5, 3])
    """
    if not input.size or input.dtype.kind == "c":
        _refuse("amax", input, dim)
    return row_major(_extreme(xp, "max", input, axes(input.ndim, dim), keepdim))


@op("other", kernels={"out": _on_device("min", placed=False), "input": _shares_on_device}, input=_shared, jvp=_shared_tangent)
def amin(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Smallest element over ``dim`` (a number, several, or all); its gradient is shared equally among ties.

    Args:
        input: any shape, real dtype.
        dim, keepdim: as in ``sum``.
    Raises: RuntimeError when there is nothing to choose from.
    Source: torch.amin.
    Example:
        >>> gradlib.amin(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        tensor([1, 2])
    """
    if not input.size or input.dtype.kind == "c":
        _refuse("amin", input, dim)
    return row_major(_extreme(xp, "min", input, axes(input.ndim, dim), keepdim))


# ---- over one dimension: the chosen element gets the gradient ------------------------------------------------------------------


def picked(g: Any, indices: Any, dim: int, keepdim: bool, input_shape: tuple[int, ...]) -> Any:
    """The gradient goes to the element that was chosen."""
    if not input_shape:
        return g[0]
    shape = kept(input_shape, dim)
    return put_along(g[0].reshape(shape), indices.reshape(shape), wrap_dim(dim, len(input_shape)), input_shape)


def picked_tangent(t_input: Any, indices: Any, dim: int, keepdim: bool) -> Any:
    """The tangent of the element that was chosen; its place has none."""
    if not t_input.ndim:
        return t_input, None
    dim = wrap_dim(dim, t_input.ndim)
    made = take_along(t_input, indices.reshape(kept(t_input.shape, dim)), dim)
    return (made if keepdim else made.squeeze(dim)), None


def _chosen(xp: Namespace, name: str, input: Any, dim: int, keepdim: bool) -> Any:
    """The extreme elements along ``dim`` with their indices."""
    if not input.size or input.dtype.kind == "c":
        _refuse(name, input, dim)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), "int64")
    if xp is np and has_short_lines(input, dim):
        found = first_extremes(np.maximum if name == "max" else np.minimum, input)
        if found is not None:
            return (found[0][..., None], found[1][..., None]) if keepdim else found
    indices = (input.argmax if name == "max" else input.argmin)(axis=dim, keepdims=True)
    values = take_along_axis(xp, input, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@op(
    "other", outputs=("values", "indices"), differentiable=(0,), input=picked, jvp=picked_tangent,
    kernels={"out": _on_device("max", placed=True), "input": picked_on_device},
)  # fmt: skip
def max_op(xp: Namespace, input: Any, dim: int, keepdim: bool = False) -> Any:
    """``max(input, dim)`` as a plain pair."""
    return _chosen(xp, "max", input, dim, keepdim)


@op(
    "other", outputs=("values", "indices"), differentiable=(0,), input=picked, jvp=picked_tangent,
    kernels={"out": _on_device("min", placed=True), "input": picked_on_device},
)  # fmt: skip
def min_op(xp: Namespace, input: Any, dim: int, keepdim: bool = False) -> Any:
    """``min(input, dim)`` as a plain pair."""
    return _chosen(xp, "min", input, dim, keepdim)


def share_of_all(g: Any, input: Any, out: Any, lead: int) -> Any:
    """Share a gradient in equal parts among all elements that attain the result, or are NaN when it is."""
    if not lead and type(g) is type(input) is np.ndarray and g.dtype.char in "fd":
        mask = input != input if has_nan(out) else input == out
        made = np.zeros(input.shape, g.dtype)
        made[mask] = g / np.count_nonzero(mask)
        return made
    if not lead:
        mask = (input == out) | (input != input)
        return where_op(mask, g / sum(mask), 0)
    behind = (1,) * (input.ndim - lead)
    mask = (input == out.reshape((*out.shape, *behind))) | (input != input)
    return where_op(mask, (g / sum(mask, tuple(range(lead, input.ndim)))).reshape((*g.shape, *behind)), 0)


def tangent_of_all(t_input: Any, input: Any, out: Any, lead: int) -> Any:
    """The tangent of what shares its gradient by `share_of_all`."""
    share = share_of_all(ones_like(out), input, out, lead)
    return tangent(where_op(share == 0, 0.0, t_input), share, tuple(range(lead, input.ndim)) if lead else None)


@op(
    "other", method=False, label="max", input=share_of_all, jvp=tangent_of_all,
    kernels={"out": _all_on_device("max"), "input": shares_of_all_on_device},
)  # fmt: skip
def max_all(xp: Namespace, input: Any, lead: int = 0) -> Any:
    """Largest element of all, as ``max(input)`` gives it; or of all behind the first ``lead`` dimensions, each by itself."""
    return _extreme_of_all(xp, "max", input, lead)


@op(
    "other", method=False, label="min", input=share_of_all, jvp=tangent_of_all,
    kernels={"out": _all_on_device("min"), "input": shares_of_all_on_device},
)  # fmt: skip
def min_all(xp: Namespace, input: Any, lead: int = 0) -> Any:
    """Smallest element of all, as ``min(input)`` gives it; or of all behind the first ``lead`` dimensions, each by itself."""
    return _extreme_of_all(xp, "min", input, lead)


def _extreme_of_all(xp: Namespace, name: str, input: Any, lead: int) -> Any:
    if not input.size or input.dtype.kind == "c":
        _refuse(name, input, None)
    return _extreme(xp, name, input, tuple(range(lead, input.ndim)) if lead else None, False)


Max = namedtuple("Max", ["values", "indices"])
Min = namedtuple("Min", ["values", "indices"])
MinMax = namedtuple("MinMax", ["min", "max"])


@composite
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Largest element: of all, along one dimension, or of each pair.

    ``max(x)`` is a 0-d tensor, whose gradient is shared equally among ties; ``max(x, dim)`` the pair (values, indices) along dim, where
    the gradient goes to the chosen element; ``max(x, y)`` is ``maximum(x, y)``.

    Args:
        input: any shape, real dtype.
        dim: the dimension to reduce, or the other tensor.
        keepdim: leave the reduced dimension with size 1.
    Returns: a tensor, or the named tuple (values, indices), indices of dtype int64.
    Raises: RuntimeError or IndexError when there is nothing to choose from.
    Source: torch.max.
    Example:
        >>> values, indices = gradlib.max(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        >>> values, indices
        (tensor([5, 3]), tensor([1, 0]))
    """
    if dim is None and other is None:
        return max_all(input, out=out)
    if other is not None or (type(dim) is not int and (isinstance(dim, Tensor) or is_array(dim))):
        return maximum(input, _other("max", dim, other), out=out)
    return Max(*max_op(input, dim, keepdim, out=out))


def _other(name: str, dim: Any, other: Any) -> Any:
    """The other tensor, which may stand in dim's place. Raises: TypeError where both are given."""
    if dim is not None and other is not None:
        raise TypeError(f"{name}() takes dim or other, got dim={dim!r} and a tensor as other")
    return dim if other is None else other


@composite
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """Smallest element: of all, along one dimension, or of each pair. Arguments and results as in ``max``.

    Args:
        input: any shape, real dtype.
        dim, keepdim, other: as in ``max``.
    Source: torch.min.
    Example:
        >>> values, indices = gradlib.min(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        >>> values, indices
        (tensor([1, 2]), tensor([0, 1]))
    """
    if dim is None and other is None:
        return min_all(input, out=out)
    if other is not None or (type(dim) is not int and (isinstance(dim, Tensor) or is_array(dim))):
        return minimum(input, _other("min", dim, other), out=out)
    return Min(*min_op(input, dim, keepdim, out=out))


@composite
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The named tuple (min, max) of all elements or along ``dim``, with the gradients of ``amin`` and ``amax``.

    Args:
        input: any shape, real dtype.
        dim, keepdim: as in ``amax``.
    Source: torch.aminmax.
    Example:
        >>> gradlib.aminmax(gradlib.tensor([3, 1, 2])).max
        tensor(3)
    """
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


# ---- places -------------------------------------------------------------------------------------------------------------------


def _place(xp: Namespace, name: str, input: Any, dim: int | None, keepdim: bool) -> Any:
    if input.dtype.kind == "b":
        raise RuntimeError(f"{name}(): does not support bool input; convert it first, for example with .int()")
    if not input.size or input.dtype.kind == "c":
        _refuse(name, input, dim, IndexError)
    dim = None if dim is None else wrap_dim(dim, input.ndim)
    if not input.ndim:
        return xp.zeros((), "int64")
    made = None
    if xp is np and dim is not None and has_short_lines(input, dim):
        made = first_extremes(np.maximum if name == "argmax" else np.minimum, input)
    found: Any = getattr(input, name)(axis=dim) if made is None else made[1]
    return found.reshape(kept(input.shape, dim)) if keepdim else found


def _place_on_device(name: str) -> Any:
    """The kernel of ``argmax`` or ``argmin``."""

    def run(input: Any, dim: int | None, keepdim: bool) -> Any:
        if not input.ndim or input.dtype.kind == "b":
            return None
        lines, axis = (input.reshape(-1), 0) if dim is None else (input, wrap_dim(dim, input.ndim))
        made = smallest_or_largest(name, lines, axis, keepdim, True)
        found: Any = None if made is None else made[1]
        return found.reshape(kept(input.shape, None)) if found is not None and keepdim and dim is None else found

    return run


@op("none", also=("input",), kernels={"out": _place_on_device("max")})
def argmax(xp: Namespace, input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index (int64) of the first largest element along ``dim`` or of the flattened input; NaN counts as the largest.

    Args:
        input: any shape, real dtype.
        dim: one dimension; the place in the flattened tensor when left out.
        keepdim: keep it, with size 1.
    Source: torch.argmax.
    Example:
        >>> gradlib.argmax(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        tensor([1, 0])
    """
    return _place(xp, "argmax", input, dim, keepdim)


@op("none", also=("input",), kernels={"out": _place_on_device("min")})
def argmin(xp: Namespace, input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index (int64) of the first smallest element along ``dim`` or of the flattened input; NaN counts as the smallest.

    Args:
        input: any shape, real dtype.
        dim: one dimension; the place in the flattened tensor when left out.
        keepdim: keep it, with size 1.
    Source: torch.argmin.
    Example:
        >>> gradlib.argmin(gradlib.tensor([[1, 5], [3, 2]]), dim=1)
        tensor([0, 1])
    """
    return _place(xp, "argmin", input, dim, keepdim)
