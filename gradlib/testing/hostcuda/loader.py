"""Puts the driver beneath an unmodified CuPy wheel, before CuPy is imported.

CuPy finds CUDA's libraries by name, so ours are loaded first under those names. The CUDA runtime is the exception: it is linked
statically into the wheel's modules, whose symbol tables are kept, so each `cudaXxx` there is overwritten in memory by a jump to ours.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import compiler
from .build import BuildError, cache_folder, digest, gxx, shared_object

SOURCES = ("device.cpp", "order.cpp", "memory.cpp", "fibres.cpp", "modules.cpp", "sanitize.cpp")
_JUMP = b"\x48\xb8%s\xff\xe0"  # movabs rax, target; jmp rax
_PAGE = 4096
_made: dict[str, Callable[[], Path]] = {}
_driver: ctypes.CDLL | None = None


class Unavailable(RuntimeError):
    """Why the driver cannot be put beneath CuPy here."""


def reason_against() -> str | None:
    """Why the driver cannot run on this machine; None where it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"hostcuda runs on Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    if importlib.util.find_spec("cupy_backends") is None:
        return "hostcuda runs beneath CuPy's wheel, which is not installed: pip install cupy-cuda12x"
    try:
        gxx()
        compiler.sanitizers()
    except BuildError as error:
        return str(error)
    if has_gpu():
        return "this machine has a GPU and NVIDIA's driver: CuPy runs on that; hostcuda is for machines without"
    if _driver is None and "cupy" in sys.modules:
        return "CuPy is imported already; hostcuda has to come first"
    return None


def has_gpu() -> bool:
    """Whether NVIDIA's driver finds a device."""
    if _driver is not None:  # it has the name that would be asked
        return False
    try:
        real = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return bool(real.cuInit(0) == 0 and real.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0)


def offer(name: str, make: Callable[[], Path]) -> None:
    """Say how a library is made that CuPy asks for by a name of cuda.pathfinder, such as "cublas"; it is made when CuPy asks."""
    _made[name] = make


def driver() -> ctypes.CDLL:
    """The driver's library. Raises: Unavailable before it was loaded."""
    if _driver is None:
        raise Unavailable("hostcuda is not active; call gradlib.testing.hostcuda.activate() before CuPy is imported")
    return _driver


def load() -> None:
    """Put the driver beneath CuPy, and import CuPy. Raises: Unavailable with the reason."""
    global _driver
    if _driver is not None:
        return
    if reason := reason_against():
        raise Unavailable(reason)
    _driver = ctypes.CDLL(str(shared_object("libcuda.so.1", SOURCES)), mode=ctypes.RTLD_GLOBAL)
    _driver.hostcuda_hazard.restype = ctypes.c_char_p
    _driver.hostcuda_count.restype = ctypes.c_char_p
    _driver.hostcuda_count.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_long))
    _driver.hostcuda_pool_malloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    _driver.hostcuda_pool_free.argtypes = (ctypes.c_void_p,)
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB is compiled device code
    of_kernels = digest(compiler.header_texts(), *compiler.FLAGS, *compiler.sanitizers())
    os.environ["CUPY_CACHE_DIR"] = str(cache_folder() / f"cupy-{of_kernels}")
    _patch_library_finder()
    import cupy_backends.cuda.api.runtime as runtime

    redirect_runtime(runtime.__file__)
    from cupy_backends.cuda.api.driver import get_build_version

    version = get_build_version()  # such as 12090: the CUDA that the wheel was made for
    _driver.hostcuda_set_version(version)
    import cupy.cuda.compiler as cupys

    cupys._NVRTCProgram = compiler.program_class(cupys.CompileException)
    cupys._get_nvrtc_version = lambda: (version // 1000, version % 1000 // 10)
    cupys.compile_using_nvcc = _no_nvcc
    _watch_pool()


def _no_nvcc(*args: Any, **options: Any) -> bytes:
    raise Unavailable("hostcuda compiles for backend='nvrtc' only")


def _patch_library_finder() -> None:
    """Give CuPy our library where it asks for one of CUDA's; its headers are those in include/."""
    from cuda import pathfinder

    found_elsewhere, headers_elsewhere = pathfinder.load_nvidia_dynamic_lib, pathfinder.find_nvidia_header_directory

    def load_library(name: str) -> Any:
        if name == "cudart":
            path = Path(driver()._name)
        elif name in _made:
            path = _made[name]()
        else:
            return found_elsewhere(name)
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        return pathfinder.LoadedDL(str(path), False, loaded._handle, "hostcuda")

    def find_headers(name: str) -> str | None:
        return str(compiler.INCLUDE) if name == "cudart" else headers_elsewhere(name)

    pathfinder.load_nvidia_dynamic_lib = load_library
    pathfinder.find_nvidia_header_directory = find_headers


def symbols(library: Path) -> Iterator[tuple[str, int]]:
    """The functions in the symbol table of an ELF file of 64 bits, with their addresses in it."""
    data = library.read_bytes()
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + size * i) for i in range(count)]
    for _, kind, _, _, start, length, link, _, _, entry in headers:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for place in range(start, start + length, entry):
            name, info, _, _, address, _ = struct.unpack_from("<IBBHQQ", data, place)
            if info & 15 == 2 and address:  # STT_FUNC
                end = data.index(b"\0", names + name)
                yield data[names + name : end].decode(), address


def redirect_runtime(library: str) -> None:
    """Overwrite each `cudaXxx` of a module that has the CUDA runtime linked into it by a jump to ours."""
    real = os.path.realpath(library)
    maps = (line.split() for line in Path("/proc/self/maps").read_text().splitlines())
    base = next(int(words[0].split("-")[0], 16) for words in maps if words[-1] == real and int(words[2], 16) == 0)
    ours = driver()
    for name, address in symbols(Path(real)):
        if name.startswith("cuda"):
            jump(base + address, getattr(ours, name, None) or ours.hostcuda_not_supported)


def jump(place: int, target: Any) -> None:
    """Overwrite the first bytes of a function in memory by a jump to another. Raises: Unavailable where memory cannot be changed."""
    code = _JUMP % (ctypes.cast(target, ctypes.c_void_p).value or 0).to_bytes(8, "little")
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(place // _PAGE * _PAGE), 2 * _PAGE, 7):
        raise Unavailable("the code of CuPy's modules cannot be changed in memory: mprotect failed")
    ctypes.memmove(place, code, len(code))


def _watch_pool() -> None:
    """Tell the driver of every piece that CuPy's pool hands out and takes back, in every thread."""
    from cupy.cuda import memory_hook, stream as streams

    ours = driver()

    class Watch(memory_hook.MemoryHook):  # type: ignore[misc]
        name = "hostcuda"

        def malloc_postprocess(self, *, size: int, mem_size: int, mem_ptr: int, **_: Any) -> None:
            if mem_ptr:
                ours.hostcuda_pool_malloc(mem_ptr, size, mem_size, streams.get_current_stream().is_capturing())

        def free_preprocess(self, *, mem_ptr: int, **_: Any) -> None:
            ours.hostcuda_pool_free(mem_ptr)

    watch = Watch()
    watch.__enter__()
    begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def watched(self: threading.Thread) -> None:
        memory_hook.get_memory_hooks()[watch.name] = watch
        begin(self)

    threading.Thread._bootstrap_inner = watched  # type: ignore[attr-defined]
