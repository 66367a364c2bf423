"""The smooth absolute value of Huber: of each element, summed over pairs, and its slopes."""

from __future__ import annotations

import numpy as np

from gradlib.backend.array import Array, zero_d
from gradlib.backend.vectorised.blocks import BLOCK, blocks, in_lines


def smooth_absolute(input: Array, beta: float, divided: bool) -> Array:
    """x²/2 up to beta, beta (|x| - beta/2) beyond, or these divided by beta; of an array that `fits`."""
    bound = np.full(min(BLOCK, input.size), beta, np.float32)

    def form(x: Array, out: Array) -> None:
        np.absolute(x, out)
        near = np.minimum(out, bound[: x.size])
        out -= np.multiply(near, 0.5)
        if divided and beta != 1:  # before the product, which may be too large or too small a number
            near /= beta
        out *= near

    return blocks(form, input)


def smooth_distance(input: Array, target: Array, beta: float) -> float:
    """The sum of d²/2 up to beta, beta (|d| - beta/2) beyond, of the differences of arrays that are alike.

    That is c d - c²/2 with c = clamp(d, -beta, beta).
    """
    made, low, high = 0.0, zero_d(-beta, input.dtype), zero_d(beta, input.dtype)
    for a, b in in_lines(input, target):
        away = a - b
        near = away.clip(low, high)
        made += sum(np.vecdot(near, away).tolist()) - sum(np.vecdot(near, near).tolist()) * 0.5
    return made


def smooth_slopes(g: Array, input: Array, target: Array, beta: float, divided: bool) -> list[Array]:
    """The derivatives of that by both arrays, or of that divided by beta, times g."""
    bound = 1.0 if divided else beta
    low, high, slopes = zero_d(-bound, input.dtype), zero_d(bound, input.dtype), (np.empty_like(input), np.empty_like(input))
    for a, b, by_a, by_b in in_lines(input, target, *slopes):
        np.subtract(a, b, by_a)
        if divided and beta != 1:
            by_a /= beta
        by_a.clip(low, high, by_a)
        by_a *= g
        np.negative(by_a, by_b)
    return list(slopes)
