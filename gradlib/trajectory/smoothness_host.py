"""The smoothness cost of position trajectories and its gradient in one pass on the CPU. CUDA form: kernels/smoothness.cu.

Velocity, acceleration and jerk are backward differences, as `chain.forward` of order 0 gives them. With one step length t and no limits
everything is done in units of t: d1 = t v, d2 = t^2 a, d3 = t^3 j are plain differences, and w v^2 is (w / t^2) d1^2. A change of t then
acts through those factors, and through d1 and d2 of step 0, which are t v_0 and t^2 a_0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.ops.reduce import total
from gradlib.trajectory.cache_blocks import BlockSteps, Steps, compute_dtype, split
from gradlib.trajectory.chain_host import adjoint_block, forward_block, part_of

Parts = Sequence[Array | None]
Result = tuple[Array, Array | None, Array | None, Array | None, Array | None, Array | None]


def cost_and_gradient(
    u: Array, start: Parts, dt: Array, weights: Sequence[float] | Array, limits: Array | None, limit_weight: float, by_parts: bool = True,
    by_dt: bool = False,
) -> Result:  # fmt: skip
    """Cost of each trajectory and its gradients.

    Args:
        u: (B, H, D) positions. start: position, velocity, acceleration (B, D) or None. dt: (1 or B, 1 or H) seconds, or a number.
        weights: of squared velocity, acceleration and jerk, three numbers or (3, D).
        limits: None, or (8, D): lower and upper of p, v, a, j. limit_weight: of squared excesses over them.
        by_parts, by_dt: whether to compute the gradients by u and the start parts, and by dt.
    Returns: cost (B,), and gradients by u (B, H, D), by the start parts (B, D) and by dt (B, 1 or H), or None for each.
    """
    dtype = compute_dtype(u.dtype)
    shared = BlockSteps(dt, dtype)
    times = shared.dt
    control = np.ascontiguousarray(u, dtype=dtype)
    begin = [None if x is None else np.ascontiguousarray(x, dtype=dtype) for x in start]
    cost = np.empty(len(u), dtype)
    made: list[Array | None] = [None] * 5  # the gradients by u, by the start parts and by dt
    if by_parts or by_dt:
        made[:4] = np.empty(u.shape, dtype), *np.empty((3, u.shape[0], u.shape[2]), dtype)
    if by_dt:
        made[4] = np.empty((len(u), times.shape[1]), dtype)
    table = np.array(weights, dtype).reshape(3, -1)
    scaled = limits is None and times.shape[1] == 1 and u.shape[1] > 1
    factors: list[Any] = []
    with np.errstate(all="ignore"):
        for low, high in split(len(u), u.shape[1] * u.shape[2]):
            block, part, views = control, begin, made
            if high - low < len(u):
                block, part, views = control[low:high], part_of(begin, low, high), part_of(made, low, high)
            seconds = times[low:high] if len(times) > 1 else times
            steps = shared.of(low, block.shape)
            if not factors or len(times) > 1:
                factors = _factors(2 * table, seconds if scaled else np.ones_like(seconds[:1, :1]), steps)
            fitted = [f if f.ndim == 0 else f[: steps.size] for f in factors]
            if scaled:
                cost[low:high] = _scaled_block(block, part, seconds, fitted, steps, views)
            else:
                cost[low:high] = _block(block, part, fitted, limits, limit_weight, steps, views)
        if u.dtype != dtype:
            cost, made[:4] = cost.astype(u.dtype), [None if x is None else x.astype(u.dtype) for x in made[:4]]
        return cost, made[0], made[1], made[2], made[3], made[4]


def _factors(weights: Array, seconds: Array, steps: Steps) -> list[Any]:
    """``weights / t^2``, ``t^4`` and ``t^6`` of velocity, acceleration and jerk: for each element of a flat block, or one number."""
    if weights.shape[1] == seconds.size == 1:
        return list(weights[:, 0] / seconds[0] ** _POWERS.astype(weights.dtype))
    return [_factor(row, seconds, power, steps) for row, power in zip(weights, (2, 4, 6), strict=True)]


_POWERS = np.array([2, 4, 6])


def _factor(weights: Array, seconds: Array, power: int, steps: Steps) -> Any:
    """``weights / t^power`` for each element of a flat block, or one number."""
    table = weights / seconds**power
    if (table == table[0, 0]).all():
        return table[0, 0]
    full = np.empty((steps.rows, steps.horizon * steps.m), weights.dtype)
    full[...] = np.tile(table, (1, steps.horizon)) if len(table) == 1 or (table != table[:, :1]).any() else table[:, :1]
    return full.reshape(-1)


def _scaled_block(u: Array, start: Parts, seconds: Array, factors: list[Any], steps: Steps, views: Sequence[Any]) -> Array:
    """Cost of one block with one step length for each trajectory, in units of it; fills the gradients ``views``."""
    m, rows = steps.m, steps.rows
    flat = u.reshape(-1)
    d1, d2, d3 = np.empty((3, steps.size), u.dtype)
    np.subtract(flat[m:-m], flat[: -2 * m], out=d1[2 * m :])
    first = d1.reshape(rows, -1)
    first[:, m : 2 * m] = u[:, 0] if start[0] is None else u[:, 0] - start[0]
    first[:, :m] = 0 if start[1] is None else start[1] * seconds
    np.subtract(d1[m:], d1[:-m], out=d2[m:])
    steps.first(d2)[...] = 0 if start[2] is None else start[2] * seconds**2
    np.subtract(d2[m:], d2[:-m], out=d3[m:])
    steps.first(d3)[...] = 0
    terms = np.empty((3, rows), u.dtype)
    for k, d in enumerate((d1, d2, d3)):
        table = d.reshape(rows, -1)
        if factors[k].ndim == 0:
            np.multiply(np.vecdot(table, table), factors[k], out=terms[k])
            if views[0] is not None:
                np.multiply(d, factors[k], out=d)
        else:
            slope = d * factors[k]
            np.vecdot(slope.reshape(rows, -1), table, out=terms[k])
            np.copyto(d, slope)
    cost = (terms[0] + terms[1] + terms[2]) / 2
    s1, s2, s3 = d1, d2, d3  # now the slopes by them
    if views[0] is None:
        return cost
    for s, above, view, power in ((s2, s3, views[3], 2), (s1, s2, views[2], 1)):
        np.add(s, above, out=s)
        steps.take_next(s, above)
        first = steps.first(s)
        np.multiply(first, seconds**power, out=view)
        first[...] = 0
    by_u = views[0].reshape(-1)
    np.subtract(s1[m:-m], s1[2 * m :], out=by_u[: -2 * m])
    by_u[-2 * m : -m] = s1[-m:]
    views[0][:, -1] = 0
    np.negative(s1.reshape(rows, -1)[:, m : 2 * m], out=views[1])
    if views[4] is not None:
        moved = -np.dot((1, 2, 3), terms).astype(u.dtype)
        for k, (value, slope) in enumerate(zip(start, views[1:4], strict=True)):
            if value is not None and slope is not None:
                moved += k * np.vecdot(value, slope)
        np.divide(moved[:, None], seconds, out=views[4])
    return cost


def _block(
    u: Array, start: Parts, factors: list[Any], limits: Array | None, limit_weight: float, steps: Steps, views: Sequence[Any]
) -> Array:
    """Cost of one block with any step times and limits; fills the gradients ``views``."""
    rows = steps.rows
    states = list(np.empty((4, steps.size), u.dtype))
    forward_block(u, start, None, steps, 0, False, [x.reshape(u.shape) for x in states])
    cost = np.zeros(rows, u.dtype)
    slopes: list[Array | None] = [None] * 4
    for k, x in enumerate(states):
        slope = x * factors[k - 1] if k else None
        if slope is not None:
            cost += np.vecdot(slope.reshape(rows, -1), x.reshape(rows, -1)) / 2
        if limits is not None and np.isfinite(limits[2 * k : 2 * k + 2]).any():
            lower, upper = (np.tile(row, steps.horizon).astype(u.dtype) for row in limits[2 * k : 2 * k + 2])
            table = x.reshape(rows, -1)
            excess = np.maximum(table - upper, 0) - np.maximum(lower - table, 0)
            cost += u.dtype.type(limit_weight) * np.vecdot(excess, excess)
            excess *= u.dtype.type(2 * limit_weight)
            slope = excess.reshape(-1) if slope is None else np.add(slope, excess.reshape(-1), out=slope)
        slopes[k] = slope
    if views[0] is not None:
        by_sources = np.empty((3, *u.shape), u.dtype) if views[4] is not None else None
        adjoint_block(slopes, steps, 0, False, views[0], views[1:4], by_sources)
        if by_sources is not None:  # a change of t_h acts as sources (v_h, a_h, j_h) times it
            by_dt = total(np, sum(s * x.reshape(u.shape) for s, x in zip(by_sources, states[1:], strict=True)), 2, False)
            by_dt[:, 0] = 0  # also where 0 met an infinite start
            views[4][...] = by_dt if views[4].shape[1] > 1 else by_dt.sum(axis=1, keepdims=True)
    return cost
