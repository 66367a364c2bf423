"""Tensors that get other memory, or another window on theirs, in place; and torch's older ways to make one. Source: torch.Tensor."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import Array, address, is_array, is_writeable, namespace, on_device_of
from gradlib.backend.limits import check_format
from gradlib.core.batched import refuse_batched
from gradlib.core.inplace import refuse_captured
from gradlib.core.modes import global_state, writing
from gradlib.core.op import public, publish
from gradlib.core.tensor import Tensor
from gradlib.core.writes import refuse_inference
from gradlib.ops.create import empty
from gradlib.ops.dims import sizes_of
from gradlib.ops.from_data import tensor as data_tensor
from gradlib.ops.shape import turns
from gradlib.ops.slices import as_strided

__all__ = ["resize_as_"]


# ---- other memory ---------------------------------------------------------------------------------------------------------------


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Give this tensor another size: the elements that fit stay, in the order of its memory; further ones hold whatever the memory held.

    It keeps its memory where that is large enough. Otherwise it gets new memory, which other tensors of the old memory do not follow
    (torch enlarges it for all of them).

    Raises: RuntimeError for a tensor that requires a gradient, and for negative sizes. Source: torch.Tensor.resize_.
    """
    check_format("resize_", memory_format)
    shape = sizes_of(sizes)
    if self._node is not None:
        raise RuntimeError("cannot resize variables that require grad; resize a detach() of it, or use reshape")
    if min(shape, default=0) < 0:
        raise RuntimeError(f"resize_: sizes are not negative, got {list(shape)}")
    if tuple(self._array.shape) == shape:
        return self
    _ask(self, "resize_")
    with on_device_of(self._array):
        same = _within(self._array, math.prod(shape))
        self._array = _larger(self._array, shape) if same is None else same.reshape(shape)
    self.version.bump()
    return self


def _ask(target: Tensor, name: str) -> None:
    """Refuse to change what is not to be written, and tell who keeps what is."""
    refuse_inference(target)
    if global_state.born is not None:
        refuse_captured(target, name)
    writing(target)


def _within(array: Array, count: int) -> Array | None:
    """So many elements of the memory of which an array is a part, from where it begins; None where that is no whole piece, or too small."""
    whole = array
    while is_array(whole.base):
        whole = whole.base
    if not (whole.flags.c_contiguous and whole.dtype == array.dtype and is_writeable(whole) == is_writeable(array)):
        return None
    first = (address(array) - address(whole)) // array.itemsize
    return whole.reshape(-1)[first : first + count] if first + count <= whole.size else None


def _larger(array: Array, shape: tuple[int, ...]) -> Array:
    """New memory that begins with the elements of an array, in the order in which they lie."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    made = namespace(array).empty(shape, array.dtype)
    made.reshape(-1)[: array.size] = array.transpose(order).reshape(-1)[: made.size]
    return made


@public
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the size of another tensor.

    Args:
        self: any shape and dtype.
        the_template: the tensor whose shape it takes.
    Source: torch.Tensor.resize_as_.
    Example:
        >>> gradlib.resize_as_(gradlib.arange(4), gradlib.zeros(2)).shape
        gradlib.Size([2])
    """
    return resize_(self, tuple(the_template.shape), memory_format=memory_format)


@public
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Let this tensor be another window on another tensor's memory; without a source it becomes empty.

    Args:
        source: a Tensor of the same dtype on the same device.
        storage_offset, size, stride: which elements of its memory; by default all of them, as source has them.
    Raises: RuntimeError for another dtype or device, and for tensors that require a gradient, for whose graph this would be no derivative.
    Source: torch.Tensor.set_.
    """
    if source is None:
        source = empty(0, dtype=self.dtype, device=self.device)
    if not isinstance(source, Tensor):
        raise TypeError(f"set_: source is a Tensor, got {type(source).__name__}")
    refuse_batched(source, "set_")
    if source.dtype != self.dtype or source.device != self.device:
        raise RuntimeError(
            f"set_: could not set a tensor of type {source.dtype} on {source.device} to a tensor of type {self.dtype} on {self.device}"
        )
    if self._node is not None or source._node is not None:
        raise RuntimeError("set_: not for tensors that require a gradient; use x.data = y to give a leaf other values")
    _ask(self, "set_")
    if size is not None:
        source = as_strided(source, size, _row_major(size) if stride is None else stride, storage_offset)
    self._array = source._array
    self.version.bump()
    return self


def _row_major(size: Any) -> tuple[int, ...]:
    return tuple(math.prod(size[axis + 1 :]) for axis in range(len(size)))


publish(resize_, "resize_")
publish(resize_as_, "resize_as_")
publish(set_, "set_")
turns(as_strided, "as_strided_")


# ---- older ways -----------------------------------------------------------------------------------------------------------------


def new(self: Tensor, *data: Any, device: Any = None) -> Tensor:
    """A tensor of this one's dtype and device: of sizes (its values are whatever the memory held), of data, or empty.

    ``new_tensor``, ``new_empty`` and their like say which. Source: torch.Tensor.new.
    """
    place = self.device if device is None else device
    if len(data) == 1 and isinstance(data[0], Tensor):
        return data[0].detach()
    if len(data) == 1 and (isinstance(data[0], list) or is_array(data[0]) or (type(data[0]) is tuple)):
        return data_tensor(data[0], dtype=self.dtype, device=place)
    return empty(sizes_of(data) if data else (0,), dtype=self.dtype, device=place)


publish(new, "new")
