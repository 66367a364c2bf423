"""The trajectory maps as differentiable operations: their values on NumPy and CuPy arrays and their derivatives by dt.

``static`` of a map: what selects its kernel, the shape of the control, and whether time is the last axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory import chain as host_chain, kernels as device
from gradlib.trajectory.pair import Places, closed_pair

Static = tuple[Any, ...]


def step_times(xp: Any, dt: Any) -> Array:
    """dt as (1 or B, 1 or H); a number on the host goes to a device with the launch that fills its array, not by a copy."""
    if isinstance(dt, float):
        return xp.full((1, 1), dt)
    times = xp.asarray(dt)
    return times.reshape((1,) * (2 - times.ndim) + times.shape)


def launch_times(xp: Any, dt: Any) -> Any:
    """dt for a launch: as `step_times`, but a number stays one, which needs no place on the device."""
    return dt if isinstance(dt, float) else step_times(xp, dt)


def batch_and_joints(shape: tuple[int, ...], time_last: bool) -> tuple[int, int]:
    return shape[0], shape[1 if time_last else 2]


def each(xp: Any, rows: Array | None, batch: int, joints: int) -> Array | None:
    """A start part with one row for each trajectory."""
    return rows if rows is None or rows.shape == (batch, joints) else xp.broadcast_to(rows, (batch, joints))


def series(array: Array | None, time_last: bool) -> Array | None:
    """A large array as (series, H, joints): with time last every joint is a trajectory of its own. A view."""
    return array.reshape(-1, array.shape[2], 1) if array is not None and time_last else array


def series_rows(rows: Array | None, time_last: bool) -> Array | None:
    """A start or goal part (B, D) with one row for each series."""
    return rows.reshape(-1, 1) if rows is not None and time_last else rows


# ---- the chain: static = (order, exact, shape, time_last) -----------------------------------------------------------------------

SOURCES = (4, 5, 6)


def _host_times(dt: Any, static: Static) -> Array:
    """Step times for each series."""
    times = step_times(np, dt)
    return np.repeat(times, static[2][1], axis=0) if static[3] and len(times) > 1 else times


def shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape; itself where it has it, so that a gradient can be handed on without a copy."""
    return array if array.shape == shape else array.reshape(shape)


def _chain_forward(xp: Any, dt: Any, static: Static, parts: list[Any], out: Any) -> tuple[Array, ...]:
    order, exact, shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    given = next(x for x in parts if x is not None)
    control = series(xp.zeros(shape, given.dtype) if parts[0] is None else parts[0], time_last)
    start = [series_rows(each(xp, x, batch, joints), time_last) for x in parts[1:4]]
    sources = [series(x, time_last) for x in parts[4:]] if any(x is not None for x in parts[4:]) else None
    targets = None if out is None else [series(x, time_last) for x in out]
    if xp is np:
        made = host_chain.forward(control, start, _host_times(dt, static), order, exact, sources, targets)
    else:
        group = joints if time_last else 1
        made = device.chain_forward(xp, control, start, launch_times(xp, dt), order, exact, sources, targets, group)
    return tuple(out) if out is not None else tuple(x.reshape(shape) for x in made)


def _chain_adjoint(xp: Any, dt: Any, static: Static, grads: list[Any], wanted: Places) -> tuple[Array, ...]:
    order, exact, shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    given = [series(x, time_last) for x in grads]
    with_sources = any(place in SOURCES for place in wanted)
    if xp is np:
        rows = next(x.shape for x in given if x is not None)
        made = host_chain.adjoint(given, _host_times(dt, static), rows, order, exact, with_sources)
    else:
        made = device.chain_adjoint(xp, given, launch_times(xp, dt), order, exact, with_sources, joints if time_last else 1)
    return tuple(shaped(made[i], (batch, joints) if 1 <= i <= 3 else shape) for i in wanted)


def chain_by_time(dt: Any, static: Static, parts: Any, outputs: Any, grads: Any, by_parts: Any) -> Any:
    """A change of t_h acts as sources (v_h, a_h, j_h) times it: sum over joints of L_p v + L_v a + L_a j, (B, H).

    By ``exact`` the speed at which a state moves at the end of a step is the state above without that step's own source.
    """
    order, exact, _, time_last = static
    velocity, acceleration, jerk = outputs[1:]
    if exact and parts[5] is not None:
        velocity = velocity - parts[5]
    if exact and order == 3 and parts[6] is not None:
        acceleration = acceleration - parts[6]
    total = by_parts[4] * velocity + by_parts[5] * acceleration + by_parts[6] * jerk
    return total.sum(1 if time_last else 2)


chain = closed_pair(
    "trajectory_chain",
    ("u", "start_position", "start_velocity", "start_acceleration", "source_p", "source_v", "source_a"),
    _chain_forward, _chain_adjoint, SOURCES, chain_by_time,
)  # fmt: skip
