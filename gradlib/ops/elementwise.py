"""Pointwise operations of one input: roots, exponentials, trigonometry, rounding, tests for special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array, special
from gradlib.backend.limits import check_format
from gradlib.core.op import composite, op
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import in_single, takes
from gradlib.ops.select import where_op

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clone", "cos", "cosh", "erf", "exp", "exp2", "expm1",
    "floor", "frac", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "nan_to_num", "neg", "positive", "reciprocal",
    "round", "rsqrt", "sgn", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip

LN2 = math.log(2)
LN10 = math.log(10)


# ---- sign and size ------------------------------------------------------------------------------------------------------------


@op(
    "linear", promote=takes("neg", "ifc", "Use ~ or logical_not() to invert a mask.", error=RuntimeError), inplace=True,
    aliases=("negative", "__neg__"), input=lambda g: -g,
)  # fmt: skip
def neg(xp: Any, input: Any) -> Any:
    """Minus each element."""
    return xp.negative(input)


@op(
    "elementwise", promote=takes("abs", "ifc"), complex="explicit", inplace=True, aliases=("absolute", "__abs__"),
    input=lambda g, input: g * sgn(input),
)  # fmt: skip
def abs(xp: Any, input: Any) -> Any:
    """The size of each element, real also for complex ones; its derivative at 0 is 0."""
    return xp.absolute(input)


@op("elementwise", promote=takes("sign", "bif", "Use sgn()."), inplace=True, input=lambda g: zeros_like(g))
def sign(xp: Any, input: Any) -> Any:
    """-1, 0 or 1 by the sign of each element; 0 for NaN, as torch has it."""
    return _sign(xp, input)


def _sign(xp: Any, input: Any) -> Any:
    if input.dtype.kind == "b":
        return input.copy()
    return xp.sign(input if input.dtype.kind in "iu" else xp.where(input == input, input, xp.zeros((), input.dtype)))


def _sgn_slope(g: Any, input: Any, out: Any) -> Any:
    """What turns z also turns z / |z|; what stretches it does not. Zero at zero, and for real numbers."""
    if input.dtype.kind != "c":
        return zeros_like(g)
    size = abs(input)
    return where_op(size == 0, 0, g - out * (g * out.conj()).real) / where_op(size == 0, 1, size)


@op("elementwise", promote="same", complex="explicit", inplace=True, input=_sgn_slope)
def sgn(xp: Any, input: Any) -> Any:
    """Each element divided by its size, 0 where it is 0; the sign of real numbers."""
    if input.dtype.kind != "c":
        return _sign(xp, input)
    size = xp.absolute(input)
    return input / xp.where(size == 0, xp.ones_like(size), size)


def positive(input: Any) -> Any:
    """The tensor itself. Raises: RuntimeError for bool. Source: torch.positive."""
    if input.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


composite(positive, aliases=("__pos__",))


# ---- powers and exponentials --------------------------------------------------------------------------------------------------


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g / (out + out))
def sqrt(xp: Any, input: Any) -> Any:
    """Square root of each element."""
    return xp.sqrt(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out * out * out) * -0.5)
def rsqrt(xp: Any, input: Any) -> Any:
    """One over the square root of each element."""
    return xp.reciprocal(xp.sqrt(input))


def _squarable(values: list[Any]) -> list[Any]:
    return [v.astype(dtypes.int64) if v.dtype.kind == "b" else v for v in values]


def _square_slope(g: Any, input: Any) -> Any:
    """2 input; under ``create_graph`` as a power, which its own derivative (a constant) then leaves in the graph, as in torch."""
    return g * (input + input if is_array(input) else input**1 * 2)


@op("elementwise", promote=_squarable, inplace=True, input=_square_slope)
def square(xp: Any, input: Any) -> Any:
    """Each element times itself."""
    return xp.square(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: -(g * (out * out)))
def reciprocal(xp: Any, input: Any) -> Any:
    """One over each element."""
    return xp.reciprocal(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * out)
def exp(xp: Any, input: Any) -> Any:
    """e to the power of each element."""
    return xp.exp(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * out * LN2)
def exp2(xp: Any, input: Any) -> Any:
    """2 to the power of each element."""
    return xp.exp2(input) if input.dtype.kind != "c" else xp.exp(input * LN2)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out + 1))
def expm1(xp: Any, input: Any) -> Any:
    """exp(x) - 1 of each element, exact also near 0."""
    return xp.expm1(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / input)
def log(xp: Any, input: Any) -> Any:
    """Natural logarithm of each element."""
    return xp.log(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input + 1))
def log1p(xp: Any, input: Any) -> Any:
    """log(1 + x) of each element, exact also near 0."""
    return xp.log1p(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input * LN2))
def log2(xp: Any, input: Any) -> Any:
    """Logarithm to base 2 of each element."""
    return xp.log2(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input * LN10))
def log10(xp: Any, input: Any) -> Any:
    """Logarithm to base 10 of each element."""
    return xp.log10(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out * (1 - out)))
def sigmoid(xp: Any, input: Any) -> Any:
    """1 / (1 + exp(-x)) of each element, exact in both tails."""
    if input.dtype.kind == "c":
        return xp.reciprocal(xp.exp(-input) + 1)
    return xp.exp(xp.minimum(input, 0)) / (xp.exp(-xp.absolute(input)) + 1)


@op(
    "elementwise", promote=takes("erf", "bif", to_float=True), inplace=True,
    input=lambda g, input: g * exp(-(input * input)) * (2 / math.sqrt(math.pi)),
)  # fmt: skip
@in_single
def erf(xp: Any, input: Any) -> Any:
    """The error function of each element. Needs SciPy on the CPU."""
    return special(input).erf(input)


# ---- trigonometry -------------------------------------------------------------------------------------------------------------


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * cos(input))
def sin(xp: Any, input: Any) -> Any:
    """Sine of each element, in radians."""
    return xp.sin(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: -(g * sin(input)))
def cos(xp: Any, input: Any) -> Any:
    """Cosine of each element, in radians."""
    return xp.cos(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out * out + 1))
def tan(xp: Any, input: Any) -> Any:
    """Tangent of each element, in radians."""
    return xp.tan(input)


@op("elementwise", promote="float", inplace=True, aliases=("arcsin",), input=lambda g, input: g / sqrt(1 - input * input))
def asin(xp: Any, input: Any) -> Any:
    """Angle in radians whose sine each element is."""
    return xp.arcsin(input)


@op("elementwise", promote="float", inplace=True, aliases=("arccos",), input=lambda g, input: -(g / sqrt(1 - input * input)))
def acos(xp: Any, input: Any) -> Any:
    """Angle in radians whose cosine each element is."""
    return xp.arccos(input)


@op("elementwise", promote="float", inplace=True, aliases=("arctan",), input=lambda g, input: g / (input * input + 1))
def atan(xp: Any, input: Any) -> Any:
    """Angle in radians whose tangent each element is."""
    return xp.arctan(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * cosh(input))
def sinh(xp: Any, input: Any) -> Any:
    """Hyperbolic sine of each element."""
    return xp.sinh(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * sinh(input))
def cosh(xp: Any, input: Any) -> Any:
    """Hyperbolic cosine of each element."""
    return xp.cosh(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g - g * (out * out))
def tanh(xp: Any, input: Any) -> Any:
    """Hyperbolic tangent of each element."""
    return xp.tanh(input)


@op("elementwise", promote="float", inplace=True, aliases=("arcsinh",), input=lambda g, input: g / sqrt(input * input + 1))
def asinh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic sine each element is."""
    return xp.arcsinh(input)


def _acosh_slope(g: Any, input: Any) -> Any:
    """1 / sqrt(x^2 - 1), on the branch of the complex root that the value takes."""
    return g / (sqrt(input - 1) * sqrt(input + 1) if input.dtype.kind == "c" else sqrt(input * input - 1))


@op("elementwise", promote="float", inplace=True, aliases=("arccosh",), input=_acosh_slope)
def acosh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic cosine each element is."""
    return xp.arccosh(input)


@op("elementwise", promote="float", inplace=True, aliases=("arctanh",), input=lambda g, input: g / (1 - input * input))
def atanh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic tangent each element is."""
    return xp.arctanh(input)


# ---- rounding -----------------------------------------------------------------------------------------------------------------


@op("elementwise", promote=takes("floor", "if"), inplace=True, input=lambda g: zeros_like(g))
def floor(xp: Any, input: Any) -> Any:
    """The largest whole number not above each element."""
    return xp.floor(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", promote=takes("ceil", "if"), inplace=True, input=lambda g: zeros_like(g))
def ceil(xp: Any, input: Any) -> Any:
    """The smallest whole number not below each element."""
    return xp.ceil(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", promote=takes("trunc", "if"), inplace=True, aliases=("fix",), input=lambda g: zeros_like(g))
def trunc(xp: Any, input: Any) -> Any:
    """Each element without what follows the point."""
    return xp.trunc(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", promote=takes("round", "if"), inplace=True, input=lambda g: zeros_like(g))
@in_single
def round(xp: Any, input: Any, decimals: int = 0) -> Any:
    """The nearest number with that many decimals (tens for -1); halves go to the even neighbour."""
    if input.dtype.kind in "iu":
        if decimals:
            raise NotImplementedError(f"round with decimals is not implemented for {input.dtype}, only for floats")
        return input.copy()
    if not decimals:
        return xp.rint(input)
    scale = 10.0 ** math.fabs(decimals)
    return xp.rint(input * scale) / scale if decimals > 0 else xp.rint(input / scale) * scale


@op("elementwise", promote=takes("frac", "f"), inplace=True, input=lambda g: g)
def frac(xp: Any, input: Any) -> Any:
    """What follows the point of each element, with its sign."""
    return input - xp.trunc(input)


# ---- special values -----------------------------------------------------------------------------------------------------------


@op("none", also=("input",))
def isnan(xp: Any, input: Any) -> Any:
    """Whether each element is not a number; for a complex one, whether either part is."""
    return xp.isnan(input)


@op("none", also=("input",))
def isinf(xp: Any, input: Any) -> Any:
    """Whether each element is infinite; for a complex one, whether either part is."""
    return xp.isinf(input)


@op("none", also=("input",))
def isfinite(xp: Any, input: Any) -> Any:
    """Whether each element is neither infinite nor NaN."""
    return xp.isfinite(input)


@op("elementwise", inplace=True, complex="explicit", input=lambda g, input: where_op(isfinite(input), g, 0))
def nan_to_num(xp: Any, input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Each element, NaN and infinities replaced (each part of a complex one).

    Args:
        nan: in place of NaN, 0 when left out.
        posinf, neginf: in place of the infinities; the largest and the smallest finite number when left out.
    Source: torch.nan_to_num.
    """
    if input.dtype.kind in "biu":
        return input.copy()
    if input.dtype.kind == "c":
        result = xp.empty_like(input)
        result.real = nan_to_num.op.value(xp, input.real, nan, posinf, neginf)  # type: ignore[attr-defined]
        result.imag = nan_to_num.op.value(xp, input.imag, nan, posinf, neginf)  # type: ignore[attr-defined]
        return result
    largest = float(np.finfo(input.dtype).max) if input.dtype.kind == "f" else 255 * 2.0**120  # bfloat16
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    result = xp.array(input, order="K", copy=True)
    for found, value in ((xp.isnan(input), 0.0 if nan is None else nan), (input == math.inf, high), (input == -math.inf, low)):
        xp.copyto(result, result.dtype.type(value), where=found)  # not by a mask, whose size a CUDA device must report to the host
    return result


# ---- copies -------------------------------------------------------------------------------------------------------------------


@op("linear", complex="explicit", input=lambda g: g)
def clone(xp: Any, input: Any, memory_format: Any = None) -> Any:
    """A copy in new memory that passes gradients on. Raises: NotImplementedError for channels-last. Source: torch.clone."""
    if memory_format is not None:
        check_format("clone", memory_format)
    return xp.array(input, order="C" if 0 in input.strides else "K", copy=True)  # of what is expanded there is no order to keep
