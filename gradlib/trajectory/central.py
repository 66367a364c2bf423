"""Five-point central differences of a position sequence: what `step_position` with scheme "central" is, and every derivative.

CPU form: `central_host`, or `central_numba` where numba is in use. CUDA form: `central_device` and kernels/central.cu.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array
from gradlib.ops.reduce import sum
from gradlib.trajectory import central_device as device, central_host as host
from gradlib.trajectory.adjoint_pair import AdjointPair
from gradlib.trajectory.arguments import control, start_part, start_parts, step_times
from gradlib.trajectory.compiled import form
from gradlib.trajectory.layout import batch_and_joints, each, launch_times, series, shaped, steps_first, times_table
from gradlib.trajectory.out_buffers import delivered, filling, targets
from gradlib.trajectory.start_rows import StartRows, host_rows, sum_of_rows
from gradlib.trajectory.state import JointState, JointTrajectory


def step_central(u: Any, start: Any, dt: Any, start_idx: Any, goal: Any, layout: str, out: Any, check: bool) -> JointTrajectory:
    """`step_position` with scheme "central"."""
    name = "step_position"
    sizes = control(name, u, layout, 6)
    begin, chosen = start_parts(name, start, u, sizes, start_idx, check)
    end = start_part(name, "goal position", goal.position if isinstance(goal, JointState) else goal, u, sizes, None)
    times = step_times(name, dt, u, sizes, check, one=True)
    options = _options(name, end is not None, sizes.shape, sizes.time_last)
    if chosen is not None:
        options = options._replace(rows=chosen)
    arrays = targets(name, out, u, sizes.shape, (*begin, end, times))
    with filling(out):
        made = central.forward(name)(times, options, False, arrays, [u, *begin, end])
    return delivered(made, out)


class CentralOptions(NamedTuple):
    """How the sequence ends, and the layout of the arrays: the public function's name, the control's shape, whether time is last,
    which row of the start parts each trajectory has."""

    name: str
    has_goal: bool
    shape: tuple[int, int, int]
    time_last: bool
    rows: StartRows | None = None


_options = lru_cache(maxsize=256)(CentralOptions)


def _forward(xp: Any, dt: Any, options: CentralOptions, sources: bool, buffers: Any, parts: list[Any]) -> tuple[Array, ...]:
    """Five-point differences of a padded sequence of positions."""
    _, has_goal, shape, time_last, chosen = options
    batch, joints = batch_and_joints(shape, time_last)
    given = next(x for x in parts if x is not None)
    u = xp.zeros(shape, given.dtype) if parts[0] is None else parts[0]
    *start, goal = parts[1:]
    if has_goal and goal is None:
        goal = xp.zeros((1, joints), u.dtype)
    made = tuple(xp.empty(shape, u.dtype) for _ in range(4)) if buffers is None else tuple(buffers)
    if xp is np:
        into = [steps_first(x, time_last) for x in made]
        *begin, end = each(xp, [*host_rows(chosen, start), goal], batch, joints)
        form("central", host).forward(steps_first(u, time_last), begin, end, times_table(xp, dt), into)
    else:
        into = [series(x, time_last) for x in made]
        index, group = None if chosen is None else chosen.index, joints if time_last else 1
        device.forward(xp, series(u, time_last), start, goal, launch_times(xp, dt), into, group, index)
    return made


def _adjoint(xp: Any, dt: Any, options: CentralOptions, sources: bool, grads: list[Any]) -> tuple[Array, ...]:
    """The transpose of the differences: gradients by the positions, the start parts and the goal."""
    _, has_goal, shape, time_last, chosen = options
    batch, joints = batch_and_joints(shape, time_last)
    if xp is np:
        horizon = shape[2 if time_last else 1]
        ordered, sizes = [steps_first(g, time_last) for g in grads], (batch, horizon, joints)
        by_u, *rest = form("central", host).adjoint(ordered, times_table(xp, dt), sizes, has_goal)
        by_u, stacked = np.ascontiguousarray(steps_first(by_u, time_last)), None if chosen is None else np.stack(rest[:3])
    else:
        given = [series(g, time_last) for g in grads]
        block = None if chosen is None else xp.empty((4, batch, joints), next(g.dtype for g in grads if g is not None))
        by_u, *rest = device.adjoint(xp, given, launch_times(xp, dt), has_goal, joints if time_last else 1, block)
        by_u, rest, stacked = shaped(by_u, shape), [shaped(x, (batch, joints)) for x in rest], None if block is None else block[:3]
    if stacked is None or chosen is None:
        return (by_u, *rest)
    return (by_u, *sum_of_rows(xp, stacked, chosen.index, chosen.number), rest[3])


def _by_time(dt: Any, options: CentralOptions, parts: Any, results: Any, grads: Any, by_parts: Any) -> Any:
    """p, v t, a t^2 and j t^3 depend on t only through v_0 t and a_0 t^2, so t times the gradient by t is
    sum of -V v - 2 A a - 3 J j over a trajectory, plus v_0 and 2 a_0 times their gradients. (B, 1)."""
    total: Any = 0
    for k in (1, 2, 3):
        if grads[k] is not None:
            total = total - sum(k * grads[k] * results[k], (1, 2))
    for k, place in ((1, 2), (2, 3)):  # the start velocity and acceleration
        if parts[place] is not None:
            total = total + sum(k * by_parts[place] * parts[place], 1)
    if isinstance(total, int):
        return None
    return total[:, None] / dt


central = AdjointPair(
    "trajectory_central", ("u", "start_position", "start_velocity", "start_acceleration", "goal"), _forward, _adjoint, _by_time
)
