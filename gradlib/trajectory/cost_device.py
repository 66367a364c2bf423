"""Costs of motions on the GPU: the launch of kernels/cost.cu. CPU form: `gradlib.trajectory.cost_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, there_for_all
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.cost_terms import Laid
from gradlib.trajectory.tiles import options, ready, real_dtype, times

FIELDS = 16  # numbers of a term
_STEPS = 256  # of a chunk
_FEW = 128  # trajectories, of which a block has one each; where there are more it has four, as it then reads terms for all of them
_THREADS = {1: 512, 4: 448}  # of a block with so many at most, as the kernel is compiled


class Packed:
    """Terms as a kernel reads them, on one device: the numbers of each, but for its target's strides, and all constants in one array."""

    def __init__(self, terms: Sequence[Laid], real: str, device: int | None) -> None:
        self.laid, self.device = terms, device
        self.fields, tables, used = np.zeros((len(terms), FIELDS), np.int32), [np.zeros(1, real)], 1
        for fields, term in zip(self.fields, terms, strict=True):
            fields[:4] = term.state, term.power, term.timed, term.first
            (lower, upper), places = np.broadcast_arrays(term.lower, term.upper), []
            for table in (term.weight, lower, upper):
                places.append(used)
                tables.append(np.ascontiguousarray(table, real).reshape(-1))
                used += table.size
            fields[4:7] = places[0], *_strides(term.weight.shape)
            fields[7:11] = places[1], places[2], *_strides(lower.shape)
            fields[11] = term.target
        self.constants = there_for_all(np.concatenate(tables), device)
        self._terms: dict[tuple[tuple[tuple[int, ...], ...], bool], Array] = {}

    def terms(self, shapes: tuple[tuple[int, ...], ...], time_last: bool) -> Array:
        """The terms with the strides of targets of these shapes, on the device; packed once for each set of shapes in each layout."""
        key = shapes, time_last
        if key not in self._terms:
            fields = self.fields.copy()
            for row, term in zip(fields, self.laid, strict=True):
                if term.target >= 0:
                    strides = _strides(shapes[term.target])
                    row[12:15] = (strides[0], strides[2], strides[1]) if time_last else strides
            self._terms[key] = there_for_all(fields, self.device)
        return self._terms[key]


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one to the next along each axis of a contiguous array; 0 where there is one for all."""
    return tuple(0 if n == 1 else int(np.prod(shape[i + 1 :])) for i, n in enumerate(shape))


def threads(elements: int, together: int) -> int:
    """The threads of a block: as many as share the elements of a trajectory evenly."""
    turns = -(-elements // _THREADS[together])
    return -(-elements // turns // 32) * 32


def cost_and_gradient_call(
    xp: Any, states: Sequence[Array | None], targets: Sequence[Array], dt: Any, packed: Packed, cost: Array, made: Sequence[Array | None],
    by_dt: Array | None, time_last: bool,
) -> Call:  # fmt: skip
    """The launch of ``motion_cost``; ``made`` are the gradients by p, v, a, j, None where not wanted."""
    given = ready(xp, states)
    references: list[Any] = ready(xp, targets)
    like = next(x for x in given if x is not None)
    batch, first, second = like.shape
    horizon, joints = (second, first) if time_last else (first, second)
    table, seconds, dt_b, dt_h = times(xp, dt, like)
    terms = packed.terms(tuple(x.shape for x in references), time_last)
    together = 4 if batch > _FEW else 1
    steps = min(horizon, _STEPS)
    width = threads(steps * joints, together)
    padded = (*references, *(None,) * (8 - len(references)))
    args = (*given, *padded, terms, packed.constants, table, seconds, cost, *made, by_dt, len(terms), batch, horizon, joints,
            int(time_last), dt_b, dt_h, steps)  # fmt: skip
    shared = together * (steps + 1 + width) * cost.itemsize
    return Call("cost.cu", "motion_cost", options(like, like.size, OUTPUTS=together), (-(-batch // together), 1), width, args, shared)


def cost_and_gradient(
    xp: Any, states: Sequence[Array | None], targets: Sequence[Array], dt: Any, packed: Packed, by_states: bool, by_dt: bool,
    time_last: bool,
) -> tuple[Array, list[Array | None], Array | None]:  # fmt: skip
    """`gradlib.trajectory.cost_host.cost_and_gradient` on the GPU: cost, gradients by the states, gradient by dt (B, H)."""
    like = next(x for x in states if x is not None)
    real = real_dtype(like)
    cost = xp.empty(len(like), real)
    made = [None if x is None or not by_states else xp.empty(x.shape, x.dtype) for x in states]
    over_time = xp.empty((len(like), like.shape[2 if time_last else 1]), real) if by_dt else None
    launch(cost_and_gradient_call(xp, states, targets, dt, packed, cost, made, over_time, time_last))
    return cost, made, over_time
