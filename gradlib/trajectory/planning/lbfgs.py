"""L-BFGS for many small problems at once, each of which takes its own steps and stops by itself.

The problems of a batch are rows of the same arrays, and no number of one enters into another: products and sums run along rows, by NumPy's
own loops (BLAS sums in an order that depends on the shape, the processor and its threads). So a problem's result is the same bits
whichever others share its batch. `gradlib.optim.LBFGS`, as torch's, makes one vector of its parameters, with one step length for all.

Each evaluation moves every problem on: to a new direction where the loss fell enough, back along the old one where it did not. An
evaluation that was refused leaves a gap in that problem's memory, a pair of zeros.

Source: J. Nocedal and S. Wright, Numerical Optimization (2006), algorithms 3.1 (backtracking) and 7.4 (the two-loop recursion).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradlib.backend.array import Array, Namespace, namespace
from gradlib.trajectory.planning import lbfgs_device
from gradlib.trajectory.planning.lbfgs_device import HISTORY, State

Evaluate = Callable[[Array, Array], tuple[Array, Array]]
_DECREASE = 1e-4
LOOK = 4  # evaluations after which it is seen which problems have stopped


def minimise(evaluate: Evaluate, x: Array, most: int, tolerance: float, progress: Callable[[float], None] = lambda fraction: None) -> Array:
    """The lowest point found for each problem.

    Args:
        evaluate: ``(x, rows) -> (loss, gradient)`` of shapes (b,) and (b, n) for the points x (b, n) of the problems with these numbers.
        x: (B, n) where to begin; most: evaluations of a problem; tolerance: a problem stops when its loss fell by less in a few of them.
        progress: called with the fraction done.
    Returns: (B, n).
    """
    result, rows = x.copy(), np.arange(len(x))
    search = Search(evaluate, x)
    before = search.loss
    for count in range(1, most):
        search.advance(evaluate, rows)
        if count % LOOK == 0:
            going = np.flatnonzero(on_host(before - search.loss > tolerance))
            progress(count / most)
            before = search.loss
            if len(going) < len(rows):
                result[rows] = search.x
                if not len(going):
                    return result
                rows, before = rows[going], before[going]
                search.keep(going)
    result[rows] = search.x
    return result


class Search:
    """The state of the search: each problem's point, gradient and step, and the memory of its last steps.

    Args:
        evaluate: as `minimise`; x: (B, n) where to begin.
    """

    def __init__(self, evaluate: Evaluate, x: Array) -> None:
        self.xp = xp = namespace(x)
        self.x = x
        self.loss, self.gradient = evaluate(x, np.arange(len(x)))
        self.direction = -self.gradient
        self.length = 1 / xp.maximum(xp.abs(self.gradient).sum(axis=1), 1)
        self.memory = Memory(xp, x)

    def advance(self, evaluate: Evaluate, rows: np.ndarray) -> None:
        """One evaluation: problems whose loss fell enough take a step, the others a shorter one. No value is read by the host."""
        xp, x, loss, length = self.xp, self.x, self.loss, self.length
        trial = x + length[:, None] * self.direction
        new, its_gradient = evaluate(trial, rows)
        if not isinstance(x, np.ndarray):
            self._advance_on_device((trial, new, its_gradient))
            return
        slope = _dot(self.direction, self.gradient)
        fell = new <= loss + _DECREASE * length * slope  # never for NaN
        self.memory.take(xp.where(fell[:, None], trial - x, 0), xp.where(fell[:, None], its_gradient - self.gradient, 0))
        self.length = xp.where(fell, 1, length * _shorter(xp, loss, new, length * slope))
        self.x, self.gradient = xp.where(fell[:, None], trial, x), xp.where(fell[:, None], its_gradient, self.gradient)
        self.loss = xp.where(fell, new, loss)
        self.direction = xp.where(fell[:, None], self.memory.direction(self.gradient), self.direction)

    def _advance_on_device(self, tried: tuple[Array, Array, Array]) -> None:
        """The same in one launch."""
        memory, now = self.memory, State(self.x, self.loss, self.gradient, self.direction, self.length)
        made, pair, memory.scale = lbfgs_device.step(self.xp, now, tried, memory.pairs, memory.scale)
        self.x, self.loss, self.gradient, self.direction, self.length = made
        memory.pairs = [*memory.pairs[1 - HISTORY :], pair]

    def keep(self, rows: Array) -> None:
        """Drop all problems but these."""
        for name in ("x", "gradient", "loss", "direction", "length"):
            setattr(self, name, getattr(self, name)[rows])
        self.memory.keep(rows)


class Memory:
    """The last steps of each problem and the changes of its gradient along them."""

    def __init__(self, xp: Namespace, x: Array) -> None:
        self.xp = xp
        self.pairs: list[tuple[Array, Array, Array]] = []  # step (b, n), change (b, n), 1 / their product (b,)
        self.scale = xp.ones(len(x), x.dtype)

    def take(self, step: Array, change: Array) -> None:
        """Remember a step and its change of the gradient, for those problems in which their product is positive."""
        curvature, size = _dot(step, change), _dot(change, change)
        usable = curvature > 1e-10 * size
        inverse = self.xp.where(usable, 1 / self.xp.where(usable, curvature, 1), 0)
        self.pairs = [*self.pairs[1 - HISTORY :], (step, change, inverse)]
        self.scale = self.xp.where(usable, curvature / self.xp.where(usable, size, 1), self.scale)

    def direction(self, gradient: Array) -> Array:
        """The quasi-Newton direction by the two-loop recursion."""
        q = -gradient
        shares = []
        for step, change, inverse in reversed(self.pairs):
            shares.append(_dot(step, q) * inverse)
            q -= shares[-1][:, None] * change
        q *= self.scale[:, None]
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - _dot(change, q) * inverse)[:, None] * step
        return q

    def keep(self, rows: Array) -> None:
        """Drop all problems but these."""
        self.pairs = [(step[rows], change[rows], inverse[rows]) for step, change, inverse in self.pairs]
        self.scale = self.scale[rows]


def _shorter(xp: Namespace, loss: Array, new: Array, slope: Array) -> Array:
    """The factor for a step that was too long: to the minimum of the parabola through both losses, but between 0.1 and 0.5."""
    with np.errstate(all="ignore"):
        share = -slope / (2 * (new - loss - slope))
    return xp.where(share >= 0.1, xp.minimum(share, 0.5), 0.1)  # a tenth for NaN


def _dot(a: Array, b: Array) -> Array:
    """The inner product of each row."""
    return np.einsum("bn,bn->b", a, b) if isinstance(a, np.ndarray) else (a * b).sum(axis=1)


def on_host(array: Array) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()
