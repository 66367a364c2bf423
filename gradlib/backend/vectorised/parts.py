"""What the forms are made of: constants by dtype, polynomials and continued fractions, and signs by their bits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, zero_d


def numbers(*values: float, char: str = "f") -> tuple[Array, ...]:
    """Numbers as 0-d arrays of a dtype, which a function takes in half the time of Python's."""
    return tuple(zero_d(x, np.dtype(char)) for x in values)


class _Constants(NamedTuple):
    """What the forms need in one dtype.

    Attributes:
        one, two, half, quarter, pi: these numbers.
        bits: the integers of its size; sign: that of them which is the bit of the sign; places: how many bits stand below the exponent.
        least: of larger squares the sum loses no digits below the range; per_ln2: 1 / log(2).
        whole: a number whose last bits, once a small one is added, are that one rounded, plus the exponent of 1.
        ln2: log(2) in two parts, of which the first has few enough digits for exact products.
        coth: x coth(x / 2) by powers of x * x, the highest first, for |x| up to log(2) / 2.
        log: (log((1 + x) / (1 - x)) / x - 2) / s with s = x * x as a continued fraction, for x from 0 to 1 / 3.
        arctan: 2 (x - arctan(x)) / x³ in the same way, for x up to 1. The functions made with these err by a unit in the last place for it.
    """

    one: Array
    two: Array
    half: Array
    quarter: Array
    pi: Array
    bits: Any
    sign: int
    places: int
    least: float
    per_ln2: Array
    whole: Array
    ln2: tuple[Array, ...]
    coth: tuple[Array, ...]
    log: tuple[Array, ...]
    arctan: tuple[Array, ...]


def _constants(char: str, bits: Any, least: float, **coefficients: tuple[float, ...]) -> _Constants:
    limits = np.finfo(char)
    one, two, half, quarter, pi, per_ln2, whole = numbers(
        1, 2, 0.5, 0.25, math.pi, 1 / math.log(2), 1.5 * 2**limits.nmant + limits.maxexp - 1, char=char
    )
    sign, parts = int(np.iinfo(bits).min), {name: numbers(*each, char=char) for name, each in coefficients.items()}
    return _Constants(one, two, half, quarter, pi, bits, sign, limits.nmant, least, per_ln2, whole, **parts)


_SINGLE = _constants(
    "f", np.int32, 1e-30,
    ln2=(0.693359375, -2.1219444005469057e-4),
    coth=(-0.0027720642, 0.16666650, 2),
    log=(-1.380286073498, -0.76154038358998, 0.11494568798356),
    arctan=(1.8556438264968, -0.72191763112313, 2.3415102856977, 1.26032289271654, 0.021161422409694),
)  # fmt: skip
_DOUBLE = _constants(
    "d", np.int64, 1e-290,
    ln2=(0.693147180369123816490, 1.90821492927058770002e-10),
    coth=(
        4.1437662804024295e-08, -1.6534060033836456e-06, 6.613756471622828e-05, -0.0027777777777564404, 0.1666666666666666, 2,
    ),
    log=(
        -1.2974772776338215, -0.1094457886714862, -2.498744893924314, -1.3884851188087934, -2.611900644751361, -1.3236620587049033,
        0.01679771494086731,
    ),
    arctan=(
        1.2464094155806031, -0.057500682395563205, 1.842421143239962, -0.46183848138128425, 3.239744656376822, -3.379537263152483,
        8.016590666193595, -15.498386599586619, 4.690572246048103, 1.6190006717106533, 0.0028838823138469015,
    ),
)  # fmt: skip
CONSTANTS = {"f": _SINGLE, "d": _DOUBLE}


def continued_fraction(coefficients: tuple[Array, ...], s: Array) -> Array:
    """The continued fraction e + d / (s + c + b / (s + a)), or a longer one: three quarters of the passes of a polynomial with as many
    coefficients."""
    made = np.add(s, coefficients[0])
    for above, added in zip(coefficients[1:-2:2], coefficients[2:-2:2], strict=True):
        np.divide(above, made, made)
        made += s
        made += added
    np.divide(coefficients[-2], made, made)
    made += coefficients[-1]
    return made


def polynomial(coefficients: tuple[Array, ...], x: Array) -> Array:
    """The polynomial with these coefficients, the highest power's first."""
    made = np.multiply(x, coefficients[0])
    for each in coefficients[1:-1]:
        made += each
        made *= x
    made += coefficients[-1]
    return made


def sign_like(x: Any, out: Array) -> None:
    """Give what is positive or 0, or has that sign, the signs of x: as ``copysign`` in place, which NumPy computes element by element."""
    if type(x) is not np.ndarray:
        if math.copysign(1, x) < 0:
            np.copysign(out, x, out)
    elif not x.item(x.argmin()) > 0:
        c = CONSTANTS[out.dtype.char]
        bits = out.view(c.bits)
        bits |= np.bitwise_and(x.view(c.bits), c.sign)


def keep_zeros(x: Array, out: Array) -> None:
    """Make -0.0 of 0 where x is -0.0, of a function whose other values have the signs of x."""
    c = CONSTANTS[x.dtype.char]
    bits = x.view(c.bits)
    if bits.item(bits.argmin()) == c.sign:  # the least of all integers
        sign_like(x, out)
