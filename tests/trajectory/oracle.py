"""The specification as plain loops over steps in float64: what every implementation is held against."""

from __future__ import annotations

import numpy as np

CHAINS = [(0, False), (1, False), (2, False), (2, True), (3, False), (3, True)]
"""(control order, exact) of every integrator of the chain."""

DT_SHAPES = ["number", "step", "trajectory", "both"]


def step_times(rng: np.random.Generator, kind: str, batch: int, horizon: int) -> np.ndarray:
    """Step times that broadcast to (batch, horizon)."""
    shape = {"number": (1, 1), "step": (1, horizon), "trajectory": (batch, 1), "both": (batch, horizon)}[kind]
    return rng.uniform(0.5, 1.5, shape)


def chain(u, start, dt, order, exact=False, sources=None):
    """p, v, a, j of TRAJECTORY section 1, with the sources that stand for a change of dt."""
    batch, horizon, _ = u.shape
    t_all = np.broadcast_to(dt, (batch, horizon))
    r, s, q = sources or np.zeros((3, *u.shape))
    p, v, a, j = (np.zeros(u.shape) for _ in range(4))
    p[:, 0], v[:, 0], a[:, 0] = start
    for h in range(1, horizon):
        t, c, b = t_all[:, h, None], u[:, h - 1], h - 1
        if exact and order == 2:
            a[:, h] = c
            v[:, h] = v[:, b] + t * c + s[:, h]
            p[:, h] = p[:, b] + t * v[:, b] + t**2 / 2 * c + r[:, h]
            j[:, h] = (a[:, h] - a[:, b] - q[:, h]) / t
        elif exact:
            j[:, h] = c
            a[:, h] = a[:, b] + t * c + q[:, h]
            v[:, h] = v[:, b] + t * a[:, b] + t**2 / 2 * c + s[:, h]
            p[:, h] = p[:, b] + t * v[:, b] + t**2 / 2 * a[:, b] + t**3 / 6 * c + r[:, h]
        else:
            chain_ = (p, v, a, j)
            chain_[order][:, h] = c
            for i in range(order, 3):
                chain_[i + 1][:, h] = (chain_[i][:, h] - chain_[i][:, b] - (r, s, q)[i][:, h]) / t
            for i in range(order - 1, -1, -1):
                chain_[i][:, h] = chain_[i][:, b] + t * chain_[i + 1][:, h] + (r, s, q)[i][:, h]
    return p, v, a, j


def central(u, start, dt, goal=None):
    """p, v, a, j of TRAJECTORY section 2; dt is (batch, 1)."""
    horizon = u.shape[1]
    p0, v0, a0 = start
    x = [p0 - k * dt * v0 + (k * dt) ** 2 / 2 * a0 for k in (3, 2, 1)] + [p0]
    x += [u[:, i] for i in range(horizon - 4)]
    if goal is not None:
        x[-1] = goal
    x += [x[-1]] * 4
    t = dt
    p, v, a, j = (np.zeros(u.shape) for _ in range(4))
    for h in range(horizon):
        y = x[h : h + 5]
        p[:, h] = y[2]
        v[:, h] = (y[0] - 8 * y[1] + 8 * y[3] - y[4]) / (12 * t)
        a[:, h] = (-y[0] + 16 * y[1] - 30 * y[2] + 16 * y[3] - y[4]) / (12 * t**2)
        j[:, h] = (-y[0] + 2 * y[1] - 2 * y[3] + y[4]) / (2 * t**3)
    return p, v, a, j


def transposed(linear, sizes, rng, tolerance=1e-9):
    """Check <F x, g> = <x, F' g>: ``linear`` maps (inputs) to (outputs, adjoint), sizes are the inputs' shapes."""
    inputs = [rng.standard_normal(shape) for shape in sizes]
    outputs, adjoint = linear(*inputs)
    grads = [rng.standard_normal(y.shape) for y in outputs]
    left = sum((y * g).sum() for y, g in zip(outputs, grads, strict=True))
    back = adjoint(grads)
    right = sum((x * g).sum() for x, g in zip(inputs, back, strict=True))
    scale = sum(np.abs(y * g).sum() for y, g in zip(outputs, grads, strict=True))
    assert abs(left - right) <= tolerance * scale
