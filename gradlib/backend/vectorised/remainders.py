"""Division with a rest: fmod, remainder, modulo, floor_divide, with NumPy's bits; a remainder of zero has the sign of the dividend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.vectorised.blocks import within
from gradlib.backend.vectorised.forms import of_two
from gradlib.backend.vectorised.parts import CONSTANTS, sign_like

_SEVERAL = 1 << 13  # elements: NumPy's own fmod takes the least time of these functions


def _divides(x: Array, y: Any) -> bool:
    """Whether the quotient is ordinary, and its whole part below 2**24: then its product with y is exact, of float64 in two parts."""
    size = np.asarray(y, x.dtype)
    if size.item(size.argmin()) <= 0:
        size = np.absolute(size)
    smallest = size.item(size.argmin())
    return size.item(size.argmax()) < math.inf and smallest > 1e-100 and within(x, -(smallest * 2**24), smallest * 2**24)


def _rest(round: Callable[..., Any], x: Array, y: Any, out: Array) -> None:
    """Write what is left of numbers of float32."""
    rest = x.astype(np.float64)
    y = y.astype(np.float64) if type(y) is np.ndarray else float(np.float32(y))
    whole = rest / y
    round(whole, whole)
    whole *= y
    rest -= whole
    np.copyto(out, rest, casting="same_kind")  # what a ufunc casts, it casts in small pieces


_FIRST_DIGITS = -(1 << 27)  # 26 digits: times a whole number below 2**26 they are exact


def _take_away(whole: Array, y: Array, x: Array, out: Array) -> None:
    """Write x - whole y of float64, exactly where that is smaller than y. It overwrites whole."""
    high = np.bitwise_and(y.view(np.int64), _FIRST_DIGITS).view(np.float64)
    np.multiply(whole, high, out)
    np.subtract(x, out, out)
    whole *= np.subtract(y, high)
    out -= whole


def _has_signs(like: Array, out: Array) -> bool:
    """Whether each element has the sign of another, or is 0."""
    if like.item(like.argmin()) >= 0:
        return bool(out.item(out.argmin()) >= 0)
    product = np.multiply(like, out)
    return bool(product.item(product.argmin()) >= 0)


def _wide_rest(x: Array, y: Array, out: Array) -> None:
    """Write what is left of numbers of float64 when the quotient is rounded to zero; 0 of either sign."""
    whole = np.divide(x, y)
    _take_away(np.trunc(whole, whole), y, x, out)
    if not _has_signs(x, out):  # a quotient just below a whole number was rounded up to it
        np.fmod(x, y, out)
        out += 0.0  # never -0.0


@of_two(_divides, least=lambda: _SEVERAL)
def fmod(x: Array, y: Any, out: Array) -> None:
    """The remainder of division rounded to zero, with the sign of x."""
    if x.dtype.char == "f":
        _rest(np.trunc, x, y, out)
    else:
        _wide_rest(x, np.asarray(y, np.float64), out)
    sign_like(x, out)


def _floored_rest(x: Array, y: Any, like: Any, out: Array) -> None:
    """Write what floor division leaves; zeros have the sign of ``like``, which is x or y."""
    if x.dtype.char == "f":
        _rest(np.floor, x, y, out)
    else:
        wide = np.asarray(y, np.float64)
        _wide_rest(x, wide, out)
        if not _has_signs(wide, out):
            np.add(out, wide, out, where=np.multiply(out, wide) < 0)
    zero = np.equal(out, 0)  # all 0.0
    if zero.any():
        c = CONSTANTS[out.dtype.char]
        bits = out.view(c.bits)
        bits |= np.bitwise_and(np.asarray(like, out.dtype).view(c.bits), c.sign) * zero


def _small_remainder(x: Any, y: Any, out: Array | None = None) -> Any:
    """NumPy's, whose zeros have the sign of y, with those of x."""
    rest = np.remainder(x, y, out)
    if np.count_nonzero(rest) == rest.size:
        return rest
    return np.copysign(rest, x, np.asarray(rest), where=rest == 0, casting="same_kind")


@of_two(_divides, library=_small_remainder)
def remainder(x: Array, y: Any, out: Array) -> None:
    """The remainder of floor division, with the sign of y; a zero has that of x."""
    _floored_rest(x, y, x, out)


@of_two(_divides, library=np.remainder)
def modulo(x: Array, y: Any, out: Array) -> None:
    """The same, and a zero too has the sign of y."""
    _floored_rest(x, y, y, out)


@of_two(_divides)
def floor_divide(x: Array, y: Any, out: Array) -> None:
    """The largest whole number not above the quotient."""
    if x.dtype.char == "f":
        whole = np.divide(x, y, dtype=np.float64) if type(y) is np.ndarray else np.divide(x, float(np.float32(y)), dtype=np.float64)
        np.floor(whole, out, casting="same_kind")
        return
    wide, rest = np.asarray(y, np.float64), np.empty_like(x)
    np.floor(np.divide(x, wide, out), out)
    _take_away(out.copy(), wide, x, rest)
    if not _has_signs(wide, rest):  # as in `_wide_rest`
        np.floor_divide(x, y, out)
