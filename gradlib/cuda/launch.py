"""The typed launch: a kernel's declared parameters, checked and cast, on the current stream of the arrays' device.

CuPy passes a Python float as a double and an int as 64 bits, whatever the kernel declares, and passes an array of a wrong dtype silently.
Here every argument is checked against the declaration in the source, and every number is cast to the declared type.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import cupy
from gradlib.core.modes import observing
from gradlib.cuda.signature import Options, Parameter, dtype_of, expression, parameters
from gradlib.cuda.source import Source, compile_error, headers_digest, kernel_folder, numbered_source, sources_digest


@dataclass(frozen=True)
class Call:
    """One launch of a kernel as plain data: it runs on a GPU by `launch`, and in the tests by other compilers.

    Attributes:
        source: file name in the kernel folder, or a user's text; kernel: the function's name in it.
        options: macros and their values, such as (("STORAGE", "float"), ("INDEX", "int")), or a template's parameters and arguments.
        grid, block: the number of blocks, and of threads per block; shared: bytes of dynamic shared memory.
        args: arrays (None is a null pointer) and numbers, in the kernel's order.
    """

    source: str | Source
    kernel: str
    options: Options
    grid: tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...] = field(repr=False)
    shared: int = 0


_NULL = np.uintp(0)  # how CuPy takes a null pointer


class Check(NamedTuple):
    """How the argument for one parameter is checked.

    Attributes:
        where: the kernel's and the parameter's name, for error texts.
        dtype: the array's dtype, or the type that a number is cast to; cast: the NumPy scalar type that does it.
        kinds: the Python and NumPy types that a number may have; bounds: its least and greatest value, None for a float.
    """

    parameter: Parameter
    where: str
    dtype: np.dtype[Any]
    cast: Any
    kinds: Any
    bounds: tuple[int, int] | None


_KINDS: dict[str, Any] = {
    "b": (bool, np.bool_),
    "f": (int, float, np.integer, np.floating),
    "c": (int, float, complex, np.number),
    "i": (int, np.integer),
}


def _check(kernel: str, parameter: Parameter) -> Check:
    dtype = dtype_of(parameter.ctype)
    where, kind = f"{kernel}: {parameter.name}", {"u": "i", "V": "f"}.get(dtype.kind, dtype.kind)
    if kind != "i":
        return Check(parameter, where, dtype, dtype.type, _KINDS[kind], None)
    limits = np.iinfo(dtype)
    return Check(parameter, where, dtype, dtype.type, _KINDS[kind], (int(limits.min), int(limits.max)))


class Prepared:
    """A kernel and its options, prepared for launches: a `Check` for each parameter, and the kernel's handle on each device.

    What depends on the declaration alone is computed here, once. A launch is then one pass over its arguments.
    """

    def __init__(self, source: str | Source, kernel: str, options: Options) -> None:
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
        """The CuPy kernel on a device, cached: every call of ``get_function`` gives a new object, which loads the kernel again."""
        found = self._handles.get(device)
        if found is None:
            found = self._handles[device] = self._found(device)
        return found

    def _found(self, device: int) -> Any:
        source = self.source
        if not isinstance(source, Source):
            return compiled(source, self.options, device).get_function(self.kernel)
        if source.made is not None:
            return source.made.get_function(self.kernel) if hasattr(source.made, "get_function") else source.made
        from cupy.cuda.compiler import CompileException

        asked = expression(source, self.kernel, self.options)
        try:
            return compiled(source, self.options, device, asked).get_function(asked)
        except CompileException as error:
            raise compile_error(source, asked, str(error)) from None


prepared = cache(Prepared)
"""`Prepared` of a source, a kernel in it and the options, made once in a process."""


def checked_args(call: Call) -> tuple[Any, ...]:
    """The arguments of a call as its kernel declares them: arrays are checked, numbers cast, and None becomes a null pointer.

    Raises:
        TypeError: a number of arguments, a dtype or a kind of value that the kernel does not declare.
        ValueError: an array that is not C-contiguous, lives on another device than the others, or is read-only and would be written;
            a number that does not fit its type.
    """
    return prepared(call.source, call.kernel, call.options).checked(call.args)[0]


def compile_options(options: Iterable[tuple[str, str]], source: str | Source = "") -> tuple[str, ...]:
    """The flags for NVRTC: the language standard, the folder of headers, line numbers for profilers, and the options as macros.

    One macro is the digest of all sources, because the key of CuPy's cache of compiled kernels does not cover headers. CuPy adds -ftz=true
    to every compilation; it is listed here so that others compile alike: float32 numbers below 1.2e-38 count as zero in the kernels. A
    template's arguments are no flags; they are part of the name by which the kernel is requested.
    """
    if isinstance(source, Source):
        folders = () if source.folder is None else (f"-I{source.folder}", f"-DGRADLIB_HEADERS=x{headers_digest(source)}")
        return ("--std=c++17", *folders, "-lineinfo", "-ftz=true", *source.flags)
    names = (("GRADLIB_SOURCES", f"x{sources_digest()}"), *options)
    return ("--std=c++17", f"-I{kernel_folder()}", "-lineinfo", "-ftz=true", *(f"-D{name}={value}" for name, value in names))


_HALF_HEADERS = (("__half", "#include <cuda_fp16.h>"), ("__nv_bfloat16", "#include <cuda_bf16.h>"))


def compiled_text(source: str | Source, options: Options) -> str:
    """The text to compile: the source, preceded by the header of a half type if the template is instantiated with one."""
    asked = {value for _, value in options} if isinstance(source, Source) else set()
    return "\n".join([*(include for ctype, include in _HALF_HEADERS if ctype in asked), numbered_source(source)])


@cache
def compiled(source: str | Source, options: Options, device: int, asked: str | None = None) -> Any:
    """The CuPy module of a source with these options on a device, compiled once per process. ``asked``: the kernel, in a user's source."""
    library = cupy()
    with library.cuda.Device(device):
        return library.RawModule(
            code=compiled_text(source, options), options=compile_options(options, source), backend="nvrtc",
            name_expressions=None if asked is None else (asked,),
        )  # fmt: skip


BLOCKING = os.environ.get("GRADLIB_LAUNCH_BLOCKING", "0") != "0"
"""Whether the host waits for each kernel, so that a fault on the device is raised at its launch and not at a later call."""


def awaited(kernel: str, args: Iterable[Any] = ()) -> None:
    """Wait for the kernel that was just launched on the current stream, if GRADLIB_LAUNCH_BLOCKING is set.

    Raises:
        RuntimeError: the kernel failed on the device; the text names it and its arguments.
    """
    if not BLOCKING:
        return
    stream = cupy().cuda.get_current_stream()
    if stream.is_capturing():
        return
    try:
        stream.synchronize()
    except Exception as error:
        given = ", ".join(f"{x.dtype}{list(x.shape)}" if hasattr(x, "shape") and x.shape else str(x) for x in args)
        raise RuntimeError(f"{kernel} failed on the device: {error}. Its arguments: {given or 'not known'}") from error


def launch(call: Call) -> None:
    """Run a call on the GPU that holds its arrays, on CuPy's current stream there.

    Raises:
        TypeError, ValueError: as `checked_args`; ValueError too when the arrays are in host memory.
        CompileError: a user's source does not compile.
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
        block = call.block if isinstance(call.block, tuple) else (call.block,)
        observer = observing()
        if observer is None:
            run(call.grid, block, args, shared_mem=call.shared)
        else:
            mark = observer.begin(call.kernel, None, ())
            try:
                run(call.grid, block, args, shared_mem=call.shared)
            finally:
                observer.end(mark)
        if BLOCKING:
            awaited(call.kernel, call.args)
