"""Functions of float32 that NumPy computes element by element, written with those that it computes by several at once: exp, log, tanh.

Each is NumPy's own function for small arrays, other dtypes and CuPy, and in every block of elements in which one is not an ordinary number;
what it gives otherwise is NumPy's value but for a few units in the last place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace, special

LEAST = 1024
"""How many elements there are to be: below, the calls cost more than they save."""
_BLOCK = 1 << 15  # elements: what is computed of them in several passes stays in the cache


def blocks(form: Callable[..., None], *operands: Any) -> Array:
    """A new array of the first operand's shape, computed block by block.

    Args:
        form: ``form(*parts, out)`` writes a function of parts of the operands into a part of the result.
        operands: arrays in row-major order, of one shape, and numbers.
    """
    made = np.empty(operands[0].shape, operands[0].dtype)
    out = made.reshape(-1)
    lines = [x.reshape(-1) if type(x) is np.ndarray else x for x in operands]
    for begin in range(0, out.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        form(*(x[part] if type(x) is np.ndarray else x for x in lines), out[part])
    return made


def fits(array: Any) -> bool:
    """Whether an array is one of those that are computed by blocks."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char == "f" and array.flags.c_contiguous


def _vectorised(
    low: float, high: float, plain: Callable[[Namespace, Any], Any] | None = None
) -> Callable[[Callable[[Array, Array], None]], Callable[[Namespace, Any], Any]]:
    """Make of a form the function ``f(xp, input)`` of its name; blocks with an element that is not between the limits are NumPy's.

    Args:
        plain: the function in NumPy's place, where it has none.
    """

    def made(form: Callable[[Array, Array], None]) -> Callable[[Namespace, Any], Any]:
        name = form.__name__
        library = getattr(np, name) if plain is None else functools.partial(plain, np)

        def guarded(x: Array, out: Array) -> None:
            if np.maximum.reduce(x) < high and np.minimum.reduce(x) > low:
                form(x, out)
            else:
                out[...] = library(x)

        @functools.wraps(form)
        def function(xp: Namespace, input: Any) -> Any:
            if xp is not np:
                return getattr(xp, name)(input) if plain is None else plain(xp, input)
            return blocks(guarded, input) if fits(input) else library(input)

        return function

    return made


def _paired(allowed: Callable[[Array, Any], bool]) -> Callable[[Callable[[Array, Any, Array], None]], Callable[[Namespace, Any, Any], Any]]:
    """The same for functions of two operands, of which the second may be a number; ``allowed`` says of which blocks the form is right."""

    def made(form: Callable[[Array, Any, Array], None]) -> Callable[[Namespace, Any, Any], Any]:
        name = form.__name__
        library = getattr(np, name)

        def guarded(a: Array, b: Any, out: Array) -> None:
            if allowed(a, b):
                form(a, b, out)
            else:
                library(a, b, out)

        @functools.wraps(form)
        def function(xp: Namespace, input: Any, other: Any) -> Any:
            if xp is not np:
                return getattr(xp, name)(input, other)
            if fits(input) and (type(other) in (int, float) or (fits(other) and other.shape == input.shape)):
                return blocks(guarded, input, other)
            return library(input, other)

        return function

    return made


# ---- exponentials and logarithms ----------------------------------------------------------------------------------------------------


def _half_tangent(x: Array, out: Array) -> Array:
    """t / (1 + |t|) for t = tanh(x / 2): half of 1 - exp(-|x|), with the sign of x and without cancellation."""
    t = np.tanh(np.multiply(x, 0.5, out), out)
    below = np.absolute(t)
    below += 1
    t /= below
    return t


@_vectorised(-87.0, 87.0)
def expm1(x: Array, out: Array) -> None:
    """exp(x) - 1."""
    half = _half_tangent(x, out)
    grown = np.maximum(x, 0)
    half *= np.exp(grown, grown)
    half *= 2


@_vectorised(-87.0, 87.0)
def sinh(x: Array, out: Array) -> None:
    """The hyperbolic sine."""
    half = _half_tangent(x, out)
    grown = np.absolute(x)
    np.exp(grown, grown)
    grown += 1
    half *= grown


@_vectorised(-87.0, 87.0)
def cosh(x: Array, out: Array) -> None:
    """The hyperbolic cosine."""
    np.exp(x, out)
    out *= 0.5
    out += np.divide(0.25, out)


def _log_above(x: Array, out: Array) -> None:
    """log(1 + x), with what the sum lost put back."""
    above = np.add(x, 1)
    lost = np.subtract(above, 1)
    np.subtract(x, lost, lost)
    lost /= above
    np.log(above, out)
    out += lost
    np.copysign(out, x, out)


@_vectorised(-1.0, math.inf)
def log1p(x: Array, out: Array) -> None:
    """log(1 + x)."""
    _log_above(x, out)


@_vectorised(-1.0, 1.0)
def arctanh(x: Array, out: Array) -> None:
    """The inverse of the hyperbolic tangent."""
    size = np.absolute(x)
    below = np.subtract(1, size)
    size *= 2
    size /= below
    _log_above(size, out)
    out *= 0.5
    np.copysign(out, x, out)


def _sigmoid(xp: Namespace, x: Any) -> Any:
    with np.errstate(over="ignore"):  # far below zero exp is infinite, and the result 0, as in torch
        grown = xp.exp(-x)
    grown += 1
    return xp.reciprocal(grown)


@_vectorised(-87.0, 87.0, _sigmoid)
def sigmoid(x: Array, out: Array) -> None:
    """1 / (1 + exp(-x))."""
    np.exp(np.negative(x, out), out)
    out += 1
    np.reciprocal(out, out)


def _log_sigmoid(xp: Namespace, x: Any) -> Any:
    return xp.minimum(x, 0) - xp.log1p(xp.exp(xp.copysign(x, -1.0)))


@_vectorised(-math.inf, math.inf, _log_sigmoid)
def log_sigmoid(x: Array, out: Array) -> None:
    """log(1 / (1 + exp(-x)))."""
    small = np.exp(np.copysign(x, -1.0))
    _log_above(small, out)
    np.subtract(np.minimum(x, 0, out=small), out, out)


def _are_finite(a: Array, b: Any) -> bool:
    """Whether there is neither infinity nor NaN."""
    return all(np.maximum.reduce(x) < math.inf and np.minimum.reduce(x) > -math.inf for x in (a, b) if type(x) is np.ndarray) and (
        type(b) is np.ndarray or math.isfinite(b)
    )


@_paired(_are_finite)
def logaddexp(a: Array, b: Any, out: Array) -> None:
    """log(exp(a) + exp(b))."""
    np.subtract(a, b, out)
    np.absolute(out, out)
    np.negative(out, out)
    np.exp(out, out)
    _log_above(out.copy(), out)
    out += np.maximum(a, b)


# ---- angles -------------------------------------------------------------------------------------------------------------------------

_ARCTAN = (
    0.002849851967766881, -0.016068479046225548, 0.04269127547740936, -0.0750427395105362, 0.10640924423933029, -0.14203642308712006,
    0.1999261975288391, -0.3333307206630707, 1.0,
)  # fmt: skip
"""arctan(x) / x by powers of x * x, the highest first: for x up to 1 the best in the largest relative error, of 1.5e-8."""
_ERF = (
    -8.393211681223534e-10, 3.082738331272594e-08, -2.6302183186999173e-07, -3.1918982585921185e-06, 8.008582517504692e-05,
    -0.0006085265777073801, -0.00019922966021113098, 0.10277070850133896, 1.128379225730896,
)  # fmt: skip
"""The same of artanh(erf(x)) / x for x up to 4.3, weighted by what an error in it makes of the result: 5e-8. From there on erf is 1."""
_ERF_IS_ONE = np.full(_BLOCK, 4.3, np.float32)  # a row: NumPy compares with one number element by element


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    made = np.multiply(x, coefficients[0])
    for each in coefficients[1:-1]:
        made += each
        made *= x
    made += coefficients[-1]
    return made


@_vectorised(-1e4, 1e4)
def tan(x: Array, out: Array) -> None:
    """The tangent."""
    np.divide(np.sin(x, out), np.cos(x), out)


def _angle(y: Array, x: Any, out: Array) -> None:
    """The angle of the point (|x|, |y|), not both 0: between 0 and a quarter turn."""
    small, large = np.minimum(x, y), np.maximum(x, y)
    np.divide(small, large, small)
    np.multiply(_polynomial(_ARCTAN, np.multiply(small, small, large)), small, out)
    _mirrored(out, y > x, math.pi / 2)


def _mirrored(angle: Array, where: Array, turn: float) -> None:
    """``turn - angle`` where a mask holds, without a branch."""
    mask = where.astype(np.float32)
    angle *= 1 - 2 * mask
    mask *= turn
    angle += mask


def _is_point(y: Array, x: Any) -> bool:
    return _are_finite(y, x) and (bool(np.minimum.reduce(np.absolute(x)) > 0) if type(x) is np.ndarray else x != 0)


@_paired(_is_point)
def arctan2(y: Array, x: Any, out: Array) -> None:
    """The angle of the point (x, y)."""
    _angle(np.absolute(y), np.absolute(x), out)
    _mirrored(out, np.asarray(np.less(x, 0)), math.pi)
    np.copysign(out, y, out)


@_vectorised(-math.inf, math.inf)
def arctan(x: Array, out: Array) -> None:
    """The inverse of the tangent."""
    _angle(np.absolute(x), 1, out)
    np.copysign(out, x, out)


def _erf(x: Array, out: Array) -> None:
    bounded = np.minimum(x, _ERF_IS_ONE[: x.size])
    np.maximum(bounded, -_ERF_IS_ONE[: x.size], out=bounded)
    np.multiply(_polynomial(_ERF, np.multiply(bounded, bounded, out)), bounded, out)
    np.tanh(out, out)


def _normal_part(x: Array, out: Array) -> None:
    _erf(x * math.sqrt(0.5), out)
    out *= 0.5
    out += 0.5
    out *= x


def gelu(input: Array) -> Array:
    """Each element times the normal distribution function at it. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    return blocks(_normal_part, input) if fits(input) else input * (library(input * math.sqrt(0.5)) * 0.5 + 0.5)


def erf(input: Array) -> Array:
    """The error function. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    return blocks(_erf, input) if fits(input) else library(input)


# ---- division with a rest -----------------------------------------------------------------------------------------------------------


def _divides(x: Array, y: Any) -> bool:
    """Whether the quotient is ordinary, and its whole part below 2**24: then doubles hold it and its product with y exactly."""
    if not _is_point(x, y):
        return False
    largest = max(np.maximum.reduce(x), -np.minimum.reduce(x))
    smallest = np.minimum.reduce(np.absolute(y)) if type(y) is np.ndarray else abs(np.float32(y))
    return bool(float(largest) < float(smallest) * 2**24)


def _rest(round: Callable[..., Any], x: Array, y: Any, out: Array) -> None:
    rest = x.astype(np.float64)
    y = y.astype(np.float64) if type(y) is np.ndarray else float(np.float32(y))
    whole = rest / y
    round(whole, whole)
    whole *= y
    np.subtract(rest, whole, out, casting="same_kind")


@_paired(_divides)
def fmod(x: Array, y: Any, out: Array) -> None:
    """What division rounded to zero leaves over, with the sign of x."""
    _rest(np.trunc, x, y, out)
    np.copysign(out, x, out)


@_paired(_divides)
def remainder(x: Array, y: Any, out: Array) -> None:
    """What floor division leaves over, with the sign of y."""
    _rest(np.floor, x, y, out)
    np.copysign(out, y, out)


@_paired(_divides)
def floor_divide(x: Array, y: Any, out: Array) -> None:
    """The largest whole number not above the quotient."""
    whole = np.divide(x, y, dtype=np.float64) if type(y) is np.ndarray else np.divide(x, float(np.float32(y)), dtype=np.float64)
    np.floor(whole, out, casting="same_kind")
