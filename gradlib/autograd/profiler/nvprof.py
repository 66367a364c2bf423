"""``load_nvprof``: the SQLite file of nvprof as events. Source: torch.autograd.profiler.load_nvprof."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler.event_list import EventList
from gradlib.autograd.profiler.loading import Launch, Range, Tables, assemble, no_collection, opened, own_domain, strings

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
    Example:
        >>> events = gradlib.autograd.profiler.load_nvprof("run.nvprof")
        >>> [event.name for event in events][:2]
        ['step', 'mul']
    """
    with opened(path, TABLES, "nvprof", REMEDY, further={_DRIVER: ("start", "end", "correlationId")}) as file:
        texts = strings(file, "StringTable", "_id_")
        calls_name_threads = {"processId", "threadId"} <= file.columns("CUPTI_ACTIVITY_KIND_RUNTIME")
        threaded = calls_name_threads and {"objectKind", "objectId"} <= file.columns("CUPTI_ACTIVITY_KIND_MARKER")
        return assemble(file, _ranges(file, texts, threaded), _launches(file, texts, threaded))


def _ranges(file: Tables, texts: dict[int, str], threaded: bool) -> list[Range]:
    """The ranges of gradlib's domain: markers of their begin joined with those of their end."""
    columns = {"id": "integer", "name": "integer", "timestamp": "integer"}
    columns |= {"domain": "integer null", "objectKind": "integer null", "objectId": "blob null integer"}
    begun: dict[int, tuple[Any, ...]] = {}
    ended: dict[int, int] = {}
    for number, name, time, *whose in file.rows("CUPTI_ACTIVITY_KIND_MARKER", columns):
        if name:
            begun.setdefault(number, (name, time, *whose))
        else:
            ended.setdefault(number, time)
    own = own_domain({domain: texts.get(domain) for _, _, domain, *_ in begun.values()})
    return [
        Range(texts.get(name, ""), start, ended[number], *(_owner(*whose) if threaded else (0, 0)))
        for number, (name, start, domain, *whose) in begun.items()
        if number in ended and (own is None or domain in own)
    ]


def _launches(file: Tables, texts: dict[int, str], threaded: bool) -> list[Launch]:
    """The kernels, whichever interface launched them: NVIDIA's libraries call the runtime, CuPy's own kernels the driver."""
    times, optional = {"start": "integer", "end": "integer"}, "integer null"
    calls: dict[int, tuple[int, int, int, int]] = {}
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", _DRIVER):  # the runtime calls the driver itself, so its own rows come first
        if table in file.names():
            columns = {"correlationId": "integer", "threadId": optional, "processId": optional, **times}
            for number, thread, process, start, end in file.rows(table, columns):
                calls.setdefault(number, (*((thread or 0, process or 0) if threaded else (0, 0)), start, end))
    columns = {"correlationId": "integer", "name": "integer text", **times, "streamId": optional, "deviceId": optional}
    return [
        Launch(*calls[number], texts.get(name, str(name)), start, end, stream or 0, device or 0)
        for number, name, start, end, stream, device in file.rows("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", columns)
        if number in calls
    ]


def _owner(kind: Any, owner: Any) -> tuple[int, int]:
    """The thread and the process of a marker: CUPTI's CUpti_ActivityObjectKindId of a thread."""
    if kind != _THREAD or not isinstance(owner, bytes) or len(owner) < 8:
        return 0, 0
    process, thread = struct.unpack_from("<II", owner)
    return thread, process
