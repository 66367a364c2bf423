"""Other dtypes and devices: ``to`` and its short forms, and new tensors like an existing one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Namespace, device_index, move
from gradlib.backend.copying import converted, copy as array_copy
from gradlib.backend.device import device as Device, resolve
from gradlib.backend.limits import check_format
from gradlib.backend.pinned import pinned_copy
from gradlib.core.batched import Batched
from gradlib.core.op import op, public, publish
from gradlib.core.tensor import Tensor
from gradlib.ops import create
from gradlib.ops.dims import sizes_of
from gradlib.ops.from_data import tensor as data_tensor

# ---- dtype and device -----------------------------------------------------------------------------------------------------------


@op(
    "linear", method=False, complex="explicit",
    input=lambda g, source, place: g if source == place else to_copy(g, None, source, place),  # the engine converts the dtype
)  # fmt: skip
def to_copy(xp: Namespace, input: Any, dtype: np.dtype | None, place: int | None, source: int | None, non_blocking: bool = False) -> Any:
    """A copy of another dtype (None: the same) on CUDA device ``place`` (None: the host); ``source`` is where the input lies.

    ``non_blocking``: the host does not wait for a copy to it, which goes into page-locked memory.
    """
    if non_blocking and place is None and source is not None:
        return pinned_copy(input if dtype is None else input.astype(dtype, copy=False))
    if dtype is None or dtype == input.dtype:
        moved = move(input, place)
        return array_copy(moved) if moved is input else moved
    if input.dtype.kind == "c" and dtype.kind not in "cb":
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        input = input.real
    made = converted(input, dtype)
    return made if place == source else move(made, place)


def to(
    input: Any, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    """The tensor with another dtype, on another device, or both; itself when nothing changes. Differentiable.

    "cuda" is the current CUDA device, also for a tensor that lies on another one.

    Args:
        args: ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``, then ``non_blocking`` and ``copy`` as in torch.
        non_blocking: the host does not wait for a copy from a GPU; synchronise before reading the result. A copy to a GPU from
            ``pin_memory()`` never makes it wait.
        copy: make a new tensor even when nothing changes.
    Source: torch.Tensor.to.
    """
    if memory_format is not None:
        check_format("to", memory_format)
    if args:
        first, *rest = args
        if isinstance(first, np.dtype):
            dtype = first
        elif isinstance(first, Tensor):
            dtype, device = first.dtype, first.device
        elif _is_place(first):
            device = first
            if rest and not isinstance(rest[0], bool):
                dtype = rest.pop(0)
        else:
            try:
                dtype = dtypes.as_dtype(first)
            except TypeError:
                raise TypeError(f'to() takes a dtype, a device ("cpu", "cuda" or "cuda:N") or a Tensor, got {first!r}') from None
        if rest:
            non_blocking, copy = rest[0], rest[1] if len(rest) > 1 else copy
    array = input._array if isinstance(input, Tensor) else input
    chosen = dtypes.as_dtype(dtype) or array.dtype
    source = device_index(array)
    place = source if device is None else resolve(device)
    if chosen == array.dtype and place == source and not copy:
        return input
    return to_copy(input, chosen, place, source, non_blocking)


def _is_place(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, Device)
        or (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda"))
    )


publish(to, "to")


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor in another dtype, which torch's names also give: ``x.type("torch.DoubleTensor")``; without one, the name of its own.

    Raises: ValueError for a name that is none. Source: torch.Tensor.type.
    """
    if dtype is None:
        kind = _KINDS.get(self.dtype.name, "")
        return f"torch.{'cuda.' if self.is_cuda else ''}{kind}Tensor"
    return to(self, dtype=_named_dtype(dtype) if isinstance(dtype, str) else dtype)


_KINDS = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def _named_dtype(name: str) -> Any:
    """The dtype of a name such as "torch.FloatTensor", "torch.cuda.FloatTensor" or "float32"."""
    kind = name.rpartition(".")[2].removesuffix("Tensor")
    found = [dtype for dtype, each in _KINDS.items() if each == kind or dtype == name]
    if not found:
        raise ValueError(f"invalid type: {name!r}; a dtype such as gradlib.float32, or its torch name, such as 'torch.FloatTensor'")
    return dtypes.bfloat16() if found[0] == "bfloat16" else found[0]


@public
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of another. Source: torch.Tensor.type_as."""
    return to(input, dtype=other.dtype)


publish(type_, "type")
publish(type_as, "type_as")


def _short_form(name: str, dtype: Any) -> None:
    own = dtype if isinstance(dtype, np.dtype) else None

    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        if memory_format is not None:
            check_format(name, memory_format)
        if own is not None and type(self._array) is np.ndarray:  # on the host there is nothing else to ask
            return self if self._array.dtype is own else to_copy(self, own, None, None)
        return to(self, dtype=dtype() if callable(dtype) and not isinstance(dtype, np.dtype) else dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor with dtype {getattr(dtype, 'name', name)}. Source: torch.Tensor.{name}."
    publish(convert, name)


for _name, _dtype in {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32, "long": dtypes.int64,
    "half": dtypes.float16, "float": dtypes.float32, "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
    "bfloat16": dtypes.bfloat16,
}.items():  # fmt: skip
    _short_form(_name, _dtype)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in host memory; itself when it is there. Source: torch.Tensor.cpu."""
    check_format("cpu", memory_format)
    return to(self, device="cpu")


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device (the current one when none is named); itself when it is there.

    Raises: RuntimeError for a device that is not CUDA's. Source: torch.Tensor.cuda.
    """
    check_format("cuda", memory_format)
    place = "cuda" if device is None else device
    if resolve(place) is None:
        raise RuntimeError(f"Invalid device, must be cuda device, got {device}")
    return to(self, device=place)


publish(cpu, "cpu")
publish(cuda, "cuda")


# ---- new ones that take after this one ------------------------------------------------------------------------------------------


@public
def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A copy of data with this tensor's dtype and device unless others are given. Source: torch.Tensor.new_tensor."""
    create.ignored("new_tensor", other)
    pinned = bool(other.get("pin_memory"))
    return data_tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad, pin_memory=pinned)


def _new(name: str) -> None:
    make = getattr(create, name)

    def new(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
        if type(self) is Batched:  # one for each row, so that each can be written
            count = 1 if name == "full" else len(size)
            rows = (self.level.size, *sizes_of(size[:count]))
            return self.again(new(self.value, rows, *size[count:], dtype=dtype, device=device, requires_grad=requires_grad, **other))
        return make(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad, **other)

    new.__name__ = new.__qualname__ = f"new_{name}"
    new.__doc__ = f"``{name}`` with this tensor's dtype and device unless others are given. Source: torch.Tensor.new_{name}."
    publish(new, f"new_{name}")


for _name in ("zeros", "ones", "empty", "full"):
    _new(_name)
publish(new_tensor, "new_tensor")
