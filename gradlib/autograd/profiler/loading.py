"""Reading the SQLite files of NVIDIA's profilers: tables of ranges, launches and kernels are assembled into events."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gradlib.autograd.profiler.event_list import EventList
from gradlib.autograd.profiler.events import FunctionEvent, Interval, Kernel
from gradlib.autograd.profiler.nvtx import DOMAIN
from gradlib.core.declaration import COMPOSED, OPERATIONS

OUTSIDE = "(outside ranges)"
"""The name of the events for kernels that were launched outside every range."""

_NUMBERS = re.compile(r"(?:, stashed seq = ([0-9]{1,18}))?(?:, seq = ([0-9]{1,18}))?\Z")
_SIZES = ", sizes = ["
_DEEPEST = 4  # the deepest nesting of lists in the shapes of arguments


class Range(NamedTuple):
    """One range of the file; times in nanoseconds."""

    label: str
    start: int
    end: int
    thread: int
    process: int


class Launch(NamedTuple):
    """One launch of a kernel, and the kernel's run; times in nanoseconds."""

    thread: int
    process: int
    start: int
    end: int
    kernel: str
    kernel_start: int
    kernel_end: int
    stream: int
    device: int


def files_of(path: Path) -> tuple[Path, ...]:
    """The files of a recording: the given one and those that SQLite keeps beside it."""
    return (path, *(each for end in ("-wal", "-journal") if (each := Path(f"{path}{end}")).is_file()))


class Tables:
    """A profiler's file, open for reading.

    Args:
        path: the file; program: the profiler that writes such files; remedy: how to get one.
    """

    def __init__(self, path: Path, program: str, remedy: str) -> None:
        import sqlite3

        self.path, self.program, self.remedy = path, program, remedy
        self.files = files_of(path)
        self.connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        self.connection.text_factory = _text
        self._steps = 0
        self._most = 10 * _STEP + _STEPS * sum(each.stat().st_size for each in self.files)
        self.connection.set_progress_handler(self._step, _STEP)

    def _step(self) -> bool:
        """Whether a query has taken more steps than the file's size allows: a damaged file can have loops."""
        self._steps += _STEP
        return self._steps > self._most

    def fault(self, text: str) -> ValueError:
        """The error for a file that cannot be read."""
        return ValueError(f"{self.path} {text}. {self.remedy}")

    def names(self) -> set[str]:
        """The names of the tables, without views: a view's rows are computed and may be endless."""
        return {name for (name,) in self.query("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")}

    def columns(self, table: str) -> set[str]:
        return {row[1] for row in self.query(f"PRAGMA table_info({table})")}

    def query(self, text: str) -> Iterable[tuple[Any, ...]]:
        """The rows of a query."""
        self._steps = 0
        return self.connection.execute(text)

    def rows(self, table: str, columns: Mapping[str, str], where: str = "1") -> Iterable[tuple[Any, ...]]:
        """The rows of a table, with the type of every value checked.

        Args:
            table: its name; columns: for each column the types that are allowed ("integer", "text", "null", "blob"); a missing column
                counts as null; where: an SQL condition.
        Raises: ValueError for a value of another type.
        """
        known = self.columns(table)
        chosen = [name if name in known else "NULL" for name in columns]
        types = [f"typeof({name})" for name in chosen]
        wrong = [f"{kind} NOT IN ({', '.join(map(repr, kinds.split()))})" for kind, kinds in zip(types, columns.values(), strict=True)]
        for row in self.query(f"SELECT {', '.join(types)} FROM {table} WHERE {where} AND ({' OR '.join(wrong)}) LIMIT 1"):
            name, kinds, kind = next((n, k, t) for (n, k), t in zip(columns.items(), row, strict=True) if t not in k.split())
            raise self.fault(f"is damaged: table {table} has a row whose {name} is of type {kind}, not {' or '.join(kinds.split())}")
        return self.query(f"SELECT {', '.join(chosen)} FROM {table} WHERE {where}")


_text = partial(str, encoding="utf-8", errors="replace")
_STEP = 100_000  # of SQLite's virtual machine
_STEPS = 64  # for each byte of a file: several times what reading the shortest rows takes


@contextmanager
def opened(
    path: str | Path,
    tables: Mapping[str, Sequence[str]],
    program: str,
    remedy: str,
    instead: Mapping[str, str] = MappingProxyType({}),
    further: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[Tables]:
    """A context with a profiler's file open for reading.

    Args:
        path: the file; tables: the columns needed of each table; program: the profiler that writes such files; remedy: how to get one.
        instead: for some tables, another that may stand in; further: the columns needed of optional tables.
    Raises: FileNotFoundError; ValueError for a file that is no SQLite database, is damaged, or lacks a table or a column, saying which.
    """
    import sqlite3

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb"):  # which says why, where it cannot be read
        pass
    file = Tables(path, program, remedy)
    try:
        found = file.names()
        missing = [name for name in tables if name not in found and instead.get(name) not in found]
        if missing:
            raise file.fault(f"is no {program} file with kernels and ranges: it has no table {', '.join(missing)}")
        for table, columns in (*tables.items(), *further.items()):
            lacking = [name for name in columns if name not in file.columns(table)]
            if lacking and table in found:
                raise ValueError(f"{path}: table {table} has no column {', '.join(lacking)}, as a file of {program} should. {remedy}")
        yield file
    except sqlite3.DatabaseError as error:
        if file._steps > file._most:
            raise file.fault("is damaged: its tables have more rows than it has room for") from error
        raise file.fault(f"is no SQLite file ({error})") from error
    finally:
        file.connection.close()


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the garbage collector off: it would scan millions of new objects, none of which is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def strings(file: Tables, table: str, key: str) -> dict[int, str]:
    """The file's table of texts."""
    return {number: text for number, text in file.rows(table, {key: "integer null", "value": "text null"}) if text is not None}


def own_domain(domains: Mapping[Any, str | None]) -> set[Any] | None:
    """The keys of gradlib's NVTX domain in a file; None if the file names no domains: then every range counts."""
    return {key for key, name in domains.items() if name == DOMAIN} or None


def assemble(file: Tables, ranges: list[Range], launches: list[Launch]) -> EventList:
    """Events from a file's ranges, each with the kernels that were launched inside it and in no range within it."""
    for what, times in (("range", ranges), ("call", launches), ("kernel", [Interval(x.kernel_start, x.kernel_end) for x in launches])):
        if any(each.end < each.start for each in times):
            raise file.fault(f"is damaged: it has a {what} that ends before it begins")
    zero = min([r.start for r in ranges] + [x.start for x in launches], default=0)
    made = [_event(number, each, zero) for number, each in enumerate(ranges)]
    made += _with_kernels(made, launches, zero)
    events = EventList(made, "cuda" if launches else None)
    events.files = file.files
    return events


def _event(number: int, each: Range, zero: int) -> FunctionEvent:
    name, shapes = each.label, None
    if name.endswith("]") and _SIZES in name:
        name, _, shapes = name.partition(_SIZES)
    match = next(_NUMBERS.finditer(name))  # it finds the end of any text
    name, (stashed, seq) = name[: match.start()], match.groups()
    kind = "op" if seq is not None or name in OPERATIONS or name in COMPOSED else "user"
    if stashed is not None or name == "AccumulateGrad":
        kind = "node"
    event = FunctionEvent(
        number, name, (each.start - zero) / 1e3, (each.end - zero) / 1e3, each.thread, kind,
        None if seq is None else int(seq), None if stashed is None else int(stashed),
    )  # fmt: skip
    if shapes is not None:
        event.input_shapes = _shapes(f"[{shapes}")
    event.process = each.process
    return event


def _shapes(text: str) -> list[Any] | None:
    """The shapes in a label; None if it has none."""
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if _is_sizes(found, _DEEPEST) else None


def _is_sizes(value: Any, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_is_sizes(each, depth - 1) for each in value)
    return type(value) is int and value >= 0


def _with_kernels(events: list[FunctionEvent], launches: list[Launch], zero: int) -> list[FunctionEvent]:
    """Give each kernel to the innermost range in which it was launched. Returns: the events for those launched outside any range."""
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
