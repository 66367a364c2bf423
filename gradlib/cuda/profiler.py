"""torch.cuda.profiler: the part of a program that NVIDIA's profilers record (``nsys profile -c cudaProfilerApi``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gradlib.backend.array import cupy
from gradlib.cuda.devices import is_available

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Let a profiler that waits for it begin to record; without a GPU nothing happens.

    Source: torch.cuda.profiler.start.
    Example:
        >>> gradlib.cuda.profiler.start()
        >>> gradlib.cuda.profiler.stop()
    """
    if is_available():
        cupy().cuda.runtime.profilerStart()


def stop() -> None:
    """Let a profiler end to record.

    Source: torch.cuda.profiler.stop.
    Example:
        >>> gradlib.cuda.profiler.stop()
    """
    if is_available():
        cupy().cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A context whose work a profiler records.

    Source: torch.cuda.profiler.profile.
    Example:
        >>> with gradlib.cuda.profiler.profile():
        ...     pass
    """
    start()
    try:
        yield
    finally:
        stop()
