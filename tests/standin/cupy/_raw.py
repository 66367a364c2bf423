"""RawModule and RawKernel: the real CUDA source, compiled by g++ through tests/shim, run with the given grid, block and shared memory.

A kernel's arguments are checked against its parameters as compiled, which CUDA does not do: count, C type, dtype behind each pointer.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import runpy
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cupy import _door, _order
from cupy._array import ndarray

_SHIM = Path(__file__).resolve().parents[2] / "shim"
_SHARED_LIMIT = 48 * 1024
_lock = threading.Lock()  # the shim keeps the state of a running block in globals


class CompileException(Exception):
    """The source does not compile."""


def _kernels(code: str) -> list[str]:
    return re.findall(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(", re.sub(r"//[^\n]*", "", code))


def _program(code: str) -> str:
    shared = dict.fromkeys(re.findall(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]", code))
    lines = ['#include "library.h"']
    lines += [f"alignas(16) {ctype} {name}[SHARED_LIMIT / sizeof({ctype})];" for ctype, name in shared]
    lines += [re.sub(r"\b__shared__", "static", re.sub(r"extern\s+__shared__", "extern", code))]
    dynamic = f"(unsigned char*){next(iter(shared))[1]}" if shared else "nullptr"
    lines += [f"EXPORT({name}, {dynamic})" for name in _kernels(code)]
    return "\n".join(lines)


@cache
def _library(code: str, options: tuple[str, ...]) -> ctypes.CDLL:
    """The compiled source, kept between runs for each state of the source, its headers and the shim."""
    flags = [option for option in options if option.startswith(("-D", "-I"))]
    folders = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    headers = [p.read_text() for folder in (_SHIM, *folders) for p in sorted(folder.glob("*.*h"))]
    program = _program(code)
    digest = hashlib.sha256("\0".join([program, *options, *headers]).encode()).hexdigest()[:24]
    kept = runpy.run_path(str(_SHIM / "kept.py"))["cache_folder"]()
    made = kept / f"library-{digest}.so"
    if not made.exists():
        source = kept / f"library-{digest}-{os.getpid()}-{threading.get_ident()}.cpp"
        source.write_text(program)
        unfinished = source.with_suffix(".so")
        command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", f"-I{_SHIM}", *flags, str(source), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True)
        source.unlink()
        if done.returncode:
            raise CompileException(done.stderr)
        unfinished.replace(made)
    return ctypes.CDLL(str(made))


def _code_of(dtype: np.dtype) -> str:
    opaque = dtype.kind in "cV" or dtype == np.float16
    return f"{'b' if opaque else 'u' if dtype.kind == 'b' else dtype.kind}{dtype.itemsize}"


def _number(value: Any) -> np.generic:
    """A number as CuPy passes it: Python's float is a double, its int 64 bits wide, its complex two doubles."""
    if isinstance(value, np.generic):
        return value
    for kind, cast in ((bool, np.bool_), (int, np.int64), (float, np.float64), (complex, np.complex128)):
        if isinstance(value, kind):
            return cast(value)  # type: ignore[call-overload]
    raise TypeError(f"Unsupported type {type(value)}")


class RawKernel:
    """One kernel of a source."""

    def __init__(
        self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc", translate_cucomplex: bool = False, *,
        enable_cooperative_groups: bool = False, jitify: Any = None,
    ) -> None:  # fmt: skip
        self.code, self.name, self.options, self.backend = code, name, tuple(options), backend
        if name not in _kernels(code):
            raise ValueError(f"CUDA_ERROR_NOT_FOUND: named symbol not found: {name}")

    def compile(self, log_stream: Any = None) -> None:
        _library(self.code, self.options)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return _SHARED_LIMIT

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0) -> None:
        sizes = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
        limits = (2**31 - 1, 65535, 65535, 1024, 1024, 64)
        if any(not 1 <= n <= limit for n, limit in zip(sizes, limits, strict=True)) or np.prod(sizes[3:]) > 1024:
            raise ValueError(f"CUDA_ERROR_INVALID_VALUE: grid {grid}, block {block}")
        if not 0 <= shared_mem <= _SHARED_LIMIT:
            raise ValueError(f"CUDA_ERROR_INVALID_VALUE: {shared_mem} bytes of shared memory")
        library = _library(self.code, self.options)
        describe, launch = getattr(library, f"describe_{self.name}"), getattr(library, f"launch_{self.name}")
        describe.restype = launch.restype = ctypes.c_char_p
        values = self._checked(describe().decode().split(";")[:-1], args)
        stamp = _order.current_stream()._enqueue()
        arrays = [value for value in args if isinstance(value, ndarray)]
        for array in arrays:
            _door.note(array, True, stamp)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(value.ctypes.data for value in values))
        with _lock:
            error = launch((ctypes.c_uint * 6)(*sizes), ctypes.c_size_t(shared_mem), pointers)
        if error:
            raise _order.Hazard(f"{self.name}: {error.decode()}")
        for array in arrays:
            array.data.mem.block.check_guards(array.data.mem.asked)

    def _checked(self, declared: list[str], args: tuple[Any, ...]) -> list[np.ndarray]:
        """The bytes of each argument. Raises: TypeError where the kernel declares something else."""
        if len(declared) != len(args):
            raise TypeError(f"{self.name} takes {len(declared)} arguments, got {len(args)}")
        values = []
        for number, (code, value) in enumerate(zip(declared, args, strict=True)):
            if isinstance(value, ndarray):
                if not value.flags.c_contiguous:
                    raise _order.Hazard(
                        f"{self.name}: argument {number} has strides {value.strides} for shape {value.shape}; a kernel sees a pointer"
                    )
                given, data = f"*{_code_of(value.dtype)}", np.uintp(value.data.ptr)
                if value.data.device_id != _order.here.device:
                    raise _order.Hazard(
                        f"{self.name} runs on device {_order.here.device}, argument {number} lies on {value.data.device_id}"
                    )
            else:
                data = _number(value)
                given = code if code[0] == "*" and isinstance(data, np.uintp) and data == 0 else _code_of(data.dtype)
            if given != code and not (code == "*v" and given[0] == "*"):
                raise TypeError(f"{self.name}: argument {number} is {code}, got {given} ({type(value).__name__})")
            values.append(np.atleast_1d(np.asarray(data)))
        return values


class RawModule:
    """A source with several kernels."""

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: tuple[str, ...] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False, name_expressions: Any = None, jitify: Any = None,
    ) -> None:  # fmt: skip
        if code is None:
            raise NotImplementedError("the stand-in compiles sources only")
        self.code, self.options, self.backend = code, tuple(options), backend

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self.code, name, self.options, self.backend)

    def compile(self, log_stream: Any = None) -> None:
        _library(self.code, self.options)
