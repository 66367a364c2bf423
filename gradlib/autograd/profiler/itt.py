"""``emit_itt``: the ranges of ``emit_nvtx`` as tasks that Intel VTune shows. Source: torch.autograd.profiler.emit_itt."""

from __future__ import annotations

from typing import Any

from gradlib.autograd.profiler.ranges import Emit
from gradlib.backend.loading import needed_by

DOMAIN = "gradlib"


class emit_itt(Emit):
    """Give every operation and every node that backward runs an ITT task, labelled as by ``emit_nvtx``.

    Args:
        enabled, record_shapes: as for ``emit_nvtx``.
    Raises: ModuleNotFoundError without the package ittapi; RuntimeError as ``emit_nvtx``.
    Source: torch.autograd.profiler.emit_itt.
    Example:
        >>> with gradlib.autograd.profiler.emit_itt(enabled=False):  # True under VTune, with the package ittapi
        ...     gradlib.ones(3, requires_grad=True).sum().backward()
    """

    interface = "ITT"

    def start(self) -> None:
        with needed_by("emit_itt", "itt"):
            import ittapi
        self._ittapi: Any = ittapi
        self._domain = ittapi.domain(DOMAIN)

    def push(self, label: str) -> None:
        self._ittapi.task_begin(self._domain, self._ittapi.string_handle(label))

    def pop(self) -> None:
        self._ittapi.task_end(self._domain)
