"""The smoothness cost of positions: value and gradient in one pass, higher derivatives from the chain.

CPU form: `smoothness_host`, or `smoothness_numba` where numba is in use. CUDA form: `smoothness_device` and kernels/smoothness.cu.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, is_array, move, namespace, on_device_of
from gradlib.core import modes
from gradlib.core.declaration import Joint
from gradlib.core.op import op
from gradlib.core.tensor import Tensor, raw
from gradlib.trajectory import smoothness_device as device, smoothness_host as host
from gradlib.trajectory.arguments import Sizes, constant, control, describe, start_parts, step_times
from gradlib.trajectory.chain import ChainOptions, by_step_times, chain
from gradlib.trajectory.compiled import form
from gradlib.trajectory.layout import batch_and_joints, each, host_times, launch_times, series, shaped
from gradlib.trajectory.start_rows import StartRows, host_rows, sum_of_rows
from gradlib.trajectory.state import JointLimits

Weights = tuple[float, ...] | Array  # of velocity, acceleration and jerk: three numbers, or (3, D)


def smoothness_cost(
    u: Any, start: Any, dt: Any, weights: Any, limits: Any = None, *, limit_weight: float = 1.0, start_idx: Any = None,
    layout: str = "bhd", check: bool = False,
) -> Any:  # fmt: skip
    """The roughness of each position trajectory and its distance outside the limits, as a cost to minimise.

    With p, v, a, j as `step_position` gives them, the sum over all steps and joints of w_v v^2 + w_a a^2 + w_j j^2, plus
    limit_weight times the squares of what exceeds the limits. Value and gradient are computed together, and neither p, v, a nor j is
    stored. Differentiable to any order by u, each part of start and dt; beyond first order, and in forward mode, through `step_position`.

    Args:
        u: (B, H, D) positions, H at least 1; float16, bfloat16, float32 or float64.
        start, dt, start_idx, layout, check: as in `step_position`.
        weights: (velocity, acceleration, jerk), each a number or (D,), in units that make the terms commensurable; constants.
        limits: `JointLimits` or a tuple of its fields; None for none. Each lower one is at most its upper one, so a single bound is not
            negative; infinite ones bind nothing. Constants; on a GPU each call copies those that lie on the host.
        limit_weight: of the squared excesses.
    Returns: (B,) costs.
    Raises: TypeError and ValueError that name the rule broken, what was received and what to do.
    Source: the quadratic smoothness and limit terms of trajectory optimisation, as in Ratliff et al., CHOMP, ICRA 2009.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]], requires_grad=True)
        >>> cost = gradlib.trajectory.smoothness_cost(u, (), 1.0, weights=(1.0, 0.0, 0.0))  # v = 0, 1, 2
        >>> cost
        tensor([5.], grad_fn=<SmoothnessCostBackward0>)
        >>> gradlib.autograd.grad(cost.sum(), (u,))[0][0, :, 0]
        tensor([-2.,  4.,  0.])
    """
    name = "smoothness_cost"
    sizes = control(name, u, layout, 1)
    begin, chosen = start_parts(name, start, u, sizes, start_idx, check)
    parts = [u, *begin]
    times = step_times(name, dt, u, sizes, check)
    table = _weights(name, weights, u, sizes)
    bounds = None if limits is None else _bounds(name, limits, u, sizes, check)
    factor = float(constant(name, "limit_weight", limit_weight, _INSTEAD))
    options = SmoothnessOptions(sizes.shape, sizes.time_last, chosen)
    return smoothness(times, table, bounds, factor, wanted_of(times, parts), options, parts)[0]


# ---- constants --------------------------------------------------------------------------------------------------------------------


_INSTEAD = "compose the cost from step_position"


def _constant(name: str, what: str, value: Any, sizes: Sizes) -> float | Array:
    """A number, or (D,) where it lies. Raises: TypeError or ValueError for what is neither, or `constant` refuses."""
    array = constant(name, what, value, _INSTEAD)
    if isinstance(value, (int, float)):
        return float(value)
    if not is_array(array):
        array = np.asarray(array, dtype=np.float64)
    if array.shape not in ((), (1,), (sizes.joints,)):
        raise ValueError(f"{name}: {what} is a number or has shape ({sizes.joints},), got {describe(value)}")
    return namespace(array).broadcast_to(array, (sizes.joints,))


def _table(rows: list[float | Array], u: Any, joints: int) -> Array:
    """Rows as (rows, D) on u's device: by one copy where the arrays among them lie on the host, by none where they lie there."""
    array = raw(u)
    xp, real = namespace(array), np.float64 if array.dtype == np.float64 else np.float32
    kinds = {type(row) for row in rows}
    with on_device_of(array):
        if np.ndarray in kinds and kinds <= {np.ndarray, float}:
            return xp.asarray(np.stack([np.broadcast_to(row, joints) for row in rows]).astype(real))
        return xp.stack([xp.full(joints, row, real) if isinstance(row, float) else xp.asarray(row, real) for row in rows])


def _weights(name: str, weights: Any, u: Any, sizes: Sizes) -> Weights:
    """Three numbers, which a launch takes as they are, or (3, D)."""
    if not isinstance(weights, (tuple, list)) or len(weights) != 3:
        raise TypeError(f"{name}: weights is a tuple (velocity, acceleration, jerk), got {describe(weights)}")
    if all(type(w) in (int, float) for w in weights):
        return tuple(map(float, weights))
    named = zip(("velocity", "acceleration", "jerk"), weights, strict=True)
    return _table([_constant(name, f"the weight of {part}", w, sizes) for part, w in named], u, sizes.joints)


def _bounds(name: str, limits: Any, u: Any, sizes: Sizes, check: bool) -> Array:
    """(8, D): lower and upper of p, v, a, j, infinite where there is none; values on a device are checked where asked."""
    if not isinstance(limits, tuple) or len(limits) > 4:
        raise TypeError(f"{name}: limits is a JointLimits (position, velocity, acceleration, jerk), got {describe(limits)}")
    rows = []
    for part, bound in zip(JointLimits._fields, JointLimits(*limits), strict=True):
        if bound is None:
            pair: tuple[Any, Any] = (-np.inf, np.inf)
        elif isinstance(bound, (tuple, list)):
            if len(bound) != 2:
                raise ValueError(f"{name}: the limit of {part} is a bound or a pair (lower, upper), got {len(bound)} values")
            pair = (bound[0], bound[1])
        else:
            pair = (-bound, bound)
        low, high = (_constant(name, f"the {side} limit of {part}", x, sizes) for side, x in zip(("lower", "upper"), pair, strict=True))
        _in_order(name, part, low, high, check)
        rows += [low, high]
    return _table(rows, u, sizes.joints)


def _in_order(name: str, part: str, low: float | Array, high: float | Array, check: bool) -> None:
    """Raises: ValueError for limits that cannot be met: NaN, a lower above its upper limit, or infinite on the wrong side."""
    if not check and any(is_array(x) and type(x) is not np.ndarray for x in (low, high)):
        return  # on a device, for whose values the host would wait
    lower, upper = (np.asarray(move(x, None) if is_array(x) else x) for x in (low, high))
    if not ((lower <= upper) & (lower < np.inf) & (upper > -np.inf)).all():
        raise ValueError(
            f"{name}: the lower limit of {part} is at most its upper one and neither is NaN, got lower {lower.tolist()} and upper "
            f"{upper.tolist()}; a single bound b stands for (-b, b)"
        )


# ---- the operation ------------------------------------------------------------------------------------------------------------------


class SmoothnessOptions(NamedTuple):
    """The arrays' layout: the shape of the positions, whether time is last, which row of the start parts each trajectory has."""

    shape: tuple[int, int, int]
    time_last: bool
    rows: StartRows | None = None


def wanted_of(dt: Any, parts: list[Any]) -> tuple[bool, bool]:
    """Whether gradients by the parts, and by dt, may be asked for."""
    if not modes.thread_state.grad_enabled:
        return False, False
    recorded = [isinstance(x, Tensor) and x._node is not None for x in (dt, *parts)]
    return any(recorded[1:]), recorded[0]


def _row(row: Array | float, options: SmoothnessOptions, dtype: Any) -> Array | float:
    if isinstance(row, float):
        return row
    return (row[:, None] if options.time_last else row).astype(dtype, copy=False)


def _excess(x: Any, bounds: Array, k: int, options: SmoothnessOptions) -> Any:
    """By how much x exceeds its limits: positive above, negative below, zero within."""
    lower, upper = (_row(row, options, x.dtype) for row in bounds[2 * k : 2 * k + 2])
    return x - x.clip(lower, upper)


def _recorded_rule(
    g: Any, dt: Any, weights: Weights, bounds: Array | None, limit_weight: float, options: SmoothnessOptions, parts: list[Any]
) -> list[Any]:
    """The gradients by dt and the parts from the chain and its transpose: what is differentiated again."""
    differences = ChainOptions("step_position", 0, False, *options)
    states = chain.forward("step_position")(dt, differences, False, None, parts)
    each_one = g.reshape(-1, 1, 1)
    slopes = []
    for k, x in enumerate(states):
        slope = 2 * _row(weights[k - 1], options, x.dtype) * x if k else None
        if bounds is not None:
            push = 2 * limit_weight * _excess(x, bounds, k, options)
            slope = push if slope is None else slope + push
        slopes.append(None if slope is None else each_one * slope)
    by_time = isinstance(dt, Tensor) and (dt._node is not None or modes.global_state.active != 0)
    by_parts = chain.adjoint("step_position")(dt, differences, by_time, slopes)
    by_dt = by_step_times(dt, differences, parts, states, slopes, by_parts) if by_time else None
    return [by_dt, *by_parts[: len(parts)]]


def _rule(
    g: Any, dt: Any, weights: Weights, bounds: Array | None, limit_weight: float, wanted: tuple[bool, bool], options: SmoothnessOptions,
    parts: Any, by_u: Any, by_p: Any, by_v: Any, by_a: Any, by_dt: Any,
) -> list[Any]:  # fmt: skip
    cotangent = g[0]
    if isinstance(cotangent, Tensor):
        return _recorded_rule(cotangent, dt, weights, bounds, limit_weight, options, parts)
    made = [by_dt if wanted[1] else None, *((by_u, by_p, by_v, by_a) if wanted[0] else (None,) * 4)]
    if isinstance(cotangent, np.ndarray) and cotangent.size and (cotangent == cotangent[0]).all():
        if cotangent[0] != 1:  # else the cost was summed: the gradient stands as it was computed
            made = [x if x is None else x * cotangent[0] for x in made]
    else:
        made = [x if x is None else cotangent.reshape(-1, *(1,) * (x.ndim - 1)) * x for x in made]
    if options.rows is not None and wanted[0]:
        xp = namespace(cotangent)
        made[2:] = sum_of_rows(xp, xp.stack(made[2:]), options.rows.index, options.rows.number)
    return made


@op("other", name="smoothness_cost", sequence="parts", outputs=("cost", "by_u", "by_p", "by_v", "by_a", "by_dt"), differentiable=(0,),
    method=False, complex="none", dt=Joint(), parts=_rule)  # fmt: skip
def smoothness(
    xp: Any, dt: Any, weights: Any, bounds: Any, limit_weight: float, wanted: tuple[bool, bool], options: SmoothnessOptions, parts: Any
) -> Any:
    """Cost (B,) and, where wanted, its gradients by the positions, by the start parts and by dt."""
    shape, time_last, chosen = options
    batch, joints = batch_and_joints(shape, time_last)
    u, *start = parts
    constants = (weights, bounds, limit_weight, *wanted)
    made: Any
    if xp is np:
        u = np.ascontiguousarray(u.swapaxes(1, 2)) if time_last else u
        begin = each(xp, host_rows(chosen, start), batch, joints)
        made = form("smoothness", host).cost_and_gradient(u, begin, host_times(dt, False, joints), *constants)
    else:
        index, group = None if chosen is None else chosen.index, joints if time_last else 1
        made = device.cost_and_gradient(xp, series(u, time_last), start, launch_times(xp, dt), *constants, group, index)
    cost, by_u, *by_start, by_dt = made
    if by_u is not None:
        by_u = np.ascontiguousarray(by_u.swapaxes(1, 2)) if xp is np and time_last else shaped(by_u, shape)
        by_start = [shaped(x, (batch, joints)) for x in by_start]
    nothing = xp.empty(0, u.dtype)
    return (cost, *[nothing if x is None else x for x in (by_u, *by_start, by_dt)])
