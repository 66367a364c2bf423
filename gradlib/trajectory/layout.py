"""The memory layout of a call's arguments: step times, start rows, and arrays with time last as series of one joint."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array


def times_table(xp: Any, dt: Any) -> Array:
    """dt as (1 or B, 1 or H); a number on the host goes to a device with the launch that fills its array, not by a copy."""
    if isinstance(dt, float):
        return xp.full((1, 1), dt)
    times = xp.asarray(dt)
    return times.reshape((1,) * (2 - times.ndim) + times.shape)


def launch_times(xp: Any, dt: Any) -> Any:
    """dt for a launch: as `times_table`, but a number stays a number, which is passed by value."""
    return dt if isinstance(dt, float) else times_table(xp, dt)


def batch_and_joints(shape: tuple[int, ...], time_last: bool) -> tuple[int, int]:
    """The trajectories and joints of a large array."""
    return shape[0], shape[1 if time_last else 2]


def each(xp: Any, rows: list[Array | None], batch: int, joints: int) -> list[Array | None]:
    """Start or goal parts with one row for each trajectory."""
    size, made = (batch, joints), []
    for x in rows:
        made.append(x if x is None or x.shape == size else xp.broadcast_to(x, size))
    return made


def series(array: Array | None, time_last: bool) -> Array | None:
    """A large array as (series, H, joints): with time last every joint is a trajectory of its own. A view."""
    return array.reshape(-1, array.shape[2], 1) if array is not None and time_last else array


def series_rows(rows: Array | None, time_last: bool) -> Array | None:
    """A start or goal part (B, D) with one row for each series."""
    return rows.reshape(-1, 1) if rows is not None and time_last else rows


def steps_first(array: Array | None, time_last: bool) -> Array | None:
    """(B, H, D) of a large array in either layout; a view."""
    return array.swapaxes(1, 2) if array is not None and time_last else array


def shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape; itself where it has it, so that a gradient can be handed on without a copy."""
    return array if array.shape == shape else array.reshape(shape)


def host_times(dt: Any, time_last: bool, joints: int) -> Any:
    """dt for the host's form of a map on series: a number, or the step times of each series."""
    if isinstance(dt, float):
        return dt
    times = times_table(np, dt)
    return np.repeat(times, joints, axis=0) if time_last and len(times) > 1 else times
