"""What "cuda" is in this run of the tests: a GPU, or hostcuda, which runs the same CuPy on the CPU; or nothing, and then why."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

from gradlib.testing import hostcuda
from gradlib.testing.hostcuda.loader import has_gpu

os.environ.setdefault("HOSTCUDA_SANITIZE", "address,undefined")  # gradlib's kernels and those of the tests run under them
HAS_GPU = not hostcuda.is_active() and has_gpu()
NO_CUDA = None if HAS_GPU else hostcuda.reason_against()
"""Why no test can run on "cuda"; None where CuPy runs."""

if not HAS_GPU and NO_CUDA is None:
    hostcuda.activate()  # before any test imports CuPy


class _Absent:
    """In CuPy's place where it has nothing to run on: a test that uses it is skipped."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what pytest asks every object
            raise AttributeError(name)
        pytest.skip(str(NO_CUDA))


cupy: Any = _Absent() if NO_CUDA else importlib.import_module("cupy")
if os.environ.get("GRADLIB_TEST_POOL") == "0" and not NO_CUDA:
    cupy.cuda.set_allocator(None)  # an allocation for each array, whose end compute-sanitizer then knows
DEVICES: int = 0 if NO_CUDA else cupy.cuda.runtime.getDeviceCount()
two_devices = pytest.mark.skipif(DEVICES < 2, reason=NO_CUDA or "needs two CUDA devices")


def skip_module_without_cuda() -> None:
    """For a module of tests that are all about CUDA, before it uses CuPy."""
    if NO_CUDA:
        pytest.skip(NO_CUDA, allow_module_level=True)


def skip_module_without_hostcuda() -> None:
    """For a module of tests that ask hostcuda itself."""
    if not hostcuda.is_active():
        pytest.skip(NO_CUDA or "its subject is CuPy on hostcuda, and this machine has a GPU", allow_module_level=True)
