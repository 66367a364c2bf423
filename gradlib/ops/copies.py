"""Values copied: into new memory, and over those of a tensor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gradlib.backend.array import Namespace, broadcast_to, device_index, is_array, move, on_one_device
from gradlib.backend.columns import has_columns, row_major_copied
from gradlib.backend.copying import copied, copy as array_copy, copy_on_device, fill as fill_with, filled, row_major_copy, written
from gradlib.backend.limits import check_format
from gradlib.core.device_rules import of_any_layout
from gradlib.core.op import op, publish
from gradlib.core.tensor import Tensor
from gradlib.ops import create
from gradlib.ops.convert import to_copy

__all__ = ["clone", "fill", "zero_"]


@of_any_layout
def _clone_on_device(input: Any, memory_format: Any) -> Any:
    if memory_format is not None:
        return None
    return row_major_copy(input) if input._c_contiguous else copy_on_device(input)


@op("linear", complex="explicit", input=lambda g: g, kernels={"out": _clone_on_device})
def clone(xp: Any, input: Any, memory_format: Any = None) -> Any:
    """A copy in new memory that passes gradients on.

    Args:
        input: any shape and dtype.
        memory_format: None, or one that keeps the order of elements.
    Raises: NotImplementedError for channels-last.
    Source: torch.clone.
    Example:
        >>> x = gradlib.ones(2)
        >>> gradlib.clone(x).add_(1), x
        (tensor([2., 2.]), tensor([1., 1.]))
    """
    if memory_format is not None:
        check_format("clone", memory_format)
    return array_copy(input) if input.base is None or xp is not np else copied(input)  # what owns its memory has no gaps


@op("linear", complex="explicit", input=lambda g: g)
def contiguous_op(xp: Namespace, input: Any) -> Any:
    """The elements in row-major memory."""
    if xp is not np:
        return input if input._c_contiguous else row_major_copy(input)
    return row_major_copied(input) if has_columns(input) else xp.ascontiguousarray(input)


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor in row-major memory; itself when it is so.

    Raises: NotImplementedError for channels-last. Source: torch.Tensor.contiguous.
    """
    if memory_format is not None:
        check_format("contiguous", memory_format)
    array = input._array if isinstance(input, Tensor) else input
    return input if array.flags.c_contiguous else contiguous_op(input)


publish(contiguous, "contiguous")


@op(
    "linear", inplace=True, method=False, complex="explicit", device_into=written,
    input=lambda g: create.zeros_like(g), src=lambda g: g,
)  # fmt: skip
def copy(xp: Namespace, input: Any, src: Any) -> Any:
    """The values of src, in input's shape and dtype."""
    values = src if is_array(src) else xp.asarray(src)
    if values.dtype.kind == "c" and input.dtype.kind not in "cb":
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        values = values.real
    values = values if values.dtype == input.dtype else values.astype(input.dtype)
    if type(values) is not np.ndarray and values.shape == input.shape:
        return values
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
    "linear", inplace=True, method=False, complex="explicit",
    device_into=lambda input, value: filled(input, value) if type(value) is not type(input) else not value.ndim and written(input, value),
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
