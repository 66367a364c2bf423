"""What the files of NVIDIA's profilers have in common: SQLite tables of ranges, launches and kernels, put together into events."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradlib.autograd.profiler.events import EventList, FunctionEvent, Kernel
from gradlib.autograd.profiler.nvtx import DOMAIN
from gradlib.core.op import REGISTRY

if TYPE_CHECKING:
    import sqlite3

OUTSIDE = "(outside ranges)"
"""The name of what stands for kernels that were launched outside every range."""

_LABEL = re.compile(r"(.*?)(?:, stashed seq = (\d+))?(?:, seq = (\d+))?(?:, sizes = (\[.*\]))?", re.DOTALL)


class Range(NamedTuple):
    """One range as the file has it; times in nanoseconds."""

    label: str
    start: int
    end: int
    thread: int
    process: int


class Launch(NamedTuple):
    """One call that started a kernel, and that kernel; times in nanoseconds."""

    thread: int
    process: int
    start: int
    end: int
    kernel: str
    kernel_start: int
    kernel_end: int
    stream: int
    device: int


def open_tables(
    path: str | Path, tables: Mapping[str, Sequence[str]], program: str, remedy: str, instead: Mapping[str, str] = MappingProxyType({})
) -> sqlite3.Connection:
    """Open a profiler's file for reading.

    Args:
        path: the file; tables: the columns needed of each table; program: whose file it should be; remedy: how to get such a file.
        instead: for some of the tables another that will do.
    Raises: FileNotFoundError; ValueError for a file that is no SQLite database, or lacks a table or a column, saying which.
    """
    import sqlite3

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
        missing = [name for name in tables if name not in found and instead.get(name) not in found]
        if missing:
            raise ValueError(f"{path} is no {program} file with kernels and ranges: it has no table {', '.join(missing)}. {remedy}")
        for table, columns in tables.items():
            lacking = [name for name in columns if name not in columns_of(connection, table)]
            if lacking and table in found:
                raise ValueError(f"{path}: table {table} has no column {', '.join(lacking)}, as a file of {program} should. {remedy}")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"{path} is no SQLite file ({error}). {remedy}") from error
    except ValueError:
        connection.close()
        raise
    return connection


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from looking through millions of new objects, none of which is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def strings(connection: sqlite3.Connection, table: str, key: str) -> dict[int, str]:
    """The file's table of texts."""
    return dict(connection.execute(f"SELECT {key}, value FROM {table}"))


def own_domain(domains: Mapping[Any, str | None]) -> set[Any] | None:
    """The keys of gradlib's domain among a file's; None where the file tells of none, so that every range counts."""
    return {key for key, name in domains.items() if name == DOMAIN} or None


def assemble(ranges: Iterable[Range], launches: Iterable[Launch]) -> EventList:
    """Events from ranges, each with the kernels that were launched inside it and in no range within it."""
    ranges, launches = list(ranges), list(launches)
    zero = min([r.start for r in ranges] + [x.start for x in launches], default=0)
    made = [_event(number, each, zero) for number, each in enumerate(ranges)]
    made += _with_kernels(made, launches, zero)
    return EventList(made, "cuda" if launches else None)


def _event(number: int, each: Range, zero: int) -> FunctionEvent:
    match = _LABEL.fullmatch(each.label)
    assert match is not None, "the pattern takes any text"
    name, stashed, seq, shapes = match.groups()
    kind = "op" if seq is not None or name in REGISTRY else "user"
    if stashed is not None or name == "AccumulateGrad":
        kind = "node"
    event = FunctionEvent(
        number, name, (each.start - zero) / 1e3, (each.end - zero) / 1e3, each.thread, kind,
        None if seq is None else int(seq), None if stashed is None else int(stashed),
    )  # fmt: skip
    if shapes is not None:
        event.input_shapes = _shapes(shapes)
    event.process = each.process
    return event


def _shapes(text: str) -> list[Any] | None:
    import json

    try:
        return json.loads(text)
    except ValueError:
        return None


def _with_kernels(events: list[FunctionEvent], launches: list[Launch], zero: int) -> list[FunctionEvent]:
    """Put each kernel on the innermost range in which it was launched; returns what stands for those launched outside any."""
    launches.sort(key=lambda x: x.start)
    waiting = iter(sorted(events, key=lambda e: (e.start, -e.end)))
    coming = next(waiting, None)
    open_by_thread: dict[tuple[int, int], list[FunctionEvent]] = {}
    outside: list[FunctionEvent] = []
    for launch in launches:
        at = (launch.start - zero) / 1e3
        while coming is not None and coming.start <= at:
            stack = open_by_thread.setdefault((coming.process, coming.thread), [])
            while stack and stack[-1].end <= coming.start:
                stack.pop()
            stack.append(coming)
            coming = next(waiting, None)
        stack = open_by_thread.get((launch.process, launch.thread), [])
        while stack and stack[-1].end < at:
            stack.pop()
        if stack:
            target = stack[-1]
        else:
            target = FunctionEvent(len(events) + len(outside), OUTSIDE, at, (launch.end - zero) / 1e3, launch.thread, "user")
            target.process = launch.process
            outside.append(target)
        start, duration = (launch.kernel_start - zero) / 1e3, (launch.kernel_end - launch.kernel_start) / 1e3
        kernel = Kernel(launch.kernel, start, duration, launch.stream, launch.device)
        if target.kernels is None:
            target.kernels = []
        target.kernels.append(kernel)
    return outside
