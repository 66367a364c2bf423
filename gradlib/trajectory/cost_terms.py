"""The terms of a cost of motions, each in one form, which the forms for the CPU and for a GPU both compute."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

TIME, PATH = 4, 5
"""States beyond p, v, a and j (0 to 3): the step times, and the length of the path of positions."""


class Term(NamedTuple):
    """A price on how far a state lies from an interval or a target: the sum of weight |e|^power over steps and joints.

    Attributes:
        state: 0 position, 1 velocity, 2 acceleration, 3 jerk, TIME or PATH, of which there is one step length, or length, a step.
        power: 1 (the distance itself) or 2 (its square). timed: whether each step counts times its seconds.
        last: whether only the last step counts.
        weight: number, (D,), (H, 1) or (H, D). lower, upper: the interval, alike; of PATH `lower` weighs the squares of the joints.
        target: what takes the interval's place: (D,), (H, D), (B, H, D) or, where only the last step counts, (D,), (B, D); else None.
    """

    state: int
    power: int = 2
    timed: bool = False
    last: bool = False
    weight: Any = 1.0
    lower: Any = 0.0
    upper: Any = 0.0
    target: Any = None

    @property
    def name(self) -> str:
        return ("position", "velocity", "acceleration", "jerk", "dt", "path")[self.state]


class Laid(NamedTuple):
    """A term for one horizon and number of joints.

    Attributes:
        first: the first step that counts; power, timed: as of the term; state too.
        weight, lower, upper: (1 or H, 1 or D) in the dtype of the arithmetic. target: its place among the targets, -1 for none.
        is_open: whether the interval is infinite on a side. An infinite state lies within it, though not at a distance from its end.
    """

    state: int
    power: int
    timed: bool
    first: int
    weight: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    target: int
    is_open: bool


def lay(terms: tuple[Term, ...], horizon: int, joints: int, dtype: np.dtype[Any]) -> list[Laid]:
    """The terms, sorted by state, for one horizon and number of joints.

    Raises: ValueError for a weight or bound of another shape, and for more than one path or eight targets.
    """
    ordered = sorted(terms, key=lambda term: term.state)
    if sum(term.state == PATH for term in ordered) > 1:
        raise ValueError("MotionCost: a sum has one PathLengthCost, got more; add their weights instead")
    made, targets = [], 0
    for term in ordered:
        last = -1
        if term.target is not None:
            last, targets = targets, targets + 1
        weight, lower, upper = (_table(term, what, getattr(term, what), horizon, joints, dtype) for what in ("weight", "lower", "upper"))
        first = horizon - 1 if term.last else int(term.timed or term.state >= TIME)
        if first:  # a row for each step, so that the gradient by dt has one too
            weight = np.ascontiguousarray(np.broadcast_to(weight, (horizon, weight.shape[1])))
        is_open = bool(np.isinf(lower).any() or np.isinf(upper).any())
        made.append(Laid(term.state, term.power, term.timed, first, weight, lower, upper, last, is_open))
    if targets > 8:
        raise ValueError(f"MotionCost: a sum has at most eight references and goals, got {targets}; add the others to the costs")
    return made


def _table(term: Term, what: str, value: Any, horizon: int, joints: int, dtype: np.dtype[Any]) -> np.ndarray:
    """A constant as (1 or H, 1 or D)."""
    table = np.asarray(value, dtype)
    table = table.reshape((1,) * (2 - table.ndim) + table.shape)
    joints = joints if term.state < TIME or (term.state == PATH and what != "weight") else 1
    if table.shape[0] not in (1, horizon) or table.shape[1] not in (1, joints):
        raise ValueError(
            f"MotionCost: the {what} of {term.name} is a number or has shape ({joints},), ({horizon}, 1) or ({horizon}, {joints}), "
            f"got shape {np.shape(value)}"
        )
    return table


def targets_of(terms: tuple[Term, ...]) -> list[Term]:
    """The terms that have a target, in the order of `Laid.target`."""
    return [term for term in sorted(terms, key=lambda term: term.state) if term.target is not None]
