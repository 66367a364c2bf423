"""New tensors filled with a value, or evenly spaced. None of these is differentiable."""

from __future__ import annotations

import contextlib
import math
import operator
import sys
from typing import Any

import numpy as np

from gradlib.backend import copying, dtype as dtypes, spaced
from gradlib.backend.array import Array, Namespace, is_array, is_cupy, namespace, on_device_of
from gradlib.backend.device import require_cuda, resolve
from gradlib.backend.limits import check_format
from gradlib.backend.pinned import pinned
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched
from gradlib.core.op import public
from gradlib.core.out import takes_out
from gradlib.core.tensor import Tensor, as_array, wrap
from gradlib.ops.dims import sizes_of

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "logspace", "ones", "ones_like", "scalar_tensor", "zeros",
    "zeros_like",
]  # fmt: skip


def at(device: Any) -> tuple[Namespace, Any]:
    """The namespace for a ``device=`` argument and a context in which it allocates there."""
    index = resolve(device)
    if index is None:
        return np, _HERE
    library = sys.modules["cupy"]  # which resolve has imported
    return library, _HERE if index == library.cuda.runtime.getDevice() else library.cuda.Device(index)


_HERE = contextlib.nullcontext()


def finished(array: Array, requires_grad: bool, pin_memory: Any = False) -> Tensor:
    """A new tensor around an array, as a leaf that wants a gradient where asked, and in page-locked memory.

    Raises: RuntimeError for page-locked memory on a GPU, and without one.
    """
    if pin_memory:
        if is_cupy(array):
            raise RuntimeError("Only dense CPU tensors can be pinned; leave out pin_memory or device")
        require_cuda(None)
        array = pinned(array)
    made = wrap(array)
    return made.want_grad() if requires_grad else made


# ---- filled ---------------------------------------------------------------------------------------------------------------------


def _new(name: str, size: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool, other: dict[str, Any]) -> Tensor:
    if other or not size:
        size = size_given(name, size, ignored(name, other))
    shape = sizes_of(size)
    if shape and min(shape) < 0:
        raise RuntimeError(f"{name}: sizes must not be negative, got {list(shape)}")
    xp, place = at(device)
    chosen = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if place is _HERE:
        array = _filled(xp, name, shape, chosen)
    else:
        with place:
            array = _filled(xp, name, shape, chosen)
    return finished(array, requires_grad, other.get("pin_memory")) if requires_grad or other else wrap(array)


def _filled(xp: Namespace, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    if xp is np or name != "ones":
        return getattr(xp, name)(shape, dtype)
    made = xp.empty(shape, dtype)
    copying.fill(made, 1)
    return made


def size_given(name: str, positional: tuple[Any, ...], size: Any) -> tuple[Any, ...]:
    if not positional and size is None:
        raise TypeError(f"{name}() missing 1 required positional argument: 'size'")
    return positional or (tuple(size),)


@takes_out
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor of zeros: ``zeros(2, 3)`` or ``zeros((2, 3))``.

    Args:
        size: the shape, as numbers or as a tuple.
        dtype: the default float dtype when left out.
        device, requires_grad, pin_memory: as in ``tensor``.
    Source: torch.zeros.
    Example:
        >>> gradlib.zeros(2, 2, dtype=gradlib.int64)
        tensor([[0, 0],
                [0, 0]])
    """
    return _new("zeros", size, dtype, device, requires_grad, other)


@takes_out
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor of ones: ``ones(2, 3)`` or ``ones((2, 3))``.

    Args:
        size: the shape, as numbers or as a tuple.
        dtype: the default float dtype when left out.
        device, requires_grad, pin_memory: as in ``tensor``.
    Source: torch.ones.
    Example:
        >>> gradlib.ones(2, 2)
        tensor([[1., 1.],
                [1., 1.]])
    """
    return _new("ones", size, dtype, device, requires_grad, other)


@takes_out
def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor whose memory is not initialised.

    Args:
        size: the shape, as numbers or as a tuple.
        dtype: the default float dtype when left out.
        device, requires_grad, pin_memory: as in ``tensor``.
    Source: torch.empty.
    Example:
        >>> gradlib.empty(2, 3).shape
        gradlib.Size([2, 3])
    """
    return _new("empty", size, dtype, device, requires_grad, other)


_FURTHER = ("layout", "memory_format", "names", "pin_memory")


def ignored(name: str, other: dict[str, Any]) -> Any:
    """Take ``size=`` from the other keywords; of those that do not affect an array's values, all but ``pin_memory`` are ignored."""
    if not other:
        return None
    size = other.pop("size", None)
    check_format(name, other.get("memory_format"))
    unknown = [key for key in other if key not in _FURTHER]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    return size


@takes_out
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A tensor with one value everywhere; the dtype defaults to the value's as a tensor.

    Args:
        size: the shape.
        fill_value: the number, which decides the dtype where none is given.
        dtype, device, requires_grad: as in ``tensor``.
    Source: torch.full.
    Example:
        >>> gradlib.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    ignored("full", other)
    natural = fill_value.dtype if isinstance(fill_value, Tensor) else dtypes.scalar_dtype(fill_value)
    made = _new("empty", (size,), natural if dtype is None else dtype, device, False, {})
    array = made._array
    with on_device_of(array):
        copying.fill(array, as_element(fill_value, array.dtype))
    return finished(array, requires_grad, other.get("pin_memory")) if requires_grad or other else made


def as_element(value: Any, dtype: np.dtype) -> Any:
    """A number, or the only element of a tensor, as it stands in an array of this dtype.

    Raises: as ``dtypes.fitted``.
    """
    return dtypes.fitted(value if type(value) in (bool, int, float) else _number(value), dtype)


@public
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype (unless another is given) holding one number.

    Args:
        s: a number.
        dtype, device, requires_grad: as in ``tensor``.
    Source: torch.scalar_tensor.
    Example:
        >>> gradlib.scalar_tensor(2)
        tensor(2.)
    """
    return full((), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def _like(name: str, input: Any, dtype: Any, device: Any, requires_grad: bool, pin_memory: Any = False) -> Any:
    """New memory of the input's shape and order; a raw array for a raw array, so that rules can use it. What is batched gives the same."""
    if type(input) is Batched:
        return input.again(_like(name, input.value, dtype, device, requires_grad, pin_memory))
    if isinstance(input, Tensor):
        array = input._array
    elif is_array(input) or isinstance(input, np.generic):
        array = as_array(input)
    else:
        refuse_wrong(f"{name}_like", zeros_like, input)
    chosen = dtypes.as_dtype(dtype)
    xp, place = (namespace(array), on_device_of(array)) if device is None else at(device)
    with place:
        if xp is np and name == "zeros" and type(array) is np.ndarray and array.flags.c_contiguous:
            made = np.zeros(array.shape, chosen or array.dtype)  # asks for memory of zeros, where `zeros_like` writes them
        elif xp is not np and array.flags.c_contiguous:
            made = _filled(xp, name, array.shape, chosen or array.dtype)
        elif xp is namespace(array):
            made = getattr(xp, f"{name}_like")(array, dtype=chosen or array.dtype, order="C" if 0 in array.strides else "K")
        else:
            made = getattr(xp, name)(array.shape, chosen or array.dtype)
    return finished(made, requires_grad, pin_memory) if isinstance(input, Tensor) else made


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:
    """Zeros with the input's shape, dtype, device and memory order.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.zeros_like.
    Example:
        >>> gradlib.zeros_like(gradlib.tensor([1.5, 2.5]))
        tensor([0., 0.])
    """
    ignored("zeros_like", other)
    return _like("zeros", input, dtype, device, requires_grad, other.get("pin_memory"))


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:
    """Ones with the input's shape, dtype, device and memory order.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.ones_like.
    Example:
        >>> gradlib.ones_like(gradlib.tensor([1, 2]))
        tensor([1, 1])
    """
    ignored("ones_like", other)
    return _like("ones", input, dtype, device, requires_grad, other.get("pin_memory"))


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:
    """Unset memory with the input's shape, dtype, device and memory order.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.empty_like.
    Example:
        >>> gradlib.empty_like(gradlib.zeros(2, 3)).shape
        gradlib.Size([2, 3])
    """
    ignored("empty_like", other)
    return _like("empty", input, dtype, device, requires_grad, other.get("pin_memory"))


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Any:
    """One value everywhere, with the input's shape, dtype, device and memory order.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        fill_value: the number.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.full_like.
    Example:
        >>> gradlib.full_like(gradlib.zeros(2), 7)
        tensor([7., 7.])
    """
    ignored("full_like", other)
    if type(input) is Batched:
        return input.again(full_like(input.value, fill_value, dtype=dtype, device=device, requires_grad=requires_grad, **other))
    try:
        made = _like("empty", input, dtype, device, False)
        array = made._array if isinstance(made, Tensor) else made
        with on_device_of(array):
            copying.fill(array, as_element(fill_value, array.dtype))
        return finished(array, requires_grad, other.get("pin_memory")) if isinstance(input, Tensor) else made
    except Exception:
        refuse_wrong("full_like", full_like, input, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)
        raise


def zeros_of(like: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of another shape in the dtype and place of a Tensor or of a raw array, and of the same type (array or Tensor): for rules."""
    array = as_array(like._array if isinstance(like, Tensor) else like)
    with on_device_of(array):
        made = namespace(array).zeros(shape, array.dtype)
    return wrap(made) if isinstance(like, Tensor) else made


# ---- evenly spaced --------------------------------------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, (Tensor, np.generic)) or is_array(value):
        return value.item()
    if not isinstance(value, (int, float, complex)):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


@takes_out
def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Numbers from start (0 when only end is given) up to but not including end, step apart.

    Args:
        start, end, step: numbers; step is 1 when left out.
        dtype: defaults to int64 when all three are integers, else to the default dtype.
        device, requires_grad: as in ``tensor``.
    Raises: RuntimeError for a step of 0 or of the wrong sign, and for infinite ends; NotImplementedError for bool and complex dtypes.
    Source: torch.arange.
    Example:
        >>> gradlib.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    ignored("arange", other)
    if end is None:
        start, end = 0, start
    start, end, step = _number(start), _number(end), _number(step)
    whole = not (isinstance(start, float) or isinstance(end, float) or isinstance(step, float))
    chosen = dtypes.as_dtype(dtype) or (dtypes.int64 if whole else dtypes.get_default_dtype())
    if dtypes.category(chosen) not in (1, 2):
        raise NotImplementedError(f"arange gives integers and floating-point numbers, not {chosen}")
    if chosen == dtypes.int64:
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not math.isfinite(start) or not math.isfinite(end):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")
    count = -((start - end) // step) if whole or chosen == dtypes.int64 else math.ceil((end - start) / step)
    xp, place = at(device)
    with place:
        if xp is not np and (made := spaced.arange(start, step, count, chosen)) is not None:
            array = made
        elif start == 0 and step == 1:
            array = xp.arange(count, dtype=dtypes.int64 if dtypes.category(chosen) == 1 else xp.float64).astype(chosen, copy=False)
        elif dtypes.category(chosen) == 1:
            array = (int(start) + xp.arange(count) * int(step)).astype(chosen, copy=False)
        else:
            array = (start + xp.arange(count, dtype=xp.float64) * step).astype(chosen, copy=False)
    return finished(array, requires_grad, other.get("pin_memory"))


def _spaced(xp: Namespace, start: Any, end: Any, steps: int, dtype: np.dtype, whole: bool = True) -> Array:
    """The positions of linspace, counted from the nearer end, so that both ends are exact; ``whole``: one alone is an integer too."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    work = dtype if dtype.kind in "fc" and dtype.itemsize >= 4 else xp.float32 if dtype.kind in "fV" else xp.float64
    if dtypes.category(dtype) == 0:
        raise NotImplementedError("numbers from linspace and logspace are not bools; choose another dtype")
    if dtypes.category(dtype) == 1 and (whole or steps > 1):
        start, end = int(start), int(end)
    kind = xp.dtype(work).type
    first, last = kind(start), kind(end)
    step = kind((last - first) / (steps - 1)) if steps > 1 else kind(0)
    if xp is not np and steps > 1 and (made := spaced.linspace(first, last, step, steps, dtype)) is not None:
        return made
    i = xp.arange(steps, dtype=dtypes.to_real(np.dtype(work)))
    return xp.where(i < steps // 2, first + step * i, last - step * (steps - 1 - i)) if steps != 1 else xp.full(1, first)


@takes_out
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """``steps`` evenly spaced numbers from start to end, both included.

    Args:
        start, end: the first and the last number.
        steps: how many.
        dtype, device, requires_grad: as in ``tensor``.
    Source: torch.linspace.
    Example:
        >>> gradlib.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    ignored("linspace", other)
    first, last = _number(start), _number(end)
    chosen = dtypes.as_dtype(dtype) or _inexact(first, last)
    xp, place = at(device)
    with place:
        array = _spaced(xp, first, last, operator.index(steps), chosen).astype(chosen, copy=False)
        return finished(array, requires_grad, other.get("pin_memory"))


@takes_out
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **other: Any,
) -> Tensor:
    """``steps`` numbers from base**start to base**end, evenly spaced on a logarithmic scale.

    Args:
        start, end: the exponents of the first and the last number.
        steps: how many.
        base: what is raised to them.
        dtype, device, requires_grad: as in ``tensor``.
    Source: torch.logspace.
    Example:
        >>> gradlib.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    ignored("logspace", other)
    first, last = _number(start), _number(end)
    chosen = dtypes.as_dtype(dtype) or _inexact(first, last)
    xp, place = at(device)
    with place:
        exponent = _spaced(xp, first, last, operator.index(steps), chosen, whole=False)
        array = xp.power(exponent.dtype.type(_number(base)), exponent).astype(chosen, copy=False)
        return finished(array, requires_grad, other.get("pin_memory"))


def _inexact(*numbers: Any) -> np.dtype:
    default = dtypes.get_default_dtype()
    return dtypes.to_complex(default) if complex in map(type, numbers) else default


@takes_out
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """The identity matrix with n rows and m columns (n when left out).

    Args:
        n, m: the numbers of rows and of columns; m is n when left out.
        dtype, device, requires_grad: as in ``tensor``.
    Raises: RuntimeError for a negative number of rows or columns.
    Source: torch.eye.
    Example:
        >>> gradlib.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    ignored("eye", other)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n and m must be greater or equal to 0, got {n} and {m}")
    xp, place = at(device)
    with place:
        kind, columns = dtypes.as_dtype(dtype) or dtypes.get_default_dtype(), n if m is None else m
        if xp is np:
            array = xp.eye(n, columns, dtype=kind)
        else:
            array = xp.zeros((n, columns), kind)
            copying.fill(array.reshape(-1)[: columns * columns : columns + 1], 1)
        return finished(array, requires_grad, other.get("pin_memory"))
