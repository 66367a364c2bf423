"""The smoothness cost and its gradient on the CPU by numba's compiler, in one pass over each trajectory. NumPy's form: `smoothness_host`.

Velocity, acceleration and jerk are differences, and the gradients go back through these differences one step later each: that by p_h is
known when step h + 3 is. So one walk forward gives both, with the last steps' slopes in registers, and stores neither states nor slopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types

from gradlib.backend.array import Array
from gradlib.trajectory import smoothness_host as host
from gradlib.trajectory.chain_numba import begin
from gradlib.trajectory.compiled import loop
from gradlib.trajectory.lanes import array_in, array_out, beyond, keep, lanes_of, load, load_row, splat, store, total
from gradlib.trajectory.smoothness_host import Parts, Result


def cost_and_gradient(
    u: Array, start: Parts, dt: Any, weights: Sequence[float] | Array, limits: Array | None, limit_weight: float, by_parts: bool = True,
    by_dt: bool = False,
) -> Result:  # fmt: skip
    """`smoothness_host.cost_and_gradient`, which computes the 16-bit types."""
    batch, _, joints = u.shape
    run = loop(_loop, u.dtype, lanes_of(joints), limits is not None, by_parts or by_dt, by_dt) if u.size else None
    if run is None:
        return host.cost_and_gradient(u, start, dt, weights, limits, limit_weight, by_parts, by_dt)
    times = np.array(dt, u.dtype, ndmin=2)
    twice = _twice(weights, u.dtype, joints) if isinstance(weights, tuple) else 2 * np.asarray(weights, u.dtype)
    bounds = twice[:0] if limits is None else limits.astype(u.dtype, copy=False)
    cost = np.empty(batch, u.dtype)
    by_u = np.empty(u.shape if by_parts or by_dt else (0, 0, 0), u.dtype)
    by_start = np.empty((3, *(u.shape[::2] if by_u.size else (0, 0))), u.dtype)
    by_times = np.zeros((batch if by_dt else 0, times.shape[1]), u.dtype)
    run(np.ascontiguousarray(u), *begin(start, u), times, twice, bounds, limit_weight, cost, by_u, by_start, by_times)
    return (cost, by_u, *by_start, by_times if by_dt else None) if by_u.size else (cost, None, None, None, None, None)


@lru_cache(maxsize=256)
def _twice(weights: tuple[float, ...], dtype: np.dtype, joints: int) -> Array:
    """Twice three numbers, for each joint."""
    return np.repeat(2 * np.array(weights, dtype).reshape(3, 1), joints, axis=1)


def _loop(real: Any, lanes: int, limited: bool, gradient: bool, by_dt: bool) -> Any:
    """The cost and, where wanted, its gradients.

    Its arguments: u (B, H, D), the start (B, D), dt (1 or B, 1 or H), twice the weights (3, D), limits (8, D), which are not read without,
    and their weight; and, to fill, the cost (B,) and the gradients by u (B, H, D) and by the start (3, B, D); and that by dt (B, 1 or H),
    zeros, to add to.
    """

    def smoothness(
        u: Any, start_p: Any, start_v: Any, start_a: Any, dt: Any, weights: Any, limits: Any, limit_weight: Any, cost: Any, by_u: Any,
        by_start: Any, by_times: Any,
    ) -> None:  # fmt: skip
        batch, horizon, joints = u.shape
        each_step = dt.shape[1] > 1
        nothing = splat(dt.dtype.type(0), lanes)
        push = splat(type(dt[0, 0])(2 * limit_weight), lanes)
        for b in range(batch):
            cost[b] = 0
            row = b if len(dt) > 1 else 0
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                weight_v, weight_a = load_row(weights, 0, d, lanes), load_row(weights, 1, d, lanes)
                weight_j = load_row(weights, 2, d, lanes)
                if limited:
                    low_p, high_p = load_row(limits, 0, d, lanes), load_row(limits, 1, d, lanes)
                    low_v, high_v = load_row(limits, 2, d, lanes), load_row(limits, 3, d, lanes)
                    low_a, high_a = load_row(limits, 4, d, lanes), load_row(limits, 5, d, lanes)
                    low_j, high_j = load_row(limits, 6, d, lanes), load_row(limits, 7, d, lanes)
                p, v, a, j = load_row(start_p, b, d, lanes), load_row(start_v, b, d, lanes), load_row(start_a, b, d, lanes), nothing
                before_v, last_v, last_a = nothing, nothing, nothing  # v two steps ago and one, a one step ago
                rate = splat(dt.dtype.type(1) / dt[row, 0], lanes)
                last_rate, before_rate = rate, rate
                # Slopes: the cost's by each state, and by what it is a difference of; the gradient by a state is known a step later
                open_p, open_v, open_a = nothing, nothing, nothing
                last_slope_p, before_slope_p, last_slope_v = nothing, nothing, nothing
                twice, by_time = nothing, nothing
                at = b * horizon * joints + d
                for h in range(horizon + 3 if gradient else horizon):
                    slope_p, slope_v, slope_a, x = nothing, nothing, nothing, nothing
                    if h < horizon:
                        if h > 0:
                            if each_step:
                                rate = splat(dt.dtype.type(1) / dt[row, h], lanes)
                            control = load(u, at + (h - 1) * joints, lanes)
                            speed = (control - p) * rate
                            growth = (speed - v) * rate
                            p, v, a, j = control, speed, growth, (growth - a) * rate
                        slope_v, slope_a, slope_j = weight_v * v, weight_a * a, weight_j * j
                        twice = twice + slope_v * v + slope_a * a + slope_j * j
                        if limited:
                            over_p, over_v = beyond(p, low_p, high_p), beyond(v, low_v, high_v)
                            over_a, over_j = beyond(a, low_a, high_a), beyond(j, low_j, high_j)
                            twice = twice + push * (over_p * over_p + over_v * over_v + over_a * over_a + over_j * over_j)
                            slope_p = push * over_p
                            slope_v, slope_a, slope_j = slope_v + push * over_v, slope_a + push * over_a, slope_j + push * over_j
                        if h > 0:
                            x = slope_j * rate
                    if gradient:
                        whole_a = open_a - x  # of step h - 1
                        open_a = slope_a + x
                        y = whole_a * last_rate if h > 1 else nothing
                        whole_v = open_v - y  # of step h - 2
                        open_v = last_slope_v + y
                        z = whole_v * before_rate if h > 2 else nothing
                        whole_p = open_p - z  # of step h - 3
                        open_p = before_slope_p + z
                        if h > 3:
                            store(by_u, at + (h - 4) * joints, whole_p)
                        elif h == 3:
                            store(by_start, b * joints + d, whole_p)
                        elif h == 2:
                            store(by_start, (batch + b) * joints + d, whole_v)
                        elif h == 1:
                            store(by_start, (2 * batch + b) * joints + d, whole_a)
                        if by_dt and not each_step:
                            by_time = by_time - x * j - y * last_a - z * before_v
                        elif by_dt:
                            if 0 < h < horizon:
                                by_times[b, h] -= total(keep(x * j, k - d))
                            if 1 < h < horizon + 1:
                                by_times[b, h - 1] -= total(keep(y * last_a, k - d))
                            if 2 < h < horizon + 2:
                                by_times[b, h - 2] -= total(keep(z * before_v, k - d))
                        last_slope_v, last_slope_p, before_slope_p = slope_v, slope_p, last_slope_p
                        last_rate, before_rate = rate, last_rate
                        last_a, last_v, before_v = a, v, last_v
                if gradient:
                    store(by_u, at + (horizon - 1) * joints, nothing)
                cost[b] += total(keep(twice, k - d)) / dt.dtype.type(2)
                if by_dt and not each_step:
                    by_times[b, 0] += total(keep(by_time, k - d))

    large, rows, made = array_in(real, 3), array_in(real, 2, "A"), array_out(real, 3)
    return (large, *[rows] * 6, types.float64, array_out(real, 1), made, made, array_out(real, 2)), smoothness
