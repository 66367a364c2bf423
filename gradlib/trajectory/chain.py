"""The chain of positions, velocities, accelerations and jerks: all four from one of them as the control, and every derivative.

Here are the public integrators and the map behind them; its CPU form is `chain_host`, or `chain_numba` where numba is in use, its CUDA form
`chain_device` and kernels/chain.cu.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array
from gradlib.ops.reduce import sum
from gradlib.trajectory import chain_device as device, chain_host as host
from gradlib.trajectory.adjoint_pair import AdjointPair
from gradlib.trajectory.arguments import control, describe, start_parts, step_times
from gradlib.trajectory.central import step_central
from gradlib.trajectory.compiled import form
from gradlib.trajectory.layout import batch_and_joints, each, host_times, launch_times, series, series_rows, shaped
from gradlib.trajectory.out_buffers import delivered, filling, targets
from gradlib.trajectory.start_rows import StartRows, host_rows, sum_of_rows
from gradlib.trajectory.state import JointTrajectory


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
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])  # one trajectory, three steps, one joint
        >>> motion = gradlib.trajectory.step_position(u, (gradlib.zeros(1, 1),), 0.5)
        >>> motion.position[0, :, 0], motion.velocity[0, :, 0]
        (tensor([0., 1., 3.]), tensor([0., 2., 4.]))
    """
    if scheme == "central":
        return step_central(u, start, dt, start_idx, goal, layout, out, check)
    if scheme != "backward":
        raise _unknown("step_position", scheme, ("backward", "central"))
    return _step("step_position", 0, False, u, start, dt, start_idx, goal, layout, out, check)


def step_velocity(
    u: Any, start: Any, dt: Any, *, scheme: str = "backward", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, acceleration and jerk of a sequence of velocities.

    For h = 1 .. H-1 and t = dt[:, h], v_h = u_{h-1}, p_h = p_{h-1} + t v_h, a_h = (v_h - v_{h-1}) / t, j_h = (a_h - a_{h-1}) / t.

    Args:
        u: (B, H, D) velocities, radians or metres a second.
        scheme: "backward".
        start, dt, start_idx, layout, out, check: as for `step_position`.
        goal: None; there is none.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: backward Euler.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> motion = gradlib.trajectory.step_velocity(u, (gradlib.zeros(1, 1),), 0.5)
        >>> motion.position[0, :, 0], motion.acceleration[0, :, 0]
        (tensor([0.0000, 0.5000, 2.0000]), tensor([0., 2., 4.]))
    """
    if scheme != "backward":
        raise _unknown("step_velocity", scheme, ("backward",))
    return _step("step_velocity", 1, False, u, start, dt, start_idx, goal, layout, out, check)


def step_acceleration(
    u: Any, start: Any, dt: Any, *, scheme: str = "semi_implicit_euler", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, velocity and jerk of a sequence of accelerations.

    For h = 1 .. H-1 and t = dt[:, h], a_h = u_{h-1}, v_h = v_{h-1} + t a_h, j_h = (a_h - a_{h-1}) / t, and
    p_h = p_{h-1} + t v_h ("semi_implicit_euler") or p_{h-1} + t v_{h-1} + t^2/2 a_h ("exact": constant over the step).

    Args:
        u: (B, H, D) accelerations, radians or metres a second squared.
        scheme: "semi_implicit_euler" or "exact".
        start, dt, start_idx, layout, out, check: as for `step_position`.
        goal: None; there is none.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration, section I.1.2 (semi-implicit, or symplectic, Euler).
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> motion = gradlib.trajectory.step_acceleration(u, (), 0.5)  # from rest at 0
        >>> motion.velocity[0, :, 0], motion.position[0, :, 0]
        (tensor([0.0000, 0.5000, 2.0000]), tensor([0.0000, 0.2500, 1.2500]))
    """
    if scheme not in ("semi_implicit_euler", "exact"):
        raise _unknown("step_acceleration", scheme, ("semi_implicit_euler", "exact"))
    return _step("step_acceleration", 2, scheme == "exact", u, start, dt, start_idx, goal, layout, out, check)


def step_jerk(
    u: Any, start: Any, dt: Any, *, scheme: str = "semi_implicit_euler", start_idx: Any = None, goal: Any = None, layout: str = "bhd",
    out: Any = None, check: bool = False,
) -> JointTrajectory:  # fmt: skip
    """Position, velocity and acceleration of a sequence of jerks.

    For h = 1 .. H-1 and t = dt[:, h], j_h = u_{h-1}, a_h = a_{h-1} + t j_h, then v_h = v_{h-1} + t a_h, p_h = p_{h-1} + t v_h
    ("semi_implicit_euler"), or by "exact" (constant over the step) v_h = v_{h-1} + t a_{h-1} + t^2/2 j_h and
    p_h = p_{h-1} + t v_{h-1} + t^2/2 a_{h-1} + t^3/6 j_h. Undoes `step_position`: its jerk, delayed by a step, gives its positions.

    Args:
        u: (B, H, D) jerks, radians or metres a second cubed.
        scheme: "semi_implicit_euler" or "exact".
        start, dt, start_idx, layout, out, check: as for `step_position`.
        goal: None; there is none.
    Returns: `JointTrajectory`; step 0 is the start with j = 0.
    Raises: as `step_position`.
    Source: Taylor's theorem with constant jerk; semi-implicit Euler as in `step_acceleration`.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> motion = gradlib.trajectory.step_jerk(u, (), 1.0, scheme="exact")
        >>> motion.acceleration[0, :, 0], motion.velocity[0, :, 0]
        (tensor([0., 1., 4.]), tensor([0.0000, 0.5000, 3.0000]))
    """
    if scheme not in ("semi_implicit_euler", "exact"):
        raise _unknown("step_jerk", scheme, ("semi_implicit_euler", "exact"))
    return _step("step_jerk", 3, scheme == "exact", u, start, dt, start_idx, goal, layout, out, check)


def _unknown(name: str, scheme: str, known: tuple[str, ...]) -> ValueError:
    return ValueError(f"{name}: scheme is {' or '.join(map(repr, known))}, got {scheme!r}")


def _step(
    name: str, order: int, exact: bool, u: Any, start: Any, dt: Any, start_idx: Any, goal: Any, layout: str, out: Any, check: bool
) -> JointTrajectory:
    """One of the four integrators; ``order`` says which: 0 position, 1 velocity, 2 acceleration, 3 jerk is the control."""
    if goal is not None:
        raise ValueError(f'{name}: only step_position with scheme="central" takes a goal, got {describe(goal)}; leave it out')
    sizes = control(name, u, layout, 1)
    begin, chosen = start_parts(name, start, u, sizes, start_idx, check)
    times = step_times(name, dt, u, sizes, check)
    options = chain_options(name, order, exact, sizes.shape, sizes.time_last)
    if chosen is not None:
        options = options._replace(rows=chosen)
    if out is None:
        return JointTrajectory(*chain.forward(name)(times, options, False, None, [u, *begin]))
    arrays = targets(name, out, u, sizes.shape, (*begin, times))
    with filling(out):
        made = chain.forward(name)(times, options, False, arrays, [u, *begin])
    return delivered(made, out)


# ---- the map ----------------------------------------------------------------------------------------------------------------------


class ChainOptions(NamedTuple):
    """The options that select the chain's kernel, and the layout of its arrays.

    Attributes:
        name: the public function's. order: which of p, v, a, j is the control.
        exact: hold the control constant over a step. shape: of the control. time_last: whether it is (B, D, H).
        rows: which row of the start parts each trajectory has; None where they have one for each, or one for all.
    """

    name: str
    order: int
    exact: bool
    shape: tuple[int, int, int]
    time_last: bool
    rows: StartRows | None = None


chain_options = lru_cache(maxsize=256)(ChainOptions)


def _forward(xp: Any, dt: Any, options: ChainOptions, sources: bool, buffers: Any, parts: list[Any]) -> tuple[Array, ...]:
    """The integration of a control, of any of the four orders."""
    _, order, exact, shape, time_last, chosen = options
    u, *start = parts[:4]
    extra = parts[4:] if sources and any(x is not None for x in parts[4:]) else None
    batch, joints = shape[0], shape[1 if time_last else 2]
    if u is None:
        u = xp.zeros(shape, next(x for x in parts if x is not None).dtype)
    if time_last:
        u, extra = series(u, True), None if extra is None else [series(x, True) for x in extra]
    into = [series(x, time_last) for x in buffers] if buffers is not None else None
    if xp is np:
        rows = each(xp, host_rows(chosen, start), batch, joints)
        begin = [series_rows(x, True) for x in rows] if time_last else rows
        made = form("chain", host).forward(u, begin, host_times(dt, time_last, joints), order, exact, extra, into)
    else:
        seconds = dt if type(dt) is float else launch_times(xp, dt)
        index = None if chosen is None else chosen.index
        made = device.forward(xp, u, start, seconds, order, exact, extra, into, joints if time_last else 1, index)
    if buffers is not None:
        return tuple(buffers)
    return tuple(x.reshape(shape) for x in made) if time_last else made


def _adjoint(xp: Any, dt: Any, options: ChainOptions, sources: bool, grads: list[Any]) -> tuple[Array, ...]:
    """The transpose of the integration: gradients by the control, the start parts and, with ``sources``, the sources."""
    _, order, exact, shape, time_last, chosen = options
    batch, joints = batch_and_joints(shape, time_last)
    by_start = None if chosen is None or xp is np else xp.empty((3, batch, joints), next(x.dtype for x in grads if x is not None))
    given = [series(x, True) for x in grads] if time_last else grads
    if xp is np:
        rows = next(x.shape for x in given if x is not None)
        made = form("chain", host).adjoint(given, host_times(dt, time_last, joints), rows, order, exact, sources)
    else:
        made = device.adjoint(xp, given, launch_times(xp, dt), order, exact, sources, joints if time_last else 1, by_start)
    if time_last:
        made = tuple(shaped(x, (batch, joints) if 1 <= i <= 3 else shape) for i, x in enumerate(made))
    if chosen is None:
        return made
    stacked = np.stack(made[1:4]) if by_start is None else by_start
    return (made[0], *sum_of_rows(xp, stacked, chosen.index, chosen.number), *made[4:])


def by_step_times(dt: Any, options: ChainOptions, parts: Any, results: Any, grads: Any, by_parts: Any) -> Any:
    """A change of t_h acts as sources (v_h, a_h, j_h) times it: sum over joints of L_p v + L_v a + L_a j, (B, H), L by the sources.

    By ``exact`` the speed at which a state moves at the end of a step is the state above without that step's own source.
    """
    _, velocity, acceleration, jerk = results
    if options.exact and len(parts) > 4:
        if parts[5] is not None:
            velocity = velocity - parts[5]
        if options.order == 3 and parts[6] is not None:
            acceleration = acceleration - parts[6]
    total = by_parts[4] * velocity + by_parts[5] * acceleration + by_parts[6] * jerk
    return sum(total, 1 if options.time_last else 2)


chain = AdjointPair(
    "trajectory_chain",
    ("u", "start_position", "start_velocity", "start_acceleration", "source_p", "source_v", "source_a"),
    _forward, _adjoint, by_step_times,
)  # fmt: skip
"""The map of all four orders; the operation is ``chain.forward("step_acceleration")``, its transpose that with ``_adjoint`` behind."""
