"""``record_function``: a range with a user's name, in every profiler. Source: torch.autograd.profiler.record_function."""

from __future__ import annotations

from typing import Any

from gradlib.core.grad_mode import ContextDecorator
from gradlib.core.modes import observing


class record_function(ContextDecorator):
    """Name a block of code in the active profiler, if there is one: ``with record_function("load"): ...``, or as a decorator.

    Args:
        name: what it is called.
        args: a further text that is shown behind it, or None.
    Source: torch.autograd.profiler.record_function.
    Example:
        >>> with gradlib.autograd.profiler.profile() as prof:
        ...     with gradlib.autograd.profiler.record_function("load"):
        ...         _ = gradlib.ones(3).exp()
        >>> [event.name for event in prof.function_events]
        ['load', 'exp']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[tuple[Any, Any]] = []

    def clone(self) -> record_function:
        """A fresh one of the same name; a decorated function enters one at each call."""
        return record_function(self.name, self.args)

    def __enter__(self) -> record_function:
        seen_by = observing()
        self._open.append((seen_by, None if seen_by is None else seen_by.begin(self._text(), None, ())))
        return self

    def __exit__(self, *exc: object) -> None:
        seen_by, mark = self._open.pop()
        if seen_by is not None:
            seen_by.end(mark)

    def _text(self) -> str:
        return self.name if self.args is None else f"{self.name}, {self.args}"
