"""The trajectory kernels' launches: tile sizes, index type, and one function for each map on CuPy arrays.

Large arrays are (series, H, joints). Arrays with time last are B * D series of one joint, of which ``group`` = D share a trajectory's dt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, address, constant, device_index
from gradlib.cuda.launch import C_TYPES, Call, launch
from gradlib.trajectory.bspline import kernel_weights

_THREADS = 128
_SHARED = 16 * 1024  # bytes a block stages as a rule: as many blocks fit a multiprocessor as registers allow, and none is long in any phase
_RUN = 128  # bytes that a block should take of a trajectory at a time, for which it may stage twice as much
_STORAGE = {name: ctype for ctype, name in C_TYPES.items()}


class Plan(NamedTuple):
    """How a kernel of kernels/tile.cuh splits its work."""

    tile_batch: int
    tile_joints: int
    steps: int
    row: int
    vector: int
    grid: tuple[int, int]
    shared: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """What the kernel is told."""
        return self[:5]


def _conflicts(row: int, joints: int, itemsize: int) -> int:
    """The most words of one bank that the 32 threads of a warp touch at one step."""
    words = [{((lane // joints * row + lane % joints) * itemsize + byte) // 4 for byte in range(0, itemsize, 4)} for lane in range(32)]
    banks: dict[int, set[int]] = {}
    for word in set().union(*words):
        banks.setdefault(word % 32, set()).add(word)
    return max(len(held) for held in banks.values())


@lru_cache(maxsize=256)
def tile_sizes(batch: int, horizon: int, joints: int, itemsize: int, staged: int) -> tuple[int, int, int, int]:
    """(tile_batch, tile_joints, steps, row) for a block of at most 128 series, where an element takes ``staged`` bytes in all areas.

    ``row``, the elements from one trajectory to the next in shared memory, holds whole 16-byte vectors and is chosen so that a warp's
    threads meet in as few banks as can be.
    """
    unit = 16 // itemsize
    tile_joints = min(joints, _THREADS)
    tile_batch = max(1, min(batch, _THREADS // tile_joints))
    step = tile_batch * tile_joints * staged
    steps = max(_SHARED // step, min(_RUN // (tile_joints * itemsize), 2 * _SHARED // step))
    steps = horizon if horizon <= steps else max(8, steps // 8 * 8)
    length = -(-steps * tile_joints // unit) * unit
    row = min((length + pad * unit for pad in range(9)), key=lambda r: (_conflicts(r, tile_joints, itemsize), r))
    return tile_batch, tile_joints, steps, row


def _aligned(arrays: Sequence[Array | None]) -> bool:
    return all(address(a) % 16 == 0 for a in arrays if a is not None)


def plan(shape: tuple[int, ...], itemsize: int, staged: int, arrays: Sequence[Array | None], shift: int = 0) -> Plan:
    """Tile sizes, and whether 16 bytes can move at a time: every run of every array then starts and ends on 16 bytes.

    Args:
        shape: (series, H, joints). itemsize: bytes of an element; staged: of one in all areas.
        arrays: what is staged; shift: by how many steps a chunk is written later than it is read, at most 4.
    """
    batch, horizon, joints = shape
    tile_batch, tile_joints, steps, row = tile_sizes(batch, horizon + shift, joints, itemsize, staged)
    runs = (horizon * joints, steps * joints, shift * joints) if tile_joints == joints else (joints,)
    vector = _aligned(arrays) and all(run * itemsize % 16 == 0 for run in runs)
    grid = (-(-batch // tile_batch), -(-joints // tile_joints))
    return Plan(tile_batch, tile_joints, steps, row, int(vector), grid, staged * tile_batch * row)


def options(array: Array, elements: int, **names: int) -> tuple[tuple[str, str], ...]:
    """The compile-time options every kernel takes, and those of this one: 64-bit indices where 32 bits could overflow."""
    index = "int" if elements < 1 << 30 else "long long"
    given = tuple((name, str(int(value))) for name, value in names.items())
    return (("STORAGE", _STORAGE[array.dtype.name]), ("INDEX", index), *given)


def real_dtype(array: Array) -> str:
    """The type that a kernel computes in for arrays of this one's dtype."""
    return "float64" if array.dtype.name == "float64" else "float32"


def times(xp: Any, dt: Any, array: Array) -> tuple[Array | None, float, int, int]:
    """dt as the kernels read it: an array in the arithmetic's type, seconds, the strides by trajectory and by step.

    One number in host memory goes as an argument, and the array is None: no copy to the device, and none in a captured graph.
    """
    if isinstance(dt, (float, np.ndarray)) and np.size(dt) == 1:
        return None, float(np.reshape(dt, ())), 0, 0
    table = xp.ascontiguousarray(dt, dtype=real_dtype(array))
    return table, 0.0, table.shape[1] if table.shape[0] > 1 else 0, 1 if table.shape[1] > 1 else 0


def ready(xp: Any, array: Array | None) -> Array | None:
    """The array as a kernel reads it: contiguous."""
    return None if array is None else xp.ascontiguousarray(array)


def chain_forward_call(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, order: int, exact: bool, sources: Any, out: Sequence[Array], group: int
) -> Call:
    """The launch of ``chain_forward``; arguments as `chain_forward`."""
    begin = [ready(xp, x) for x in start]
    extra = [ready(xp, x) for x in sources or (None, None, None)]
    control = ready(xp, u)
    table, seconds, dt_b, dt_h = times(xp, dt, u)
    tiles = plan(u.shape, u.itemsize, 4 * u.itemsize, [control, *extra, *out])
    chosen = options(u, u.size, ORDER=order, EXACT=exact, SOURCES=sources is not None)
    args = (control, *begin, *extra, table, seconds, *out, *u.shape, group, dt_b, dt_h, *tiles.sizes)
    return Call("chain.cu", "chain_forward", chosen, tiles.grid, _THREADS, args, tiles.shared)


def chain_forward(
    xp: Any,
    u: Array,
    start: Sequence[Array | None],
    dt: Array,
    order: int,
    exact: bool,
    sources: Any,
    out: Sequence[Array] | None,
    group: int,
) -> tuple[Array, ...]:
    """`gradlib.trajectory.chain.forward` on the GPU; ``group`` series share a start row's place and a dt."""
    made = tuple(xp.empty(u.shape, u.dtype) for _ in range(4)) if out is None else tuple(out)
    launch(chain_forward_call(xp, u, start, dt, order, exact, sources, made, group))
    return made


def chain_adjoint_call(
    xp: Any, grads: Sequence[Array | None], dt: Array, order: int, exact: bool, made: Sequence[Array | None], group: int
) -> Call:
    """The launch of ``chain_adjoint``; ``made`` are the seven arrays to fill, the last three None without sources."""
    given = [ready(xp, g) for g in grads]
    by_u: Array = made[0]
    table, seconds, dt_b, dt_h = times(xp, dt, by_u)
    tiles = plan(by_u.shape, by_u.itemsize, 4 * by_u.itemsize, [*given, by_u, *made[4:]])
    chosen = options(by_u, by_u.size, ORDER=order, EXACT=exact, SOURCES=made[4] is not None)
    args = (*given, table, seconds, *made, *by_u.shape, group, dt_b, dt_h, *tiles.sizes)
    return Call("chain.cu", "chain_adjoint", chosen, tiles.grid, _THREADS, args, tiles.shared)


def chain_adjoint(
    xp: Any, grads: Sequence[Array | None], dt: Array, order: int, exact: bool, with_sources: bool, group: int
) -> tuple[Array | None, ...]:
    """`gradlib.trajectory.chain.adjoint` on the GPU."""
    like = next(g for g in grads if g is not None)
    full = [xp.empty(like.shape, like.dtype) for _ in range(4 if with_sources else 1)]
    made = (full[0], *_start_rows(xp, like), *(full[1:] or (None, None, None)))
    launch(chain_adjoint_call(xp, grads, dt, order, exact, made, group))
    return made


def _start_rows(xp: Any, like: Array, number: int = 3) -> list[Array]:
    """Uninitialised arrays with one row for each series."""
    return [xp.empty((like.shape[0], like.shape[2]), like.dtype) for _ in range(number)]


def central_forward_call(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], group: int
) -> Call:
    """The launch of ``central_forward``."""
    control, begin = ready(xp, u), [ready(xp, x) for x in start]
    table, seconds, dt_b, _ = times(xp, dt, u)
    tiles = plan(u.shape, u.itemsize, 4 * u.itemsize, [control, *out])
    args = (control, *begin, ready(xp, goal), table, seconds, *out, *u.shape, group, dt_b, *tiles.sizes)
    return Call("central.cu", "central_forward", options(u, u.size), tiles.grid, _THREADS, args, tiles.shared)


def central_forward(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], group: int
) -> None:
    """`gradlib.trajectory.central.forward` on the GPU, into out."""
    launch(central_forward_call(xp, u, start, goal, dt, out, group))


def central_adjoint_call(xp: Any, grads: Sequence[Array | None], dt: Array, made: Sequence[Array], has_goal: bool, group: int) -> Call:
    """The launch of ``central_adjoint``; ``made`` are the gradients to fill, by u, start and goal."""
    given = [ready(xp, g) for g in grads]
    by_u = made[0]
    table, seconds, dt_b, _ = times(xp, dt, by_u)
    tiles = plan(by_u.shape, by_u.itemsize, 4 * by_u.itemsize, [*given, by_u], shift=4)
    args = (*given, table, seconds, *made, *by_u.shape, group, dt_b, int(has_goal), *tiles.sizes)
    return Call("central.cu", "central_adjoint", options(by_u, by_u.size), tiles.grid, _THREADS, args, tiles.shared)


def central_adjoint(xp: Any, grads: Sequence[Array | None], dt: Array, has_goal: bool, group: int) -> tuple[Array, ...]:
    """`gradlib.trajectory.central.adjoint` on the GPU."""
    like = next(g for g in grads if g is not None)
    made = (xp.empty(like.shape, like.dtype), *_start_rows(xp, like, 4))
    launch(central_adjoint_call(xp, grads, dt, made, has_goal, group))
    return made


def bspline_forward_call(xp: Any, points: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, group: int) -> Call:
    """The launch of ``bspline_forward``."""
    table, seconds, dt_b, _ = times(xp, dt, points)
    tiles = plan(out[0].shape, points.itemsize, 4 * points.itemsize, out)
    weights = constant(kernel_weights, degree, samples, dtype=real_dtype(points), index=device_index(points))
    sizes = (points.shape[0], points.shape[1], samples, *out[0].shape[1:])
    args = (ready(xp, points), weights, table, seconds, *out, *sizes, group, dt_b, *tiles.sizes)
    chosen = options(points, max(points.size, out[0].size), DEGREE=degree)
    return Call("bspline.cu", "bspline_forward", chosen, tiles.grid, _THREADS, args, tiles.shared)


def bspline_forward(xp: Any, points: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, group: int) -> None:
    """`gradlib.trajectory.bspline.forward` on the GPU, into out."""
    launch(bspline_forward_call(xp, points, dt, out, degree, samples, group))


def bspline_adjoint_call(xp: Any, grads: Sequence[Array | None], dt: Array, out: Array, degree: int, samples: int, group: int) -> Call:
    """The launch of ``bspline_adjoint``."""
    given = [ready(xp, g) for g in grads]
    like = next(g for g in given if g is not None)
    table, seconds, dt_b, _ = times(xp, dt, out)
    tiles = plan(like.shape, like.itemsize, 4 * like.itemsize, given)
    weights = constant(kernel_weights, degree, samples, dtype=real_dtype(out), index=device_index(out))
    sizes = (out.shape[0], out.shape[1], samples, *like.shape[1:])
    args = (*given, weights, table, seconds, out, *sizes, group, dt_b, *tiles.sizes)
    chosen = options(out, max(out.size, like.size), DEGREE=degree)
    return Call("bspline.cu", "bspline_adjoint", chosen, tiles.grid, _THREADS, args, tiles.shared)


def bspline_adjoint(xp: Any, grads: Sequence[Array | None], dt: Array, number: int, degree: int, samples: int, group: int) -> Array:
    """`gradlib.trajectory.bspline.adjoint` on the GPU: the gradient by ``number`` points of each series."""
    like = next(g for g in grads if g is not None)
    out = xp.empty((like.shape[0], number, like.shape[2]), like.dtype)
    launch(bspline_adjoint_call(xp, grads, dt, out, degree, samples, group))
    return out


def smoothness_call(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: tuple[float, ...] | Array, limits: Array | None,
    limit_weight: float, cost: Array, made: Sequence[Array | None], group: int,
) -> Call:  # fmt: skip
    """The launch of ``smoothness``: ``cost`` has `joint_tiles` rows, ``made`` are the gradients by u, start parts and dt, or None."""
    begin = [ready(xp, x) for x in start]
    control = ready(xp, u)
    table, seconds, dt_b, dt_h = times(xp, dt, u)
    timed = made[4] is not None
    tiles = plan(u.shape, u.itemsize, u.itemsize + (cost.itemsize if timed else 0), [control, made[0]], shift=4)
    chosen = options(u, u.size, LIMITS=limits is not None, TIMED=timed)
    weighing = (None, *weights) if isinstance(weights, tuple) else (weights, 0.0, 0.0, 0.0)
    constants = (*weighing, limits, limit_weight)
    args = (control, *begin, table, seconds, *constants, cost, *made, *u.shape, group, dt_b, dt_h, *tiles.sizes)
    return Call("smoothness.cu", "smoothness", chosen, tiles.grid, _THREADS, args, tiles.shared)


def joint_tiles(joints: int) -> int:
    """How many partial sums over the joints a trajectory has: one for each tile of them."""
    return -(-joints // _THREADS)


def _over_tiles(partial: Array, group: int) -> Array:
    """Partial sums (tiles, series, ...) summed over tiles and the series of a trajectory."""
    tiles, series, *rest = partial.shape
    if tiles == 1 and group == 1:
        return partial[0]
    return partial.reshape(tiles, series // group, group, *rest).sum(axis=(0, 2))


def smoothness(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: tuple[float, ...] | Array, limits: Array | None,
    limit_weight: float, by_parts: bool, by_dt: bool, group: int,
) -> tuple[Array | None, ...]:  # fmt: skip
    """`gradlib.trajectory.smoothness.cost_and_gradient` on the GPU, for arrays as (series, H, joints); ``group`` series a trajectory."""
    series, horizon, joints = u.shape
    real = real_dtype(u)
    cost = xp.empty((joint_tiles(joints), series), real)
    over_time = xp.empty((*cost.shape, horizon), real) if by_dt else None
    parts = [xp.empty(u.shape, u.dtype), *_start_rows(xp, u)] if by_parts else [None] * 4
    launch(smoothness_call(xp, u, start, dt, weights, limits, limit_weight, cost, (*parts, over_time), group))
    return _over_tiles(cost, group).astype(u.dtype, copy=False), *parts, None if over_time is None else _over_tiles(over_time, group)


def rows_gather_call(xp: Any, rows: Array, index: Array, out: Array) -> Call:
    """The launch of ``rows_gather``: one element a thread, or several where they are more than 2^20 blocks hold."""
    args = (ready(xp, rows), index, out, *out.shape)
    grid = (min(-(-out.size // 256), 1 << 20), 1)
    return Call("rows.cu", "rows_gather", options(out, max(out.size, rows.size)), grid, 256, args)


def rows_gather(xp: Any, rows: Array, index: Array) -> Array:
    """``rows[index]`` on the GPU."""
    out = xp.empty((len(index), rows.shape[1]), rows.dtype)
    launch(rows_gather_call(xp, rows, index, out))
    return out


def scatter_parts(number: int, entries: int) -> int:
    """Into how many parts the entries of a row are split: blocks enough for a GPU where there are few rows with many entries."""
    return max(1, min(-(-entries // _THREADS), 1024 // max(1, number)))


def rows_scatter_call(xp: Any, grad: Array, order: Array, bounds: Array, partial: Array) -> Call:
    """The launch of ``rows_scatter`` into ``partial`` (S, parts, D)."""
    number, parts, joints = partial.shape
    args = (ready(xp, grad), ready(xp, order), ready(xp, bounds), partial, joints, min(joints, _THREADS))
    chosen = options(grad, max(partial.size, grad.size))
    return Call("rows.cu", "rows_scatter", chosen, (number, parts), _THREADS, args, _THREADS * partial.itemsize)


def rows_scatter(xp: Any, grad: Array, order: Array, bounds: Array, number: int) -> Array:
    """The transpose of `rows_gather` on the GPU, with the entries of each row listed by ``order`` and ``bounds``."""
    parts = scatter_parts(number, len(order))
    partial = xp.empty((number, parts, grad.shape[1]), real_dtype(grad))
    launch(rows_scatter_call(xp, grad, order.astype("int64", copy=False), bounds.astype("int64", copy=False), partial))
    return (partial[:, 0] if parts == 1 else partial.sum(axis=1)).astype(grad.dtype, copy=False)
