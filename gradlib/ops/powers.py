"""Powers, and functions of two inputs that are made of powers: angles and lengths in the plane, sums of exponentials."""

from __future__ import annotations

import cmath
import functools
import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise, vectorised
from gradlib.backend.array import is_array
from gradlib.backend.kernel_text import CTYPES, EXACT
from gradlib.core.compile import compile_call, named
from gradlib.core.op import op, publish
from gradlib.ops.create import ones_like, zeros_like
from gradlib.ops.dtype_rules import by_dtype, refuse_beyond, takes
from gradlib.ops.elementwise import log, sigmoid
from gradlib.ops.select import where_op

__all__ = ["atan2", "hypot", "logaddexp", "pow"]


# ---- powers ---------------------------------------------------------------------------------------------------------------------


def _power_of_integers(xp: Any, input: Any, exponent: Any) -> Any:
    """Integer powers; a negative exponent in a tensor gives 0 but for the bases 1 and -1."""
    if not is_array(exponent):
        return xp.power(input, exponent)
    negative = exponent < 0
    size = xp.power(input, xp.where(negative, exponent & 1, exponent))
    return xp.where(negative & (input != 1) & (input != -1), 0, size) if exponent.dtype.kind == "i" else size


def _of_zeros(power: Any, input: Any, exponent: Any) -> Any:
    """NumPy's complex power, but 0 to the power of a number with a negative real part is infinite, as in C."""
    if np.count_nonzero(input) == (input.size if is_array(input) else 1):
        return power
    return np.where(np.equal(input, 0) & (np.real(exponent) < 0), power.dtype.type(complex(math.inf, math.nan)), power)


def _pow_slope(g: Any, input: Any, exponent: Any) -> Any:
    """exponent * input ** (exponent - 1), and 0 for the exponent 0 whatever the base."""
    if hasattr(exponent, "dtype") and not isinstance(exponent, np.generic):
        zero = exponent == 0
        return where_op(zero, 0, g * (exponent * input ** where_op(zero, 1, exponent - 1)))
    if exponent == 0:
        return zeros_like(g)
    if is_array(input):  # to first order there are shorter ways, which say no more that the slope is a power itself
        if exponent == 2:
            return g * (input + input)
        if exponent == 1:
            return g
    return g * input ** (exponent - 1) * exponent


def _pow_exponent_slope(g: Any, input: Any, exponent: Any) -> Any:
    """input ** exponent * log(input); where the base is 0 and the exponent is not negative, 0."""
    complex_exponent = exponent.dtype.kind == "c"
    harmless = (exponent.imag == 0) & (exponent.real >= 0) if complex_exponent else exponent >= 0
    if not hasattr(input, "dtype"):
        if input == 0:
            return g * where_op(harmless, 0.0, exponent - math.inf)
        return g * input**exponent * (cmath.log(input) if complex_exponent or isinstance(input, complex) else _real_log(input))
    power = input**exponent
    return g * (power * log(where_op((input == 0) & harmless, ones_like(power), input)))


def _real_log(number: float) -> float:
    return math.log(number) if number > 0 else math.nan


def _powers_meet(values: list[Any]) -> list[Any]:
    if isinstance(values[1], bool) and is_array(values[0]) and values[0].dtype.kind == "b":
        return values
    for number, other in (values[::-1], values):  # of every dtype of integers
        if type(number) is int and 0 <= number < 128 and getattr(other, "dtype", dtypes.bool_).kind in "iu":
            number = other.dtype.type(number)
            return [other, number] if other is values[0] else [number, other]
    met = _power_kinds(values)
    if isinstance(values[1], int) and met[0].dtype.kind in "iu":
        if values[1] < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        dtypes.fitted(values[1], met[0].dtype)
    if is_array(met[0]) and dtypes.is_half(met[0].dtype):
        refuse_beyond(values[1:], met[0].dtype)
    return met


_power_kinds = takes("pow", "ifc")
by_dtype(_powers_meet, sees_numbers=True)


def _pow_on_device(input: Any, exponent: Any) -> Any:
    """``pow`` of CuPy arrays, by what there is a kernel for; None where there is none."""
    if type(input) is type(exponent):
        if input.dtype.char in CTYPES and exponent.dtype.char in CTYPES:
            return pointwise.function("power")(input, exponent)
        return _integers_on_device()(input, exponent) if exponent.dtype.kind in "iu" else None
    if isinstance(exponent, (float, int, np.generic)):
        if type(exponent) is bool:
            return None
        if input.dtype.char in CTYPES:
            if exponent in _ROOTS:
                return pointwise.function(_ROOTS[exponent])(input)
            if exponent == 3:
                times = pointwise.function("multiply")
                return times(times(input, input), input)
            if exponent == -1:
                return pointwise.function("divide")(1, input)
            return pointwise.function("power")(input, exponent)
        if input.dtype.kind == "c":
            return input**exponent if exponent != 3 else None
        if exponent == 2 and input.dtype.char in EXACT:
            return pointwise.function("multiply")(input, input)
        return _integers_on_device()(input, exponent) if input.dtype.kind in "iu" else None
    return None


@functools.cache
def _integers_on_device() -> Any:
    """Powers of CuPy arrays of integers."""
    return pointwise.of_two("power", functools.partial(_power_of_integers, pointwise.prepared()))


_ROOTS: dict[Any, str] = {2: "square", 0.5: "sqrt"}


@op(
    "elementwise", promote=_powers_meet, inplace=True, aliases=("__pow__",), kernels={"out": _pow_on_device},
    input=_pow_slope, exponent=_pow_exponent_slope,
)  # fmt: skip
def pow(xp: Any, input: Any, exponent: Any) -> Any:
    """Each element of input to the power of that of exponent.

    Args:
        input, exponent: tensors that broadcast together, or numbers, one of them a tensor.
    Raises: RuntimeError for integers to a negative number.
    Source: torch.pow.
    Example:
        >>> gradlib.pow(gradlib.tensor([2.0, 3.0]), 2)
        tensor([4., 9.])
    """
    if isinstance(exponent, bool) and input.dtype.kind == "b":
        return xp.logical_or(input, not exponent)
    if dtypes.are_integers(input, exponent):
        return _power_of_integers(xp, input, exponent)
    if isinstance(exponent, (int, float)) and exponent == 3:
        return input * input * input
    power = input**exponent  # the operator knows the short ways for 2, 1/2 and -1, the function does not
    if xp is not np or power.dtype.kind != "c" or (not is_array(exponent) and exponent.real >= 0):
        return power
    return _of_zeros(power, input, exponent)


def _rpow_on_device(input: Any, other: Any) -> Any:
    """The same of ``rpow``."""
    if input.dtype.kind in "iu":
        return _integers_on_device()(other, input)
    if isinstance(other, (float, int)) and type(other) is not bool and input.dtype.char in CTYPES:
        return pointwise.function("power")(other, input)
    return _pow_on_device(other, input)


@op(
    "elementwise", promote=by_dtype(lambda values: _powers_meet(values[::-1])[::-1], sees_numbers=True), method=False,
    kernels={"out": _rpow_on_device},
    input=lambda g, input, other: _pow_exponent_slope(g, other, input),
    other=lambda g, input, other: _pow_slope(g, other, input),
)  # fmt: skip
def rpow(xp: Any, input: Any, other: Any) -> Any:
    """Other to the power of each element of input."""
    return pow.op.value(xp, other, input)  # type: ignore[attr-defined]


publish(compile_call(named(rpow, "pow").op, operator=True), "__rpow__")  # type: ignore[attr-defined]


# ---- of the plane, and of exponentials ------------------------------------------------------------------------------------------


def _across(g: Any, leg: Any, other: Any) -> Any:
    """g * leg / (leg^2 + other^2), without overflow on the way; 0 at the origin, where there is no angle."""
    if (made := vectorised.across(g, leg, other)) is not None:
        return made
    size = hypot(leg, other)
    size = where_op(size == 0, 1, size)
    return g * (leg / size / size)


@op(
    "elementwise", promote=takes("atan2", "bif", to_float=True), inplace=True, aliases=("arctan2",),
    input=lambda g, input, other: _across(g, other, input),
    other=lambda g, input, other: -_across(g, input, other),
)  # fmt: skip
def atan2(xp: Any, input: Any, other: Any) -> Any:
    """The angle in radians of the point (other, input), between -pi and pi.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float; bools and integers become the default float
            dtype.
    Source: torch.atan2.
    Example:
        >>> gradlib.atan2(gradlib.tensor([1.0, -1.0]), gradlib.tensor([-1.0, 1.0]))
        tensor([ 2.3562, -0.7854])
    """
    return vectorised.arctan2(xp, input, other)


@op(
    "elementwise", promote=takes("hypot", "bif", to_float=True), inplace=True,
    input=lambda g, input, out: g * (input / out),
    other=lambda g, other, out: g * (other / out),
)  # fmt: skip
def hypot(xp: Any, input: Any, other: Any) -> Any:
    """The length of the hypotenuse: sqrt(input^2 + other^2) without overflow on the way.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float; bools and integers become the default float
            dtype.
    Source: torch.hypot.
    Example:
        >>> gradlib.hypot(gradlib.tensor([3.0]), gradlib.tensor([4.0]))
        tensor([5.])
    """
    return vectorised.hypot(xp, input, other)


@op(
    "elementwise", promote="float", device="logaddexp",
    input=lambda g, input, other: g * sigmoid(input - other),
    other=lambda g, input, other: g * sigmoid(other - input),
)  # fmt: skip
def logaddexp(xp: Any, input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) without overflow on the way.

    Args:
        input, other: tensors that broadcast together, or numbers; float or complex; bools and integers become the default float dtype.
    Source: torch.logaddexp.
    Example:
        >>> gradlib.logaddexp(gradlib.tensor([1000.0]), gradlib.tensor([1000.0]))
        tensor([1000.6932])
    """
    if not any(getattr(v, "dtype", None) and v.dtype.kind == "c" for v in (input, other)):
        return vectorised.logaddexp(xp, input, other)
    swapped = input.real < other.real
    return xp.where(swapped, other, input) + xp.log1p(xp.exp(xp.where(swapped, input - other, other - input)))
