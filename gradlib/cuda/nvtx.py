"""torch.cuda.nvtx: ranges and marks that NVIDIA's profilers show. They need no GPU; without a profiler they do nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def range_push(msg: str) -> int:
    """Begin a range on this thread, nested in those that are open.

    Args:
        msg: its name.
    Returns: how many were open before it.
    Source: torch.cuda.nvtx.range_push.
    Example:
        >>> gradlib.cuda.nvtx.range_push("forward"), gradlib.cuda.nvtx.range_pop()
        (0, 0)
    """
    import nvtx

    nvtx.push_range(msg)
    _depth.value += 1
    return _depth.value - 1


def range_pop() -> int:
    """End the innermost range of this thread.

    Returns: how many are open still; a negative number where none was.
    Source: torch.cuda.nvtx.range_pop.
    Example:
        >>> gradlib.cuda.nvtx.range_pop()
        -2
    """
    import nvtx

    if not _depth.value:
        return -2
    nvtx.pop_range()
    _depth.value -= 1
    return _depth.value


def range_start(msg: str) -> Any:
    """Begin a range that may end on another thread and need not nest.

    Args:
        msg: its name.
    Returns: a handle for ``range_end``.
    Source: torch.cuda.nvtx.range_start.
    Example:
        >>> gradlib.cuda.nvtx.range_end(gradlib.cuda.nvtx.range_start("transfer"))
    """
    import nvtx

    return nvtx.start_range(msg)


def range_end(range_id: Any) -> None:
    """End a range.

    Args:
        range_id: what ``range_start`` gave.
    Source: torch.cuda.nvtx.range_end.
    Example:
        >>> gradlib.cuda.nvtx.range_end(gradlib.cuda.nvtx.range_start("transfer"))
    """
    import nvtx

    if range_id is not None:  # where no profiler listens
        nvtx.end_range(range_id)


def mark(msg: str) -> None:
    """Mark a moment.

    Args:
        msg: what happens.
    Source: torch.cuda.nvtx.mark.
    Example:
        >>> gradlib.cuda.nvtx.mark("step 100")
    """
    import nvtx

    nvtx.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, whose work is one range.

    Args:
        msg: its name.
        args, kwargs: what ``msg.format`` puts in.
    Source: torch.cuda.nvtx.range.
    Example:
        >>> with gradlib.cuda.nvtx.range("step {}", 3):
        ...     pass
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
