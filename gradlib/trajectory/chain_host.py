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

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory.cache_blocks import Steps, apart, block_of, compute_dtype, split

Parts = Sequence[Array | None]


def _ready(array: Array | None, dtype: np.dtype) -> Array | None:
    return None if array is None else np.ascontiguousarray(array, dtype=dtype)


def _step_times(dt: Array, dtype: np.dtype) -> Array:
    """A (1 or B, 1 or H) copy of dt in dtype whose unused step 0 holds 1, so that whatever was there does no harm."""
    times = np.array(dt, dtype=dtype, ndmin=2)
    if times.shape[1] > 1:
        times[:, 0] = 1
    return times


def _part(parts: Parts, low: int, high: int) -> list[Array | None]:
    return [None if x is None else x[low:high] for x in parts]


class _Times:
    """The `Steps` of each block; those of blocks of one size are shared when dt is the same for all trajectories."""

    def __init__(self, dt: Array, dtype: np.dtype) -> None:
        self.dt = _step_times(dt, dtype)
        self.shared: dict[tuple[int, int, int], Steps] = {}

    def of(self, low: int, shape: tuple[int, int, int]) -> Steps:
        if len(self.dt) > 1:
            return Steps(self.dt[low : low + shape[0]], shape)
        if shape not in self.shared:
            self.shared[shape] = Steps(self.dt, shape)
        return self.shared[shape]


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
    result = apart(u.shape, u.dtype) if out is None else tuple(out)
    work = result if u.dtype == dtype else apart(u.shape, dtype)
    control = np.ascontiguousarray(u, dtype=dtype)
    begin = [_ready(x, dtype) for x in start]
    extra = [_ready(x, dtype) for x in sources or (None, None, None)]
    times = _Times(dt, dtype)
    with np.errstate(all="ignore"):  # differences across rows are computed and overwritten; overflow gives inf, as on a GPU
        for low, high in split(len(u), u.shape[1] * u.shape[2], block_of(order, u.shape[1])):
            steps = times.of(low, (high - low, *u.shape[1:]))
            parts, added = _part(begin, low, high), _part(extra, low, high)
            views = [x[low:high] for x in work]
            _difference_block(control[low:high], parts, added, steps, order, views)
            if order:
                _sum_block(parts, added, steps, order, exact, views)
        if work is not result:
            for target, value in zip(result, work, strict=True):
                np.copyto(target, value, casting="same_kind")
    return result


def _difference_block(u: Array, start: Parts, sources: Parts, steps: Steps, order: int, views: list[Array]) -> None:
    """Of one block the control, delayed, and what lies above it in the chain."""
    begin = (*start, None)
    flat = [x.reshape(-1) for x in views]
    steps.delay(u.reshape(-1), begin[order], flat[order])
    for i in range(order, 3):
        source = sources[i]
        steps.difference(flat[i], None if source is None else source.reshape(-1), begin[i + 1], flat[i + 1])


def _sum_block(start: Parts, sources: Parts, steps: Steps, order: int, exact: bool, views: list[Array]) -> None:
    """Of one block what lies below the control in the chain."""
    x = [view.reshape(-1) for view in views]
    room = np.empty_like(x[0])
    for i in range(order - 1, -1, -1):
        _grow(x, i, order, steps, exact)
        source = sources[i]
        if source is not None:
            np.add(x[i], source.reshape(-1), out=x[i])
        steps.set_first(x[i], start[i])
        steps.accumulate(x[i], room)


def _grow(x: list[Array], i: int, order: int, steps: Steps, exact: bool) -> None:
    """Into x[i]: what x[i] grows by at each step, t x[i+1], or by `exact` the Taylor sum whose last term holds the control."""
    if not exact:
        np.multiply(x[i + 1], steps.t, out=x[i])
        return
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
    full = [np.empty(shape, dtype) for _ in range(4 if with_sources else 1)]
    starts = [np.empty((trajectories, joints), dtype) for _ in range(3)]
    times = _Times(dt, dtype)
    with np.errstate(all="ignore"):
        for low, high in split(trajectories, horizon * joints, block_of(order, horizon)):
            steps = times.of(low, (high - low, horizon, joints))
            flat = [None if g is None else g.reshape(-1) for g in _part(ready, low, high)]
            control, begin, extra = _adjoint_block(flat, steps, order, exact, with_sources)
            _deliver_control(control, full[0][low:high], steps)
            for target, value in zip(full[1:], extra, strict=True):
                target[low:high] = value.reshape(target[low:high].shape)
            for target, value in zip(starts, begin, strict=True):
                target[low:high] = value
        return tuple(x.astype(stored, copy=False) for x in (full[0], *starts, *full[1:]))


def _adjoint_block(grads: Parts, steps: Steps, order: int, exact: bool, with_sources: bool) -> tuple[Array, list[Array], list[Array]]:
    """Of one block: the flat gradient by the delayed control, those by the three start parts, and by the sources (flat, or none)."""
    dtype = next(g.dtype for g in grads if g is not None)
    begin: list[Array] = [np.empty(0)] * 3
    extra: list[Array] = [np.empty(0)] * 3
    bars: list[Array] = []  # total gradients of the accumulated states, lowest first; step 0 is zero once the start is taken
    for i in range(order):
        bar = _total(grads[i], bars, steps, exact, shifted=exact, dtype=dtype)
        steps.accumulate(bar, np.empty_like(bar), backward=True)
        begin[i] = steps.first(bar).copy()
        steps.set_first(bar, None)
        bars.append(bar)
        extra[i] = bar
    upper = _jerk_rate(grads[3], steps) if order < 3 else None
    for i in range(2, order - 1, -1):
        if upper is not None and grads[i] is not None and not (bars and i == order):
            bar = grads[i] + upper
        else:
            bar = _total(grads[i], bars if i == order else [], steps, exact, shifted=False, dtype=dtype)
            if upper is not None:
                np.add(bar, upper, out=bar)
        if upper is not None:
            steps.take_next(bar, upper)
        begin[i] = steps.first(bar).copy()
        if with_sources:
            extra[i] = np.zeros(steps.size, dtype) if upper is None else -upper
        if i > order:
            upper = bar * steps.rate if upper is None else np.multiply(bar, steps.rate, out=upper)
            steps.set_first(upper, None)
    if order == 3:
        bar = _total(grads[3], bars, steps, exact, shifted=False, dtype=dtype)
    return bar, begin, extra if with_sources else []


def _deliver_control(bar: Array, view: Array, steps: Steps) -> None:
    """Undo the delay: ``view_h = bar_{h+1}``, and zero at the last step, whose control is never used."""
    steps.advance(bar, view.reshape(-1))


def _jerk_rate(grad: Array | None, steps: Steps) -> Array | None:
    """The jerk's gradient over t, zero at step 0."""
    if grad is None:
        return None
    rate = grad * steps.rate
    steps.set_first(rate, None)
    return rate


def _total(grad: Array | None, bars: list[Array], steps: Steps, exact: bool, shifted: bool, dtype: np.dtype) -> Array:
    """A state's own gradient plus what comes from the states it drives: t times the one below, or by `exact` the Taylor sum.

    ``bars`` are the totals below, lowest first, zero at step 0. ``shifted``: the state drives them one step later.
    """
    if not bars:
        return np.zeros(steps.size, dtype) if grad is None else grad.copy()
    if not exact:
        term = bars[-1] * steps.t
    else:
        term = bars[0] * (steps.t / len(bars))
        for k in range(1, len(bars)):
            np.add(term, bars[k], out=term)
            np.multiply(term, steps.t / (len(bars) - k), out=term)
    if shifted:
        bar = np.zeros(steps.size, dtype) if grad is None else grad.copy()
        steps.add_next(bar, term)
        return bar
    return term if grad is None else np.add(term, grad, out=term)
