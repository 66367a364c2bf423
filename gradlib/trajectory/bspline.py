"""Uniform B-splines: knots, start and goal states to samples of the motion, and every derivative.

CPU form: `bspline_host`, or `bspline_numba` where numba is in use. CUDA form: `bspline_device` and kernels/bspline.cu.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array
from gradlib.ops.reduce import sum
from gradlib.trajectory import bspline_device as device, bspline_host as host
from gradlib.trajectory.adjoint_pair import AdjointPair
from gradlib.trajectory.arguments import Sizes, control, start_part, step_times
from gradlib.trajectory.compiled import form
from gradlib.trajectory.layout import batch_and_joints, each, launch_times, series, shaped, steps_first, times_table
from gradlib.trajectory.out_buffers import delivered, filling, targets
from gradlib.trajectory.state import JointState, JointTrajectory

_NAMES = ("position", "velocity", "acceleration", "jerk")
_STATES = ((1, False), (5, True))  # among the parts the place of a boundary state's position, and whether it is the end


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
    Example:
        >>> knots = gradlib.zeros(1, 2, 1)
        >>> goal = (gradlib.ones(1, 1),)  # at rest at 1
        >>> motion = gradlib.trajectory.step_bspline(knots, (), 0.1, samples_per_knot=2, goal=goal)
        >>> motion.position.shape, motion.position[0, -1], motion.velocity[0, -1]
        (gradlib.Size([1, 11, 1]), tensor([1.]), tensor([0.]))
    """
    name = "step_bspline"
    if degree not in host.DEGREES:
        raise ValueError(f"{name}: degree is 3, 4 or 5, got {degree!r}")
    if not isinstance(samples_per_knot, (int, np.integer)) or samples_per_knot < 1:
        raise ValueError(f"{name}: samples_per_knot is a whole number of at least 1, got {samples_per_knot!r}")
    sizes = control(name, knots, layout, 1, "knots")
    parts = [knots, *_state(name, "start", start, knots, sizes), *([] if goal is None else _state(name, "goal", goal, knots, sizes))]
    times = step_times(name, dt, knots, sizes, check, one=True)
    options = BsplineOptions(name, int(degree), int(samples_per_knot), goal is not None, sizes.shape, sizes.time_last)
    arrays = targets(name, out, knots, options.shape_of_results, (*parts[1:], times))
    with filling(out):
        made = bspline.forward(name)(times, options, False, arrays, parts)
    return delivered(made, out)


def _state(name: str, which: str, state: Any, knots: Any, sizes: Sizes) -> list[Any]:
    """Position, velocity, acceleration and jerk of a boundary state, checked; None where zero."""
    given = tuple(state) if isinstance(state, (JointState, tuple, list)) else () if state is None else (state,)
    parts = [start_part(name, f"{which} {part}", x, knots, sizes, None) for part, x in zip(_NAMES, given, strict=False)]
    return parts + [None] * (4 - len(parts))


# ---- the map ----------------------------------------------------------------------------------------------------------------------


class BsplineOptions(NamedTuple):
    """Options that select the kernel, and the arrays' layout: the public function's name, the knots' shape, whether time is last."""

    name: str
    degree: int
    samples: int
    has_goal: bool
    shape: tuple[int, int, int]
    time_last: bool
    rows: None = None  # no start_idx

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Trajectories, knots, joints, control points."""
        batch, joints = batch_and_joints(self.shape, self.time_last)
        knots = self.shape[2 if self.time_last else 1]
        return batch, knots, joints, knots + self.degree * (2 if self.has_goal else 1)

    @property
    def shape_of_results(self) -> tuple[int, int, int]:
        """The shape of the results: all samples in the knots' place."""
        batch, _, joints, points = self.sizes
        horizon = host.horizon_of(points, self.degree, self.samples)
        return (batch, joints, horizon) if self.time_last else (batch, horizon, joints)


def _forward(xp: Any, dt: Any, options: BsplineOptions, sources: bool, buffers: Any, parts: list[Any]) -> tuple[Array, ...]:
    """Samples of the motion that the knots and the boundary states give."""
    _, degree, samples, has_goal, shape, time_last, _ = options
    dtype = next(x for x in parts if x is not None).dtype
    made = tuple(xp.empty(options.shape_of_results, dtype) for _ in range(4)) if buffers is None else tuple(buffers)
    knots, *ends = parts
    if xp is np:
        knots = np.broadcast_to(dtype.type(0), shape) if knots is None else knots
        rows = each(np, ends, *batch_and_joints(shape, time_last))
        into = [steps_first(x, time_last) for x in made]
        run = form("bspline", host).motion
        run(steps_first(knots, time_last), rows[:4], rows[4:] or None, times_table(np, dt), degree, samples, into)
    else:
        ends += [None] * (8 - len(ends))
        into, group = [series(x, time_last) for x in made], options.sizes[2] if time_last else 1
        device.forward(xp, series(knots, time_last), ends, has_goal, launch_times(xp, dt), into, degree, samples, group)
    return made


def _adjoint(xp: Any, dt: Any, options: BsplineOptions, sources: bool, grads: list[Any]) -> tuple[Array, ...]:
    """The transpose of the samples: gradients by the knots, the start parts and, where there is a goal, its parts."""
    _, degree, samples, has_goal, shape, time_last, _ = options
    batch, knots, joints, _ = options.sizes
    if xp is np:
        given, run = [steps_first(g, time_last) for g in grads], form("bspline", host).motion_adjoint
        by_knots, *by_ends = run(given, times_table(np, dt), (batch, knots, joints), has_goal, degree, samples)
        return (np.ascontiguousarray(steps_first(by_knots, time_last)), *by_ends)
    given, group = [series(g, time_last) for g in grads], joints if time_last else 1
    by_knots, *ends = device.adjoint(xp, given, launch_times(xp, dt), knots, has_goal, degree, samples, group)
    return (shaped(by_knots, shape), *(shaped(x, (batch, joints)) for end in ends for x in end))


def _by_time(dt: Any, options: BsplineOptions, parts: Any, results: Any, grads: Any, by_parts: Any) -> Any:
    """Derivative k of the curve times t^k depends on t only through derivative k of the boundary states times t^k. (B, 1)."""
    total: Any = None
    terms = [sum(-k * grads[k] * results[k], (1, 2)) for k in (1, 2, 3) if grads[k] is not None]
    for first, _ in _STATES[: 2 if options.has_goal else 1]:
        terms += [sum(k * by_parts[first + k] * parts[first + k], 1) for k in (1, 2, 3) if parts[first + k] is not None]
    for term in terms:
        total = term if total is None else total + term
    return None if total is None else total[:, None] / dt


bspline = AdjointPair(
    "trajectory_bspline", ("knots", *(f"start_{x}" for x in _NAMES), *(f"goal_{x}" for x in _NAMES)), _forward, _adjoint, _by_time
)
