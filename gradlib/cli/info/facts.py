"""Facts about a machine, as plain data. `gradlib info --json` prints it under the names of the attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A piece of software.

    Attributes:
        version: None when it cannot be used; purpose: what gradlib has it for.
        problem: what is the matter with it, None for nothing; fix: what to do about that.
        broken: it is there and does not work; package: the Python package that it comes in, where that has another name.
    """

    version: str | None
    purpose: str
    problem: str | None = None
    fix: str | None = None
    broken: bool = False
    package: str | None = None


@dataclass
class Gpu:
    """A GPU; what it does not answer is None, and ``problem`` says why. Memory is in bytes."""

    index: int
    name: str | None = None
    compute_capability: str | None = None
    total_memory: int | None = None
    free_memory: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class KernelFile:
    """The compilation of a CUDA source: its sets of options, how many of them failed, the seconds, and the head of the first error."""

    name: str
    variants: int
    failed: int
    seconds: float
    error: str | None


@dataclass(frozen=True)
class Kernels:
    """The CUDA sources, compiled for an architecture such as "compute_90"; ``problem`` says why none was."""

    architecture: str | None
    files: list[KernelFile]
    problem: str | None = None
    broken: bool = False


@dataclass(frozen=True)
class Machine:
    """All of it. Exactly what `broken` names is there and does not work."""

    gradlib: str
    python: str
    platform: str
    packages: dict[str, Part]
    driver: Part
    cupy: Part
    cuda_runtime: Part
    gpus: list[Gpu]
    nvrtc: Part
    kernels: Kernels

    def broken(self) -> Iterator[str]:
        """The names of what is there and does not work."""
        for name in ("driver", "cupy", "cuda_runtime", "nvrtc", "kernels"):
            if getattr(self, name).broken:
                yield name
        yield from (file.name for file in self.kernels.files if file.error is not None)


def first_line(error: BaseException) -> str:
    """The type and the first line with a word of an error, or of the one behind it: what wraps it explains at length."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if re.search(r"\w", line)]
    return ": ".join([type(error).__name__, *lines[:1]])
