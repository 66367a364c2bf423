"""B-splines on the GPU: the launches of kernels/bspline.cu. CPU form: `gradlib.trajectory.bspline_host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array, constant, device_index
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.bspline_host import kernel_weights
from gradlib.trajectory.tiles import THREADS, Plan, options, plan, ready, real_dtype, times


def forward_call(xp: Any, points: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, group: int) -> Call:
    """The launch of ``bspline_forward``."""
    table, seconds, dt_b, _ = times(xp, dt, points)
    tiles = plan(out[0].shape, points.itemsize, 4 * points.itemsize, out, summed=0)
    weights = constant(kernel_weights, degree, samples, dtype=real_dtype(points), index=device_index(points))
    sizes = (points.shape[0], points.shape[1], samples, *out[0].shape[1:])
    args = (*ready(xp, (points,)), weights, table, seconds, *out, *sizes, group, dt_b, *tiles.sizes, tiles.part)
    chosen = options(points, max(points.size, out[0].size), DEGREE=degree)
    return Call("bspline.cu", "bspline_forward", chosen, tiles.grid, THREADS, args, tiles.shared)


def forward(xp: Any, points: Array, dt: Array, out: Sequence[Array], degree: int, samples: int, group: int) -> None:
    """`gradlib.trajectory.bspline_host.forward` on the GPU, into out."""
    launch(forward_call(xp, points, dt, out, degree, samples, group))


def _a_thread_a_point(tiles: Plan, horizon: int, number: int, degree: int) -> bool:
    """Whether a thread sums over the samples of a point, of each in turn, rather than one walks over the samples of a series.

    For a sample it then does a part in degree + 1 of what a walk does there, and some more to read it: a quarter.
    """
    tile_batch, tile_joints, steps, _, _ = tiles.sizes
    turns = -(-tile_batch * tile_joints * number // THREADS)
    return steps >= horizon and 5 * turns <= 4 * (number - degree)


def adjoint_call(xp: Any, grads: Sequence[Array | None], dt: Array, out: Array, degree: int, samples: int, group: int) -> Call:
    """The launch of ``bspline_adjoint``."""
    given = ready(xp, grads)
    like = next(g for g in given if g is not None)
    table, seconds, dt_b, _ = times(xp, dt, out)
    tiles = plan(like.shape, like.itemsize, 4 * like.itemsize, given)
    weights = constant(kernel_weights, degree, samples, dtype=real_dtype(out), index=device_index(out))
    sizes = (out.shape[0], out.shape[1], samples, *like.shape[1:])
    per_point = int(_a_thread_a_point(tiles, like.shape[1], out.shape[1], degree))
    args = (*given, weights, table, seconds, out, *sizes, group, dt_b, *tiles.sizes, per_point)
    chosen = options(out, max(out.size, like.size), DEGREE=degree)
    return Call("bspline.cu", "bspline_adjoint", chosen, tiles.grid, THREADS, args, tiles.shared)


def adjoint(xp: Any, grads: Sequence[Array | None], dt: Array, number: int, degree: int, samples: int, group: int) -> Array:
    """`gradlib.trajectory.bspline_host.adjoint` on the GPU: the gradient by ``number`` points of each series."""
    like = next(g for g in grads if g is not None)
    out = xp.empty((like.shape[0], number, like.shape[2]), like.dtype)
    launch(adjoint_call(xp, grads, dt, out, degree, samples, group))
    return out
