"""torch.cuda's streams and events, which wrap CuPy's: gradlib and CuPy always have the same current stream."""

from __future__ import annotations

import threading
from ctypes import c_void_p
from typing import Any, NamedTuple

from gradlib.backend.array import cupy
from gradlib.backend.capture import capturing
from gradlib.backend.device import device as Device
from gradlib.core.streams import default_stream as usual_stream
from gradlib.cuda.devices import current_device, index_of, index_or_current, is_initialized
from gradlib.cuda.driver import OfDriver


class _Entered(threading.local):
    """The contexts of the streams that the calling thread has entered, the innermost last."""

    def __init__(self) -> None:
        self.contexts: list[stream] = []


_entered = _Entered()


class Stream(OfDriver):
    """A queue of work on one device. Work on different streams may run at the same time.

    Args:
        device: a number, a name or a device; None or a negative number for the current one.
        priority: lower numbers go first; the driver knows a few below 0 and takes the nearest.
    Attributes:
        cuda_stream: the driver's handle.
        priority: the one that the driver took.
    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.Stream.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     side = gradlib.cuda.Stream()
        ...     side.wait_stream(gradlib.cuda.current_stream())
        ...     with gradlib.cuda.stream(side):
        ...         x = gradlib.ones(3, device="cuda")
        ...     gradlib.cuda.current_stream().wait_stream(side)
        ...     x.record_stream(gradlib.cuda.current_stream())
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        if not isinstance(priority, int):
            raise TypeError(f"priority is an int, got {type(priority).__name__}")
        self.device_index = index_or_current(device)
        with cupy().cuda.Device(self.device_index):
            self.cupy_stream = cupy().cuda.Stream(non_blocking=True, priority=priority)

    @classmethod
    def around(cls, stream: Any, index: int) -> Stream:
        """The Stream that wraps one of CuPy's."""
        made: Stream = object.__new__(Stream)
        made.device_index, made.cupy_stream = index, stream
        return made

    @property
    def device(self) -> Device:
        """The device that runs it."""
        return Device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self.cupy_stream.ptr)

    @property
    def stream_id(self) -> int:
        """A number that is different for each stream of a device."""
        return self.cuda_stream

    @property
    def priority(self) -> int:
        """The priority that the driver gave it."""
        with self._there():
            return int(self.cupy_stream.priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority of the current device's streams: 0 and a negative number. Torch stops at -3."""
        least, greatest = (Stream(priority=beyond).priority for beyond in (1 << 30, -1 << 30))  # the driver takes the nearest
        return least, greatest

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    @property
    def _as_parameter_(self) -> Any:
        """What ctypes passes to a function of C."""
        return c_void_p(self.cuda_stream)

    def _there(self) -> Any:
        """A context in which its device is current: all devices' default streams have the same handle."""
        return cupy().cuda.Device(self.device_index)

    def query(self) -> bool:
        """Whether all its work has been done.

        Raises: RuntimeError within the capture of a graph, which the question would break, and for a fault on the device.
        """
        _refuse_in_capture()
        with self._there():
            return is_done(cupy().cuda.runtime.streamQuery(self.cuda_stream))

    def synchronize(self) -> None:
        """Wait, on the host, for all its work."""
        with self._there():
            self.cupy_stream.synchronize()

    def wait_event(self, event: Any) -> None:
        """Make work that is given to this stream from now on wait for an event, gradlib's or one of CuPy or torch."""
        if handle := _event_handle(event):
            with self._there():
                cupy().cuda.runtime.streamWaitEvent(self.cuda_stream, handle)

    def wait_stream(self, stream: Any) -> None:
        """Make work that is given to this stream from now on wait for all that another stream was given so far, on any device."""
        other = as_stream(stream)
        if other != self:
            self.wait_event(other.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work that the stream was given so far. Returns: the event, a new one if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        context = stream(self)
        context.__enter__()
        _entered.contexts.append(context)
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.contexts.pop().__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (self.cuda_stream, self.device_index) == (other.cuda_stream, other.device_index)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<gradlib.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made and will destroy.

    Args:
        stream_ptr: the driver's handle, or an object with ``__cuda_stream__`` (of torch, numba, cuda.core), which is kept alive.
        device: where it was made; None for the current one.
    Raises: RuntimeError that says what is missing; TypeError for anything but a stream.
    Source: torch.cuda.ExternalStream.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     side = gradlib.cuda.Stream()
        ...     assert gradlib.cuda.ExternalStream(side.cuda_stream) == side
    """

    def __init__(self, stream_ptr: Any, device: Any = None) -> None:
        self.device_index = index_or_current(device)
        with self._there():
            self.cupy_stream = cupy().cuda.Stream.from_external(_Handle(_handle(stream_ptr), stream_ptr))


class _Handle(NamedTuple):
    """A handle with the method ``__cuda_stream__`` that CuPy asks for; CuPy holds it, and so keeps the stream's owner alive."""

    handle: int
    owner: Any

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _handle(stream: Any) -> int:
    """The driver's handle from an integer, or from an object with ``__cuda_stream__``."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise TypeError(f"a stream is a gradlib.cuda.Stream, one of CuPy or an object with __cuda_stream__, got {type(stream).__name__}")
    version, handle = protocol() if callable(protocol) else protocol
    if version != 0:
        raise TypeError(f"{type(stream).__name__}.__cuda_stream__ speaks version {version} of the protocol; 0 is known here")
    return int(handle)


def as_stream(stream: Any) -> Stream:
    """A stream of any library as a Stream. Raises: TypeError for anything but a stream."""
    if isinstance(stream, Stream):
        return stream
    if isinstance(stream, int):
        raise TypeError(
            f"a stream is a gradlib.cuda.Stream, or another library's, got int {stream}; ExternalStream({stream}) is that of a handle"
        )
    index = getattr(stream, "device_id", None)  # CuPy's
    if index is None:
        place = getattr(stream, "device", None)
        index = getattr(place, "index", None)
    index = current_device() if not isinstance(index, int) or index < 0 else index
    ours = isinstance(stream, (cupy().cuda.Stream, cupy().cuda.ExternalStream))
    return Stream.around(stream, index) if ours else ExternalStream(stream, index)


def _refuse_in_capture() -> None:
    if capturing.capture is not None:
        raise RuntimeError("cudaErrorStreamCaptureUnsupported: whether work is done is not to be asked while this thread captures a graph")


_NOT_READY = 600  # cudaErrorNotReady


def is_done(status: int) -> bool:
    """What the driver's answer to a query means. CuPy's ``done`` takes errors for "not yet": who asks in a loop would ask for ever."""
    if status not in (0, _NOT_READY):
        raise cupy().cuda.runtime.CUDARuntimeError(status)
    return status == 0


def _event_handle(event: Any) -> int:
    """The driver's handle of an event, of torch's or CuPy's too; 0 before it is recorded. Raises: TypeError for what is no event."""
    handle = getattr(event, "cuda_event", None)  # torch's name for it, and CuPy's
    handle = getattr(event, "ptr", None) if handle is None else handle
    if not isinstance(handle, int):
        raise TypeError(f"an event is a gradlib.cuda.Event, or one of CuPy or torch, got {type(event).__name__}")
    return handle


class Event(OfDriver):
    """A point in a stream's work, for which other streams or the host can wait; two events measure the time between them.

    Args:
        enable_timing: whether ``elapsed_time`` will be called.
        blocking: whether the host sleeps while it waits, instead of spinning.
        interprocess, external: not supported; within a captured graph an event orders its streams.
    Raises: RuntimeError for interprocess and external, and where something is missing.
    Source: torch.cuda.Event.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     begin, end = (gradlib.cuda.Event(enable_timing=True) for _ in range(2))
        ...     begin.record()
        ...     x = gradlib.ones(1000, device="cuda").sum()
        ...     end.record()
        ...     end.synchronize()
        ...     milliseconds = begin.elapsed_time(end)
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> None:
        if interprocess:
            raise RuntimeError("gradlib.cuda.Event: events are not shared between processes; leave interprocess out")
        if external:
            raise RuntimeError("gradlib.cuda.Event: a captured graph records and awaits no events of others; leave external out")
        index_of(None)
        self._timing, self._blocking = enable_timing, blocking
        self.cupy_event: Any = None  # made where it is first recorded
        self.device_index = -1

    @property
    def device(self) -> Device | None:
        """The device on which it was recorded first."""
        return None if self.device_index < 0 else Device("cuda", self.device_index)

    @property
    def cuda_event(self) -> int:
        """The driver's handle, 0 before it is recorded."""
        return 0 if self.cupy_event is None else int(self.cupy_event.ptr)

    @property
    def _as_parameter_(self) -> Any:
        """What ctypes passes to a function of C."""
        return c_void_p(self.cuda_event)

    def record(self, stream: Any = None) -> None:
        """Record the event after the work that a stream (None: the current one) has. Raises: RuntimeError on another device than before."""
        chosen = current_stream() if stream is None else as_stream(stream)
        if self.cupy_event is not None and chosen.device_index != self.device_index:
            raise RuntimeError(
                f"Event device {self.device_index} does not match recording stream's device {chosen.device_index}: make an event for each"
            )
        with cupy().cuda.Device(chosen.device_index):
            if self.cupy_event is None:
                self.cupy_event = cupy().cuda.Event(block=self._blocking, disable_timing=not self._timing)
                self.device_index = chosen.device_index
            self.cupy_event.record(chosen.cupy_stream)

    def wait(self, stream: Any = None) -> None:
        """Make later work of a stream (None: the current one) wait for the event; no effect before it is recorded."""
        (current_stream() if stream is None else as_stream(stream)).wait_event(self)

    def query(self) -> bool:
        """Whether the work before it has been done.

        Raises: RuntimeError within the capture of a graph, which the question would break; for an event that was last recorded in one,
            and for a fault on the device.
        """
        _refuse_in_capture()
        return self.cupy_event is None or is_done(cupy().cuda.runtime.eventQuery(self.cuda_event))

    def synchronize(self) -> None:
        """Wait, on the host, for the work before it."""
        if self.cupy_event is not None:
            self.cupy_event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another. Raises: ValueError or RuntimeError where that is not known."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.cupy_event is None or end_event.cupy_event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time: call synchronize() of the later one.")
        return float(cupy().cuda.get_elapsed_time(self.cupy_event, end_event.cupy_event))

    def __repr__(self) -> str:
        return f"<gradlib.cuda.Event {self.cuda_event:#x}>" if self.cupy_event is not None else "<gradlib.cuda.Event uninitialized>"


class stream:
    """A context in which a stream is the current one of its device, and its device the current one.

    Args:
        stream: a Stream, one of CuPy or an object with ``__cuda_stream__``; None changes nothing.
    Raises: TypeError for anything but a stream.
    Source: torch.cuda.stream.
    Example:
        >>> with gradlib.cuda.stream(None):
        ...     pass
    """

    def __init__(self, stream: Any) -> None:
        self.stream = None if stream is None else as_stream(stream)
        self._left: list[tuple[int, Any]] = []

    def __enter__(self) -> None:
        if self.stream is None:
            return
        cuda, index = cupy().cuda, self.stream.device_index
        left = cuda.runtime.getDevice(), cuda.get_current_stream(index)
        cuda.runtime.setDevice(index)
        self.stream.cupy_stream.use()
        self._left.append(left)

    def __exit__(self, *exc: object) -> None:
        if self.stream is None:
            return
        runtime, (device, before) = cupy().cuda.runtime, self._left.pop()
        runtime.setDevice(self.stream.device_index)
        before.use()
        runtime.setDevice(device)


StreamContext = stream
"""torch's name for the class of ``stream(...)``."""


def current_stream(device: Any = None) -> Stream:
    """The stream to which work on a device goes.

    Args:
        device: a number, a name or a device; None or a negative number for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.current_stream.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     assert gradlib.cuda.current_stream() == gradlib.cuda.default_stream()
    """
    index = index_or_current(device)
    return Stream.around(cupy().cuda.get_current_stream(index), index)


def default_stream(device: Any = None) -> Stream:
    """The stream to which work on a device goes when none was chosen.

    Args:
        device: a number, a name or a device; None or a negative number for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.default_stream.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     assert gradlib.cuda.default_stream().query() in (True, False)
    """
    return Stream.around(usual_stream(), index_or_current(device))


def set_stream(stream: Any) -> None:
    """Make a stream the current one, and its device. ``with gradlib.cuda.stream(s):`` undoes it and is to be preferred.

    Args:
        stream: as for ``stream``; None changes nothing.
    Raises: TypeError for anything but a stream.
    Source: torch.cuda.set_stream.
    Example:
        >>> gradlib.cuda.set_stream(None)
    """
    if stream is None:
        return
    chosen = as_stream(stream)
    cupy().cuda.runtime.setDevice(chosen.device_index)
    chosen.cupy_stream.use()


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library made, by the driver's handle.

    Args:
        data_ptr: the handle.
        device: where it was made; None for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_stream_from_external.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     side = gradlib.cuda.Stream()
        ...     assert gradlib.cuda.get_stream_from_external(side.cuda_stream) == side
    """
    return ExternalStream(data_ptr, device)


def is_current_stream_capturing() -> bool:
    """Whether the current stream records a graph; False without a GPU.

    Source: torch.cuda.is_current_stream_capturing.
    Example:
        >>> gradlib.cuda.is_current_stream_capturing()
        False
    """
    if not is_initialized():
        return False
    try:
        return bool(cupy().cuda.get_current_stream().is_capturing())
    except RuntimeError as error:
        if "invalidated" in str(error):  # CuPy raises for a capture that an error has broken, and which goes on until it ends
            return True
        raise
