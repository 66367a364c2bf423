"""Traces for Perfetto and chrome://tracing, and stacks for flame graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler.events import Events, forward_by_seq

_CATEGORY = {"op": "cpu_op", "node": "cpu_op", "user": "user_annotation"}
_DEVICE = (1 << 22) + 1  # a process number above those of Linux, for the first device; further devices follow


def trace_events(events: Events) -> Iterator[dict[str, Any]]:
    """The trace's entries: the threads, what ran in them, kernels on their streams, arrows from forward to backward and to kernels."""
    own = os.getpid()
    for process in sorted({event.process or own for event in events}):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": "python"}}
    for process, thread in sorted({(event.process or own, event.thread) for event in events}):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": f"thread {thread}"}}
    streams = sorted({(event.process, kernel.device, kernel.stream) for event in events for kernel in event.kernels or ()})
    devices = {place: _DEVICE + number for number, place in enumerate(sorted({stream[:2] for stream in streams}))}
    for (_, device), number in devices.items():
        yield {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"CUDA device {device}"}}
    for process, device, stream in streams:
        yield {"ph": "M", "name": "thread_name", "pid": devices[process, device], "tid": stream, "args": {"name": f"stream {stream}"}}
    made = forward_by_seq(events)
    arrows = 0
    for event in events:
        place = {"pid": event.process or own, "tid": event.thread, "ts": event.start}
        yield {"ph": "X", "cat": _CATEGORY[event.kind], "name": event.name, **place, "dur": event.end - event.start, "args": _notes(event)}
        source = made.get((event.process, event.stashed)) if event.kind == "node" else None
        if source is not None:
            arrows += 1
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": arrows}
            yield {"ph": "s", **arrow, "pid": source.process or own, "tid": source.thread, "ts": source.start}
            yield {"ph": "f", "bp": "e", **arrow, **place}
        for kernel in event.kernels or ():
            arrows += 1
            arrow = {"cat": "cpu_to_cuda", "name": "launch", "id": arrows}
            there = {"pid": devices[event.process, kernel.device], "tid": kernel.stream, "ts": kernel.start}
            yield {"ph": "X", "cat": "kernel", "name": kernel.name, **there, "dur": kernel.duration, "args": {}}
            yield {"ph": "s", **arrow, **place}
            yield {"ph": "f", "bp": "e", **arrow, **there}


def _notes(event: Any) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    if event.sequence_nr >= 0:
        notes["Sequence number"] = event.sequence_nr
    if event.input_shapes:
        notes["Input Dims"] = event.input_shapes
    if event.flops:
        notes["FLOPs"] = event.flops
    if event.cpu_memory_usage:
        notes["Bytes"] = event.cpu_memory_usage
    if event.device_time_total:
        notes["CUDA time (us)"] = event.device_time_total
    if event.stack:
        notes["Call stack"] = ";".join(event.stack)
    return notes


def write_trace(events: Events, path: Path) -> None:
    """Write the trace as JSON, entry by entry, into the temporary file of `gradlib.files`."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for number, entry in enumerate(trace_events(events)):
            file.write(",\n" if number else "")
            file.write(json.dumps(entry, allow_nan=False))
        file.write("\n]}\n")


def write_stacks(events: Events, path: Path, metric: str) -> None:
    """Write one line for each stack: its frames, outermost first, and the sum of the metric in whole microseconds."""
    if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
        raise ValueError(f"metric should be one of: ['self_cpu_time_total', 'self_cuda_time_total'], got {metric!r}")
    spaces = str.maketrans(" ;\t\n", "____")
    sums: dict[str, float] = {}
    for event in events:
        if event.stack:
            line = ";".join([*(frame.translate(spaces) for frame in reversed(event.stack)), event.name.translate(spaces)])
            sums[line] = sums.get(line, 0.0) + getattr(event, metric)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line} {int(value)}\n" for line, value in sums.items() if int(value) > 0)
