"""``emit_itt``: the ranges of ``emit_nvtx`` as tasks that Intel VTune shows. Source: torch.autograd.profiler.emit_itt."""

from __future__ import annotations

from typing import Any

from gradlib.autograd.profiler.ranges import Emit

DOMAIN = "gradlib"


class emit_itt(Emit):
    """Give every operation and every node that backward runs an ITT task, labelled as by ``emit_nvtx``.

    Args: as of ``emit_nvtx``.
    Raises: ModuleNotFoundError without the package ittapi; RuntimeError as ``emit_nvtx`` does.
    Source: torch.autograd.profiler.emit_itt.
    """

    interface = "ITT"

    def start(self) -> None:
        try:
            import ittapi
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "emit_itt needs the package ittapi, which is not installed: pip install ittapi", name="ittapi"
            ) from error
        self._ittapi: Any = ittapi
        self._domain = ittapi.domain(DOMAIN)

    def push(self, label: str) -> None:
        self._ittapi.task_begin(self._domain, self._ittapi.string_handle(label))

    def pop(self) -> None:
        self._ittapi.task_end(self._domain)
