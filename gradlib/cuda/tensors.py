"""Tensor methods for streams and page-locked memory: ``record_stream``, ``pin_memory`` and ``is_pinned``."""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import Namespace, device_index
from gradlib.backend.device import require_cuda
from gradlib.backend.pinned import is_pinned as lies_pinned, kept_for, pinned
from gradlib.core.op import op, publish
from gradlib.core.tensor import Tensor
from gradlib.cuda.streams import as_stream


@op("elementwise", name="pin_memory", method=False, complex="explicit", input=lambda g: g)
def pin_memory_op(xp: Namespace, input: Any) -> Any:
    """A copy in page-locked memory."""
    return pinned(input)


def record_stream(self: Tensor, stream: Any) -> None:
    """Keep the tensor's memory, after the tensor is deleted, until a stream has done the work that it was given until then.

    Needed where a tensor that was made on one stream is used on another, and deleted without the first stream waiting for the second.

    Args:
        stream: a ``gradlib.cuda.Stream``, one of CuPy, or an object with ``__cuda_stream__``, of any device.
    Raises: NotImplementedError for a tensor on the CPU, TypeError for anything but a stream.
    Source: torch.Tensor.record_stream.
    """
    if device_index(self._array) is None:
        raise NotImplementedError("record_stream: a tensor on the CPU belongs to no stream; it is for tensors on a GPU")
    chosen = as_stream(stream)
    kept_for(self._array, chosen.cupy_stream, chosen.device_index)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor in page-locked memory, from which a GPU copies without waiting; the same tensor if it is there. Differentiable.

    Args:
        device: accepted, as in torch; every GPU can read it.
    Raises: RuntimeError for a tensor on a GPU, and without one.
    Source: torch.Tensor.pin_memory.
    """
    if self.is_cuda:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    require_cuda(None)
    made: Tensor = self if lies_pinned(self._array) else pin_memory_op(self)
    return made


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the tensor lies in page-locked memory. Source: torch.Tensor.is_pinned."""
    return lies_pinned(self._array)


for _method in (record_stream, pin_memory, is_pinned):
    publish(_method, _method.__name__)
