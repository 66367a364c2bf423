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

from gradlib.backend.array import Array, Namespace, special, zero_d
from gradlib.backend.mask import chosen

LEAST = 1024
"""How many elements there are to be: below, the calls cost more than they save."""
_FEW = 100  # elements: up to that what counts is the number of calls
_BLOCK = 1 << 16  # elements: what is computed of them in several passes stays in the cache
_SIGN = -(1 << 31)  # the bit of a float32's sign, as an int32


def blocks(form: Callable[..., None], *operands: Any) -> Array:
    """A new array of the first operand's shape, computed block by block.

    Args:
        form: ``form(*parts, out)`` writes a function of parts of the operands into a part of the result.
        operands: arrays in row-major order, of one shape, and numbers.
    """
    made = np.empty(operands[0].shape, operands[0].dtype)
    if made.ndim == 1 and made.size <= _BLOCK:
        form(*operands, made)
        return made
    out = made.reshape(-1)
    lines = [x.reshape(-1) if type(x) is np.ndarray else x for x in operands]
    for begin in range(0, out.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        form(*(x[part] if type(x) is np.ndarray else x for x in lines), out[part])
    return made


def fits(array: Any) -> bool:
    """Whether an array is one of those that are computed by blocks."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char == "f" and array.flags.c_contiguous


def _is_large(array: Any) -> bool:
    """Whether a temporary result is an array of NumPy's that is worth writing into."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char in "fd"


@functools.cache
def _row(number: float) -> Array:
    """A number in each element of a block: NumPy's maximum and minimum with an array are three times as fast as with a number."""
    return np.full(_BLOCK, number, np.float32)


def _bounded(x: Array, low: float, high: float, out: Array | None = None) -> Array:
    """Each element, or the nearer bound of one outside; NaN stays."""
    made = np.minimum(x, _row(high)[: x.size], out=out)
    return np.maximum(made, _row(low)[: x.size], out=made)


def _sign_like(x: Any, out: Array) -> None:
    """Give what is positive or 0, or has that sign, the signs of x: as ``copysign`` in place, which NumPy computes element by element."""
    if type(x) is not np.ndarray:
        np.copysign(out, x, out)
        return
    bits = out.view(np.int32)
    bits |= np.bitwise_and(x.view(np.int32), _SIGN)


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


# ---- in fewer calls, or less memory --------------------------------------------------------------------------------------------------


def reciprocal(xp: Namespace, input: Any) -> Any:
    """1 / x: by division, which takes NumPy half as long as its ``reciprocal``."""
    return np.divide(zero_d(1.0, input.dtype), input) if xp is np and input.dtype.char in "fd" else xp.reciprocal(input)


def reciprocal_root(xp: Namespace, input: Any) -> Any:
    """1 / sqrt(x)."""
    root = xp.sqrt(input)
    return np.divide(zero_d(1.0, root.dtype), root, out=root) if _is_large(root) else reciprocal(xp, root)


def fraction(xp: Namespace, input: Any) -> Any:
    """What follows the point, with the sign of x."""
    whole = xp.trunc(input)
    return np.subtract(input, whole, out=whole) if _is_large(whole) else input - whole


def leaky(xp: Namespace, input: Any, slope: float) -> Any:
    """Each element, times a slope from 0 to 1 where it is not positive."""
    if not _is_large(input):
        return xp.maximum(input, input * slope)
    below = np.multiply(input, zero_d(slope, input.dtype))
    return np.maximum(input, below, out=below)


# ---- exponentials and logarithms ----------------------------------------------------------------------------------------------------


_EXPM1 = (0.0013882521742280764, 0.008366519001791913, 0.041667199809332416, 0.16666543632665895, 0.49999998154308845)
"""(exp(x) - 1 - x) / x² by powers of x, the highest first, for |x| up to log(2) / 2: relative to exp(x) - 1 an error of 1.3e-8."""
_LN2 = (0.693359375, -2.1219444005469057e-4)  # log(2) in two parts: products of the first with whole numbers up to 2**11 are exact


def _above_one(x: Array, out: Array) -> None:
    """exp(x) - 1, but for the sign of 0: with x = k log(2) + r it is 2**k (exp(r) - 1) + (2**k - 1)."""
    k = np.multiply(x, 1 / math.log(2))
    np.rint(k, k)
    r = np.multiply(k, _LN2[0])
    np.subtract(x, r, r)
    r -= np.multiply(k, _LN2[1], out)
    small = _polynomial(_EXPM1, r)
    small *= r
    small *= r
    small += r
    scale = k.astype(np.int32)
    scale += 127
    scale <<= 23
    power = scale.view(np.float32)
    np.multiply(small, power, out)
    power -= 1
    out += power


@_vectorised(-87.0, 87.0)
def expm1(x: Array, out: Array) -> None:
    """exp(x) - 1."""
    _above_one(x, out)
    _sign_like(x, out)


@_vectorised(-126.0, 127.0)
def exp2(x: Array, out: Array) -> None:
    """2 to the power of x."""
    whole = np.rint(x)
    np.subtract(x, whole, out)
    out *= math.log(2)
    np.exp(out, out)
    steps = whole.astype(np.int32)
    steps <<= 23
    bits = out.view(np.int32)
    bits += steps


@_vectorised(0.0, math.inf)
def log10(x: Array, out: Array) -> None:
    """The logarithm to the base 10; NumPy's own where it may be a whole number, which it then is."""
    np.log(x, out)
    out *= 1 / math.log(10)
    whole = np.rint(out)
    away = np.subtract(out, whole)
    whole *= 1e-6
    near = np.less_equal(np.absolute(away, away), np.absolute(whole, whole))
    if np.logical_or.reduce(near):
        out[near] = np.log10(x[near])


@_vectorised(-87.0, 87.0)
def sinh(x: Array, out: Array) -> None:
    """The hyperbolic sine."""
    grown = np.absolute(x)
    _above_one(grown, out)  # e = exp(|x|) - 1; the result is (e + e / (e + 1)) / 2
    np.add(out, 1, grown)
    np.divide(out, grown, grown)
    out += grown
    out *= 0.5
    _sign_like(x, out)


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


@_vectorised(-1.0, math.inf)
def log1p(x: Array, out: Array) -> None:
    """log(1 + x)."""
    _log_above(x, out)
    _sign_like(x, out)


@_vectorised(-1.0, 1.0)
def arctanh(x: Array, out: Array) -> None:
    """The inverse of the hyperbolic tangent."""
    size = np.absolute(x)
    below = np.subtract(1, size)
    size *= 2
    size /= below
    _log_above(size, out)
    out *= 0.5
    _sign_like(x, out)


def _by_logistic(numerator: Any, x: Array, out: Array) -> None:
    """A numerator divided by 1 + exp(-x)."""
    grown = np.exp(np.negative(x, out), out)
    grown += 1
    np.divide(numerator, grown, out)


def sigmoid(xp: Namespace, input: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if xp is np and 0 < input.size < LEAST and input.dtype.kind == "f" and input.item(input.argmin()) > -87:
        grown = np.exp(np.negative(input))  # it took less time to ask than to have errors ignored
        return np.reciprocal(np.add(grown, zero_d(1.0, input.dtype)))
    with np.errstate(over="ignore"):  # far below zero exp is infinite, and the result 0, as in torch
        if xp is np and fits(input):
            return blocks(functools.partial(_by_logistic, 1), input)
        grown = xp.exp(-input)
    grown += 1
    return xp.reciprocal(grown)


def silu(xp: Namespace, input: Any) -> Any:
    """Each element times its sigmoid."""
    if xp is np and fits(input):
        with np.errstate(over="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
            return blocks(lambda x, out: _by_logistic(x, x, out), input)
    return input * sigmoid(xp, input)


def _logistic_slope(g: Array, x: Array, out: Array) -> None:
    _by_logistic(1, x, out)
    rest = np.subtract(1, out)
    rest *= x
    rest += 1
    out *= rest
    out *= g


def silu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``silu`` for the gradient g of its result; None for arrays that do not fit."""
    if not (fits(input) and fits(g) and g.shape == input.shape):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_logistic_slope, g, input)


def _log_sum(x: Array, out: Array) -> Array:
    """log(1 + exp(-|x|))."""
    small = np.absolute(x)
    np.negative(small, small)
    np.exp(small, small)
    _log_above(small, out)
    return small


def _log_of_sigmoid(x: Array, out: Array) -> None:
    small = _log_sum(x, out)
    np.subtract(np.minimum(x, _row(0)[: x.size], out=small), out, out)


def log_sigmoid(xp: Namespace, input: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    if xp is np and input.size <= _FEW and input.dtype.char in "fd":
        zero = zero_d(0.0, input.dtype)
        return zero - np.logaddexp(zero, -input)  # fewer calls, which take longer for each element
    if xp is np and fits(input):
        return blocks(_log_of_sigmoid, input)
    zero, below = (zero_d(0.0, input.dtype), zero_d(-1.0, input.dtype)) if xp is np else (0, -1.0)
    return xp.minimum(input, zero) - xp.log1p(xp.exp(xp.copysign(input, below)))


def _log_of_grown(x: Array, out: Array) -> None:
    small = _log_sum(x, out)
    out += np.maximum(x, _row(0)[: x.size], out=small)


def softplus(input: Array) -> Array:
    """log(1 + exp(x)) of an array that `fits`; from 17 on that is x."""
    return blocks(_log_of_grown, input)


def _cross_entropy(x: Array, target: Array, out: Array) -> None:
    small = _log_sum(x, out)
    out += np.maximum(np.negative(x, small), _row(0)[: x.size], out=small)
    np.subtract(1, target, small)
    small *= x
    out += small


def cross_entropy_with_logits(input: Array, target: Array) -> Array:
    """log(1 + exp(-x)) + (1 - t) x of arrays of one shape that `fits`."""
    return blocks(_cross_entropy, input, target)


def _below_zero_grown(x: Array, alpha: float, out: Array) -> None:
    _above_one(np.minimum(x, _row(0)[: x.size]), out)
    out *= alpha
    out += np.maximum(x, _row(0)[: x.size])
    _sign_like(x, out)


def elu(xp: Namespace, input: Array, alpha: Any) -> Array:
    """Each element, alpha (exp(x) - 1) where it is not positive."""
    if xp is np and alpha > 0 and fits(input) and np.minimum.reduce(input, axis=None) > -87:
        return blocks(_below_zero_grown, input, alpha)
    zero = zero_d(0.0, input.dtype) if xp is np else 0
    below = expm1(xp, xp.minimum(input, zero))
    return chosen(xp, input >= zero, input, below if alpha == 1 else below * alpha)


def smooth_absolute(input: Array, beta: float, divided: bool) -> Array:
    """x²/2 up to beta, beta (|x| - beta/2) beyond, or these divided by beta; of an array that `fits`."""
    bound = np.full(min(_BLOCK, input.size), beta, np.float32)

    def form(x: Array, out: Array) -> None:
        np.absolute(x, out)
        near = np.minimum(out, bound[: x.size])
        out -= np.multiply(near, 0.5)
        out *= near
        if divided and beta != 1:
            out /= beta

    return blocks(form, input)


def smooth_distance(input: Array, target: Array, beta: float) -> float:
    """The sum of d²/2 up to beta, beta (|d| - beta/2) beyond, of the differences of arrays of one shape that `fits`."""
    a, b, made = input.reshape(-1), target.reshape(-1), 0.0
    bound = np.full(min(_BLOCK, a.size), beta, np.float32)
    size, near = np.empty_like(bound), np.empty_like(bound)
    for begin in range(0, a.size, _BLOCK):
        part = a[begin : begin + _BLOCK]
        if part.size < size.size:
            bound, size, near = bound[: part.size], size[: part.size], near[: part.size]
        np.subtract(part, b[begin : begin + _BLOCK], size)
        np.minimum(np.absolute(size, size), bound, out=near)
        for first in range(0, part.size, _LINE):
            bounded = near[first : first + _LINE]
            made += float(bounded.dot(size[first : first + _LINE])) - float(bounded.dot(bounded)) * 0.5
    return made


_LINE = 4096  # elements whose products are summed in float32 without losing digits


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


def hypot(xp: Namespace, input: Any, other: Any) -> Any:
    """The length of the vector (input, other)."""
    if xp is not np or not (fits(input) and fits(other) and input.shape == other.shape):
        return xp.hypot(input, other)

    def form(a: Array, b: Array, out: Array) -> None:
        np.multiply(a, a, out)
        out += b * b
        if np.minimum.reduce(out) > 1e-30 and np.maximum.reduce(out) < math.inf:  # else squares left the range of float32, or are NaN
            np.sqrt(out, out)
        else:
            np.hypot(a, b, out)

    with np.errstate(over="ignore"):
        return blocks(form, input, other)


# ---- angles -------------------------------------------------------------------------------------------------------------------------

_ARCTAN = (
    0.002849851967766881, -0.016068479046225548, 0.04269127547740936, -0.0750427395105362, 0.10640924423933029, -0.14203642308712006,
    0.1999261975288391, -0.3333307206630707, 1.0,
)  # fmt: skip
"""arctan(x) / x by powers of x * x, the highest first: for x up to 1 the best in the largest relative error, of 1.5e-8."""
_ERF = (
    (1.67177454e-08, -1.69909481e-06, 0.000128844142, 0.00349091506, 0.0450727344, 0.181189001, 0.987074018),
    (0.000893259712, 0.013085044, 0.103198171, 0.452163279, 0.874771655),
)
"""erf(x) / x as a quotient of two polynomials in x * x, for x up to 4: a relative error of 6.5e-8. From there on erf is 1."""


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    made = np.multiply(x, coefficients[0])
    for each in coefficients[1:-1]:
        made += each
        made *= x
    made += coefficients[-1]
    return made


_ARCSIN = (0.042166307896156024, 0.02417951499186622, 0.04547037590346264, 0.07495297643383045, 0.16666752482015995)
"""(arcsin(x) - x) / x³ by powers of x * x, for x up to 1/2: relative to arcsin(x) an error of 5e-9."""


def _small_arcsin(size: Array, out: Array) -> Array:
    """The arcsin of |x| up to 1/2, else half of its arccos. Returns: how often that counts, 1 or 2."""
    np.subtract(1, size, out)
    out *= 0.5
    np.sqrt(out, out)
    np.minimum(out, size, out=out)  # which is smaller from 1/2 on
    square = out * out
    small = _polynomial(_ARCSIN, square)
    small *= square
    small *= out
    out += small
    times = np.greater(size, 0.5).astype(np.float32)
    times += 1
    return times


_UP_TO_ONE = 1.0000001


@_vectorised(-_UP_TO_ONE, _UP_TO_ONE)
def arcsin(x: Array, out: Array) -> None:
    """The inverse of the sine."""
    times = _small_arcsin(np.absolute(x), out)
    out *= times
    times -= 1
    times *= math.pi / 2
    np.subtract(times, out, out)
    np.absolute(out, out)
    _sign_like(x, out)


@_vectorised(-_UP_TO_ONE, _UP_TO_ONE)
def arccos(x: Array, out: Array) -> None:
    """The inverse of the cosine."""
    times = _small_arcsin(np.absolute(x), out)
    out *= times
    np.subtract(2, times, times)
    times *= math.pi / 2
    np.subtract(times, out, out)
    np.absolute(out, out)
    _mirrored(out, np.less(x, 0), math.pi)


def _even_and_odd(coefficients: tuple[float, ...], x: Array) -> Array:
    """The polynomial of an even degree, its odd powers summed apart: half as many roundings follow each other."""
    square = x * x
    made = _polynomial(coefficients[1::2], square)
    made *= x
    made += _polynomial(coefficients[::2], square)
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
    """``turn - angle`` where a mask holds, of angles from 0 to turn, without a branch."""
    mask = where.astype(np.float32)
    mask *= turn
    np.subtract(mask, angle, angle)
    np.absolute(angle, angle)


def _is_point(y: Array, x: Any) -> bool:
    return _are_finite(y, x) and (bool(np.minimum.reduce(np.absolute(x)) > 0) if type(x) is np.ndarray else x != 0)


@_paired(_is_point)
def arctan2(y: Array, x: Any, out: Array) -> None:
    """The angle of the point (x, y)."""
    _angle(np.absolute(y), np.absolute(x), out)
    _mirrored(out, np.asarray(np.less(x, 0)), math.pi)
    _sign_like(y, out)


@_vectorised(-math.inf, math.inf)
def arctan(x: Array, out: Array) -> None:
    """The inverse of the tangent."""
    _angle(np.absolute(x), 1, out)
    _sign_like(x, out)


def _erf(x: Array, out: Array) -> None:
    bounded = _bounded(x, -4, 4)
    square = np.multiply(bounded, bounded)
    bounded *= _even_and_odd(_ERF[0], square)
    np.divide(bounded, _even_and_odd(_ERF[1], square), out)
    _bounded(out, -1, 1, out)


def _normal_part(x: Array, out: Array) -> None:
    half = np.multiply(x, math.sqrt(0.5))
    _erf(half, out)
    out += 1
    out *= np.multiply(x, 0.5, half)


def _normal_slope(g: Array, x: Array, out: Array) -> None:
    density = np.multiply(x, x)
    density *= -0.5
    np.exp(density, density)
    density *= x
    density *= 1 / math.sqrt(2 * math.pi)
    _erf(np.multiply(x, math.sqrt(0.5)), out)
    out *= 0.5
    out += 0.5
    out += density
    out *= g


def gelu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``gelu`` for the gradient g of its result; None for arrays that do not fit."""
    return blocks(_normal_slope, g, input) if fits(input) and fits(g) and g.shape == input.shape else None


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
    largest = max(float(np.maximum.reduce(x)), -float(np.minimum.reduce(x)))
    size = np.absolute(y) if type(y) is np.ndarray else np.abs(np.float32(y))
    smallest, biggest = (np.minimum.reduce(size), np.maximum.reduce(size)) if size.ndim else (size, size)
    return bool(0 <= largest < float(smallest) * 2**24 and biggest < math.inf)  # NaN makes one of them false


def _rest(round: Callable[..., Any], x: Array, y: Any, out: Array) -> None:
    rest = x.astype(np.float64)
    y = y.astype(np.float64) if type(y) is np.ndarray else float(np.float32(y))
    whole = rest / y
    round(whole, whole)
    whole *= y
    np.subtract(rest, whole, out, casting="same_kind")


@_paired(_divides)
def fmod(x: Array, y: Any, out: Array) -> None:
    """The remainder of division rounded to zero, with the sign of x."""
    _rest(np.trunc, x, y, out)
    _sign_like(x, out)


@_paired(_divides)
def remainder(x: Array, y: Any, out: Array) -> None:
    """The remainder of floor division, with the sign of y."""
    _rest(np.floor, x, y, out)
    _sign_like(y, out)


@_paired(_divides)
def floor_divide(x: Array, y: Any, out: Array) -> None:
    """The largest whole number not above the quotient."""
    whole = np.divide(x, y, dtype=np.float64) if type(y) is np.ndarray else np.divide(x, float(np.float32(y)), dtype=np.float64)
    np.floor(whole, out, casting="same_kind")
