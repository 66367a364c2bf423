"""``load_nvprof``: the SQLite file of nvprof as events. Source: torch.autograd.profiler.load_nvprof."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler.events import EventList
from gradlib.autograd.profiler.loading import Launch, Range, assemble, columns_of, no_collection, open_tables, own_domain, strings

TABLES = {
    "StringTable": ("_id_", "value"),
    "CUPTI_ACTIVITY_KIND_MARKER": ("id", "name", "timestamp"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "correlationId"),
    "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": ("start", "end", "correlationId", "name"),
}
REMEDY = "Record with `nvprof -o run.nvprof -- python program.py`, the program inside `with emit_nvtx():`."
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
        known = columns_of(connection, "CUPTI_ACTIVITY_KIND_MARKER")
        domain = "start.domain" if "domain" in known else "NULL"
        place = "start.objectKind, start.objectId" if {"objectKind", "objectId"} <= known else "NULL, NULL"
        threaded = place != "NULL, NULL" and {"processId", "threadId"} <= columns_of(connection, "CUPTI_ACTIVITY_KIND_RUNTIME")
        found = connection.execute(
            f"SELECT start.name, start.timestamp, stop.timestamp, {domain}, {place} "
            "FROM CUPTI_ACTIVITY_KIND_MARKER AS start JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id "
            "WHERE start.name != 0 AND stop.name = 0"
        ).fetchall()
        own = own_domain({row[3]: texts.get(row[3]) for row in found})
        ranges = []
        for name, start, end, where, kind, owner in found:
            if own is None or where in own:
                process, thread = _owner(kind, owner) if threaded else (0, 0)
                ranges.append(Range(texts.get(name, ""), start, end, thread, process))
        who = "runtime.threadId, runtime.processId" if threaded else "0, 0"
        stream = "kernel.streamId" if "streamId" in columns_of(connection, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL") else "0"
        launches = [
            Launch(thread, process, start, end, texts.get(name, str(name)), kernel_start, kernel_end, number)
            for thread, process, start, end, name, kernel_start, kernel_end, number in connection.execute(
                f"SELECT {who}, runtime.start, runtime.end, kernel.name, kernel.start, kernel.end, {stream} "
                "FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime "
                "ON kernel.correlationId = runtime.correlationId"
            )
        ]
    finally:
        connection.close()
    return assemble(ranges, launches)


def _owner(kind: Any, owner: Any) -> tuple[int, int]:
    """The process and the thread of a marker: CUPTI's CUpti_ActivityObjectKindId of a thread."""
    if kind != _THREAD or not isinstance(owner, bytes) or len(owner) < 8:
        return 0, 0
    process, thread = struct.unpack_from("<II", owner)
    return process, thread
