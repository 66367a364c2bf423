"""The typed launch: a kernel's declared parameters, checked and cast, on the current stream of the arrays' device.

CuPy passes a Python float as a double and an int as 64 bits, whatever the kernel declares, and an array of another dtype without a
word. Here the declaration in the source is the truth: every argument is checked against it and every number cast to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import cupy
from gradlib.backend.dtype import bfloat16
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


_NULL = np.uintp(0)  # how CuPy takes a null pointer


class Check(NamedTuple):
    """What an argument is asked for one parameter.

    Attributes:
        where: the kernel's and the parameter's name, for the texts of errors.
        dtype: of the array or, for a number, the type that it is cast to, which is `cast`.
        kinds: the Python and NumPy types that a number may have; bounds: the least and the greatest, None for a float.
    """

    parameter: Parameter
    where: str
    dtype: np.dtype[Any]
    cast: Any
    kinds: Any
    bounds: tuple[int, int] | None


def _check(kernel: str, parameter: Parameter) -> Check:
    dtype = bfloat16() if parameter.dtype == "bfloat16" else np.dtype(parameter.dtype)
    where = f"{kernel}: {parameter.name}"
    if dtype.kind != "i":
        return Check(parameter, where, dtype, dtype.type, (int, float, np.integer, np.floating), None)
    limits = np.iinfo(dtype)
    return Check(parameter, where, dtype, dtype.type, (int, np.integer), (int(limits.min), int(limits.max)))


class Prepared:
    """A kernel with its options as its launches need it: what each argument is asked, and the kernel's handle on each device.

    What depends on the declaration alone is worked out here, once; a launch is one pass over its arguments.
    """

    def __init__(self, source: str, kernel: str, options: Options) -> None:
        self.source, self.kernel, self.options = source, kernel, options
        self.checks = tuple(_check(kernel, p) for p in parameters(source, kernel, options))
        self._handles: dict[int, Any] = {}

    def checked(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], int | None]:
        """The arguments as the kernel declares them, and the device of the arrays; None for host memory or no array at all.

        Raises:
            TypeError, ValueError: as `checked_args`.
        """
        if len(args) != len(self.checks):
            names = ", ".join(check.parameter.name for check in self.checks)
            raise TypeError(f"{self.kernel} takes {len(self.checks)} arguments, got {len(args)}: {names}")
        made: list[Any] = []
        device, known = None, False
        for (parameter, where, dtype, cast, kinds, bounds), value in zip(self.checks, args, strict=True):
            if not parameter.pointer:
                if not isinstance(value, kinds):
                    raise TypeError(f"{where} is a number of C type {parameter.ctype}, got {type(value).__name__}")
                if bounds is not None and not bounds[0] <= int(value) <= bounds[1]:
                    raise ValueError(f"{where} is a {parameter.ctype}, and {value} does not fit it")
                made.append(cast(value))
                continue
            if value is None:
                made.append(_NULL)
                continue
            flags = getattr(value, "flags", None)
            if flags is None:
                raise TypeError(f"{where} is an array of {dtype}, got {type(value).__name__}")
            if value.dtype != dtype:
                raise TypeError(f"{where} has dtype {dtype}, got {value.dtype} of shape {value.shape}; convert it with astype")
            if not flags.c_contiguous:
                advice = "copy it with ascontiguousarray"
                raise ValueError(f"{where} is C-contiguous, got strides {value.strides} for shape {value.shape}; {advice}")
            here = None if isinstance(value, np.ndarray) else value.data.device_id
            if not known:
                device, known = here, True
            elif here != device:
                raise ValueError(f"{where} lives on device {here}, the first array on {device}; move them to one device")
            if parameter.written and here is None and not flags.writeable:  # a CuPy array may always be written
                raise ValueError(f"{where} is written by the kernel, but the array is read-only")
            made.append(value)
        return tuple(made), device

    def handle(self, device: int) -> Any:
        """The CuPy kernel on a device: asked of the module once, for every call of ``get_function`` gives another that loads it again."""
        found = self._handles.get(device)
        if found is None:
            found = self._handles[device] = compiled(self.source, self.options, device).get_function(self.kernel)
        return found


prepared = cache(Prepared)
"""`Prepared` of a source, a kernel in it and the options, made once in a process."""


def checked_args(call: Call) -> tuple[Any, ...]:
    """The arguments of a call as its kernel declares them: arrays checked, numbers cast, absent arrays as null pointers.

    Raises:
        TypeError: a number of arguments, a dtype or a kind of value that the kernel does not declare.
        ValueError: an array that is not C-contiguous, lives on another device than the others, or is read-only and would be written;
            a number that does not fit its type.
    """
    return prepared(call.source, call.kernel, call.options).checked(call.args)[0]


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
    kernel = prepared(call.source, call.kernel, call.options)
    args, device = kernel.checked(call.args)
    if device is None:
        some = any(hasattr(a, "flags") for a in call.args)
        got = "arrays in host memory; move them with .cuda()" if some else "no array that tells which; pass at least one"
        raise ValueError(f"{call.kernel} runs on a GPU, got {got}")
    if 0 in call.grid:
        return  # nothing to compute; CUDA refuses an empty grid
    with cupy().cuda.Device(device):
        run = kernel.handle(device)
        observer = observing()
        if observer is None:
            run(call.grid, (call.block,), args, shared_mem=call.shared)
            return
        mark = observer.begin(call.kernel, None, ())
        try:
            run(call.grid, (call.block,), args, shared_mem=call.shared)
        finally:
            observer.end(mark)
