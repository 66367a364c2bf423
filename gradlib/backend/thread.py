"""Thread-local state that a helper thread takes over when work is nested too deeply for one stack; and locks across a fork."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gradlib.backend.array import cupy, may_leave_host

State = TypeVar("State", bound=threading.local)

_states: list[threading.local] = []
_contexts: list[Callable[[], Any]] = []


def carried(state: State) -> State:
    """Register thread-local state that ``on_fresh_stack`` copies to its thread and back. Returns: the state."""
    _states.append(state)
    return state


def entered_there(context: Callable[[], Any]) -> None:
    """Register a function whose result, a context, the thread of ``on_fresh_stack`` enters, when it has the state of its caller."""
    _contexts.append(context)


def call_users(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's within backward, which may itself call backward.

    When half of the calls that Python allows on one stack are under way it gets a stack of its own, as torch does it.
    """
    return on_fresh_stack(lambda: function(*args)) if _is_deep() else function(*args)


def _is_deep() -> bool:
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:  # there are not so many
        return False
    return True


def on_fresh_stack(work: Callable[[], Any]) -> Any:
    """Run a function on a new thread with this thread's state, devices and streams, and wait for it.

    Returns: what the work returns. Raises: what it raises.
    """
    before = [dict(state.__dict__) for state in _states]
    after, made, failed = list(before), [], []
    places = _places() if may_leave_host() else None
    context = contextvars.copy_context()  # NumPy's treatment of floating-point errors is in there

    def run() -> None:
        _set(before)
        try:
            if places is not None:
                _go_to(*places)
            with contextlib.ExitStack() as entered:
                for each in _contexts:
                    entered.enter_context(each())
                made.append(context.run(work))
        except BaseException as error:
            failed.append(error)
        after[:] = [dict(state.__dict__) for state in _states]

    thread = threading.Thread(target=run, name="gradlib: a deeper stack", daemon=True)
    thread.start()
    thread.join()
    _set(after)
    if failed:
        raise failed.pop()
    return made.pop()


def _set(values: list[dict[str, Any]]) -> None:
    for state, value in zip(_states, values, strict=True):
        state.__dict__.clear()
        state.__dict__.update(value)


def _places() -> tuple[int, list[Any]]:
    """The current device, and the current stream of each."""
    cuda = cupy().cuda
    return cuda.runtime.getDevice(), [cuda.get_current_stream(i) for i in range(cuda.runtime.getDeviceCount())]


def _go_to(device: int, streams: list[Any]) -> None:
    cuda = cupy().cuda
    for index, stream in enumerate(streams):
        with cuda.Device(index):
            stream.use()
    cuda.Device(device).use()


def kept_at_fork(lock: Any) -> Any:
    """Let a fork wait until no other thread holds this lock, so that the child does not inherit it locked. Returns: the lock."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
