"""The tiles into which a trajectory kernel's work is split, and what every launch of one needs: options, step times, arrays to fill.

Large arrays are (series, H, joints). Arrays with time last are B * D series of one joint, of which ``group`` = D share a trajectory's dt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, address, cupy, device_index
from gradlib.cuda.signature import C_TYPES, Options

THREADS = 128
_ELEMENTS = 256  # threads of a block where each has an element, forward
_OUTPUTS = 4  # elements that a thread has at a time in large batches
_THREADS_HELD = 768  # how many of them a multiprocessor's registers then hold, and more: kernels/element.cuh
_GRID = 65535  # blocks along y at most
_BLOCKS_HELD = (8, 6)  # how many blocks of an adjoint with a thread for each element they hold, and of doubles
_RESIDENT = 4  # how many blocks of every kernel a multiprocessor's registers hold, and more: kernels/tile.cuh
_SHARED = (
    16 * 1024
)  # bytes a block stages where there are more blocks: as many fit a multiprocessor as registers allow, none is long in any phase
_SERIES = 40 * 1024  # bytes that eight steps of all trajectories of a block may take
_RUN = 128  # bytes that a block should take of a trajectory at a time, for which it may stage twice as much
_WAIT, _HIDDEN = 40, 600  # steps of a walk, of 23 ns, in a wait for memory; bytes staged that a multiprocessor moves in one
_STORAGE = {name: ctype for ctype, name in C_TYPES.items()}


class Machine(NamedTuple):
    """The facts of a device that decide the tiles: its multiprocessors, and the bytes of shared memory of one, and of a block at most."""

    multiprocessors: int
    shared: int
    most: int

    def holds(self, grid: Sequence[int], blocks: int) -> bool:
        """Whether all blocks of a grid run at once, on each multiprocessor so many at most."""
        return math.prod(grid) <= blocks * self.multiprocessors


H100 = Machine(132, 233472, 232448)
_HOST = Machine(1, 48 * 1024, 48 * 1024)  # where only tests run the kernels
_ATTRIBUTES = (16, 81, 97)  # cudaDevAttrMultiProcessorCount, MaxSharedMemoryPerMultiprocessor, MaxSharedMemoryPerBlockOptin
_OF_CUDA = 1024  # bytes of shared memory that CUDA takes for each block


class Plan(NamedTuple):
    """The split of the work of a kernel of kernels/tile.cuh.

    Attributes:
        sizes: what the kernel is told: tile_batch, tile_joints, steps, row, and how many elements 16 bytes hold where they move (minus the
            elements of a word where their words then lie apart), else 0.
        grid: numbers of blocks; shared: bytes of shared memory.
        part: how many steps each of the threads has that share the walk of a series; 0 where one walks alone.
        most: bytes of shared memory that a block may have.
        ahead: whether a chunk is copied while the one before it is walked.
    """

    sizes: tuple[int, int, int, int, int]
    grid: tuple[int, int]
    shared: int
    part: int = 0
    most: int = _HOST.most
    ahead: bool = False


def _aligned(joints: int, itemsize: int) -> int:
    """How many elements lie together in shared memory: of one joint a word, else 16 bytes.

    Series of one joint that begin on 16 bytes would have the threads of a warp meet in every fourth bank.
    """
    return max(1, 4 // itemsize) if joints == 1 else 16 // itemsize


def _conflicts(row: int, joints: int, itemsize: int, series: int = 32, part: int = 0, run: int = 0) -> int:
    """The most words of one bank that the 32 threads of a warp touch at one step; thread ``series`` is ``part`` steps on from thread 0, and
    a trajectory is ``run`` elements long."""
    unit, firsts = _aligned(joints, itemsize), []
    for lane in range(32):
        trajectory, joint = divmod(lane % series, joints)
        firsts.append((trajectory * row + trajectory * run % unit + joint + lane // series * part * joints) * itemsize)
    words = [{(first + byte) // 4 for byte in range(0, itemsize, 4)} for first in firsts]
    banks: dict[int, set[int]] = {}
    for word in set().union(*words):
        banks.setdefault(word % 32, set()).add(word)
    return max(len(held) for held in banks.values())


@lru_cache(maxsize=256)
def tile_sizes(
    batch: int, horizon: int, joints: int, itemsize: int, staged: int, timed: int = 0, machine: Machine = _HOST, told: int = 0
) -> tuple[int, int, int, int]:
    """(tile_batch, tile_joints, steps, row) for a block of at most 128 series, where an element takes ``staged`` bytes in all areas.

    A block lasts as long as its chunks, one after the other, whatever its number of trajectories, and waits for memory at each: so there
    are as many blocks as the multiprocessors hold at once, of which some compute while others wait; and while they are no more than that,
    they share all of a multiprocessor's memory, for chunks as long as can be. ``timed``: bytes that a step of a trajectory takes for its
    times; ``told``: bytes that a block needs besides. ``row``, the elements from one trajectory to the next in shared memory, holds whole
    16-byte vectors, or words, and is chosen so that a warp's threads meet in as few banks as can be.
    """
    unit = _aligned(joints, itemsize)
    tile_joints = min(joints, THREADS)
    eight = 8 * (tile_joints * staged + timed)  # the shortest chunk of a trajectory, which must fit
    columns = -(-joints // tile_joints)
    resident = max(1, min(_RESIDENT, machine.shared // (_SHARED + _OF_CUDA))) * machine.multiprocessors
    most = min(THREADS // tile_joints, _SERIES // eight, max(1, 2 * _SHARED * itemsize // (_RUN * staged)))  # the last for a run of each
    tile_batch = max(1, min(batch, most, -(-batch * columns // resident)))
    step = tile_batch * (tile_joints * staged + timed)
    together = max(1, -(-(-(-batch // tile_batch) * columns) // machine.multiprocessors))  # blocks on a multiprocessor
    budget = min(machine.most, machine.shared // together - _OF_CUDA)
    spare = told + 10 * 16 * tile_batch * staged // itemsize  # the last for whole vectors, and for `row`
    budget = max(_SHARED, budget - spare) if together <= _RESIDENT else _SHARED
    steps = max(budget // step, min(_RUN // (tile_joints * itemsize), 2 * _SHARED // step))
    whole = horizon * (tile_joints * staged + timed) + told + 10 * 16 * staged // itemsize
    if horizon > steps and _whole(batch * columns, horizon, tile_joints, whole, batch * joints * staged, machine):
        tile_batch, steps = 1, horizon
    steps = horizon if horizon <= steps else max(8, steps // 8 * 8)
    run = horizon * joints if tile_joints == joints else 0
    lead = unit - 1 if run % unit else 0  # trajectories then begin between two vectors
    length = -(-(steps * tile_joints + lead) // unit) * unit
    row = min((length + pad * unit for pad in range(9)), key=lambda r: (_conflicts(r, tile_joints, itemsize, run=run), r))
    return tile_batch, tile_joints, steps, row


def _whole(blocks: int, horizon: int, tile_joints: int, size: int, traffic: int, machine: Machine) -> bool:
    """Whether blocks of one trajectory that stage its whole horizon, in ``size`` bytes, whose walks threads then share, are done sooner, in
    several turns, than blocks which all run at once, but walk alone, a chunk after the other.

    In steps of a walk, of which a wait for memory takes ``_WAIT``, and a multiprocessor's part of the ``traffic``, the bytes that a step of
    all series takes in all areas, one for ``_HIDDEN`` of them. kernels/README.md has the model. A block that has a multiprocessor to itself
    moves nothing while it walks.
    """
    threads, held = min(THREADS // tile_joints, 32), min(_RESIDENT, machine.shared // (size + _OF_CUDA))
    if threads < 4 or size > machine.most or not held:
        return False
    turns = -(-blocks // (held * machine.multiprocessors))
    shared = turns * (_WAIT + 2 * -(-horizon // threads) + threads)
    memory = horizon * traffic / (_HIDDEN * machine.multiprocessors)
    return 1.1 * (shared + memory if held == 1 else max(shared, memory)) < horizon


def _waits(horizon: int, steps: int, traffic: int, machine: Machine) -> bool:
    """Whether a horizon is several chunks, and walking them and waiting for each takes longer than memory: units as in `_whole`."""
    return steps < horizon and horizon + _WAIT * -(-horizon // steps) > horizon * traffic / (_HIDDEN * machine.multiprocessors)


class Elements(NamedTuple):
    """How a kernel with a thread for each element splits its work: kernels/element.cuh.

    Attributes:
        block: numbers of threads along joints, steps and trajectories; grid: numbers of blocks along steps, trajectories and joints.
        outputs: of how many trajectories a thread has its element at a time.
    """

    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    outputs: int


def elements(shape: tuple[int, int, int], like: Array) -> Elements:
    """A thread for each element, or for those of four trajectories where even so every multiprocessor is full.

    Doubles take twice the time in memory and more registers: one is enough.
    """
    return _elements(shape, like.itemsize, machine_for(like))


def adjoint_elements(shape: tuple[int, int, int], like: Array) -> Elements | None:
    """A thread for each element of an adjoint that sums nothing, or None where the multiprocessors do not hold all of them at once: tiles,
    which read each element once, then take less time than threads in several turns.
    """
    return _adjoint_elements(shape, like.itemsize, machine_for(like))


@lru_cache(maxsize=256)
def _adjoint_elements(shape: tuple[int, int, int], itemsize: int, machine: Machine) -> Elements | None:
    split = _split(shape, THREADS, 1)
    return split if machine.holds(split.grid, _BLOCKS_HELD[itemsize == 8]) else None


@lru_cache(maxsize=256)
def _elements(shape: tuple[int, int, int], itemsize: int, machine: Machine) -> Elements:
    full = math.prod(shape) >= _OUTPUTS * _THREADS_HELD * machine.multiprocessors
    return _split(shape, _ELEMENTS, _OUTPUTS if full and shape[0] >= _OUTPUTS and itemsize < 8 else 1)


def _split(shape: tuple[int, int, int], threads: int, outputs: int) -> Elements:
    """Blocks of at most so many threads, neighbours in memory, as even along the horizon as can be."""
    batch, horizon, joints = shape
    wide = min(joints, threads)
    high = min(horizon, threads // wide)
    rows = -(-horizon // high)
    high = -(-horizon // rows)
    deep = min(max(1, -(-batch // outputs)), 64, threads // (wide * high)) if wide == joints and rows == 1 else 1
    return Elements((wide, high, deep), (rows, min(-(-batch // (outputs * deep)), _GRID), -(-joints // wide)), outputs)


@lru_cache(maxsize=256)
def part_of_walk(horizon: int, sizes: tuple[int, int, int, int], itemsize: int, summed: int) -> int:
    """The number of steps of each thread where a block's threads share the walk of a series; 0 where one walks alone.

    They do where a chunk holds the whole horizon and there are threads to spare: at least 8 steps each, and a few more where they then meet
    in fewer banks of shared memory. Where states are ``summed`` they walk twice and add up what each found, one part after the other: at
    least four threads share then, else nothing is won, and at most 32.
    """
    tile_batch, tile_joints, steps, row = sizes
    series = tile_batch * tile_joints
    threads = min(THREADS // series, 32) if summed else THREADS // series
    if steps < horizon or threads < (4 if summed else 2):
        return 0
    least = max(8, -(-horizon // threads))
    run = horizon * tile_joints
    part = min(range(least, least + least // 4 + 1), key=lambda n: (_conflicts(row, tile_joints, itemsize, series, n, run), n))
    return part if -(-horizon // part) >= (4 if summed else 2) else 0


def plan(
    shape: tuple[int, ...], itemsize: int, staged: int, arrays: Sequence[Array | None], shift: int = 0, timed: int = 0,
    summed: int | None = None, read_ahead: int = 0,
) -> Plan:  # fmt: skip
    """Tile sizes, and whether 16 bytes can move at a time: every array, and every chunk of a trajectory but for where that begins itself,
    then starts on 16 bytes.

    Args:
        shape: (series, H, joints). itemsize: bytes of an element; staged: of one in all areas.
        arrays: what is staged; shift: by how many steps a chunk is written later than it is read, at most 4.
        timed: bytes of shared memory for the times of a step of a trajectory, as `bytes_of_times` says.
        summed: bytes that threads which share a walk tell each other; None where a thread walks alone.
        read_ahead: bytes of an element in what can be copied while the chunk before it is walked; 0 where the kernel does not.
    """
    device, aligned = None, True
    for array in arrays:
        if array is not None:
            aligned = aligned and address(array) % 16 == 0
            device = device_index(array) if device is None else device
    return _plan(shape, itemsize, staged, shift, timed, machine_of(device), aligned, summed, read_ahead)


@cache
def machine_of(device: int | None) -> Machine:
    """The facts of a device that decide the tiles."""
    if device is None:
        return _HOST
    number, shared, most = (int(cupy().cuda.runtime.deviceGetAttribute(asked, device)) for asked in _ATTRIBUTES)
    return Machine(number, max(shared, _HOST.shared), max(most, _HOST.most))


def machine_for(like: Array) -> Machine:
    """The facts of an array's device."""
    return machine_of(device_index(like))


def bytes_of_times(dt_h: int, array: Array) -> int:
    """Shared memory that the times of a step and their reciprocals take, where each step has its own."""
    return 2 * np.dtype(real_dtype(array)).itemsize if dt_h else 0


@lru_cache(maxsize=256)
def _plan(
    shape: tuple[int, ...], itemsize: int, staged: int, shift: int, timed: int, machine: Machine, aligned: bool, summed: int | None,
    read_ahead: int = 0,
) -> Plan:  # fmt: skip
    """`plan` for arrays of which all start on 16 bytes, or some do not."""
    batch, horizon, joints = shape
    told = THREADS * (summed or 0)
    facts = (batch, horizon + shift, joints, itemsize)
    tile_batch, tile_joints, steps, row = tile_sizes(*facts, staged, timed, machine, told)
    ahead = read_ahead > 0 and _waits(horizon, steps, batch * joints * staged, machine)
    if ahead:
        staged += read_ahead
        tile_batch, tile_joints, steps, row = tile_sizes(*facts, staged, timed, machine, told)
    unit, together = 16 // itemsize, _aligned(joints, itemsize)
    chunks = (shift * joints, 0 if steps >= horizon + shift else steps * joints) if tile_joints == joints else (joints,)
    vector = (unit if together == unit else -together) if aligned and all(run % together == 0 for run in chunks) else 0
    grid = (-(-batch // tile_batch), -(-joints // tile_joints))
    shared = tile_batch * (staged * row + timed * steps)
    part = 0 if summed is None else part_of_walk(horizon + shift, (tile_batch, tile_joints, steps, row), itemsize, summed)
    if not part or shared + told > machine.most:
        part = told = 0
    return Plan((tile_batch, tile_joints, steps, row, vector), grid, shared + told, part, machine.most, ahead)


def options(array: Array, elements: int, **names: int) -> Options:
    """The compile-time options every kernel takes, and those of this one: 64-bit indices where 32 bits could overflow."""
    return _options(array.dtype, elements < 1 << 30, tuple(names.items()))


@lru_cache(maxsize=256)
def _options(dtype: Any, short: bool, names: tuple[tuple[str, int], ...]) -> Options:
    given = tuple((name, str(int(value))) for name, value in names)
    return (("STORAGE", _STORAGE[dtype.name]), ("INDEX", "int" if short else "long long"), *given)


def real_dtype(array: Array) -> str:
    """The type that a kernel computes in for arrays of this one's dtype."""
    return "float64" if array.dtype == np.float64 else "float32"


def times(xp: Any, dt: Any, array: Array) -> tuple[Array | None, float, int, int]:
    """dt as the kernels read it: an array in the arithmetic's type, seconds, the strides by trajectory and by step.

    One number in host memory goes as an argument, and the array is None: no copy to the device, and none in a captured graph.
    """
    if isinstance(dt, float):
        return None, dt, 0, 0
    if isinstance(dt, np.ndarray) and dt.size == 1:
        return None, dt.item(), 0, 0
    table = xp.ascontiguousarray(dt, dtype=real_dtype(array))
    return table, 0.0, table.shape[1] if table.shape[0] > 1 else 0, 1 if table.shape[1] > 1 else 0


def ready(xp: Any, arrays: Sequence[Array | None]) -> list[Array | None]:
    """The arrays as a kernel reads them: contiguous."""
    made = []
    for array in arrays:
        made.append(array if array is None or array.flags.c_contiguous else xp.ascontiguousarray(array))
    return made


def one_row(parts: Sequence[Array | None], index: Array | None, series: int, joints: int) -> int:
    """The start parts that have one row for all trajectories, a bit for each: the kernels then read it from where it is."""
    if index is not None:
        return 0
    return sum(1 << k for k, part in enumerate(parts) if part is not None and part.size != series * joints)


def start_rows(xp: Any, like: Array, number: int = 3) -> list[Array]:
    """Uninitialised arrays with one row for each series."""
    return [xp.empty((like.shape[0], like.shape[2]), like.dtype) for _ in range(number)]
