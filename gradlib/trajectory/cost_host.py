"""Costs of motions and their gradients in one pass on the CPU. CUDA form: kernels/cost.cu.

The motions go block by block, in blocks that stay in the processor's cache while every term passes over them. A trajectory is one row
of H D numbers, so that a pass is a long contiguous run, and a constant is one number or one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array
from gradlib.ops.reduce import total
from gradlib.trajectory.cache_blocks import compute_dtype, split
from gradlib.trajectory.cost_terms import PATH, TIME, Laid

_BLOCK = 1 << 20  # bytes per array in a block: smaller ones would fit a core's own cache, but cost more calls of NumPy than that saves


class RowTerm(NamedTuple):
    """A term for trajectories that are rows: of H D numbers, or of H where it is of the step times.

    Attributes:
        state, power, timed, target: as of `Laid`. first: the step at which `part` begins.
        part: what of a row is computed. idle: how many numbers of it, at its beginning, do not count.
        weight: for each number of that part, or one for all. lower, upper: alike; both None where the interval is zero alone.
            Of PATH, weight is for each step, and `lower` for each number or None where all joints weigh 1.
        is_open: as of `Laid`.
    """

    state: int
    power: int
    timed: bool
    target: int
    first: int
    part: slice
    idle: int
    weight: Any
    lower: Any
    upper: Any
    is_open: bool


def row_terms(terms: Iterable[Laid], horizon: int, joints: int) -> list[RowTerm]:
    """The terms for rows."""
    made = []
    for term in terms:
        wide = 1 if term.state == TIME else joints
        first = term.first if term.first > 1 else 0  # a single step is not worth rows with a gap
        idle = (term.first - first) * wide
        weight, lower, upper = (_row(x, (horizon, wide), first, idle) for x in (term.weight, term.lower, term.upper))
        if term.state == PATH:
            weight = np.where(np.arange(horizon) < 1, 0, term.weight[:, 0])
            if np.ndim(lower) == 0:  # the same for all joints, so also before the root
                weight, lower = weight * np.sqrt(lower), None
        elif np.ndim(lower) == np.ndim(upper) == 0 and lower == upper == 0:
            lower = upper = None
        made.append(RowTerm(*term[:3], term.target, first, slice(first * wide, None), idle, weight, lower, upper, term.is_open))
    return made


def _row(table: Array, shape: tuple[int, int], first: int, idle: int) -> Any:
    """A constant, (1 or H, 1 or D), from a step on: one number where all are equal but for the idle ones, or else a row."""
    row = np.broadcast_to(table, shape)[first:].reshape(-1)
    counted = row[idle:]
    return counted[0] if counted.size and (counted == counted[0]).all() else row


def cost_and_gradient(
    states: Sequence[Array | None], targets: Sequence[Array], dt: Any, terms: Sequence[RowTerm], made: Sequence[Array | None], by_dt: bool
) -> tuple[Array, Array | None]:
    """Cost of each motion and its gradients.

    Args:
        states: p, v, a, j as (B, H, D), None where no term asks for one; targets: (1 or B, 1 or H, 1 or D).
        dt: (1 or B, 1 or H) seconds, or a number. terms: what is summed, by state.
        made: the gradients by the states to fill, None where not wanted. by_dt: whether to compute the gradient by dt.
    Returns: cost (B,) in the type of the arithmetic, and the gradient by dt (B, 1 or H) or None.
    """
    like = next(x for x in states if x is not None)
    batch, horizon, joints = like.shape
    dtype = compute_dtype(like.dtype)
    times = np.array(dt, dtype, ndmin=2)
    cost = np.zeros(batch, dtype)
    by_times = np.zeros((batch, horizon), dtype) if by_dt else None
    with np.errstate(all="ignore"):
        for low, high in split(batch, horizon * joints, _BLOCK // dtype.itemsize):
            part = slice(low, high)
            block = _Block(
                [None if x is None else np.ascontiguousarray(x[part], dtype) for x in states],
                [x[part] if len(x) > 1 else x for x in targets],
                times[part] if len(times) > 1 else times,
                [None if x is None else x[part] for x in made],
                cost[part],
                None if by_times is None else by_times[part],
            )
            block.run(terms)
    if by_times is not None and times.shape[1] == 1:
        by_times = by_times.sum(axis=1, keepdims=True)
    return cost, by_times


class _Block:
    """One block of trajectories, its results among them.

    Args:
        states, targets, times, gradients: as of `cost_and_gradient`, of this block; the states contiguous, in the type of the arithmetic.
        cost: what is added to. by_times: (b, H), what the gradient by the step times is added to, or None.
    """

    def __init__(
        self, states: list[Array | None], targets: list[Array], times: Array, gradients: list[Array | None], cost: Array,
        by_times: Array | None,
    ) -> None:  # fmt: skip
        self.shape = rows, horizon, joints = next(x.shape for x in states if x is not None)
        self.targets, self.gradients, self.cost = targets, gradients, cost
        self.states: list[Any] = [None if x is None else x.reshape(rows, -1) for x in states]
        self.states.append(np.broadcast_to(times, (rows, horizon)))
        self.slopes: list[Any] = [*(_room(x, state) for x, state in zip(gradients, self.states, strict=False)), by_times]
        self.begun = [*(False for _ in states), True]  # whether a slope holds numbers yet
        self.seconds = times if times.shape[1] == 1 else np.repeat(times, joints, axis=1)

    def run(self, terms: Sequence[RowTerm]) -> None:
        for term in terms:
            if term.state == PATH:
                self._path(term)
            else:
                self._of_state(term)
        for target, slope, begun in zip(self.gradients, self.slopes, self.begun, strict=False):
            if target is None or slope is None:
                continue
            if not begun:
                target[...] = 0
            elif not np.may_share_memory(target, slope):
                np.copyto(target, slope.reshape(target.shape), casting="same_kind")

    def _of_state(self, term: RowTerm) -> None:
        """A term of p, v, a, j or the step times."""
        e, counted = self._distance(term), slice(term.idle, None)
        factor = term.power * term.weight
        if term.timed:
            factor = factor * self.seconds
        own = self._added(term, e if term.power == 2 else np.sign(e), factor)
        self.cost += np.vecdot(own[:, counted], e[:, counted]) / term.power
        if term.timed and self.slopes[TIME] is not None:
            by_step = self._over_joints(own[:, counted] * e[:, counted]) / term.power
            self.slopes[TIME][:, 1:] += by_step / self.states[TIME][:, 1:]

    def _distance(self, term: RowTerm) -> Array:
        """How far a state lies beyond its interval, or from its target, with its sign; perhaps the state itself."""
        x = self.states[term.state][:, term.part]
        if term.target >= 0:
            aim = self.targets[term.target]
            steps = x.reshape(-1, self.shape[1] - term.first, self.shape[2])
            return (steps - (aim if aim.shape[1] == 1 else aim[:, term.first :])).reshape(x.shape)
        if term.lower is None:
            return x
        e = x.clip(term.lower, term.upper)
        within = x == e if term.is_open else None
        np.subtract(x, e, out=e)
        if within is not None:  # also of infinite ones, which less an infinite bound are NaN
            np.copyto(e, 0, where=within)
        return e

    def _added(self, term: RowTerm, e: Array, factor: Any) -> Array:
        """``e * factor``, zero where it does not count, added to the slope by the term's state."""
        slope, begun = self.slopes[term.state], self.begun[term.state]
        into = None if slope is None or begun else slope[:, term.part]
        own = np.multiply(e, factor, out=into)
        own[:, : term.idle] = 0
        if slope is not None and begun:
            slope[:, term.part] += own
        elif slope is not None:
            self.begun[term.state] = True
            slope[:, : term.part.start] = 0
        return own

    def _over_joints(self, rows: Array) -> Array:
        """The sums over joints of rows that hold whole steps."""
        return total(np, rows.reshape(len(rows), -1, self.shape[2]), 2, False)

    def _path(self, term: RowTerm) -> None:
        """The length of the path: a step where nothing moves has the gradient zero. The first step is such a one."""
        joints = self.shape[2]
        p = self.states[0].reshape(-1)
        moved = np.empty_like(self.states[0])
        np.subtract(p[joints:], p[:-joints], out=moved.reshape(-1)[joints:])  # from one row to the next too
        moved[:, :joints] = 0
        weighted = moved if term.lower is None else moved * term.lower
        lengths = np.sqrt(self._over_joints(weighted * moved))
        self.cost += np.vecdot(lengths, term.weight)
        slope = self.slopes[0]
        if slope is None:
            return
        still = lengths == 0
        np.divide(term.weight, lengths, out=lengths)
        lengths[still] = 0
        weighted *= np.repeat(lengths, joints, axis=1)
        if not self.begun[0]:
            self.begun[0], slope[...] = True, 0
        slope += weighted
        before = slope.reshape(-1)[:-joints]
        before -= weighted.reshape(-1)[joints:]


def _room(gradient: Array | None, state: Array | None) -> Array | None:
    """Rows in which the gradient by a state is summed: where it belongs, or apart where that lies or is stored otherwise."""
    if gradient is None or state is None:
        return None
    if gradient.dtype == state.dtype and gradient.flags.c_contiguous:
        return gradient.reshape(state.shape)
    return np.empty_like(state)
