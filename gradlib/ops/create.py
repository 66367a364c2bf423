"""New tensors: from data, filled with a value, evenly spaced. None of these is differentiable."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, Namespace, cupy, device_index, is_array, is_cupy, move, namespace, on_device_of
from gradlib.backend.device import resolve
from gradlib.core.tensor import Tensor, as_array, wrap
from gradlib.ops.dims import sizes_of

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "linspace", "logspace",
    "ones", "ones_like", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip

_NUMBERS = {bool, int, float, complex}


def at(device: Any) -> tuple[Namespace, Any]:
    """The namespace for a ``device=`` argument and a context in which it allocates there."""
    index = resolve(device)
    return (np, contextlib.nullcontext()) if index is None else (cupy(), cupy().cuda.Device(index))


def finished(array: Array, requires_grad: bool) -> Tensor:
    """A new tensor around an array, as a leaf that wants a gradient where asked."""
    made = wrap(array)
    return made.requires_grad_() if requires_grad else made


# ---- from data ------------------------------------------------------------------------------------------------------------------


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A new tensor with a copy of the data; the way to make a leaf from Python numbers or an array.

    Args:
        data: a number, nested lists of numbers or of 0-d tensors, a NumPy or CuPy array, a Tensor.
        dtype: defaults to that of an array; Python floats become the default dtype, ints int64, bools bool.
        device: defaults to that of an array or Tensor, and to the default device for Python data.
        requires_grad: record operations on it. pin_memory: accepted; it has no effect.
    Raises: ValueError for ragged lists, TypeError for strings, RuntimeError for what has no dtype.
    Source: torch.tensor.
    """
    chosen = dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        data = data._array
    if is_array(data):
        place = device_index(data) if device is None and is_cupy(data) else resolve(device)
        with on_device_of(data):
            copied = namespace(data).array(data, dtype=chosen or _supported(data.dtype), order="K", copy=True, subok=False)
        return finished(move(copied, place), requires_grad)
    return finished(move(_from_python(data, chosen), resolve(device)), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the data without a copy where none is needed: arrays share their memory, a Tensor is returned as it is.

    Args:
        data: as for ``tensor``. A Tensor that must change dtype or device is converted, and stays part of its graph.
        dtype, device: what it should have; a copy is made only when the data has another.
    Source: torch.as_tensor.
    """
    chosen = dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if chosen is None and device is None else data.to(dtype=chosen, device=device)
    if not is_array(data):
        return tensor(data, dtype=dtype, device=device)
    array = _plain(data)
    if chosen is not None and array.dtype != chosen:
        array = array.astype(chosen)
    return wrap(array if device is None else move(array, resolve(device)))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A CPU tensor that shares the NumPy array's memory: writing one writes the other.

    Raises: TypeError for what is no NumPy array, or has elements gradlib does not hold; ValueError for foreign byte order.
    Source: torch.from_numpy.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return wrap(_plain(ndarray))


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of any data, copied when ``copy`` is true or when needed. Source: torch.asarray.

    Raises: ValueError when ``copy=False`` and a copy is needed.
    """
    result = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    if copy is False and not (result is obj or (is_array(obj) and np.shares_memory(result._array, obj))):
        raise ValueError(f"can't alias data of type {type(obj).__name__} with dtype {result.dtype} on {result.device}; leave copy unset")
    return result.requires_grad_() if requires_grad else result


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype (unless another is given) holding one number."""
    return full((), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def _supported(dtype: np.dtype) -> np.dtype:
    """gradlib's own object for a dtype. Raises: TypeError for elements that gradlib does not hold."""
    if dtype.kind in "biufcV" and dtype.name not in ("longdouble", "float128", "clongdouble", "complex256", "float96", "complex192"):
        with contextlib.suppress(TypeError):
            return dtypes.as_dtype(np.dtype(dtype.type)) or dtype
    raise TypeError(f"can't convert an array of type {dtype}; gradlib holds bool, integers, float16 to float64, bfloat16, complex64 and complex128")


def _plain(array: Array) -> Array:
    """The same memory as an array of the base class with a native, canonical dtype."""
    dtype = _supported(array.dtype)
    if not array.dtype.isnative:
        raise ValueError(f"given array has byte order different from the native byte order ({array.dtype}); convert it with .astype({dtype})")
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
    if types & {str, bytes}:
        raise ValueError("too many dimensions 'str': a tensor holds numbers, got strings")
    if any(issubclass(t, Tensor) for t in types):
        data = _without_tensors(data)
    try:
        array = np.array(data)
    except ValueError as error:
        raise ValueError(f"expected nested sequences of equal length at every level ({error})") from None
    if array.dtype.kind not in "biufcV":
        overflow = isinstance(data, int) or types <= _NUMBERS
        raise (ValueError("Overflow: an integer does not fit 64 bits") if overflow else RuntimeError(f"Could not infer dtype of {_names(types)}"))
    if dtype is not None:
        return _cast(array, dtype)
    if types <= _NUMBERS:
        return array.astype(_of_python(array, data), copy=False)
    if types & _NUMBERS or len(types) > 1:
        dtype = dtypes.result_type(*_typical(data))
        return array.astype(dtype, copy=False)
    return array.astype(_supported(array.dtype), copy=False)


def _of_python(array: np.ndarray, data: Any) -> np.dtype:
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u":
            raise ValueError("Overflow: an integer does not fit int64")
        return dtypes.int64
    return {"b": dtypes.bool_, "f": dtypes.get_default_dtype(), "c": dtypes.to_complex(dtypes.get_default_dtype())}[array.dtype.kind] if array.size else (
        dtypes.get_default_dtype()
    )


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"must be real number, not complex (dtype={dtype})")
    return array.astype(dtype)


def _names(types: set[type]) -> str:
    return ", ".join(sorted(t.__name__ for t in types)) or "an empty object"


def _without_tensors(data: Any) -> Any:
    """Nested lists with every Tensor replaced by its only element, as a NumPy scalar."""
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, got shape {list(data.shape)}; use gradlib.stack")
        return move(data._array, None).reshape(-1)[0]
    return [_without_tensors(x) for x in data] if isinstance(data, (list, tuple)) else data


def _typical(data: Any) -> list[Any]:
    """For each leaf of nested lists an array or number of its dtype that all count alike in promotion."""
    if isinstance(data, (list, tuple)):
        return [leaf for x in data for leaf in _typical(x)]
    return [np.empty(0, getattr(data, "dtype", None) or dtypes.scalar_dtype(data))]


# ---- filled ---------------------------------------------------------------------------------------------------------------------


def _new(name: str, size: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    shape = sizes_of(size)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{name}: sizes must not be negative, got {list(shape)}")
    xp, place = at(device)
    with place:
        return finished(getattr(xp, name)(shape, dtypes.as_dtype(dtype) or dtypes.get_default_dtype()), requires_grad)


def size_given(name: str, positional: tuple[Any, ...], size: Any) -> tuple[Any, ...]:
    if not positional and size is None:
        raise TypeError(f"{name}() missing 1 required positional argument: 'size'")
    return positional or (tuple(size),)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor of zeros: ``zeros(2, 3)`` or ``zeros((2, 3))``. Source: torch.zeros."""
    return _new("zeros", size_given("zeros", size, ignored("zeros", other)), dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor of ones: ``ones(2, 3)`` or ``ones((2, 3))``. Source: torch.ones."""
    return _new("ones", size_given("ones", size, ignored("ones", other)), dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor of whatever the memory held before. Source: torch.empty."""
    return _new("empty", size_given("empty", size, ignored("empty", other)), dtype, device, requires_grad)


_WITHOUT_EFFECT = ("layout", "memory_format", "names", "pin_memory")


def ignored(name: str, other: dict[str, Any]) -> Any:
    """Take ``size=`` from the further keywords; those that say nothing about an array's values are accepted and ignored."""
    size = other.pop("size", None)
    unknown = [key for key in other if key not in _WITHOUT_EFFECT]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    return size


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor with one value everywhere; the dtype defaults to the value's as a tensor. Source: torch.full."""
    ignored("full", other)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    natural = fill_value.dtype if isinstance(fill_value, Tensor) else dtypes.scalar_dtype(value)
    made = _new("empty", (tuple(size) if not isinstance(size, int) else size,), dtypes.as_dtype(dtype) or natural, device, False)
    made._array[...] = value
    return finished(made._array, requires_grad)


def _like(name: str, input: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:  # noqa: A002
    """New memory of the input's shape and order; a raw array for a raw array, so that rules can use it."""
    array = as_array(input._array if isinstance(input, Tensor) else input)
    chosen = dtypes.as_dtype(dtype)
    xp, place = (namespace(array), on_device_of(array)) if device is None else at(device)
    with place:
        if xp is namespace(array):
            made = getattr(xp, f"{name}_like")(array, dtype=chosen or array.dtype, order="K")
        else:
            made = getattr(xp, name)(array.shape, chosen or array.dtype)
    return finished(made, requires_grad) if isinstance(input, Tensor) else made


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:  # noqa: A002
    """Zeros with the input's shape, dtype, device and memory order. Source: torch.zeros_like."""
    ignored("zeros_like", other)
    return _like("zeros", input, dtype, device, requires_grad)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:  # noqa: A002
    """Ones with the input's shape, dtype, device and memory order. Source: torch.ones_like."""
    ignored("ones_like", other)
    return _like("ones", input, dtype, device, requires_grad)


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:  # noqa: A002
    """Unset memory with the input's shape, dtype, device and memory order. Source: torch.empty_like."""
    ignored("empty_like", other)
    return _like("empty", input, dtype, device, requires_grad)


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:  # noqa: A002
    """One value everywhere, with the input's shape, dtype, device and memory order. Source: torch.full_like."""
    ignored("full_like", other)
    made = _like("empty", input, dtype, device, False)
    array = made._array if isinstance(made, Tensor) else made
    array[...] = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return finished(array, requires_grad) if isinstance(input, Tensor) else made


def zeros_of(like: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of another shape in the dtype and place of a Tensor or of a raw array, and of the same sort: for rules."""
    array = as_array(like._array if isinstance(like, Tensor) else like)
    with on_device_of(array):
        made = namespace(array).zeros(shape, array.dtype)
    return wrap(made) if isinstance(like, Tensor) else made


# ---- evenly spaced ----------------------------------------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.generic)) or is_array(value) else value


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Numbers from start (0 when only end is given) up to but not including end, step apart.

    Args:
        dtype: defaults to int64 when all three are integers, else to the default dtype.
    Raises: RuntimeError for a step of 0 or of the wrong sign.
    Source: torch.arange.
    """
    ignored("arange", other)
    if end is None:
        start, end = 0, start
    start, end, step = _number(start), _number(end), _number(step)
    whole = not any(isinstance(v, float) for v in (start, end, step))
    chosen = dtypes.as_dtype(dtype) or (dtypes.int64 if whole else dtypes.get_default_dtype())
    if dtypes.category(chosen) == 1:
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not all(map(math.isfinite, (start, end))):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")
    count = -((start - end) // step) if isinstance(start, int) and isinstance(end, int) and isinstance(step, int) else math.ceil((end - start) / step)
    xp, place = at(device)
    with place:
        if dtypes.category(chosen) == 1:
            array = xp.arange(start, start + count * step, step).astype(chosen, copy=False)
        else:
            array = (start + xp.arange(count, dtype=xp.float64) * step).astype(chosen, copy=False)
    return finished(array, requires_grad)


def _spaced(xp: Namespace, start: Any, end: Any, steps: int, dtype: np.dtype) -> Array:
    """The positions of linspace, counted from the nearer end, so that both ends are exact."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    work = dtype if dtype.kind in "fc" and dtype.itemsize >= 4 else xp.float32 if dtype.kind in "fV" else xp.float64
    if dtypes.category(dtype) == 1:
        start, end = int(start), int(end)
    kind = xp.dtype(work).type
    first, last = kind(start), kind(end)
    step = kind((last - first) / (steps - 1)) if steps > 1 else kind(0)
    i = xp.arange(steps, dtype=dtypes.to_real(np.dtype(work)))
    return xp.where(i < steps // 2, first + step * i, last - step * (steps - 1 - i)) if steps != 1 else xp.full(1, first)


def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """``steps`` evenly spaced numbers from start to end, both included. Source: torch.linspace."""
    ignored("linspace", other)
    first, last = _number(start), _number(end)
    chosen = dtypes.as_dtype(dtype) or _inexact(first, last)
    xp, place = at(device)
    with place:
        return finished(_spaced(xp, first, last, int(steps), chosen).astype(chosen, copy=False), requires_grad)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """``steps`` numbers from base**start to base**end, evenly spaced on a logarithmic scale. Source: torch.logspace."""
    ignored("logspace", other)
    first, last = _number(start), _number(end)
    chosen = dtypes.as_dtype(dtype) or _inexact(first, last)
    xp, place = at(device)
    with place:
        exponent = _spaced(xp, first, last, int(steps), chosen)
        return finished(xp.power(exponent.dtype.type(base), exponent).astype(chosen, copy=False), requires_grad)


def _inexact(*numbers: Any) -> np.dtype:
    default = dtypes.get_default_dtype()
    return dtypes.to_complex(default) if any(isinstance(v, complex) for v in numbers) else default


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """The identity matrix with n rows and m columns (n when left out). Source: torch.eye."""
    ignored("eye", other)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n and m must be greater or equal to 0, got {n} and {m}")
    xp, place = at(device)
    with place:
        return finished(xp.eye(n, m, dtype=dtypes.as_dtype(dtype) or dtypes.get_default_dtype()), requires_grad)
