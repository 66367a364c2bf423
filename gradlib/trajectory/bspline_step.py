"""B-splines as a differentiable map: knots, start and goal states to samples of the motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, constant, device_index
from gradlib.trajectory import bspline as host, check as checks, kernels as device
from gradlib.trajectory.blocks import compute_dtype
from gradlib.trajectory.calling import apply, delivered, filling
from gradlib.trajectory.maps import Static, batch_and_joints, each, launch_times, series, step_times
from gradlib.trajectory.pair import Places, closed_pair
from gradlib.trajectory.state import JointState, JointTrajectory

# static = (degree, samples, has_goal, shape of the knots, time_last); parts: knots, four of the start, four of the goal
_STATES = ((1, False), (5, True))  # the place of a boundary state's position, and whether it is the end


def _order(array: Array | None, time_last: bool) -> Array | None:
    """(B, n, D) of a large array in either layout; a view."""
    return array.swapaxes(1, 2) if array is not None and time_last else array


def _sizes(static: Static) -> tuple[int, int, int, int, int]:
    """Trajectories, knots, joints, control points, samples over the horizon."""
    degree, samples, has_goal, shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    knots = shape[2 if time_last else 1]
    points = knots + degree * (2 if has_goal else 1)
    return batch, knots, joints, points, host.horizon_of(points, degree, samples)


def _scales(times: Array, static: Static, end: bool) -> list[Array]:
    """For each derivative k = 0 .. 3 of a boundary state its factors (1 or B, degree, 1) in the boundary's control points."""
    degree, samples = static[:2]
    seconds = (times * samples).reshape(-1, 1)
    weights = constant(host.boundary_weights, degree, end, dtype=times.dtype, index=device_index(times))
    return [(weights[:, k] * seconds**k)[:, :, None] for k in range(min(4, degree))]


def _polygon(xp: Any, times: Array, static: Static, parts: list[Any]) -> Array:
    """The control points (B, N, D): those that the start fixes, the knots, those that the goal fixes."""
    degree, _, has_goal, _, time_last = static
    batch, knots, joints, number, _ = _sizes(static)
    points = xp.zeros((batch, number, joints), times.dtype)
    if parts[0] is not None:
        points[:, degree : degree + knots] = _order(parts[0], time_last)
    for first, end in _STATES[: 2 if has_goal else 1]:
        fixed = points[:, -degree:] if end else points[:, :degree]
        for scale, part in zip(_scales(times, static, end), parts[first : first + 4], strict=False):
            if part is not None:
                fixed += scale * each(xp, part, batch, joints)[:, None]  # type: ignore[index]
    return points


def _forward(xp: Any, dt: Any, static: Static, parts: list[Any], out: Any) -> tuple[Array, ...]:
    degree, samples, _, _, time_last = static
    batch, _, joints, _, horizon = _sizes(static)
    dtype = next(x for x in parts if x is not None).dtype
    times = step_times(xp, dt).astype(compute_dtype(dtype))
    points = _polygon(xp, times, static, parts)
    shape = (batch, joints, horizon) if time_last else (batch, horizon, joints)
    made = tuple(xp.empty(shape, dtype) for _ in range(4)) if out is None else tuple(out)
    if xp is np:
        host.forward(points, times, degree, samples, [_order(x, time_last) for x in made])
    else:
        stored = series(xp.ascontiguousarray(_order(points, time_last), dtype=dtype), time_last)
        targets = [series(x, time_last) for x in made]
        device.bspline_forward(xp, stored, launch_times(xp, dt), targets, degree, samples, joints if time_last else 1)
    return made


def _adjoint(xp: Any, dt: Any, static: Static, grads: list[Any], wanted: Places) -> tuple[Array, ...]:
    degree, samples, _, _, time_last = static
    batch, knots, joints, number, _ = _sizes(static)
    stored = next(g.dtype for g in grads if g is not None)
    times = step_times(xp, dt).astype(compute_dtype(stored))
    if xp is np:
        points = host.adjoint([_order(g, time_last) for g in grads], times, (batch, number, joints), degree, samples)
    else:
        given = [series(g, time_last) for g in grads]
        by_points = device.bspline_adjoint(xp, given, launch_times(xp, dt), number, degree, samples, joints if time_last else 1)
        points = _order(by_points.reshape(batch, joints, number) if time_last else by_points, time_last)
    made: dict[int, Array] = {0: xp.ascontiguousarray(_order(points[:, degree : degree + knots], time_last))}
    for first, end in _STATES:
        fixed = points[:, -degree:] if end else points[:, :degree]
        scales = _scales(times, static, end)
        for k in range(4):
            if first + k in wanted:
                unused = (end and not static[2]) or k >= len(scales)
                made[first + k] = xp.zeros((batch, joints), stored) if unused else (scales[k] * fixed).sum(axis=1).astype(stored)
    return tuple(made[i] for i in wanted)


def _by_time(dt: Any, static: Static, parts: Any, outputs: Any, grads: Any, by_parts: Any) -> Any:
    """Derivative k of the curve times t^k depends on t only through derivative k of the boundary states times t^k. (B, 1)."""
    total: Any = None
    terms = [(-k * grads[k] * outputs[k]).sum((1, 2)) for k in (1, 2, 3) if grads[k] is not None]
    for first, _ in _STATES:
        terms += [(k * by_parts[first + k] * parts[first + k]).sum(1) for k in (1, 2, 3) if parts[first + k] is not None]
    for term in terms:
        total = term if total is None else total + term
    return None if total is None else total[:, None] / dt


_NAMES = ("position", "velocity", "acceleration", "jerk")
bspline_map = closed_pair(
    "trajectory_bspline",
    ("knots", *(f"start_{x}" for x in _NAMES), *(f"goal_{x}" for x in _NAMES)),
    _forward, _adjoint, (2, 3, 4, 6, 7, 8), _by_time,
).called("step_bspline")  # fmt: skip


def step_bspline(
    knots: Any, start: Any, dt: Any, *, degree: int = 3, samples_per_knot: int, goal: Any = None, layout: str = "bhd", out: Any = None,
    check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, velocity, acceleration and jerk of a uniform B-spline, when a planner's unknowns are its knots.

    The control points are ``degree`` points that the start state fixes, the knots, and with a goal ``degree`` points that the goal
    fixes, so both states are met exactly: position, velocity and acceleration, the jerk too from degree 4, and at degree 5 a fourth
    derivative of zero. N control points make N - degree segments of samples_per_knot samples each, and one sample more at the end:
    H = (K + (degree if goal else 0)) * samples_per_knot + 1. At degree 3 the jerk jumps between segments; a sample there takes the
    later one. Differentiable to any order by knots, every part of start and goal, and dt.

    Args:
        knots: (B, K, D), radians or metres, K at least 1; float16, bfloat16, float32 or float64.
        start: `JointState` or a tuple (position, velocity, acceleration, jerk), each (B, D) or (D,); a missing part is zero.
        dt: seconds from sample to sample, one for each trajectory: a number or (B, 1). A segment lasts samples_per_knot * dt.
        degree: 3, 4 or 5. samples_per_knot: at least 1.
        goal: as start, for the last sample; None leaves the end to the knots.
        layout: "bhd", or "bdh" when knots are (B, D, K) and results (B, D, H).
        out: four contiguous Tensors or arrays of the results' shape to fill and return.
        check: on a GPU, also check the value of dt, which waits for the device.
    Returns: `JointTrajectory`, each (B, H, D), in SI units. Sample 0 is the start.
    Raises: TypeError and ValueError that name the rule broken, what was received and what to do.
    Source: de Boor, A Practical Guide to Splines (1978), chapters IX and X.
    """
    name = "step_bspline"
    if degree not in host.DEGREES:
        raise ValueError(f"{name}: degree is 3, 4 or 5, got {degree!r}")
    if not isinstance(samples_per_knot, (int, np.integer)) or samples_per_knot < 1:
        raise ValueError(f"{name}: samples_per_knot is a whole number of at least 1, got {samples_per_knot!r}")
    sizes = checks.control(name, knots, layout, 1, "knots")
    parts = [knots, *_state(name, "start", start, knots, sizes), *_state(name, "goal", goal, knots, sizes)]
    which = tuple(i for i, x in enumerate(parts) if x is not None)
    static = (int(degree), int(samples_per_knot), goal is not None, sizes.shape, sizes.time_last)
    times = checks.step_times(name, dt, knots, sizes, check, one=True)
    targets = checks.outputs(name, out, knots, sizes._replace(horizon=_sizes(static)[-1]))
    with filling(out):
        made = apply(bspline_map, times, static, which, targets, [parts[i] for i in which])
    return delivered(made, out)


def _state(name: str, which: str, state: Any, knots: Any, sizes: checks.Sizes) -> list[Any]:
    """Position, velocity, acceleration and jerk of a boundary state, checked; None where zero."""
    given = tuple(state) if isinstance(state, (JointState, tuple, list)) else () if state is None else (state,)
    parts = [checks.start_part(name, f"{which} {part}", x, knots, sizes, None) for part, x in zip(_NAMES, given, strict=False)]
    return parts + [None] * (4 - len(parts))
