"""The normal distribution: erf, gelu and its slope."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array, special
from gradlib.backend.vectorised.blocks import blocks, fits
from gradlib.backend.vectorised.parts import CONSTANTS, continued_fraction, numbers, polynomial

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


def erf(input: Array) -> Array:
    """The error function. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    return blocks(_erf, input) if fits(input) else library(input)


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
    grown += CONSTANTS[x.dtype.char].one
    np.divide(numerator, grown, out)


def _normal_part(x: Array, out: Array) -> None:
    _by_normal(x, x, out)


def gelu(input: Array) -> Array:
    """Each element times the normal distribution function at it. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    if fits(input):
        with np.errstate(over="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
            return blocks(_normal_part, input)
    return input * (library(input * math.sqrt(0.5)) * 0.5 + 0.5)


_MINUS_HALF, _DENSITY = numbers(-0.5, 1 / math.sqrt(2 * math.pi))


def _normal_slope(g: Array, x: Array, out: Array) -> None:
    density = np.multiply(x, x)
    density *= _MINUS_HALF
    np.exp(density, density)
    density *= x
    density *= _DENSITY
    _by_normal(CONSTANTS[x.dtype.char].one, x, out)
    out += density
    out *= g


def gelu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``gelu`` for the gradient g of its result; None for arrays that do not fit."""
    if not (fits(input) and fits(g) and g.shape == input.shape):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_normal_slope, g, input)
