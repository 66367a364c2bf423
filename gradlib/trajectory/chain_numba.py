"""The chain on the CPU by numba's compiler: `chain_host` in one pass over each trajectory. CUDA form: kernels/chain.cu.

Both maps walk the steps of a few joints of one trajectory at a time (`lanes`), with the state in registers, by the formulas of one step:
`chain_step` and its transpose. A sum adds step by step; everything else is computed as in `chain_host`, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from gradlib.backend.array import Array
from gradlib.trajectory import chain_host as host
from gradlib.trajectory.chain_host import Parts
from gradlib.trajectory.compiled import loop
from gradlib.trajectory.lanes import MOST, array_in, array_out, lanes_of, load, load_row, splat, store

_FEW = 1 << 15  # elements up to which the calls of NumPy cost more than what they do


def forward(
    u: Array, start: Parts, dt: Any, order: int, exact: bool = False, sources: Parts | None = None, out: Sequence[Array] | None = None
) -> tuple[Array, ...]:
    """`chain_host.forward`, which computes the 16-bit types and what has sources."""
    alone = order == 0 and u.shape[2] == 1 and u.size > _FEW  # differences of one joint, in which NumPy finds longer vectors
    run = loop(_forward_loop, u.dtype, lanes_of(u.shape[2]), order, exact) if sources is None and u.size and not alone else None
    if run is None:
        return host.forward(u, start, dt, order, exact, sources, out)
    made = tuple(np.empty(u.shape, u.dtype) for _ in range(4)) if out is None else tuple(out)
    run(np.ascontiguousarray(u), *begin(start, u), np.array(dt, u.dtype, ndmin=2), *made)
    return made


def adjoint(
    grads: Parts, dt: Any, shape: tuple[int, int, int], order: int, exact: bool = False, with_sources: bool = False
) -> tuple[Array, ...]:
    """`chain_host.adjoint`, which computes the 16-bit types."""
    dtype = next(g.dtype for g in grads if g is not None)
    run = loop(_adjoint_loop, dtype, lanes_of(shape[2]), order, exact, with_sources) if 0 not in shape else None
    if run is None:
        return host.adjoint(grads, dt, shape, order, exact, with_sources)
    by_u, by_start = np.empty(shape, dtype), np.empty((3, shape[0], shape[2]), dtype)
    by_sources = [np.empty(shape, dtype) for _ in range(3)] if with_sources else []
    run(*[ready(g, dtype) for g in grads], np.array(dt, dtype, ndmin=2), by_u, by_start, *(by_sources or (by_u, by_u, by_u)))
    return (by_u, *by_start, *by_sources)


def begin(start: Parts, u: Array) -> list[Array | None]:
    """The start of a control sequence, zeros where a part is None."""
    at_rest = np.broadcast_to(u.dtype.type(0), (u.shape[0], u.shape[2])) if any(x is None for x in start) else None
    return [at_rest if x is None else x for x in start]


def ready(grad: Array | None, dtype: np.dtype) -> Array:
    """A gradient for a compiled adjoint: contiguous, or as many lanes of one number that is all it holds, as that of a sum does."""
    if grad is None:
        return np.zeros((1, 1, MOST), dtype)
    return np.ascontiguousarray(grad, dtype) if any(grad.strides) else np.full((1, 1, MOST), grad[0, 0, 0], dtype)


# ---- one step -----------------------------------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def chain_step(order: Any, exact: Any, c: Any, p: Any, v: Any, a: Any, times: Any) -> Any:
    """The state p, v, a, j after a step, from the control c of that step and the state before it."""
    t, rate, half, third = times  # t, 1 / t, t / 2, t / 3
    if order == 0:
        speed = (c - p) * rate
        push = (speed - v) * rate
        return c, speed, push, (push - a) * rate
    if order == 1:
        push = (c - v) * rate
        return p + t * c, c, push, (push - a) * rate
    if order == 2 and exact:
        return p + t * (v + half * c), v + t * c, c, (c - a) * rate
    if order == 2:
        speed = v + t * c
        return p + t * speed, speed, c, (c - a) * rate
    push = a + t * c
    if exact:
        return p + t * (v + half * (a + third * c)), v + t * (a + half * c), push, c
    speed = v + t * push
    return p + t * speed, speed, push, c


@njit(error_model="numpy")
def chain_step_adjoint(order: Any, exact: Any, p: Any, v: Any, a: Any, j: Any, times: Any) -> Any:
    """The transpose of `chain_step`: from gradients by the state after a step to those by the control and by p, v, a before it."""
    t, rate, half, third = times
    if order == 0:
        by_push = a + j * rate
        by_speed = v + by_push * rate
        return p + by_speed * rate, -(by_speed * rate), -(by_push * rate), -(j * rate)
    if order == 1:
        by_push = a + j * rate
        return v + t * p + by_push * rate, p, -(by_push * rate), -(j * rate)
    if order == 2 and exact:
        return a + j * rate + t * (v + half * p), p, v + t * p, -(j * rate)
    by_speed = v + t * p
    if order == 2:
        return a + j * rate + t * by_speed, p, by_speed, -(j * rate)
    if exact:
        return j + t * (a + half * (v + third * p)), p, by_speed, a + t * (v + half * p)
    by_push = a + t * by_speed
    return j + t * by_push, p, by_speed, by_push


@njit(error_model="numpy")
def _times(t: Any, lanes: Any) -> Any:
    real = type(t)
    return splat(t, lanes), splat(real(1) / t, lanes), splat(t / real(2), lanes), splat(t / real(3), lanes)


# ---- all steps ----------------------------------------------------------------------------------------------------------------------


def _forward_loop(real: Any, lanes: int, order: int, exact: bool) -> Any:
    """The integration. Its arguments: u (B, H, D), the start (B, D), dt (1 or B, 1 or H), and p, v, a, j (B, H, D) to fill."""

    def forward(u: Any, start_p: Any, start_v: Any, start_a: Any, dt: Any, p: Any, v: Any, a: Any, j: Any) -> None:
        batch, horizon, joints = u.shape
        each_step = dt.shape[1] > 1
        for b in range(batch):
            row = b if len(dt) > 1 else 0
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                at = b * horizon * joints + d
                x, y, z = load_row(start_p, b, d, lanes), load_row(start_v, b, d, lanes), load_row(start_a, b, d, lanes)
                w = splat(dt.dtype.type(0), lanes)
                store(p, at, x)
                store(v, at, y)
                store(a, at, z)
                store(j, at, w)
                times = _times(dt[row, 0], lanes)
                for h in range(1, horizon):
                    if each_step:
                        times = _times(dt[row, h], lanes)
                    control = load(u, at, lanes)
                    at += joints
                    x, y, z, w = chain_step(order, exact, control, x, y, z, times)
                    store(p, at, x)
                    store(v, at, y)
                    store(a, at, z)
                    store(j, at, w)

    large, rows = array_in(real, 3), array_in(real, 2, "A")
    return (large, rows, rows, rows, rows, *[array_out(real, 3)] * 4), forward


def _adjoint_loop(real: Any, lanes: int, order: int, exact: bool, with_sources: bool) -> Any:
    """The transpose.

    Its arguments: the gradients by p, v, a, j, each (B, H, D) or, for one number repeated, (1, 1, MOST); dt; and, to fill, the gradients by
    u (B, H, D), by the start (3, B, D) and by the sources (B, H, D), which are not written without.
    """

    def adjoint(p: Any, v: Any, a: Any, j: Any, dt: Any, by_u: Any, by_start: Any, by_p: Any, by_v: Any, by_a: Any) -> None:
        batch, horizon, joints = by_u.shape
        each_step = dt.shape[1] > 1
        on_p, on_v = int(p.shape == by_u.shape), int(v.shape == by_u.shape)  # 0 where the same lanes stand for all
        on_a, on_j = int(a.shape == by_u.shape), int(j.shape == by_u.shape)
        for b in range(batch):
            row = b if len(dt) > 1 else 0
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                at = (b * horizon + horizon - 1) * joints + d
                nothing = splat(dt.dtype.type(0), lanes)
                store(by_u, at, nothing)
                x, y, z = nothing, nothing, nothing  # what comes to the state after a step from the steps behind it
                times = _times(dt[row, 0], lanes)
                for h in range(horizon - 1, 0, -1):
                    if each_step:
                        times = _times(dt[row, h], lanes)
                    x = x + load(p, at * on_p, lanes)
                    y = y + load(v, at * on_v, lanes)
                    z = z + load(a, at * on_a, lanes)
                    w = load(j, at * on_j, lanes)
                    control, before_x, before_y, before_z = chain_step_adjoint(order, exact, x, y, z, w, times)
                    if with_sources:  # a source adds to its state, or takes away from the state before it where that is subtracted
                        store(by_p, at, x if order > 0 and exact else before_x)
                        store(by_v, at, y if order > 1 and exact else before_y)
                        store(by_a, at, z if order > 2 and exact else before_z)
                    x, y, z = before_x, before_y, before_z
                    at -= joints
                    store(by_u, at, control)
                if with_sources:
                    store(by_p, at, nothing)
                    store(by_v, at, nothing)
                    store(by_a, at, nothing)
                start = b * joints + d
                store(by_start, start, x + load(p, at * on_p, lanes))
                store(by_start, start + batch * joints, y + load(v, at * on_v, lanes))
                store(by_start, start + 2 * batch * joints, z + load(a, at * on_a, lanes))

    large, rows, made = array_in(real, 3), array_in(real, 2, "A"), array_out(real, 3)
    return (large, large, large, large, rows, made, made, made, made, made), adjoint
