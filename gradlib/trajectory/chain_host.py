"""The chain position - velocity - acceleration - jerk on the CPU: four control orders, both schemes, and their adjoints.

For h = 1 .. H-1 with t = dt[:, h] the chain keeps

    p_h = p_{h-1} + t v_h + r_h        v_h = v_{h-1} + t a_h + s_h        a_h = a_{h-1} + t j_h + q_h

where one of p, v, a, j is the control, delayed by a step (c_h = u_{h-1}). ``exact`` holds an acceleration or jerk constant over each
step instead. The *sources* (r, s, q) are zero in an integration; they are what makes the derivative by dt the same map again: a
change of t_h enters as sources (v_h, a_h, j_h) times that change, in both schemes. `forward` is linear in (u, start, sources) and
`adjoint` is its transpose. CUDA form: kernels/chain.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory.cache_blocks import BlockSteps, Steps, block_of, compute_dtype, move, split

Parts = Sequence[Array | None]


def _ready(array: Array | None, dtype: np.dtype) -> Array | None:
    """In dtype, and contiguous or, as the gradient of a sum is, one number repeated, which need not be written out."""
    if array is None or (array.dtype == dtype and not any(array.strides)):
        return array
    return np.ascontiguousarray(array, dtype=dtype)


def part_of(parts: Parts, low: int, high: int) -> list[Array | None]:
    """The trajectories ``low`` to ``high`` of each array."""
    return [None if x is None else x[low:high] for x in parts]


def _four(shape: tuple[int, ...], dtype: np.dtype) -> tuple[Array, Array, Array, Array]:
    """An array for each of p, v, a and j: in one piece they would more often be too large for the allocator to keep when they are freed."""
    return np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape, dtype)


def forward(
    u: Array, start: Parts, dt: Array, order: int, exact: bool = False, sources: Parts | None = None, out: Sequence[Array] | None = None
) -> tuple[Array, Array, Array, Array]:
    """Positions, velocities, accelerations and jerks of a control sequence.

    Args:
        u: (B, H, D) controls; float16, bfloat16, float32 or float64. u[:, H-1] is not used.
        start: position, velocity, acceleration at step 0, each (B, D) or None for zero.
        dt: (1 or B, 1 or H) seconds; dt[:, 0] is not used.
        order: 0 position, 1 velocity, 2 acceleration, 3 jerk is the control.
        exact: hold the control constant over a step (orders 2 and 3).
        sources: None, or three arrays (B, H, D) or None added to p, v, a at each step (step 0 not used).
        out: None, or four contiguous arrays (B, H, D) to fill.
    Returns: p, v, a, j, each (B, H, D) in u's dtype.
    """
    dtype = compute_dtype(u.dtype)
    result = _four(u.shape, u.dtype) if out is None else tuple(out)
    work = result if u.dtype == dtype else _four(u.shape, dtype)
    control = np.ascontiguousarray(u, dtype=dtype)
    extra = None if sources is None else [_ready(x, dtype) for x in sources]
    blocks = BlockSteps(dt, dtype)
    with np.errstate(all="ignore"):  # differences across rows are computed and overwritten; overflow gives inf, as on a GPU
        for low, high in split(len(u), u.shape[1] * u.shape[2], block_of(order, u.shape[1])):
            steps = blocks.of(low, (high - low, *u.shape[1:]))
            if high - low == len(u):
                forward_block(control, start, extra, steps, order, exact, work)
                break
            added = None if extra is None else part_of(extra, low, high)
            forward_block(control[low:high], part_of(start, low, high), added, steps, order, exact, part_of(work, low, high))
        if work is not result:
            for target, value in zip(result, work, strict=True):
                np.copyto(target, value, casting="same_kind")
    return result


def forward_block(u: Array, start: Parts, sources: Parts | None, steps: Steps, order: int, exact: bool, states: Sequence[Any]) -> None:
    """`forward` of one block, into states: the control, delayed, what lies above it in the chain and what lies below."""
    begin, m = (*start, None), steps.m
    flat = [x.reshape(-1) for x in states]
    added: list[Any] = [None] * 3 if sources is None else [None if x is None else x.reshape(-1) for x in sources]
    move(u.reshape(-1)[:-m], flat[order][m:])
    states[order][:, 0] = 0 if begin[order] is None else begin[order]
    for i in range(order, 3):
        steps.difference(flat[i], added[i], flat[i + 1])
        states[i + 1][:, 0] = 0 if begin[i + 1] is None else begin[i + 1]
    integrate = steps.integrator(order) if order and sources is None and not exact else None
    if integrate is not None:
        below = range(order - 1, -1, -1)
        integrate(states[order], [begin[i] for i in below], [states[i] for i in below])
        return
    for i in range(order - 1, -1, -1):
        if exact:
            _grow(flat, i, order, steps)
        else:
            np.multiply(flat[i + 1], steps.t, out=flat[i])
        if added[i] is not None:
            np.add(flat[i], added[i], out=flat[i])
        states[i][:, 0] = 0 if begin[i] is None else begin[i]
        steps.accumulate(flat[i])


def _grow(x: list[Array], i: int, order: int, steps: Steps) -> None:
    """Into x[i]: what it grows by at each step, the Taylor sum whose last term holds the control."""
    np.multiply(x[order], steps.t / (order - i), out=x[i])
    for k in range(order - 1, i, -1):
        np.add(x[i][steps.m :], x[k][: -steps.m], out=x[i][steps.m :])
        np.multiply(x[i], steps.t / (k - i), out=x[i])


def adjoint(
    grads: Parts, dt: Array, shape: tuple[int, int, int], order: int, exact: bool = False, with_sources: bool = False
) -> tuple[Array, ...]:
    """The transpose of `forward`: from gradients by p, v, a, j to gradients by control, start and sources.

    Args:
        grads: four arrays (B, H, D), None where zero; at least one is given. The jerk's step 0 is not used (j_0 is a constant).
        dt, order, exact: as in `forward`.
        shape: (B, H, D).
        with_sources: also return the gradients by the three sources.
    Returns: gradients by u (B, H, D), whose last step is zero; by start position, velocity, acceleration (B, D); and, when asked
        for, by the three sources (B, H, D), zero at step 0.
    """
    stored = next(g.dtype for g in grads if g is not None)
    dtype = compute_dtype(stored)
    ready = [_ready(g, dtype) for g in grads]
    trajectories, horizon, joints = shape
    by_u = np.empty(shape, dtype)
    by_start = np.empty((3, trajectories, joints), dtype)
    by_sources = [np.empty(shape, dtype) for _ in range(3)] if with_sources else None
    blocks = BlockSteps(dt, dtype)
    with np.errstate(all="ignore"):
        for low, high in split(trajectories, horizon * joints, block_of(order, horizon)):
            steps = blocks.of(low, (high - low, horizon, joints))
            into = None if by_sources is None else [x[low:high] for x in by_sources]
            adjoint_block(part_of(ready, low, high), steps, order, exact, by_u[low:high], by_start[:, low:high], into)
        made = (by_u, *by_start, *(by_sources or ()))
        return made if stored == dtype else tuple(x.astype(stored) for x in made)


def adjoint_block(grads: Parts, steps: Steps, order: int, exact: bool, by_u: Array, by_start: Any, by_sources: Any) -> None:
    """`adjoint` of one block, into the gradients by the control, the three start parts and, where given, the sources."""
    flat = [None if g is None else g.reshape(-1) for g in grads]
    below = None  # what the states below the control give to its gradient
    if order > 1 and not exact and by_sources is None and steps.suits_time_order and _written_out(flat[:order]) < 2:
        below = steps.integrate_back(flat[:order], by_start[:order])
    elif order:
        below = _sum_back(flat[:order], steps, exact, by_start, by_sources, by_u)
    upper = None  # the total gradient of the state above over its t, zero at step 0
    if order < 3 and flat[3] is not None:
        upper = flat[3] * steps.rate
        steps.first(upper)[...] = 0
    for i in range(2, order - 1, -1):
        if upper is not None and flat[i] is not None and not 0 < order == i:
            bar = flat[i] + upper
        else:
            bar = _plus(flat[i], below if i == order else None, steps, by_u.dtype)
            if upper is not None:
                np.add(bar, upper, out=bar)
        if upper is not None:
            steps.take_next(bar, upper)
        by_start[i][...] = steps.first(bar)
        if by_sources is not None:
            by_sources[i][...] = 0 if upper is None else -upper.reshape(by_u.shape)
        if i > order:
            upper = bar * steps.rate if upper is None else np.multiply(bar, steps.rate, out=upper)
            steps.first(upper)[...] = 0
    if order == 3:
        bar = _plus(flat[3], below, steps, by_u.dtype)
    move(bar[steps.m :], by_u.reshape(-1)[: -steps.m])  # undoes the delay
    by_u[:, -1] = 0  # a control that is never used


def _written_out(grads: Parts) -> int:
    """How many gradients are not one number repeated: each has to be moved to time order."""
    return sum(g is not None and any(g.strides) for g in grads)


def _sum_back(grads: Parts, steps: Steps, exact: bool, by_start: Any, by_sources: Any, by_u: Array) -> Array:
    """`Steps.integrate_back` in place, or by ``exact``, where each state drives the ones below one step later, and by the sources too."""
    bars: list[Array] = []  # total gradients of the accumulated states, lowest first; step 0 is zero once the start is taken
    for i, grad in enumerate(grads):
        term = _driven(bars, steps, exact) if bars else None
        bar = _plus(grad, None if exact else term, steps, by_u.dtype)
        if exact and term is not None:
            steps.add_next(bar, term)
        steps.accumulate(bar, backward=True)
        first = steps.first(bar)
        by_start[i][...] = first
        first[...] = 0
        bars.append(bar)
        if by_sources is not None:
            by_sources[i][...] = bar.reshape(by_u.shape)
    return _driven(bars, steps, exact)


def _driven(bars: list[Array], steps: Steps, exact: bool) -> Array:
    """What comes to a state from those it drives, of totals ``bars``, lowest first, zero at step 0: t times the last, or the Taylor sum."""
    if not exact:
        return bars[-1] * steps.t
    term = bars[0] * (steps.t / len(bars))
    for k in range(1, len(bars)):
        np.add(term, bars[k], out=term)
        np.multiply(term, steps.t / (len(bars) - k), out=term)
    return term


def _plus(grad: Array | None, term: Array | None, steps: Steps, dtype: np.dtype) -> Array:
    """The sum of a state's own gradient and what comes from others, in memory of its own or the latter's."""
    if term is not None:
        return term if grad is None else np.add(term, grad, out=term)
    return np.zeros(steps.size, dtype) if grad is None else grad.copy()
