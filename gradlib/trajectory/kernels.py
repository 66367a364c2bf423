"""The trajectory kernels' launches: tile sizes, index type, and one function for each map on CuPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gradlib.backend.array import Array
from gradlib.cuda.launch import C_TYPES, Call, launch

_THREADS = 128
_SHARED = 32 * 1024  # bytes a block stages at most, within what every GPU gives without asking: several blocks fit a multiprocessor
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


def _conflicts(row: int, joints: int, itemsize: int) -> int:
    """The most words of one bank that the 32 threads of a warp touch at one step."""
    words = [{((lane // joints * row + lane % joints) * itemsize + byte) // 4 for byte in range(0, itemsize, 4)} for lane in range(32)]
    banks: dict[int, set[int]] = {}
    for word in set().union(*words):
        banks.setdefault(word % 32, set()).add(word)
    return max(len(held) for held in banks.values())


@lru_cache(maxsize=256)
def tile_sizes(batch: int, horizon: int, joints: int, itemsize: int, areas: int) -> tuple[int, int, int, int]:
    """(tile_batch, tile_joints, steps, row) for a block of at most 128 series and about 32 KiB.

    ``row``, the elements from one trajectory to the next in shared memory, holds whole 16-byte vectors and is chosen so that a warp's
    threads meet in as few banks as can be.
    """
    unit = 16 // itemsize
    tile_joints = min(joints, _THREADS)
    tile_batch = max(1, min(batch, _THREADS // tile_joints))
    steps = _SHARED // (areas * tile_batch * tile_joints * itemsize)
    steps = horizon if horizon <= steps else max(8, steps // 8 * 8)
    length = -(-steps * tile_joints // unit) * unit
    row = min((length + pad * unit for pad in range(9)), key=lambda r: (_conflicts(r, tile_joints, itemsize), r))
    return tile_batch, tile_joints, steps, row


def _aligned(arrays: Sequence[Array | None]) -> bool:
    return all(address(a) % 16 == 0 for a in arrays if a is not None)


def address(array: Array) -> int:
    """The address of an array's first element, in host or device memory."""
    return int(array.ctypes.data if hasattr(array, "ctypes") else array.data.ptr)


def plan(shape: tuple[int, ...], itemsize: int, areas: int, arrays: Sequence[Array | None], shift: int = 0) -> Plan:
    """Tile sizes, and whether 16 bytes can move at a time: every run of every array then starts and ends on 16 bytes.

    Args:
        shape: (series, H, joints); itemsize: bytes of an element; areas: arrays staged at a time.
        arrays: what is staged; shift: by how many steps a chunk is written later than it is read, at most 4.
    """
    batch, horizon, joints = shape
    tile_batch, tile_joints, steps, row = tile_sizes(batch, horizon + shift, joints, itemsize, areas)
    runs = (horizon * joints, steps * joints, shift * joints) if tile_joints == joints else (joints,)
    vector = _aligned(arrays) and all(run * itemsize % 16 == 0 for run in runs)
    grid = (-(-batch // tile_batch), -(-joints // tile_joints))
    return Plan(tile_batch, tile_joints, steps, row, int(vector), grid, areas * tile_batch * row * itemsize)


def options(array: Array, elements: int, **names: int) -> tuple[tuple[str, str], ...]:
    """The compile-time options every kernel takes, and those of this one: 64-bit indices where 32 bits could overflow."""
    index = "int" if elements < 1 << 30 else "long long"
    given = tuple((name, str(int(value))) for name, value in names.items())
    return (("STORAGE", _STORAGE[array.dtype.name]), ("INDEX", index), *given)


def times(xp: Any, dt: Array, array: Array) -> tuple[Array, int, int]:
    """dt (1 or B, 1 or H) as the kernels read it: in the arithmetic's type, with the strides by trajectory and by step."""
    real = "float64" if array.dtype.name == "float64" else "float32"
    ready = xp.ascontiguousarray(dt, dtype=real)
    return ready, ready.shape[1] if ready.shape[0] > 1 else 0, 1 if ready.shape[1] > 1 else 0


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
    seconds, dt_b, dt_h = times(xp, dt, u)
    tiles = plan(u.shape, u.itemsize, 4, [control, *extra, *out])
    chosen = options(u, u.size, ORDER=order, EXACT=exact, SOURCES=sources is not None)
    args = (control, *begin, *extra, seconds, *out, *u.shape, group, dt_b, dt_h, *tiles[:5])
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
    shape = made[0].shape  # type: ignore[union-attr]
    seconds, dt_b, dt_h = times(xp, dt, made[0])
    tiles = plan(shape, made[0].itemsize, 4, [*given, made[0], *made[4:]])  # type: ignore[union-attr]
    chosen = options(made[0], made[0].size, ORDER=order, EXACT=exact, SOURCES=made[4] is not None)  # type: ignore[union-attr]
    args = (*given, seconds, *made, *shape, group, dt_b, dt_h, *tiles[:5])
    return Call("chain.cu", "chain_adjoint", chosen, tiles.grid, _THREADS, args, tiles.shared)


def chain_adjoint(
    xp: Any, grads: Sequence[Array | None], dt: Array, order: int, exact: bool, with_sources: bool, group: int
) -> tuple[Array | None, ...]:
    """`gradlib.trajectory.chain.adjoint` on the GPU."""
    like = next(g for g in grads if g is not None)
    full = [xp.empty(like.shape, like.dtype) for _ in range(4 if with_sources else 1)]
    starts = [xp.empty((like.shape[0], like.shape[2]), like.dtype) for _ in range(3)]
    made = (full[0], *starts, *(full[1:] or (None, None, None)))
    launch(chain_adjoint_call(xp, grads, dt, order, exact, made, group))
    return made


def _pointwise_grid(elements: int) -> tuple[int, int]:
    """Blocks of 256 threads for one element a thread, at most 2^20 of them: a thread of a larger array takes several elements."""
    return min(-(-elements // 256), 1 << 20), 1


def rows_gather_call(xp: Any, rows: Array, index: Array, out: Array) -> Call:
    """The launch of ``rows_gather``."""
    args = (ready(xp, rows), index, out, *out.shape)
    return Call("rows.cu", "rows_gather", options(out, max(out.size, rows.size)), _pointwise_grid(out.size), 256, args)


def rows_gather(xp: Any, rows: Array, index: Array) -> Array:
    """``rows[index]`` on the GPU."""
    out = xp.empty((len(index), rows.shape[1]), rows.dtype)
    launch(rows_gather_call(xp, rows, index, out))
    return out


def rows_scatter_call(xp: Any, grad: Array, order: Array, bounds: Array, out: Array) -> Call:
    """The launch of ``rows_scatter``."""
    args = (ready(xp, grad), ready(xp, order), ready(xp, bounds), out, out.shape[1])
    real = 8 if grad.dtype.name == "float64" else 4
    grid = (out.shape[0], min(out.shape[1], 65535))
    return Call("rows.cu", "rows_scatter", options(out, max(out.size, grad.size)), grid, 64, args, 64 * real)


def rows_scatter(xp: Any, grad: Array, order: Array, bounds: Array, number: int) -> Array:
    """The transpose of `rows_gather` on the GPU, with the entries of each row listed by ``order`` and ``bounds``."""
    out = xp.empty((number, grad.shape[1]), grad.dtype)
    launch(rows_scatter_call(xp, grad, order.astype("int64"), bounds.astype("int64"), out))
    return out


def central_forward_call(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], time_last: bool
) -> Call:
    """The launch of ``central_forward``."""
    begin = [ready(xp, x) for x in start]
    seconds, dt_b, _ = times(xp, dt, u)
    batch, horizon, joints = (u.shape[0], u.shape[2], u.shape[1]) if time_last else u.shape
    args = (ready(xp, u), *begin, ready(xp, goal), seconds, *out, batch, horizon, joints, dt_b, int(time_last))
    return Call("central.cu", "central_forward", options(u, u.size), _pointwise_grid(u.size), 256, args)


def central_forward(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], time_last: bool
) -> None:
    """`gradlib.trajectory.central.forward` on the GPU, into out."""
    launch(central_forward_call(xp, u, start, goal, dt, out, time_last))


def central_adjoint_call(xp: Any, grads: Sequence[Array | None], dt: Array, made: Sequence[Array], has_goal: bool, time_last: bool) -> Call:
    """The launch of ``central_adjoint``; ``made`` are the gradients to fill, by u, start and goal."""
    given = [ready(xp, g) for g in grads]
    by_u = made[0]
    seconds, dt_b, _ = times(xp, dt, by_u)
    batch, horizon, joints = (by_u.shape[0], by_u.shape[2], by_u.shape[1]) if time_last else by_u.shape
    args = (*given, seconds, *made, batch, horizon, joints, dt_b, int(has_goal), int(time_last))
    return Call("central.cu", "central_adjoint", options(by_u, by_u.size), _pointwise_grid(by_u.size), 256, args)


def central_adjoint(
    xp: Any, grads: Sequence[Array | None], dt: Array, shape: tuple[int, ...], has_goal: bool, time_last: bool
) -> tuple[Array, ...]:
    """`gradlib.trajectory.central.adjoint` on the GPU."""
    dtype = next(g.dtype for g in grads if g is not None)
    rows = (shape[0], shape[1 if time_last else 2])
    made = (xp.empty(shape, dtype), *(xp.empty(rows, dtype) for _ in range(3)), xp.zeros(rows, dtype))
    launch(central_adjoint_call(xp, grads, dt, made, has_goal, time_last))
    return made


def bspline_forward_call(
    xp: Any, points: Array, weights: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, time_last: bool
) -> Call:
    """The launch of ``bspline_forward``."""
    seconds, dt_b, _ = times(xp, dt, points)
    batch, number, joints = (points.shape[0], points.shape[2], points.shape[1]) if time_last else points.shape
    args = (ready(xp, points), weights, seconds, *out, batch, number, joints, samples, dt_b, int(time_last))
    largest = max(points.size, out[0].size)
    return Call("bspline.cu", "bspline_forward", options(points, largest, DEGREE=degree), _pointwise_grid(out[0].size), 256, args)


def bspline_forward(
    xp: Any, points: Array, weights: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, time_last: bool
) -> None:
    """`gradlib.trajectory.bspline.forward` on the GPU, into out."""
    launch(bspline_forward_call(xp, points, weights, dt, out, degree, samples, time_last))


def bspline_adjoint_call(
    xp: Any, grads: Sequence[Array | None], weights: Array, dt: Array, out: Array, degree: int, samples: int, time_last: bool
) -> Call:
    """The launch of ``bspline_adjoint``."""
    given = [ready(xp, g) for g in grads]
    seconds, dt_b, _ = times(xp, dt, out)
    batch, number, joints = (out.shape[0], out.shape[2], out.shape[1]) if time_last else out.shape
    args = (*given, weights, seconds, out, batch, number, joints, samples, dt_b, int(time_last))
    largest = max(out.size, *(g.size for g in given if g is not None))
    return Call("bspline.cu", "bspline_adjoint", options(out, largest, DEGREE=degree), _pointwise_grid(out.size), 256, args)


def bspline_adjoint(
    xp: Any, grads: Sequence[Array | None], weights: Array, dt: Array, shape: tuple[int, ...], degree: int, samples: int, time_last: bool
) -> Array:
    """`gradlib.trajectory.bspline.adjoint` on the GPU."""
    out = xp.empty(shape, next(g.dtype for g in grads if g is not None))
    launch(bspline_adjoint_call(xp, grads, weights, dt, out, degree, samples, time_last))
    return out


def smoothness_call(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: Array, limits: Array | None, limit_weight: float, cost: Array,
    made: Sequence[Array | None], group: int,
) -> Call:  # fmt: skip
    """The launch of ``smoothness``: ``cost`` has `smoothness_cost_rows` rows, ``made`` are the gradients by u and start parts, or None."""
    begin = [ready(xp, x) for x in start]
    control = ready(xp, u)
    seconds, dt_b, dt_h = times(xp, dt, u)
    tiles = plan(u.shape, u.itemsize, 1, [control, made[0]], shift=4)
    chosen = options(u, u.size, LIMITS=limits is not None)
    args = (control, *begin, seconds, weights, limits, limit_weight, cost, *made, *u.shape, group, dt_b, dt_h, *tiles[:5])
    shared = -(-tiles.shared // 16) * 16 + _THREADS * seconds.itemsize
    return Call("smoothness.cu", "smoothness", chosen, tiles.grid, _THREADS, args, shared)


def smoothness_cost_rows(joints: int) -> int:
    """How many partial costs a trajectory has: one for each tile of joints."""
    return -(-joints // _THREADS)


def smoothness(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: Array, limits: Array | None, limit_weight: float, gradient: bool,
    group: int,
) -> tuple[Array | None, ...]:  # fmt: skip
    """`gradlib.trajectory.smoothness.cost_and_gradient` on the GPU, for arrays as (series, H, joints); ``group`` series a trajectory."""
    real = "float64" if u.dtype.name == "float64" else "float32"
    cost = xp.empty((smoothness_cost_rows(u.shape[2]), len(u)), real)
    starts = [xp.empty((u.shape[0], u.shape[2]), u.dtype) if gradient else None for _ in range(3)]
    made = (xp.empty(u.shape, u.dtype) if gradient else None, *starts)
    tables = [None if x is None else xp.ascontiguousarray(x, dtype=real) for x in (weights, limits)]
    launch(smoothness_call(xp, u, start, dt, tables[0], tables[1], limit_weight, cost, made, group))
    total = cost.sum(axis=0).reshape(-1, group).sum(axis=1)
    return (total.astype(u.dtype, copy=False), *made)
