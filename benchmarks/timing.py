"""Times several ways of doing one thing against each other, and prints what came out."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from types import ModuleType

BENCH = "pip install -e '.[bench]'"


@dataclass(frozen=True)
class Row:
    """One line of the table: gradlib's figure as a multiple of the other's, and the most that it should be, if that is set."""

    what: str
    ours: str
    other: str
    ratio: float
    target: float | None = None

    @property
    def reached(self) -> bool:
        return self.target is None or self.ratio <= self.target

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "reached": self.reached}

    def cells(self) -> tuple[str, ...]:
        judged = ("", "") if self.target is None else (f"{self.target:.2f}", "reached" if self.reached else "MISSED")
        return (self.what, self.ours, self.other, f"{self.ratio:.2f}", *judged)


def interleaved(runs: dict[str, Callable[[], object]], rounds: int = 21, seconds: float = 0.02) -> dict[str, list[float]]:
    """Seconds per call of each run, one figure per round.

    Each round times every run once, in turn and in alternating order, so that a slow spell of the machine meets all of them;
    a run is repeated within its turn for about `seconds`. The garbage collector stays on, as it is for users.
    """
    repeats = {}
    for name, run in runs.items():
        run()
        start = perf_counter()
        run()
        repeats[name] = max(1, round(seconds / (perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(rounds):
        for name in list(runs)[:: 1 if k % 2 else -1]:
            run, n = runs[name], repeats[name]
            start = perf_counter()
            for _ in range(n):
                run()
            times[name].append((perf_counter() - start) / n)
    return times


def median_ratio(times: dict[str, list[float]], ours: str, other: str) -> float:
    """The median over the rounds of ours divided by other, both taken within one round."""
    return statistics.median(a / b for a, b in zip(times[ours], times[other], strict=True))


def compare(what: str, times: dict[str, list[float]], ours: str, other: str, target: float | None = None) -> Row:
    """The row for two of the timed runs."""
    return Row(what, duration(times[ours]), duration(times[other]), median_ratio(times, ours, other), target)


def duration(samples: list[float]) -> str:
    """The median, in microseconds or milliseconds."""
    seconds = statistics.median(samples)
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def optional(name: str) -> ModuleType | None:
    """A module to compare with, or None and a line that says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        print(f"left out: {name.partition('.')[0]} is not installed; {BENCH} brings it")
        return None


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    facts = {"date": date.today().isoformat(), "cpu": _cpu(), "system": platform.platform(), "python": platform.python_version()}
    for package in ("gradlib", "numpy", "torch", "autograd", "mygrad"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def print_table(rows: list[Row]) -> None:
    """The rows, aligned, each with its target and whether it was reached."""
    lines: list[tuple[str, ...]] = [("what", "gradlib", "other", "ratio", "at most", "")]
    lines += [row.cells() for row in rows]
    widths = [max(len(line[k]) for line in lines) for k in range(6)]
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:5], widths[1:5], strict=True)]
        print("  ".join([*cells, line[5]]).rstrip())
