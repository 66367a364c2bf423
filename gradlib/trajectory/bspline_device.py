"""B-splines on the GPU: the launches of kernels/bspline.cu. CPU form: `gradlib.trajectory.bspline_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, constant, device_index
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.bspline_host import kernel_weights
from gradlib.trajectory.tiles import THREADS, Plan, elements, machine_for, one_row, options, plan, ready, real_dtype, start_rows, times

_WIDE_HELD = 2  # how many blocks of the adjoint with twice the threads a multiprocessor's registers hold: kernels/bspline.cu


def _weights(like: Array, degree: int, samples: int) -> Array:
    """The kernels' table on the device of an array, in the type that they compute in."""
    return constant(kernel_weights, degree, samples, dtype=real_dtype(like), index=device_index(like))


def forward_call(
    xp: Any, knots: Array | None, ends: Sequence[Array | None], has_goal: bool, dt: Array, out: Sequence[Array], degree: int, samples: int,
    group: int,
) -> Call:  # fmt: skip
    """The launch of ``bspline_forward``; ``ends`` are the four parts of the start, then those of the goal, None for zeros."""
    like = out[0]
    series, horizon, joints = like.shape
    table, seconds, dt_b, _ = times(xp, dt, like)
    split = elements(like.shape, like)
    control, *given = ready(xp, (knots, *ends))
    number = (horizon - 1) // samples + degree
    sizes = (series, number, samples, horizon, joints, group, dt_b)
    one = one_row(given, None, series, joints)
    args = (control, *given, one, int(has_goal), _weights(like, degree, samples), table, seconds, *out, *sizes)
    chosen = options(like, max(0 if control is None else control.size, like.size), DEGREE=degree, OUTPUTS=split.outputs)
    return Call("bspline.cu", "bspline_forward", chosen, split.grid, split.block, args)


def forward(
    xp: Any, knots: Array | None, ends: Sequence[Array | None], has_goal: bool, dt: Array, out: Sequence[Array], degree: int, samples: int,
    group: int,
) -> None:  # fmt: skip
    """`gradlib.trajectory.bspline_host.forward` of the control points that knots and ends give, on the GPU, into out."""
    launch(forward_call(xp, knots, ends, has_goal, dt, out, degree, samples, group))


def _a_thread_a_point(tiles: Plan, horizon: int, number: int, degree: int) -> bool:
    """Whether a thread sums over the samples of a point, of each in turn, rather than one walks over the samples of a series.

    For a sample it then does a part in degree + 1 of what a walk does there, and some more to read it: a quarter.
    """
    tile_batch, tile_joints, steps, _, _ = tiles.sizes
    turns = -(-tile_batch * tile_joints * number // THREADS)
    return steps >= horizon and 5 * turns <= 4 * (number - degree)


def _threads(tiles: Plan, number: int, like: Array) -> int:
    """Threads of a block in which each takes a point: more where there are points for them, and registers for all blocks at once."""
    tile_batch, tile_joints, *_ = tiles.sizes
    wide = tile_batch * tile_joints * number > THREADS and machine_for(like).holds(tiles.grid, _WIDE_HELD)
    return 2 * THREADS if wide else THREADS


def adjoint_call(
    xp: Any, grads: Sequence[Array | None], dt: Array, made: Sequence[Any], has_goal: bool, degree: int, samples: int, group: int
) -> Call:
    """The launch of ``bspline_adjoint``; ``made`` are the gradients to fill: by the knots, the parts of the start and those of the goal."""
    given = ready(xp, grads)
    like, out = next(g for g in given if g is not None), made[0]
    table, seconds, dt_b, _ = times(xp, dt, like)
    tiles = plan(like.shape, like.itemsize, 4 * like.itemsize, given)
    series, horizon, joints = like.shape
    number = (horizon - 1) // samples + degree
    fixed = tiles.sizes[0] * tiles.sizes[1] * degree * (1 + has_goal) * np.dtype(real_dtype(like)).itemsize
    per_point = _a_thread_a_point(tiles, horizon, number, degree) and tiles.shared + fixed <= tiles.most
    sizes = (int(has_goal), series, number, samples, horizon, joints, group, dt_b, *tiles.sizes, int(per_point))
    args = (*given, _weights(like, degree, samples), table, seconds, *made, *sizes)
    chosen = options(like, max(out.size, like.size), DEGREE=degree, OUTPUTS=1)
    threads = _threads(tiles, number, like) if per_point else THREADS
    return Call("bspline.cu", "bspline_adjoint", chosen, tiles.grid, threads, args, tiles.shared + per_point * fixed)


def adjoint(
    xp: Any, grads: Sequence[Array | None], dt: Array, knots: int, has_goal: bool, degree: int, samples: int, group: int
) -> tuple[Array, list[Array], list[Array]]:
    """`gradlib.trajectory.bspline_host.adjoint` on the GPU, on to the gradients by ``knots`` knots of each series, and by the four parts of
    the start and of the goal; without a goal no parts."""
    like = next(g for g in grads if g is not None)
    out = xp.empty((like.shape[0], knots, like.shape[2]), like.dtype)
    start, goal = start_rows(xp, like, 4), start_rows(xp, like, 4) if has_goal else []
    launch(adjoint_call(xp, grads, dt, (out, *start, *(goal or [None] * 4)), has_goal, degree, samples, group))
    return out, start, goal
