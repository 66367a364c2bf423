"""The way down to the GPU: driver, CuPy, CUDA runtime, GPUs, NVRTC, and whether the kernels compile.

CuPy may be missing, broken or without a driver, in ways that change with its version; so whatever it raises is an answer here.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from gradlib.backend.array import cupy
from gradlib.cli.info.facts import Gpu, KernelFile, Kernels, Part, first_line
from gradlib.cli.info.packages import install
from gradlib.cli.progress import Progress
from gradlib.cuda import driver as libcuda, nvrtc
from gradlib.cuda.signature import Options
from gradlib.cuda.source import CompileError, kernel_files
from gradlib.trajectory.kernel_options import VARIANTS

_ARCHITECTURE = 90  # what the kernels are compiled for where there is no GPU
_ERROR_LINES = 4
_DRIVER = "install NVIDIA's driver (https://www.nvidia.com/drivers); a container sees it when started with `docker run --gpus all`"


def driver_version() -> int:
    """The newest CUDA that the NVIDIA driver runs, as 1000 major + 10 minor, asked of the driver itself; 0 without one."""
    number = ctypes.c_int(0)
    try:
        return 0 if libcuda.library().cuDriverGetVersion(ctypes.byref(number)) else number.value
    except (OSError, AttributeError):
        return 0


def driver_part(driver: int) -> Part:
    """The NVIDIA driver; its version is that of the newest CUDA that it runs."""
    purpose = "lets CUDA reach the GPUs"
    return Part(_dotted(driver), purpose) if driver else Part(None, purpose, "missing", _DRIVER)


def _dotted(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _install_cupy(driver: int) -> str:
    """The command that installs the CuPy which fits the driver."""
    if sys.platform == "darwin":
        return "CuPy has no packages for macOS; use the CPU there"
    for_12, for_13 = install("cupy-cuda12x[ctk]"), install("cupy-cuda13x[ctk]")
    if driver < 12000:
        return f"{for_12} or, where `nvidia-smi` shows CUDA 13, {for_13}"
    return for_12 if driver < 13000 else for_13


def cupy_part(driver: int) -> tuple[Part, Any]:
    """CuPy, and its module if it can be imported."""
    purpose = "arrays and kernels on the GPU"
    library: Any = None
    version: str | None = None
    problem: str | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of several packages that hold it; said below
            module = cupy()
        library, version = module, module.__version__
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name == "cupy":
            return Part(None, purpose, "missing", _install_cupy(driver)), None
        problem = f"does not import: {first_line(error)}"
    packages, place = _installed_cupy()
    if problem is None and len(packages) > 1:
        problem = "several packages hold it"
    remove = f"pip uninstall {' '.join(packages)}" if packages else f"remove {place}"
    fix = problem and f"{remove}, then {_install_cupy(driver)}"
    return Part(version, purpose, problem, fix, broken=version is None, package=", ".join(packages) or None), library


def _installed_cupy() -> tuple[list[str], str]:
    """The installed packages that hold the CuPy which Python finds (none: it lies about by itself), and where that is."""
    spec = importlib.util.find_spec("cupy")
    places = [Path(place).resolve() for place in (spec and spec.submodule_search_locations) or ()]
    names = sorted(set(metadata.packages_distributions().get("cupy", ())))
    held = [name for name in names if Path(str(metadata.distribution(name).locate_file("cupy"))).resolve() in places]
    return held, str(places[0]) if places else "the module cupy"


def runtime_part(library: Any, driver: int) -> tuple[Part, list[Gpu]]:
    """The CUDA runtime inside CuPy, and the GPUs that it finds."""
    purpose = "finds the GPUs"
    if library is None:
        return Part(None, purpose, "needs CuPy"), []
    number = 0
    try:
        number = library.cuda.runtime.runtimeGetVersion()
        gpus = [_gpu(library, index) for index in range(library.cuda.runtime.getDeviceCount())]
        problem = None if gpus else "finds no GPU"
    except Exception as error:
        gpus, problem = [], f"finds no GPU: {first_line(error)}"
    version = _dotted(number) if number else None
    if problem is None:
        return Part(version, purpose), gpus
    too_old = 0 < driver // 1000 < number // 1000  # a driver runs all releases of its major version, and older ones
    if too_old:
        fix = f"update the driver, which runs CUDA {_dotted(driver)} at most"
    elif driver:
        fix = "check that `nvidia-smi` lists a GPU"
    else:
        fix = "install the driver first"
    return Part(version, purpose, problem, fix, broken=too_old), gpus


def _gpu(library: Any, index: int) -> Gpu:
    found = Gpu(index)
    try:
        properties = library.cuda.runtime.getDeviceProperties(index)
        found.name, found.total_memory = properties["name"].decode(), properties["totalGlobalMem"]
        capability = library.cuda.Device(index).compute_capability
        found.compute_capability = f"{capability[:-1]}.{capability[-1]}"
        found.free_memory = library.cuda.Device(index).mem_info[0]  # the first that needs the GPU itself, which may be full or taken
    except Exception as error:
        found.problem = first_line(error)
    return found


def nvrtc_part(cupy: Part, driver: int) -> Part:
    """NVRTC, which CuPy loads."""
    purpose = "compiles the kernels"
    if cupy.version is None:
        return Part(None, purpose, "needs CuPy")
    try:
        return Part("{}.{}".format(*nvrtc.version()), purpose)
    except Exception as error:
        brings = cupy.package in ("cupy-cuda12x", "cupy-cuda13x")
        return Part(None, purpose, first_line(error), install(f"{cupy.package}[ctk]") if brings else _install_cupy(driver))


def compile_kernels(gpus: Sequence[Gpu], bar: Progress | None) -> Kernels:
    """Compile every source in all its sets of options, for the first GPU, on all cores.

    Args:
        gpus: of this machine; bar: shows how far it is.
    Returns: how it went; the seconds of a source are those that passed.
    """
    try:
        sources = [name for name in kernel_files() if name.endswith(".cu")]
    except FileNotFoundError as missing:
        return Kernels(None, [], first_line(missing), broken=True)
    architecture = _architecture(gpus)
    total, done, files = sum(len(VARIANTS[name]) for name in sources), 0, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NVRTC compiles outside the interpreter's lock
        for name in sources:
            began, errors = time.perf_counter(), []
            for error in pool.map(partial(_compile_error, name, architecture), VARIANTS[name]):
                errors += [] if error is None else [error]
                done += 1
                if bar is not None:
                    bar(done / total)
            seconds = round(time.perf_counter() - began, 3)
            files.append(KernelFile(name, len(VARIANTS[name]), len(errors), seconds, errors[0] if errors else None))
    if bar is not None:
        bar.finish()
    return Kernels(f"compute_{architecture}", files)


def _architecture(gpus: Sequence[Gpu]) -> int:
    """The architecture of the first GPU; the newest below it for a GPU that is newer than NVRTC, as a driver runs PTX of older ones."""
    capability = gpus[0].compute_capability if gpus else None
    wanted = int(capability.replace(".", "")) if capability else _ARCHITECTURE
    return max((a for a in nvrtc.architectures() if a <= wanted), default=wanted)


def _compile_error(name: str, architecture: int, options: Options) -> str | None:
    """NVRTC's first error for a source with these options, if any."""
    try:
        nvrtc.ptx(name, options, architecture)
        return None
    except CompileError as error:
        lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
        return "\n".join([*lines[:_ERROR_LINES], "with " + " ".join(f"{key}={value}" for key, value in options)])
