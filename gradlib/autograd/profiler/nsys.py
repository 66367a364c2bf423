"""``load_nsys``: the SQLite export of Nsight Systems as events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradlib.autograd.profiler.events import EventList
from gradlib.autograd.profiler.loading import Launch, Range, assemble, columns_of, no_collection, open_tables, own_domain, strings

if TYPE_CHECKING:
    import sqlite3

_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
TABLES = {
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId"),
    _KERNEL: ("start", "end", "streamId", "correlationId", "shortName"),
}
REMEDY = (
    "Record with `nsys profile --trace=cuda,nvtx -o run python program.py`, the program inside `with emit_nvtx():`, and export with "
    "`nsys export --type=sqlite -o run.sqlite run.nsys-rep`. A table is there only if something was recorded for it: of a program that "
    "launches no kernel, take the times with `gradlib.autograd.profiler.profile`."
)
_PUSH_POP, _DOMAIN_CREATE = 59, 75  # eventType
_PROCESS = ~0xFFFFFF  # of a globalTid: its globalPid; the system's own numbers take 24 bits each
_NUMBER = 0xFFFFFF


@no_collection()
def load_nsys(path: str | Path) -> EventList:
    """Read an export of Nsight Systems.

    Args:
        path: the SQLite file of ``nsys export --type=sqlite``.
    Returns: the ranges of ``emit_nvtx`` in the order in which they began, nested, each with the kernels launched in it; operations know
        the runs of backward that they caused (``backward``) and the kernels of both passes (``caused_kernels``,
        ``caused_device_time_total``). Kernels launched outside every range are on events named ``(outside ranges)``.
    Raises: FileNotFoundError; ValueError for a file that is no such export, saying what it lacks.
    """
    connection = open_tables(path, TABLES, "Nsight Systems", REMEDY, {_KERNEL: _GRAPH})
    try:
        texts = strings(connection, "StringIds", "id")
        ranges, launches = _ranges(connection, texts), _launches(connection, texts)
    finally:
        connection.close()
    return assemble(ranges, launches)


def _ranges(connection: sqlite3.Connection, texts: dict[int, str]) -> list[Range]:
    """The ranges of gradlib's domain; one that was open at the end of the recording ends there."""
    known = columns_of(connection, "NVTX_EVENTS")
    text_id = "textId" if "textId" in known else "NULL"
    domain = "domainId" if "domainId" in known else "NULL"
    named = connection.execute(f"SELECT {domain}, text, {text_id} FROM NVTX_EVENTS WHERE eventType = {_DOMAIN_CREATE}")
    own = own_domain({key: text if text is not None else texts.get(number) for key, text, number in named})
    (last,) = connection.execute("SELECT max(max(start), max(coalesce(end, start))) FROM NVTX_EVENTS").fetchone()
    found = connection.execute(f"SELECT text, {text_id}, start, end, globalTid, {domain} FROM NVTX_EVENTS WHERE eventType = {_PUSH_POP}")
    return [
        Range(texts.get(number, "") if text is None else text, start, last if end is None else end, tid & _NUMBER, tid >> 24 & _NUMBER)
        for text, number, start, end, tid, where in found
        if own is None or where in own
    ]


def _launches(connection: sqlite3.Connection, texts: dict[int, str]) -> list[Launch]:
    """The kernels, and the CUDA graphs where each was recorded as a whole (``--cuda-graph-trace=graph``, which is the default)."""
    launches = []
    for table, name in ((_KERNEL, "shortName"), (_GRAPH, "'CUDA graph ' || done.graphId")):
        known = columns_of(connection, table)
        if not known:
            continue
        same = f"AND (done.globalPid IS NULL OR done.globalPid = (api.globalTid & {_PROCESS}))" if "globalPid" in known else ""
        device = "done.deviceId" if "deviceId" in known else "0"
        found = connection.execute(
            f"SELECT api.globalTid, api.start, api.end, {name}, done.start, done.end, done.streamId, {device} FROM {table} AS done "
            f"JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS api ON done.correlationId = api.correlationId {same}"
        )
        launches += [
            Launch(thread & _NUMBER, thread >> 24 & _NUMBER, start, end, texts.get(label, str(label)), *work)
            for thread, start, end, label, *work in found
        ]
    return launches
