"""Costs of motions and their gradients in one pass on the CPU. CUDA form: kernels/cost.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory.cache_blocks import compute_dtype, split
from gradlib.trajectory.cost_terms import PATH, TIME, Laid


def cost_and_gradient(
    states: Sequence[Array | None], targets: Sequence[Array], dt: Any, terms: Sequence[Laid], made: Sequence[Array | None], by_dt: bool
) -> tuple[Array, Array | None]:
    """Cost of each motion and its gradients.

    Args:
        states: p, v, a, j as (B, H, D), None where no term asks for one; targets: (1 or B, 1 or H, 1 or D).
        dt: (1 or B, 1 or H) seconds, or a number. terms: what is summed.
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
        for low, high in split(batch, horizon * joints):
            part = slice(low, high)
            block = _Block(
                [None if x is None else x[part].astype(dtype, copy=False) for x in states],
                [x[part] if len(x) > 1 else x for x in targets],
                np.broadcast_to(times[part] if len(times) > 1 else times, (high - low, horizon)),
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
        states, targets, times, gradients: as of `cost_and_gradient`, of this block; times (b, H).
        cost, by_times: what is added to.
    """

    def __init__(
        self, states: list[Array | None], targets: list[Array], times: Array, gradients: list[Array | None], cost: Array,
        by_times: Array | None,
    ) -> None:  # fmt: skip
        self.states, self.targets, self.times, self.gradients, self.cost, self.by_times = states, targets, times, gradients, cost, by_times

    def run(self, terms: Sequence[Laid]) -> None:
        wide = [self._room(k) for k in range(4)]
        for term in terms:
            if term.state == PATH:
                self._path(term, wide[0])
            elif term.state == TIME:
                self._of_times(term)
            else:
                self._of_state(term, wide[term.state])
        for target, value in zip(self.gradients, wide, strict=True):
            if target is not None and value is not None and target is not value:
                np.copyto(target, value, casting="same_kind")

    def _room(self, k: int) -> Array | None:
        """Zeros where the gradient by state k is summed: where it belongs, or apart where that is a 16-bit array."""
        target, state = self.gradients[k], self.states[k]
        if target is None or state is None:
            return None
        if target.dtype != state.dtype:
            return np.zeros(target.shape, state.dtype)
        target[...] = 0
        return target

    def _of_state(self, term: Laid, slope: Array | None) -> None:
        """A term of p, v, a or j."""
        counted = slice(term.first, None)
        x: Any = self.states[term.state]
        x = x[:, counted]
        if term.target >= 0:
            e = x - _steps(self.targets[term.target], term.first, 1)
        else:
            e = x - x.clip(_steps(term.lower, term.first), _steps(term.upper, term.first))
        weight = _steps(term.weight, term.first)
        own = 2 * weight * e if term.power == 2 else weight * np.sign(e)
        cost = own * e
        if term.power == 2:
            cost /= 2
        if term.timed:
            seconds = self.times[:, counted, None]
            if self.by_times is not None:
                self.by_times[:, counted] += cost.sum(axis=2)
            cost *= seconds
            own *= seconds
        self.cost += cost.sum(axis=(1, 2))
        if slope is not None:
            slope[:, counted] += own

    def _of_times(self, term: Laid) -> None:
        t = self.times[:, term.first :]
        e = t - t.clip(_steps(term.lower, term.first)[:, 0], _steps(term.upper, term.first)[:, 0])
        weight = _steps(term.weight, term.first)[:, 0]
        own = 2 * weight * e if term.power == 2 else weight * np.sign(e)
        self.cost += (own * e).sum(axis=1) / (2 if term.power == 2 else 1)
        if self.by_times is not None:
            self.by_times[:, term.first :] += own

    def _path(self, term: Laid, slope: Array | None) -> None:
        """The length of the path: a step where nothing moves has the gradient zero."""
        p: Any = self.states[0]
        moved = p[:, 1:] - p[:, :-1]
        weighted = term.lower * moved
        squares = (weighted * moved).sum(axis=2)
        lengths, weight = np.sqrt(squares), _steps(term.weight, 1)[:, 0]
        self.cost += (weight * lengths).sum(axis=1)
        if slope is not None:
            weighted *= np.where(squares == 0, 0, weight / np.where(squares == 0, 1, lengths))[:, :, None]
            slope[:, 1:] += weighted
            slope[:, :-1] -= weighted


def _steps(table: Array, first: int, axis: int = 0) -> Array:
    """The steps from ``first`` on of what has one for each, or one for all."""
    if table.shape[axis] == 1:
        return table
    return table[first:] if axis == 0 else table[:, first:]
