"""Uniform B-splines on the CPU by numba's compiler, in one pass over each trajectory. NumPy's form: `bspline_host`.

Both maps walk the segments of a few joints of one trajectory at a time (`lanes`), with the control points of the segment, or the gradients
by them so far, in registers: six at most, of which each segment brings one. Sums run over the points, and over the samples, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types

from gradlib.backend.array import Array
from gradlib.trajectory import bspline_host as host
from gradlib.trajectory.bspline_host import Parts
from gradlib.trajectory.chain_numba import ready
from gradlib.trajectory.compiled import loop
from gradlib.trajectory.lanes import array_in, array_out, lanes_of, load, load_row, splat, store


def motion(knots: Array, start: Parts, goal: Parts | None, dt: Array, degree: int, samples: int, out: Sequence[Array]) -> None:
    """`bspline_host.motion`, which computes the 16-bit types."""
    whole = knots.size and all(x.flags.c_contiguous for x in out)  # with time last they are views
    run = loop(_forward_loop, knots.dtype, lanes_of(knots.shape[2]), degree, goal is not None) if whole else None
    if run is None:
        return host.motion(knots, start, goal, dt, degree, samples, out)
    at_rest = np.broadcast_to(knots.dtype.type(0), (knots.shape[0], knots.shape[2]))
    parts = [at_rest if x is None else x for x in (*start, *(start if goal is None else goal))]
    tables = _tables(degree, samples, knots.dtype)
    return run(np.ascontiguousarray(knots), *parts, np.array(dt, knots.dtype, ndmin=2), *tables, *out)


def motion_adjoint(grads: Parts, dt: Array, shape: tuple[int, int, int], has_goal: bool, degree: int, samples: int) -> tuple[Array, ...]:
    """`bspline_host.motion_adjoint`, which computes the 16-bit types."""
    dtype = next(g.dtype for g in grads if g is not None)
    run = loop(_adjoint_loop, dtype, lanes_of(shape[2]), degree, has_goal) if 0 not in shape else None
    if run is None:
        return host.motion_adjoint(grads, dt, shape, has_goal, degree, samples)
    horizon = host.horizon_of(shape[1] + degree * (2 if has_goal else 1), degree, samples)
    by_knots, by_ends = np.empty(shape, dtype), np.empty((8 if has_goal else 4, shape[0], shape[2]), dtype)
    run(*[ready(g, dtype) for g in grads], horizon, np.array(dt, dtype, ndmin=2), *_tables(degree, samples, dtype), by_knots, by_ends)
    return (by_knots, *by_ends)


@lru_cache(maxsize=64)
def _tables(degree: int, samples: int, dtype: np.dtype) -> tuple[Array, Array]:
    """`sample_weights` and, for start and end, `boundary_weights` by derivatives by the sample number: (2, degree, 4)."""
    fixed = host.kernel_weights(degree, samples)[-2 * degree :].reshape(2, degree, 4)
    return host.sample_weights(degree, samples).astype(dtype), fixed.astype(dtype)


@njit(error_model="numpy")
def _rows(b: Any, d: Any, x: Any, v: Any, a: Any, j: Any, lanes: Any) -> Any:
    """Lanes of the four parts of a boundary state."""
    return load_row(x, b, d, lanes), load_row(v, b, d, lanes), load_row(a, b, d, lanes), load_row(j, b, d, lanes)


@njit(error_model="numpy")
def _fixed(degree: Any, weights: Any, t: Any, parts: Any, lanes: Any) -> Any:
    """A control point that a boundary state fixes; at degree 3 it does not depend on the jerk."""
    x, v, a, j = parts
    made = splat(weights[0], lanes) * x + splat(weights[1] * t, lanes) * v + splat(weights[2] * t * t, lanes) * a
    return made + splat(weights[3] * t * t * t, lanes) * j if degree > 3 else made


@njit(error_model="numpy")
def _mixed(degree: Any, weights: Any, points: Any, lanes: Any) -> Any:
    """A derivative at a sample, from the control points of its segment, which are the last of six."""
    u, v, w, x, y, z = points
    made = splat(weights[degree - 3], lanes) * w + splat(weights[degree - 2], lanes) * x
    made = made + splat(weights[degree - 1], lanes) * y + splat(weights[degree], lanes) * z
    if degree > 3:
        made = made + splat(weights[degree - 4], lanes) * v
    if degree > 4:
        made = made + splat(weights[0], lanes) * u
    return made


def _forward_loop(real: Any, lanes: int, degree: int, has_goal: bool) -> Any:
    """The samples.

    Its arguments: knots (B, K, D), start and goal (B, D), dt (1 or B, 1), weights of samples and of boundaries, and p, v, a, j (B, H, D) to
    fill.
    """

    def forward(
        knots: Any, start_p: Any, start_v: Any, start_a: Any, start_j: Any, goal_p: Any, goal_v: Any, goal_a: Any, goal_j: Any, dt: Any,
        weights: Any, outer: Any, p: Any, v: Any, a: Any, j: Any,
    ) -> None:  # fmt: skip
        batch, number, joints = knots.shape
        samples, points = weights.shape[1] - 1, number + (2 * degree if has_goal else degree)
        nothing = splat(dt.dtype.type(0), lanes)
        for b in range(batch):
            t = dt[b if len(dt) > 1 else 0, 0]
            rate = dt.dtype.type(1) / t
            by_v, by_a, by_j = splat(rate, lanes), splat(rate * rate, lanes), splat(rate * rate * rate, lanes)
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                start = _rows(b, d, start_p, start_v, start_a, start_j, lanes)
                goal = _rows(b, d, goal_p, goal_v, goal_a, goal_j, lanes)
                x_0, x_1, x_2, x_3, x_4, x_5 = nothing, nothing, nothing, nothing, nothing, nothing
                at = b * p.shape[1] * joints + d
                for n in range(points):
                    if n < degree:
                        new = _fixed(degree, outer[0, n], t, start, lanes)
                    elif n < degree + number:
                        new = load(knots, (b * number + n - degree) * joints + d, lanes)
                    else:
                        new = _fixed(degree, outer[1, n - degree - number], t, goal, lanes)
                    x_0, x_1, x_2, x_3, x_4, x_5 = x_1, x_2, x_3, x_4, x_5, new
                    if n < degree:
                        continue
                    segment = x_0, x_1, x_2, x_3, x_4, x_5
                    for i in range(samples + 1 if n == points - 1 else samples):
                        store(p, at, _mixed(degree, weights[0, i], segment, lanes))
                        store(v, at, _mixed(degree, weights[1, i], segment, lanes) * by_v)
                        store(a, at, _mixed(degree, weights[2, i], segment, lanes) * by_a)
                        store(j, at, _mixed(degree, weights[3, i], segment, lanes) * by_j)
                        at += joints

    large, rows = array_in(real, 3), array_in(real, 2, "A")
    return (large, *[rows] * 9, large, large, *[array_out(real, 3)] * 4), forward


@njit(error_model="numpy")
def _share(weights: Any, m: Any, grads: Any, lanes: Any) -> Any:
    """What the gradients at a sample add to that by control point m of its segment; weights (4, degree + 1)."""
    p, v, a, j = grads
    made = splat(weights[0, m], lanes) * p + splat(weights[1, m], lanes) * v
    return made + splat(weights[2, m], lanes) * a + splat(weights[3, m], lanes) * j


def _adjoint_loop(real: Any, lanes: int, degree: int, has_goal: bool) -> Any:
    """The transpose.

    Its arguments: the gradients by p, v, a, j, each (B, H, D) or, for one number repeated, (1, 1, MOST); H; dt; the weights
    of samples and of boundaries; and, to fill, the gradients by the knots (B, K, D) and by start and goal (4 or 8, B, D).
    """

    def adjoint(
        p: Any, v: Any, a: Any, j: Any, horizon: Any, dt: Any, weights: Any, outer: Any, by_knots: Any, by_ends: Any
    ) -> None:  # fmt: skip
        batch, number, joints = by_knots.shape
        samples, points = weights.shape[1] - 1, number + (2 * degree if has_goal else degree)
        segments = points - degree
        on_p, on_v = int(p.shape[1] == horizon), int(v.shape[1] == horizon)  # 0 where the same lanes stand for all
        on_a, on_j = int(a.shape[1] == horizon), int(j.shape[1] == horizon)
        nothing = splat(dt.dtype.type(0), lanes)
        for b in range(batch):
            t = dt[b if len(dt) > 1 else 0, 0]
            rate = dt.dtype.type(1) / t
            by_v, by_a, by_j = splat(rate, lanes), splat(rate * rate, lanes), splat(rate * rate * rate, lanes)
            once = splat(t, lanes)
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                x_0, x_1, x_2, x_3, x_4, x_5 = nothing, nothing, nothing, nothing, nothing, nothing  # the gradients by the points, so far
                end_p, end_v, end_a, end_j = nothing, nothing, nothing, nothing
                at, row = b * horizon * joints + d, b * joints + d
                for n in range(points):
                    if n < segments:
                        for i in range(samples + 1 if n == segments - 1 else samples):
                            of_p, of_v = load(p, at * on_p, lanes), load(v, at * on_v, lanes) * by_v
                            grads = of_p, of_v, load(a, at * on_a, lanes) * by_a, load(j, at * on_j, lanes) * by_j
                            here = weights[:, i]
                            x_0, x_1 = x_0 + _share(here, 0, grads, lanes), x_1 + _share(here, 1, grads, lanes)
                            x_2, x_3 = x_2 + _share(here, 2, grads, lanes), x_3 + _share(here, 3, grads, lanes)
                            if degree > 3:
                                x_4 = x_4 + _share(here, 4, grads, lanes)
                            if degree > 4:
                                x_5 = x_5 + _share(here, 5, grads, lanes)
                            at += joints
                    if degree <= n < degree + number:
                        store(by_knots, (b * number + n - degree) * joints + d, x_0)
                    else:
                        fixed = outer[0, n] if n < degree else outer[1, n - degree - number]
                        end_p, end_v = end_p + splat(fixed[0], lanes) * x_0, end_v + splat(fixed[1], lanes) * x_0
                        end_a = end_a + splat(fixed[2], lanes) * x_0
                        if degree > 3:
                            end_j = end_j + splat(fixed[3], lanes) * x_0
                    x_0, x_1, x_2, x_3, x_4, x_5 = x_1, x_2, x_3, x_4, x_5, nothing
                    if n == degree - 1 or (has_goal and n == points - 1):
                        store(by_ends, row, end_p)
                        store(by_ends, row + batch * joints, once * end_v)
                        store(by_ends, row + 2 * batch * joints, once * once * end_a)
                        store(by_ends, row + 3 * batch * joints, once * once * once * end_j)
                        end_p, end_v, end_a, end_j = nothing, nothing, nothing, nothing
                        row += 4 * batch * joints

    large, made = array_in(real, 3), array_out(real, 3)
    return (*[large] * 4, types.intp, array_in(real, 2, "A"), large, large, made, made), adjoint
