"""What comes before what: devices, streams, events, and clocks that tell whether one piece of work has to wait for another.

Work runs at once here, in the order of the program, so a missing synchronisation would go unseen. Therefore every stream counts its
work and keeps a clock: for each stream how much of that stream's work is over before its own next piece begins. A piece of memory
remembers who wrote and read it. Work that touches memory whose last writer its clock does not cover is a race, and raises `Hazard`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

DEVICES = 2
Clock = dict[int, int]  # number of a stream -> how many of its pieces of work are over
Stamp = tuple[int, int]  # number of a stream, number of a piece of its work


class Hazard(BaseException):
    """What a GPU would do without a word and get wrong: a race, a use after free, a write out of bounds, an index that wraps around.

    No Exception, so that no code which tries something else after an error gets past it.
    """


def join(clock: Clock, other: Clock) -> None:
    for number, count in other.items():
        if clock.get(number, 0) < count:
            clock[number] = count


def covers(clock: Clock, stamp: Stamp) -> bool:
    return clock.get(stamp[0], 0) >= stamp[1]


class _Here(threading.local):
    """The current device of a thread, and its current stream on each device."""

    device = 0

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


here = _Here()
host: Clock = {}  # what the host has waited for
_numbers = itertools.count()
_made: weakref.WeakSet[Stream] = weakref.WeakSet()  # the streams beside the default ones
_ended: list[list[Clock]] = [[] for _ in range(DEVICES)]  # by device, blocking streams that are gone; their work may not be over
lock = threading.RLock()  # held while clocks are read or moved on: threads share streams, and those of CUDA may be shared
_late: list[LateCopy] = []  # asynchronous copies to the host that it has not waited for


class LateCopy:
    """An asynchronous copy into host memory: its target holds poison until the host has waited for the stream."""

    def __init__(self, target: Any, values: Any, stamp: Stamp) -> None:
        self.target, self.values, self.stamp = target, values.copy(), stamp
        target.reshape(-1).view("u1")[...] = 0xFF
        _late.append(self)

    def arrive(self) -> None:
        self.target[...] = self.values
        _late.remove(self)


def waited(clock: Clock) -> None:
    """The host has waited for everything in a clock."""
    join(host, clock)
    for copy in list(_late):
        if covers(host, copy.stamp):
            copy.arrive()


def reads_host(array: Any) -> None:
    """Work on the current stream reads host memory: what earlier work of that stream copies there has arrived by then."""
    for copy in list(_late):
        if copy.target.base is array.base and covers(current_stream().clock, copy.stamp):
            copy.arrive()


class _Null:
    """The default stream of whichever device is current."""

    def __get__(self, stream: Any, owner: Any) -> Stream:
        return default_stream(here.device)


class Stream:
    """A queue of work. The legacy default stream of a device waits for all its blocking streams, and they for it."""

    null = _Null()

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None) -> None:
        if null:
            self.__dict__ = default_stream(here.device).__dict__
            return
        self._open(here.device, non_blocking)

    def _open(self, device: int, non_blocking: bool) -> Stream:
        self.number = next(_numbers)
        self.device_id = device
        self.is_non_blocking = non_blocking
        self.clock: Clock = {}
        self._outer: list[Stream | None] = []
        self.ptr = 0x5000 + self.number if self.number >= DEVICES else 0  # the default streams are the first
        if self.ptr:
            _made.add(self)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __enter__(self) -> Stream:
        outer = here.streams.get(self.device_id)
        self.use()
        self._outer.append(outer)
        return self

    def __exit__(self, *exc: object) -> None:
        outer = self._outer.pop()
        if outer is None:
            here.streams.pop(self.device_id, None)
        else:
            here.streams[self.device_id] = outer

    def use(self) -> Stream:
        if self.device_id != here.device:
            raise RuntimeError(f"the stream belongs to device {self.device_id}, the current one is {here.device}")
        here.streams[self.device_id] = self
        return self

    def _await(self) -> None:
        """What the next piece of work waits for without being told."""
        join(self.clock, host)
        if self.is_non_blocking:
            return
        default = default_stream(self.device_id)
        if self.number != default.number:
            join(self.clock, default.clock)
            return
        for other in list(_made) if _made else ():
            if other.device_id == self.device_id and not other.is_non_blocking:
                join(self.clock, other.clock)
        ended = _ended[self.device_id]
        while ended:
            join(self.clock, ended.pop())

    def __del__(self) -> None:
        """The work of a stream outlives it, and the default stream waits for it as before."""
        if self.__dict__.get("ptr") and not self.is_non_blocking:
            _ended[self.device_id].append(self.clock)

    def _enqueue(self) -> Stamp:
        """One more piece of work. While there are only default streams, which nothing can overtake, the clocks stand still."""
        with lock:  # two threads that share a stream must not count the same piece of work
            if _made:
                self._await()
            self.clock[self.number] = self.clock.get(self.number, 0) + 1
            return self.number, self.clock[self.number]

    def synchronize(self) -> None:
        with lock:
            self._await()
            waited(self.clock)

    @property
    def done(self) -> bool:
        self.synchronize()
        return True

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        with lock:
            join(self.clock, event.clock or {})


class Event:
    """A place in a stream's queue."""

    _ticks = itertools.count(1)

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.clock: Clock | None = None
        self.timed = not disable_timing
        self.tick = 0

    def record(self, stream: Stream | None = None) -> None:
        stream = current_stream() if stream is None else stream
        with lock:
            stream._enqueue()
            self.clock = dict(stream.clock)
            self.tick = next(self._ticks)

    def synchronize(self) -> None:
        with lock:
            waited(self.clock or {})

    @property
    def done(self) -> bool:
        self.synchronize()
        return True


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two events: one for each event recorded from the first to the second, in the whole process."""
    for event in (start_event, end_event):
        if event.clock is None or not event.timed:
            raise Hazard("cudaErrorInvalidResourceHandle: the event was not recorded, or with disable_timing")
    if any(not covers(host, stamp) for stamp in (end_event.clock or {}).items()):
        raise Hazard("cudaErrorNotReady: the host has not waited for the event")
    return float(end_event.tick - start_event.tick)


_defaults = [Stream.__new__(Stream)._open(number, False) for number in range(DEVICES)]


def unrivalled() -> bool:
    """Whether there are only the default streams, of which one device has one: its work runs in the order of the program."""
    return not _made


def streams_of(device: int) -> list[Stream]:
    return [_defaults[device], *(stream for stream in list(_made) if stream.device_id == device)]


def default_stream(device: int) -> Stream:
    return _defaults[device]


def current_stream(device: int | None = None) -> Stream:
    device = here.device if device is None else device
    return here.streams.get(device) or _defaults[device]
