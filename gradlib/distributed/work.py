"""Handles of operations between ranks that may not be over yet, and the thread that carries them out in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import timedelta

from gradlib.core.tensor import Tensor


class Work:
    """A handle to an operation in the background, as ``async_op=True`` returns it. Its tensors must not be touched before ``wait``.

    Args:
        tensors: what it writes.
    Source: torch.distributed.Work.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized():
        ...     work = dist.all_reduce(gradlib.ones(3), async_op=True)
        ...     work.wait()
    """

    def __init__(self, tensors: list[Tensor] | None = None) -> None:
        self._tensors = [] if tensors is None else tensors
        self._over = threading.Event()
        self._error: BaseException | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is over; on a GPU, let the current stream wait.

        Args:
            timeout: how long; None for as long as the group allows.
        Returns: True.
        Raises: what the operation raised; RuntimeError when the time is over.
        Source: torch.distributed.Work.wait.
        """
        if not self._over.wait(None if timeout is None else timeout.total_seconds()):
            raise RuntimeError(f"Work.wait: the operation was not over after {timeout}; wait longer, or look for a rank that is missing")
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it is over, with or without success."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Whether it is over and did what it should."""
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """The exception that it raised, or None."""
        return self._error

    def result(self) -> list[Tensor]:
        """The tensors that it wrote, once it is over."""
        self.wait()
        return self._tensors

    def source_rank(self) -> int:
        """The rank that a received tensor came from. Raises: RuntimeError for what receives none."""
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")

    def run(self, body: Callable[[], None]) -> None:
        """Carry it out now. For gradlib's own code."""
        try:
            body()
        except BaseException as error:
            self._error = error
        self._over.set()


class Worker:
    """A thread that carries out operations in the order in which they were given. It starts with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Work, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Work | None = None

    def is_idle(self) -> bool:
        """Whether all that it was given is over."""
        return self._last is None or self._last.is_completed()

    def give(self, work: Work, body: Callable[[], None]) -> None:
        """Put an operation behind the others."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._last = work
        self._jobs.put((work, body))

    def stop(self) -> None:
        """Let the thread end once all is over, and wait for that."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, body = job
            work.run(body)
