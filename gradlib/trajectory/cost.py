"""Costs of motions beside smoothness: bounds, references, goals, path length, energy and time, and sums of them in one pass.

CPU form: `cost_host`, or `cost_numba` where numba is in use. CUDA form: `cost_device` and kernels/cost.cu. What a cost is made of:
`cost_terms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, device_index, is_array, move, there_for_all
from gradlib.core.declaration import Joint
from gradlib.core.op import op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.elementwise import sign
from gradlib.ops.nn import constant_pad
from gradlib.ops.reduce import sum
from gradlib.ops.select import where_op as where
from gradlib.trajectory import cost_device as device, cost_host as host
from gradlib.trajectory.arguments import Sizes, constant as read_constant, control, describe, step_times
from gradlib.trajectory.cache_blocks import compute_dtype
from gradlib.trajectory.compiled import form
from gradlib.trajectory.cost_terms import PATH, TIME, Laid, Term, lay, targets_of
from gradlib.trajectory.layout import host_times, launch_times, steps_first
from gradlib.trajectory.smoothness import wanted_of
from gradlib.trajectory.state import JointLimits

_NAMES = JointLimits._fields
_NAME = "MotionCost"


class MotionCost:
    """A cost of motions, or a sum of such costs, that a planner minimises beside `smoothness_cost` or in its place.

    Made by `BoundsCost`, `TrackingCost`, `TerminalCost`, `PathLengthCost`, `EnergyCost` and `TimeCost`, and by adding them up. A sum is
    computed in one pass, on a GPU by one launch, together with its gradients by position, velocity, acceleration, jerk and dt. It is
    differentiable to any order, in forward mode too, by these and by references and goals; weights and bounds are constants, which are
    read at the first call for a device and then kept there.

    Args:
        terms: what is summed; users write ``BoundsCost(...) + EnergyCost(...)``.
    Raises: TypeError and ValueError that name the rule broken, what was received and what to do.
    Source: the usual terms of trajectory optimisation, as in Toussaint, A tutorial on Newton methods for constrained trajectory
        optimization, 2017, sections 2 and 3.
    Example:
        >>> from gradlib.trajectory import BoundsCost, PathLengthCost, step_position
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]], requires_grad=True)
        >>> cost = BoundsCost((2.0,), power=1) + PathLengthCost(0.5)
        >>> cost(step_position(u, (), 0.1))  # p = 0, 1, 3: 1 beyond the bound, a path of length 3
        tensor([2.5000], grad_fn=<MotionCostBackward0>)
    """

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms = tuple(terms)
        self._laid: dict[Any, list[Laid]] = {}
        self._rows: dict[Any, Any] = {}
        self._packed: dict[Any, device.Packed] = {}
        self._beside: dict[Any, Any] = {}

    def __add__(self, other: Any) -> MotionCost:
        if not isinstance(other, MotionCost):
            return NotImplemented
        return MotionCost((*self.terms, *other.terms))

    def __radd__(self, other: Any) -> MotionCost:  # what sum() begins with
        return self if type(other) is int and other == 0 else NotImplemented

    def __repr__(self) -> str:
        return f"MotionCost({', '.join(term.name for term in self.terms)})"

    def __call__(self, motion: Any, dt: Any = None, *, layout: str = "bhd", check: bool = False) -> Any:
        """The cost of each trajectory.

        Args:
            motion: `JointTrajectory`, or a tuple of up to four of (B, H, D) as (position, velocity, acceleration, jerk), None where no term
                asks for one; float16, bfloat16, float32 or float64.
            dt: seconds, as in `step_position`; needed by `EnergyCost` and `TimeCost`.
            layout: "bhd", or "bdh" when the motion and references of three axes are (B, D, H).
            check: on a GPU, also check the values of dt, which waits for the device. On the CPU they always are.
        Returns: (B,) costs.
        """
        if not self.terms:
            raise ValueError(f"{_NAME}: a cost has at least one term, got none; begin with one such as BoundsCost")
        states, sizes = _states(motion, {term.state for term in self.terms}, layout)
        like = next(x for x in states if x is not None)
        timed = any(term.timed or term.state == TIME for term in self.terms)
        if timed and dt is None:
            raise TypeError(f"{_NAME}: energy and time depend on dt, got none; call the cost as cost(motion, dt)")
        times = step_times(_NAME, dt, like, sizes, check) if timed else 1.0
        targets = [_target(term, like, sizes) for term in targets_of(self.terms)]
        parts = [*states, *targets]
        options = CostOptions(sizes.shape, sizes.time_last)
        return motion_cost(times, self, (*wanted_of(times, parts), wanted_of(None, parts[4:])[0]), options, parts)[0]

    def laid(self, sizes: tuple[int, int], dtype: Any) -> list[Laid]:
        """The terms for a horizon and number of joints in the arithmetic of a dtype."""
        key = (*sizes, compute_dtype(dtype))
        if key not in self._laid:
            self._laid[key] = lay(self.terms, *key)
        return self._laid[key]

    def rows(self, cpu: Any, sizes: tuple[int, int], dtype: Any) -> Any:
        """The terms for a form of the CPU's."""
        key = (cpu, *sizes, compute_dtype(dtype))
        if key not in self._rows:
            self._rows[key] = cpu.row_terms(self.laid(sizes, dtype), *sizes)
        return self._rows[key]

    def packed(self, sizes: tuple[int, int], like: Array) -> device.Packed:
        """The terms on the device of an array."""
        key = (*sizes, compute_dtype(like.dtype), device_index(like))
        if key not in self._packed:
            self._packed[key] = device.Packed(self.laid(sizes, like.dtype), key[2].name, key[3])
        return self._packed[key]

    def constant(self, table: np.ndarray, like: Any, first: int = 0, horizon: int = 1) -> Any:
        """A table of a term as rules take it, a number or an array where the values lie: of the steps from ``first`` on."""
        key = (id(table), first, device_index(raw(like)), raw(like).dtype)
        if key not in self._beside:
            counted = table if len(table) < horizon else table[first:]
            self._beside[key] = float(counted[0, 0]) if counted.size == 1 else there_for_all(counted.astype(key[3]), key[2])
        return self._beside[key]


class BoundsCost(MotionCost):
    """A penalty on positions, velocities, accelerations and jerks beyond soft bounds.

    Args:
        limits: `JointLimits` or a tuple of its fields: m for -m .. m, or a pair (lower, upper), SI units; numbers, (D,), (H, 1) or (H, D).
        weights: of all quantities, or a tuple of one for each field; a number, (D,), (H, 1) or (H, D).
        power: 2 for the squares of the excesses, 1 for a hinge, the excesses themselves.
    Raises: as `MotionCost`.
    Example:
        >>> cost = gradlib.trajectory.BoundsCost(gradlib.trajectory.JointLimits(velocity=1.0), weights=10.0)
        >>> cost((None, gradlib.tensor([[[0.5], [-3.0]]])))
        tensor([40.])
    """

    def __init__(self, limits: Any, weights: Any = 1.0, *, power: int = 2) -> None:
        if not isinstance(limits, tuple) or len(limits) > 4:
            raise TypeError(f"BoundsCost: limits is a JointLimits (position, velocity, acceleration, jerk), got {describe(limits)}")
        terms = []
        for k, (bound, weight) in enumerate(zip(JointLimits(*limits), _each("BoundsCost", weights), strict=True)):
            if bound is None:
                continue
            pair = tuple(bound) if isinstance(bound, (tuple, list)) else (-_constant("BoundsCost", _NAMES[k], bound), bound)
            if len(pair) != 2:
                raise ValueError(f"BoundsCost: the limit of {_NAMES[k]} is a bound or a pair (lower, upper), got {len(pair)} values")
            low, high = (_constant("BoundsCost", f"the limit of {_NAMES[k]}", x) for x in pair)
            if not (np.less_equal(low, high) & np.less(low, np.inf) & np.greater(high, -np.inf)).all():
                raise ValueError(
                    f"BoundsCost: the lower limit of {_NAMES[k]} is at most its upper one and neither is NaN, got lower {low.tolist()} and "
                    f"upper {high.tolist()}; a single bound b stands for (-b, b)"
                )
            terms.append(Term(k, _power("BoundsCost", power), weight=weight, lower=low, upper=high))
        super().__init__(terms)


class TrackingCost(MotionCost):
    """A penalty on the distance of a motion from a reference at each step.

    Args:
        reference: `JointTrajectory`, `JointState` or a tuple of up to four of its parts, each (B, H, D), (H, D) or (D,), None where there
            is none; Tensors among them get gradients. With layout "bdh" those of three or two axes have time last.
        weights: of all quantities, or a tuple of one for each of them; a number, (D,), (H, 1) or (H, D).
        power: 2 for squares of the distances, 1 for the distances of each joint.
    Raises: as `MotionCost`.
    Example:
        >>> cost = gradlib.trajectory.TrackingCost((gradlib.tensor([[1.0], [2.0]]),))
        >>> cost((gradlib.tensor([[[1.0], [5.0]]]),))
        tensor([9.])
    """

    def __init__(self, reference: Any, weights: Any = 1.0, *, power: int = 2) -> None:
        super().__init__(_aims("TrackingCost", reference, weights, power, last=False))


class TerminalCost(MotionCost):
    """A penalty on the distance of a motion's last state from a goal.

    Args:
        goal: `JointState` or a tuple of up to four of its parts, each (B, D) or (D,), None where there is none; Tensors get gradients.
        weights: of all quantities, or a tuple of one for each of them; a number or (D,).
        power: 2 for squares of the distances, 1 for the distances of each joint.
    Raises: as `MotionCost`.
    Example:
        >>> cost = gradlib.trajectory.TerminalCost((gradlib.tensor([2.0]),))
        >>> cost((gradlib.tensor([[[1.0], [5.0]]]),))
        tensor([9.])
    """

    def __init__(self, goal: Any, weights: Any = 1.0, *, power: int = 2) -> None:
        super().__init__(_aims("TerminalCost", goal, weights, power, last=True))


class PathLengthCost(MotionCost):
    """The length of the path of positions: the sum of sqrt(sum over joints of joint_weights (p_h - p_{h-1})^2) over the steps.

    A step on which nothing moves has the gradient zero, one of those that a norm has there.

    Args:
        weight: of the length; a number or (H, 1) for each step, of which the first is not used.
        joint_weights: a number or (D,), not negative.
    Raises: as `MotionCost`.
    Example:
        >>> p = gradlib.tensor([[[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]])
        >>> gradlib.trajectory.PathLengthCost()((p,))
        tensor([6.])
    """

    def __init__(self, weight: Any = 1.0, joint_weights: Any = 1.0) -> None:
        metric = _constant("PathLengthCost", "joint_weights", joint_weights)
        if metric.ndim > 1 or not (metric >= 0).all():
            raise ValueError(f"PathLengthCost: joint_weights is a number or (D,) and not negative, got {describe(joint_weights)}")
        super().__init__([Term(PATH, 1, weight=_constant("PathLengthCost", "weight", weight), lower=metric)])


class EnergyCost(MotionCost):
    """The integral over time of weighted squares of velocity, acceleration and jerk, by the step times: effort, whatever the sampling.

    The sum over h >= 1 of t_h (w_v v_h^2 + w_a a_h^2 + w_j j_h^2).

    Args:
        velocity, acceleration, jerk: weights; a number, (D,), (H, 1) or (H, D); None for none.
    Raises: as `MotionCost`.
    Example:
        >>> a = gradlib.tensor([[[9.0], [1.0], [2.0]]])
        >>> gradlib.trajectory.EnergyCost(acceleration=1.0)((None, None, a), 0.5)
        tensor([2.5000])
    """

    def __init__(self, velocity: Any = None, acceleration: Any = None, jerk: Any = None) -> None:
        given = enumerate((velocity, acceleration, jerk), 1)
        made = [Term(k, 2, timed=True, weight=_constant("EnergyCost", _NAMES[k], w)) for k, w in given if w is not None]
        if not made:
            raise ValueError("EnergyCost: at least one of velocity, acceleration and jerk has a weight, got none")
        super().__init__(made)


class TimeCost(MotionCost):
    """A cost of the step times, when dt is among the unknowns: their sum, their distance from a nominal one, or bounds on them.

    The sum over h >= 1 of weight t_h + square (t_h - nominal)^2 + bound_weight e_h^2, e_h being what of t_h is beyond the bounds.

    Args:
        weight: of the time that the motion takes; a number or (H, 1).
        square: of the squared distances from ``nominal``; a number or (H, 1).
        nominal: seconds, a number or (H, 1).
        bounds: None, or a pair (lower, upper) of seconds.
        bound_weight: of the squared excesses.
    Raises: as `MotionCost`.
    Example:
        >>> dt = gradlib.tensor([0.1, 0.1, 0.3], requires_grad=True)
        >>> cost = gradlib.trajectory.TimeCost(square=1.0, nominal=0.1)(gradlib.zeros(1, 1, 3, 1), dt)
        >>> gradlib.autograd.grad(cost.sum(), (dt,))[0]
        tensor([0.0000, 0.0000, 0.4000])
    """

    def __init__(
        self, weight: Any = 0.0, *, square: Any = 0.0, nominal: Any = 0.0, bounds: tuple[Any, Any] | None = None, bound_weight: Any = 1.0
    ) -> None:
        of = {"weight": weight, "square": square, "nominal": nominal, "bound_weight": bound_weight}
        read = {name: _constant("TimeCost", name, value) for name, value in of.items()}
        made = []
        if np.any(read["weight"]):
            made.append(Term(TIME, 1, weight=read["weight"]))  # t is positive
        if np.any(read["square"]):
            made.append(Term(TIME, 2, weight=read["square"], lower=read["nominal"], upper=read["nominal"]))
        if bounds is not None:
            low, high = (_constant("TimeCost", "bounds", x) for x in bounds)
            made.append(Term(TIME, 2, weight=read["bound_weight"], lower=low, upper=high))
        if not made:
            raise ValueError("TimeCost: weight, square or bounds say what it costs, got none of them")
        super().__init__(made)


# ---- arguments ----------------------------------------------------------------------------------------------------------------------


def _power(name: str, power: Any) -> int:
    if power not in (1, 2):
        raise ValueError(f"{name}: power is 1 or 2, got {power!r}")
    return int(power)


def _constant(name: str, what: str, value: Any) -> np.ndarray:
    """A weight or bound in host memory. Raises: TypeError or ValueError for anything but a number or array, and as `read_constant` does."""
    array = read_constant(name, what, value, "compose the cost from operations")
    if is_array(array):
        array = move(array, None)
    table = np.asarray(array)
    if table.dtype.kind not in "biuf" and table.dtype.name != "bfloat16":
        raise TypeError(f"{name}: {what} is a number or an array, got {describe(value)}")
    if table.ndim > 2:
        raise ValueError(f"{name}: {what} is a number, (D,), (H, 1) or (H, D), got {describe(value)}")
    return table.astype(np.float64)


def _each(name: str, weights: Any) -> list[np.ndarray]:
    """The weights of p, v, a and j."""
    given = weights if isinstance(weights, (tuple, list)) else (weights,) * 4
    if len(given) > 4:
        raise ValueError(f"{name}: weights is one for all, or a tuple of up to four for position to jerk, got {len(given)}")
    return [_constant(name, f"the weight of {part}", w) for part, w in zip(_NAMES, (*given, *(0.0,) * (4 - len(given))), strict=True)]


def _aims(name: str, aim: Any, weights: Any, power: Any, last: bool) -> list[Term]:
    """A term for each part of a reference or goal."""
    parts = tuple(aim) if isinstance(aim, Iterable) and not is_array(raw(aim)) else (aim,)
    if not 0 < len(parts) <= 4 or all(x is None for x in parts):
        raise TypeError(f"{name}: give up to four of position, velocity, acceleration and jerk, not all None, got {describe(aim)}")
    order = _power(name, power)
    made = [Term(k, order, last=last, weight=w, target=x) for k, (x, w) in enumerate(zip(parts, _each(name, weights), strict=False))]
    return [term for term in made if term.target is not None]


def _states(motion: Any, asked: set[int], layout: str) -> tuple[list[Any], Sizes]:
    """The states that the terms ask for, None for the others, but one at least, which says how many trajectories there are."""
    if isinstance(motion, Tensor) or not isinstance(motion, Iterable) or is_array(motion):
        motion = tuple(motion) if getattr(motion, "ndim", 0) == 4 else (motion,)
    given = [*motion, None, None, None, None][:4]
    wanted = [x if k in asked or (k == 0 and PATH in asked) else None for k, x in enumerate(given)]
    for k in range(4):
        if (k in asked or (k == 0 and PATH in asked)) and given[k] is None:
            raise ValueError(f"{_NAME}: a term asks for the {_NAMES[k]}, and the motion has none; pass a JointTrajectory")
    if all(x is None for x in wanted):
        first = next((k for k, x in enumerate(given) if x is not None), 0)
        wanted[first] = given[first]
    like = next((x for x in wanted if x is not None), None)
    sizes = control(_NAME, like, layout, 1, "the motion")
    whole = raw(like)
    for k, x in enumerate(wanted):
        array = raw(x)
        if x is None or (
            is_array(array)
            and (tuple(array.shape), array.dtype, device_index(array)) == (tuple(whole.shape), whole.dtype, device_index(whole))
        ):
            continue
        raise ValueError(f"{_NAME}: all parts of the motion are alike, got {_NAMES[k]} {describe(x)} beside {describe(like)}")
    return wanted, sizes


def _target(term: Term, like: Any, sizes: Sizes) -> Any:
    """A reference or goal as three axes of the motion's layout, 1 where it is the same for all."""
    array, whole, value = raw(term.target), raw(like), term.target
    if not is_array(array) or array.dtype != whole.dtype or device_index(array) != device_index(whole):
        rule = f"a reference or goal has the motion's dtype and device, those of {describe(like)}"
        raise TypeError(f"{_NAME}: {rule}, got {describe(value)}; convert it with gradlib.tensor(value, dtype=..., device=...)")
    batch, horizon, joints = sizes.batch, sizes.horizon, sizes.joints
    steps = 1 if term.last else horizon
    shape = tuple(array.shape)
    if shape == (joints,):
        full: tuple[int, ...] = (1, joints, 1) if sizes.time_last else (1, 1, joints)
    elif term.last and shape in ((batch, joints), (1, joints)):
        full = (shape[0], joints, 1) if sizes.time_last else (shape[0], 1, joints)
    elif not term.last:
        full = (1,) * (3 - len(shape)) + shape
    else:
        full = ()
    most = (batch, joints, steps) if sizes.time_last else (batch, steps, joints)
    if len(full) != 3 or any(n not in (1, m) for n, m in zip(full, most, strict=True)):
        rule = f"a goal is ({joints},) or ({batch}, {joints})" if term.last else f"a reference broadcasts to {most}"
        raise ValueError(f"{_NAME}: {rule}, got {describe(value)}")
    return value if full == shape else value.reshape(full)


# ---- the operation ------------------------------------------------------------------------------------------------------------------


class CostOptions(NamedTuple):
    """The arrays' layout: the shape of each part of the motion, and whether time is last."""

    shape: tuple[int, int, int]
    time_last: bool

    @property
    def sizes(self) -> tuple[int, int]:
        """The horizon and the number of joints."""
        return self.shape[1:][::-1] if self.time_last else self.shape[1:]


def _seconds(dt: Any, first: int, horizon: int) -> Any:
    """The times of the steps from ``first`` on, (1 or B, 1 or their number, 1); a number stays one. That of step 0 may be anything."""
    if not is_array(raw(dt)):
        return dt
    times = dt.reshape((1,) * (2 - dt.ndim) + tuple(dt.shape))
    return (times if times.shape[1] < horizon else times[:, first:])[..., None]


def _priced(e: Any, weight: Any, power: int) -> tuple[Any, Any]:
    """The cost of distances and its derivative."""
    slope = 2 * weight * e if power == 2 else weight * where(e == e, sign(e), e)  # the sign of NaN is 0
    return slope * e / power, slope


def _distances(costs: MotionCost, term: Laid, x: Any, targets: list[Any], horizon: int) -> Any:
    """The signed distance of the steps that count, (B, their number, D), from the interval or from the target."""
    if term.target >= 0:
        return x - targets[term.target]
    lower, upper = (costs.constant(table, x, term.first, horizon) for table in (term.lower, term.upper))
    nearest = x.clip(lower, upper)
    return where(x == nearest, 0.0, x - nearest) if term.is_open else x - nearest


def _path_slope(costs: MotionCost, term: Laid, p: Any) -> Any:
    """The derivative of the path's length by the positions, (B, H, D)."""
    moved = p[:, 1:] - p[:, :-1]
    weighted = moved * costs.constant(term.lower, p)
    squares = sum(weighted * moved, 2, keepdim=True)
    still = squares == 0
    lengths = where(still, 1.0, squares) ** 0.5
    by_moved = weighted * where(still, 0.0, costs.constant(term.weight, p, 1, p.shape[1]) / lengths)
    return constant_pad(by_moved, (0, 0, 1, 0), 0) - constant_pad(by_moved, (0, 0, 0, 1), 0)


def _by_operations(g: Any, dt: Any, costs: MotionCost, terms: list[Laid], options: CostOptions, parts: list[Any]) -> list[Any]:
    """The gradients by dt and the parts, by operations: what is differentiated again, and what references and goals get.

    A term sees the steps that it counts and no others, whose values may be anything. None stands for zeros.
    """
    ordered: list[Any] = [None if x is None else steps_first(x, options.time_last) for x in parts]
    states, targets = ordered[:4], ordered[4:]
    by_states: list[Any] = [None] * 4
    by_targets: list[Any] = [None] * len(targets)
    by_dt, each_one, horizon = None, g.reshape(-1, 1, 1), options.sizes[0]
    for term in terms:
        first = term.first
        if term.state == PATH:
            by_states[0] = _sum(by_states[0], each_one * _path_slope(costs, term, states[0]))
            continue
        t = _seconds(dt, first, horizon)
        if term.state == TIME and not is_array(raw(t)):
            continue
        x = t if term.state == TIME else states[term.state][:, first:]
        e, weight = _distances(costs, term, x, targets, horizon), costs.constant(term.weight, x, first, horizon)
        cost, slope = _priced(e, weight, term.power)
        if term.timed or term.state == TIME:
            by_step = sum((cost if term.timed else slope) * each_one, 2)
            by_dt = _sum(by_dt, constant_pad(by_step, (first, 0), 0))
        if term.state == TIME:
            continue
        slope = (slope * t if term.timed else slope) * each_one
        by_states[term.state] = _sum(by_states[term.state], constant_pad(slope, (0, 0, first, 0), 0) if first else slope)
        if term.target >= 0:
            by_targets[term.target] = -slope
    return [by_dt, *(None if x is None else steps_first(x, options.time_last) for x in (*by_states, *by_targets))]


def _sum(first: Any, second: Any) -> Any:
    return second if first is None else first + second


def _rule(
    g: Any, dt: Any, costs: MotionCost, wanted: tuple[bool, bool, bool], options: CostOptions, parts: Any, by_p: Any, by_v: Any, by_a: Any,
    by_j: Any, by_dt: Any,
) -> list[Any]:  # fmt: skip
    cotangent = g[0]
    terms = costs.laid(options.sizes, raw(cotangent).dtype)
    if isinstance(cotangent, Tensor):
        by_dt, *made = _by_operations(cotangent, dt, costs, terms, options, parts)
        none = [x is not None and by is None for x, by in zip(parts, made, strict=True)]  # a state that no term asks for
        made = [constant_pad(x[:, :0], (0, 0, x.shape[1], 0), 0) if no else by for x, by, no in zip(parts, made, none, strict=True)]
        return [by_dt, *made]
    made = [by_dt if wanted[1] else None, *(by if x is not None else None for by, x in zip((by_p, by_v, by_a, by_j), parts, strict=False))]
    if not isinstance(cotangent, np.ndarray) or not (cotangent == 1).all():  # where the cost was summed the gradients stand as they are
        made = [x if x is None or not x.size else cotangent.reshape(-1, *(1,) * (x.ndim - 1)) * x for x in made]
    if not wanted[2]:  # references that are numbers
        return [*made, *[None] * (len(parts) - 4)]
    aimed = [term for term in terms if term.target >= 0]
    return [*made, *_by_operations(cotangent, 1.0 if dt is None else dt, costs, aimed, options, parts)[5:]]


@op("other", name="motion_cost", sequence="parts", outputs=("cost", "by_p", "by_v", "by_a", "by_j", "by_dt"), differentiable=(0,),
    method=False, complex="none", dt=Joint(), parts=_rule)  # fmt: skip
def motion_cost(xp: Any, dt: Any, costs: MotionCost, wanted: tuple[bool, bool, bool], options: CostOptions, parts: Any) -> Any:
    """Cost (B,) and, where wanted, its gradients by the parts of the motion and by dt; those by references are another matter."""
    states, targets, time_last = parts[:4], parts[4:], options.time_last
    like = next(x for x in states if x is not None)
    made: list[Array | None]
    if xp is np:
        made = [None if x is None or not wanted[0] else np.empty(x.shape, x.dtype) for x in states]
        stepped, aims, into = ([None if x is None else steps_first(x, time_last) for x in some] for some in (states, targets, made))
        seconds = host_times(dt, False, 1)
        cpu = form("cost", host) if like.dtype.itemsize > 2 else host
        terms = costs.rows(cpu, options.sizes, like.dtype)
        values, by_dt = cpu.cost_and_gradient(stepped, aims, seconds, terms, into, wanted[1])
    else:
        packed = costs.packed(options.sizes, like)
        values, made, by_dt = device.cost_and_gradient(xp, states, targets, launch_times(xp, dt), packed, *wanted[:2], time_last)
    nothing = xp.empty(0, like.dtype)
    return (values.astype(like.dtype, copy=False), *[nothing if x is None else x for x in (*made, by_dt)])
