"""Uniform B-splines on the CPU: control points to samples of p, v, a, j, and the transpose. CUDA form: kernels/bspline.cu; numba's:
`bspline_numba`.

On segment s, at x in [0, 1] of it, the curve of degree n is ``sum over m = 0 .. n of c_{s+m} N_m(x)`` with

    N_m(x) = 1/n! sum over k = 0 .. n-m of (-1)^k binomial(n+1, k) (x + n - m - k)^n

(de Boor, A Practical Guide to Splines, 1978, chapters IX and X). It has n-1 continuous derivatives; where the next one jumps, a sample
takes the value of the segment that begins there, and the last sample that of the segment that ends there, as scipy's BSpline does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, factorial

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory.cache_blocks import compute_dtype, from_time_order, split, time_table, to_time_order

DEGREES = (3, 4, 5)

Parts = Sequence[Array | None]


def basis(degree: int, derivative: int, x: Array) -> Array:
    """Derivatives of the basis functions N_0 .. N_degree at points x of a segment, by x: (len(x), degree + 1), float64."""
    power = degree - derivative
    columns = []
    for m in range(degree + 1):
        terms = [(-1) ** k * comb(degree + 1, k) * (x + degree - m - k) ** power for k in range(degree - m + 1)]
        columns.append(np.sum(terms, axis=0) / factorial(power))
    return np.stack(columns, axis=1)


@lru_cache(maxsize=64)
def sample_weights(degree: int, samples: int) -> Array:
    """(4, samples + 1, degree + 1): derivative k by the sample number of each basis function at phase 0 .. samples, float64."""
    x = np.arange(samples + 1) / samples
    weights = np.stack([basis(degree, k, x) / float(samples) ** k for k in range(4)])
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=16)
def boundary_weights(degree: int, end: bool) -> Array:
    """(degree, degree): the control points that fix the curve's derivatives 0 .. degree - 1 at its start, or its end.

    Point m is ``sum over k of weights[m, k] T^k x_k`` with x_k the k-th derivative by time there and T the seconds of a segment.
    """
    at = np.array([1.0 if end else 0.0])
    rows = [basis(degree, k, at)[0] for k in range(degree)]
    weights = np.linalg.inv(np.array([row[1:] if end else row[:-1] for row in rows]))
    weights.flags.writeable = False
    return weights


def kernel_weights(degree: int, samples: int) -> Array:
    """Weights of the CUDA kernels, rows of four: `sample_weights` as (samples + 1, degree + 1, 4), then what the derivatives by the sample
    number count in the points that the start fixes, (degree, 4), and in those that the goal fixes."""
    inner = sample_weights(degree, samples).transpose(1, 2, 0).reshape(-1, 4)
    outer = np.zeros((2, degree, 4))
    known = min(degree, 4)
    for weights, end in zip(outer, (False, True), strict=True):
        weights[:, :known] = boundary_weights(degree, end)[:, :known] * float(samples) ** np.arange(known)
    return np.concatenate([inner, *outer])


def horizon_of(points: int, degree: int, samples: int) -> int:
    """The number of samples that this many control points give."""
    return (points - degree) * samples + 1


def _rates(dt: Array, dtype: np.dtype, low: int, high: int, joints: int) -> Array:
    """1/t of each (trajectory, joint) of a block, or one number."""
    rate = 1 / np.array(dt, dtype=dtype, ndmin=2)[:, 0]
    return np.repeat(rate[low:high], joints) if len(rate) > 1 else rate


def _windows(points: Array, degree: int) -> Array:
    """(segments, degree + 1, M): the control points of each segment, a view of (N, M)."""
    return np.lib.stride_tricks.sliding_window_view(points, degree + 1, axis=0).swapaxes(1, 2)


def forward(points: Array, dt: Array, degree: int, samples: int, out: Sequence[Array] | None = None) -> tuple[Array, Array, Array, Array]:
    """Samples of the curve and its first three derivatives by time.

    Args:
        points: (B, N, D) control points, N more than degree. dt: (1 or B, 1) seconds from sample to sample.
        degree: 3, 4 or 5. samples: samples in a segment, at least 1. out: None, or four arrays (B, H, D) to fill.
    Returns: p, v, a, j, each (B, H, D) in the dtype of points, H = (N - degree) * samples + 1.
    """
    dtype = compute_dtype(points.dtype)
    batch, number, joints = points.shape
    horizon = horizon_of(number, degree, samples)
    weights = sample_weights(degree, samples).astype(dtype)
    result = tuple(np.empty((batch, horizon, joints), points.dtype) for _ in range(4)) if out is None else tuple(out)
    ready = np.ascontiguousarray(points, dtype=dtype)
    for low, high in split(batch, horizon * joints):
        width = (high - low) * joints
        block = time_table(number, width, dtype)
        to_time_order(ready[low:high], block)
        windows = np.ascontiguousarray(_windows(block, degree))  # overlapping views would keep matmul from BLAS
        made = time_table(horizon, width, dtype)
        rate = _rates(dt, dtype, low, high, joints)
        for k, target in enumerate(result):
            np.matmul(weights[k, :-1], windows, out=made[:-1].reshape(number - degree, samples, width))
            made[-1] = weights[k, -1] @ windows[-1]
            if k:
                made *= rate**k
            if target.dtype == dtype and target.flags.c_contiguous:
                from_time_order(made, target[low:high])
                continue
            view = np.empty((high - low, horizon, joints), dtype)
            from_time_order(made, view)
            target[low:high] = view
    return result  # type: ignore[return-value]


def adjoint(grads: Sequence[Array | None], dt: Array, shape: tuple[int, int, int], degree: int, samples: int) -> Array:
    """The transpose of `forward`: gradients by p, v, a, j, (B, H, D) or None for zero, to the gradient by the points (B, N, D)."""
    stored = next(g.dtype for g in grads if g is not None)
    dtype = compute_dtype(stored)
    batch, number, joints = shape
    horizon, segments = horizon_of(number, degree, samples), number - degree
    weights = sample_weights(degree, samples).astype(dtype)
    result = np.empty(shape, dtype)
    for low, high in split(batch, horizon * joints):
        width = (high - low) * joints
        total = time_table(number, width, dtype)
        total[...] = 0
        rate = _rates(dt, dtype, low, high, joints)
        given = time_table(horizon, width, dtype)
        for k, grad in enumerate(grads):
            if grad is None:
                continue
            to_time_order(np.ascontiguousarray(grad[low:high], dtype=dtype), given)
            if k:
                given *= rate**k
            by_window = np.matmul(weights[k, :-1].T, given[:-1].reshape(segments, samples, width))
            by_window[-1] += weights[k, -1][:, None] * given[-1]
            for m in range(degree + 1):
                total[m : m + segments] += by_window[:, m]
        from_time_order(total, result[low:high])
    return result.astype(stored, copy=False)


# ---- between boundary states --------------------------------------------------------------------------------------------------------


def motion(knots: Array, start: Parts, goal: Parts | None, dt: Array, degree: int, samples: int, out: Sequence[Array]) -> None:
    """Samples of the curve whose control points are those that the start fixes, the knots, and those that the goal fixes.

    Args:
        knots: (B, K, D). start, goal: position, velocity, acceleration and jerk, each (B, D) or None for zero; the goal None without one.
        dt: (1 or B, 1) seconds from sample to sample. degree, samples: as in `forward`. out: four arrays (B, H, D) to fill.
    """
    times = np.array(dt, compute_dtype(knots.dtype), ndmin=2)
    batch, number, joints = knots.shape
    points = np.zeros((batch, number + degree * (1 if goal is None else 2), joints), times.dtype)
    points[:, degree : degree + number] = knots
    for state, end in ((start, False), *([] if goal is None else [(goal, True)])):
        fixed = points[:, -degree:] if end else points[:, :degree]
        for scale, part in zip(_scales(times, degree, samples, end), state, strict=False):
            if part is not None:
                fixed += scale * part[:, None]
    forward(points, times, degree, samples, out)


def motion_adjoint(grads: Parts, dt: Array, shape: tuple[int, int, int], has_goal: bool, degree: int, samples: int) -> tuple[Array, ...]:
    """The transpose of `motion`: gradients by p, v, a, j, (B, H, D) or None for zero, to those by the knots (B, K, D), which is ``shape``,
    and by the four parts of the start and, where there is one, of the goal, each (B, D)."""
    stored = next(g.dtype for g in grads if g is not None)
    times = np.array(dt, compute_dtype(stored), ndmin=2)
    batch, number, joints = shape
    points = adjoint(grads, times, (batch, number + degree * (2 if has_goal else 1), joints), degree, samples)
    made = [points[:, degree : degree + number]]
    for end in (False, True)[: 2 if has_goal else 1]:
        fixed = points[:, -degree:] if end else points[:, :degree]
        weighted = np.stack(_scales(times, degree, samples, end)) * fixed  # (derivatives, B, degree, D)
        made += [*weighted.sum(axis=2).astype(stored), *(np.zeros((batch, joints), stored) for _ in range(4 - len(weighted)))]
    return tuple(made)


def _scales(times: Array, degree: int, samples: int, end: bool) -> list[Array]:
    """The factors (1 or B, degree, 1) of each derivative k = 0 .. 3 of a boundary state in the boundary's control points."""
    seconds = (times * samples).reshape(-1, 1)
    weights = boundary_weights(degree, end).astype(times.dtype)
    return [(weights[:, k] * seconds**k)[:, :, None] for k in range(min(4, degree))]
