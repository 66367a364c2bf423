"""Arrays of either library: which namespace one belongs to, where it lives, how it moves.

Everything above this package writes ``xp = namespace(array)`` and then only ``xp.something``. CuPy is imported by the first use of a
CUDA device and never before.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray; neither library offers a type that covers both
Namespace = Any  # the module numpy or cupy


def _keep_freed_memory() -> None:
    """Let glibc keep what is freed, which it otherwise gives back to the system and has to ask for, page by page, at the next operation.

    How much it keeps follows from the largest block that was freed so far, up to this size: then 64 MiB. Other allocators do not mind.
    """
    np.empty((32 << 20) - (1 << 16), np.uint8)


_keep_freed_memory()


def cupy() -> Namespace:
    """The CuPy module, imported on first use. Raises: RuntimeError that says what to install when it is missing."""
    try:
        import cupy as module
    except ImportError as error:
        raise RuntimeError(
            "a CUDA device needs CuPy, which is not installed here. "
            "Install it with: pip install 'cupy-cuda12x[ctk]' (CUDA 12) or pip install 'cupy-cuda13x[ctk]' (CUDA 13)."
        ) from error
    return module


def is_cupy(value: object) -> bool:
    """Whether value is a CuPy array. A machine that never imported CuPy cannot hold one, so this imports nothing."""
    module = sys.modules.get("cupy")
    return module is not None and isinstance(value, module.ndarray)


def is_array(value: object) -> bool:
    """Whether value is an array of either library (not a scalar, not a Tensor)."""
    return isinstance(value, np.ndarray) or is_cupy(value)


def device_array() -> Any:
    """The class of CuPy's arrays; None on a machine that never imported CuPy, where there are none."""
    module = sys.modules.get("cupy")
    return None if module is None else module.ndarray


def may_leave_host() -> bool:
    """Whether some array of this program may lie elsewhere than on the host; without CuPy none can."""
    return "cupy" in sys.modules


def namespace(value: object) -> Namespace:
    """The module whose functions take this array. Raises: TypeError for anything but an array."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np
    if is_cupy(value):
        return sys.modules["cupy"]
    raise TypeError(f"expected a Tensor, a NumPy array or a CuPy array, got {type(value).__name__}")


def device_index(array: Array) -> int | None:
    """The CUDA device number that holds the array, or None for host memory."""
    return None if isinstance(array, (np.ndarray, np.generic)) else int(array.data.device_id)


def on_device_of(array: Array) -> Any:
    """A context in which CuPy allocates and launches on the array's own device; free for host arrays."""
    if isinstance(array, (np.ndarray, np.generic)) or array.data.device_id == sys.modules["cupy"].cuda.runtime.getDevice():
        return _HERE
    return array.device


_HERE = contextlib.nullcontext()


def on_current_device(array: Array) -> bool:
    """Whether a CuPy array lies on the current device."""
    return bool(array.data.device_id == sys.modules["cupy"].cuda.runtime.getDevice())


def on_one_device(one: Any, other: Any) -> bool:
    """Whether both are CuPy arrays, and lie on the same device."""
    made = device_array()
    return type(one) is type(other) is made and one.data.device_id == other.data.device_id


def move(array: Array, index: int | None) -> Array:
    """The array on the CUDA device ``index`` (None: the host). The same object when it is there already."""
    on_host = isinstance(array, (np.ndarray, np.generic))
    if (None if on_host else array.data.device_id) == index:
        return array
    library = sys.modules.get("cupy") or cupy()
    if index is None:
        return library.asnumpy(array)
    if not on_host:
        return _between(library, array, index)
    with library.cuda.Device(index):
        if array.ndim == 0 and is_signed_zero(array):
            return library.asarray(array.reshape(1)).reshape(())
        return library.asarray(array)


def _between(library: Namespace, array: Array, index: int) -> Array:
    """A copy of a CuPy array on another device, behind what the current stream of the one was given and before what comes on the other.

    The device of the source goes on behind the copy too, as it may use the source's memory again. torch does the same.
    """
    with array.device:
        if not (array.flags.c_contiguous or array.flags.f_contiguous):  # CuPy copies whole blocks only
            array = library.ascontiguousarray(array)
        source = library.cuda.get_current_stream()
        made = source.record(library.cuda.Event(disable_timing=True))
    with library.cuda.Device(index):
        target = library.cuda.get_current_stream()
        target.wait_event(made)
        moved = library.asarray(array)
        copied = target.record(library.cuda.Event(disable_timing=True))
    with array.device:
        source.wait_event(copied)
    return moved


def constant(table: Callable[..., np.ndarray], *args: Any, dtype: Any, index: int | None) -> Array:
    """The array that a function returns for these arguments, on the CUDA device ``index`` or the host (None), kept for good.

    It goes to a device once, and is there for every stream: later calls queue no copy, also in a captured graph.
    """
    return table(*args).astype(dtype, copy=False) if index is None else _constant(table, args, np.dtype(dtype), index)


@functools.cache
def _constant(table: Callable[..., np.ndarray], args: tuple[Any, ...], dtype: np.dtype, index: int) -> Array:
    return there_for_all(table(*args).astype(dtype), index)


def there_for_all(array: np.ndarray, index: int | None) -> Array:
    """A host array on the CUDA device ``index`` (None: the host), for who keeps it: the host waits for the copy, so no stream has to."""
    if index is None:
        return array
    library = cupy()
    with library.cuda.Device(index):
        return library.asarray(array, blocking=True)


@functools.lru_cache(maxsize=256)
def zero_d(number: float, dtype: np.dtype) -> np.ndarray:
    """A number as a 0-d array of NumPy's, kept for good: as an operand it saves NumPy half the time that a small operation takes.

    Args:
        number: not -0.0, which is equal to the 0.0 that may be kept already.
    """
    made = np.array(number, dtype)
    made.flags.writeable = False
    return made


def has_nan(array: Any) -> bool:
    """Whether a NumPy array or scalar of real numbers holds NaN, which counts as its largest element."""
    if not array.ndim:
        return bool(array != array)
    return bool(array.size) and (found := array.item(array.argmax())) != found


def all_true(mask: np.ndarray) -> bool:
    """Whether all elements of an array of bools are True; of a small one by its bytes: NumPy's reduction takes ten times as long."""
    return b"\0" not in mask.tobytes() if mask.size <= SMALL else bool(mask.all())


def all_finite(array: np.ndarray) -> bool:
    """Whether an array of NumPy's holds neither infinity nor NaN."""
    if array.size <= SMALL:
        return all_true(np.isfinite(array))
    if array.dtype.kind == "c":
        return bool(np.isfinite(array).all())
    if array.size < _MANY:
        return math.isfinite(array.item(array.argmax())) and math.isfinite(array.item(array.argmin()))  # of which NaN would be either
    if array.flags.c_contiguous:
        line = array.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(line.dot(line)):  # it may be infinite too where all are finite
                return True
    return bool(np.isfinite(array).all())


_MANY = 1 << 15  # elements, of which two searches take longer than the sum of their squares
SMALL = 2048
"""The most elements for which a call costs more than what it computes: there NumPy's shorter ways are worth a question."""


def is_signed_zero(value: Any) -> bool:
    """Whether a number of the host is -0.0, which CuPy takes for 0.0 where it fills: it clears the memory."""
    return not is_cupy(value) and getattr(value, "ndim", 0) == 0 and not value and any(np.asarray(value).tobytes())


def zeros(shape: tuple[int, ...], dtype: np.dtype, index: int | None) -> Array:
    """Zeros on the CUDA device ``index``, or on the host (None)."""
    if index is None:
        return np.zeros(shape, dtype)
    library = cupy()
    with library.cuda.Device(index):
        return library.zeros(shape, dtype)


def zeros_like(array: Array) -> Array:
    """Zeros of the array's shape and dtype, on its device."""
    with on_device_of(array):
        return namespace(array).zeros_like(array)


def is_view_of(result: Array, source: Array) -> bool:
    """Whether a NumPy or CuPy function that may return a view or a copy of source returned a view."""
    if result is source:
        return True
    if isinstance(result, np.ndarray):
        return result.base is not None and (result.base is source or result.base is source.base)
    return result.data.mem is source.data.mem


def is_dense(array: Array) -> bool:
    """Whether the elements fill one block of memory, each once, in some order of the axes (torch: non-overlapping and dense)."""
    return array.flags.c_contiguous or fills(array.shape, array.strides, array.itemsize)


@functools.lru_cache(4096)
def fills(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """`is_dense`, of an array with these strides, in bytes."""
    expected = itemsize
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride != expected:
            return 0 in shape
        expected *= size
    return True


def broadcast_to(array: Array, shape: tuple[int, ...]) -> Array:
    """A view of the array stretched to a shape it broadcasts to, writable where the array is.

    Args:
        shape: the sizes; -1 keeps that of the array.
    Raises: ValueError for another shape.
    """
    if type(array) is not np.ndarray and isinstance(array, np.generic):
        array = np.asarray(array)
    on_device = not isinstance(array, np.ndarray)
    if on_device or (type(array) is np.ndarray and array.flags.c_contiguous and array.dtype.kind != "V"):
        layout = _stretched(array.shape, array.strides, tuple(shape))
        if layout is not None and on_device:
            return type(array)(layout[0], array.dtype, array.data, layout[1])
        if layout is not None:
            return np.ndarray(layout[0], array.dtype, array, 0, layout[1])  # NumPy's own function takes ten times as long
    wanted = sizes_kept(shape, array.shape)
    if wanted and min(wanted) < 0:  # CuPy would make an array of a negative size
        raise ValueError(f"a size is negative: {wanted}")
    result = namespace(array).broadcast_to(array, wanted)
    if isinstance(array, np.ndarray) and array.flags.writeable:
        result.flags.writeable = True
    return result


@functools.lru_cache(maxsize=512)
def _stretched(have: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The sizes and strides of an array of such sizes and strides that is stretched to a shape; None where it does not broadcast to it."""
    extra = len(shape) - len(have)
    if extra < 0:
        return None
    sizes, steps = list(shape), [0] * extra + list(strides)
    for d, size in enumerate(have, extra):
        if sizes[d] == -1:
            sizes[d] = size
        elif sizes[d] != size:
            if size != 1:
                return None
            steps[d] = 0
    return None if min(sizes, default=0) < 0 else (tuple(sizes), tuple(steps))  # of the shape (-1,) of one number NumPy makes (1,)


def sizes_kept(shape: tuple[int, ...], have: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with the sizes of another in place of -1; as it is where there is none to keep."""
    extra = len(shape) - len(have)
    if extra < 0 or -1 in shape[:extra]:
        return tuple(shape)
    return (*shape[:extra], *[size if size != -1 else kept for size, kept in zip(shape[extra:], have, strict=True)])


def strided(array: Array, shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0, dtype: Any = None) -> Array:
    """A view of the memory that holds an array, under any sizes and steps.

    Args:
        array: where to begin.
        shape: the sizes; strides: the steps along each dimension, in bytes.
        start: how many bytes behind the array's first element (negative: before it) the view begins.
        dtype: how the memory is read; the array's own dtype when None.
    Raises: ValueError for a view that reaches outside that memory (which is a block of the pool, a multiple of 512 bytes, in CuPy).
    """
    kind = array.dtype if dtype is None else dtype
    if type(array) is np.ndarray and array.flags.c_contiguous and not isinstance(array.base, np.ndarray):  # the common case
        return np.ndarray(shape, kind, array, start, strides)
    if type(array) is not np.ndarray and isinstance(array, np.generic):  # as a rule gets where a gradient has no dimensions
        array = np.asarray(array)
    if not isinstance(array, np.ndarray):
        data = array.data
        low = high = data.ptr - data.mem.ptr + start
        for n, step in zip(shape, strides, strict=True):
            if step < 0:
                low += (n - 1) * step
            else:
                high += (n - 1) * step
        if 0 not in shape and (low < 0 or high + kind.itemsize > data.mem.size):
            raise ValueError("strides reach outside the array's memory")
        memory = data if not start or 0 in shape else data + start  # nothing lies nowhere
        return type(array)(shape, kind, memory, strides)
    owner = array.base
    if not isinstance(owner, np.ndarray):
        owner = array = np.asarray(array)
    if not owner.flags.c_contiguous:
        steps = owner.strides
        owner = owner.transpose(sorted(range(owner.ndim), key=lambda d: -steps[d]))
    return np.ndarray(shape, kind, owner, address(array) - address(owner) + start, strides)


def rows(array: Array, axis: int) -> tuple[Array, ...]:
    """Views of a CuPy array at each place along a dimension, which goes; in three quarters of the time of as many indices."""
    made, shape, steps, start = type(array), array.shape, array.strides, array.data
    kind, step = array.dtype.type, steps[axis] if array.size else 0  # CuPy finds a dtype by its type in less time than by itself
    if axis == 0 and array._c_contiguous and array.size:  # and a view in C's order without steps
        return tuple([made(shape[1:], kind, start + k * step) for k in range(shape[0])])
    size, steps = shape[:axis] + shape[axis + 1 :], steps[:axis] + steps[axis + 1 :]
    return tuple([made(size, kind, start + k * step, steps) for k in range(shape[axis])])


def is_writeable(array: Array) -> bool:
    """Whether an array may be written; a CuPy array always may."""
    return not isinstance(array, np.ndarray) or array.flags.writeable


def address(array: Array) -> int:
    """The address of the first element."""
    return array.data.ptr if is_cupy(array) else array.__array_interface__["data"][0]


def running_fold(function: Callable[[Array, Array], Array], array: Array, axis: int) -> Array:
    """Element i is the fold of elements 0 to i along ``axis``. Each step doubles how many they hold, so there are log2(size) steps.

    Args:
        function: associative, on arrays of one shape; its first argument holds the later elements.
    """
    xp = namespace(array)
    running = xp.moveaxis(array, axis, -1).copy()
    reach = 1
    while reach < running.shape[-1]:
        running[..., reach:] = function(running[..., reach:], running[..., :-reach])
        reach *= 2
    return xp.moveaxis(running, -1, axis)


def failures_seen(library: Namespace) -> Any:
    """A context in which CuPy's linear algebra, too, reports that it failed, for which the host waits."""
    if library is np or not may_leave_host():
        return _HERE
    import cupyx

    return cupyx.errstate(linalg="raise")


def special(array: Array) -> Any:
    """The special-function module for the array's library (``scipy.special`` or ``cupyx.scipy.special``).

    Raises: RuntimeError that names the extra when SciPy is missing on the host.
    """
    if isinstance(array, (np.ndarray, np.generic)):
        try:
            import scipy.special as module
        except ImportError as error:
            raise RuntimeError(
                "this function needs SciPy on the CPU, which is not installed here. Install it with: pip install scipy."
            ) from error
        return module
    import cupyx.scipy.special as module

    return module


@functools.cache
def scipy_blas() -> Any:
    """SciPy's BLAS, which solves for triangles as NumPy's does not; None where SciPy is not installed."""
    try:
        import scipy.linalg.blas as module
    except ImportError:
        return None
    return module
