"""Page-locked host memory, and memory that is kept until the work of a stream that uses it is over."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, is_cupy, move
from gradlib.backend.capture import capturing
from gradlib.backend.copying import copy

_under_way: deque[tuple[Any, Any]] = deque()  # what devices may still use: an event behind the work, and what must not go before it


def let_go() -> None:
    """Let go of memory with which the devices have finished."""
    while _under_way:
        try:
            first = _under_way.popleft()  # before it is asked: another thread would take the same one
        except IndexError:
            return
        if not first[0].done:
            _under_way.appendleft(first)
            return


def kept_for(array: Array, stream: Any, index: int) -> None:
    """Keep an array's memory, when it is dropped, until a CuPy stream of the device ``index`` has done what it was given until then.

    Of a view it is the memory of its base, which may be used on that stream after the view is gone.
    """
    owner = array if array.base is None else array.base
    weakref.finalize(owner, _let_go_behind, array.data.mem, stream, index).atexit = False


def _let_go_behind(memory: Any, stream: Any, index: int) -> None:
    """Let go of memory when a stream has done what it was given so far."""
    if capturing.capture is not None:  # whose events tell nobody when work is over
        capturing.capture.behind.append(lambda: _let_go_behind(memory, stream, index))
        return
    let_go()
    with cupy().cuda.Device(index):  # an event is of the device that is current where it is made
        _under_way.append((stream.record(), memory))


def pinned_copy(array: Array) -> Array:
    """A copy in page-locked host memory, which the device fills when its stream comes to it; of a host array a plain copy."""
    if not is_cupy(array):
        return copy(array)
    if array.size == 0:
        return move(array, None)
    library = cupy()
    import cupyx

    let_go()
    with array.device:
        host = cupyx.empty_pinned(array.shape, array.dtype)
        ready = array if array.flags.c_contiguous else library.ascontiguousarray(array)  # which would give one dimension to none
        ready.get(out=host, blocking=False)
        # Whoever drops the result does not drop its memory: CuPy would hand that to the next one while the copy is still to come.
        _under_way.append((library.cuda.get_current_stream().record(), host))
    return host


def pinned(array: Array) -> Array:
    """A copy of a host array in page-locked memory."""
    shape, dtype = array.shape, array.dtype
    cupy()
    import cupyx

    host = cupyx.empty_pinned(shape, dtype)
    host[...] = array
    return host


def is_pinned(array: Array) -> bool:
    """Whether an array lies in page-locked memory that CuPy gave out."""
    module, base = sys.modules.get("cupy"), array
    while module is not None and isinstance(base, np.ndarray):
        base = base.base
        if isinstance(base, module.cuda.PinnedMemoryPointer):
            return True
    return False


def from_pinned(host: Array, index: int | None) -> Array:
    """A copy of ``pinned_copy``'s result on the CUDA device ``index`` (None: the host), made when its stream comes to it."""
    if index is None or host.size == 0:
        return move(host, index)
    library = cupy()
    with library.cuda.Device(index):
        return library.asarray(host)  # CuPy keeps host until the copy is over, which it does not in `set`
