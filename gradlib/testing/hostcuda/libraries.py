"""CUDA's libraries for CuPy on the CPU: cuBLAS and cuSOLVER on SciPy's LAPACK, cuRAND, cuFFT, and what the wheel holds of Thrust and CUB.

Which functions a library must have, and the name it is asked for by, are read from the module of CuPy that calls it. What is not written in
C++ here fails with the library's own status "not supported" and a line on stderr that names the function.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from . import build, loader

_SOURCES = {"cublas": "blas.cpp", "cusolver": "solver.cpp", "cusparse": "sparse.cpp", "curand": "rand.cpp", "cufft": "fft.cpp"}
_NOT_SUPPORTED = {"cublas": 15, "cusolver": 9, "cusparse": 10, "curand": 201, "cufft": 16}  # but cuRAND has LAUNCH_FAILURE at best
_CALLED_BY = {"cufft": ("cupy", "cuda")}  # where the module of CuPy lies that calls the library; the others are in one folder
_LAPACK = ("cublas", "cusolver")

_ALGORITHMS = {  # the C++ functions by which two modules of CuPy reach their device code, and who takes their place
    "cupy.cuda.thrust": {
        "_Z11thrust_sortiPvPmRKSt6vectorIlSaIlEElS_": "thrust_sort",
        "_Z14thrust_argsortiPmPvS0_RKSt6vectorIlSaIlEElS0_": "thrust_argsort",
        "_Z14thrust_lexsortiPmPvmmlS0_": "thrust_lexsort",
    },
    "cupy.cuda.cub": {
        "_Z17cub_device_reducePvRmS_S_iP11CUstream_stii": "cub_reduce",
        "_Z36cub_device_reduce_get_workspace_sizePvS_iP11CUstream_stii": "cub_reduce_space",
        "_Z27cub_device_segmented_reducePvRmS_S_iiP11CUstream_stii": "cub_segmented_reduce",
        "_Z46cub_device_segmented_reduce_get_workspace_sizePvS_iiP11CUstream_stii": "cub_segmented_reduce_space",
        "_Z15cub_device_scanPvRmS_S_iP11CUstream_stii": "cub_scan",
        "_Z34cub_device_scan_get_workspace_sizePvS_iP11CUstream_stii": "cub_scan_space",
        "_Z26cub_device_histogram_rangePvRmS_S_iS_mP11CUstream_sti": "cub_histogram_range",
        "_Z45cub_device_histogram_range_get_workspace_sizePvS_iS_mP11CUstream_sti": "cub_histogram_range_space",
        "_Z25cub_device_histogram_evenPvRmS_S_iiimP11CUstream_sti": "cub_histogram_even",
        "_Z44cub_device_histogram_even_get_workspace_sizePvS_iiimP11CUstream_sti": "cub_histogram_even_space",
    },
}


def offer_all() -> None:
    """Let CuPy find every library here; each is compiled when CuPy first asks for it."""
    for name in _SOURCES:
        loader.offer(name, partial(_made, name))


def wanted(name: str) -> tuple[str, list[str]]:
    """The functions that a module of CuPy asks of its library.

    Args:
        name: "cublas", "cusolver", "cusparse", "curand" or "cufft".

    Returns:
        The library's soname, such as "libcublas.so.12", and the functions asked for, sorted.
    """
    package, *folders = _CALLED_BY.get(name, ("cupy_backends", "cuda", "libs"))
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no module {package}, which comes with CuPy: pip install cupy-cuda12x", name=package)
    (module,) = Path(spec.submodule_search_locations[0], *folders).glob(f"{name}.*.so")
    listing = subprocess.run(["nm", "-D", "-u", str(module)], capture_output=True, text=True, check=True).stdout
    found = sorted(set(re.findall(rf"\b({name}\w+)@(\S+)", listing)))
    return found[0][1], [function for function, _ in found]


def _made(name: str) -> Path:
    """Compile a library and, where it stands on LAPACK, hand it SciPy's functions. Returns: its path."""
    soname, functions = wanted(name)
    lines = [f'extern "C" __attribute__((weak)) int {one}() {{ return missing("{one}"); }}' for one in functions]
    head = (
        "#include <cstdio>\n"
        "static int missing(const char* name) {\n"
        '    std::fprintf(stderr, "hostcuda: %s is not written for the CPU; the call fails as not supported\\n", name);\n'
        f"    return {_NOT_SUPPORTED[name]};\n}}\n"
    )
    rest = _kept(head + "\n".join(lines) + "\n", ".cpp")
    version = _kept(f"{soname} {{ {name}*; hostcuda_*; }};\n", ".map")  # the modules ask for each function with the soname as its version
    path = build.shared_object(soname, (_SOURCES[name], rest), (f"-Wl,--version-script={version}",))
    if name in _LAPACK:
        take_lapack(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))
    return path


def _kept(text: str, suffix: str) -> Path:
    """A file with that text in the compiler's cache."""
    path = build.cache_folder() / (build.digest(text) + suffix)
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=suffix, delete=False, encoding="utf-8") as part:
            part.write(text)
        Path(part.name).replace(path)
    return path


def take_lapack(library: ctypes.CDLL) -> None:
    """Hand a library the BLAS and LAPACK functions that SciPy was built with. Raises: Unavailable without SciPy."""
    if importlib.util.find_spec("scipy") is None:
        raise loader.Unavailable("hostcuda's cuBLAS and cuSOLVER stand on SciPy's LAPACK, which is not installed: pip install scipy")
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    take = library.hostcuda_take_function
    take.argtypes, take.restype = [ctypes.c_char_p, ctypes.c_void_p], None
    for module in ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
        capsules: dict[str, Any] = importlib.import_module(module).__pyx_capi__
        for name, capsule in capsules.items():
            take(name.encode(), pointer_of(capsule, name_of(capsule)))


def load_nccl() -> None:
    """Put NCCL beneath CuPy, whose module for it finds the library by its name."""
    ctypes.CDLL(str(build.shared_object("libnccl.so.2", ("nccl.cpp",), ("-lrt",))), mode=ctypes.RTLD_GLOBAL)


def replace_algorithms() -> None:
    """Let CuPy's sorts, reductions, scans and histograms of Thrust and CUB run here; call it once CuPy is imported."""
    ours = ctypes.CDLL(str(build.shared_object("libhostcuda_thrust.so", ("thrust.cpp",))))
    for module, functions in _ALGORITHMS.items():
        theirs = ctypes.CDLL(str(importlib.import_module(module).__file__))
        for symbol, name in functions.items():
            loader.jump(ctypes.cast(theirs[symbol], ctypes.c_void_p).value or 0, ours[f"hostcuda_{name}"])
    import cupy

    # CuPy's default on a GPU, but for the reductions that CuPy generates from CUB's headers: those are device code for NVRTC.
    cupy._core.set_routine_accelerators(["cub"])
