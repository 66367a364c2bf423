"""``load_nvprof``: the SQLite file of nvprof as events. Source: torch.autograd.profiler.load_nvprof."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlib.autograd.profiler.events import EventList
from gradlib.autograd.profiler.loading import Launch, Range, assemble, columns_of, no_collection, open_tables, own_domain, strings

if TYPE_CHECKING:
    import sqlite3

TABLES = {
    "StringTable": ("_id_", "value"),
    "CUPTI_ACTIVITY_KIND_MARKER": ("id", "name", "timestamp"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "correlationId"),
    "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": ("start", "end", "correlationId", "name"),
}
REMEDY = "Record with `nvprof -o run.nvprof -- python program.py`, the program inside `with emit_nvtx():`."
_DRIVER = "CUPTI_ACTIVITY_KIND_DRIVER"
_THREAD = 2  # objectKind: the marker's object is a thread


@no_collection()
def load_nvprof(path: str | Path) -> EventList:
    """Read a file of nvprof.

    Args:
        path: what ``nvprof -o`` wrote.
    Returns: as ``load_nsys``.
    Raises: FileNotFoundError; ValueError for a file that is no such file, saying what it lacks.
    Source: torch.autograd.profiler.load_nvprof, which puts each kernel on every range around it; here it is on the innermost, and the
    others count it as nested.
    """
    connection = open_tables(path, TABLES, "nvprof", REMEDY)
    try:
        texts = strings(connection, "StringTable", "_id_")
        calls_name_threads = {"processId", "threadId"} <= columns_of(connection, "CUPTI_ACTIVITY_KIND_RUNTIME")
        threaded = calls_name_threads and {"objectKind", "objectId"} <= columns_of(connection, "CUPTI_ACTIVITY_KIND_MARKER")
        ranges, launches = _ranges(connection, texts, threaded), _launches(connection, texts, threaded)
    finally:
        connection.close()
    return assemble(ranges, launches)


def _ranges(connection: sqlite3.Connection, texts: dict[int, str], threaded: bool) -> list[Range]:
    """The ranges of gradlib's domain: markers of their begin joined with those of their end."""
    domain = "start.domain" if "domain" in columns_of(connection, "CUPTI_ACTIVITY_KIND_MARKER") else "NULL"
    owner = "start.objectKind, start.objectId" if threaded else "NULL, NULL"
    found = connection.execute(
        f"SELECT start.name, start.timestamp, stop.timestamp, {domain}, {owner} "
        "FROM CUPTI_ACTIVITY_KIND_MARKER AS start JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id "
        "WHERE start.name != 0 AND stop.name = 0"
    ).fetchall()
    own = own_domain({row[3]: texts.get(row[3]) for row in found})
    ranges = []
    for name, start, end, where, kind, whose in found:
        if own is None or where in own:
            process, thread = _owner(kind, whose)
            ranges.append(Range(texts.get(name, ""), start, end, thread, process))
    return ranges


def _launches(connection: sqlite3.Connection, texts: dict[int, str], threaded: bool) -> list[Launch]:
    """The kernels, whichever interface launched them: NVIDIA's libraries call the runtime, CuPy's own kernels the driver."""
    who = "threadId, processId" if threaded else "0 AS threadId, 0 AS processId"
    calls = f"SELECT start, end, correlationId, {who} FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    if columns_of(connection, _DRIVER):
        counted = "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"  # the runtime calls the driver itself
        calls += f" UNION ALL SELECT start, end, correlationId, {who} FROM {_DRIVER} WHERE correlationId NOT IN ({counted})"
    known = columns_of(connection, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    where = ", ".join(f"kernel.{name}" if name in known else "0" for name in ("streamId", "deviceId"))
    found = connection.execute(
        f"SELECT api.threadId, api.processId, api.start, api.end, kernel.name, kernel.start, kernel.end, {where} "
        f"FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel JOIN ({calls}) AS api ON kernel.correlationId = api.correlationId"
    )
    return [Launch(thread, process, start, end, texts.get(name, str(name)), *work) for thread, process, start, end, name, *work in found]


def _owner(kind: Any, owner: Any) -> tuple[int, int]:
    """The process and the thread of a marker: CUPTI's CUpti_ActivityObjectKindId of a thread."""
    if kind != _THREAD or not isinstance(owner, bytes) or len(owner) < 8:
        return 0, 0
    process, thread = struct.unpack_from("<II", owner)
    return process, thread
