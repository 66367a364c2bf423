"""The facts for a person: one line each, and below it what to do about what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from gradlib.cli.info.facts import Gpu, KernelFile, Kernels, Machine, Part

_GIB = 2**30
_NAME = 20
_LABELS = {"driver": "CUDA driver", "cupy": "CuPy", "cuda_runtime": "CUDA runtime", "nvrtc": "NVRTC"}


def text(machine: Machine) -> str:
    """All that is known of a machine but its kernels.

    Returns: lines, without a final newline.
    """
    return "\n".join(_lines(machine))


def kernels_text(kernels: Kernels) -> str:
    """How the kernels compiled, behind an empty line."""
    return "\n".join(_kernels(kernels))


def _lines(machine: Machine) -> Iterator[str]:
    yield f"gradlib {machine.gradlib}, Python {machine.python}, {machine.platform}"
    yield ""
    yield from _table(machine.packages)
    yield ""
    for name in ("driver", "cupy", "cuda_runtime"):
        yield from _part(_LABELS[name], getattr(machine, name))
    yield from map(_gpu, machine.gpus)
    yield from _part(_LABELS["nvrtc"], machine.nvrtc)


def _kernels(kernels: Kernels) -> Iterator[str]:
    yield ""
    if kernels.problem is not None:
        yield _row("kernels", kernels.problem)
    for file in kernels.files:
        yield from _kernel(file, kernels.architecture)


def _row(name: str, value: str) -> str:
    return f"{name:<{_NAME}}{value}"


def _table(packages: dict[str, Part]) -> Iterator[str]:
    """Packages in columns: name, version, purpose, and the command that installs what is missing."""
    version = 2 + max(len(part.version or "missing") for part in packages.values())
    purpose = 2 + max(len(part.purpose) for part in packages.values())
    for name, part in packages.items():
        yield _row(name, f"{part.version or part.problem:<{version}}{part.purpose:<{purpose}}{part.fix or ''}").rstrip()


def _part(name: str, part: Part) -> Iterator[str]:
    version = f"{part.version} ({part.package})" if part.version and part.package else part.version
    yield _row(name, ", ".join(filter(None, (version, part.problem))))
    if part.fix is not None:
        yield _row("", part.fix)


def _gpu(gpu: Gpu) -> str:
    facts = [gpu.name, gpu.compute_capability and f"compute capability {gpu.compute_capability}"]
    for bytes_, what in ((gpu.total_memory, "GiB"), (gpu.free_memory, "GiB free")):
        facts.append(None if bytes_ is None else f"{bytes_ / _GIB:.1f} {what}")
    return _row(f"GPU {gpu.index}", ", ".join(filter(None, (*facts, gpu.problem))))


def _kernel(file: KernelFile, architecture: str | None) -> Iterator[str]:
    state = "DOES NOT COMPILE" if file.failed else "compiles"
    number = f"{file.failed} of {file.variants}" if file.failed else str(file.variants)
    yield _row(file.name, f"{state} for {architecture}: {number} sets of options, {file.seconds:.1f} s")
    for line in (file.error or "").splitlines():
        yield _row("", line)
