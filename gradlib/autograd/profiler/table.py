"""Tables in plain text: events or their averages, and operations with forward and backward side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradlib.autograd.profiler.events import BIT, Events, FunctionEvent

SORTABLE = (
    "cpu_time", "cuda_time", "device_time", "cpu_time_total", "cuda_time_total", "device_time_total", "self_cpu_time_total",
    "self_cuda_time_total", "self_device_time_total", "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage",
    "self_device_memory_usage", "flops", "count",
)  # fmt: skip
_WIDEST = {"Name": 55, "Input Shapes": 80, "Source Location": 75}


def time_text(microseconds: float) -> str:
    """A duration with its unit, as torch prints it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def share_text(part: float, total: float) -> str:
    return f"{100 * part / total:.2f}%" if total else "--"


def bytes_text(count: int) -> str:
    """A number of bytes with its unit (1 KB is 1024 B, as in torch)."""
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if abs(size) < 1024:
            return f"{count} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GB"


def flops_text(count: float) -> str:
    """A number of floating-point operations with its power of ten."""
    if not count:
        return "--"
    for power, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "KFLOP")):
        if count >= power:
            return f"{count / power:.3f} {unit}"
    return f"{count:.0f} FLOP"


def build_table(events: Events, sort_by: str | None, row_limit: int, header: str | None, top_level_only: bool) -> str:
    """The text of ``EventList.table``."""
    if sort_by is not None and sort_by not in SORTABLE:
        raise ValueError(f"sort_by is one of {', '.join(SORTABLE)}; got {sort_by!r}")
    rows = list(events)
    total_cpu = sum(e.self_cpu_time_total for e in rows)
    total_device = sum(e.self_device_time_total for e in rows)
    if top_level_only:
        rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
    if sort_by is not None:
        rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
    if row_limit >= 0:
        rows = rows[:row_limit]
    has_device = events.use_device is not None or total_device > 0
    columns = _columns(events, rows, has_device)
    cells = [[text(e, total_cpu, total_device) for _, text in columns] for e in rows]
    lines = [] if header is None else [header]
    lines.append(layout([name for name, _ in columns], cells))
    lines.append(f"Self CPU time total: {time_text(total_cpu)}")
    if has_device:
        lines.append(f"Self CUDA time total: {time_text(total_device)}")
    return "\n".join(lines) + "\n"


def _columns(events: Events, rows: list[Any], has_device: bool) -> list[tuple[str, Any]]:
    """Heading and text of each column that has something to show."""
    found: list[tuple[str, Any]] = [
        ("Name", lambda e, cpu, device: e.name),
        ("Self CPU %", lambda e, cpu, device: share_text(e.self_cpu_time_total, cpu)),
        ("Self CPU", lambda e, cpu, device: time_text(e.self_cpu_time_total)),
        ("CPU total %", lambda e, cpu, device: share_text(e.cpu_time_total, cpu)),
        ("CPU total", lambda e, cpu, device: time_text(e.cpu_time_total)),
        ("CPU time avg", lambda e, cpu, device: time_text(e.cpu_time)),
    ]
    if has_device:
        found += [
            ("Self CUDA", lambda e, cpu, device: time_text(e.self_device_time_total)),
            ("Self CUDA %", lambda e, cpu, device: share_text(e.self_device_time_total, device)),
            ("CUDA total", lambda e, cpu, device: time_text(e.device_time_total)),
            ("CUDA time avg", lambda e, cpu, device: time_text(e.device_time)),
        ]
    if events.profile_memory:
        found += [
            ("CPU Mem", lambda e, cpu, device: bytes_text(e.cpu_memory_usage)),
            ("Self CPU Mem", lambda e, cpu, device: bytes_text(e.self_cpu_memory_usage)),
        ]
        if has_device:
            found += [
                ("CUDA Mem", lambda e, cpu, device: bytes_text(e.device_memory_usage)),
                ("Self CUDA Mem", lambda e, cpu, device: bytes_text(e.self_device_memory_usage)),
            ]
    found.append(("# of Calls", lambda e, cpu, device: str(e.count)))
    if any(e.input_shapes for e in rows):
        found.append(("Input Shapes", lambda e, cpu, device: str(e.input_shapes or [])))
    if any(e.stack for e in rows):
        found.append(("Source Location", lambda e, cpu, device: (e.stack or [""])[0]))
    if events.with_flops:
        found.append(("Total FLOPs", lambda e, cpu, device: flops_text(e.flops)))
    return found


def layout(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells under their headings, all but the first column flush right."""
    shown = [[_cut(cell, _WIDEST.get(name, 40)) for name, cell in zip(headings, row, strict=True)] for row in rows]
    widths = [max(len(line[k]) for line in [list(headings), *shown]) for k in range(len(headings))]
    rule = "  ".join("-" * width for width in widths)

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *padded]).rstrip()

    return "\n".join([rule, line(headings), rule, *map(line, shown), rule])


def _cut(text: str, width: int) -> str:
    text = text[: width + 1]
    if not text.isprintable():  # a name from a file may hold control characters of terminals
        text = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return text if len(text) <= width else text[: width - 3] + "..."


# ---- forward and backward side by side ---------------------------------------------------------------------------------------


class Sides(NamedTuple):
    """One operation's forward and backward, summed over its calls. Times are microseconds."""

    name: str
    calls: int
    forward_cpu: float
    backward_cpu: float
    forward_device: float
    backward_device: float


def totals(rows: list[Sides]) -> list[float]:
    """The time of each row: device time if any row has some, else CPU time."""
    device = [row.forward_device + row.backward_device for row in rows]
    return device if any(device) else [row.forward_cpu + row.backward_cpu for row in rows]


def sides(events: Events) -> list[Sides]:
    """Each operation with its own forward and the backward it caused, the most expensive first.

    Operations count that run outside backward and are not nested in another one. What runs inside a node of backward counts for the
    operation that caused the node. Nodes that no operation of the file made (leaves) have rows of their own, and so have a user's ranges in
    which kernels ran outside any operation.
    """
    sums: dict[str, list[float]] = {}
    caused = {id(run) for event in events for run in event.backward}
    for event in events:
        if event.kind == "user":
            counts = event.self_device_time_total > 0 and not event.within & (BIT["op"] | BIT["node"])
        else:
            counts = not event.within & BIT["node"] if event.kind == "op" else id(event) not in caused
        if not counts:
            continue
        row = sums.setdefault(event.name, [0, 0.0, 0.0, 0.0, 0.0])
        row[0] += 1
        if event.kind == "node":
            row[2] += event.cpu_time_total
            row[4] += event.device_time_total
            continue
        row[1] += _own(event, "self_cpu_time_total")
        row[2] += sum(run.cpu_time_total for run in event.backward)
        row[3] += _own(event, "self_device_time_total") if event.kind == "op" else event.self_device_time_total
        row[4] += sum(run.device_time_total for run in event.backward)
    rows = [Sides(name, int(row[0]), *row[1:]) for name, row in sums.items()]
    return [row for _, row in sorted(zip(totals(rows), rows, strict=True), key=lambda pair: -pair[0])]


def _own(event: FunctionEvent, what: str) -> float:
    """A time of an event plus those of the user's ranges in it, such as that of a kernel's launch."""
    total, waiting = 0.0, [event]
    while waiting:
        at = waiting.pop()
        total += getattr(at, what)
        waiting.extend(child for child in at.cpu_children if child.kind == "user")
    return total


def sides_table(rows: list[Sides], row_limit: int = 100) -> str:
    """The text of ``sides``."""
    took = totals(rows)
    headings = ("Name", "# of Calls", "CPU forward", "CPU backward", "CUDA forward", "CUDA backward", "Total %")
    cells = [
        (row.name, str(row.calls), *(time_text(value) for value in row[2:]), share_text(part, sum(took)))
        for row, part in zip(rows, took, strict=True)
    ]
    return layout(headings, cells if row_limit < 0 else cells[:row_limit]) + "\n"
