"""Functions that NumPy computes element by element, written with those that it computes by several at once or in less time: exp, log, tanh.

Each is NumPy's own function for small arrays, other dtypes and CuPy, and in every block of elements in which one is not an ordinary number;
what it gives otherwise is NumPy's value but for a few units in the last place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, Namespace, special, zero_d
from gradlib.backend.mask import chosen

LEAST = 1024
"""How many elements there are to be: below, the calls cost more than they save."""
_FEW = 100  # elements: up to that what counts is the number of calls
_BLOCK = 1 << 16  # elements of float32, of float64 half as many: what is computed of them in several passes stays in the cache
_CACHED = 1 << 22  # bytes: of shorter arrays even the outer cache holds the passes' results
_ALL = "fd"


def blocks(form: Callable[..., None], *operands: Any, dtype: Any = None) -> Array:
    """A new array of the first operand's shape, computed block by block.

    Args:
        form: ``form(*parts, out)`` writes a function of parts of the operands into a part of the result.
        operands: arrays in row-major order, of one shape, and numbers.
        dtype: the result's; the first operand's where it is None.
    """
    made = np.empty(operands[0].shape, dtype or operands[0].dtype)
    size = _BLOCK if operands[0].dtype.itemsize <= 4 else _BLOCK // 2
    if made.ndim == 1 and made.size <= size:
        form(*operands, made)
        return made
    out = made.reshape(-1)
    lines = [x.reshape(-1) if type(x) is np.ndarray else x for x in operands]
    for begin in range(0, out.size, size):
        part = slice(begin, begin + size)
        form(*(x[part] if type(x) is np.ndarray else x for x in lines), out[part])
    return made


def fits(array: Any, chars: str = "f") -> bool:
    """Whether an array is one of those that are computed by blocks, of one of the dtypes with these characters."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char in chars and array.flags.c_contiguous


def fit(a: Any, b: Any, chars: str = _ALL) -> bool:
    """Whether two arrays of one shape and dtype are computed by blocks."""
    return fits(a, chars) and fits(b, chars) and a.shape == b.shape and a.dtype is b.dtype


def are_long(*arrays: Any) -> bool:
    """Whether arrays of one shape and dtype are so long that a few passes take less time block by block."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.nbytes <= _CACHED:  # most are not, and are asked at every call
        return False
    return all(
        type(x) is np.ndarray and x.dtype.char in "fd" and x.dtype is first.dtype and x.shape == first.shape and x.flags.c_contiguous
        for x in arrays
    )


def _is_large(array: Any) -> bool:
    """Whether a temporary result is an array of NumPy's that is worth writing into."""
    return type(array) is np.ndarray and array.size >= LEAST and array.dtype.char in "fd"


def _numbers(*numbers: float, char: str = "f") -> tuple[Array, ...]:
    """Numbers as 0-d arrays of a dtype, which a function takes in half the time of Python's."""
    return tuple(zero_d(x, np.dtype(char)) for x in numbers)


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
    one, two, half, quarter, pi, per_ln2, whole = _numbers(
        1, 2, 0.5, 0.25, math.pi, 1 / math.log(2), 1.5 * 2**limits.nmant + limits.maxexp - 1, char=char
    )
    sign, parts = int(np.iinfo(bits).min), {name: _numbers(*each, char=char) for name, each in coefficients.items()}
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
_CONSTANTS = {"f": _SINGLE, "d": _DOUBLE}
_ONE = _SINGLE.one


def _fraction(coefficients: tuple[Array, ...], s: Array) -> Array:
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


def _within(x: Array, low: float, high: float) -> bool:
    """Whether all elements lie between two numbers; NaN does not. Two searches take half the time of two reductions."""
    return bool(x.item(x.argmin()) > low and x.item(x.argmax()) < high)


@functools.cache
def _row(number: float, char: str = "f") -> Array:
    """A number in each element of a block: NumPy's maximum and minimum with an array are three times as fast as with a number."""
    return np.full(_BLOCK, number, char)


def _sign_like(x: Any, out: Array) -> None:
    """Give what is positive or 0, or has that sign, the signs of x: as ``copysign`` in place, which NumPy computes element by element."""
    if type(x) is not np.ndarray:
        if math.copysign(1, x) < 0:
            np.copysign(out, x, out)
    elif not x.item(x.argmin()) > 0:
        c = _CONSTANTS[out.dtype.char]
        bits = out.view(c.bits)
        bits |= np.bitwise_and(x.view(c.bits), c.sign)


def _keep_zeros(x: Array, out: Array) -> None:
    """Make -0.0 of 0 where x is -0.0, of a function whose other values have the signs of x."""
    c = _CONSTANTS[x.dtype.char]
    bits = x.view(c.bits)
    if bits.item(bits.argmin()) == c.sign:  # the least of all integers
        _sign_like(x, out)


def _vectorised(
    low: float | None, high: float | None, plain: Callable[[Namespace, Any], Any] | None = None, chars: str = _ALL
) -> Callable[[Callable[[Array, Array], None]], Callable[[Namespace, Any], Any]]:
    """Make of a form the function ``f(xp, input)`` of its name; blocks with an element that is not between the limits are NumPy's.

    Args:
        low, high: the limits; None where the form is right of every number.
        plain: the function in NumPy's place, where it has none.
        chars: the characters of the dtypes that the form is for.
    """

    def made(form: Callable[[Array, Array], None]) -> Callable[[Namespace, Any], Any]:
        name = form.__name__
        library = getattr(np, name) if plain is None else functools.partial(plain, np)

        def guarded(x: Array, out: Array) -> None:
            if low is None or high is None or _within(x, low, high):
                form(x, out)
            else:
                out[...] = library(x)

        @functools.wraps(form)
        def function(xp: Namespace, input: Any) -> Any:
            if xp is not np:
                return getattr(xp, name)(input) if plain is None else plain(xp, input)
            return blocks(guarded, input) if fits(input, chars) else library(input)

        return function

    return made


def _paired(
    allowed: Callable[[Array, Any], bool] = lambda a, b: True, chars: str = _ALL
) -> Callable[[Callable[[Array, Any, Array], None]], Callable[[Namespace, Any, Any], Any]]:
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
            if fit(input, other, chars) or (type(other) in (int, float) and fits(input, chars)):
                return blocks(guarded, input, other)
            return library(input, other)

        return function

    return made


# ---- in fewer calls, or less memory --------------------------------------------------------------------------------------------------


def reciprocal(xp: Namespace, input: Any) -> Any:
    """1 / x: by division, which takes NumPy half as long as its ``reciprocal``."""
    return np.divide(zero_d(1.0, input.dtype), input) if _is_large(input) else xp.reciprocal(input)


def reciprocal_root(xp: Namespace, input: Any) -> Any:
    """1 / sqrt(x)."""
    root = xp.sqrt(input)
    return np.divide(zero_d(1.0, root.dtype), root, out=root) if _is_large(root) else xp.reciprocal(root)


def _fraction_of(x: Array, out: Array) -> None:
    np.subtract(x, np.trunc(x, out), out)


def fraction(xp: Namespace, input: Any) -> Any:
    """What follows the point, with the sign of x."""
    if are_long(input):
        return blocks(_fraction_of, input)
    whole = xp.trunc(input)
    return np.subtract(input, whole, out=whole) if _is_large(whole) else input - whole


def leaky(xp: Namespace, input: Any, slope: float) -> Any:
    """Each element, times a slope from 0 to 1 where it is not positive."""
    if not _is_large(input):
        return xp.maximum(input, input * slope)
    factor = zero_d(slope, input.dtype)
    if are_long(input):
        return blocks(lambda x, out: np.maximum(x, np.multiply(x, factor, out), out=out), input)
    scaled = input * factor
    return np.maximum(input, scaled, out=scaled)


def between(start: Array, end: Array, weight: float) -> Array:
    """start + weight * (end - start), of arrays that are long."""

    def form(a: Array, b: Array, out: Array) -> None:
        np.subtract(b, a, out)
        out *= weight
        out += a

    return blocks(form, start, end)


def added(ufunc: Any, input: Array, a: Array, b: Array, factor: Any) -> Array:
    """The input and a factor times ``ufunc(a, b)``, of arrays that are long."""

    def form(x: Array, a: Array, b: Array, out: Array) -> None:
        ufunc(a, b, out)
        if factor != 1:
            out *= factor
        out += x

    return blocks(form, input, a, b)


def plus(input: Array, product: Array) -> Array:
    """The sum of an array and one that nobody else has, which is written."""
    alike = type(input) is type(product) is np.ndarray and input.dtype is product.dtype
    if alike and input.strides == product.strides and input.shape == product.shape:
        return np.add(input, product, product)
    return input + product


def _side_by_side(real: Array, imag: Array, out: Array) -> None:
    out.real, out.imag = real, imag


def complex_of(real: Array, imag: Array, dtype: Any) -> Array:
    """Complex numbers of parts that are long."""
    return blocks(_side_by_side, real, imag, dtype=dtype)


# ---- float16 --------------------------------------------------------------------------------------------------------------------------

_MANY = 1 << 13  # elements: below, NumPy's own loop takes less time
_OVERFLOW = 65520  # from here on a number is infinite in float16
_EXPONENT = np.array(0x7F800000, np.int32)
_GRID = np.array((13 << 23) + (1 << 22) + 1536, np.int32)


def _to_half(x: Array, out: Array) -> None:
    """Round to float16, to the nearest and of two to the even one, as NumPy's cast does.

    With g = 1.5 * 2**13 times the power of two in |x|, the sum |x| + g has the last places of a float16, to which it is rounded: its last
    bits are the digits of the float16, whose exponent follows from g's. 1536 makes good what else the two add up to.
    """
    if not _within(x, -_OVERFLOW, _OVERFLOW):
        out[...] = x
        return
    size = np.absolute(x)
    large = np.maximum(size, _row(2.0**-14)[: x.size])  # below the least normal number the last place stays
    bits, sign = large.view(np.int32), np.empty(x.shape, np.uint16)
    bits &= _EXPONENT
    bits += _GRID
    size += large
    bits >>= 13
    bits += size.view(np.int32)
    made = out.view(np.uint16)
    np.copyto(made, bits, casting="unsafe")
    np.copyto(sign, np.right_shift(x.view(np.int32), 16, bits), casting="unsafe")
    sign &= 0x8000
    made |= sign


def to_half(array: Array) -> Array:
    """``array.astype(float16)``, of an array that `fits`."""
    return blocks(_to_half, array, dtype=np.float16) if array.size >= _MANY else array.astype(np.float16)


# ---- exponentials and logarithms ----------------------------------------------------------------------------------------------------


def _above_one(x: Array, out: Array) -> None:
    """exp(x) - 1, but for the sign of 0: with x = k log(2) + r it is 2**k (exp(r) - 1) + (2**k - 1)."""
    c = _CONSTANTS[x.dtype.char]
    power = np.multiply(x, c.per_ln2)
    power += c.whole
    k = np.subtract(power, c.whole)
    r = np.multiply(k, c.ln2[0])
    np.subtract(x, r, r)
    k *= c.ln2[1]
    r -= k
    small = _polynomial(c.coth, np.multiply(r, r, k))  # exp(r) - 1 is 2 r / (r coth(r / 2) - r)
    small -= r
    r += r
    np.divide(r, small, out)
    bits = power.view(c.bits)
    bits <<= c.places
    out *= power
    power -= c.one
    out += power


@_vectorised(-87.0, 87.0)
def expm1(x: Array, out: Array) -> None:
    """exp(x) - 1."""
    _above_one(x, out)
    _keep_zeros(x, out)


_PER_LN10, _NEAR = _numbers(1 / math.log(10), 1e-6)


@_vectorised(0.0, math.inf, chars="f")
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


@_vectorised(-87.0, 87.0)
def sinh(x: Array, out: Array) -> None:
    """The hyperbolic sine."""
    grown = np.absolute(x)
    _above_one(grown, out)  # e = exp(|x|) - 1; the result is (e + e / (e + 1)) / 2
    c = _CONSTANTS[x.dtype.char]
    np.add(out, c.one, grown)
    np.divide(out, grown, grown)
    out += grown
    out *= c.half
    _sign_like(x, out)


@_vectorised(-87.0, 87.0)
def cosh(x: Array, out: Array) -> None:
    """The hyperbolic cosine."""
    c = _CONSTANTS[x.dtype.char]
    np.exp(x, out)
    out *= c.half
    out += np.divide(c.quarter, out)


def _log_above(x: Array, out: Array) -> None:
    """log(1 + x), with what the sum lost put back."""
    one = _CONSTANTS[x.dtype.char].one
    above = np.add(x, one)
    lost = np.subtract(above, one)
    np.subtract(x, lost, lost)
    lost /= above
    np.log(above, out)
    out += lost


@_vectorised(-1.0, math.inf)
def log1p(x: Array, out: Array) -> None:
    """log(1 + x)."""
    _log_above(x, out)
    _keep_zeros(x, out)


@_vectorised(-1.0, 1.0)
def arctanh(x: Array, out: Array) -> None:
    """The inverse of the hyperbolic tangent."""
    c = _CONSTANTS[x.dtype.char]
    size = np.absolute(x)
    below = np.subtract(c.one, size)
    size += size
    size /= below
    _log_above(size, out)
    out *= c.half
    _sign_like(x, out)


def _by_logistic(numerator: Any, x: Array, out: Array) -> None:
    """A numerator divided by 1 + exp(-x)."""
    grown = np.exp(np.negative(x, out), out)
    grown += _CONSTANTS[x.dtype.char].one
    np.divide(numerator, grown, out)


def sigmoid(xp: Namespace, input: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if xp is np and 0 < input.size < LEAST and input.dtype.kind == "f" and input.item(input.argmin()) > -87:
        grown = np.exp(np.negative(input))  # it took less time to ask than to have errors ignored
        return np.reciprocal(np.add(grown, zero_d(1.0, input.dtype)))
    with np.errstate(over="ignore"):  # far below zero exp is infinite, and the result 0, as in torch
        if xp is np and fits(input, _ALL):
            return blocks(functools.partial(_by_logistic, _CONSTANTS[input.dtype.char].one), input)
        grown = xp.exp(-input)
    grown += 1
    return xp.reciprocal(grown)


def silu(xp: Namespace, input: Any) -> Any:
    """Each element times its sigmoid."""
    if xp is np and fits(input, _ALL):
        with np.errstate(over="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
            return blocks(lambda x, out: _by_logistic(x, x, out), input)
    return input * sigmoid(xp, input)


def _by_mirrored_logistic(numerator: Any, x: Array, out: Array) -> None:
    """A numerator divided by 1 + exp(x)."""
    grown = np.exp(x, out)
    grown += _CONSTANTS[x.dtype.char].one
    np.divide(numerator, grown, out)


def times_logistic(g: Array, input: Array, mirrored: bool = False) -> Array | None:
    """g times the ``sigmoid`` of x, or of -x where ``mirrored``; None for arrays that do not fit."""
    if not fit(g, input):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_by_mirrored_logistic if mirrored else _by_logistic, g, input)


def _logistic_slope(g: Array, x: Array, out: Array) -> None:
    one = _CONSTANTS[x.dtype.char].one
    _by_logistic(one, x, out)
    rest = np.subtract(one, out)
    rest *= x
    rest += one
    out *= rest
    out *= g


def silu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``silu`` for the gradient g of its result; None for arrays that do not fit."""
    if not fit(g, input):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_logistic_slope, g, input)


def _log_sum(x: Array, small: Array, out: Array) -> Array:
    """log(1 + exp(-|x|)). Returns: ``small``, which it overwrites on the way, and which may be x."""
    c = _CONSTANTS[x.dtype.char]
    np.bitwise_or(x.view(c.bits), c.sign, small.view(c.bits))
    np.exp(small, small)
    square = np.add(small, c.two)
    np.divide(small, square, small)  # 1 + e is (1 + x) / (1 - x) with x = e / (2 + e)
    np.multiply(small, small, square)
    more = _fraction(c.log, square)
    more *= square
    more += c.two
    np.multiply(small, more, out)
    return small


def _log_of_sigmoid(x: Array, out: Array) -> None:
    small = _log_sum(x, np.empty_like(x), out)
    np.subtract(np.minimum(x, _row(0, x.dtype.char)[: x.size], out=small), out, out)


def log_sigmoid(xp: Namespace, input: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    if xp is np and input.size <= _FEW and input.dtype.char in "fd":
        none = zero_d(0.0, input.dtype)
        return none - np.logaddexp(none, -input)  # fewer calls, which take longer for each element
    if xp is np and fits(input, _ALL):
        return blocks(_log_of_sigmoid, input)
    zero, below = (zero_d(0.0, input.dtype), zero_d(-1.0, input.dtype)) if xp is np else (0, -1.0)
    return xp.minimum(input, zero) - xp.log1p(xp.exp(xp.copysign(input, below)))


def softplus(input: Array, threshold: float) -> Array:
    """log(1 + exp(x)) of an array that `fits`, and x above the threshold."""

    def form(x: Array, out: Array) -> None:
        small = _log_sum(x, np.empty_like(x), out)
        out += np.maximum(x, _row(0, x.dtype.char)[: x.size], out=small)
        _put_above(threshold, x, x, out)

    return blocks(form, input)


def _put_above(threshold: float, x: Array, value: Array, out: Array) -> None:
    """Write a value where x is above a threshold; from 17 on ``softplus`` of float32 is x, and its slope 1, without that."""
    if x.dtype.char == "f" and threshold >= 17:
        return
    if not x.item(x.argmax()) <= threshold:  # NaN counts as the largest
        np.copyto(out, value, where=np.greater(x, threshold))


def softplus_slope(g: Array, input: Array, threshold: float) -> Array | None:
    """The gradient of ``softplus`` for the gradient g of its result; None for arrays that do not fit."""
    made = times_logistic(g, input)
    if made is not None:
        _put_above(threshold, input, g, made)
    return made


def _cross_entropy(x: Array, target: Array, out: Array) -> None:
    small = _log_sum(x, np.empty_like(x), out)
    out -= np.minimum(x, _row(0, x.dtype.char)[: x.size], out=small)
    np.subtract(_CONSTANTS[x.dtype.char].one, target, small)
    small *= x
    out += small


def cross_entropy_with_logits(input: Array, target: Array) -> Array:
    """log(1 + exp(-x)) + (1 - t) x of arrays that `fit`."""
    return blocks(_cross_entropy, input, target)


def _below_zero_grown(x: Array, alpha: float, out: Array) -> None:
    below = x.clip(-87, 0)  # further down it is -alpha
    _above_one(below, out)
    if alpha != 1:
        out *= alpha
    out += np.maximum(x, _row(0, x.dtype.char)[: x.size], out=below)
    _keep_zeros(x, out)


def elu(xp: Namespace, input: Array, alpha: Any) -> Array:
    """Each element, alpha (exp(x) - 1) where it is not positive."""
    if xp is np and alpha > 0 and fits(input, _ALL):
        return blocks(_below_zero_grown, input, alpha)
    zero = zero_d(0.0, input.dtype) if xp is np else 0
    below = xp.minimum(input, zero)
    if xp is np and alpha == 1:
        return np.maximum(np.expm1(below) if below.size < LEAST else expm1(np, below), input)  # exp(x) - 1 is never below x
    below = expm1(xp, below)
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


def are_alike(input: Any, target: Any) -> bool:
    """Whether these are large arrays of float32 or float64 in row-major order, of one shape."""
    if not (_is_large(input) and type(target) is np.ndarray and target.dtype is input.dtype and target.shape == input.shape):
        return False
    return bool(input.flags.c_contiguous and target.flags.c_contiguous)


def _in_lines(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Blocks of arrays as matrices of lines of `_LINE` elements, and what is left as one line."""
    parts = [x.reshape(-1) for x in arrays]
    whole = parts[0].size // _LINE * _LINE
    whole = whole if whole > 4 * _LINE else 0  # of few elements what counts is the number of calls
    for begin in range(0, whole, _BLOCK):
        yield tuple(x[begin : min(begin + _BLOCK, whole)].reshape(-1, _LINE) for x in parts)
    yield tuple(x[whole:].reshape(1, -1) for x in parts)


def smooth_distance(input: Array, target: Array, beta: float) -> float:
    """The sum of d²/2 up to beta, beta (|d| - beta/2) beyond, of the differences of arrays that are alike.

    That is c d - c²/2 with c = clamp(d, -beta, beta).
    """
    made, low, high = 0.0, zero_d(-beta, input.dtype), zero_d(beta, input.dtype)
    for a, b in _in_lines(input, target):
        away = a - b
        near = away.clip(low, high)
        made += sum(np.vecdot(near, away).tolist()) - sum(np.vecdot(near, near).tolist()) * 0.5
    return made


def smooth_slopes(g: Array, input: Array, target: Array, beta: float, divided: bool) -> list[Array]:
    """The derivatives of that by both arrays, or of that divided by beta, times g."""
    bound = 1.0 if divided else beta
    low, high, slopes = zero_d(-bound, input.dtype), zero_d(bound, input.dtype), (np.empty_like(input), np.empty_like(input))
    for a, b, by_a, by_b in _in_lines(input, target, *slopes):
        np.subtract(a, b, by_a)
        if divided and beta != 1:
            by_a /= beta
        by_a.clip(low, high, by_a)
        by_a *= g
        np.negative(by_a, by_b)
    return list(slopes)


_LINE = 4096  # elements whose products are summed in float32 without losing digits


@_paired()
def logaddexp(a: Array, b: Any, out: Array) -> None:
    """log(exp(a) + exp(b)); NumPy's where two infinities leave NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.subtract(a, b)
        _log_sum(away, away, out)
    out += np.maximum(a, b, out=away)
    if math.isnan(out.item(out.argmax())):
        np.logaddexp(a, b, out)


def _squared_length(a: Array, b: Any, out: Array) -> bool:
    """Write a² + b²; whether that is right, which it is not where squares leave the range, or are NaN."""
    with np.errstate(over="ignore"):
        np.multiply(a, a, out)
        out += b * b
        return _within(out, _CONSTANTS[out.dtype.char].least, math.inf)


def _length(a: Array, b: Any, out: Array) -> bool:
    """The same of sqrt(a² + b²)."""
    right = _squared_length(a, b, out)
    if right:
        np.sqrt(out, out)
    return right


@_paired()
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


# ---- angles -------------------------------------------------------------------------------------------------------------------------


def _doubled_arctan(x: Array, square: Array, out: Array) -> None:
    """2 arctan(x) of x up to 1, from x and its square."""
    c = _CONSTANTS[x.dtype.char]
    less = _fraction(c.arctan, square)
    less *= square
    np.subtract(c.two, less, less)
    np.multiply(x, less, out)


_FAR = 1e18


@_vectorised(-_FAR, _FAR, chars="f")
def arctan(x: Array, out: Array) -> None:
    """The inverse of the tangent, by that of half the angle: x / (1 + sqrt(1 + x²))."""
    one = _CONSTANTS[x.dtype.char].one
    half = np.multiply(x, x)
    half += one
    np.sqrt(half, half)
    half += one
    np.divide(x, half, half)
    _doubled_arctan(half, np.multiply(half, half, out), out)


@_vectorised(None, None)
def arcsin(x: Array, out: Array) -> None:
    """The inverse of the sine, by the tangent of half the angle: x / (1 + sqrt(1 - x²))."""
    one = _CONSTANTS[x.dtype.char].one
    half = np.subtract(one, x)
    half *= np.add(one, x, out)
    np.sqrt(half, half)
    half += one
    np.divide(x, half, half)
    _doubled_arctan(half, np.multiply(half, half, out), out)


@_vectorised(None, None)
def arccos(x: Array, out: Array) -> None:
    """The inverse of the cosine; of |x| by the tangent of half the angle, sqrt((1 - |x|) / (1 + |x|))."""
    one = _CONSTANTS[x.dtype.char].one
    size = np.absolute(x)
    square = np.subtract(one, size)
    size += one
    square /= size
    _doubled_arctan(np.sqrt(square, size), square, out)
    _mirrored(x, out)


def _mirrored(x: Any, angle: Array) -> None:
    """Make of angles from 0 to pi / 2 the supplementary ones where x is negative, or -0.0."""
    c = _CONSTANTS[angle.dtype.char]
    if type(x) is np.ndarray:
        bits = np.right_shift(x.view(c.bits), 8 * angle.itemsize - 1)
        bits &= c.pi.view(c.bits)
        np.subtract(bits.view(angle.dtype), angle, angle)
        np.absolute(angle, angle)
    elif math.copysign(1, x) < 0:
        np.subtract(c.pi, angle, angle)


@_paired()
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
    _sign_like(y, out)


@_vectorised(-1e4, 1e4)
def tan(x: Array, out: Array) -> None:
    """The tangent."""
    if x.dtype.char == "f":
        np.divide(np.sin(x, out), np.cos(x), out)
    else:
        _wide_tan(x, out)


_PER_QUARTER, _WHOLE, *_QUARTER = _numbers(
    2 / math.pi, 1.5 * 2**52, 1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21, char="d"
)
"""2 / pi; a number whose last bits, once a small one is added, are that one rounded; pi / 2 in three parts, of which the first two have few
enough digits for exact products."""
_TAN = _numbers(
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
    more = _fraction(_TAN, square)
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


(_MINUS_ONE,) = _numbers(-1, char="d")


# ---- the normal distribution --------------------------------------------------------------------------------------------------------

_ERF = (
    _numbers(1.67177454e-08, -1.69909481e-06, 0.000128844142, 0.00349091506, 0.0450727344, 0.181189001, 0.987074018),
    _numbers(0.000893259712, 0.013085044, 0.103198171, 0.452163279, 0.874771655),
)
"""erf(x) / x as a quotient of two polynomials in x * x, for x up to 4: a relative error of 6.5e-8. From there on erf is 1."""


def _polynomial(coefficients: tuple[Array, ...], x: Array) -> Array:
    made = np.multiply(x, coefficients[0])
    for each in coefficients[1:-1]:
        made += each
        made *= x
    made += coefficients[-1]
    return made


def _even_and_odd(coefficients: tuple[Array, ...], x: Array, square: Array) -> Array:
    """The polynomial of an even degree, its odd powers summed apart: half as many roundings follow each other."""
    made = _polynomial(coefficients[1::2], square)
    made *= x
    made += _polynomial(coefficients[::2], square)
    return made


def _erf(x: Array, out: Array) -> None:
    bounded = x.clip(-4, 4)
    square = np.multiply(bounded, bounded)
    fourth = np.multiply(square, square)
    bounded *= _even_and_odd(_ERF[0], square, fourth)
    np.divide(bounded, _even_and_odd(_ERF[1], square, fourth), out)
    out.clip(-1, 1, out)


_NORMAL = _numbers(45.1795273638, 1372.97457135, -23.4501810485, 5.35340000341, -2.3672508489)
(_NORMAL_LAST,) = _numbers(-0.0362672440826)
"""log(1 / p - 1) / x, where p is the normal distribution function at x: a continued fraction in x * x and the factor of that beside it. The
error of p is up to 6e-8."""


def _by_normal(numerator: Any, x: Array, out: Array) -> None:
    """A numerator times the normal distribution function."""
    square = np.multiply(x, x)
    grown = _fraction(_NORMAL, square)
    square *= _NORMAL_LAST
    grown += square
    grown *= x
    np.exp(grown, grown)
    grown += _ONE
    np.divide(numerator, grown, out)


def _normal_part(x: Array, out: Array) -> None:
    _by_normal(x, x, out)


def _normal_slope(g: Array, x: Array, out: Array) -> None:
    density = np.multiply(x, x)
    density *= _MINUS_HALF
    np.exp(density, density)
    density *= x
    density *= _DENSITY
    _by_normal(_ONE, x, out)
    out += density
    out *= g


_MINUS_HALF, _DENSITY = _numbers(-0.5, 1 / math.sqrt(2 * math.pi))


def gelu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``gelu`` for the gradient g of its result; None for arrays that do not fit."""
    if not (fits(input) and fits(g) and g.shape == input.shape):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_normal_slope, g, input)


def gelu(input: Array) -> Array:
    """Each element times the normal distribution function at it. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    if fits(input):
        with np.errstate(over="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
            return blocks(_normal_part, input)
    return input * (library(input * math.sqrt(0.5)) * 0.5 + 0.5)


def erf(input: Array) -> Array:
    """The error function. Raises: RuntimeError without SciPy on the host."""
    library = special(input).erf
    return blocks(_erf, input) if fits(input) else library(input)


# ---- division with a rest -----------------------------------------------------------------------------------------------------------


def _divides(x: Array, y: Any) -> bool:
    """Whether the quotient is ordinary, and its whole part below 2**24: then its product with y is exact, of float64 in two parts."""
    size = np.asarray(y, x.dtype)
    if size.item(size.argmin()) <= 0:
        size = np.absolute(size)
    smallest = size.item(size.argmin())
    return size.item(size.argmax()) < math.inf and smallest > 1e-100 and _within(x, -(smallest * 2**24), smallest * 2**24)


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


@_paired(_divides)
def fmod(x: Array, y: Any, out: Array) -> None:
    """The remainder of division rounded to zero, with the sign of x."""
    if x.dtype.char == "f":
        _rest(np.trunc, x, y, out)
    else:
        _wide_rest(x, np.asarray(y, np.float64), out)
    _sign_like(x, out)


@_paired(_divides)
def remainder(x: Array, y: Any, out: Array) -> None:
    """The remainder of floor division, with the sign of y."""
    if x.dtype.char == "f":
        _rest(np.floor, x, y, out)
    else:
        wide = np.asarray(y, np.float64)
        _wide_rest(x, wide, out)
        if not _has_signs(wide, out):
            np.add(out, wide, out, where=np.multiply(out, wide) < 0)
    _sign_like(y, out)


@_paired(_divides)
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
