"""CUDA's driver library, functions of it that CuPy does not offer (capture modes, the number of nodes in a graph, a device's UUID), and
what stands for something of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import UUID

RELAXED = 2


class OfDriver:
    """Something of the driver's, which is released when its last owner goes: it is neither copied nor pickled."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"cannot pickle or copy '{type(self).__name__}' object: it stands for something of CUDA's, which a copy would release again"
        )


@cache
def library() -> ctypes.CDLL:
    """The driver's library. Raises: OSError where there is none."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def _exchange(mode: int) -> int:
    """Set the calling thread's capture mode. Returns: the mode before."""
    held = ctypes.c_int(mode)
    if code := library().cuThreadExchangeStreamCaptureMode(ctypes.byref(held)):
        raise RuntimeError(f"cuThreadExchangeStreamCaptureMode failed with CUDA's error {code}")
    return held.value


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """While entered, this thread may allocate memory and load kernels during a capture, whatever the capture's mode.

    CuPy's pool grows by cudaMalloc, and the first launch of a kernel loads it; CUDA refuses both within a capture that is not relaxed.
    """
    before = _exchange(RELAXED)
    try:
        yield
    finally:
        _exchange(before)


def node_count(graph: int) -> int:
    """The number of nodes in a graph, given by its handle (cudaGraph_t)."""
    count = ctypes.c_size_t()
    if code := library().cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)):
        raise RuntimeError(f"cuGraphGetNodes failed with CUDA's error {code}")
    return count.value


def uuid_of(device: int) -> str:
    """The UUID of a device, which nvidia-smi shows behind "GPU-". CuPy reads it only up to its first zero byte."""
    found = ctypes.create_string_buffer(16)
    if code := library().cuDeviceGetUuid_v2(found, ctypes.c_int(device)):
        raise RuntimeError(f"cuDeviceGetUuid failed with CUDA's error {code}")
    return str(UUID(bytes=found.raw))
