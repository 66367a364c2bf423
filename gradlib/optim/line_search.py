"""A line search for the strong Wolfe conditions.

Source: J. Nocedal and S. Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, with the cubic interpolation and safeguards of
M. Schmidt's minFunc (https://www.cs.ubc.ca/~schmidtm/Software/minFunc.html), which torch.optim.LBFGS follows too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gradlib.backend.array import Array


class Point(NamedTuple):
    """A step along the search direction: its length, the loss there, the gradient, and the slope along the direction."""

    t: float
    loss: float
    gradient: Array
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    size: float,
    max_steps: int,
    tolerance: float = 1e-9,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> tuple[Point, int]:
    """A point where the loss fell enough (by c1) and the slope flattened enough (to c2), or the best one met.

    Args:
        evaluate: the Point at a step length.
        start: the Point at 0, of negative slope; t: the first length to try; size: largest element of the direction, absolute.
        max_steps: most evaluations after the first; tolerance: give up when the bracket is shorter than this times 1/size.
    Returns: the point, and how many evaluations were made.
    """

    def falls(point: Point) -> bool:
        return point.loss <= start.loss + c1 * point.t * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    before, now = start, evaluate(t)
    steps, bracket = 0, None
    while steps < max_steps and bracket is None:  # algorithm 3.5: go out until an interval must hold a good point
        if not falls(now) or (steps > 1 and now.loss >= before.loss):
            bracket = (before, now)
        elif flat(now):
            return now, steps + 1
        elif now.slope >= 0:
            bracket = (before, now)
        else:
            further = interpolate(before, now, (now.t + 0.01 * (now.t - before.t), now.t * 10))
            before, now = now, evaluate(further)
            steps += 1
    low, high = _ordered(*(bracket or (start, now)))
    cramped = False
    while steps < max_steps and abs(high.t - low.t) * size >= tolerance:  # algorithm 3.6: close in on it
        t, cramped = _inside(interpolate(low, high), low.t, high.t, cramped)
        now = evaluate(t)
        steps += 1
        if not falls(now) or now.loss >= low.loss:
            low, high = _ordered(low, now)
        elif flat(now):
            return now, steps + 1
        else:
            low, high = now, low if now.slope * (high.t - low.t) >= 0 else high
    return low, steps + 1


def interpolate(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through both losses and slopes, kept inside bounds (by default between the two)."""
    least, most = bounds or (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    left, right = (a, b) if a.t <= b.t else (b, a)
    d2 = math.sqrt(square)
    span = right.slope - left.slope + 2 * d2
    if span == 0:
        return (least + most) / 2
    return min(max(right.t - (right.t - left.t) * ((right.slope + d2 - d1) / span), least), most)


def _ordered(a: Point, b: Point) -> tuple[Point, Point]:
    """The two with the lower loss first."""
    return (a, b) if a.loss <= b.loss else (b, a)


def _inside(t: float, one: float, other: float, cramped: bool) -> tuple[float, bool]:
    """t moved off the bracket's ends when it comes close to one a second time in turn (or lies on it), and whether it was close now."""
    least, most = min(one, other), max(one, other)
    margin = 0.1 * (most - least)
    if min(most - t, t - least) >= margin:
        return t, False
    if not cramped and least < t < most:
        return t, True
    return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
