"""What watching costs: a chain of small operations plain, under ``emit_nvtx`` without a profiler, and under ``profile``.

The first row is the difference for one operation against 1.5 microseconds, the rest compare times. The last reads a made file.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import gradlib
from benchmarks.timing import Row, compare, duration, interleaved
from gradlib.autograd.profiler import emit_nvtx, load_nsys, profile, record_function

OPERATIONS = 200
BUDGET = 1.5e-6
Run = Callable[[], Any]


def chain() -> Run:
    """Forward and backward of many products of ten numbers."""
    x = gradlib.ones(10, requires_grad=True)

    def run() -> Any:
        y = x
        for _ in range(OPERATIONS):
            y = y * 1.001
        x.grad = None
        y.sum().backward()
        return y

    return run


def within(context: Callable[[], Any], run: Run) -> Run:
    def inside() -> Any:
        with context():
            return run()

    return inside


def named(run: Run) -> Run:
    """The same with a range of the user's around it, while nobody looks."""

    def inside() -> Any:
        with record_function("step"):
            return run()

    return inside


def watching_rows() -> list[Row]:
    """An operation and its node, watched and not."""
    run = chain()
    times = interleaved({"plain": run, "emit_nvtx": within(emit_nvtx, run), "profile": within(profile, run), "record_function": named(run)})
    attached = "NVTX_INJECTION64_PATH" in os.environ
    rows = []
    for name in ("emit_nvtx", "profile"):
        more = [(a - b) / OPERATIONS for a, b in zip(times[name], times["plain"], strict=True)]
        budget = BUDGET if name == "emit_nvtx" and not attached else None
        text = f"{1e6 * statistics.median(more):.2f} us"
        what = f"{name}: more for an operation and its node" + (", a profiler attached" if attached and name == "emit_nvtx" else "")
        rows.append(Row(what, text, "1.50 us", statistics.median(more) / BUDGET, budget and 1.0))
    rows += [compare(f"{name}, against plain", times, name, "plain") for name in ("emit_nvtx", "profile", "record_function")]
    return rows


def loading_row(events: int = 1_000_000) -> Row:
    """Reading a file of Nsight Systems of so many ranges and kernels, half each, against ten seconds."""
    count = events // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
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
        start = perf_counter()
        loaded = load_nsys(path)
        took = perf_counter() - start
    if len(loaded) != 2 * half or not all(e.kernels for e in loaded):
        raise AssertionError("the file was not read as it was written")
    return Row(f"load_nsys of {events:.0e} ranges and kernels, in seconds", duration([took]), "10 s", took / 10, 1.0)


def rows() -> list[Row]:
    """The whole table."""
    return [*watching_rows(), loading_row()]
