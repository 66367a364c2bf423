"""Central differences on the GPU: the launches of kernels/central.cu. CPU form: `gradlib.trajectory.central_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import THREADS, adjoint_elements, elements, one_row, options, plan, ready, start_rows, times


def forward_call(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], group: int,
    index: Array | None = None,
) -> Call:  # fmt: skip
    """The launch of ``central_forward``."""
    control, *given = ready(xp, (u, *start, goal))
    table, seconds, dt_b, _ = times(xp, dt, u)
    split = elements(u.shape, u)
    one = one_row(given[:3], index, u.shape[0], u.shape[2]) | one_row((None, None, None, given[3]), None, u.shape[0], u.shape[2])
    args = (control, *given, index, one, table, seconds, *out, *u.shape, group, dt_b)
    return Call("central.cu", "central_forward", options(u, u.size, OUTPUTS=split.outputs), split.grid, split.block, args)


def forward(
    xp: Any, u: Array, start: Sequence[Array | None], goal: Array | None, dt: Array, out: Sequence[Array], group: int,
    index: Array | None = None,
) -> None:  # fmt: skip
    """`gradlib.trajectory.central_host.forward` on the GPU, into out; start parts as `chain_device.forward`, the goal without an index."""
    launch(forward_call(xp, u, start, goal, dt, out, group, index))


def adjoint_call(xp: Any, grads: Sequence[Array | None], dt: Array, made: Sequence[Array], has_goal: bool, group: int) -> Call:
    """The launch of ``central_adjoint``, of small batches of ``central_adjoint_elements``; ``made`` are the gradients to fill, by u, start,
    goal."""
    given = ready(xp, grads)
    by_u = made[0]
    table, seconds, dt_b, _ = times(xp, dt, by_u)
    chosen, args = options(by_u, by_u.size, OUTPUTS=1), (*given, table, seconds, *made, *by_u.shape, group, dt_b, int(has_goal))
    split = adjoint_elements(by_u.shape, by_u)
    if split is not None:
        return Call("central.cu", "central_adjoint_elements", chosen, split.grid, split.block, args)
    tiles = plan(by_u.shape, by_u.itemsize, 4 * by_u.itemsize, [*given, by_u], shift=4, summed=0)
    return Call("central.cu", "central_adjoint", chosen, tiles.grid, THREADS, (*args, *tiles.sizes, tiles.part), tiles.shared)


def adjoint(xp: Any, grads: Sequence[Array | None], dt: Array, has_goal: bool, group: int,
            by_rows: Sequence[Array] | None = None) -> tuple[Array, ...]:  # fmt: skip
    """`gradlib.trajectory.central_host.adjoint` on the GPU; ``by_rows``: arrays for the gradients by the start parts and the goal."""
    like = next(g for g in grads if g is not None)
    made = (xp.empty(like.shape, like.dtype), *(start_rows(xp, like, 4) if by_rows is None else by_rows))
    launch(adjoint_call(xp, grads, dt, made, has_goal, group))
    return made
