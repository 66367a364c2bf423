"""The typed launch: a kernel's declared parameters, checked and cast, on the current stream of the arrays' device.

CuPy passes a Python float as a double and an int as 64 bits, whatever the kernel declares, and passes an array of a wrong dtype silently.
Here every argument is checked against the declaration in the source, and every number is cast to the declared type.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import cupy, device_array
from gradlib.backend.launching import Functions, Slots
from gradlib.core.modes import global_state, thread_state
from gradlib.cuda.signature import Options, Parameter, dtype_of, expression, parameters
from gradlib.cuda.source import Source, kernel_folder, numbered_source, showing_line, sources_digest


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
    """The check of the argument for one parameter.

    Attributes:
        pointer, written: the parameter's kind; where: the kernel's and the parameter's name, for error texts.
        dtype: the array's dtype, or the type that a number is cast to; ctype: its name in C.
        kinds: the Python and NumPy types that a number may have; bounds: its least and greatest value, None for a float.
    """

    pointer: bool
    written: bool
    where: str
    dtype: np.dtype[Any]
    ctype: str
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
    limits = np.iinfo(dtype) if kind == "i" else None
    bounds = None if limits is None else (int(limits.min), int(limits.max))
    return Check(parameter.pointer, parameter.written, where, dtype, parameter.ctype, _KINDS[kind], bounds)


_LETTERS = frozenset("P?bBhHiIlLqQefd")  # addresses, and numbers whose dtype's letter means the same to `struct`


class Prepared:
    """A kernel and its options, prepared for launches: a `Check` for each parameter, and the kernel's handle on each device.

    What depends on the declaration alone is computed here, once. A launch is then one pass over its arguments.

    Attributes:
        checks: one for each parameter. functions: the driver's handle by device.
        slots: memory for the packed arguments; None for a kernel that CuPy launches: a user's RawKernel, or one that takes a number of
            another type than C's own.
    """

    def __init__(self, source: str | Source, kernel: str, options: Options) -> None:
        self.source, self.kernel, self.options = source, kernel, options
        self.checks = tuple(_check(kernel, p) for p in parameters(source, kernel, options))
        self._handles: dict[int, Any] = {}
        self.functions = Functions(self.handle)
        letters = ["P" if check.pointer else check.dtype.char for check in self.checks]
        is_plain = _LETTERS.issuperset(letters)
        is_given = isinstance(source, Source) and source.made is not None
        self.slots = Slots("".join(letters)) if is_plain and not is_given else None

    def checked(self, args: tuple[Any, ...]) -> tuple[list[Any], int | None]:
        """The numbers, and the addresses of the arrays, that a launch passes, and the device of the arrays.

        The device is None for host memory, whose addresses are not asked, and for no array at all.

        Raises:
            TypeError, ValueError: as `checked_args`.
        """
        if len(args) != len(self.checks):
            names = ", ".join(check.where.partition(": ")[2] for check in self.checks)
            raise TypeError(f"{self.kernel} takes {len(self.checks)} arguments, got {len(args)}: {names}")
        made: list[Any] = []
        device, known, device_class = None, False, device_array()
        for (pointer, written, where, dtype, ctype, kinds, bounds), value in zip(self.checks, args, strict=True):
            if not pointer:
                if not isinstance(value, kinds):
                    raise TypeError(f"{where} is a number of C type {ctype}, got {type(value).__name__}")
                if bounds is not None and not bounds[0] <= int(value) <= bounds[1]:
                    raise ValueError(f"{where} is a {ctype}, and {value} does not fit it")
                made.append(value)
                continue
            if value is None:
                made.append(0)
                continue
            is_host = isinstance(value, np.ndarray)
            if not is_host and (device_class is None or not isinstance(value, device_class)):
                raise TypeError(f"{where} is an array of {dtype}, got {type(value).__name__}")
            if value.dtype is not dtype and value.dtype != dtype:
                raise TypeError(f"{where} has dtype {dtype}, got {value.dtype} of shape {value.shape}; convert it with astype")
            if not (value.flags.c_contiguous if is_host else value._c_contiguous):
                advice = "copy it with ascontiguousarray"
                raise ValueError(f"{where} is C-contiguous, got strides {value.strides} for shape {value.shape}; {advice}")
            here = None
            if is_host:
                if written and not value.flags.writeable:  # a CuPy array may always be written
                    raise ValueError(f"{where} is written by the kernel, but the array is read-only")
                made.append(None)
            else:
                memory = value.data
                here = memory.device_id
                made.append(memory.ptr)
            if here != device:
                if known:
                    raise ValueError(f"{where} lives on device {here}, the first array on {device}; move them to one device")
                device = here
            known = True
        return made, device

    def cast(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments that have been checked as CuPy's own launch takes them: numbers in the declared types, and null pointers."""
        kept = zip(self.checks, args, strict=True)
        return tuple([(_NULL if x is None else x) if check.pointer else check.dtype.type(x) for check, x in kept])

    def handle(self, device: int) -> Any:
        """The CuPy kernel on a device, cached: every call of ``get_function`` gives a new object, which loads the kernel again."""
        found = self._handles.get(device)
        if found is None:
            found = self._handles[device] = self._found(device)
        return found

    def _found(self, device: int) -> Any:
        source = self.source
        if not isinstance(source, Source):
            kernel = compiled(source, self.options, device).get_function(self.kernel)
            kernel.max_dynamic_shared_size_bytes = most_shared(device)  # 48 KiB where nobody asks
            return kernel
        if source.made is not None:
            return self._of_cupys(source.made, source.launches)
        asked = expression(source, self.kernel, self.options)
        with showing_line(asked, source):
            kernel = compiled(source, self.options, device, asked).get_function(asked)
        kernel.max_dynamic_shared_size_bytes = most_shared(device) - kernel.shared_size_bytes
        return kernel

    def _of_cupys(self, made: Any, launches: str) -> Any:
        """The kernel of a user's RawModule, the user's own kernel, or another one in the text of a RawKernel: its adjoint."""
        if not launches:
            return made.get_function(self.kernel)
        if self.kernel == launches:
            return made
        module = cupy().RawModule(
            code=made.code, options=made.options, backend=made.backend, name_expressions=(self.kernel,) if "<" in self.kernel else None
        )
        return module.get_function(self.kernel)


def most_shared(device: int) -> int:
    """Bytes of shared memory that a block on a device may have."""
    runtime = cupy().cuda.runtime
    return max(48 * 1024, int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device)))


prepared = cache(Prepared)
"""`Prepared` of a source, a kernel in it and the options, made once in a process."""


def checked_args(call: Call) -> tuple[Any, ...]:
    """The arguments of a call as its kernel declares them: arrays are checked, numbers cast, and None becomes a null pointer.

    Raises:
        TypeError: a number of arguments, a dtype or a kind of value that the kernel does not declare.
        ValueError: an array that is not C-contiguous, lives on another device than the others, or is read-only and would be written;
            a number that does not fit its type.
    """
    kernel = prepared(call.source, call.kernel, call.options)
    kernel.checked(call.args)
    return kernel.cast(call.args)


def compile_options(options: Iterable[tuple[str, str]], source: str | Source = "") -> tuple[str, ...]:
    """The flags for NVRTC: the language standard, the folder of headers, line numbers for profilers, and the options as macros.

    One macro is the digest of all sources, because the key of CuPy's cache of compiled kernels does not cover headers. CuPy adds -ftz=true
    to every compilation; it is listed here so that others compile alike: float32 numbers below 1.2e-38 count as zero in the kernels. A
    template's arguments are no flags; they are part of the name by which the kernel is requested.
    """
    if isinstance(source, Source):
        folder = () if source.folder is None else (f"-I{source.folder}",)
        digest = (f"-DGRADLIB_HEADERS=x{source.digest}",) if source.digest else ()
        return ("--std=c++17", *folder, *digest, "-lineinfo", "-ftz=true", *source.flags)
    names = (("GRADLIB_SOURCES", f"x{sources_digest()}"), *options)
    return ("--std=c++17", f"-I{kernel_folder()}", "-lineinfo", "-ftz=true", *(f"-D{name}={value}" for name, value in names))


_HEADERS = {
    "__half": "#include <cuda_fp16.h>", "__nv_bfloat16": "#include <cuda_bf16.h>", "complex<float>": "#include <cupy/complex.cuh>",
    "complex<double>": "#include <cupy/complex.cuh>",
}  # fmt: skip


def compiled_text(source: str | Source, options: Options) -> str:
    """The text to compile: the source, preceded by the header of each type that the template is instantiated with and C does not have."""
    asked = {value for _, value in options} if isinstance(source, Source) else set()
    return "\n".join([*dict.fromkeys(include for ctype, include in _HEADERS.items() if ctype in asked), numbered_source(source)])


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
    values, device = kernel.checked(call.args)
    if device is None:
        some = any(hasattr(a, "flags") for a in call.args)
        got = "arrays in host memory; move them with .cuda()" if some else "no array that tells which; pass at least one"
        raise ValueError(f"{call.kernel} runs on a GPU, got {got}")
    if 0 in call.grid:
        return  # nothing to compute; CUDA refuses an empty grid
    library = cupy()
    if library.cuda.runtime.getDevice() == device:
        _run(library, kernel, call, values, device)
    else:
        with library.cuda.Device(device):
            _run(library, kernel, call, values, device)


def _run(library: Any, kernel: Prepared, call: Call, values: list[Any], device: int) -> None:
    """Launch a kernel, on the current device, with arguments that have been checked."""
    observer = thread_state.observer if global_state.active else None
    mark = None if observer is None else observer.begin(call.kernel, None, ())
    try:
        block = call.block if isinstance(call.block, tuple) else (call.block,)
        slots = kernel.slots
        if slots is None or not _launched(library, kernel, slots, call, block, values, device):
            _launched_by_cupy(library, kernel, call, block, device)
    finally:
        if observer is not None:
            observer.end(mark)
    if BLOCKING:
        awaited(call.kernel, call.args)


def _launched_by_cupy(library: Any, kernel: Prepared, call: Call, block: tuple[int, ...], device: int) -> None:
    """Launch a kernel by CuPy: a RawKernel of the user's is compiled here. Raises: CompileError; ValueError for too large a block."""
    source = call.source
    try:
        with showing_line(call.kernel, source) if isinstance(source, Source) else nullcontext():
            kernel.handle(device)(call.grid, block, kernel.cast(call.args), shared_mem=call.shared)
    except library.cuda.driver.CUDADriverError as error:
        if not str(error).startswith(("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")):
            raise
        function = kernel.handle(device)
        threads, shared = getattr(function, "max_threads_per_block", 1024), getattr(function, "max_dynamic_shared_size_bytes", 48 * 1024)
        raise ValueError(
            f"{call.kernel} cannot be launched: a block of it has up to {threads} threads and {shared} bytes of dynamic shared memory, got "
            f"grid {call.grid}, block {block}, shared {call.shared} ({error}). CUDA's limits: grid (2147483647, 65535, 65535), block "
            "(1024, 1024, 64)"
        ) from error


def _launched(library: Any, kernel: Prepared, slots: Slots, call: Call, block: tuple[int, ...], values: list[Any], device: int) -> bool:
    """Launch a kernel by the driver's call; False where that refuses, or a number is beyond its type: CuPy's launch says what is wrong.

    The driver refuses also in a thread that has not used the device yet, which CuPy's launch makes good.
    """
    cuda, grid = library.cuda, call.grid
    slot = slots.free.pop() if slots.free else slots.made()
    try:
        slots.pack(slot[0], 0, *values)
        cuda.driver.launchKernel(
            kernel.functions[device], *grid, *_ONES[len(grid) :], *block, *_ONES[len(block) :], call.shared,
            cuda.get_current_stream().ptr, slot[1], 0,
        )  # fmt: skip
    except (OverflowError, cuda.driver.CUDADriverError):
        return False
    slots.free.append(slot)
    return True


_ONES = (1, 1, 1)
