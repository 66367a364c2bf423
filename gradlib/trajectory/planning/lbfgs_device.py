"""A step of `gradlib.trajectory.planning.lbfgs` on a GPU: the launch of kernels/lbfgs.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import options, ready

HISTORY = 8  # of kernels/lbfgs.cu
_FEW, _MANY = 64, 512  # threads of a block, which has one problem

Pair = tuple[Array, Array, Array]
"""A step (b, n), the change of the gradient along it, and 1 / their product (b,)."""


class State(NamedTuple):
    """Where the search of each problem stands, as `lbfgs.Search` has it."""

    x: Array
    loss: Array
    gradient: Array
    direction: Array
    length: Array


def step_call(now: State, tried: Sequence[Array], pairs: Sequence[Pair], scale: Array, made: State, pair: Pair, scaled: Array) -> Call:
    """The launch of ``lbfgs_step``.

    Args:
        tried: the points that were tried, their losses and gradients; pairs: the last ones, the oldest first.
        made, pair, scaled: the new state, the new pair and the scale after it, to fill.
    """
    problems, n = now.x.shape
    remembered, missing = pairs[:-HISTORY:-1], (None,) * (HISTORY - 1 - min(len(pairs), HISTORY - 1))  # the newest first
    earlier = [x for part in range(3) for x in (*(each[part] for each in remembered), *missing)]
    args = (*now, *tried, *earlier, scale, *made, *pair, scaled, len(remembered) + 1, n)
    threads = _FEW if n <= 8 * _FEW else _MANY
    return Call("lbfgs.cu", "lbfgs_step", options(now.x, now.x.size), (problems, 1), threads, args, threads * now.x.itemsize)


def step(xp: Any, now: State, tried: Sequence[Array], pairs: Sequence[Pair], scale: Array) -> tuple[State, Pair, Array]:
    """The state after an evaluation, the pair to remember, and the scale."""
    made, pair, scaled = State(*map(xp.empty_like, now)), (*map(xp.empty_like, (now.x, now.x, scale)),), xp.empty_like(scale)
    launch(step_call(now, ready(xp, tried), pairs, scale, made, pair, scaled))
    return made, pair, scaled
