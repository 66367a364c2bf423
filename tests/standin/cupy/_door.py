"""The one door between device arrays and NumPy, which does the arithmetic: what goes in is checked, what comes out lives on the device."""

from __future__ import annotations

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from cupy import _memory, _order

ndarray: Any = None  # the array class, which stands on this module and is put here by it
to_host: Counter[str] = Counter()  # copies from device to host so far, by what made them; each makes the host wait
to_device: Counter[str] = Counter()  # copies from host to device so far, each of which a captured graph would repeat from where it lay


@functools.cache
def supported(dtype: Any) -> np.dtype:
    """A dtype that the device has. Raises: ValueError for objects, strings and times, as CuPy does."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufcV" or dtype.char in "gG" or dtype.hasobject:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def lower(value: Any, seen: list[Any]) -> Any:
    """A device array as the NumPy view of its memory, noted in ``seen``; NumPy arrays are refused, lists and tuples gone through."""
    if isinstance(value, ndarray):
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
            if memory.ptr <= start < memory.ptr + memory.size or (start == memory.ptr and value.size == 0):
                return ndarray._of(_writeable(value, memory), _memory.MemoryPointer(memory, start - memory.ptr), array)
        return fresh(value)
    if isinstance(value, np.generic):
        return fresh(np.asarray(value))
    if isinstance(value, (list, tuple)):
        made = [raised(item, seen) for item in value]
        return tuple(made) if isinstance(value, tuple) else made
    return value


def _writeable(view: np.ndarray, memory: _memory.Memory) -> np.ndarray:
    """The same view without NumPy's mark that some functions' results are only to be read, which CuPy does not have."""
    if view.flags.writeable:
        return view
    start = view.__array_interface__["data"][0] - memory.block.bytes.__array_interface__["data"][0]
    return np.ndarray(view.shape, view.dtype, memory.block.bytes, start, view.strides)


def fresh(values: np.ndarray, order: str = "C") -> Any:
    """A device array in memory of its own that holds these values. Device results are in C order whatever their inputs' order."""
    made = empty(values.shape, values.dtype, order if order in "CF" else "C", like=values if order == "K" else None)
    made._view[...] = values
    made.data.mem.write = _order.current_stream()._enqueue()
    return made


def empty(shape: Any, dtype: Any, order: str = "C", like: np.ndarray | None = None) -> Any:
    """A device array of poison; ``like``: whose memory order to keep."""
    dtype = supported(dtype)
    strides = None if like is None else np.empty_like(like, dtype, shape=shape).strides
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(n < 0 for n in shape):
        raise ValueError("Negative dimensions are not allowed")
    pointer = _memory.alloc(math.prod(shape) * dtype.itemsize)
    block = pointer.mem.block
    view = np.ndarray(shape, dtype, block.bytes, block.offset, strides, order)  # type: ignore[arg-type]
    return ndarray._of(view, pointer, None)


def note(array: Any, write: bool, stamp: _order.Stamp | None = None) -> None:
    """A piece of work on the current stream uses an array."""
    if array.data.device_id != _order.here.device:
        raise ValueError(f"Array device must be same as the current device: {array.data.device_id} is not {_order.here.device}")
    stream = _order.current_stream()
    array.data.mem._touch(stream, stream._enqueue() if stamp is None else stamp, write)


def written(view: np.ndarray) -> None:
    """Elements of device memory are written. Raises: Hazard where some of them are one place, of which any of the values is left."""
    if view.size > 1 and any(step == 0 and size > 1 for step, size in zip(view.strides, view.shape, strict=True)):
        raise _order.Hazard(f"elements that share memory are written: shape {view.shape}, strides {view.strides}")


def run(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a NumPy function on device arrays, as one piece of work on the current stream; ``out=`` is written. A view is no work."""
    seen: list[Any] = []
    out = options.get("out")
    given = [lower(value, seen) for value in args]
    named = {name: lower(value, seen) for name, value in options.items()}
    stamp = _order.current_stream()._enqueue()
    if out is not None:
        _use(seen, out, stamp)
    with np.errstate(all="ignore"):
        made = function(*given, **named)
    if out is not None:
        return out
    result = raised(made, seen)
    if not _are_views(result, seen):
        _use(seen, None, stamp)
    return result


def _use(arrays: list[Any], out: Any, stamp: _order.Stamp) -> None:
    for array in arrays:
        note(array, array is out, stamp)


def _are_views(made: Any, seen: list[Any]) -> bool:
    """Whether all that a function made lies in the memory of what it was given."""
    several = made if isinstance(made, (list, tuple)) else [made]
    return all(isinstance(each, ndarray) and any(each.data.mem is array.data.mem for array in seen) for each in several)


def fetch(array: Any, why: str) -> np.ndarray:
    """The values on the host: a copy that the host waits for, and that is counted."""
    to_host[why] += 1
    with array.device:
        note(array, write=False)
        _order.current_stream(array.data.device_id).synchronize()
    return np.array(array._view, order="K")


def _order_of(signature: inspect.Signature, number: int, names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
    """Of a call with so many positional arguments and these keywords: which of them NumPy gets by position, and which by name."""
    bound = signature.bind(*range(number), **{name: number + k for k, name in enumerate(names)})
    out = bound.arguments.pop("out", None)
    return bound.args, (*bound.kwargs.items(), *([] if out is None else [("out", out)]))


def lifted(host: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorator of a declaration whose signature is CuPy's: the NumPy function of that name (or ``host``) does the work.

    A call that the declared signature does not take is refused, whatever NumPy's own takes.
    """

    def decorate(declared: Callable[..., Any]) -> Callable[..., Any]:
        function = host or getattr(np, declared.__name__)
        bind = functools.cache(lambda number, names: _order_of(signature, number, names))
        signature = inspect.signature(declared)

        @functools.wraps(declared)
        def call(*args: Any, **options: Any) -> Any:
            places, keywords = bind(len(args), tuple(options))
            given = (*args, *options.values())
            named = {name: given[place] for name, place in keywords if name != "out" or given[place] is not None}
            return run(function, *[given[place] for place in places], **named)

        return call

    return decorate
