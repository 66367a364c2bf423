"""The runner that turns cases into rows: every library's run must give the same result before any is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradlib.cli.bench import timing
from gradlib.cli.bench.case import Case, Row, made
from gradlib.cli.bench.machine import Speed
from gradlib.cli.bench.peers import Peer, Run


@dataclass(frozen=True)
class Runner:
    """A runner of cases: checks each, then measures it.

    Attributes:
        peers: the libraries that may be compared with; rounds: how many figures to take of each run; seconds: how long each takes.
        speed: of this machine's CPU and of its GPU, by device; fractions of what is not there are left out.
    """

    peers: tuple[str, ...]
    rounds: int = 11
    seconds: float = timing.SECONDS
    speed: Mapping[str, Speed] = field(default_factory=dict)

    def row(self, case: Case) -> Row:
        """Measure a case; a row with an error where libraries disagree or one fails."""
        try:
            runs = self.runs(case)
            waits = {name: _peer(name, case).synchronize for name in runs} if case.device == "cuda" else {}
            if wrong := disagreement(case, {name: run() for name, run in runs.items()}):
                return _failed(case, wrong)
            row = self.repeated(lambda rounds: made(case, timing.interleaved(runs, rounds, self.seconds, waits)))
            for name in waits:
                row.seconds[name]["device"] = timing.on_device(runs[name], _peer(name, case).events(), self.rounds)
        except Exception as error:
            return _failed(case, f"{type(error).__name__}: {error}")
        return replace(row, fraction=self._fraction(case, row))

    def repeated(self, measure: Callable[[int], Row]) -> Row:
        """The row that is measured in so many rounds; in three times as many where that is too noisy for a verdict."""
        row = measure(self.rounds)
        return measure(3 * self.rounds) if row.noisy else row

    def runs(self, case: Case) -> dict[str, Run]:
        """A run for gradlib and for each peer that can do it."""
        built = {"gradlib": case.build(Peer("gradlib", case.device))}
        built |= {name: case.build(Peer(name, case.device)) for name in case.peers if name in self.peers}
        built |= {name: build(Peer("gradlib", case.device)) for name, build in case.others.items()}
        return {name: run for name, run in built.items() if run is not None}

    def _fraction(self, case: Case, row: Row) -> dict[str, float]:
        speed, figures = self.speed.get(case.device), row.seconds["gradlib"]
        found: dict[str, float] = {}
        if speed is None:
            return found
        took = figures.get("device", figures["median"])
        if case.moved:
            found["bandwidth"] = case.moved / took / speed.bytes
        if case.operations:
            found["peak"] = case.operations / took / speed.operations
        return found


def disagreement(case: Case, given: Mapping[str, Any]) -> str | None:
    """How the results of several libraries (by name) disagree; None where they agree."""
    values = {name: _arrays(_peer(name, case), result) for name, result in given.items()}
    ours = values.pop("gradlib")
    for name, theirs in values.items():
        if len(ours) != len(theirs):
            return f"gradlib gives {len(ours)} results, {name} {len(theirs)}"
        for mine, other in zip(ours, theirs, strict=True):
            if mine.shape != other.shape:
                return f"gradlib gives the shape {mine.shape}, {name} {other.shape}"
            a, b = (x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in (mine, other))
            scale = float(np.max(np.abs(b), initial=0, where=np.isfinite(b))) if b.size else 0.0
            close = np.isclose(a, b, rtol=case.tolerance, atol=case.tolerance * scale, equal_nan=True)
            if not close.all():
                place = np.unravel_index(int(np.argmin(close)), close.shape)
                at = f" at {tuple(int(k) for k in place)}" if place else ""
                return f"gradlib and {name} disagree{at}: {mine[place]} and {other[place]}"
    return None


def _peer(name: str, case: Case) -> Peer:
    """Whose arrays a run's are: another way of gradlib's own gives gradlib's."""
    return Peer("gradlib" if name in case.others else name, case.device)


def _arrays(peer: Peer, result: Any) -> list[np.ndarray]:
    """The arrays of a result, which may be one, a tuple, or None for a run that gives nothing to compare."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return [array for each in result for array in _arrays(peer, each)]
    return [np.asarray(result)] if isinstance(result, (int, float, np.generic)) else [peer.host(result)]


def _failed(case: Case, error: str) -> Row:
    return Row(case.name, case.size, case.dtype, case.device, error=error)
