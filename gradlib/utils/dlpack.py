"""Memory shared by DLPack, under torch.utils.dlpack's names."""

from __future__ import annotations

from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.ops.from_data import from_dlpack as from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of a tensor's memory in the old form of the protocol, which can be taken once.

    Args:
        tensor: without a gradient.
    Raises: BufferError as `Tensor.__dlpack__`.
    Source: torch.utils.dlpack.to_dlpack.
    """
    return tensor.__dlpack__()
