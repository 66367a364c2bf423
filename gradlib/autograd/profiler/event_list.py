"""``EventList``: a recording's events, with averages, tables and traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlib.autograd.profiler.events import Events, FunctionEventAvg
from gradlib.autograd.profiler.table import build_table
from gradlib.autograd.profiler.trace import write_stacks, write_trace
from gradlib.files import replacing


class EventList(Events):
    """Events in the order in which they began, as ``profile`` and the loaders return them.

    Args:
        events: FunctionEvents, which are nested by their times here, or averages.
        use_device: "cuda" where device times were taken, else None.
        profile_memory, with_flops: whether those columns are filled.
    Attributes:
        files: the files that they were read from; exports refuse to overwrite these.
    Source: torch.autograd.profiler_util.EventList.
    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     _ = gradlib.ones(3, requires_grad=True).exp().sum()
        >>> [event.name for event in prof.function_events]
        ['exp', 'sum']
    """

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums by name, and by shapes of the inputs and the innermost n lines of the stack where asked for.

        Source: torch's EventList.key_averages.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else None
            stack = tuple(event.stack[:group_by_stack_n]) if group_by_stack_n and event.stack else ()
            key = (event.key, event.kind, str(shapes), stack)
            average = found.get(key)
            if average is None:
                average = found[key] = FunctionEventAvg(event.key, shapes, list(stack) or None)
                average.kind = event.kind
            average.add(event)
        averages = EventList(found.values(), self.use_device, self.profile_memory, self.with_flops)
        averages.files = self.files
        return averages

    def total_average(self) -> FunctionEventAvg:
        """The sums over all events, nested ones included, as in torch."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """CPU time of everything, counted once."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, header: str | None = None, top_level_events_only: bool = False
    ) -> str:
        """A table in plain text; README.md beside this file explains the columns.

        Args:
            sort_by: a column's attribute, such as "self_cpu_time_total" or "cuda_time_total", largest first; None leaves the order.
            row_limit: at most so many rows; -1 for all.
            header: a line above.
            top_level_events_only: leave out what is nested.
        Raises: ValueError for a sort_by that is no column.
        """
        return build_table(self, sort_by, row_limit, header, top_level_events_only)

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open, with arrows from each operation to its backward.

        Raises: ValueError for the path of the recording itself; OSError where it cannot be written. What was there before stays then.
        """
        with replacing(self.files) as results:
            write_trace(self, results.place(path))

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Write ``outermost;...;innermost N`` lines for flamegraph.pl and speedscope, N the metric in microseconds.

        Raises: ValueError for a metric other than self_cpu_time_total and self_cuda_time_total, and as ``export_chrome_trace``.
        """
        with replacing(self.files) as results:
            write_stacks(self, results.place(path), metric)

    def __str__(self) -> str:
        return self.table()
