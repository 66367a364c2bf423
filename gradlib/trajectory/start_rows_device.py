"""Start rows chosen by index on the GPU: the launches of kernels/rows.cu."""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import THREADS, options, ready, real_dtype


def gather_call(xp: Any, rows: Array, index: Array, out: Array) -> Call:
    """The launch of ``rows_gather``: one element a thread, or several where they are more than 2^20 blocks hold."""
    args = (*ready(xp, (rows,)), index, out, *out.shape)
    grid = (min(-(-out.size // 256), 1 << 20), 1)
    return Call("rows.cu", "rows_gather", options(out, max(out.size, rows.size)), grid, 256, args)


def gather(xp: Any, rows: Array, index: Array) -> Array:
    """``rows[index]`` on the GPU."""
    out = xp.empty((len(index), rows.shape[1]), rows.dtype)
    launch(gather_call(xp, rows, index, out))
    return out


def scatter_parts(number: int, entries: int) -> int:
    """Into how many parts the entries of a row are split: blocks enough for a GPU where there are few rows with many entries."""
    return max(1, min(-(-entries // THREADS), 1024 // max(1, number)))


def scatter_call(xp: Any, grads: Array, order: Array, bounds: Array, partial: Array) -> Call:
    """The launch of ``rows_scatter`` of several arrays, (arrays, B, D), into ``partial`` (arrays, S, parts, D)."""
    arrays, number, parts, joints = partial.shape
    args = (*ready(xp, (grads, order, bounds)), partial, grads.shape[1], joints, parts, min(joints, THREADS))
    chosen = options(grads, max(partial.size, grads.size))
    return Call("rows.cu", "rows_scatter", chosen, (number, arrays * parts), THREADS, args, THREADS * partial.itemsize)


def scatter(xp: Any, grads: Array, order: Array, bounds: Array, number: int) -> Array:
    """The transpose of `gather` on the GPU, of several arrays, with the entries of each row listed by ``order`` and ``bounds``."""
    arrays, entries, joints = grads.shape
    parts = scatter_parts(number, entries)
    partial = xp.empty((arrays, number, parts, joints), real_dtype(grads))
    launch(scatter_call(xp, grads, order.astype("int64", copy=False), bounds.astype("int64", copy=False), partial))
    return (partial[:, :, 0] if parts == 1 else partial.sum(axis=2)).astype(grads.dtype, copy=False)
