"""The one door between device arrays and NumPy, which does the arithmetic: what goes in is checked, what comes out lives on the device."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from cupy import _memory, _order

ndarray: Any = None  # the array class, which stands on this module and is put here by it
to_host: Counter[str] = Counter()  # copies from device to host so far, by what made them; each makes the host wait


def supported(dtype: Any) -> np.dtype:
    """A dtype that the device has. Raises: ValueError for objects, strings and times, as CuPy does."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufcV" or dtype.char in "gG" or dtype.hasobject:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def lower(value: Any, seen: list[Any]) -> Any:
    """A device array as the NumPy view of its memory, noted in ``seen``; NumPy arrays are refused, lists and tuples gone through."""
    if isinstance(value, ndarray):
        if value.data.device_id != _order.here.device:
            raise ValueError(f"Array device must be same as the current device: {value.data.device_id} is not {_order.here.device}")
        seen.append(value)
        return value._view
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if type(value) in (list, tuple):
        return type(value)([lower(item, seen) for item in value])
    return value


def raised(value: Any, seen: list[Any]) -> Any:
    """What NumPy returned: a view stays a view of the same memory, everything else gets memory of its own; a scalar becomes 0-d."""
    if isinstance(value, np.ndarray):
        start = value.__array_interface__["data"][0]
        for array in seen if value.base is not None else ():
            memory = array.data.mem
            if memory.ptr <= start < memory.ptr + memory.size:
                return ndarray._of(value, _memory.MemoryPointer(memory, start - memory.ptr), array)
        return fresh(value)
    if isinstance(value, np.generic):
        return fresh(np.asarray(value))
    if isinstance(value, (list, tuple)):
        made = [raised(item, seen) for item in value]
        return tuple(made) if isinstance(value, tuple) else made
    return value


def fresh(values: np.ndarray, order: str = "C") -> Any:
    """A device array in memory of its own that holds these values. Device results are in C order whatever their inputs' order."""
    made = empty(values.shape, values.dtype, order if order in "CF" else "C", like=values if order == "K" else None)
    made._view[...] = values
    note(made, write=True)
    return made


def empty(shape: Any, dtype: Any, order: str = "C", like: np.ndarray | None = None) -> Any:
    """A device array of poison; ``like``: whose memory order to keep."""
    dtype = supported(dtype)
    layout = np.empty(shape, dtype, order) if like is None else np.empty_like(like, dtype, shape=shape)  # type: ignore[call-overload]
    pointer = _memory.alloc(layout.nbytes)
    block = pointer.mem.block
    view = np.ndarray(layout.shape, dtype, block.bytes, block.offset, layout.strides)
    return ndarray._of(view, pointer, None)


def note(array: Any, write: bool, stamp: _order.Stamp | None = None) -> None:
    """A piece of work on the current stream uses an array."""
    stream = _order.current_stream()
    array.data.mem._touch(stream, stream._enqueue() if stamp is None else stamp, write)


def run(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a NumPy function on device arrays, as one piece of work on the current stream; ``out=`` is written."""
    seen: list[Any] = []
    out = options.get("out")
    given = [lower(value, seen) for value in args]
    named = {name: lower(value, seen) for name, value in options.items()}
    stamp = _order.current_stream()._enqueue()
    for array in seen:
        note(array, array is out, stamp)
    with np.errstate(all="ignore"):
        made = function(*given, **named)
    return out if out is not None else raised(made, seen)


def fetch(array: Any, why: str) -> np.ndarray:
    """The values on the host: a copy that the host waits for, and that is counted."""
    to_host[why] += 1
    with array.device:
        note(array, write=False)
        _order.current_stream(array.data.device_id).synchronize()
    return np.array(array._view, order="K")


def lifted(host: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorator of a declaration whose signature is CuPy's: the NumPy function of that name (or ``host``) does the work.

    A call that the declared signature does not take is refused, whatever NumPy's own takes.
    """

    def decorate(declared: Callable[..., Any]) -> Callable[..., Any]:
        function = host or getattr(np, declared.__name__)
        signature = inspect.signature(declared)

        @functools.wraps(declared)
        def call(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            out = bound.arguments.pop("out", None)
            return run(function, *bound.args, **bound.kwargs, **({} if out is None else {"out": out}))

        return call

    return decorate
