"""The chain on the GPU: the launches of kernels/chain.cu. CPU form: `gradlib.trajectory.chain_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import (
    THREADS,
    adjoint_elements,
    bytes_of_times,
    elements,
    one_row,
    options,
    plan,
    ready,
    real_dtype,
    start_rows,
    times,
)

_NO_SOURCES = (None, None, None)
_NO_TILES = (0, 0, 0, 0, 0, 0)  # position control has a thread for each element


def _summed(order: int, array: Array) -> int:
    """Bytes that threads which share a walk tell each other: the sums of as many states, and of the times that these are multiplied by."""
    return (0, 1, 3, 5)[order] * np.dtype(real_dtype(array)).itemsize


def forward_call(
    xp: Any, u: Array, start: Sequence[Array | None], dt: Array, order: int, exact: bool, sources: Any, out: Sequence[Array], group: int,
    index: Array | None = None,
) -> Call:  # fmt: skip
    """The launch of ``chain_forward``; arguments as `forward`."""
    control, *given = ready(xp, (u, *start, *(sources or _NO_SOURCES)))
    table, seconds, dt_b, dt_h = times(xp, dt, u)
    begin = (*given[:3], index, one_row(given[:3], index, u.shape[0], u.shape[2]))
    args = (control, *begin, *given[3:], table, seconds, *out, *u.shape, group, dt_b, dt_h)
    if order == 0:
        split = elements(u.shape, u)
        chosen = options(u, u.size, ORDER=0, EXACT=exact, SOURCES=sources is not None, AHEAD=0, OUTPUTS=split.outputs)
        return Call("chain.cu", "chain_forward", chosen, split.grid, split.block, (*args, *_NO_TILES))
    staged, timed, summed = [control, *given[3:], *out], bytes_of_times(dt_h, u), _summed(order, u)
    # times of each step are divided by, so waited for anyway, and so are single elements of two bytes
    read_ahead = 0 if sources or timed or u.itemsize < 4 else u.itemsize
    tiles = plan(u.shape, u.itemsize, 4 * u.itemsize, staged, timed=timed, summed=summed, read_ahead=read_ahead)
    chosen = options(u, u.size, ORDER=order, EXACT=exact, SOURCES=sources is not None, AHEAD=tiles.ahead, OUTPUTS=1)
    args = (*args, *tiles.sizes, tiles.part)
    return Call("chain.cu", "chain_forward", chosen, tiles.grid, THREADS, args, tiles.shared)


def forward(
    xp: Any,
    u: Array,
    start: Sequence[Array | None],
    dt: Array,
    order: int,
    exact: bool,
    sources: Any,
    out: Sequence[Array] | None,
    group: int,
    index: Array | None = None,
) -> tuple[Array, ...]:
    """`gradlib.trajectory.chain_host.forward` on the GPU; ``group`` series share a start row's place and a dt.

    Start parts have a row for each trajectory, or one, or with ``index`` those that it chooses from.
    """
    shape, dtype = u.shape, u.dtype
    made = (xp.empty(shape, dtype), xp.empty(shape, dtype), xp.empty(shape, dtype), xp.empty(shape, dtype)) if out is None else tuple(out)
    launch(forward_call(xp, u, start, dt, order, exact, sources, made, group, index))
    return made


def adjoint_call(
    xp: Any, grads: Sequence[Array | None], dt: Array, order: int, exact: bool, made: Sequence[Array | None], group: int
) -> Call:
    """The launch of ``chain_adjoint``, of position control over small batches of ``chain_adjoint_elements``.

    ``made`` are the seven arrays to fill, the last three None without sources.
    """
    given = ready(xp, grads)
    by_u: Array = made[0]
    table, seconds, dt_b, dt_h = times(xp, dt, by_u)
    chosen = options(by_u, by_u.size, ORDER=order, EXACT=exact, SOURCES=made[4] is not None, AHEAD=0, OUTPUTS=1)
    args = (*given, table, seconds, *made, *by_u.shape, group, dt_b, dt_h)
    split = adjoint_elements(by_u.shape, by_u) if order == 0 else None
    if split is not None:
        return Call("chain.cu", "chain_adjoint_elements", chosen, split.grid, split.block, args)
    staged, timed, summed = [*given, by_u, *made[4:]], bytes_of_times(dt_h, by_u), _summed(order, by_u)
    tiles = plan(by_u.shape, by_u.itemsize, 4 * by_u.itemsize, staged, timed=timed, summed=summed)
    return Call("chain.cu", "chain_adjoint", chosen, tiles.grid, THREADS, (*args, *tiles.sizes, tiles.part), tiles.shared)


def adjoint(
    xp: Any, grads: Sequence[Array | None], dt: Array, order: int, exact: bool, with_sources: bool, group: int,
    by_start: Sequence[Array] | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """`gradlib.trajectory.chain_host.adjoint` on the GPU; ``by_start``: arrays for the gradients by the start parts."""
    like = next(g for g in grads if g is not None)
    full = [xp.empty(like.shape, like.dtype) for _ in range(4 if with_sources else 1)]
    made = (full[0], *(start_rows(xp, like) if by_start is None else by_start), *(full[1:] or (None, None, None)))
    launch(adjoint_call(xp, grads, dt, order, exact, made, group))
    return made if with_sources else made[:4]
