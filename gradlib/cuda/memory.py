"""torch.cuda's functions for memory: the bytes in CuPy's default pool and in the pools of captured graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gradlib.backend.array import cupy
from gradlib.backend.pinned import let_go
from gradlib.cuda.devices import device_count, index_of, is_available
from gradlib.cuda.graph_pools import graph_memory

_peaks: dict[int, tuple[int, int]] = {}  # by device: the largest amount in use, and held by the pool, since the last reset; see `_watch`


def _now(index: int) -> tuple[int, int]:
    """The bytes of a device's memory in use, and those that the pool holds."""
    with cupy().cuda.Device(index):
        pool, (used, held) = cupy().get_default_memory_pool(), graph_memory()
        return int(pool.used_bytes()) + used, int(pool.total_bytes()) + held


_installed: list[Callable[[int], Any]] = []  # the allocator that updates them for all threads, where none of CuPy's contexts holds


def noting(malloc: Callable[[int], Any]) -> Callable[[int], Any]:
    """An allocator that updates the peaks of the current device, once somebody has asked for them."""

    def allocate(size: int) -> Any:
        made = malloc(size)
        if _peaks:
            _note(cupy().cuda.runtime.getDevice())
        return made

    return allocate


def _watch(index: int) -> tuple[int, int]:
    """The peaks of a device. From the first call on they are updated at each allocation."""
    if not _installed or cupy().cuda.get_allocator() is not _installed[0]:
        thread = threading.Thread(target=_install)  # which has no allocator of its own, as this one has within `using_allocator`
        thread.start()
        thread.join()
    _note(index)
    return _peaks[index]


def _install() -> None:
    """Let the allocator that CuPy uses note the peaks, unless it does."""
    inner = cupy().cuda.get_allocator()
    if inner not in _installed:
        _installed[:] = [noting(inner)]
        cupy().cuda.set_allocator(_installed[0])


def _note(index: int) -> None:
    used, held = _now(index)
    most_used, most_held = _peaks.get(index, (0, 0))
    if used > most_used or held > most_held or index not in _peaks:
        _peaks[index] = max(used, most_used), max(held, most_held)


def memory_allocated(device: Any = None) -> int:
    """Bytes of a device's memory that arrays occupy; 0 without a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Source: torch.cuda.memory_allocated.
    Example:
        >>> gradlib.cuda.memory_allocated() >= 0
        True
    """
    return _now(index_of(device))[0] if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes of a device's memory that the pool holds, occupied or not; 0 without a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Source: torch.cuda.memory_reserved.
    Example:
        >>> gradlib.cuda.memory_reserved() >= gradlib.cuda.memory_allocated()
        True
    """
    return _now(index_of(device))[1] if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most that ``memory_allocated`` was since ``reset_peak_memory_stats``; 0 without a GPU.

    CuPy's pool does not track it, so gradlib does, at each allocation from the first call of this function or of the reset on.

    Args:
        device: a number, a name or a device; None for the current one.
    Source: torch.cuda.max_memory_allocated.
    Example:
        >>> gradlib.cuda.max_memory_allocated() >= gradlib.cuda.memory_allocated()
        True
    """
    return _watch(index_of(device))[0] if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most that ``memory_reserved`` was since ``reset_peak_memory_stats``; 0 without a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Source: torch.cuda.max_memory_reserved.
    Example:
        >>> gradlib.cuda.max_memory_reserved() >= gradlib.cuda.memory_reserved()
        True
    """
    return _watch(index_of(device))[1] if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peaks of memory to what is in use now. Without a GPU nothing happens.

    Args:
        device: a number, a name or a device; None for the current one.
    Source: torch.cuda.reset_peak_memory_stats.
    Example:
        >>> gradlib.cuda.reset_peak_memory_stats()
    """
    if is_available():
        index = index_of(device)
        _watch(index)
        _peaks[index] = _now(index)


def memory_stats(device: Any = None) -> dict[str, int]:
    """A device's memory figures under torch's names.

    Args:
        device: a number, a name or a device; None for the current one.
    Returns: "allocated_bytes.all.current", "allocated_bytes.all.peak" and the same of "reserved_bytes"; none without a GPU.
    Source: torch.cuda.memory_stats.
    Example:
        >>> gradlib.cuda.memory_stats().get("allocated_bytes.all.current", 0) == gradlib.cuda.memory_allocated()
        True
    """
    if not is_available():
        return {}
    index = index_of(device)
    now, most = _now(index), _watch(index)
    found: dict[str, int] = {}
    for name, current, peak in zip(("allocated_bytes.all", "reserved_bytes.all"), now, most, strict=True):
        found |= {f"{name}.current": current, f"{name}.peak": peak}
    return found


OutOfMemoryError = MemoryError
"""What CuPy raises where a device has no memory left is one. torch's is a RuntimeError."""


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A device's memory figures as a table to print.

    Args:
        device: a number, a name or a device; None for the current one.
        abbreviated: accepted, as in torch; the table is short in any case.
    Returns: lines of text; all figures are 0 without a GPU.
    Source: torch.cuda.memory_summary.
    Example:
        >>> print(gradlib.cuda.memory_summary()[:11])
        CUDA memory
    """
    found = memory_stats(device)
    free, total = mem_get_info(device) if found else (0, 0)
    place = f", device {index_of(device)}" if found else ""
    rows = [
        (title, found.get(f"{name}_bytes.all.current", 0), found.get(f"{name}_bytes.all.peak", 0))
        for title, name in (("arrays", "allocated"), ("held by the pools", "reserved"))
    ]
    lines = [f"{'CUDA memory' + place:<26} | {'now':>12} | {'peak':>12}", "-" * 56]
    lines += [f"{title:<26} | {_size(now):>12} | {_size(peak):>12}" for title, now, peak in rows]
    lines += ["-" * 56, f"{'free, of all processes':<26} | {_size(free):>12} | {'of ' + _size(total):>12}"]
    return "\n".join(lines) + "\n"


def _size(count: int) -> str:
    """A number of bytes in the largest unit of which there is one at least."""
    power = max(0, count.bit_length() - 1) // 10
    return f"{count / 1024**power:.2f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}" if power else f"{count} B"


def ipc_collect() -> None:
    """Give back memory that was shared with other processes: gradlib shares none, so this does nothing.

    Source: torch.cuda.ipc_collect.
    Example:
        >>> gradlib.cuda.ipc_collect()
    """


def empty_cache() -> None:
    """Return the memory that the pool holds and no array occupies to the devices. Without a GPU nothing happens.

    Source: torch.cuda.empty_cache.
    Example:
        >>> gradlib.cuda.empty_cache()
    """
    let_go()
    for index in range(device_count()):
        with cupy().cuda.Device(index):
            cupy().get_default_memory_pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device's memory, over all processes.

    Args:
        device: a number, a name or a device; None for the current one.
    Returns: free, total.
    Raises: RuntimeError for a device that is not there, and where nothing is.
    Source: torch.cuda.mem_get_info.
    Example:
        >>> free, total = gradlib.cuda.mem_get_info() if gradlib.cuda.is_available() else (0, 0)
        >>> free <= total
        True
    """
    free, total = cupy().cuda.Device(index_of(device)).mem_info
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let CuPy's pool, and the pools of graphs with it, hold no more than this part of a device's memory; beyond it, allocations raise.

    Allocations outside of graphs count CuPy's pool alone.

    Args:
        fraction: from 0 to 1.
        device: a number, a name or a device; None for the current one.
    Raises: TypeError for anything but a float, ValueError for one out of range; RuntimeError for a device that is not there.
    Source: torch.cuda.set_per_process_memory_fraction. In CuPy's pool 0 means no limit, so here it means one byte.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.set_per_process_memory_fraction(1.0)
    """
    index = index_of(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    with cupy().cuda.Device(index):
        pool = cupy().get_default_memory_pool()
        pool.set_limit(size=max(1, int(fraction * mem_get_info(index)[1])))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a device's memory that the pool may hold.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_per_process_memory_fraction.
    Example:
        >>> gradlib.cuda.get_per_process_memory_fraction() if gradlib.cuda.is_available() else 1.0
        1.0
    """
    index = index_of(device)
    with cupy().cuda.Device(index):
        limit = int(cupy().get_default_memory_pool().get_limit())
    return limit / mem_get_info(index)[1] if limit else 1.0
