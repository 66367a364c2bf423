"""Values as the tests make and compare them, on the host whatever device computed them; and the memory that a call takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from gradlib.backend.array import move, namespace
from gradlib.core.tensor import Tensor, as_array


def leaf(*values: float, device: Any = None) -> Tensor:
    """A leaf of float64 that requires a gradient: of 1, 2 and 3 unless other numbers are given."""
    return gradlib.tensor(values or (1.0, 2.0, 3.0), dtype=gradlib.float64, device=device, requires_grad=True)


def ones(*shape: int) -> Tensor:
    """Ones of float64."""
    return gradlib.ones(shape, dtype=gradlib.float64)


def host(value: Any) -> np.ndarray:
    """A NumPy array of what a Tensor (requiring a gradient or not), an array of either library or a number holds."""
    return move(as_array(value._array if isinstance(value, Tensor) else value), None)


def shares_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors on one device have elements in common."""
    return bool(namespace(a._array).shares_memory(a._array, b._array))


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most host memory in use at one time while it ran, its result included."""
    tracemalloc.start()
    try:
        kept = call()
        del kept
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
