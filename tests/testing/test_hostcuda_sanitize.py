"""Kernels under the sanitizers that HOSTCUDA_SANITIZE asks for: what they report, and that nothing is compiled so without."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gradlib.cuda.source import kernel_folder
from gradlib.testing import hostcuda
from gradlib.testing.hostcuda import compiler
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")

ADDRESS = pytest.mark.skipif("-fsanitize=kernel-address" not in compiler.sanitizers(), reason="HOSTCUDA_SANITIZE leaves address out")
POINTER = "a pointer is used that is null, not aligned for its type, or outside of its variable"
UNDEFINED = pytest.mark.skipif("-fsanitize=undefined" not in compiler.sanitizers(), reason="HOSTCUDA_SANITIZE leaves undefined out")


def run(body: str, *args: Any, threads: int = 1, shared: int = 0) -> None:
    """Launch one block of a kernel whose parameters are `float* x`, `int n` and one of shared memory."""
    code = f'#include "tile.cuh"\nextern "C" __global__ void planted(float* x, const float* other, int n) {{\n{body}\n}}'
    kernel = cupy.RawKernel(code, "planted", options=("--std=c++17", f"-I{kernel_folder()}"))
    kernel((1,), (threads,), args, shared_mem=shared)


@pytest.fixture
def x() -> Any:
    return cupy.arange(6, dtype=cupy.float32)


@ADDRESS
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x[0] = x[n];", "reads 4 bytes at byte 24 of an allocation of 24 bytes"),  # 488 bytes of CuPy's piece are left behind it
        ("x[0] = other[n];", "reads 4 bytes at byte 24 of an allocation of 24 bytes"),
        ("x[n + 1] = 1;", "writes 4 bytes at byte 28 of an allocation of 24 bytes"),
        ("x[0] = other[-1];", "reads 4 bytes at byte -4 of an allocation of 24 bytes"),
        ("atomicAdd(x + n, 1.0f);", "reads 4 bytes at byte 24 of an allocation of 24 bytes"),
        ("x[0] = other[n * 100000000ll];", "reads 4 bytes at address 0x[0-9a-f]+, which lies in no allocation"),
        ("extern __shared__ float s[]; copy_piece(s, other + n);", "reads 4 bytes at byte 24 of an allocation of 24 bytes"),
        ("extern __shared__ float s[]; x[0] = s[4];", "reads 4 bytes at byte 16 of 16 bytes of shared memory"),
    ],
)
def test_an_access_outside_of_what_was_allocated(x: Any, body: str, found: str) -> None:
    with cupy.cuda.using_allocator(None):  # straight from the driver: what stands before a piece of CuPy's pool depends on earlier tests
        other = cupy.zeros(6, "f")
    with hostcuda.expected(rf"^planted: {found} \(block 0, 0, 0, thread 0, 0, 0\)$"):
        run(body, x, other, np.int32(6), shared=16)
    run("x[0] = other[n];", x, x, np.int32(5))  # the next launch is none the worse
    assert x.get().tolist() == [5, 1, 2, 3, 4, 5]


@ADDRESS
def test_the_thread_is_told_and_memory_of_the_host_is_refused(x: Any) -> None:
    with hostcuda.expected("thread 6, 0, 0"):
        run("x[threadIdx.x] = 1;", x, x, np.int32(0), threads=8)
    memory = np.zeros(6, "f")
    with hostcuda.expected("reads 4 bytes at address 0x[0-9a-f]+, which lies in no allocation"):
        run("x[0] = **reinterpret_cast<const float* const*>(other);", x, cupy.full(1, memory.ctypes.data, "u8"), np.int32(0))


@UNDEFINED
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("*reinterpret_cast<double*>(x + 1) = 0;", f"{POINTER} in line 3"),
        ("float few[4] = {};\nfloat* at = few + n - 6;\nx[0] = at[n];", f"{POINTER} in line 5"),
        ("int few[4] = {};\nx[0] = few[n];", "an index outside of its array in line 4"),
        ("x[0] = 1 << (n + 26);", "a shift by more bits than there are, or by fewer than none in line 3"),
        ("x[0] = 1 / (n - 6);", "a division of integers by zero, or one that overflows in line 3"),
    ],
)
def test_behaviour_that_is_not_defined(x: Any, body: str, found: str) -> None:
    with hostcuda.expected(rf"^planted: {found} \(block"):
        run(body, x, x, np.int32(6))


def test_each_is_asked_for_alone_or_with_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(words: str) -> list[str]:
        monkeypatch.setenv("HOSTCUDA_SANITIZE", words)
        return [option for option in compiler.sanitizers.__wrapped__() if option.startswith("-fsanitize")]

    assert asked("") == []
    assert asked("undefined") == ["-fsanitize=undefined"]
    assert asked("address") == ["-fsanitize=kernel-address"]
    assert asked("address,undefined") == ["-fsanitize=kernel-address", "-fsanitize=undefined"]


SCRIPT = """
from gradlib.testing import hostcuda
hostcuda.activate()
import cupy
x, y = cupy.arange(6, dtype="f"), cupy.empty(6, "f")
code = 'extern "C" __global__ void shift(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }'
cupy.RawKernel(code, "shift")((1,), (6,), (x, y))
"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", None),
        ("address,undefined", "HAZARD: shift: reads 4 bytes at byte 24 of an allocation of 24 bytes"),
        ("thread", "Unavailable: HOSTCUDA_SANITIZE takes address, undefined or both with a comma between, not thread"),
    ],
)
@pytest.mark.slow
def test_a_process_has_those_that_it_asks_for(asked: str, found: str | None) -> None:
    """In an ordinary Python, with nothing loaded before it."""
    environment = {**os.environ, "HOSTCUDA_SANITIZE": asked}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (found is None), done.stderr
    assert (found or "") in done.stderr
