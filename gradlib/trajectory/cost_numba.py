"""Costs of motions and their gradients on the CPU by numba's compiler, in one pass. NumPy's form: `cost_host`. CUDA form: kernels/cost.cu.

One term after the other goes over a few trajectories, which stay in the processor's cache, each a row of H D numbers: by lanes, and what is
left of it by single numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types

from gradlib.backend.array import Array
from gradlib.trajectory import cost_host as host
from gradlib.trajectory.compiled import loop
from gradlib.trajectory.cost_terms import PATH, TIME, Laid
from gradlib.trajectory.lanes import MOST, array_in, array_out, beyond, keep, lanes_of, load, signed, splat, store, total

_BLOCK = 1 << 14  # elements of the trajectories that the terms go over in turn


class Packed:
    """Terms as `_loop` reads them.

    Attributes:
        laid: the terms. constants: the weights and bounds of all: of each a row from the first step that counts, or a number `MOST` times.
        fields: of each term its state, power, whether it is timed, the first step that counts; where its weight, lower and upper bound
            begin among the constants, each with 1 for a row or 0 for a number; and its target, -1 for none.
    """

    def __init__(self, laid: Sequence[Laid], horizon: int, joints: int) -> None:
        self.laid = laid
        self.fields = np.zeros((len(laid), 11), np.int64)
        tables = [np.zeros(MOST, np.float32)]
        for fields, term in zip(self.fields, laid, strict=True):
            fields[:4] = *term[:3], term.first
            fields[10] = term.target
            for k, table in enumerate((term.weight, term.lower, term.upper)):
                by_joint = term.state == PATH and k  # the same at all steps
                shape = (1 if by_joint else horizon, joints if by_joint or term.state < TIME else 1)
                row = np.broadcast_to(table, shape)[0 if by_joint else term.first :].reshape(-1)
                same = row.size == 0 or (row == row[0]).all()
                fields[4 + 2 * k : 6 + 2 * k] = sum(map(len, tables)), not same
                tables.append(np.full(MOST, row[0] if row.size else 0, table.dtype) if same else row)
        self.constants = np.concatenate(tables, dtype=laid[0].weight.dtype)


row_terms = Packed  # as of `cost_host`


def cost_and_gradient(
    states: Sequence[Array | None], targets: Sequence[Array], dt: Any, terms: Packed, made: Sequence[Array | None], by_dt: bool
) -> tuple[Array, Array | None]:
    """`cost_host.cost_and_gradient`, which computes the 16-bit types."""
    like = next(x for x in states if x is not None)
    batch, horizon, joints = like.shape
    dtype = like.dtype
    gradient = any(x is not None for x in made)
    run = loop(_loop, dtype, lanes_of(joints)) if like.size else None
    if run is None:
        return host.cost_and_gradient(states, targets, dt, host.row_terms(terms.laid, horizon, joints), made, by_dt)
    nothing, none = np.empty((0, 0, 0), dtype), np.empty((0, 0), dtype)
    given = tuple([nothing if x is None else np.ascontiguousarray(x) for x in states])
    into = tuple([nothing if x is None else x if x.flags.c_contiguous else np.empty(x.shape, dtype) for x in made])
    aims = [none] * 8
    for term in terms.laid:
        if term.target >= 0:  # from the first step that counts, for one trajectory or each
            aim = targets[term.target]
            steps = aim[:, term.first :] if aim.shape[1] > 1 else aim
            whole = np.broadcast_to(steps, (len(aim), horizon - term.first, joints))
            aims[term.target] = np.ascontiguousarray(whole).reshape(len(aim), -1)
    times, cost = np.array(dt, dtype, ndmin=2), np.empty(batch, dtype)
    by_times = np.zeros((batch if by_dt else 0, times.shape[1]), dtype)
    asked = gradient, by_dt, joints, horizon, max(1, _BLOCK // (horizon * joints))
    room = np.empty((2, horizon * joints), dtype)
    run(*asked, given, tuple(aims), terms.fields, terms.constants, times, cost, into, by_times, *room)
    for target, value in zip(made, into, strict=True):
        if target is not None and target is not value:
            np.copyto(target, value)
    return cost, by_times if by_dt else None


@njit(error_model="numpy")
def _clear(terms: Any, state: Any, by_x: Any, low: Any, high: Any) -> None:
    """Zero in the gradient by a state what its first term, which writes the rest, does not count: all where it has none."""
    _, horizon, joints = by_x.shape
    begin = horizon
    for n in range(len(terms) - 1, -1, -1):
        if terms[n, 0] == state:
            begin = terms[n, 3]
    for b in range(low, high if by_x.size else low):
        for i in range(b * horizon * joints, (b * horizon + begin) * joints):
            store(by_x, i, splat(by_x.dtype.type(0), 1))


# A function below does one term for trajectories ``low`` to ``high``; it adds to their cost and, where wanted, to their gradients.


@njit(error_model="numpy")
def _state_term(given: Any, begin: Any, end: Any, lanes: Any) -> None:
    """A term of p, v, a or j: elements ``begin`` to ``end`` of those that count. Of what is given ``begun`` tells whether their gradient
    holds numbers."""
    fields, constants, x, by_x, aim, dt, cost, by_times, low, high, begun, gradient, by_dt, seconds, priced = given
    _, horizon, joints = x.shape
    first, power, timed, target = fields[3], fields[1], fields[2], fields[10]
    weight, weight_on, lower, lower_on, upper, upper_on = fields[4], fields[5], fields[6], fields[7], fields[8], fields[9]
    each_step = timed and dt.shape[1] > 1
    count = (horizon - first) * joints
    part = dt.dtype.type(1) / dt.dtype.type(power)
    for b in range(low, high):
        row = b if len(dt) > 1 else 0
        at, aim_at = (b * horizon + first) * joints, b * count if len(aim) > 1 else 0
        t = splat(dt[row, 0] if timed else dt.dtype.type(1), lanes)
        if each_step:
            for h in range(first, horizon):
                for d in range(joints):
                    seconds[(h - first) * joints + d] = dt[row, h]
        whole, untimed = splat(dt.dtype.type(0), lanes), splat(dt.dtype.type(0), lanes)
        for i in range(begin, end, lanes):
            e = load(x, at + i, lanes)
            if target >= 0:
                e = e - load(aim, aim_at + i, lanes)
            else:
                e = beyond(e, load(constants, lower + i * lower_on, lanes), load(constants, upper + i * upper_on, lanes))
            slope = load(constants, weight + i * weight_on, lanes)
            slope = (slope + slope) * e if power == 2 else signed(slope, e)
            if each_step:
                t = load(seconds, i, lanes)
                if by_dt:
                    store(priced, i, slope * e)
            elif by_dt:
                untimed = untimed + slope * e
            slope = slope * t
            whole = whole + slope * e
            if gradient:
                store(by_x, at + i, slope + load(by_x, at + i, lanes) if begun else slope)
        cost[b] += total(whole) * part
        if by_dt and each_step:
            for i in range(begin, end):
                by_times[b, first + i // joints] += priced[i] * part
        elif by_dt and timed:
            by_times[b, 0] += total(untimed) * part


@njit(error_model="numpy")
def _time_term(fields: Any, constants: Any, horizon: Any, dt: Any, cost: Any, by_times: Any, low: Any, high: Any, by_dt: Any) -> None:
    """A term of the step times."""
    each_step = dt.shape[1] > 1
    for b in range(low, high):
        for h in range(fields[3], horizon):
            i = h - fields[3]
            t = dt[b if len(dt) > 1 else 0, h if each_step else 0]
            e = t - min(max(t, constants[fields[6] + i * fields[7]]), constants[fields[8] + i * fields[9]])
            slope = constants[fields[4] + i * fields[5]]
            slope = (slope + slope) * e if fields[1] == 2 else slope * np.sign(e)
            cost[b] += slope * e / dt.dtype.type(fields[1])
            if by_dt:
                by_times[b, h if each_step else 0] += slope


@njit(error_model="numpy")
def _path_term(
    fields: Any, constants: Any, p: Any, by_p: Any, cost: Any, low: Any, high: Any, gradient: Any, pulls: Any, lanes: Any
) -> None:  # fmt: skip
    """The length of the path: a step where nothing moves has the gradient zero."""
    _, horizon, joints = p.shape
    first, weight, weight_on, metric, metric_on = fields[3], fields[4], fields[5], fields[6], fields[7]
    for b in range(low, high):
        base, whole = b * horizon * joints, p.dtype.type(0)
        for h in range(first, horizon):
            squares = splat(p.dtype.type(0), lanes)
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                at = base + h * joints + d
                moved = keep(load(p, at, lanes) - load(p, at - joints, lanes), k - d)
                squares = squares + load(constants, metric + d * metric_on, lanes) * moved * moved
            length, scale = np.sqrt(total(squares)), constants[weight + (h - first) * weight_on]
            whole += scale * length
            pulls[h] = scale / length if length != 0 else length
        cost[b] += whole
        if gradient:
            for k in range(0, joints, lanes):
                d = min(k, joints - lanes)
                at = base + first * joints + d
                metrics, before = load(constants, metric + d * metric_on, lanes), splat(p.dtype.type(0), lanes)
                for h in range(first, horizon):
                    moved = keep(load(p, at, lanes) - load(p, at - joints, lanes), k - d)
                    slope = splat(pulls[h], lanes) * metrics * moved
                    store(by_p, at - joints, load(by_p, at - joints, lanes) + before - slope)
                    before = slope
                    at += joints
                store(by_p, at - joints, load(by_p, at - joints, lanes) + before)


def _loop(real: Any, lanes: int) -> Any:
    """The cost and, where wanted, its gradients.

    Its arguments: whether gradients by the states and by dt are wanted; D, H, how many trajectories the terms go over in turn; p, v, a, j
    (B, H, D), empty where no term asks for one; eight targets (1 or B, what counts of a row); fields and constants as of `Packed`; dt (1 or
    B, 1 or H); and, to fill, the cost (B,) and the gradients by p, v, a, j; that by dt (B, 1 or H), zeros, to add to; and two rows of
    scratch memory.
    """

    def motion_cost(
        gradient: Any, by_dt: Any, joints: Any, horizon: Any, block: Any, states: Any, targets: Any, terms: Any, constants: Any, dt: Any,
        cost: Any, made: Any, by_times: Any, seconds: Any, priced: Any,
    ) -> None:  # fmt: skip
        for low in range(0, len(cost), block):
            high = min(low + block, len(cost))
            for b in range(low, high):
                cost[b] = 0
            for k in range(4 if gradient else 0):
                _clear(terms, k, made[k], low, high)
            for n in range(len(terms)):
                fields, begun = terms[n], n > 0 and terms[n - 1, 0] == terms[n, 0]
                if fields[0] == TIME:
                    _time_term(fields, constants, horizon, dt, cost, by_times, low, high, by_dt)
                elif fields[0] == PATH:
                    _path_term(fields, constants, states[0], made[0], cost, low, high, gradient, seconds, lanes)
                else:
                    x, by_x, aim = states[fields[0]], made[fields[0]], targets[max(fields[10], 0)]
                    count = (horizon - fields[3]) * joints
                    wide = count - count % MOST
                    given = (
                        fields, constants, x, by_x, aim, dt, cost, by_times, low, high, begun, gradient, by_dt, seconds, priced,
                    )  # fmt: skip
                    if wide:
                        _state_term(given, 0, wide, MOST)
                    if wide < count:
                        _state_term(given, wide, count, 1)

    large, table, row, size = array_in(real, 3), array_in(real, 2), array_out(real, 1), types.intp
    asked = types.boolean, types.boolean, size, size, size
    given = types.UniTuple(large, 4), types.UniTuple(table, 8), array_in(types.int64, 2), array_in(real, 1), array_in(real, 2, "A")
    made = row, types.UniTuple(array_out(real, 3), 4), array_out(real, 2)
    return (*asked, *given, *made, row, row), motion_cost
