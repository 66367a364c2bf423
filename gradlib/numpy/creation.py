"""New arrays: from data, of one value, like another, spaced; with NumPy's arguments."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import cast, first_tensor, full_sizes, held, promoted, sizes_of, tensor_of
from gradlib.numpy.registry import implements, numpy_function
from gradlib.ops import broadcast, create, join, rounding

# ---- array, asarray and full: NumPy dispatches these to no protocol, so gradlib.numpy has its own --------------------------------


@implements(np.array)
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, like: Any = None
) -> Tensor:
    """A Tensor of Tensors and numbers in nested lists, which carries their derivatives."""
    x = tensor_of(object, first_tensor(object))
    made = cast(x, dtype)
    if copy is False and made is not object:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if made is object and copy:
        made = made.clone()
    return made.reshape((*[1] * (ndmin - made.ndim), *made.shape)) if ndmin > made.ndim else made


@implements(np.asarray, np.asanyarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Tensor:
    """A Tensor as it is; lists of Tensors and numbers stacked."""
    return array(a, dtype, copy=copy)


@implements(np.ascontiguousarray, np.asfortranarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """As ``asarray``, of at least one dimension."""
    return array(a, dtype, copy=None, ndmin=1)


@implements(np.asarray_chkfinite)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """The same, of finite numbers only."""
    x = asarray(a, dtype)
    if not bool(x.detach().isfinite().all()):
        raise ValueError("array must not contain infs or NaNs")
    return x


@implements(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """One value everywhere, that of a Tensor."""
    return cast(tensor_of(fill_value), dtype).broadcast_to(sizes_of(shape)).clone()


# ---- like another, spaced, and grids -------------------------------------------------------------------------------------------


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Tensor, tuple[int, ...], np.dtype]:
    x = tensor_of(a)
    return x, tuple(x.shape) if shape is None else full_sizes(shape), x.dtype if dtype is None else held(dtype)


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Zeros of the same shape, dtype and device."""
    x, sizes, chosen = _like(a, dtype, shape)
    return x.new_zeros(sizes, dtype=chosen)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Ones of the same shape, dtype and device."""
    x, sizes, chosen = _like(a, dtype, shape)
    return x.new_ones(sizes, dtype=chosen)


@implements(np.empty_like)
def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Tensor:
    """Values that may be anything, of the same shape, dtype and device."""
    x, sizes, chosen = _like(prototype, dtype, shape)
    return x.new_empty(sizes, dtype=chosen)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """One value everywhere, of the same shape, dtype and device; it may be a Tensor."""
    like = first_tensor((a, fill_value))
    _, sizes, chosen = _like(tensor_of(a, like), dtype, shape)
    return cast(tensor_of(fill_value, like), chosen).broadcast_to(sizes).clone()


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """A copy, which carries the derivative."""
    return tensor_of(a).clone()


@implements(numpy_function("astype"))
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The values in another dtype."""
    x, wanted = tensor_of(x), np.dtype(dtype)
    return cast(x, wanted) if x.dtype != wanted or not copy else x.clone()


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced numbers between ends, which may be Tensors."""
    first, last = promoted(start, stop, floating=True)
    first, last = broadcast.broadcast_tensors(first, last)
    parts = builtins.max(num - 1 if endpoint else num, 1)
    share = create.arange(num, dtype=first.dtype if first.dtype.kind != "c" else np.float64, device=first.device)
    share = (share / parts).reshape((num, *[1] * first.ndim))
    result = first + share * (last - first)
    if endpoint and num > 1:  # the end is exactly what was given
        result = join.cat([result[:-1], last.unsqueeze(0)], 0)
    if dtype is not None and np.dtype(dtype).kind in "iu":
        result = rounding.floor(result)
    result = cast(result.movedim(0, axis) if axis != 0 else result, dtype)
    return (result, (last - first) / parts) if retstep else result


@implements(np.logspace)
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Tensor:
    """Numbers evenly spaced on a logarithmic scale: powers of ``base``."""
    like = first_tensor((start, stop, base))
    if np.ndim(base) == 0:
        begin = start if first_tensor((start, stop)) is not None else tensor_of(start, like)
        power, exponents = promoted(base, linspace(begin, stop, num, endpoint, axis=axis))
        return cast(power**exponents, dtype)
    first, last, power = (tensor_of(value, like) for value in (start, stop, base))
    ndim = builtins.max(first.ndim, last.ndim, power.ndim)
    first, last, power = (x.reshape((*[1] * (ndim - x.ndim), *x.shape)) for x in (first, last, power))
    power, exponents = promoted(power.unsqueeze(axis), linspace(first, last, num, endpoint, axis=axis))
    return cast(power**exponents, dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """Numbers each of which is a constant multiple of the one before."""
    first, last = promoted(start, stop)
    first, last = promoted(first, last, dtype=np.result_type(first.dtype, np.float64))
    if bool((first.detach() == 0).any()) or bool((last.detach() == 0).any()):
        raise ValueError("Geometric sequence cannot include zero")
    turn = first.detach().sign() if first.dtype.kind != "c" else first
    share = linspace(first.new_zeros(()), first.new_ones(()), num, endpoint)
    share = share.reshape((num, *[1] * builtins.max(first.ndim, last.ndim)))
    size, ratio = first / turn, last / first
    result = turn * size * ratio**share
    return cast(result.movedim(0, axis) if axis != 0 else result, dtype)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Grids of coordinates from vectors of them."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    like, ndim = first_tensor(xi), len(xi)
    places = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else list(range(ndim))
    grids = [tensor_of(x, like).reshape(tuple(-1 if place == i else 1 for i in range(ndim))) for x, place in zip(xi, places, strict=True)]
    if not sparse:
        grids = list(broadcast.broadcast_tensors(*grids))
    return tuple(grid.clone() if copy else grid for grid in grids)
