"""Checks of a step function's arguments at the call: each error says the rule, what was received, what to do.

Checks of values (dt, indices) read arrays in host memory only; on a GPU they would copy to the host and wait, so they run there on
request (``check=True``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import device_index, is_array, is_cupy, move, namespace, on_device_of
from gradlib.core.batched import Batched
from gradlib.core.tensor import Tensor, raw
from gradlib.trajectory.cache_blocks import compute_dtype
from gradlib.trajectory.start_rows import StartRows, rows
from gradlib.trajectory.state import JointState

LAYOUTS = ("bhd", "bdh")
_PARTS = ("start position", "start velocity", "start acceleration")
_NO_PARTS = (None, None, None)


class Sizes(NamedTuple):
    """The sizes of a call: trajectories, steps, joints, the control's shape and whether time is its last axis."""

    batch: int
    horizon: int
    joints: int
    shape: tuple[int, int, int]
    time_last: bool


@lru_cache(maxsize=256)
def _sizes(shape: tuple[int, ...], layout: str) -> Sizes | None:
    """The sizes that a control of this shape has; None for what is none. A planner asks with the same ones again and again."""
    if len(shape) != 3 or layout not in LAYOUTS:
        return None
    batch, first, second = shape
    horizon, joints = (first, second) if layout == "bhd" else (second, first)
    return Sizes(batch, horizon, joints, (batch, first, second), layout == "bdh") if joints else None


@lru_cache(maxsize=256)
def _is_usable(seconds: float, dtype: np.dtype[Any]) -> bool:
    """Whether a step time is positive and finite in the dtype in which a control of this one is computed."""
    with np.errstate(all="ignore"):
        return bool(0 < compute_dtype(dtype).type(seconds) < np.inf)


def constant(name: str, what: str, value: Any, instead: str) -> Any:
    """The array or number of a constant. Raises: ValueError for a Tensor which a derivative or vmap follows, as it would be lost."""
    if isinstance(value, Batched):
        raise ValueError(f"{name}: {what} is a constant, got a Tensor that vmap batches over; {instead}")
    if isinstance(value, Tensor) and (value._node is not None or (value._meta is not None and value._meta.tangents)):
        kind = "requires grad" if value._node is not None else "has a tangent"
        raise ValueError(f"{name}: {what} is a constant, got a Tensor that {kind}; detach it, or {instead}")
    return raw(value)


def describe(value: Any) -> str:
    """A value as an error names it: kind, shape, dtype, device."""
    array = raw(value)
    if isinstance(value, (tuple, list)) and any(is_array(raw(each)) for each in value):
        return f"{type(value).__name__} of {', '.join(map(describe, value))}"
    if not is_array(array):
        return f"{type(value).__name__} {value!r}"
    place = device_index(array)
    return f"{type(value).__name__} of shape {tuple(array.shape)}, {array.dtype}, on {'cpu' if place is None else f'cuda:{place}'}"


def control(name: str, u: Any, layout: str, shortest: int, what: str = "u") -> Sizes:
    """Sizes of a control sequence.

    Raises: TypeError unless it is a float Tensor or array; ValueError for another layout, rank, no elements or too few steps.
    """
    array = u._array if isinstance(u, Tensor) else u
    if (type(array) is np.ndarray or is_cupy(array)) and array.dtype.kind == "f" and type(layout) is str:
        sizes = _sizes(array.shape, layout)
        if sizes is not None and sizes.horizon >= shortest:
            return sizes
    if layout not in LAYOUTS:
        raise ValueError(f'{name}: layout is "bhd" (trajectory, step, joint) or "bdh" (trajectory, joint, step), got {layout!r}')
    if not is_array(array) or not dtypes.is_floating_point(array.dtype):
        raise TypeError(
            f"{name}: {what} is a Tensor or array of a floating dtype, got {describe(u)}; convert it with gradlib.tensor or .to(dtype)"
        )
    axes = "(B, H, D)" if layout == "bhd" else "(B, D, H)"
    if array.ndim != 3:
        raise ValueError(f"{name}: {what} has shape {axes}, got {describe(u)}; give a single trajectory as {what}[None]")
    sizes = _sizes(tuple(array.shape), layout)
    if sizes is None:
        raise ValueError(f"{name}: there is at least one joint, got {describe(u)} in layout {layout!r}")
    if sizes.horizon < shortest:
        least = f"{shortest} step{'s' * (shortest > 1)}"
        raise ValueError(
            f"{name}: the horizon is at least {least}, got {describe(u)}, {sizes.horizon} steps in layout {layout!r}; give more steps"
        )
    return sizes


def start_part(name: str, part: str, value: Any, u: Any, sizes: Sizes, start_idx: Any) -> Any:
    """One part of a start or goal state, checked.

    Raises: TypeError for another dtype or no array; ValueError for a shape that is not (S, D), with S = B where nothing chooses rows.
    """
    if value is None:
        return None
    array, like = raw(value), raw(u)
    if not is_array(array):
        raise TypeError(f"{name}: {part} is a Tensor or array of shape (S, {sizes.joints}), got {describe(value)}")
    if array.dtype != like.dtype:
        advice = "convert one, a Tensor with .to(dtype), an array with .astype(dtype)"
        raise TypeError(f"{name}: {part} has the dtype of u, {like.dtype}, got {describe(value)}; {advice}")
    if device_index(array) != device_index(like):
        raise ValueError(f"{name}: {part} lives where u does, got {describe(value)} and u {describe(u)}; move one with .to(device)")
    rows = array.shape[0] if array.ndim == 2 else 1
    fits = array.ndim in (1, 2) and array.shape[-1] == sizes.joints
    if not fits or (start_idx is None and rows not in (1, sizes.batch)):
        need = f"(S, {sizes.joints})" if start_idx is not None else f"({sizes.batch}, {sizes.joints}) or ({sizes.joints},)"
        raise ValueError(
            f"{name}: {part} has shape {need}, one row for each trajectory, got {describe(value)}; "
            "pass start_idx to choose a row for each trajectory"
        )
    return value


def _fit(parts: tuple[Any, ...], u: Any, sizes: Sizes) -> bool:
    """Whether parts are as they mostly are, one row for each trajectory where u is; `start_part` knows what else may be, and what not."""
    like, shape = u._array if isinstance(u, Tensor) else u, (sizes.batch, sizes.joints)
    kind, dtype = type(like), like.dtype
    place = None if kind is np.ndarray else device_index(like)
    for part in parts:
        array = part._array if isinstance(part, Tensor) else part
        if array is None:
            continue
        if type(array) is not kind or array.dtype is not dtype or array.shape != shape:
            return False
        if place is not None and array.data.device_id != place:
            return False
    return True


def start_parts(name: str, start: Any, u: Any, sizes: Sizes, start_idx: Any, check: bool) -> tuple[list[Any], StartRows | None]:
    """Start position, velocity and acceleration, checked, None where zero; and which row of them each trajectory has, with start_idx.

    A map takes both, but for an index that vmap has in a batch: rows chosen by that are gathered here.
    """
    given = () if start is None else tuple(start)[:3] if isinstance(start, (JointState, tuple, list)) else (start,)
    if start_idx is None and _fit(given, u, sizes):
        return [*given, *_NO_PARTS[len(given) :]], None
    parts = [start_part(name, part, x, u, sizes, start_idx) for part, x in zip(_PARTS, given, strict=False)]
    parts += _NO_PARTS[len(parts) :]
    if start_idx is None or all(x is None for x in parts):
        return parts, None
    numbers = {len(raw(x)) for x in parts if x is not None}
    if len(numbers) != 1 or any(x is not None and raw(x).ndim != 2 for x in parts):
        shapes = [tuple(raw(x).shape) for x in parts if x is not None]
        raise ValueError(f"{name}: with start_idx every start part is (S, {sizes.joints}) with one S, got shapes {shapes}")
    number = numbers.pop()
    index = row_index(name, start_idx, number, u, sizes, check)
    if isinstance(index, Tensor):
        return [None if x is None else rows(x, index) for x in parts], None
    return parts, StartRows(index, number)


def row_index(name: str, start_idx: Any, rows: int, u: Any, sizes: Sizes, check: bool) -> Any:
    """start_idx as int64 (B,) on u's device. Raises: TypeError or ValueError unless it is integers (B,), each in 0 .. rows - 1."""
    array = raw(start_idx)
    if not is_array(array):
        array = np.asarray(array)
    if dtypes.category(array.dtype) != 1 or array.shape != (sizes.batch,):
        raise (TypeError if dtypes.category(array.dtype) != 1 else ValueError)(
            f"{name}: start_idx is integers of shape ({sizes.batch},), one for each trajectory, got {describe(start_idx)}"
        )
    if array.size and (type(array) is np.ndarray or check):
        with on_device_of(array):
            low, high = int(array.min()), int(array.max())
        if low < 0 or high >= rows:
            raise ValueError(f"{name}: start_idx chooses among the {rows} start rows 0 .. {rows - 1}, got values from {low} to {high}")
    if isinstance(start_idx, Tensor) and type(start_idx) is not Tensor:
        return start_idx  # a row of a batch: the operation takes it whole
    if isinstance(array, np.ndarray):
        array = move(array, device_index(raw(u)))
    with on_device_of(array):
        return namespace(array).ascontiguousarray(array, dtype=np.int64)


def step_times(name: str, dt: Any, u: Any, sizes: Sizes, check: bool, one: bool = False) -> Any:
    """dt, checked: a number, a Tensor or an array that broadcasts to (B, H), or to (B, 1) when there is ``one`` for a trajectory.

    Raises: TypeError for tensors of integers and what is no number; ValueError for a shape that does not broadcast, and for a used
    value that is not finite and positive in the dtype in which u is computed.
    """
    like = raw(u)
    if type(dt) is float and _is_usable(dt, like.dtype):
        return dt
    array = raw(dt)
    if not is_array(array):
        array = np.asarray(array)
        if array.dtype.kind not in "iuf":  # NumPy would read a number from a string
            raise TypeError(f"{name}: dt is seconds, a number, a Tensor or an array, got {describe(dt)}")
        array = array.astype(np.float64)
        dt = array if array.ndim else float(array)
    if not dtypes.is_floating_point(array.dtype):
        raise TypeError(f"{name}: dt is seconds in a floating dtype, got {describe(dt)}; convert it with .to(dtype)")
    target = (sizes.batch, 1 if one else sizes.horizon)
    if array.ndim > 2 or any(n not in (1, m) for n, m in zip(array.shape[::-1], target[::-1], strict=False)):
        rule = "one step length for each trajectory" if one else "dt[b, h] from step h-1 to h"
        advice = "; give one for each trajectory as dt[:, None]" if array.shape == (sizes.batch,) else ""
        raise ValueError(f"{name}: dt broadcasts to {target}, {rule}, got {describe(dt)}{advice}")
    if array.ndim and device_index(array) != device_index(like):
        raise ValueError(f"{name}: dt lives where u does, got {describe(dt)} and u {describe(u)}; move it with .to(device)")
    if type(array) is np.ndarray or check:  # a logical tensor of vmap holds an array of another type, without values
        used = array if one or array.ndim == 0 or array.shape[-1] == 1 else array[..., 1:]
        with on_device_of(array):
            ends = [float(used.min()), float(used.max())] if used.size else [1.0, 1.0]
        real = compute_dtype(like.dtype)
        with np.errstate(all="ignore"):
            least, most = np.array(ends).astype(real)
        if not (least > 0 and np.isfinite(most)):
            values = f", values from {ends[0]} to {ends[1]}" if array.ndim else ""
            rounded = f", which in {real} are {least} to {most}" if ends[0] > 0 and np.isfinite(ends[1]) else ""
            raise ValueError(f"{name}: dt is positive and finite seconds at every step used, got {describe(dt)}{values}{rounded}")
    return dt
