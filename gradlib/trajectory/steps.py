"""The integrators: positions, velocities, accelerations and jerks from one of the four as a control."""

from __future__ import annotations

from typing import Any

from gradlib.trajectory import check as checks
from gradlib.trajectory.calling import apply, delivered, filling, start_parts
from gradlib.trajectory.central_step import central
from gradlib.trajectory.maps import chain
from gradlib.trajectory.state import JointTrajectory

_CHAINS = tuple(chain.called(f"step_{control}") for control in ("position", "velocity", "acceleration", "jerk"))


def step_position(
    u: Any, start: Any, dt: Any, *, scheme: str = "backward", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Velocity, acceleration and jerk of a sequence of positions, when a planner's unknowns are positions.

    With scheme "backward", for h = 1 .. H-1 and t = dt[:, h], p_h = u_{h-1}, v_h = (p_h - p_{h-1}) / t, a_h = (v_h - v_{h-1}) / t,
    j_h = (a_h - a_{h-1}) / t; step 0 is the start with j = 0. With scheme "central", five-point differences around a padded
    sequence that starts on the Taylor polynomial of the start state and ends at rest on the last position, or on the goal.
    Differentiable to any order by u, each part of start, goal and dt.

    Args:
        u: (B, H, D) positions, radians or metres; float16, bfloat16, float32 or float64. u[:, H-1] is never used (with "central",
            u[:, H-4:] never, nor u[:, H-5] with a goal): its gradient is exactly zero. H is at least 1, which is the start state
            alone, with "central" 6.
        start: `JointState` or a tuple (position, velocity, acceleration), each (B, D) or (D,), or (S, D) with start_idx, in u's
            dtype; a missing or None part is zero.
        dt: seconds, more than 0: a number, or a Tensor or array that broadcasts to (B, H); dt[b, h] is the time from step h-1 to
            step h, so dt[:, 0] is never used. With "central" one for each trajectory: a number or (B, 1).
        scheme: "backward" or "central".
        start_idx: integers (B,), the row of start for each trajectory; its gradient is a scatter-add in a fixed order.
        goal: with "central", the position (B, D) or (D,) to end on, or a `JointState` that holds it; None for none.
        layout: "bhd", or "bdh" when u and the results are (B, D, H).
        out: four contiguous Tensors or arrays of u's shape to fill and return; a write to them counts as an in-place change.
        check: on a GPU, also check the values of dt and start_idx, which waits for the device. On the CPU they always are.
    Returns: `JointTrajectory` of position, velocity, acceleration, jerk, each of u's shape and dtype, in SI units.
    Raises: TypeError and ValueError that name the rule broken, what was received and what to do.
    Source: finite differences; the central scheme's weights follow Fornberg, Mathematics of Computation 51 (1988), table 1.
    """
    if scheme == "central":
        return central("step_position", u, start, dt, start_idx, goal, layout, out, check)
    _scheme("step_position", scheme, ("backward", "central"))
    return _step("step_position", 0, False, u, start, dt, start_idx, goal, layout, out, check)


def step_velocity(
    u: Any, start: Any, dt: Any, *, scheme: str = "backward", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, acceleration and jerk of a sequence of velocities.

    For h = 1 .. H-1 and t = dt[:, h], v_h = u_{h-1}, p_h = p_{h-1} + t v_h, a_h = (v_h - v_{h-1}) / t, j_h = (a_h - a_{h-1}) / t.

    Args: as `step_position`, with u in radians or metres a second; scheme is "backward" and there is no goal.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: backward Euler.
    """
    _scheme("step_velocity", scheme, ("backward",))
    return _step("step_velocity", 1, False, u, start, dt, start_idx, goal, layout, out, check)


def step_acceleration(
    u: Any, start: Any, dt: Any, *, scheme: str = "semi_implicit_euler", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, velocity and jerk of a sequence of accelerations.

    For h = 1 .. H-1 and t = dt[:, h], a_h = u_{h-1}, v_h = v_{h-1} + t a_h, j_h = (a_h - a_{h-1}) / t, and
    p_h = p_{h-1} + t v_h ("semi_implicit_euler") or p_{h-1} + t v_{h-1} + t^2/2 a_h ("exact": constant over the step).

    Args: as `step_position`, with u in radians or metres a second squared; scheme as above and there is no goal.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration, section I.1.2 (semi-implicit, or symplectic, Euler).
    """
    _scheme("step_acceleration", scheme, ("semi_implicit_euler", "exact"))
    return _step("step_acceleration", 2, scheme == "exact", u, start, dt, start_idx, goal, layout, out, check)


def step_jerk(
    u: Any, start: Any, dt: Any, *, scheme: str = "semi_implicit_euler", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, velocity and acceleration of a sequence of jerks.

    For h = 1 .. H-1 and t = dt[:, h], j_h = u_{h-1}, a_h = a_{h-1} + t j_h, then v_h = v_{h-1} + t a_h, p_h = p_{h-1} + t v_h
    ("semi_implicit_euler"), or by "exact" (constant over the step) v_h = v_{h-1} + t a_{h-1} + t^2/2 j_h and
    p_h = p_{h-1} + t v_{h-1} + t^2/2 a_{h-1} + t^3/6 j_h. Undoes `step_position`: its jerk, delayed by a step, gives its positions.

    Args: as `step_position`, with u in radians or metres a second cubed; scheme as above and there is no goal.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: Taylor's theorem with constant jerk; semi-implicit Euler as in `step_acceleration`.
    """
    _scheme("step_jerk", scheme, ("semi_implicit_euler", "exact"))
    return _step("step_jerk", 3, scheme == "exact", u, start, dt, start_idx, goal, layout, out, check)


def _scheme(name: str, scheme: str, known: tuple[str, ...]) -> None:
    if scheme not in known:
        raise ValueError(f"{name}: scheme is {' or '.join(map(repr, known))}, got {scheme!r}")


def _step(
    name: str, order: int, exact: bool, u: Any, start: Any, dt: Any, start_idx: Any, goal: Any, layout: str, out: Any, check: bool
) -> JointTrajectory:
    if goal is not None:
        raise ValueError(f'{name}: only step_position with scheme="central" takes a goal, got {checks.describe(goal)}; leave it out')
    sizes = checks.control(name, u, layout, 1)
    begin = start_parts(name, start, u, sizes, start_idx, check)
    times = checks.step_times(name, dt, u, sizes, check)
    targets = checks.outputs(name, out, u, sizes)
    which = (0, *(i + 1 for i, x in enumerate(begin) if x is not None))
    parts = [u, *(x for x in begin if x is not None)]
    static = (order, exact, sizes.shape, sizes.time_last)
    with filling(out):
        made = apply(_CHAINS[order], times, static, which, targets, parts)
    return delivered(made, out)
