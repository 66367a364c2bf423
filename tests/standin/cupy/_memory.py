"""Device memory: blocks from a pool, poisoned until written and again when freed, between guards that show a write out of bounds."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import numpy as np

from cupy import _order
from cupy._order import Hazard, Stamp, Stream

POISON = 0xFF  # NaN in every floating dtype, -1 in every integer one
_GUARD, _GUARD_BYTE = 64, 0xA5
_ROUND = 512
_SHORT = bytes([POISON]) * _ROUND


class Device:
    """A CUDA device; as a context the current one."""

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = _order.here.device if device is None else int(device.id if isinstance(device, Device) else device)
        if not 0 <= self.id < _order.DEVICES:
            raise ValueError(f"cudaErrorInvalidDevice: invalid device ordinal {self.id}")
        self._outer: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self._outer.append(_order.here.device)
        self.use()
        return self

    def __exit__(self, *exc: object) -> None:
        _order.here.device = self._outer.pop()

    def use(self) -> None:
        _order.here.device = self.id

    def synchronize(self) -> None:
        for stream in _order.streams_of(self.id):
            stream.synchronize()

    @property
    def compute_capability(self) -> str:
        return "90"

    @property
    def mem_info(self) -> tuple[int, int]:
        return 1 << 33, 1 << 34


class Block:
    """Raw bytes between two guards, aligned as CUDA aligns them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.bytes = np.empty(size + 2 * _GUARD + _ROUND, np.uint8)
        start = self.bytes.__array_interface__["data"][0]
        self.offset = (-(start + _GUARD)) % _ROUND + _GUARD
        self.ptr = start + self.offset
        self.bytes[...] = _GUARD_BYTE
        self.body = self.bytes[self.offset : self.offset + size]
        self.poison()
        self.touched: list[Stamp] = []
        self.stream = 0

    def poison(self) -> None:
        self.body[...] = POISON

    def _behind(self, used: int) -> np.ndarray:
        """What follows the bytes that were asked for: nobody's."""
        return self.bytes[self.offset + used : self.offset + self.size + _GUARD]

    def guard(self, used: int) -> None:
        self._behind(used)[...] = _GUARD_BYTE

    def check_guards(self, used: int) -> None:
        before = self.bytes[self.offset - _GUARD : self.offset]
        if (before != _GUARD_BYTE).any() or (self._behind(used) != _GUARD_BYTE).any():
            raise Hazard(f"a kernel wrote outside an allocation of {used} bytes")

    def check_freed(self) -> None:
        short = self.size == _ROUND  # most are, and comparing bytes is quicker then
        if self.body.tobytes() != _SHORT if short else (self.body != POISON).any():
            raise Hazard(f"{self.size} bytes were written after they had been freed")


class MemoryPool:
    """Hands out blocks and takes them back; a freed block goes to the next request of its size on the stream that asked for it first."""

    def __init__(self, allocator: Any = None) -> None:
        self._free: dict[tuple[int, int], list[Block]] = {}  # by stream and size
        self._used = 0
        self._lock = threading.RLock()

    def malloc(self, size: int) -> MemoryPointer:
        rounded = -(-size // _ROUND) * _ROUND
        stream = _order.current_stream()
        with self._lock:
            waiting = self._free.get((stream.number, rounded))
            block = waiting.pop() if waiting else Block(rounded)
            block.stream = stream.number
            self._used += rounded
        if waiting is not None:
            block.check_freed()
        if block.touched and not _order.unrivalled():
            with _order.lock:
                stream._await()
                for stamp in block.touched:
                    if not _order.covers(stream.clock, stamp):
                        raise Hazard("memory was freed while another stream was still using it, and is handed out again")
        block.touched = []
        block.guard(size)
        return MemoryPointer(Memory(size, block, self), 0)

    def _take_back(self, memory: Memory) -> None:
        block = memory.block
        block.touched = [*memory.reads.items(), *([memory.write] if memory.write else [])]
        block.poison()
        with self._lock:
            self._used -= block.size
            self._free.setdefault((block.stream, block.size), []).append(block)

    def used_bytes(self) -> int:
        return self._used

    def free_bytes(self) -> int:
        return sum(size * len(blocks) for (_, size), blocks in self._free.items())

    def total_bytes(self) -> int:
        return self._used + self.free_bytes()

    def n_free_blocks(self) -> int:
        return sum(len(blocks) for blocks in self._free.values())

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        for block in [b for blocks in self._free.values() for b in blocks]:
            block.check_freed()
        self._free.clear()


_live: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()


def pointer_to(address: int) -> MemoryPointer:
    """The allocation that an address lies in. Raises: Hazard for one that lies in none."""
    for memory in list(_live.values()):
        if memory.ptr <= address < memory.ptr + memory.size:
            return MemoryPointer(memory, address - memory.ptr)
    raise Hazard(f"address {address:#x} lies in no allocation; was its owner freed?")


class Memory:
    """One allocation, and who used it last."""

    def __init__(self, size: int, block: Block, pool: MemoryPool) -> None:
        self.asked, self.size, self.ptr = size, block.size, block.ptr
        self.block, self._pool = block, pool
        self.device_id = _order.here.device
        self.write: Stamp | None = None
        self.reads: dict[int, int] = {}
        _live[self.ptr] = self

    @property
    def device(self) -> Device:
        return Device(self.device_id)

    def _touch(self, stream: Stream, stamp: Stamp, write: bool) -> None:
        """A piece of work on a stream reads or writes this memory. Raises: Hazard when it may run beside earlier work that writes it."""
        if _order.unrivalled():
            if write:
                self.write, self.reads = stamp, {}
            else:
                self.reads[stamp[0]] = stamp[1]
            return
        with _order.lock:
            earlier = [self.write] if self.write else []
            for other in (*earlier, *(self.reads.items() if write else ())):
                if not _order.covers(stream.clock, other):
                    doing = "writes" if write else "reads"
                    raise Hazard(
                        f"stream {stream.number} {doing} memory that stream {other[0]} may still be using; let it wait for an event"
                    )
            if write:
                self.write, self.reads = stamp, {}
            else:
                self.reads[stamp[0]] = stamp[1]

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            self._pool._take_back(self)


class MemoryPointer:
    """A place in an allocation."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem, self._offset = mem, offset
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id

    @property
    def device(self) -> Device:
        return self.mem.device

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self._offset + offset)

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def __int__(self) -> int:
        return self.ptr


_pools = [MemoryPool() for _ in range(_order.DEVICES)]


def get_default_memory_pool() -> MemoryPool:
    return _pools[_order.here.device]


def alloc(size: int) -> MemoryPointer:
    return get_default_memory_pool().malloc(size)


def alloc_pinned_memory(size: int) -> Any:
    return np.full(size, POISON, np.uint8)
