"""Central differences on the CPU by numba's compiler, in one pass over each trajectory. NumPy's form: `central_host`.

Both maps walk the steps of a few joints of one trajectory at a time (`lanes`), with the five points around a step, or what their gradients
have got so far, in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from gradlib.backend.array import Array
from gradlib.trajectory import central_host as host
from gradlib.trajectory.central_host import Parts
from gradlib.trajectory.chain_numba import begin, ready
from gradlib.trajectory.compiled import loop
from gradlib.trajectory.lanes import array_in, array_out, lanes_of, load, load_row, splat, store


def forward(u: Array, start: Parts, goal: Array | None, dt: Any, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
    """`central_host.forward`, which computes the 16-bit types."""
    whole = u.size and (out is None or all(x.flags.c_contiguous for x in out))  # with time last they are views
    run = loop(_forward_loop, u.dtype, lanes_of(u.shape[2]), goal is not None) if whole else None
    if run is None:
        return host.forward(u, start, goal, dt, out)
    made = tuple(np.empty(u.shape, u.dtype) for _ in range(4)) if out is None else tuple(out)
    parts = begin(start, u)
    run(np.ascontiguousarray(u), *parts, parts[0] if goal is None else goal, np.array(dt, u.dtype, ndmin=2), *made)
    return made


def adjoint(grads: Parts, dt: Any, shape: tuple[int, int, int], has_goal: bool) -> tuple[Array, ...]:
    """`central_host.adjoint`, which computes the 16-bit types."""
    dtype = next(g.dtype for g in grads if g is not None)
    run = loop(_adjoint_loop, dtype, lanes_of(shape[2]), has_goal) if 0 not in shape else None
    if run is None:
        return host.adjoint(grads, dt, shape, has_goal)
    by_u, by_parts = np.empty(shape, dtype), np.empty((4, shape[0], shape[2]), dtype)
    run(*[ready(g, dtype) for g in grads], np.array(dt, dtype, ndmin=2), by_u, by_parts)
    return (by_u, *by_parts)


@njit(error_model="numpy")
def _scales(t: Any, lanes: Any) -> Any:
    """The factors of the v, a and j stencils."""
    real = type(t)
    by_v, by_a, by_j = real(1) / (real(12) * t), real(1) / (real(12) * t * t), real(1) / (real(2) * t * t * t)
    return splat(by_v, lanes), splat(by_a, lanes), splat(by_j, lanes)


@njit(error_model="numpy")
def _numbers(t: Any, lanes: Any) -> Any:
    """2, 8, 16 and 30."""
    real = type(t)
    return splat(real(2), lanes), splat(real(8), lanes), splat(real(16), lanes), splat(real(30), lanes)


def _forward_loop(real: Any, lanes: int, has_goal: bool) -> Any:
    """The differences. Its arguments: u (B, H, D), the start and the goal (B, D), dt (1 or B, 1), and p, v, a, j (B, H, D) to fill."""

    def forward(u: Any, start_p: Any, start_v: Any, start_a: Any, goal: Any, dt: Any, p: Any, v: Any, a: Any, j: Any) -> None:
        batch, horizon, joints = u.shape
        two, eight, sixteen, thirty = _numbers(dt[0, 0], lanes)
        half = splat(type(dt[0, 0])(0.5), lanes)
        for b in range(batch):
            t = dt[b if len(dt) > 1 else 0, 0]
            by_v, by_a, by_j = _scales(t, lanes)
            once = splat(t, lanes)
            twice = once + once
            thrice = twice + once
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                x, y, z = load_row(start_p, b, d, lanes), load_row(start_v, b, d, lanes), load_row(start_a, b, d, lanes)
                x_0, x_1 = x - thrice * y + thrice * thrice * half * z, x - twice * y + twice * twice * half * z
                x_2, x_3 = x - once * y + once * once * half * z, x
                at = b * horizon * joints + d
                for h in range(horizon):
                    if h < (horizon - 5 if has_goal else horizon - 4):
                        x_4 = load(u, at, lanes)
                    elif has_goal:
                        x_4 = load_row(goal, b, d, lanes)
                    else:
                        x_4 = x_3  # the last position is held
                    near, far = x_3 - x_1, x_4 - x_0
                    store(p, at, x_2)
                    store(v, at, (eight * near - far) * by_v)
                    store(j, at, (far - two * near) * by_j)
                    store(a, at, (sixteen * (x_3 + x_1) - (x_4 + x_0) - thirty * x_2) * by_a)
                    x_0, x_1, x_2, x_3 = x_1, x_2, x_3, x_4
                    at += joints

    large, rows = array_in(real, 3), array_in(real, 2, "A")
    return (large, *[rows] * 5, *[array_out(real, 3)] * 4), forward


def _adjoint_loop(real: Any, lanes: int, has_goal: bool) -> Any:
    """The transpose.

    Its arguments: the gradients by p, v, a, j, each (B, H, D) or, for one number repeated, (1, 1, MOST); dt; and, to fill, the gradients by
    u (B, H, D) and by the start and the goal (4, B, D).
    """

    def adjoint(p: Any, v: Any, a: Any, j: Any, dt: Any, by_u: Any, by_parts: Any) -> None:
        batch, horizon, joints = by_u.shape
        on_p, on_v = int(p.shape == by_u.shape), int(v.shape == by_u.shape)  # 0 where the same lanes stand for all
        on_a, on_j = int(a.shape == by_u.shape), int(j.shape == by_u.shape)
        two, eight, sixteen, thirty = _numbers(dt[0, 0], lanes)
        half, nothing = splat(type(dt[0, 0])(0.5), lanes), splat(type(dt[0, 0])(0), lanes)
        for b in range(batch):
            t = dt[b if len(dt) > 1 else 0, 0]
            by_v, by_a, by_j = _scales(t, lanes)
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                x_0, x_1, x_2, x_3 = nothing, nothing, nothing, nothing  # the gradients by the points around the step, so far
                start_p, start_v, start_a, held = nothing, nothing, nothing, nothing
                at = b * horizon * joints + d
                for h in range(horizon):
                    of_v, of_j = load(v, at * on_v, lanes) * by_v, load(j, at * on_j, lanes) * by_j
                    of_a = load(a, at * on_a, lanes) * by_a
                    done = x_0 + of_v - of_a - of_j
                    x_0 = x_1 - eight * of_v + sixteen * of_a + two * of_j
                    x_1 = x_2 + load(p, at * on_p, lanes) - thirty * of_a
                    x_2 = x_3 + eight * of_v + sixteen * of_a - two * of_j
                    x_3 = of_j - of_v - of_a
                    if h < 4:  # a point before the start, so many steps of it
                        before = splat(type(t)(3 - h) * t, lanes)
                        start_p, start_v, start_a = start_p + done, start_v - before * done, start_a + before * before * half * done
                    elif h < horizon - 1:
                        store(by_u, at - 4 * joints, done)
                    else:
                        held = done
                    at += joints
                held = held + x_0 + x_1 + x_2 + x_3
                for n in range(1, 6):
                    store(by_u, at - n * joints, nothing)
                if not has_goal:
                    store(by_u, at - 5 * joints, held)
                    held = nothing
                row = b * joints + d
                store(by_parts, row, start_p)
                store(by_parts, row + batch * joints, start_v)
                store(by_parts, row + 2 * batch * joints, start_a)
                store(by_parts, row + 3 * batch * joints, held)

    large, made = array_in(real, 3), array_out(real, 3)
    return (*[large] * 4, array_in(real, 2, "A"), made, made), adjoint
