"""The smoothness cost as a differentiable operation: value and gradient in one pass, higher derivatives from the composed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_array, namespace
from gradlib.core import modes
from gradlib.core.op import op
from gradlib.core.tensor import Tensor
from gradlib.trajectory import check as checks, kernels as device, smoothness as host
from gradlib.trajectory.calling import apply, start_parts
from gradlib.trajectory.check import raw
from gradlib.trajectory.maps import Static, batch_and_joints, chain, each, step_times
from gradlib.trajectory.pair import Places, slots
from gradlib.trajectory.state import JointLimits

_PLACES = 4  # of the inputs: positions, start position, velocity, acceleration


def smoothness_cost(
    u: Any, start: Any, dt: Any, weights: Any, limits: Any = None, *, limit_weight: float = 1.0, start_idx: Any = None,
    layout: str = "bhd", check: bool = False,
) -> Any:  # fmt: skip
    """How rough and how far outside its limits each position trajectory is, when that is what a planner minimises.

    With p, v, a, j as `step_position` gives them, the sum over all steps and joints of w_v v^2 + w_a a^2 + w_j j^2, plus
    limit_weight times the squares of what exceeds the limits. Value and gradient are computed together, and neither p, v, a nor j is
    stored. Differentiable to any order by u, each part of start and dt; by dt, and beyond first order, through the composed form.

    Args:
        u: (B, H, D) positions, H at least 2; float16, bfloat16, float32 or float64.
        start, dt, start_idx, layout, check: as in `step_position`.
        weights: (velocity, acceleration, jerk), each a number or (D,), in units that make the terms commensurable; constants.
        limits: `JointLimits` or a tuple of its fields; None for none. Constants.
        limit_weight: of the squared excesses.
    Returns: (B,) costs.
    Raises: TypeError and ValueError that name the rule broken, what was received and what to do.
    Source: the quadratic smoothness and limit terms of trajectory optimisation, as in Ratliff et al., CHOMP, ICRA 2009.
    """
    name = "smoothness_cost"
    sizes = checks.control(name, u, layout, 2)
    begin = start_parts(name, start, u, sizes, start_idx, check)
    times = checks.step_times(name, dt, u, sizes, check)
    table = _weights(name, weights, u, sizes)
    bounds = None if limits is None else _bounds(name, limits, u, sizes)
    which = (0, *(i + 1 for i, x in enumerate(begin) if x is not None))
    parts = [u, *(x for x in begin if x is not None)]
    by_time = isinstance(times, Tensor) and times._node is not None
    if by_time or modes.watch.active:
        return _composed((sizes.shape, sizes.time_last), which, times, table, bounds, limit_weight, parts)
    wanted = modes.is_grad_enabled() and any(isinstance(x, Tensor) and x._node is not None for x in parts)
    static = (sizes.shape, sizes.time_last)
    return smoothness(times, static, which, table, bounds, float(limit_weight), wanted, parts)[0]


# ---- constants --------------------------------------------------------------------------------------------------------------------


def _constant(name: str, what: str, value: Any, u: Any, sizes: checks.Sizes) -> Array:
    """A number or (D,) as (D,) on u's device. Raises: TypeError or ValueError for what is neither, or requires a gradient."""
    if isinstance(value, Tensor) and value._node is not None:
        raise ValueError(
            f"{name}: {what} is a constant, got a Tensor that requires grad; detach it, or compose the cost from step_position"
        )
    array = raw(value)
    if not is_array(array):
        array = np.asarray(array, dtype=np.float64)
    if array.shape not in ((), (1,), (sizes.joints,)):
        raise ValueError(f"{name}: {what} is a number or has shape ({sizes.joints},), got {checks.describe(value)}")
    xp = namespace(raw(u))
    real = np.float64 if raw(u).dtype == np.float64 else np.float32
    return xp.broadcast_to(xp.asarray(array).astype(real), (sizes.joints,))


def _weights(name: str, weights: Any, u: Any, sizes: checks.Sizes) -> Array:
    """(3, D)."""
    if not isinstance(weights, (tuple, list)) or len(weights) != 3:
        raise TypeError(f"{name}: weights is a tuple (velocity, acceleration, jerk), got {checks.describe(weights)}")
    if all(type(w) in (int, float) for w in weights):
        array = raw(u)
        real = np.float64 if array.dtype == np.float64 else np.float32
        return namespace(array).asarray(np.repeat(np.array(weights, real)[:, None], sizes.joints, axis=1))
    rows = [
        _constant(name, f"the weight of {part}", w, u, sizes) for part, w in zip(("velocity", "acceleration", "jerk"), weights, strict=True)
    ]
    return namespace(rows[0]).stack(rows)


def _bounds(name: str, limits: Any, u: Any, sizes: checks.Sizes) -> Array:
    """(8, D): lower and upper of p, v, a, j, infinite where there is none."""
    if not isinstance(limits, tuple) or len(limits) > 4:
        raise TypeError(f"{name}: limits is a JointLimits (position, velocity, acceleration, jerk), got {checks.describe(limits)}")
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
        rows += [_constant(name, f"the {side} limit of {part}", x, u, sizes) for side, x in zip(("lower", "upper"), pair, strict=True)]
    return namespace(rows[0]).stack(rows)


# ---- the operation ------------------------------------------------------------------------------------------------------------------


def _composed(static: Static, which: Places, dt: Any, weights: Array, bounds: Array | None, limit_weight: float, parts: Any) -> Any:
    """The same cost from the chain and pointwise operations: (B,)."""
    made = apply(chain, dt, (0, False, *static), which, None, list(parts))
    return _over_states(made, static, weights, bounds, limit_weight, lambda weight, x: weight * x * x)


def _over_states(
    states: Any, static: Static, weights: Array, bounds: Array | None, limit_weight: float, of: Callable[[Any, Any], Any]
) -> Any:
    """The sum over steps, joints and terms of ``of(weight, value or excess)``."""
    total: Any = 0
    for k, x in enumerate(states):
        if k:
            total = total + of(_row(weights[k - 1], static, x.dtype), x).sum((1, 2))
        if bounds is not None:
            total = total + of(limit_weight, _excess(x, bounds, k, static)).sum((1, 2))
    return total


def _row(row: Array, static: Static, dtype: Any) -> Array:
    return (row[:, None] if static[1] else row).astype(dtype, copy=False)


def _excess(x: Any, bounds: Array, k: int, static: Static) -> Any:
    """What of x lies beyond its limits, signed; zero within."""
    lower, upper = (_row(row, static, x.dtype) for row in bounds[2 * k : 2 * k + 2])
    return x - x.clip(lower, upper)


def _gradient(g: Any, dt: Any, static: Static, which: Places, weights: Array, bounds: Array | None, limit_weight: float, parts: Any) -> Any:
    """The gradient by the parts, from the chain and its transpose: what is differentiated again."""
    whole = (0, False, *static)
    each_one = g.reshape(-1, 1, 1)
    slopes = []
    for k, x in enumerate(chain.forward(dt, whole, which, None, list(parts))):
        slope = 2 * _row(weights[k - 1], static, x.dtype) * x if k else None
        if bounds is not None:
            push = 2 * limit_weight * _excess(x, bounds, k, static)
            slope = push if slope is None else slope + push
        slopes.append(None if slope is None else each_one * slope)
    given = tuple(i for i, s in enumerate(slopes) if s is not None)
    return list(chain.adjoint(dt, whole, given, which, [slopes[i] for i in given]))


def _rule(
    g: Any, dt: Any, static: Static, which: Places, weights: Array, bounds: Array | None, limit_weight: float, parts: Any, by_u: Any,
    by_p: Any, by_v: Any, by_a: Any,
) -> Any:  # fmt: skip
    cotangent = g[0]
    if isinstance(cotangent, Tensor):
        return _gradient(cotangent, dt, static, which, weights, bounds, limit_weight, parts)
    made = (by_u, by_p, by_v, by_a)
    if isinstance(cotangent, np.ndarray) and cotangent.size and (cotangent == cotangent[0]).all():
        if cotangent[0] == 1:  # the cost was summed: the gradient stands as it was computed
            return [made[i] for i in which]
        return [made[i] * cotangent[0] for i in which]
    return [cotangent.reshape(-1, *(1,) * (made[i].ndim - 1)) * made[i] for i in which]


@op("other", name="trajectory_smoothness", also=("dt",), sequence="parts", outputs=("cost", "by_u", "by_p", "by_v", "by_a"),
    differentiable=(0,), method=False, complex="none", parts=_rule)  # fmt: skip
def smoothness(
    xp: Any, dt: Any, static: Static, which: Places, weights: Any, bounds: Any, limit_weight: float, wanted: bool, parts: Any
) -> Any:
    """Cost (B,) and, where wanted, its gradients by the positions and by the start parts."""
    shape, time_last = static
    batch, joints = batch_and_joints(shape, time_last)
    u, *start = slots(which, parts, _PLACES)
    begin = [each(xp, x, batch, joints) for x in start]
    times = step_times(xp, dt)
    if xp is np:
        control = np.ascontiguousarray(u.swapaxes(1, 2)) if time_last else u
        cost, by_u, *by_start = host.cost_and_gradient(control, begin, times, weights, bounds, limit_weight, wanted)
        by_u = np.ascontiguousarray(by_u.swapaxes(1, 2)) if time_last and by_u is not None else by_u
    else:
        series = u.reshape(batch * joints, -1, 1) if time_last else u
        rows = [None if x is None else x.reshape(series.shape[0], -1) for x in begin]
        group = joints if time_last else 1
        cost, by_u, *by_start = device.smoothness(xp, series, rows, times, weights, bounds, limit_weight, wanted, group)
        by_u = by_u.reshape(shape) if by_u is not None else None
        by_start = [None if x is None else x.reshape(batch, joints) for x in by_start]
    nothing = xp.empty(0, u.dtype)
    return (cost, *(nothing if x is None else x for x in (by_u, *by_start)))
