"""Profiled events and what is computed from them: nesting, averages, which forward caused which backward. Times are microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

BIT = {"op": 1, "node": 2, "user": 4}
"""A bit for each kind of event."""


class Kernel(NamedTuple):
    """One run of a kernel on a device.

    Attributes:
        name: the kernel's.
        start, duration: microseconds.
        stream, device: where it ran.
    Source: torch.autograd.profiler_util.Kernel.
    Example:
        >>> gradlib.autograd.profiler.Kernel("multiply", start=10.0, duration=2.5).duration
        2.5
    """

    name: str
    start: float
    duration: float
    stream: int = 0
    device: int = 0


class Interval(NamedTuple):
    """The start and end of an event."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The duration in microseconds."""
        return self.end - self.start


class _Times:
    """Properties that an event and an average of events share. Source: torch's FormattedTimesMixin."""

    __slots__ = ()
    count: int
    cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """CPU time of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Device time of one call."""
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = device_time

    @property
    def cuda_time_total(self) -> float:
        """torch's older name for ``device_time_total``."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """torch's older name for ``self_device_time_total``."""
        return self.self_device_time_total


class FunctionEvent(_Times):
    """One operation, one node's run in backward, one Function or one range of the user's.

    Attributes:
        kind: "op", "node" or "user".
        seq: for an operation, the sequence number of the node that it made; for a node's run, the counter's value at that time; None if
            nothing was recorded.
        stashed: for a node, the sequence number of the operation that made it.
        thread, process: where it ran.
        start, end: when.
        input_shapes, stack, flops: as asked for.
        cpu_memory_usage: bytes of the arrays it made.
        device_memory_usage: the same on the device.
        measured: device time between its begin and its end on the stream, or None.
        kernels: those it launched itself.
        cpu_parent, cpu_children: the nesting; set by ``EventList``, and with it:
        depth: how many events it is nested in.
        within: the kinds of those, as bits of ``BIT``.
        node: the innermost node's run that it is nested in.
        backward: the runs of the nodes it made, and of the nodes that those made.
    Source: torch.autograd.profiler_util.FunctionEvent.
    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     gradlib.ones(3, requires_grad=True).sum().backward()
        >>> [(event.name, event.kind) for event in prof.function_events]
        [('sum', 'op'), ('SumBackward0', 'node'), ('AccumulateGrad', 'node')]
    """

    __slots__ = (
        "_device_total", "backward", "cpu_children", "cpu_memory_usage", "cpu_parent", "depth", "device_memory_usage", "end", "flops", "id",
        "input_shapes", "kernels", "kind", "measured", "name", "node", "process", "seq", "stack", "start", "stashed", "thread", "within",
    )  # fmt: skip
    count = 1

    def __init__(
        self,
        id: int,
        name: str,
        start: float,
        end: float,
        thread: int = 0,
        kind: str = "op",
        seq: int | None = None,
        stashed: int | None = None,
        input_shapes: list[Any] | None = None,
        stack: list[str] | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.start = start
        self.end = end
        self.thread = thread
        self.process = 0
        self.kind = kind
        self.seq = seq
        self.stashed = stashed
        self.input_shapes = input_shapes
        self.stack = stack
        self.flops = 0
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.measured: float | None = None
        self.kernels: list[Kernel] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] | tuple[()] = ()
        self.backward: list[FunctionEvent] | tuple[()] = ()
        self.depth = 0
        self.within = 0
        self.node: FunctionEvent | None = None
        self._device_total: float | None = None  # computed once the nesting is known

    @property
    def key(self) -> str:
        """The key by which averages are grouped: the name."""
        return self.name

    @property
    def sequence_nr(self) -> int:
        """The sequence number that links both passes, under torch's name; -1 without one."""
        number = self.stashed if self.kind == "node" else self.seq
        return -1 if number is None else number

    @property
    def time_range(self) -> Interval:
        """The interval from begin to end."""
        return Interval(self.start, self.end)

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """CPU time from start to end."""
        return self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """CPU time without nested events."""
        return self.end - self.start - sum(child.end - child.start for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes of the arrays that it made, without nested events."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The same on the device."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Device time, with nested events."""
        if self._device_total is not None:
            return self._device_total
        return self.measured if self.measured is not None else sum(kernel.duration for kernel in self.kernels or ())

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """Device time without nested events."""
        if self.measured is not None:
            return max(0.0, self.measured - sum(child.device_time_total for child in self.cpu_children))
        return sum(kernel.duration for kernel in self.kernels or ())

    @property
    def caused_kernels(self) -> list[Kernel]:
        """The kernels of this operation: those of its forward and of every backward through it."""
        return [kernel for run in (self, *self.backward) for kernel in run.all_kernels()]

    def all_kernels(self) -> list[Kernel]:
        """The kernels launched by it and by nested events."""
        found: list[Kernel] = []
        waiting = [self]
        while waiting:  # no recursion: a file may hold any depth of nesting
            event = waiting.pop()
            found.extend(event.kernels or ())
            waiting.extend(reversed(event.cpu_children))
        return found

    @property
    def caused_device_time_total(self) -> float:
        """Device time of its forward and of every backward through it."""
        return self.device_time_total + sum(each.device_time_total for each in self.backward)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} start_us={self.start:.3f} end_us={self.end:.3f} "
            f"cpu_time={self.cpu_time_total:.3f}us device_time={self.device_time_total:.3f}us seq_nr={self.sequence_nr} "
            f"input_shapes={self.input_shapes}>"
        )


_SUMMED = (
    "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
    "device_memory_usage", "self_device_memory_usage", "flops", "count",
)  # fmt: skip


class FunctionEventAvg(_Times):
    """The sums over events of one name, as ``key_averages()`` gives them.

    Attributes:
        key: the name.
        count: how many events.
        input_shapes, stack: those of all of them, where they were grouped by these.
    Source: torch.autograd.profiler_util.FunctionEventAvg.
    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     x = gradlib.ones(3)
        ...     for _ in range(4):
        ...         x = x + 1
        >>> [(each.key, each.count) for each in prof.key_averages() if each.key == "add"]
        [('add', 4)]
    """

    def __init__(self, key: str = "", input_shapes: list[Any] | None = None, stack: list[str] | None = None) -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.stack = stack
        self.kind = "op"
        for name in _SUMMED:
            setattr(self, name, 0)

    @property
    def name(self) -> str:
        """The same as ``key``."""
        return self.key

    def add(self, event: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Count one more event, or all of another average."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(event, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} cpu_time_total={self.cpu_time_total:.3f}us "
            f"self_cpu_time_total={self.self_cpu_time_total:.3f}us device_time_total={self.device_time_total:.3f}us "  # type: ignore[attr-defined]
            f"input_shapes={self.input_shapes}>"
        )


class Events(list):
    """Events in the order in which they began, nested by their times: the base of ``EventList``."""

    def __init__(
        self, events: Iterable[Any] = (), use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False
    ) -> None:
        super().__init__(events)
        self.use_device = use_device
        self.profile_memory = profile_memory
        self.with_flops = with_flops
        self.files: tuple[Path, ...] = ()
        if self and isinstance(self[0], FunctionEvent):
            self.sort(key=lambda e: (e.start, -e.end))
            nest(self)
            sum_device_times(self)
            correlate(self)


def nest(events: list[FunctionEvent]) -> None:
    """Nest the events of each thread by their times; they come in the order in which they began."""
    open_by_thread: dict[tuple[int, int], list[FunctionEvent]] = {}
    for event in events:
        stack = open_by_thread.setdefault((event.process, event.thread), [])
        while stack and stack[-1].end <= event.start and not (stack[-1].end == event.start == event.end):
            stack.pop()
        while stack and stack[-1].end < event.end:
            stack.pop()
        if stack:
            parent = stack[-1]
            event.cpu_parent = parent
            event.depth = parent.depth + 1
            event.within = parent.within | BIT[parent.kind]
            event.node = parent if parent.kind == "node" else parent.node
            if parent.cpu_children:
                parent.cpu_children.append(event)
            else:
                parent.cpu_children = [event]
        stack.append(event)


def sum_device_times(events: list[FunctionEvent]) -> None:
    """Compute the device time of each event, with nested events, which come later in the list."""
    for event in reversed(events):
        if event.measured is not None:
            event._device_total = event.measured
        else:
            total = 0.0
            for kernel in event.kernels or ():
                total += kernel.duration
            for child in event.cpu_children:
                total += child.device_time_total
            event._device_total = total


def correlate(events: list[FunctionEvent]) -> None:
    """Link each forward operation to the runs of backward that it caused, by sequence number."""
    forward = forward_by_seq(events)
    causes: dict[int, FunctionEvent | None] = {}
    for event in events:
        if event.kind != "node":
            continue
        cause = _cause(event, forward, causes)
        if cause is not None:
            if cause.backward:
                cause.backward.append(event)
            else:
                cause.backward = [event]


def forward_by_seq(events: list[FunctionEvent]) -> dict[tuple[int, int | None], FunctionEvent]:
    """The operations by process and sequence number."""
    return {(event.process, event.seq): event for event in events if event.kind == "op" and event.seq is not None}


def _cause(
    event: FunctionEvent, forward: dict[tuple[int, int | None], FunctionEvent], causes: dict[int, FunctionEvent | None]
) -> FunctionEvent | None:
    """The forward operation that caused a node's run. For a double backward it is found through the first backward.

    ``causes`` caches the results, so that each chain of runs is followed once.
    """
    node: FunctionEvent | None = event
    cause = None
    way: set[int] = set()  # a file may hold anything, also an operation inside its own node
    while node is not None and node.stashed is not None and id(node) not in way:
        if id(node) in causes:
            cause = causes[id(node)]
            break
        way.add(id(node))
        cause = forward.get((node.process, node.stashed))
        node = None if cause is None else cause.node
    causes.update(dict.fromkeys(way, cause))
    return cause
