"""Exponentials and logarithms: expm1, sinh, cosh, log10, log1p, arctanh, logaddexp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.vectorised import loops
from gradlib.backend.vectorised.forms import of_one, of_two
from gradlib.backend.vectorised.parts import CONSTANTS, continued_fraction, keep_zeros, numbers, polynomial, sign_like


def above_one(x: Array, out: Array) -> None:
    """exp(x) - 1, but for the sign of 0: with x = k log(2) + r it is 2**k (exp(r) - 1) + (2**k - 1)."""
    if loops.is_vector("expm1", x.dtype.char):
        np.expm1(x, out)
        return
    c = CONSTANTS[x.dtype.char]
    power = np.multiply(x, c.per_ln2)
    power += c.whole
    k = np.subtract(power, c.whole)
    r = np.multiply(k, c.ln2[0])
    np.subtract(x, r, r)
    k *= c.ln2[1]
    r -= k
    small = polynomial(c.coth, np.multiply(r, r, k))  # exp(r) - 1 is 2 r / (r coth(r / 2) - r)
    small -= r
    r += r
    np.divide(r, small, out)
    bits = power.view(c.bits)
    bits <<= c.places
    out *= power
    power -= c.one
    out += power


@of_one(-87.0, 87.0)
def expm1(x: Array, out: Array) -> None:
    """exp(x) - 1."""
    above_one(x, out)
    keep_zeros(x, out)


_PER_LN10, _NEAR = numbers(1 / math.log(10), 1e-6)


@of_one(0.0, math.inf, chars="f")
def log10(x: Array, out: Array) -> None:
    """The logarithm to the base 10; NumPy's own where it may be a whole number, which it then is."""
    np.log(x, out)
    out *= _PER_LN10
    whole = np.rint(out)
    away = np.subtract(out, whole)
    whole *= _NEAR
    near = np.less_equal(np.absolute(away, away), np.absolute(whole, whole))
    if np.logical_or.reduce(near):
        out[near] = np.log10(x[near])


@of_one(-87.0, 87.0)
def sinh(x: Array, out: Array) -> None:
    """The hyperbolic sine."""
    grown = np.absolute(x)
    above_one(grown, out)  # e = exp(|x|) - 1; the result is (e + e / (e + 1)) / 2
    c = CONSTANTS[x.dtype.char]
    np.add(out, c.one, grown)
    np.divide(out, grown, grown)
    out += grown
    out *= c.half
    sign_like(x, out)


@of_one(-87.0, 87.0)
def cosh(x: Array, out: Array) -> None:
    """The hyperbolic cosine."""
    c = CONSTANTS[x.dtype.char]
    np.exp(x, out)
    out *= c.half
    out += np.divide(c.quarter, out)


def _log_above(x: Array, out: Array) -> None:
    """log(1 + x), with what the sum lost put back."""
    one = CONSTANTS[x.dtype.char].one
    above = np.add(x, one)
    lost = np.subtract(above, one)
    np.subtract(x, lost, lost)
    lost /= above
    np.log(above, out)
    out += lost


@of_one(-1.0, math.inf)
def log1p(x: Array, out: Array) -> None:
    """log(1 + x)."""
    _log_above(x, out)
    keep_zeros(x, out)


@of_one(-1.0, 1.0)
def arctanh(x: Array, out: Array) -> None:
    """The inverse of the hyperbolic tangent."""
    c = CONSTANTS[x.dtype.char]
    size = np.absolute(x)
    below = np.subtract(c.one, size)
    size += size
    size /= below
    _log_above(size, out)
    out *= c.half
    sign_like(x, out)


def log_sum(x: Array, small: Array, out: Array) -> Array:
    """log(1 + exp(-|x|)). Returns: ``small``, which it overwrites on the way, and which may be x."""
    c = CONSTANTS[x.dtype.char]
    np.bitwise_or(x.view(c.bits), c.sign, small.view(c.bits))
    np.exp(small, small)
    if loops.is_vector("log1p", x.dtype.char):
        np.log1p(small, out)
        return small
    square = np.add(small, c.two)
    np.divide(small, square, small)  # 1 + e is (1 + x) / (1 - x) with x = e / (2 + e)
    np.multiply(small, small, square)
    more = continued_fraction(c.log, square)
    more *= square
    more += c.two
    np.multiply(small, more, out)
    return small


@of_two()
def logaddexp(a: Array, b: Any, out: Array) -> None:
    """log(exp(a) + exp(b)); NumPy's where two infinities leave NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.subtract(a, b)
        log_sum(away, away, out)
    out += np.maximum(a, b, out=away)
    if math.isnan(out.item(out.argmax())):
        np.logaddexp(a, b, out)
