"""Other dtypes and devices: ``to`` and its short forms; copies, fills, and new tensors like an existing one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, vectorised
from gradlib.backend.array import (
    Namespace,
    broadcast_to,
    copy as array_copy,
    device_index,
    is_array,
    move,
    moved,
    on_one_device,
    pinned_copy,
)
from gradlib.backend.copying import cast, fill as fill_with, filled
from gradlib.backend.device import device as Device, resolve
from gradlib.backend.limits import check_format
from gradlib.core.batched import Batched
from gradlib.core.op import op, public, publish
from gradlib.core.tensor import Tensor
from gradlib.ops import create
from gradlib.ops.dims import sizes_of
from gradlib.ops.from_data import tensor as data_tensor

__all__ = [
    "detach", "fill", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed",
    "is_tensor", "numel", "zero_",
]  # fmt: skip


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
    if dtype is dtypes.float16 and vectorised.fits(input):
        made = vectorised.to_half(input)
    else:
        made = cast(input, dtype)
        made = input.astype(dtype, "C" if 0 in input.strides else "K") if made is None else made
    return made if place == source else move(made, place)


def to(
    input: Any, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    """The tensor with another dtype, on another device, or both; itself when nothing changes. Differentiable.

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
    place = source if device is None else _place(device, source)
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


def _place(device: Any, source: int | None) -> int | None:
    """The device that ``device`` means; plain "cuda" is the one where a CUDA tensor already lies."""
    chosen = device if isinstance(device, Device) else Device(device)
    return source if chosen.type == "cuda" and chosen.index is None and source is not None else resolve(chosen)


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
    """The tensor on a CUDA device (the current one when none is named); itself when it is there. Source: torch.Tensor.cuda."""
    check_format("cuda", memory_format)
    return to(self, device="cuda" if device is None else device)


publish(cpu, "cpu")
publish(cuda, "cuda")


@op("linear", complex="explicit", input=lambda g: g)
def contiguous_op(xp: Namespace, input: Any) -> Any:
    """The elements in row-major memory."""
    return xp.ascontiguousarray(input)


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor in row-major memory; itself when it is so.

    Raises: NotImplementedError for channels-last. Source: torch.Tensor.contiguous.
    """
    if memory_format is not None:
        check_format("contiguous", memory_format)
    array = input._array if isinstance(input, Tensor) else input
    return input if array.flags.c_contiguous else contiguous_op(input)


publish(contiguous, "contiguous")


# ---- written in place -----------------------------------------------------------------------------------------------------------


@op(
    "linear", inplace=True, method=False, complex="explicit", device_into=moved,
    input=lambda g: create.zeros_like(g), src=lambda g: g,
)  # fmt: skip
def copy(xp: Namespace, input: Any, src: Any) -> Any:
    """The values of src, in input's shape and dtype."""
    values = src if is_array(src) else xp.asarray(src)
    if values.dtype.kind == "c" and input.dtype.kind not in "cb":
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        values = values.real
    values = values if values.dtype == input.dtype else values.astype(input.dtype)
    try:
        return broadcast_to(values, input.shape)
    except ValueError:
        raise RuntimeError(f"copy_: a source of shape {list(values.shape)} does not match the shape {list(input.shape)}") from None


_copy_here = vars(Tensor)["copy_"]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write src into this tensor, in this tensor's dtype and on its device; gradients flow to src. Returns: this tensor.

    Args:
        src: a Tensor, array or number of a shape that broadcasts to this one.
    Source: torch.Tensor.copy_.
    """
    array, own = src._array if isinstance(src, Tensor) else src, self._array
    together = type(array) is type(own) is np.ndarray or on_one_device(array, own)
    if not together and is_array(array) and device_index(array) != device_index(own):
        place = device_index(own)
        src = to_copy(src, None, place, device_index(array)) if isinstance(src, Tensor) else move(array, place)
    return _copy_here(self, src)


publish(copy_, "copy_")


@op(
    "linear", inplace=True, method=False, complex="explicit", device_into=filled,
    input=lambda g: create.zeros_like(g), value=lambda g: g,
)  # fmt: skip
def fill(xp: Namespace, input: Any, value: Any) -> Any:
    """A tensor like input with one value everywhere.

    Args:
        input: any shape and dtype.
        value: a number or a tensor without dimensions.
    Raises: RuntimeError for a value with dimensions.
    Source: torch.fill.
    Example:
        >>> gradlib.fill(gradlib.zeros(2), 3)
        tensor([3., 3.])
    """
    of_array = is_array(value)
    if of_array and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    made = xp.empty_like(input) if xp is np else xp.ndarray(input.shape, input.dtype)
    fill_with(made, value if of_array else create.as_element(value, made.dtype))
    return made


@op(
    "linear", inplace=True, method=False, complex="explicit", device_into=lambda input: filled(input, 0),
    input=lambda g: create.zeros_like(g),
)  # fmt: skip
def zero(xp: Namespace, input: Any) -> Any:
    """Zeros like input."""
    return broadcast_to(xp.zeros((), input.dtype), input.shape) if xp is np else xp.zeros(input.shape, input.dtype)


zero_ = vars(Tensor)["zero_"]


# ---- questions ------------------------------------------------------------------------------------------------------------------


def is_tensor(obj: object) -> bool:
    """Whether obj is a Tensor.

    Args:
        obj: anything.
    Source: torch.is_tensor.
    Example:
        >>> gradlib.is_tensor([1.0])
        False
    """
    return isinstance(obj, Tensor)


@public
def numel(input: Tensor) -> int:
    """How many elements there are.

    Args:
        input: any shape and dtype.
    Source: torch.numel.
    Example:
        >>> gradlib.numel(gradlib.zeros(2, 3))
        6
    """
    return input.numel()


@public
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_floating_point.
    Example:
        >>> gradlib.is_floating_point(gradlib.tensor([1.0]))
        True
    """
    return input.is_floating_point()


@public
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_complex.
    Example:
        >>> gradlib.is_complex(gradlib.tensor([1j]))
        True
    """
    return input.is_complex()


# ---- new ones that take after this one ------------------------------------------------------------------------------------------


@public
def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any) -> Tensor:
    """A copy of data with this tensor's dtype and device unless others are given. Source: torch.Tensor.new_tensor."""
    create.ignored("new_tensor", other)
    return data_tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


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


@public
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode.

    Args:
        input: any shape and dtype.
    Source: torch.is_inference.
    Example:
        >>> gradlib.is_inference(gradlib.tensor([1.0]))
        False
    """
    return input.is_inference()


@public
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once.

    Args:
        input: any shape and dtype.
    Source: torch.is_conj.
    Example:
        >>> gradlib.is_conj(gradlib.tensor([1j]))
        False
    """
    return input.is_conj()


@public
def is_neg(input: Tensor) -> bool:
    """False: negatives are computed at once.

    Args:
        input: any shape and dtype.
    Source: torch.is_neg.
    Example:
        >>> gradlib.is_neg(gradlib.tensor([-1.0]))
        False
    """
    return input.is_neg()


@public
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_signed.
    Example:
        >>> gradlib.is_signed(gradlib.tensor([1]))
        True
    """
    return input.is_signed()


@public
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    Args:
        input: one element.
    Source: torch.is_nonzero.
    Example:
        >>> gradlib.is_nonzero(gradlib.tensor([2.0]))
        True
    """
    return input.is_nonzero()


@public
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    Args:
        input, other: tensors.
    Source: torch.is_same_size.
    Example:
        >>> gradlib.is_same_size(gradlib.zeros(2), gradlib.ones(2))
        True
    """
    return tuple(input.shape) == tuple(other.shape)


publish(is_same_size, "is_same_size")
publish(public(Tensor.detach_), "detach_")


@public
def detach(input: Tensor) -> Tensor:
    """The tensor's memory outside its graph.

    Args:
        input: any shape and dtype.
    Source: torch.detach.
    Example:
        >>> gradlib.detach(gradlib.ones(2, requires_grad=True))
        tensor([1., 1.])
    """
    return input.detach()
