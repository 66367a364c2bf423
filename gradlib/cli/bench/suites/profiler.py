"""The overhead of profiling: the chain under ``emit_nvtx`` without a profiler and under ``profile``, and loading a file of Nsight."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler import emit_nvtx, load_nsys, profile, record_function
from gradlib.cli.bench.case import Case, Row, limited
from gradlib.cli.bench.peers import Peer, Run
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites.overhead import CHAIN, both_passes
from gradlib.cli.bench.timing import timed

LOADING = 10.0
"""Seconds that a file of a million ranges and kernels may take."""
UNSEEN = 1.1
"""What ranges that no profiler looks at may take, over the program without them."""


def rows(runner: Runner, device: str, quick: bool) -> Iterator[Row]:
    """Both passes of the chain, watched and not; then the file."""
    contexts: dict[str, tuple[Callable[[], Any], dict[str, float]]] = {
        "emit_nvtx": (emit_nvtx, {"plain": UNSEEN}),
        "profile": (profile, {}),
        "record_function": (lambda: record_function("step"), {"plain": UNSEEN}),
    }
    for name, (context, limits) in contexts.items():
        watched = partial(_within, context=context)
        plain = {"plain": both_passes}
        yield runner.row(Case(f"{CHAIN} under {name}", "10", watched, (), device=device, limits=limits, least=1.0, others=plain))
    if device == "cpu" and not quick:
        yield _loading(runner, 1_000_000)


def _within(peer: Peer, context: Callable[[], Any]) -> Run:
    plain = both_passes(peer)

    def run() -> Any:
        with context():
            return plain()

    return run


def _loading(runner: Runner, events: int) -> Row:
    """Reading a file of Nsight Systems of so many ranges and kernels, half each."""
    count = events // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        write_recording(path, count)
        loaded = load_nsys(path)
        size = f"{events:.0e} events"
        if len(loaded) != count or not all(e.kernels for e in loaded):
            return Row("load_nsys", size, "", "cpu", error=f"{count} ranges with a kernel each were written, {len(loaded)} read")
        del loaded

        def measured(rounds: int) -> Row:
            times = max(2, rounds // 5)  # each takes seconds
            return limited("load_nsys", size, [timed(lambda: load_nsys(path), 1) for _ in range(times)], LOADING)

        return runner.repeated(measured)


def write_recording(path: Path, count: int) -> None:
    """A recording of so many ranges, alternately of forward and backward, with a kernel each."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE StringIds (id, value);"
        "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, streamId, correlationId, shortName);"
        "INSERT INTO StringIds VALUES (1, 'kernel');"
    )
    half = count // 2
    labels = [f"mul, seq = {k}" for k in range(half)] + [f"MulBackward0, stashed seq = {k}, seq = {k}" for k in range(half)]
    at = [1000 * k for k in range(2 * half)]
    ranges = ((start, start + 900, label) for start, label in zip(at, labels, strict=True))
    connection.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, 1, NULL, 0)", ranges)
    connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 1, ?)", ((s + 1, s + 2, s) for s in at))
    connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 7, ?, 1)", ((s + 5, s + 50, s) for s in at))
    connection.commit()
    connection.close()
