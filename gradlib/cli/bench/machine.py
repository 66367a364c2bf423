"""The machine that figures were taken on: hardware, versions, and how fast it copies and multiplies."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.cli.bench.peers import Peer
from gradlib.cli.bench.timing import interleaved, on_device

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS")
"""The environment variables by which libraries of linear algebra are told how many threads to use."""
SETTINGS = (
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
)  # fmt: skip
"""Those that choose a library's kernels: where one is set, figures are not what the processor gives by itself."""


@dataclass(frozen=True)
class Speed:
    """A device's speed: bytes read and written a second by a large copy, floating-point operations a second of a large float32 product."""

    bytes: float
    operations: float


def speed(device: str) -> Speed:
    """Measure it, for "cpu" with the threads that NumPy was told to use; takes about half a second."""
    if device == "cuda":
        import cupy

        events = Peer("cupy", "cuda").events()
        source, square = cupy.ones(1 << 28, "float32"), cupy.ones((4096, 4096), "float32")
        target = cupy.empty_like(source)
        copy, product = (on_device(run, events, 20) for run in (lambda: cupy.copyto(target, source), lambda: square @ square))
        return Speed(2 * source.nbytes / copy, 2 * 4096**3 / product)
    source = np.ones(1 << 24, np.float32)
    target, square = np.zeros_like(source), np.ones((1024, 1024), np.float32)
    found = interleaved({"copy": lambda: np.copyto(target, source), "product": lambda: square @ square}, 5)
    return Speed(2 * source.nbytes / statistics.median(found["copy"]), 2 * 1024**3 / statistics.median(found["product"]))


def facts(threads: int, measured: Mapping[str, Speed]) -> dict[str, Any]:
    """The machine, as the table's head and the file show it."""
    found: dict[str, Any] = {"date": date.today().isoformat(), "cpu": cpu(), "cores": os.cpu_count(), "threads": threads}
    found |= {"system": platform.platform(), "python": platform.python_version()}
    if chosen := [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]:
        found["settings"] = ", ".join(chosen)
    if "cuda" in measured:
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
        found |= {"gpu": properties["name"].decode(), "cuda_driver": cupy.cuda.runtime.driverGetVersion()}
    found["speed"] = {device: {"copy_bytes_per_second": s.bytes, "product_flops": s.operations} for device, s in measured.items()}
    return found


def versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of gradlib and of the libraries that it is compared with."""
    found = {}
    for name in names:
        for distribution in metadata.packages_distributions().get(name, [name]):
            try:
                found[name] = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                continue
            break
    return found


def cpu() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
