"""``gradcheck`` for functions of any precision: differences over several distances, which tell how far they may be off themselves.

In float32 a central difference over one fixed distance is either coarse or noisy: its tolerance has to be so wide that a derivative wrong
by one percent passes. Here the distance shrinks, the differences are extrapolated to none, and the tolerance follows from what is seen.
Source: C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), Advances in Engineering Software 4 (1982) 75-76.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.autograd import numerical
from gradlib.autograd.gradcheck import Check, first_derivatives
from gradlib.backend.array import Array
from gradlib.backend.limits import finfo
from gradlib.core.grad_mode import enable_grad

_FIRST = {1: 2.0**-2, 2: 2.0**-3, 4: 2.0**-6, 8: 2.0**-10}
"""The first distance for numbers of magnitude one and below, by the bytes of a real number."""

_TIMES = 6
"""How often the distance shrinks, each time to a quarter, at most."""

_PART = 2e-4
"""By how much a derivative may be off relative to its size: a fifth of what must be found."""

_SAFETY = 4.0
"""How often the estimated error of a difference is allowed."""


def check_derivatives(
    func: Callable[..., Any], inputs: tuple[Any, ...], *, atol: float | None = None, rtol: float | None = None, nondet_tol: float = 0.0,
    second: bool = False,
) -> None:  # fmt: skip
    """Compare the gradients of a function with differences of its values; one that is wrong by 0.1 % is found if its precision shows it.

    Args:
        func, inputs: as for ``gradcheck``; inputs may be of any floating or complex dtype.
        atol, rtol: allowed besides the estimated error of the differences; None for what the dtypes allow.
        nondet_tol: as for ``gradcheck``.
        second: check the derivatives of the gradients, as ``gradgradcheck`` does.
    Raises: GradcheckError, as ``gradcheck``.
    """
    if second:
        func, inputs = first_derivatives(func, inputs)
    with enable_grad():
        check = _AdaptiveCheck(func, inputs, 0.0, atol or 0.0, _PART if rtol is None else rtol, nondet_tol, True, False, False)
        check.run(forward=False, backward=True)


class _AdaptiveCheck(Check):
    """``Check`` with differences over several distances."""

    def estimated(self, array: Array, outputs: Sequence[Array]) -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = [extrapolated(self.evaluate, array, place, unit) for place in np.ndindex(array.shape) for unit in numerical.units(array)]
        made = []
        for number, output in enumerate(outputs):
            found = numerical.arranged([pair[number][0] for pair in pairs], array, output)
            spread = np.abs(numerical.arranged([pair[number][1] for pair in pairs], array, output))
            rounding = 16 * max(_epsilon(array), _epsilon(output)) * np.abs(found).max(initial=0.0, where=np.isfinite(found))
            made.append((found, self._allowed(found) + _SAFETY * spread + rounding))
        return made


def _epsilon(array: Array) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(finfo(np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype).eps)


def _wide(values: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray:
    """Values on the host in double precision, rounded to a dtype before."""
    host = np.asarray(numerical.on_host(values))
    if dtype is not None:
        host = host.astype(dtype)
    return host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)


def extrapolated(
    evaluate: numerical.Evaluate, array: Array, place: tuple[int, ...], unit: complex
) -> list[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """The derivatives of all outputs along a direction of one element of an input, by differences over a distance that shrinks.

    Returns: for each output the derivatives and their estimated errors, infinite where there is no estimate; of a complex output that of
        each part as the same part of a complex number.
    """
    bytes_of_real = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    distance = _FIRST[bytes_of_real] * max(1.0, float(abs(_wide(array[place]))))
    series: list[_Series] = []
    for _ in range(_TIMES):
        high, low, points = numerical.both_sides(evaluate, array, place, unit, distance)
        above, below = (_wide(point, array.dtype) for point in points)
        apart = float(abs(above - below))
        if not series:
            series = [_Series(out) for out in high]
        for each, a, b in zip(series, high, low, strict=True):
            each.add(_wide(a), _wide(b), apart)
        if all(each.is_good() for each in series):
            break
        distance /= 4
    return [(each.best, each.spread() * (1 + 1j) if each.best.dtype.kind == "c" else each.spread()) for each in series]


class _Series:
    """The differences of one output over distances of which each is a quarter of the one before, extrapolated to none.

    Attributes:
        best: the derivatives with the least error, as far as neighbouring differences tell; error: that; apart: the distance.
        taken: the differences and their distances.
    """

    def __init__(self, output: np.ndarray) -> None:
        self.epsilon = _epsilon(output)
        self.row: list[np.ndarray] = []
        self.best = np.full(output.shape, np.nan, np.complex128 if output.dtype.kind == "c" else np.float64)
        self.error = np.full(output.shape, np.inf)
        self.noise = np.full(output.shape, np.inf)
        self.apart = np.full(output.shape, np.inf)
        self.taken: list[tuple[np.ndarray, float]] = []

    def add(self, high: np.ndarray, low: np.ndarray, apart: float) -> None:
        """Take the values at two points into account."""
        with np.errstate(all="ignore"):
            noise = 2 * self.epsilon * np.maximum(np.abs(high), np.abs(low)) / apart
            row = [(high - low) / apart]
            for order, before in enumerate(self.row, 1):
                row.append(row[-1] + (row[-1] - before) / (16**order - 1))
                error = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - before)) + noise
                better = error < self.error
                self.best, self.error = np.where(better, row[-1], self.best), np.where(better, error, self.error)
                self.noise, self.apart = np.where(better, noise, self.noise), np.where(better, apart, self.apart)
        self.row = row
        self.taken.append((row[0], apart))

    def spread(self) -> np.ndarray:
        """By how much the best may be off.

        Two differences may agree by chance, where values are less exact than their dtype, as after a cancellation. Those over shorter
        distances tell: what they are off by, times their distance, is the noise of the values, which the best has too. Where the best is
        0, as of values that do not change any more, longer ones count as well.
        """
        with np.errstate(all="ignore"):
            noise = np.zeros(self.best.shape)
            for slope, apart in self.taken[2:]:
                counts = (apart < self.apart) | (self.best == 0)
                noise = np.maximum(noise, np.where(counts, np.abs(slope - self.best) * apart, 0.0))
            return np.maximum(self.error, np.nan_to_num(noise / self.apart))

    def is_good(self) -> bool:
        """Whether a shorter distance would tell nothing that matters."""
        return len(self.taken) > 3 and bool((self.error <= np.maximum(1e-6 * np.abs(self.best), 2 * self.noise)).all())
