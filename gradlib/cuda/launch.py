"""The typed launch: a kernel's declared parameters, checked and cast, on the current stream of the arrays' device.

CuPy passes a Python float as a double and an int as 64 bits, whatever the kernel declares, and an array of another dtype without a
word. Here the declaration in the source is the truth: every argument is checked against it and every number cast to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.array import cupy, device_index, is_writeable
from gradlib.core.modes import observing
from gradlib.cuda.source import kernel_folder, numbered_source, read_source, sources_digest

C_TYPES = {"float": "float32", "double": "float64", "half_t": "float16", "bfloat16_t": "bfloat16", "int": "int32", "long long": "int64"}
"""The NumPy dtype name of each C type that a kernel's parameters may have."""

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, its C type, whether it is a pointer and whether the kernel may write through it."""

    name: str
    ctype: str
    pointer: bool
    written: bool

    @property
    def dtype(self) -> str:
        return C_TYPES[self.ctype]


@dataclass(frozen=True)
class Call:
    """One launch of a kernel, as plain data, so that whoever has a compiler for the source can run it.

    Attributes:
        source: file name in the kernel folder; kernel: the function's name in it.
        options: compile-time names and their values, such as (("STORAGE", "float"), ("INDEX", "int")).
        grid, block: numbers of blocks and of threads a block; shared: bytes of dynamic shared memory.
        args: arrays (None is a null pointer) and numbers, in the kernel's order.
    """

    source: str
    kernel: str
    options: Options
    grid: tuple[int, int]
    block: int
    args: tuple[Any, ...] = field(repr=False)
    shared: int = 0


@cache
def parameters(source: str, kernel: str, options: Options) -> tuple[Parameter, ...]:
    """The declared parameters of a kernel, with the options' names and ``real`` put in.

    Raises:
        ValueError: the source has no such kernel, or declares a type that is not in ``C_TYPES``.
    """
    text = re.sub(r"//[^\n]*", "", read_source(source))
    match = re.search(rf"__global__[^;{{]*?\b{re.escape(kernel)}\s*\(([^)]*)\)", text)
    if match is None:
        raise ValueError(f'{source} declares no kernel {kernel!r}; write it as extern "C" __global__ void {kernel}(...)')
    names = dict(options)
    names["real"] = "double" if names.get("STORAGE") == "double" else "float"
    return tuple(_parameter(source, part, names) for part in match.group(1).split(","))


def _parameter(source: str, text: str, names: Mapping[str, str]) -> Parameter:
    words = text.replace("*", " * ").split()
    pointer = "*" in words
    written = pointer and words[0] != "const"
    declared = " ".join(w for w in words[:-1] if w not in ("*", "const", "__restrict__"))
    ctype = names.get(declared, declared)
    if ctype not in C_TYPES:
        raise ValueError(f"{source}: parameter {words[-1]!r} has type {ctype!r}; a kernel takes {', '.join(C_TYPES)}, or pointers to them")
    return Parameter(words[-1], ctype, pointer, written)


def checked_args(call: Call) -> tuple[Any, ...]:
    """The arguments of a call as its kernel declares them: arrays checked, numbers cast, absent arrays as null pointers.

    Raises:
        TypeError: a number of arguments, a dtype or a kind of value that the kernel does not declare.
        ValueError: an array that is not C-contiguous, lives on another device than the others, or is read-only and would be written;
            a number that does not fit its type.
    """
    declared = parameters(call.source, call.kernel, call.options)
    if len(declared) != len(call.args):
        raise TypeError(f"{call.kernel} takes {len(declared)} arguments, got {len(call.args)}: {', '.join(p.name for p in declared)}")
    arrays = [a for a in call.args if hasattr(a, "dtype") and hasattr(a, "flags")]
    device = device_index(arrays[0]) if arrays else None
    return tuple(_checked(call.kernel, p, value, device) for p, value in zip(declared, call.args, strict=True))


def _checked(kernel: str, parameter: Parameter, value: Any, device: int | None) -> Any:
    where = f"{kernel}: {parameter.name}"
    if not parameter.pointer:
        return _number(where, parameter, value)
    if value is None:
        return np.uintp(0)
    if not hasattr(value, "flags"):
        raise TypeError(f"{where} is an array of {parameter.dtype}, got {type(value).__name__}")
    if value.dtype.name != parameter.dtype:
        raise TypeError(f"{where} has dtype {parameter.dtype}, got {value.dtype} of shape {value.shape}; convert it with astype")
    if not value.flags.c_contiguous:
        raise ValueError(f"{where} is C-contiguous, got strides {value.strides} for shape {value.shape}; copy it with ascontiguousarray")
    if device_index(value) != device:
        raise ValueError(f"{where} lives on device {device_index(value)}, the first array on {device}; move them to one device")
    if parameter.written and not is_writeable(value):
        raise ValueError(f"{where} is written by the kernel, but the array is read-only")
    return value


def _number(where: str, parameter: Parameter, value: Any) -> Any:
    kinds: Any = (int, np.integer) if parameter.dtype.startswith("int") else (int, float, np.integer, np.floating)
    if not isinstance(value, kinds):
        raise TypeError(f"{where} is a number of C type {parameter.ctype}, got {type(value).__name__}")
    cast = np.dtype(parameter.dtype).type
    if parameter.dtype.startswith("int") and not np.iinfo(parameter.dtype).min <= int(value) <= np.iinfo(parameter.dtype).max:
        raise ValueError(f"{where} is a {parameter.ctype}, and {value} does not fit it")
    return cast(value)


def compile_options(options: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """What the run-time compiler is told: the language, where the headers lie, line numbers for profilers, the options.

    The digest of all sources is one of them because CuPy keeps what it compiled under a key that no header is part of. CuPy adds -ftz=true
    to every launch, here it stands for all who compile: float32 numbers below 1.2e-38 count as zero in the kernels.
    """
    names = (("GRADLIB_SOURCES", f"x{sources_digest()}"), *options)
    return ("--std=c++17", f"-I{kernel_folder()}", "-lineinfo", "-ftz=true", *(f"-D{name}={value}" for name, value in names))


@cache
def compiled(source: str, options: Options, device: int) -> Any:
    """The CuPy module of a source with these options on a device: compiled once in a process."""
    library = cupy()
    with library.cuda.Device(device):
        return library.RawModule(code=numbered_source(source), options=compile_options(options), backend="nvrtc")


def launch(call: Call) -> None:
    """Run a call on the GPU that holds its arrays, on CuPy's current stream there.

    Raises:
        TypeError, ValueError: as `checked_args`; ValueError too when the arrays are in host memory.
    """
    args = checked_args(call)
    device = next(device_index(a) for a in call.args if hasattr(a, "flags"))
    if device is None:
        raise ValueError(f"{call.kernel} runs on a GPU, got arrays in host memory; move them with .cuda()")
    if 0 in call.grid:
        return  # nothing to compute; CUDA refuses an empty grid
    with cupy().cuda.Device(device):
        kernel = compiled(call.source, call.options, device).get_function(call.kernel)
        observer = observing()
        if observer is None:
            kernel(call.grid, (call.block,), args, shared_mem=call.shared)
            return
        mark = observer.begin(call.kernel, None, ())
        try:
            kernel(call.grid, (call.block,), args, shared_mem=call.shared)
        finally:
            observer.end(mark)
