"""The normal distribution: erf, gelu and its slope."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array, special
from gradlib.backend.vectorised.blocks import blocks, fit, fits, row, within
from gradlib.backend.vectorised.exponential import above_one
from gradlib.backend.vectorised.parts import CONSTANTS, continued_fraction, numbers, polynomial, sign_like

# ---- float32 ------------------------------------------------------------------------------------------------------------------------

_ERF = (
    numbers(1.67177454e-08, -1.69909481e-06, 0.000128844142, 0.00349091506, 0.0450727344, 0.181189001, 0.987074018),
    numbers(0.000893259712, 0.013085044, 0.103198171, 0.452163279, 0.874771655),
)
"""erf(x) / x as a quotient of two polynomials in x * x, for x up to 4: a relative error of 6.5e-8. From there on erf is 1."""


def _even_and_odd(coefficients: tuple[Array, ...], x: Array, square: Array) -> Array:
    """The polynomial of an even degree, its odd powers summed apart: half as many roundings follow each other."""
    made = polynomial(coefficients[1::2], square)
    made *= x
    made += polynomial(coefficients[::2], square)
    return made


def _erf(x: Array, out: Array) -> None:
    bounded = x.clip(-4, 4)
    square = np.multiply(bounded, bounded)
    fourth = np.multiply(square, square)
    bounded *= _even_and_odd(_ERF[0], square, fourth)
    np.divide(bounded, _even_and_odd(_ERF[1], square, fourth), out)
    out.clip(-1, 1, out)


_NORMAL = numbers(45.1795273638, 1372.97457135, -23.4501810485, 5.35340000341, -2.3672508489)
(_NORMAL_LAST,) = numbers(-0.0362672440826)
"""log(1 / p - 1) / x, where p is the normal distribution function at x: a continued fraction in x * x and the factor of that beside it. The
error of p is up to 6e-8."""


def _by_normal(numerator: Any, x: Array, out: Array) -> None:
    """A numerator times the normal distribution function."""
    square = np.multiply(x, x)
    grown = continued_fraction(_NORMAL, square)
    square *= _NORMAL_LAST
    grown += square
    grown *= x
    np.exp(grown, grown)
    grown += CONSTANTS["f"].one
    np.divide(numerator, grown, out)


def _normal_part(x: Array, out: Array) -> None:
    _by_normal(x, x, out)


# ---- float64 ------------------------------------------------------------------------------------------------------------------------

_TAIL = (
    (0.0001182489749130915, 0.003366221546893593, 0.034952486236479695, 0.19978637966414176, 0.7201127200113686, 1.7138477778705403,
     2.669394420209634, 2.5228820375425665, 1.1283791670955126),
    (0.00011827001205093411, 0.0033637809961640543, 0.03439373764432923, 0.1886708137038011, 0.6323498321824025, 1.3314782290106226,
     1.6716564078635814, 1),
)  # fmt: skip
"""-log(1 - erf(x)) / x as a quotient of two polynomials in x, for x from 0: of erf the relative error is up to 2e-18."""
_SEVERAL = 1 << 14
"""The fewest elements of float64: SciPy's function branches on each, which takes half the time where the processor can learn the branches,
as of fewer that are given again."""
_FAR = 1e30  # from where the powers would leave the range


def _scaled(factor: float) -> tuple[tuple[Array, ...], ...]:
    """log(1 - erf(factor x)) / x in the same way."""
    above, below = ([c * factor**k for k, c in enumerate(reversed(each))] for each in _TAIL)
    return numbers(*(-factor * c for c in reversed(above)), char="d"), numbers(*reversed(below), char="d")


_OF_ERF, _OF_NORMAL = _scaled(1), _scaled(math.sqrt(0.5))


def _log_of_tail(coefficients: tuple[tuple[Array, ...], ...], size: Array) -> Array:
    made = polynomial(coefficients[0], size)
    made /= polynomial(coefficients[1], size)
    made *= size
    return made


def _wide_erf(x: Array, out: Array) -> None:
    size = np.absolute(x)
    np.minimum(size, row(6, "d")[: x.size], out=size)  # from there on erf is 1
    above_one(_log_of_tail(_OF_ERF, size), out)
    np.absolute(out, out)
    sign_like(x, out)


def _half_tail(size: Array) -> Array:
    """The normal distribution function of -x."""
    made = _log_of_tail(_OF_NORMAL, size)
    np.exp(made, made)
    made *= CONSTANTS["d"].half
    return made


def _wide_normal_part(x: Array, out: Array) -> None:
    if not within(x, -_FAR, _FAR):
        out[...] = _gelu(x)
        return
    size = np.absolute(x)
    size *= _half_tail(size)
    np.subtract(np.maximum(x, row(0, "d")[: x.size], out=out), size, out)


# ---- the functions ------------------------------------------------------------------------------------------------------------------


def _is_fit(input: Array) -> bool:
    return fits(input, "f") or (fits(input, "d") and input.size >= _SEVERAL)


def erf(input: Array) -> Array:
    """The error function. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    return blocks(_erf if input.dtype.char == "f" else _wide_erf, input) if _is_fit(input) else library(input)


def _gelu(input: Array) -> Array:
    return input * (special(input).erf(input * math.sqrt(0.5)) * 0.5 + 0.5)


def gelu(input: Array) -> Array:
    """Each element times the normal distribution function at it. Raises: RuntimeError without SciPy on the host."""
    special(input)
    if not _is_fit(input):
        return _gelu(input)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
        return blocks(_normal_part if input.dtype.char == "f" else _wide_normal_part, input)


def _normal_function(x: Array, out: Array) -> None:
    """Write the normal distribution function."""
    if x.dtype.char == "f":
        _by_normal(CONSTANTS["f"].one, x, out)
    elif not within(x, -_FAR, _FAR):
        out[...] = special(x).ndtr(x)
    else:
        half = CONSTANTS["d"].half
        np.subtract(half, _half_tail(np.absolute(x)), out)
        sign_like(x, out)
        out += half


_DENSITY = 1 / math.sqrt(2 * math.pi)


def _normal_slope(g: Array, x: Array, out: Array) -> None:
    minus_half, factor = _SLOPES[x.dtype.char]
    density = np.multiply(x, x)
    density *= minus_half
    np.exp(density, density)
    density *= x
    density *= factor
    _normal_function(x, out)
    out += density
    out *= g


_SLOPES = {char: numbers(-0.5, _DENSITY, char=char) for char in "fd"}


def gelu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``gelu`` for the gradient g of its result; None for arrays that do not fit."""
    if not (_is_fit(input) and fit(g, input)):
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return blocks(_normal_slope, g, input)
