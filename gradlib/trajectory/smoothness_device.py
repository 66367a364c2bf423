"""The smoothness cost on the GPU: the launch of kernels/smoothness.cu. CPU form: `gradlib.trajectory.smoothness_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import THREADS, one_row, options, plan, ready, real_dtype, start_rows, times


def cost_and_gradient_call(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: tuple[float, ...] | Array, limits: Array | None,
    limit_weight: float, cost: Array, made: Sequence[Array | None], group: int, index: Array | None = None,
) -> Call:  # fmt: skip
    """The launch of ``smoothness``: ``cost`` has `joint_tiles` rows, ``made`` are the gradients by u, start parts and dt, or None."""
    control, *begin = ready(xp, (u, *start))
    table, seconds, dt_b, dt_h = times(xp, dt, u)
    timed = made[4] is not None
    staged, times_of_step = u.itemsize + (cost.itemsize if timed else 0), 2 * cost.itemsize if dt_h else 0
    tiles = plan(u.shape, u.itemsize, staged, [control, made[0]], 4, times_of_step, summed=cost.itemsize)
    chosen = options(u, u.size, LIMITS=limits is not None, TIMED=timed)
    weighing = (None, *weights) if isinstance(weights, tuple) else (weights, 0.0, 0.0, 0.0)
    constants = (*weighing, limits, limit_weight)
    one = one_row(begin, index, u.shape[0], u.shape[2])
    args = (control, *begin, index, one, table, seconds, *constants, cost, *made, *u.shape, group, dt_b, dt_h, *tiles.sizes, tiles.part)
    return Call("smoothness.cu", "smoothness", chosen, tiles.grid, THREADS, args, max(tiles.shared, THREADS * cost.itemsize))


def joint_tiles(joints: int) -> int:
    """The number of a trajectory's partial sums over the joints: one for each tile of them."""
    return -(-joints // THREADS)


def _over_tiles(partial: Array, group: int) -> Array:
    """Partial sums (tiles, series, ...) summed over tiles and the series of a trajectory."""
    tiles, series, *rest = partial.shape
    if tiles == 1 and group == 1:
        return partial[0]
    return partial.reshape(tiles, series // group, group, *rest).sum(axis=(0, 2))


def cost_and_gradient(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, weights: tuple[float, ...] | Array, limits: Array | None,
    limit_weight: float, by_parts: bool, by_dt: bool, group: int, index: Array | None = None,
) -> tuple[Array | None, ...]:  # fmt: skip
    """`gradlib.trajectory.smoothness_host.cost_and_gradient` on the GPU, for (series, H, joints); ``group`` series a trajectory."""
    series, horizon, joints = u.shape
    real = real_dtype(u)
    cost = xp.empty((joint_tiles(joints), series), real)
    over_time = xp.empty((*cost.shape, horizon), real) if by_dt else None
    parts = [xp.empty(u.shape, u.dtype), *start_rows(xp, u)] if by_parts else [None] * 4
    launch(cost_and_gradient_call(xp, u, start, dt, weights, limits, limit_weight, cost, (*parts, over_time), group, index))
    return _over_tiles(cost, group).astype(u.dtype, copy=False), *parts, None if over_time is None else _over_tiles(over_time, group)
