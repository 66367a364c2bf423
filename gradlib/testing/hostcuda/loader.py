"""Puts the driver beneath an unmodified CuPy wheel, before CuPy is imported.

CuPy finds CUDA's libraries by name, so ours are loaded first under those names. The CUDA runtime is the exception: it is linked
statically into the wheel's modules, whose symbol tables are kept, so each `cudaXxx` there is overwritten in memory by a jump to ours.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

_made: dict[str, Callable[[], Path]] = {}


def offer(name: str, make: Callable[[], Path]) -> None:
    """Say how a library is made that CuPy asks for by a name of cuda.pathfinder, such as "cublas"; it is made when CuPy asks."""
    _made[name] = make


def load_library(name: str) -> ctypes.CDLL | None:
    """The library of that name, made and loaded for all modules to see; None when nobody offers one."""
    make = _made.get(name)
    return None if make is None else ctypes.CDLL(str(make()), mode=ctypes.RTLD_GLOBAL)
