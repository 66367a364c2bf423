"""Angles and their functions: sin, cos, tan, arctan, arcsin, arccos, arctan2, and hypot, the length of the side across a right one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.vectorised.blocks import blocks, fit, within
from gradlib.backend.vectorised.forms import of_one, of_two
from gradlib.backend.vectorised.parts import CONSTANTS, continued_fraction, numbers, polynomial, sign_like


def _squared_length(a: Array, b: Any, out: Array) -> bool:
    """Write a² + b²; whether that is right, which it is not where squares leave the range, or are NaN."""
    with np.errstate(over="ignore"):
        np.multiply(a, a, out)
        out += b * b
        return within(out, CONSTANTS[out.dtype.char].least, math.inf)


def _length(a: Array, b: Any, out: Array) -> bool:
    """The same of sqrt(a² + b²)."""
    right = _squared_length(a, b, out)
    if right:
        np.sqrt(out, out)
    return right


@of_two()
def hypot(a: Array, b: Any, out: Array) -> None:
    """The length of the vector (a, b)."""
    if not _length(a, b, out):
        np.hypot(a, b, out)


def _turned(g: Array, leg: Array, other: Array, out: Array) -> None:
    if _squared_length(leg, other, out):
        np.divide(leg, out, out)
    else:
        size = np.hypot(leg, other)
        size[size == 0] = 1
        np.divide(leg, size, out)
        out /= size
    out *= g


def across(g: Array, leg: Array, other: Array) -> Array | None:
    """g times leg / (leg² + other²), and 0 where both are 0; None for arrays that do not fit."""
    return blocks(_turned, g, leg, other) if fit(g, leg) and fit(leg, other) else None


def _doubled_arctan(x: Array, square: Array, out: Array) -> None:
    """2 arctan(x) of x up to 1, from x and its square."""
    c = CONSTANTS[x.dtype.char]
    less = continued_fraction(c.arctan, square)
    less *= square
    np.subtract(c.two, less, less)
    np.multiply(x, less, out)


_FAR = 1e18


@of_one(-_FAR, _FAR, chars="f")
def arctan(x: Array, out: Array) -> None:
    """The inverse of the tangent, by that of half the angle: x / (1 + sqrt(1 + x²))."""
    one = CONSTANTS[x.dtype.char].one
    half = np.multiply(x, x)
    half += one
    _by_half_the_angle(x, half, one, out)


@of_one(None, None)
def arcsin(x: Array, out: Array) -> None:
    """The inverse of the sine, by the tangent of half the angle: x / (1 + sqrt(1 - x²))."""
    one = CONSTANTS[x.dtype.char].one
    half = np.subtract(one, x)
    half *= np.add(one, x, out)
    _by_half_the_angle(x, half, one, out)


def _by_half_the_angle(x: Array, square: Array, one: Array, out: Array) -> None:
    """2 arctan(x / (1 + sqrt(square))); ``square`` is written over."""
    half = np.sqrt(square, square)
    half += one
    np.divide(x, half, half)
    _doubled_arctan(half, np.multiply(half, half, out), out)


@of_one(None, None)
def arccos(x: Array, out: Array) -> None:
    """The inverse of the cosine; of |x| by the tangent of half the angle, sqrt((1 - |x|) / (1 + |x|))."""
    one = CONSTANTS[x.dtype.char].one
    size = np.absolute(x)
    square = np.subtract(one, size)
    size += one
    square /= size
    _doubled_arctan(np.sqrt(square, size), square, out)
    _mirrored(x, out)


def _mirrored(x: Any, angle: Array) -> None:
    """Make of angles from 0 to pi / 2 the supplementary ones where x is negative, or -0.0."""
    c = CONSTANTS[angle.dtype.char]
    if type(x) is np.ndarray:
        bits = np.right_shift(x.view(c.bits), 8 * angle.itemsize - 1)
        bits &= c.pi.view(c.bits)
        np.subtract(bits.view(angle.dtype), angle, angle)
        np.absolute(angle, angle)
    elif math.copysign(1, x) < 0:
        np.subtract(c.pi, angle, angle)


@of_two()
def arctan2(y: Array, x: Any, out: Array) -> None:
    """The angle of the point (x, y); of (|x|, |y|) by the tangent of half of it, |y| / (|x| + sqrt(x² + y²))."""
    half = np.empty_like(y)
    if not _length(y, x, half):
        np.arctan2(y, x, out)
        return
    half += abs(x)
    np.divide(np.absolute(y, out), half, half)
    _doubled_arctan(half, np.multiply(half, half, out), out)
    _mirrored(x, out)
    sign_like(y, out)


@of_one(-1e4, 1e4)
def tan(x: Array, out: Array) -> None:
    """The tangent."""
    if x.dtype.char == "f":
        np.divide(np.sin(x, out), np.cos(x), out)
    else:
        _wide_tan(x, out)


_PER_QUARTER, _WHOLE, *_QUARTER = numbers(
    2 / math.pi, 1.5 * 2**52, 1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21, char="d"
)
"""2 / pi; a number whose last bits, once a small one is added, are that one rounded; pi / 2 in three parts, of which the first two have few
enough digits for exact products."""
_TAN = numbers(
    -27.488306800914113, -294.13716452221274, -60.55697418139151, -250.73875920615822, -7.878960837364524, -0.9497190117920106,
    6.989492395820594e-05, char="d"
)  # fmt: skip
"""(tan(x) / x - 1) / s with s = x * x as a continued fraction, for |x| up to pi / 4."""


def _wide_tan(x: Array, out: Array) -> None:
    """The tangent of float64: with x = k pi / 2 + r that of r, or where k is odd -1 divided by it."""
    shifted = np.multiply(x, _PER_QUARTER)
    shifted += _WHOLE
    k = np.subtract(shifted, _WHOLE)
    np.subtract(x, np.multiply(k, _QUARTER[0], out), out)
    part = np.multiply(k, _QUARTER[1])
    out -= part
    out -= np.multiply(k, _QUARTER[2], k)
    square = np.multiply(out, out, part)
    more = continued_fraction(_TAN, square)
    more *= square
    more *= out
    out += more
    with np.errstate(divide="ignore", over="ignore"):
        np.divide(_MINUS_ONE, out, more)
    odd, bits, turned = shifted.view(np.int64), out.view(np.int64), more.view(np.int64)
    odd &= 1
    np.negative(odd, odd)
    turned ^= bits
    turned &= odd
    bits ^= turned


(_MINUS_ONE,) = numbers(-1, char="d")


_PER_TURN, *_TURN = numbers(1 / math.pi, 3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21, char="d")
"""1 / pi, and pi in three parts as pi / 2 above."""
_SINE = numbers(
    2.7314368769379893e-15, -7.643969663988074e-13, 1.6058977292742643e-10, -2.505210761669045e-08, 2.7557319219160833e-06,
    -0.00019841269841254966, 0.008333333333333316, -0.16666666666666666, 1, char="d"
)  # fmt: skip
"""sin(x) / x by powers of x * x, for |x| up to pi / 2."""
_HALF, _NEXT = numbers(0.5, 1.5 * 2**52 + 1, char="d")
_SEVERAL = 1 << 11  # elements


def _half_turned(x: Array, shifted: Array, k: Array, out: Array) -> None:
    """Write sin(r) with x = k pi + r, times -1 where the last bit of ``shifted`` is set. It overwrites that and k."""
    part = np.multiply(k, _TURN[0])
    np.subtract(x, part, out)
    out -= np.multiply(k, _TURN[1], part)
    out -= np.multiply(k, _TURN[2], k)
    out *= polynomial(_SINE, np.multiply(out, out, k))
    odd, bits = shifted.view(np.int64), out.view(np.int64)
    odd <<= 63
    bits ^= odd


@of_one(-1e4, 1e4, chars="d", least=lambda: _SEVERAL)
def sin(x: Array, out: Array) -> None:
    """The sine of float64, which NumPy leaves to the C library on every processor."""
    shifted = np.multiply(x, _PER_TURN)
    shifted += _WHOLE
    _half_turned(x, shifted, np.subtract(shifted, _WHOLE), out)


@of_one(-1e4, 1e4, chars="d", least=lambda: _SEVERAL)
def cos(x: Array, out: Array) -> None:
    """The cosine of float64: with x = (j + 1/2) pi + r it is -sin(r) where j is even."""
    shifted = np.multiply(x, _PER_TURN)
    shifted -= _HALF
    shifted += _NEXT
    k = np.subtract(shifted, _NEXT)
    k += _HALF
    _half_turned(x, shifted, k, out)
