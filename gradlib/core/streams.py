"""Backward on the CUDA streams of the forward, as in torch.

A node remembers the stream it was made on, where that is not the default one, and backward runs it there. When a walk goes over from one
stream to another, the other one first waits for what the first was given: whatever the streams, the walk's work is done in the walk's
order. (torch lets branches on different streams overlap. CuPy's memory pool gives what was freed on a stream to that stream's next
request, also while another one still reads it, so here they may not.) Whoever called backward goes on behind all of it.
Source: "Stream semantics of backward passes" in torch's notes on CUDA.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, may_leave_host, on_device_of
from gradlib.backend.thread import carried
from gradlib.core.node import Node

_DEFAULTS = 2  # the handles 0, 1 and 2 are CUDA's own default streams, which have no owner


@cache
def per_thread() -> bool:
    """Whether each thread has a default stream of its own: one handle for streams that do not wait for one another. Read once."""
    return os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0"


def default_stream() -> Any:
    """The stream on which CuPy queues work when none was chosen; of the current device, whichever that is."""
    streams = cupy().cuda.Stream
    return streams.ptds if per_thread() else streams.null


def keep_stream(node: Node, device: int | None) -> None:
    """Let a node that is being made remember the stream on which its forward runs, the current one of its output's device."""
    if device is not None:
        stream = sys.modules["cupy"].cuda.get_current_stream(device)
        if stream.ptr > _DEFAULTS:
            node.meta.stream = stream


class _Walking(threading.local):
    trail: Trail | None = None


_walking = carried(_Walking())


class Trail:
    """The context of one backward walk: where it starts, its streams, and the way back."""

    def __init__(self, start: Array) -> None:
        self._device = on_device_of(start)
        self._left: dict[int, list[Any]] = {}  # by device, the streams that the walk went away from; the caller's comes first
        self._entered: list[tuple[int, Any]] = []  # where it went, in order

    def __enter__(self) -> None:
        self._device.__enter__()
        self._outer, _walking.trail = _walking.trail, self
        if per_thread():  # the forward's work may be another thread's, and no event tells of it
            cupy().cuda.runtime.deviceSynchronize()

    def __exit__(self, *exc: Any) -> None:
        _walking.trail = self._outer
        try:
            for device, left in self._left.items():
                with cupy().cuda.Device(device):
                    self._join(left)
            for device, stream in reversed(self._entered):
                with cupy().cuda.Device(device):
                    stream.__exit__(*exc)
            for device, left in self._left.items():
                with cupy().cuda.Device(device):
                    if cupy().cuda.get_current_stream().ptr != left[0].ptr:  # which was chosen by use(), and so is on no stack
                        left[0].use()
        finally:
            self._device.__exit__(*exc)

    def go_to(self, stream: Any) -> None:
        """Make a stream of the current device the current one, behind what was queued so far.

        It is entered, not just used: a rule that itself enters a stream and leaves it comes back to what was entered before.
        """
        here, device = cupy().cuda.get_current_stream(), _current_device()
        _wait(stream, here)
        self._left.setdefault(device, []).append(here)
        stream.__enter__()
        self._entered.append((device, stream))

    @staticmethod
    def _join(left: list[Any]) -> None:
        """The caller's stream goes on behind the walk; the others too, as what they allocated may have been freed while it was in use."""
        caller, last = left[0], cupy().cuda.get_current_stream()
        _wait(caller, last)
        for stream in {each.ptr: each for each in left if each.ptr not in (caller.ptr, last.ptr)}.values():
            _wait(stream, last)


def _wait(later: Any, earlier: Any) -> None:
    """Later work of one stream waits for the earlier work of the other."""
    if later.ptr != earlier.ptr:
        later.wait_event(earlier.record(cupy().cuda.Event(disable_timing=True)))


def around_walk(start: Array) -> Any:
    """The context of a walk that starts at this array: within it the array's device is current, and nodes run on their streams."""
    return Trail(start) if may_leave_host() else on_device_of(start)


def follow(node: Node, g: Array) -> None:
    """Before a node runs in backward on the device of g, the current one: go to the stream of its forward, if that is another one."""
    if isinstance(g, (np.ndarray, np.generic)):
        return
    stream = None if node._meta is None else node._meta.stream
    here = cupy().cuda.get_current_stream().ptr
    if stream is None:
        if here > _DEFAULTS:
            _walking.trail.go_to(default_stream())  # type: ignore[union-attr]
    elif stream.ptr != here and stream.device_id in (_current_device(), -1):
        _walking.trail.go_to(stream)  # type: ignore[union-attr]


@cache
def _usual() -> tuple[Any, Any, Any]:
    """What gives the current device and the current stream, and the default stream."""
    library = cupy().cuda
    return library.runtime.getDevice, library.get_current_stream, default_stream()


def run_there(node: Node, g: Any, array: Array) -> Any:
    """Run a node in backward on the device of its gradient, a CuPy array or a list with one, and on the stream of its forward."""
    current_device, current_stream, usual = _usual()
    if array.data.device_id == current_device() and current_stream() is usual and (node._meta is None or node._meta.stream is None):
        return node.run_on_device(g)
    with on_device_of(array):
        follow(node, array)
        return node.run_on_device(g)


def _current_device() -> int:
    return int(cupy().cuda.runtime.getDevice())
