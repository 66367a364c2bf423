"""Devices, streams, events and memory."""

from typing import Any

from cupy._memory import (
    Device as Device,
    Memory as Memory,
    MemoryPointer as MemoryPointer,
    MemoryPool as MemoryPool,
    alloc as alloc,
    alloc_pinned_memory as alloc_pinned_memory,
)
from cupy._order import Event as Event, Stream as Stream, get_elapsed_time as get_elapsed_time
from cupy.cuda import _curand as curand, runtime as runtime, stream as stream
from cupy.cuda.stream import get_current_stream as get_current_stream


def is_available() -> bool:
    return runtime.getDeviceCount() > 0


def get_device_id() -> int:
    return runtime.getDevice()


def __getattr__(name: str) -> Any:
    if name == "nvrtc":  # CuPy's own bindings, which need no GPU; g++ compiles what the stand-in runs
        from cupy_backends.cuda.libs import nvrtc

        return nvrtc
    raise AttributeError(f"module 'cupy.cuda' has no attribute {name!r}")
