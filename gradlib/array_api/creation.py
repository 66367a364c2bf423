"""New arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.array_api.array import standard
from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor
from gradlib.ops import broadcast, create, from_data, rearrange
from gradlib.ops.convert import to
from gradlib.ops.copies import clone
from gradlib.ops.shape import view_as

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


@standard
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """An array of numbers, nested lists, or of what another library holds; a Tensor's, or an array's, memory is shared where it can be.

    Args:
        obj: a number, nested lists, a NumPy or CuPy array, a Tensor, or what has ``__dlpack__`` or a buffer.
        dtype, device: what it should have.
        copy: True for memory of its own, False to refuse where that would be needed, None for as little as it takes.
    Raises: ValueError where ``copy=False`` cannot be had.
    """
    if isinstance(obj, Tensor):
        changed = (dtype is not None and dtypes.as_dtype(dtype) != obj.dtype) or (device is not None and _elsewhere(obj, device))
        if changed and copy is False:
            raise ValueError(f"asarray: an array of {obj.dtype} on {obj.device} has no other dtype or device without a copy")
        made = obj.to(device=device, dtype=dtype) if changed else clone(obj) if copy else obj
        return view_as(made, made) if made is obj and type(obj) is Tensor else made
    return from_data.asarray(_array_of(obj), dtype=dtype, device=device, copy=copy)


def _array_of(obj: Any) -> Any:
    """Lists that hold arrays of no dimensions as lists of numbers; what has a buffer as NumPy's array of it."""
    if isinstance(obj, (list, tuple)):
        return [_array_of(each.item() if isinstance(each, Tensor) and not each.ndim else each) for each in obj]
    return np.asarray(obj) if isinstance(obj, (memoryview, bytes, bytearray)) else obj


def _elsewhere(x: Any, device: Any) -> bool:
    return create.empty(0, device=device).device != x.device


@standard
def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array that shares another library's memory by DLPack."""
    return from_data.from_dlpack(x, device=device, copy=copy)


@standard
def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """Evenly spaced numbers from start up to stop, which is left out; from 0 where only one is given."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step <= 0:
        kind = dtypes.int64 if _all_integers(start, stop, step) else dtypes.get_default_dtype()
        return create.empty(0, dtype=dtype or kind, device=device)
    return create.arange(start, stop, step, dtype=dtype, device=device)


def _all_integers(*numbers: Any) -> bool:
    return not any(isinstance(number, (float, complex)) for number in numbers)


@standard
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of whatever the memory held before."""
    return create.empty(shape, dtype=dtype, device=device)


@standard
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros."""
    return create.zeros(shape, dtype=dtype, device=device)


@standard
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ones."""
    return create.ones(shape, dtype=dtype, device=device)


@standard
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one number everywhere."""
    return create.full(shape if isinstance(shape, (tuple, list)) else (shape,), fill_value, dtype=dtype, device=device)


@standard
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of another's shape, dtype and device, of whatever the memory held before."""
    return create.empty_like(x, dtype=dtype, device=device)


@standard
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros of another's shape, dtype and device."""
    return create.zeros_like(x, dtype=dtype, device=device)


@standard
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ones of another's shape, dtype and device."""
    return create.ones_like(x, dtype=dtype, device=device)


@standard
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one number everywhere, of another's shape, dtype and device."""
    return create.full_like(x, fill_value, dtype=dtype, device=device)


@standard
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """A matrix with ones on its k-th diagonal, counted upwards, and zeros elsewhere."""
    rows = create.arange(n_rows, device=device)[:, None]
    columns = create.arange(n_rows if n_cols is None else n_cols, device=device)[None, :]
    return to(rows + k == columns, dtypes.as_dtype(dtype) or dtypes.get_default_dtype())


@standard
def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Any:
    """``num`` evenly spaced numbers from start to stop, which is the last of them, or the one behind it (``endpoint=False``)."""
    kind = dtypes.to_complex(dtypes.get_default_dtype()) if isinstance(start, complex) or isinstance(stop, complex) else None
    wanted = dtypes.as_dtype(dtype) or kind or dtypes.get_default_dtype()
    if endpoint or not num:
        return create.linspace(start, stop, num, dtype=wanted, device=device)
    return create.linspace(start, stop, num + 1, dtype=wanted, device=device)[:-1]


@standard
def meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    """Each array spread over a grid that has a dimension for each of them; with "xy" the first two dimensions change places."""
    return list(broadcast.meshgrid(*arrays, indexing=indexing))


@standard
def tril(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros above the k-th diagonal."""
    return rearrange.tril(x, k)


@standard
def triu(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros below the k-th diagonal."""
    return rearrange.triu(x, k)
