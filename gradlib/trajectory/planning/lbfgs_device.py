"""The memory of `gradlib.trajectory.planning.lbfgs` on a GPU: the launch of kernels/lbfgs.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array
from gradlib.cuda.launch import Call, launch
from gradlib.trajectory.tiles import options

HISTORY = 8  # of kernels/lbfgs.cu
_FEW, _MANY = 64, 512  # threads of a block, which has one problem


def direction_call(
    gradient: Array, pairs: Sequence[tuple[Array, Array, Array]], scale: Array, made: tuple[Array, Array], direction: Array
) -> Call:
    """The launch of ``lbfgs_direction``.

    Args:
        pairs: step, change and 1 / their product, the oldest first; that product of the last is written.
        scale: before the last pair; made: the last pair's 1 / product and the scale after it, to fill, as ``direction`` is.
    """
    problems, n = gradient.shape
    newest_first, missing = pairs[::-1], (None,) * (HISTORY - len(pairs))
    steps, changes, inverses = ((*(pair[part] for pair in newest_first), *missing) for part in range(3))
    args = (gradient, *steps, *changes, *inverses[1:], scale, *made, direction, len(pairs), n)
    threads = _FEW if n <= 8 * _FEW else _MANY
    real = gradient.itemsize  # float32 and float64 compute in themselves
    return Call("lbfgs.cu", "lbfgs_direction", options(gradient, gradient.size), (problems, 1), threads, args, threads * real)


def direction(xp: Any, gradient: Array, pairs: Sequence[tuple[Array, Array, Array]], scale: Array) -> tuple[Array, Array]:
    """The direction after a new last pair, whose 1 / product is filled in, and the scale after it."""
    out, scaled = xp.empty_like(gradient), xp.empty_like(scale)
    launch(direction_call(gradient, pairs, scale, (pairs[-1][2], scaled), out))
    return out, scaled
