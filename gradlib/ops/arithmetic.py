"""Pointwise operations of several inputs that calculate: sums, products, quotients, powers, interpolation.

Python's operators go straight to operations of two arguments; ``alpha=``, ``value=`` and ``rounding_mode=`` are functions around them.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array
from gradlib.core.dispatch import operate
from gradlib.core.inplace import write
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor
from gradlib.ops.create import zeros_like
from gradlib.ops.elementwise import log, sigmoid
from gradlib.ops.kinds import takes
from gradlib.ops.select import choose

__all__ = [
    "add", "addcdiv", "addcmul", "arctan2", "atan2", "div", "divide", "floor_divide", "fmod", "hypot", "lerp", "logaddexp", "mul",
    "multiply", "pow", "remainder", "rsub", "sub", "subtract", "true_divide",
]  # fmt: skip


# ---- sums and differences -------------------------------------------------------------------------------------------------------


@op("linear", promote="same", method=False, name="add", aliases=("__add__", "__radd__"), inplace=True, input=lambda g: g, other=lambda g: g)
def plus(xp: Any, input: Any, other: Any) -> Any:
    """Sum of each pair of elements."""
    return xp.add(input, other)


_subtractable = takes("subtraction", "ifc", "Use ^ or logical_xor() on masks.", error=RuntimeError)


@op("linear", promote=_subtractable, method=False, name="sub", aliases=("__sub__",), inplace=True, input=lambda g: g, other=lambda g: -g)
def minus(xp: Any, input: Any, other: Any) -> Any:
    """Difference of each pair of elements."""
    return xp.subtract(input, other)


@op("linear", promote=_subtractable, method=False, name="rsub", aliases=("__rsub__",), input=lambda g: -g, other=lambda g: g)
def minus_from(xp: Any, input: Any, other: Any) -> Any:
    """other minus input."""
    return xp.subtract(other, input)


def _times(other: Any, alpha: Any, *operands: Any) -> Any:
    """other times the factor that ``alpha=`` or ``value=`` gave, which may not be of a higher kind than the result."""
    kind = dtypes.category(dtypes.result_type(*operands, other))
    if isinstance(alpha, bool) and kind > 0:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and kind < 2:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and kind < 3:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return other * alpha if kind else other


@composite
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha * other. Source: torch.add."""
    return plus(input, other if alpha == 1 else _times(other, alpha, input), out=out)


@composite(aliases=("subtract",))
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha * other. Source: torch.sub."""
    return minus(input, other if alpha == 1 else _times(other, alpha, input), out=out)


@composite(method=False)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input. Source: torch.rsub."""
    return minus_from(input if alpha == 1 else _times(input, alpha, other), other)


def _add_in_place(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Add alpha * other to this tensor."""
    return self.__iadd__(other if alpha == 1 else _times(other, alpha, self))


def _sub_in_place(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Subtract alpha * other from this tensor."""
    return self.__isub__(other if alpha == 1 else _times(other, alpha, self))


publish(_add_in_place, "add_")
publish(_sub_in_place, "sub_", "subtract_")


# ---- products and quotients -----------------------------------------------------------------------------------------------------


@op(
    "bilinear", promote="same", inplace=True, aliases=("multiply", "__mul__", "__rmul__"),
    input=lambda g, other: g * other,
    other=lambda g, input: g * input,
)  # fmt: skip
def mul(xp: Any, input: Any, other: Any) -> Any:
    """Product of each pair of elements."""
    return xp.multiply(input, other)


@op(
    "elementwise", promote="float", method=False, name="div", inplace=True, aliases=("__truediv__",),
    input=lambda g, other: g / other,
    other=lambda g, input, other: -(g * ((input / other) / other)),
)  # fmt: skip
def quotient(xp: Any, input: Any, other: Any) -> Any:
    """Each element of input divided by that of other; integers divide to the default float dtype."""
    return xp.true_divide(input, other)


@op(
    "elementwise", promote="float", method=False, name="rdiv", aliases=("__rtruediv__",),
    input=lambda g, input, other: -(g * ((other / input) / input)),
    other=lambda g, input: g / input,
)  # fmt: skip
def quotient_from(xp: Any, input: Any, other: Any) -> Any:
    """Each element of other divided by that of input."""
    return xp.true_divide(other, input)


def are_integers(*values: Any) -> bool:
    """Whether all are arrays or numbers of integers."""
    return all(v.dtype.kind in "iu" if hasattr(v, "dtype") else isinstance(v, int) for v in values)


def _divided(xp: Any, function: Any, input: Any, other: Any) -> Any:
    """A whole-number division; of integers by zero it is an error, on the host, where it is seen without waiting."""
    if xp is not np or not are_integers(input, other):
        return function(input, other)
    try:
        with np.errstate(divide="raise"):
            return function(input, other)
    except FloatingPointError:
        raise RuntimeError(f"ZeroDivisionError: {function.__name__} of integers by zero") from None


@op(
    "elementwise", promote=takes("floor_divide", "if"), inplace=True, aliases=("__floordiv__",),
    input=lambda g: zeros_like(g),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def floor_divide(xp: Any, input: Any, other: Any) -> Any:
    """The largest whole number not above each quotient. Raises: RuntimeError for integers divided by zero."""
    return _divided(xp, xp.floor_divide, input, other)


@op(
    "elementwise", promote=takes("div", "if"), method=False,
    input=lambda g: zeros_like(g),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def trunc_divide(xp: Any, input: Any, other: Any) -> Any:
    """Each quotient without what follows the point. Raises: RuntimeError for integers divided by zero."""
    if not are_integers(input, other):
        return xp.trunc(xp.true_divide(input, other))
    down = _divided(xp, xp.floor_divide, input, other)
    return down + ((down * other != input) & (down < 0))


@composite(aliases=("divide",))
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """Each element of input divided by that of other.

    Args:
        rounding_mode: None for the quotient (integers give floats); "trunc" rounds it to zero, "floor" down, both keep integers.
    Raises: RuntimeError for another mode, and for integers divided by zero under one.
    Source: torch.div.
    """
    if rounding_mode is None:
        return quotient(input, other, out=out)
    if rounding_mode == "floor":
        return floor_divide(input, other, out=out)
    if rounding_mode == "trunc":
        return trunc_divide(input, other, out=out)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}")


@composite
def true_divide(input: Any, other: Any) -> Any:
    """Each element of input divided by that of other. Source: torch.true_divide."""
    return quotient(input, other)


def _div_in_place(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Divide this tensor; rounding_mode as in ``div``."""
    return self.__itruediv__(other) if rounding_mode is None else write(self, lambda x: div(x, other, rounding_mode=rounding_mode), "div_")


publish(_div_in_place, "div_", "divide_", "true_divide_")


@op(
    "elementwise", promote=takes("remainder", "if"), inplace=True, aliases=("__mod__",),
    input=lambda g: g,
    other=lambda g, input, other: -(g * floor_divide(input, other)),
)  # fmt: skip
def remainder(xp: Any, input: Any, other: Any) -> Any:
    """What floor division leaves over, with the sign of other. Raises: RuntimeError for integers divided by zero."""
    return _divided(xp, xp.remainder, input, other)


@op(
    "elementwise", promote=takes("fmod", "if"), inplace=True,
    input=lambda g: g,
    other=lambda g, input, other: -(g * trunc_divide(input, other)),
)  # fmt: skip
def fmod(xp: Any, input: Any, other: Any) -> Any:
    """What division rounded to zero leaves over, with the sign of input. Raises: RuntimeError for integers divided by zero."""
    return _divided(xp, xp.fmod, input, other)


# ---- powers ---------------------------------------------------------------------------------------------------------------------


def _power_of_integers(xp: Any, input: Any, exponent: Any) -> Any:
    """Integer powers; a negative number as the exponent is an error, in a tensor of exponents it gives 0 but for bases 1 and -1."""
    if not is_array(exponent):
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return xp.power(input, exponent)
    negative = exponent < 0
    size = xp.power(input, xp.where(negative, exponent & 1, exponent))
    return xp.where(negative & (input != 1) & (input != -1), 0, size) if exponent.dtype.kind == "i" else size


def _pow_slope(g: Any, input: Any, exponent: Any) -> Any:
    """exponent * input ** (exponent - 1), and 0 for the exponent 0 whatever the base."""
    if hasattr(exponent, "dtype") and not isinstance(exponent, np.generic):
        zero = exponent == 0
        return choose(zero, 0, g * (exponent * input ** choose(zero, 1, exponent - 1)))
    if exponent == 2:
        return g * (input + input)
    if exponent == 1:
        return g
    return g * input ** (exponent - 1) * exponent if exponent != 0 else zeros_like(g)


def _pow_exponent_slope(g: Any, input: Any, exponent: Any) -> Any:
    """input ** exponent * log(input); where the base is 0 and the exponent is not negative, 0."""
    complex_exponent = exponent.dtype.kind == "c"
    harmless = (exponent.imag == 0) & (exponent.real >= 0) if complex_exponent else exponent >= 0
    if not hasattr(input, "dtype"):
        if input == 0:
            return g * choose(harmless, 0.0, -math.inf)
        return g * input**exponent * (cmath.log(input) if complex_exponent or isinstance(input, complex) else _real_log(input))
    base = choose((input == 0) & harmless, 1, input)
    return g * (base**exponent * log(base))


def _real_log(number: float) -> float:
    return math.log(number) if number > 0 else math.nan


@op("elementwise", promote=takes("pow", "ifc"), inplace=True, aliases=("__pow__",), input=_pow_slope, exponent=_pow_exponent_slope)
def pow(xp: Any, input: Any, exponent: Any) -> Any:
    """Each element of input to the power of that of exponent.

    Raises: RuntimeError for integers to a negative number.
    Source: torch.pow.
    """
    if are_integers(input, exponent):
        return _power_of_integers(xp, input, exponent)
    if isinstance(exponent, (int, float)) and exponent == 3:
        return input * input * input
    return input**exponent  # the operator knows the short ways for 2, 1/2 and -1, the function does not


def _reflected(operation: Any) -> Any:
    """The operator for the case that this tensor is the second operand."""

    def reflected(self: Tensor, other: Any) -> Any:
        return operate(operation.op, (other, self))

    reflected.__doc__ = f"``{operation.op.name}`` of another operand and this tensor."
    return reflected


publish(_reflected(floor_divide), "__rfloordiv__")
publish(_reflected(remainder), "__rmod__")
publish(_reflected(pow), "__rpow__")


# ---- of the plane, and of exponentials ------------------------------------------------------------------------------------------


@op(
    "elementwise", promote=takes("atan2", "bif", to_float=True), inplace=True, aliases=("arctan2",),
    input=lambda g, input, other: g * (other / (input * input + other * other)),
    other=lambda g, input, other: -(g * (input / (input * input + other * other))),
)  # fmt: skip
def atan2(xp: Any, input: Any, other: Any) -> Any:
    """The angle in radians of the point (other, input), between -pi and pi."""
    return xp.arctan2(input, other)


@op(
    "elementwise", promote=takes("hypot", "bif", to_float=True), inplace=True,
    input=lambda g, input, out: g * (input / out),
    other=lambda g, other, out: g * (other / out),
)  # fmt: skip
def hypot(xp: Any, input: Any, other: Any) -> Any:
    """The length of the hypotenuse: sqrt(input^2 + other^2) without overflow on the way."""
    return xp.hypot(input, other)


@op(
    "elementwise", promote="float",
    input=lambda g, input, other: g * sigmoid(input - other),
    other=lambda g, input, other: g * sigmoid(other - input),
)  # fmt: skip
def logaddexp(xp: Any, input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) without overflow on the way."""
    if not any(getattr(v, "dtype", None) and v.dtype.kind == "c" for v in (input, other)):
        return xp.logaddexp(input, other)
    swapped = input.real < other.real
    return xp.where(swapped, other, input) + xp.log1p(xp.exp(xp.where(swapped, input - other, other - input)))


# ---- between and beside -----------------------------------------------------------------------------------------------------------


@op(
    "elementwise", promote=takes("lerp", "fc"), inplace=True,
    input=lambda g, weight: g - g * weight,
    end=lambda g, weight: g * weight,
    weight=lambda g, input, end: g * (end - input),
)  # fmt: skip
def lerp(xp: Any, input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input), exactly end for the weight 1.

    Args:
        weight: a number or a tensor that broadcasts with the others.
    Source: torch.lerp.
    """
    way = end - input
    if not is_array(weight):
        return input + way * weight if np.abs(weight) < 0.5 else end - way * (1 - weight)
    return xp.where(xp.absolute(weight) < 0.5, input + way * weight, end - way * (1 - weight))


@composite(inplace=True)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2. Source: torch.addcmul."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else _times(product, value, input))


@composite(inplace=True)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2. Raises: RuntimeError when both tensors are of integers. Source: torch.addcdiv."""
    if dtypes.category(dtypes.result_type(tensor1, tensor2)) < 2:
        raise RuntimeError("addcdiv does not divide integers by integers; convert one of them to floats, or use div(rounding_mode=...)")
    ratio = tensor1 / tensor2
    return input + (ratio if value == 1 else _times(ratio, value, input))


subtract, multiply, divide, arctan2 = sub, mul, div, atan2
