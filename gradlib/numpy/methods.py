"""The methods of ufuncs on Tensors: reduce, accumulate, reduceat, outer and at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy import reductions, ufuncs
from gradlib.numpy.indexing import along_axis, chosen_tensors, target
from gradlib.numpy.operands import (
    all_tensors,
    axes_of,
    axis_of,
    cast,
    first_tensor,
    flat,
    held,
    sizes_with,
    tensor_of,
    value_of,
    written,
)
from gradlib.numpy.registry import refusal
from gradlib.ops import join, scan, softmax

Args = tuple[Any, ...]
Named = dict[str, Any]


def method(ufunc: Any, name: str, inputs: Args, kwargs: Named) -> Any:
    """One of a ufunc's methods, by its name. Raises: TypeError for a ufunc that Tensors have not, or that has not this method."""
    if ufunc not in ufuncs.DIRECT:
        raise refusal(ufunc)
    return _METHODS[name](ufunc, *inputs, **kwargs)


_REDUCE: dict[Any, Callable[..., Tensor]] = {
    np.add: reductions.sum, np.multiply: reductions.prod, np.maximum: reductions.max, np.minimum: reductions.min,
    np.logical_and: reductions.all, np.logical_or: reductions.any_,
}  # fmt: skip
_ACCUMULATE: dict[Any, Callable[..., Any]] = {
    np.add: scan.cumsum, np.multiply: scan.cumprod, np.maximum: lambda x, axis: scan.cummax(x, axis)[0],
    np.minimum: lambda x, axis: scan.cummin(x, axis)[0], np.logaddexp: scan.logcumsumexp,
}  # fmt: skip


def reduce(
    ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Tensor:  # fmt: skip
    """``ufunc.reduce``: the elements along axes taken together, by their own operation where there is one."""
    x = tensor_of(array)
    name = f"numpy.{ufunc.__name__}.reduce"
    if ufunc in (np.logical_and, np.logical_or):
        found = _REDUCE[ufunc](x, axis=axis, keepdims=keepdims, where=where)
        return written(found if initial is None else ufuncs.call(ufunc, tensor_of(initial, x), found), out, name)
    if ufunc in _REDUCE:
        options: Named = {"axis": axis, "keepdims": keepdims, "where": where, "out": out, "dtype": dtype}
        return _REDUCE[ufunc](x, **options | ({} if initial is None else {"initial": initial}))
    if where is not True:
        raise TypeError(f"{name} does not take where= for a Tensor; numpy.add.reduce and numpy.multiply.reduce do")
    axes = axes_of(axis, x.ndim)
    x = _to_loop(ufunc, x, dtype)
    if initial is None and ufunc in (np.hypot, np.gcd):
        initial = ufunc.identity  # with which NumPy begins; here it matters, to a negative number
    first = None if initial is None else tensor_of(initial, x, x.dtype)
    for along in sorted(axes, reverse=True):
        begin = first if along == min(axes) else None  # of several axes the order does not matter, else NumPy refuses
        if ufunc is np.logaddexp and x.shape[along]:
            x = softmax.logsumexp(x, along, True)
            x = x if begin is None else ufuncs.call(ufunc, begin, x)
        else:
            x = _folded(ufunc, x, along, begin)
    if not axes and first is not None:
        x = ufuncs.call(ufunc, first, x)
    return written(x if keepdims else x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in axes)), out, name)


def _to_loop(ufunc: Any, x: Tensor, dtype: Any) -> Tensor:
    """The elements in the dtype in which NumPy takes them together, which is that of the result."""
    if dtype is None and ufunc in (np.add, np.multiply) and x.dtype.kind in "biu":
        dtype = np.int64
    if dtype is None:
        try:
            dtype, other, _ = map(held, ufunc.resolve_dtypes((None, x.dtype, None), reduction=True))
        except TypeError:  # a dtype that NumPy's loops do not know
            return x
        if dtype != other:  # ldexp, whose call finds the dtypes
            return x
    return cast(x, dtype)


def _folded(ufunc: Any, x: Tensor, along: int, begin: Any = None) -> Tensor:
    """One element after the other."""
    parts = list(x.unbind(along))
    if begin is not None:
        parts.insert(0, begin.expand(tuple(n for i, n in enumerate(x.shape) if i != along)))
    elif not parts:
        if ufunc.identity is None:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        return x.new_full(sizes_with(x, along, 1), ufunc.identity)
    found = parts[0]
    for part in parts[1:]:
        found = ufuncs.call(ufunc, found, part)
    return found.unsqueeze(along)


def accumulate(ufunc: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
    """``ufunc.accumulate``: the reductions of all beginnings."""
    x = _to_loop(ufunc, tensor_of(array), dtype)
    along = axis_of(axis, x.ndim)
    if ufunc in _ACCUMULATE:
        return written(_ACCUMULATE[ufunc](x, along), out, f"numpy.{ufunc.__name__}.accumulate")
    parts = list(x.unbind(along))
    for i in range(1, len(parts)):
        parts[i] = ufuncs.call(ufunc, parts[i - 1], parts[i])
    return written(join.stack(parts, along) if parts else x.clone(), out, f"numpy.{ufunc.__name__}.accumulate")


def reduceat(ufunc: Any, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
    """``ufunc.reduceat``: the reductions of slices between these places; of one element where the next place is no further."""
    x, along = flat(tensor_of(array, first_tensor(indices)), axis)
    x = _to_loop(ufunc, x, dtype)
    starts = [int(i) for i in np.asarray(value_of(indices)).ravel()]
    for place in starts:
        if not 0 <= place < x.shape[along]:
            raise IndexError(f"index {place} out-of-bounds in {ufunc.__name__}.reduceat [0, {x.shape[along]})")
    parts = []
    for a, b in zip(starts, [*starts[1:], x.shape[along]], strict=False):
        part = x[along_axis(along, slice(a, b))] if a < b else x[along_axis(along, slice(a, a + 1))]
        parts.append(reduce(ufunc, part, along, x.dtype, keepdims=True) if ufunc in _REDUCE else _folded(ufunc, part, along))
    found = join.cat(parts, along) if parts else x[along_axis(along, slice(0, 0))]
    return written(found, out, f"numpy.{ufunc.__name__}.reduceat")


def outer(ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    """``ufunc.outer``: each element of a with each of b."""
    x, y = all_tensors((a, b))
    return ufuncs.call(ufunc, x.reshape((*x.shape, *[1] * y.ndim)), y, **kwargs)


def at(ufunc: Any, a: Any, indices: Any, b: Any = None) -> None:
    """``ufunc.at``: in place at these places, at those named twice one after the other; a carries the derivative.

    Raises: TypeError where a is an array, and for places named twice by other ufuncs than add and subtract.
    """
    target(a, f"{ufunc.__name__}.at")
    key = tuple(map(value_of, indices)) if isinstance(indices, tuple) else (value_of(indices),)
    taken = np.arange(a.numel()).reshape(tuple(a.shape))[key]
    if ufunc in (np.add, np.subtract):
        values = cast(tensor_of(b, a), a.dtype).broadcast_to(taken.shape).reshape((-1,))
        places = chosen_tensors(np.unravel_index(taken.ravel(), tuple(a.shape)), a)
        a.index_put_(places, values if ufunc is np.add else -values, accumulate=True)
        return
    if len(np.unique(taken)) < taken.size:
        raise TypeError(
            f"numpy.{ufunc.__name__}.at does not take places that are named twice for a Tensor; numpy.add.at and numpy.subtract.at do"
        )
    a[key] = cast(ufuncs.call(ufunc, a[key]) if b is None else ufuncs.call(ufunc, a[key], b), a.dtype)


_METHODS: dict[str, Callable[..., Any]] = {"reduce": reduce, "accumulate": accumulate, "reduceat": reduceat, "outer": outer, "at": at}
