"""Switches of recording under the names of torch's module. Source: torch.autograd.grad_mode."""

from __future__ import annotations

import threading

from gradlib.backend.thread import carried
from gradlib.core.grad_mode import ContextDecorator, enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class _State(threading.local):
    enabled = True


_state = carried(_State())


class set_multithreading_enabled(ContextDecorator):
    """Say whether backward may use other threads; here it runs on the calling thread either way, so results and speed do not change.

    For programs that state it: the setting takes effect at once, and as a context manager is put back on leaving.

    Args:
        mode: the setting.
    Source: torch.autograd.grad_mode.set_multithreading_enabled.
    Example:
        >>> with gradlib.autograd.set_multithreading_enabled(False):
        ...     print(gradlib.autograd.is_multithreading_enabled())
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before = _state.enabled
        _state.enabled = mode

    def clone(self) -> set_multithreading_enabled:
        """A fresh one of the same setting; a decorated function enters one at each call."""
        return set_multithreading_enabled(self.mode)

    def __enter__(self) -> None:
        _state.enabled = self.mode

    def __exit__(self, *exc: object) -> None:
        _state.enabled = self.before


def is_multithreading_enabled() -> bool:
    """Whether backward may use other threads, as ``set_multithreading_enabled`` last said on this thread; it uses none.

    Source: torch.autograd.grad_mode.is_multithreading_enabled.
    Example:
        >>> gradlib.autograd.is_multithreading_enabled()
        True
    """
    return _state.enabled
