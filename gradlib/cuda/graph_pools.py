"""The memory pools of captured graphs: apart from CuPy's pool, and they free nothing as long as a graph may be replayed."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from gradlib.backend.array import cupy
from gradlib.cuda.devices import index_of

Handle = tuple[int, int]
_NO_MEMORY = 2  # cudaErrorMemoryAllocation

_numbers = itertools.count(1)
_pools: weakref.WeakValueDictionary[Handle, GraphPool] = weakref.WeakValueDictionary()


class GraphPool:
    """Memory that graphs use at each replay, for as long as one of them lives.

    What a capture frees is used again by the same capture and by later ones with the same pool, and by nobody else. The pool never gives
    blocks back to CUDA while it lives, not even when memory runs out: a graph goes on writing to them.

    Args:
        handle: what names it.
    """

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        blocks: list[Any] = []

        def block(size: int) -> Any:  # refers to the list, not to the pool: no reference cycle keeps the pool alive
            _refuse_beyond_limit(size)
            made = cupy().cuda.Memory(size)
            blocks.append(made)
            return cupy().cuda.MemoryPointer(made, 0)

        self._pool = cupy().cuda.MemoryPool(block)

    def malloc(self, size: int) -> Any:
        """Memory for an array, as CuPy asks for it."""
        return self._pool.malloc(size)

    def usage(self) -> tuple[int, int]:
        """Bytes of the current device that live arrays occupy, and that the pool holds."""
        return int(self._pool.used_bytes()), int(self._pool.total_bytes())


def _refuse_beyond_limit(size: int) -> None:
    """Raises: CUDA's error for a device without memory, of which CuPy makes OutOfMemoryError, beyond what the process may hold of it."""
    library = cupy()
    default = library.get_default_memory_pool()
    if (limit := default.get_limit()) and default.total_bytes() + graph_memory()[1] + size > limit:
        raise library.cuda.runtime.CUDARuntimeError(_NO_MEMORY)


def graph_pool_handle() -> Handle:
    """A name for a pool that several graphs share.

    Graphs may share a pool if they are replayed in the order in which they were captured and never at the same time: memory that one graph
    frees is used by the next.

    Returns: a token for ``CUDAGraph.capture_begin``, ``graph`` and ``make_graphed_callables``.
    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.graph_pool_handle.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     pool = gradlib.cuda.graph_pool_handle()
        ...     x = gradlib.zeros(3, device="cuda")
        ...     first, second = gradlib.cuda.CUDAGraph(), gradlib.cuda.CUDAGraph()
        ...     with gradlib.cuda.graph(first, pool=pool):
        ...         y = x + 1
        ...     with gradlib.cuda.graph(second, pool=pool):
        ...         z = y * 2
        ...     assert first.pool() == second.pool() == pool
    """
    index_of(None)
    return 0, next(_numbers)


def pool_of(handle: Any) -> GraphPool:
    """The pool that a handle names; a new one for None.

    Raises: TypeError for anything but a handle.
    """
    if handle is None:
        handle = next(_numbers), 0
    if not (isinstance(handle, tuple) and len(handle) == 2 and all(isinstance(number, int) for number in handle)):
        raise TypeError(f"pool: expected what graph_pool_handle() or the pool() of a graph returned, got {handle!r}")
    pool = _pools.get(handle)
    if pool is None:
        pool = _pools[handle] = GraphPool(handle)
    return pool


def graph_memory() -> tuple[int, int]:
    """Bytes of the current device that the arrays of graphs occupy, and that their pools hold."""
    sums = [pool.usage() for pool in list(_pools.values())]
    return sum(used for used, _ in sums), sum(held for _, held in sums)
