"""Tensors from data: Python numbers, nested lists, arrays of either library."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gradlib.backend import dlpack, dtype as dtypes
from gradlib.backend.array import Array, cupy, device_index, is_array, is_cupy, move, namespace, on_device_of
from gradlib.backend.device import resolve
from gradlib.core.batched import Batched
from gradlib.core.tensor import Tensor, wrap
from gradlib.ops.create import finished

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "tensor"]

_NUMBERS = {bool, int, float, complex}


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A new tensor with a copy of the data; the way to make a leaf from Python numbers or an array.

    Args:
        data: a number, nested lists of numbers or of 0-d tensors, a NumPy or CuPy array, what has ``__cuda_array_interface__``, a Tensor.
        dtype: defaults to that of an array; Python floats become the default dtype, ints int64, bools bool.
        device: defaults to that of an array or Tensor, and to the default device for Python data.
        requires_grad: record operations on it. pin_memory: put it in page-locked memory of the host.
    Raises: ValueError for ragged lists, TypeError for strings, RuntimeError for what has no dtype.
    Source: torch.tensor.
    Example:
        >>> gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    chosen = dtypes.as_dtype(dtype)
    if isinstance(data, Batched):  # its array is that of one example
        made = data.detach().to(dtype=chosen, device=device, copy=True)
        return made.requires_grad_() if requires_grad else made
    data = data._array if isinstance(data, Tensor) else _shared(data)
    if is_array(data):
        place = device_index(data) if device is None and is_cupy(data) else resolve(device)
        with on_device_of(data):
            copied = namespace(data).array(data, dtype=chosen or _supported(data.dtype), order="K", copy=True, subok=False)
        return finished(move(copied, place), requires_grad, pin_memory)
    return finished(move(_from_python(data, chosen), resolve(device)), requires_grad, pin_memory)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the data without a copy where none is needed: arrays share their memory, a Tensor is returned as it is.

    Args:
        data: as for ``tensor``. A Tensor that must change dtype or device is converted, and stays part of its graph.
        dtype, device: what it should have; a copy is made only when the data has another.
    Source: torch.as_tensor.
    Example:
        >>> gradlib.as_tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    chosen = dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if chosen is None and device is None else data.to(dtype=chosen, device=device)
    data = _shared(data)
    if not is_array(data):
        return tensor(data, dtype=dtype, device=device)
    array = _plain(data)
    if chosen is not None and array.dtype != chosen:
        with on_device_of(array):
            array = array.astype(chosen)
    return wrap(array if device is None and is_cupy(array) else move(array, resolve(device)))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A CPU tensor that shares the NumPy array's memory: writing one writes the other.

    Args:
        ndarray: an array of any shape, whose memory is shared.
    Raises: TypeError for anything but a NumPy array, and for a dtype that gradlib does not have; ValueError for foreign byte order.
    Source: torch.from_numpy.
    Example:
        >>> gradlib.from_numpy(numpy.zeros(2))
        tensor([0., 0.], dtype=float64)
    """
    if not isinstance(ndarray, np.ndarray):
        kind = type(ndarray)
        raise TypeError(f"expected np.ndarray (got {kind.__module__}.{kind.__name__}); gradlib.as_tensor takes others")
    return wrap(_plain(ndarray))


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares another library's memory by DLPack: writing one writes the other, which the version counter does not see.

    Args:
        ext_tensor: an array of NumPy, CuPy, PyTorch, JAX or any object with ``__dlpack__``; or a capsule, which can be taken once.
        device: where the tensor is wanted; where the memory lies by default.
        copy: True for memory of its own, False to refuse where that would be needed.
    Returns: a tensor, read-only where the other side says that its memory is, or, by an old form of the protocol, cannot say.
    Raises: BufferError for what cannot be shared; ValueError when ``copy=False`` and another device is asked for.
    Source: torch.from_dlpack.
    Example:
        >>> array = numpy.zeros(2)
        >>> gradlib.from_dlpack(array)[0] = 1
        >>> array
        array([1., 0.])
    """
    array = dlpack.imported(ext_tensor)
    wanted = device_index(array) if device is None else resolve(device)
    if wanted != device_index(array):
        if copy is False:
            raise ValueError(f"memory on {wrap(array).device} cannot be shared with {device}; leave copy unset")
        array, copy = move(array, wanted), None
    result = wrap(_plain(array))
    return result.clone() if copy else result


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of any data, copied when ``copy`` is true or when needed.

    Args:
        obj: a tensor, an array, numbers, or nested lists of them.
        dtype, device, requires_grad: as in ``tensor``.
        copy: True always copies, False never; None only where it must.
    Raises: ValueError when ``copy=False`` and a copy is needed.
    Source: torch.asarray.
    Example:
        >>> gradlib.asarray([1.0, 2.0])
        tensor([1., 2.])
    """
    if not isinstance(obj, Tensor):
        obj = _shared(obj)
    result = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    if copy is False and not (result is obj or (is_array(obj) and _is_same_memory(result._array, obj))):
        raise ValueError(f"can't alias data of type {type(obj).__name__} with dtype {result.dtype} on {result.device}; leave copy unset")
    return result.want_grad() if requires_grad else result


def _is_same_memory(a: Array, b: Array) -> bool:
    return device_index(a) == device_index(b) and bool(namespace(a).shares_memory(a, b))


def _shared(data: Any) -> Any:
    """A CuPy array around the memory of another library's array on a CUDA device; anything else as it is."""
    return cupy().asarray(data) if hasattr(data, "__cuda_array_interface__") and not is_cupy(data) else data


def _supported(dtype: np.dtype) -> np.dtype:
    """gradlib's own object for a dtype. Raises: TypeError for elements that gradlib does not hold."""
    if dtype.kind in "biufcV" and dtype.name not in ("longdouble", "float128", "clongdouble", "complex256", "float96", "complex192"):
        with contextlib.suppress(TypeError):
            return dtypes.as_dtype(np.dtype(dtype.type)) or dtype
    raise TypeError(
        f"can't convert an array of type {dtype}; gradlib holds bool, integers, float16 to float64, bfloat16, complex64 and complex128"
    )


def _plain(array: Array) -> Array:
    """The same memory as an array of the base class with a native, canonical dtype."""
    dtype = _supported(array.dtype)
    if not array.dtype.isnative:
        raise ValueError(
            f"given array has byte order different from the native byte order ({array.dtype}); convert it with .astype({dtype})"
        )
    if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return array if array.dtype is dtype else array.view(dtype)


def _leaf_types(data: Any) -> set[type]:
    """The types of what stands in nested lists."""
    if not isinstance(data, (list, tuple)):
        return {type(data)}
    types = set(map(type, data))
    return types if types <= _NUMBERS else set().union(*map(_leaf_types, data))


def _from_python(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """A NumPy array from numbers, nested lists of them, 0-d tensors among them, or anything that NumPy reads as an array."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type {type(data).__name__!r}")
    types = _leaf_types(data)
    if not types <= _NUMBERS:
        if types & {str, bytes}:
            raise ValueError("too many dimensions 'str': a tensor holds numbers, got strings")
        if any(issubclass(t, Tensor) for t in types):
            data = _without_tensors(data)
    integers = bool(types) and types <= {bool, int}
    try:
        array = np.array(data, np.uint64 if integers and dtype == np.uint64 else None)
    except ValueError as error:
        raise ValueError(f"expected nested sequences of equal length at every level ({error})") from None
    beyond_int64 = (array.dtype.kind == "u" and types <= _NUMBERS) or (array.dtype.kind == "f" and integers)
    if array.dtype.kind not in "biufcV" or (beyond_int64 and dtype != np.uint64):
        if not types <= _NUMBERS:
            raise RuntimeError(f"Could not infer dtype of {_names(types)}")
        if dtype is None or dtype.kind in "iu":
            raise ValueError("Overflow: an integer does not fit int64")
        array = np.array(data, np.complex128 if dtype.kind == "c" else np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return _cast(array, dtype or _natural(array, types, data))


def _natural(array: np.ndarray, types: set[type], data: Any) -> np.dtype:
    """The dtype that this data has as a tensor."""
    if array.size == 0 and types <= _NUMBERS:
        return dtypes.get_default_dtype()
    if types <= _NUMBERS:
        return dtypes.scalar_dtype(array.dtype.type())
    return dtypes.result_type(*_typical(data)) if len(types) > 1 else _supported(array.dtype)


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"must be real number, not complex (dtype={dtype})")
    if array.dtype.kind in "iuf" and dtype.kind in "iu" and array.size:
        bounds = np.iinfo(dtype)
        low, high = array.min().item(), array.max().item()
        lowest = bounds.min if bounds.min or array.dtype.kind == "f" else -bounds.max  # an integer may wrap, as in C
        if not (high <= bounds.max and low >= lowest):  # nor if they are NaN
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: the data reach from {low} to {high}")
    return array.astype(dtype, copy=False)


def _names(types: set[type]) -> str:
    return ", ".join(sorted(t.__name__ for t in types)) or "an empty object"


def _without_tensors(data: Any) -> Any:
    """Nested lists with every Tensor replaced by its only element, as a NumPy scalar."""
    if isinstance(data, Batched):
        raise RuntimeError("vmap: a Tensor that is batched over stands in a list of numbers; join such Tensors with gradlib.stack")
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, got shape {list(data.shape)}; use gradlib.stack"
            )
        return move(data._array, None).reshape(-1)[0]
    return [_without_tensors(x) for x in data] if isinstance(data, (list, tuple)) else data


def _typical(data: Any) -> list[Any]:
    """An array or number for each leaf of nested lists, of the leaf's dtype; all count alike in promotion."""
    if isinstance(data, (list, tuple)):
        return [leaf for x in data for leaf in _typical(x)]
    return [np.empty(0, getattr(data, "dtype", None) or dtypes.scalar_dtype(data))]
