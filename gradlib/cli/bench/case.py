"""A case: one thing that several libraries can do; and a row: what came out when they did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np

from gradlib.cli.bench.peers import Peer, Run

NEARLY = 0.95
"""How far below the least that it can be a ratio may come out, for two runs that take the same time."""


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        name: what it is; size: how large, as the table shows it; dtype, device: of its arrays.
        build: from a peer to its run, whose result must be the same for all; None where a peer cannot do it.
        peers: with which to compare, the first being what the verdict is about.
        limits: the most that gradlib's time may be as a multiple of a peer's, by the peer's name.
        least: the least that a ratio to each other run can be, since gradlib does all that the other does; below it is noise.
        moved: bytes that must be read or written at least; operations: floating-point operations; None where nobody counted.
        tolerance: of the agreement, relative to the largest value.
        others: further ways of gradlib's own to compare with, by name; each builds its run.
    """

    name: str
    size: str
    build: Callable[[Peer], Run | None]
    peers: tuple[str, ...] = ("torch",)
    dtype: str = "float32"
    device: str = "cpu"
    limits: Mapping[str, float] = field(default_factory=dict)
    least: float = 0.0
    moved: int | None = None
    operations: int | None = None
    tolerance: float = 1e-3
    others: Mapping[str, Callable[[Peer], Run]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name with size and dtype, as `--only` looks for it."""
        return " ".join(part for part in (self.name, self.size, self.dtype, self.device) if part)


@dataclass(frozen=True)
class Row:
    """The measurements of one case.

    Attributes:
        name, size, dtype, device: the case's.
        unit: "s", or what else the figures count ("bytes", "exponent").
        seconds: by library, ``median`` and ``spread`` (the middle half of the samples over their median) of the time that passed; on a
            GPU also ``device``, the median by its own events. Other units likewise.
        ratio: gradlib's figure over a peer's, the median over the rounds; noise: the middle half of those ratios over their median.
        limits: the most that a ratio may be, or gradlib's own figure; missed: the peers over whose limit it is, or gradlib; noisy: whether
            the spread is too wide for the verdict, or a ratio less than it can be.
        fraction: of the measured copy bandwidth and of the measured peak of matrix products that gradlib reaches.
        error: why nothing was measured.
    """

    name: str
    size: str
    dtype: str
    device: str
    unit: str = "s"
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    noisy: bool = False
    fraction: dict[str, float] = field(default_factory=dict)
    error: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key that tells rows of one suite apart."""
        return self.name, self.size, self.dtype, self.device

    def as_dict(self) -> dict[str, Any]:
        """The row as it stands in a file."""
        return asdict(self)


def made(case: Case, samples: Mapping[str, list[float]], unit: str = "s") -> Row:
    """The row for samples by library, of which those of one round belong together; gradlib's are among them."""
    ratios = {
        name: [a / b for a, b in zip(samples["gradlib"], theirs, strict=True)] for name, theirs in samples.items() if name != "gradlib"
    }
    noise = {name: spread(values) for name, values in ratios.items()}
    ratio = {name: median(values) for name, values in ratios.items()}
    limits = {name: most for name, most in case.limits.items() if name in ratio}
    return Row(
        *(case.name, case.size, case.dtype, case.device),
        unit=unit,
        seconds={name: {"median": median(values), "spread": spread(values)} for name, values in samples.items()},
        ratio=ratio,
        noise=noise,
        limits=limits,
        missed=[name for name, most in limits.items() if ratio[name] > most],
        noisy=any(_close(ratio[name], most, noise[name]) for name, most in limits.items())
        or any(value < NEARLY * case.least for value in ratio.values()),
    )


def limited(name: str, size: str, values: list[float], most: float, unit: str = "s", dtype: str = "", device: str = "cpu") -> Row:
    """The row of gradlib alone for figures that may be so large at most, under the rules of a ratio."""
    figure, wide = median(values), spread(values)
    return Row(
        *(name, size, dtype, device, unit),
        seconds={"gradlib": {"median": figure, "spread": wide}},
        limits={"gradlib": most},
        missed=["gradlib"] if figure > most else [],
        noisy=_close(figure, most, wide),
    )


def _close(value: float, most: float, noise: float) -> bool:
    """Whether a figure's spread reaches its limit, so that there is no verdict."""
    return abs(value / most - 1) < noise / 2


def spread(values: list[float]) -> float:
    """The middle half of some figures over their median."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float((high - low) / abs(middle)) if middle else 0.0
