"""``load_nsys``: the SQLite export of Nsight Systems as events."""

from __future__ import annotations

from pathlib import Path

from gradlib.autograd.profiler.event_list import EventList
from gradlib.autograd.profiler.loading import Launch, Range, Tables, assemble, no_collection, opened, own_domain, strings

_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
TABLES = {
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId"),
    _KERNEL: ("start", "end", "streamId", "correlationId", "shortName"),
}
_FURTHER = {_GRAPH: ("start", "end", "streamId", "correlationId", "graphId")}
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
    Example:
        >>> events = gradlib.autograd.profiler.load_nsys("run.sqlite")
        >>> [event.name for event in events][:2]
        ['step', 'mul']
    """
    with opened(path, TABLES, "Nsight Systems", REMEDY, {_KERNEL: _GRAPH}, _FURTHER) as file:
        texts = strings(file, "StringIds", "id")
        return assemble(file, _ranges(file, texts), _launches(file, texts))


def _ranges(file: Tables, texts: dict[int, str]) -> list[Range]:
    """The ranges of gradlib's domain; one that was open at the end of the recording ends there."""
    optional = "integer null"
    label = {"text": "text null", "textId": optional, "domainId": optional}
    named = file.rows("NVTX_EVENTS", label, f"eventType = {_DOMAIN_CREATE}")
    own = own_domain({domain: text if text is not None else texts.get(number) for text, number, domain in named})
    found = list(
        file.rows("NVTX_EVENTS", {**label, "start": "integer", "end": optional, "globalTid": optional}, f"eventType = {_PUSH_POP}")
    )
    (ends,) = file.query(
        "SELECT max(CASE typeof(start) WHEN 'integer' THEN start END), max(CASE typeof(end) WHEN 'integer' THEN end END) FROM NVTX_EVENTS"
    )
    last = max((end for end in ends if end is not None), default=0)
    return [
        Range(texts.get(number, "") if text is None else text, start, last if end is None else end, *_owner(tid))
        for text, number, domain, start, end, tid in found
        if own is None or domain in own
    ]


def _owner(tid: int | None) -> tuple[int, int]:
    """The thread and the process of a globalTid; a row without one belongs to nobody."""
    return (0, 0) if tid is None else (tid & _NUMBER, tid >> 24 & _NUMBER)


def _launches(file: Tables, texts: dict[int, str]) -> list[Launch]:
    """The kernels, and the CUDA graphs where each was recorded as a whole (``--cuda-graph-trace=graph``, which is the default)."""
    optional, times = "integer null", {"start": "integer", "end": "integer"}
    calls: dict[tuple[int, int], tuple[int, int, int]] = {}
    of_any_process: dict[int, tuple[int, int, int]] = {}
    for number, tid, start, end in file.rows(
        "CUPTI_ACTIVITY_KIND_RUNTIME", {"correlationId": optional, "globalTid": optional, **times}, "correlationId IS NOT NULL"
    ):
        calls.setdefault((number, (tid or 0) & _PROCESS), (tid or 0, start, end))
    launches = []
    for table, label in ((_KERNEL, "shortName"), (_GRAPH, "graphId")):
        if table not in file.names():
            continue
        work = {"streamId": "integer", "deviceId": "integer null"}
        for name, number, process, start, end, stream, device in file.rows(
            table, {label: "integer text", "correlationId": optional, "globalPid": optional, **times, **work}
        ):
            if process is None and not of_any_process:
                of_any_process = {number: call for (number, _), call in reversed(calls.items())}
            made = of_any_process.get(number) if process is None else calls.get((number, process))
            if made is not None:
                text = f"CUDA graph {name}" if table == _GRAPH else texts.get(name, str(name))
                launches.append(Launch(*_owner(made[0]), made[1], made[2], text, start, end, stream, device or 0))
    return launches
