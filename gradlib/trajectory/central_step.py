"""Central differences as a differentiable map, and the step that uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory import central as host, check as checks, kernels as device
from gradlib.trajectory.calling import apply, delivered, filling, start_parts
from gradlib.trajectory.maps import Static, batch_and_joints, each, launch_times, series, series_rows, shaped, step_times
from gradlib.trajectory.pair import Places, closed_pair
from gradlib.trajectory.state import JointState, JointTrajectory

# static = (has_goal, shape, time_last)


def _steps_first(array: Array | None, time_last: bool) -> Array | None:
    """(B, H, D) of a large array in either layout; a view."""
    return array.swapaxes(1, 2) if array is not None and time_last else array


def _forward(xp: Any, dt: Any, static: Static, parts: list[Any], out: Any) -> tuple[Array, ...]:
    has_goal, shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    given = next(x for x in parts if x is not None)
    control = xp.zeros(shape, given.dtype) if parts[0] is None else parts[0]
    start = [each(xp, x, batch, joints) for x in parts[1:4]]
    goal = each(xp, parts[4], batch, joints)
    if has_goal and goal is None:
        goal = xp.zeros((batch, joints), control.dtype)
    made = tuple(xp.empty(shape, control.dtype) for _ in range(4)) if out is None else tuple(out)
    if xp is np:
        targets = [_steps_first(x, time_last) for x in made]
        host.forward(_steps_first(control, time_last), start, goal, step_times(xp, dt), targets)
    else:
        begin, end = [series_rows(x, time_last) for x in start], series_rows(goal, time_last)
        targets = [series(x, time_last) for x in made]
        group = joints if time_last else 1
        device.central_forward(xp, series(control, time_last), begin, end, launch_times(xp, dt), targets, group)
    return made


def _adjoint(xp: Any, dt: Any, static: Static, grads: list[Any], wanted: Places) -> tuple[Array, ...]:
    has_goal, shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    if xp is np:
        horizon = shape[2 if time_last else 1]
        made = host.adjoint([_steps_first(g, time_last) for g in grads], step_times(xp, dt), (batch, horizon, joints), has_goal)
        by_u = np.ascontiguousarray(_steps_first(made[0], time_last))
        return tuple(by_u if i == 0 else made[i] for i in wanted)
    given = [series(g, time_last) for g in grads]
    full = device.central_adjoint(xp, given, launch_times(xp, dt), has_goal, joints if time_last else 1)
    return tuple(shaped(full[i], (batch, joints) if i else shape) for i in wanted)


def _by_time(dt: Any, static: Static, parts: Any, outputs: Any, grads: Any, by_parts: Any) -> Any:
    """p, v t, a t^2 and j t^3 depend on t only through v_0 t and a_0 t^2, so t times the gradient by t is
    sum of -V v - 2 A a - 3 J j over a trajectory, plus v_0 and 2 a_0 times their gradients. (B, 1)."""
    total: Any = 0
    for k in (1, 2, 3):
        if grads[k] is not None:
            total = total - (k * grads[k] * outputs[k]).sum((1, 2))
    for k, place in ((1, 2), (2, 3)):
        if parts[place] is not None:
            total = total + (k * by_parts[place] * parts[place]).sum(1)
    if isinstance(total, int):
        return None
    return total[:, None] / dt


central_map = closed_pair(
    "trajectory_central",
    ("u", "start_position", "start_velocity", "start_acceleration", "goal"),
    _forward, _adjoint, (2, 3), _by_time,
).called("step_position")  # fmt: skip


def central(name: str, u: Any, start: Any, dt: Any, start_idx: Any, goal: Any, layout: str, out: Any, check: bool) -> JointTrajectory:
    """`step_position` with scheme "central"."""
    sizes = checks.control(name, u, layout, 6)
    begin = start_parts(name, start, u, sizes, start_idx, check)
    target = goal.position if isinstance(goal, JointState) else goal
    end = checks.start_part(name, "goal position", target, u, sizes, None)
    times = checks.step_times(name, dt, u, sizes, check, one=True)
    parts = [u, *begin, end]
    which = tuple(i for i, x in enumerate(parts) if x is not None)
    static = (end is not None, sizes.shape, sizes.time_last)
    targets = checks.outputs(name, out, u, sizes)
    with filling(out):
        made = apply(central_map, times, static, which, targets, [parts[i] for i in which])
    return delivered(made, out)
