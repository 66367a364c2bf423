"""Five-point central differences on the CPU, and their transpose. CUDA form: kernels/central.cu, whose header gives the formulas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory.cache_blocks import compute_dtype, split

Parts = Sequence[Array | None]


def _ready(array: Array | None, dtype: np.dtype) -> Array | None:
    return None if array is None else np.ascontiguousarray(array, dtype=dtype)


def _scales(dt: Array, dtype: np.dtype) -> tuple[Array, Array, Array, Array]:
    """t, and the factors of the v, a and j stencils, each (1 or B, 1)."""
    t = np.array(dt, dtype=dtype, ndmin=2)
    return t, 1 / (12 * t), 1 / (12 * t * t), 1 / (2 * t * t * t)


def _rows(array: Array, low: int, high: int) -> Array:
    """The rows of a block, or the one row that serves all."""
    return array[low:high] if len(array) > 1 else array


def forward(u: Array, start: Parts, goal: Array | None, dt: Array, out: Sequence[Array] | None = None) -> tuple[Array, Array, Array, Array]:
    """Positions, velocities, accelerations and jerks around a position sequence.

    Args:
        u: (B, H, D) positions, H at least 6. start: position, velocity, acceleration, each (B, D) or None for zero.
        goal: (B, D) position that ends the sequence, or None. dt: (1 or B, 1) seconds.
        out: None, or four arrays (B, H, D) to fill.
    Returns: p, v, a, j, each (B, H, D) in u's dtype.
    """
    dtype = compute_dtype(u.dtype)
    batch, horizon, joints = u.shape
    result = tuple(np.empty(u.shape, u.dtype) for _ in range(4)) if out is None else tuple(out)
    control, end = np.ascontiguousarray(u, dtype=dtype), _ready(goal, dtype)
    begin = [_ready(x, dtype) for x in start]
    t, by_v, by_a, by_j = _scales(dt, dtype)
    with np.errstate(all="ignore"):
        for low, high in split(batch, horizon * joints):
            x = _padded(
                control[low:high],
                [None if s is None else s[low:high] for s in begin],
                end if end is None else end[low:high],
                _rows(t, low, high),
            )
            at = [x[:, o * joints : (o + horizon) * joints] for o in range(5)]
            near, far = at[3] - at[1], at[4] - at[0]
            velocity = (8 * near - far) * _rows(by_v, low, high)
            jerk = (far - 2 * near) * _rows(by_j, low, high)
            np.add(at[3], at[1], out=near)
            np.add(at[4], at[0], out=far)
            acceleration = (16 * near - far - 30 * at[2]) * _rows(by_a, low, high)
            for target, value in zip(result, (at[2], velocity, acceleration, jerk), strict=True):
                target[low:high] = value.reshape(high - low, horizon, joints)
    return result  # type: ignore[return-value]


def _padded(u: Array, start: Parts, goal: Array | None, t: Array) -> Array:
    """The sequence X_{-3} .. X_H of one block, (b, (H + 4) D)."""
    batch, horizon, joints = u.shape
    x = np.zeros((batch, horizon + 4, joints), u.dtype)
    position, velocity, acceleration = start
    for k in range(4):
        past = x[:, 3 - k]
        if position is not None:
            past += position
        if velocity is not None and k:
            past -= (k * t) * velocity
        if acceleration is not None and k:
            past += ((k * t) ** 2 / 2) * acceleration
    x[:, 4:horizon] = u[:, : horizon - 4]
    held = horizon if goal is None else horizon - 1
    x[:, held:] = (u[:, horizon - 5] if goal is None else goal)[:, None]
    return x.reshape(batch, -1)


def adjoint(grads: Parts, dt: Array, shape: tuple[int, int, int], has_goal: bool) -> tuple[Array, Array, Array, Array, Array]:
    """The transpose of `forward`.

    Args:
        grads: gradients by p, v, a, j, each (B, H, D) or None for zero, at least one given. dt: as in `forward`.
        shape: (B, H, D). has_goal: whether the sequence ended on a goal.
    Returns: gradients by u (B, H, D), zero where an action is not used; by start position, velocity and acceleration; by the goal
        (zero without one), each (B, D).
    """
    stored = next(g.dtype for g in grads if g is not None)
    dtype = compute_dtype(stored)
    batch, horizon, joints = shape
    ready = [_ready(g, dtype) for g in grads]
    t, *scales = _scales(dt, dtype)
    by_u = np.zeros(shape, dtype)
    by_start = np.empty((3, batch, joints), dtype)
    by_goal = np.zeros((batch, joints), dtype)
    last = horizon - 5 if has_goal else horizon - 4  # the first action that is not used
    with np.errstate(all="ignore"):
        for low, high in split(batch, horizon * joints):
            part = [None if g is None else g[low:high].reshape(high - low, -1) for g in ready]
            x = _by_points(part, [_rows(s, low, high) for s in scales], (high - low, horizon, joints), dtype)
            by_u[low:high, :last] = x[:, 4 : 4 + last]
            held = x[:, horizon - 1 :].sum(axis=1)
            if has_goal:
                by_goal[low:high] = held
            else:
                by_u[low:high, horizon - 5] = held
            seconds = _rows(t, low, high)
            by_start[0, low:high] = x[:, :4].sum(axis=1)
            by_start[1, low:high] = -seconds * (x[:, 2] + 2 * x[:, 1] + 3 * x[:, 0])
            by_start[2, low:high] = seconds**2 / 2 * (x[:, 2] + 4 * x[:, 1] + 9 * x[:, 0])
        return tuple(x.astype(stored, copy=False) for x in (by_u, *by_start, by_goal))


def _by_points(grads: Parts, scales: list[Array], shape: tuple[int, int, int], dtype: np.dtype) -> Array:
    """The gradient of one block by X_{-3} .. X_H, (b, H + 4, D)."""
    batch, horizon, joints = shape
    width = horizon * joints
    x = np.zeros((batch, (horizon + 4) * joints), dtype)
    at = [x[:, o * joints : o * joints + width] for o in range(5)]
    p, v, a, j = grads
    if p is not None:
        at[2][...] += p
    if v is not None:
        far = v * scales[0]
        near = 8 * far
        _odd(at, near, -far)
    if a is not None:
        far = a * -scales[1]
        near = -16 * far
        for place, value in ((0, far), (1, near), (3, near), (4, far)):
            at[place][...] += value
        at[2][...] += 30 * far
    if j is not None:
        far = j * scales[2]
        _odd(at, -2 * far, far)
    return x.reshape(batch, horizon + 4, joints)


def _odd(at: list[Array], near: Array, far: Array) -> None:
    """Spread what multiplies ``x_1 - x_-1`` and ``x_2 - x_-2``."""
    at[3][...] += near
    at[1][...] -= near
    at[4][...] += far
    at[0][...] -= far
