"""``profile``: times, shapes, memory and more of every operation and node, as tables and traces."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import gradlib.core
from gradlib.autograd.profiler.event_list import EventList
from gradlib.autograd.profiler.events import FunctionEvent, FunctionEventAvg
from gradlib.autograd.profiler.flops import backward_flops, forward_flops
from gradlib.autograd.profiler.ranges import gradient_sizes, is_recording, sizes, stashed_seq
from gradlib.backend.array import cupy, is_array
from gradlib.backend.device import device, synchronize
from gradlib.core.modes import next_seq, observer
from gradlib.core.node import Node
from gradlib.core.tensor import Tensor
from gradlib.core.written import WRITTEN

_PACKAGE = str(Path(gradlib.core.__file__).parents[1])


class _Record:
    """One event as it is recorded while the program runs."""

    __slots__ = (
        "args", "began", "bytes", "device", "end", "flops", "kind", "name", "op", "seq", "shapes", "stack", "start", "stashed", "thread",
    )  # fmt: skip

    began: Any
    end: int
    flops: int
    bytes: tuple[int, int]
    device: Any

    def __init__(self, kind: str, name: str, seq: int | None, stashed: int | None) -> None:
        self.kind = kind
        self.name = name
        self.op = name  # by its own name, where it was called by another
        self.seq = seq
        self.stashed = stashed
        self.thread = threading.get_native_id()
        self.shapes: list[Any] | None = None
        self.stack: list[str] | None = None
        self.args: tuple[Any, ...] = ()
        self.flops = 0
        self.bytes = (0, 0)
        self.device = None
        self.start = 0


class profile(observer):
    """A context manager that times every operation, node of backward, custom Function and ``record_function`` inside.

    It records its own thread, with the backward that this thread calls; another enters one of its own. Afterwards ``key_averages()``,
    ``table()``, ``export_chrome_trace(path)`` and the rest read what was found.

    Args:
        enabled: False makes this do nothing; ``as`` then gives None.
        use_device: "cuda" to take device times too, by events on the current stream.
        record_shapes: keep the shapes of arguments, for ``key_averages(group_by_input_shape=True)``.
        with_flops: count the floating-point operations of products and trajectory maps.
        profile_memory: count the bytes of the arrays that each operation makes.
        with_stack: keep the lines of Python that led to each operation; a node has those of the operation that made it.
        use_cuda: deprecated, as in torch: ``use_device="cuda"``.
        with_modules, use_kineto, use_cpu, experimental_config, acc_events, custom_trace_id_callback, post_processing_timeout_s,
            activity_filters: accepted; they steer parts of torch's own recorder and have no effect here.
    Raises: RuntimeError when entered twice, within another profiler on the same thread, or for "cuda" without a GPU; ValueError for
        another device; AssertionError for ``use_cpu=False`` without ``use_kineto``, as in torch.
    Source: torch.autograd.profiler.profile.
    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     gradlib.ones(3, requires_grad=True).exp().sum().backward()
        >>> [event.name for event in prof.function_events]
        ['exp', 'sum', 'SumBackward0', 'ExpBackward0', 'AccumulateGrad']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        if use_cuda and enabled:
            said = "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead."
            warnings.warn(said, FutureWarning, stacklevel=2)
            use_device = "cuda"
        if enabled and use_device not in (None, "cpu", "cuda"):
            raise ValueError(f"use_device is 'cuda' or None, got {use_device!r}")
        if enabled and not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.use_device = "cuda" if use_device == "cuda" else None
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.entered = False
        self._records: list[_Record] = []
        self._events: EventList | None = None

    # ---- while the program runs -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        if self.use_device is not None:
            device(self.use_device)  # which says what is missing
        synchronize()
        super().__enter__()
        self.entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.enabled:
            return
        super().__exit__(*exc)
        synchronize()
        self._events = self._made_events(list(self._records))

    def begin(self, name: str, seq: int | None, args: tuple[Any, ...]) -> _Record:
        record = _Record("user" if seq is None else "op", name, seq if is_recording() else None, None)
        if self.record_shapes and args:
            record.shapes = sizes(args)
        if self.with_flops:
            record.args = args
        return self._started(record)

    def _started(self, record: _Record) -> _Record:
        if self.with_stack:
            record.stack = _stack()
        if self.use_device is not None:
            record.device = (_event(), None)
        record.start = perf_counter_ns()
        return record

    def end(self, mark: Any, made: Any = None) -> None:
        mark.end = perf_counter_ns()
        if mark.device is not None:
            mark.device = (mark.device[0], _event())
        if made is not None:
            if self.with_flops and mark.kind == "op":
                mark.flops = forward_flops(mark.op, mark.args, made)
            if self.profile_memory:
                mark.bytes = _made_bytes(made, mark.args)
        mark.args = ()
        self._records.append(mark)

    def operation(self, op: Any, args: tuple[Any, ...]) -> Any:
        seq, run = next_seq(), op.observed
        record, made = self.begin(op.label, seq, args), None
        record.op = op.name
        if self.profile_memory:
            record.args = args
        try:
            made = run(seq, *args)
        finally:
            self.end(record, made)
        return made

    def composed(self, name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        record, made = self.begin(name, None, args), None
        record.kind, record.args = "op", args
        try:
            made = run()
        finally:
            self.end(record, made)
        return made

    def node(self, node: Node, g: Any, run: Callable[[Any], Any]) -> Any:
        record = _Record("node", node.name(), next_seq(), stashed_seq(node))
        if self.record_shapes:
            record.shapes = gradient_sizes(g)
        wanted = sum(edge is not None for edge in node.edges)
        made = None
        self._started(record)
        try:
            made = run(g)
        finally:
            record.args = (g,)
            self.end(record, made)
            record.flops = wanted  # of which the events make operations
        return made

    # ---- afterwards -----------------------------------------------------------------------------------------------------------

    def _made_events(self, records: list[_Record]) -> EventList:
        forward: dict[int | None, _Record] = {r.seq: r for r in records if r.kind == "op" and r.seq is not None}
        made = []
        for number, record in enumerate(records):
            event = FunctionEvent(
                number, record.name, record.start / 1e3, record.end / 1e3, record.thread, record.kind, record.seq, record.stashed,
                record.shapes, record.stack,
            )  # fmt: skip
            event.flops = record.flops
            event.cpu_memory_usage, event.device_memory_usage = record.bytes
            if record.device is not None:
                event.measured = 1e3 * cupy().cuda.get_elapsed_time(*record.device)
            if record.kind == "node":
                source = forward.get(record.stashed)
                event.flops = backward_flops(source.op, source.flops, record.flops) if source is not None and self.with_flops else 0
                event.stack = source.stack if source is not None else record.stack
            made.append(event)
        events = EventList(made, self.use_device, self.profile_memory, self.with_flops)
        for event in reversed(events):  # what is nested began later
            if event.cpu_children:
                event.cpu_memory_usage = sum(child.cpu_memory_usage for child in event.cpu_children)
                event.device_memory_usage = sum(child.device_memory_usage for child in event.cpu_children)
        return events

    @property
    def function_events(self) -> EventList:
        """Every event, in the order in which they began."""
        if self._events is None:
            raise RuntimeError("Profiler didn't finish running: leave its `with` block first")
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """As ``EventList.key_averages``."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, header: str | None = None, top_level_events_only: bool = False
    ) -> str:
        """As ``EventList.table``: one row for each event."""
        return self.function_events.table(sort_by, row_limit, header, top_level_events_only)

    def total_average(self) -> FunctionEventAvg:
        """As ``EventList.total_average``."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """CPU time of everything in microseconds, counted once."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str | Path) -> None:
        """As ``EventList.export_chrome_trace``."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """As ``EventList.export_stacks``. Raises: RuntimeError when stacks were not kept."""
        if not self.with_stack:
            raise RuntimeError("export_stacks() requires with_stack=True.")
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        return "<unfinished gradlib.autograd.profile>" if self._events is None else str(self._events)


def _event() -> Any:
    """An event on the current stream."""
    made = cupy().cuda.Event()
    made.record()
    return made


def _stack() -> list[str]:
    """The lines of the user's Python that led here, innermost first."""
    lines = []
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, WRITTEN)):
            lines.append(f"{name}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return lines


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value._array]
    if isinstance(value, (list, tuple)):
        return [x for each in value for x in _arrays(each)]
    return [value] if is_array(value) else []


def _root(array: Any) -> int:
    """The id of the array that owns an array's memory."""
    while is_array(getattr(array, "base", None)):
        array = array.base
    return id(array)


def _made_bytes(made: Any, given: Any) -> tuple[int, int]:
    """The bytes of new arrays among results, on the host and on devices; results that share memory with the arguments count nothing."""
    known = {_root(array) for array in _arrays(given)}
    host = other = 0
    for array in _arrays(made):
        if _root(array) in known:
            continue
        known.add(_root(array))
        if hasattr(array, "device") and not isinstance(array.device, str):
            other += array.nbytes
        else:
            host += array.nbytes
    return host, other
