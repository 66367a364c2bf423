"""Pointwise operations of one input: roots, exponentials, trigonometry, rounding, tests for special values."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise, vectorised
from gradlib.backend.array import all_finite, copy, cupy, is_array, zero_d
from gradlib.backend.formulas import formula
from gradlib.backend.limits import check_format
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
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
    """Minus each element.

    Args:
        input: any shape; integer, float or complex.
    Source: torch.neg.
    Example:
        >>> gradlib.neg(gradlib.tensor([1, -2]))
        tensor([-1,  2])
    """
    return xp.negative(input)


@op(
    "elementwise", promote=takes("abs", "ifc"), complex="explicit", inplace=True, aliases=("absolute", "__abs__"),
    input=lambda g, input: g * sgn(input),
)  # fmt: skip
def abs(xp: Any, input: Any) -> Any:
    """The size of each element, real also for complex ones; its derivative at 0 is 0.

    Args:
        input: any shape; integer, float or complex.
    Source: torch.abs.
    Example:
        >>> gradlib.abs(gradlib.tensor([-1.5, 2.0]))
        tensor([1.5000, 2.0000])
    """
    return xp.absolute(input)


@op("elementwise", promote=takes("sign", "bif", "Use sgn()."), inplace=True, input=lambda g: zeros_like(g))
def sign(xp: Any, input: Any) -> Any:
    """-1, 0 or 1 by the sign of each element; 0 for NaN, as torch has it.

    Args:
        input: any shape; bool, integer or float.
    Source: torch.sign.
    Example:
        >>> gradlib.sign(gradlib.tensor([-2.0, 0.0, 3.0]))
        tensor([-1.,  0.,  1.])
    """
    return _sign(xp, input)


def _signum_of_any(input: Any) -> Any:
    made = cupy().sign(input)
    return cupy().where(made == made, made, input.dtype.type(0))


@functools.cache
def _signum() -> Any:
    """``sign`` of CuPy arrays of floats."""
    return pointwise.of_one("signum", _signum_of_any)


def _sign(xp: Any, input: Any) -> Any:
    if input.dtype.kind == "b":
        return input.copy()
    if input.dtype.kind in "iu":
        return xp.sign(input)
    if xp is np and 0 < input.size < vectorised.LEAST and input.dtype.char in "fd":
        made = np.sign(input)
        if (largest := made.item(made.argmax())) == largest:  # NaN would be the largest
            return made
    if xp is not np:
        return _signum()(input)
    zero = zero_d(0.0, input.dtype)
    made = np.greater(input, zero).view(dtypes.int8)
    made -= np.less(input, zero).view(dtypes.int8)
    return made.astype(input.dtype)  # neither holds for NaN


def _sgn_slope(g: Any, input: Any, out: Any) -> Any:
    """The gradient of z / |z|: only the part of a change that turns z counts, not the part along z. Zero at zero, and for real numbers."""
    if input.dtype.kind != "c":
        return zeros_like(g)
    size = abs(input)
    return where_op(size == 0, 0, g - out * (g * out.conj()).real) / where_op(size == 0, 1, size)


@op("elementwise", promote="same", complex="explicit", inplace=True, input=_sgn_slope)
def sgn(xp: Any, input: Any) -> Any:
    """Each element divided by its size, 0 where it is 0; the sign of real numbers.

    Args:
        input: any shape; any dtype.
    Source: torch.sgn.
    Example:
        >>> gradlib.sgn(gradlib.tensor([3 + 4j, 0j]))
        tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if input.dtype.kind != "c":
        return _sign(xp, input)
    size = xp.absolute(input)
    return input / xp.where(size == 0, xp.ones_like(size), size)


@composite(aliases=("__pos__",))
def positive(input: Any) -> Any:
    """The tensor itself.

    Args:
        input: any shape; integer, float or complex.
    Raises: RuntimeError for bool.
    Source: torch.positive.
    Example:
        >>> gradlib.positive(gradlib.tensor([1, -2]))
        tensor([ 1, -2])
    """
    if input.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# ---- powers and exponentials --------------------------------------------------------------------------------------------------


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g / (out + out))
def sqrt(xp: Any, input: Any) -> Any:
    """Square root of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.sqrt.
    Example:
        >>> gradlib.sqrt(gradlib.tensor([4.0, 9.0]))
        tensor([2., 3.])
    """
    return xp.sqrt(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out * out * out) * -0.5, kernels={"out": "reciprocal_root"})
def rsqrt(xp: Any, input: Any) -> Any:
    """One over the square root of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.rsqrt.
    Example:
        >>> gradlib.rsqrt(gradlib.tensor([4.0, 16.0]))
        tensor([0.5000, 0.2500])
    """
    return vectorised.reciprocal_root(xp, input)


def _squarable(values: list[Any]) -> list[Any]:
    return [v.astype(dtypes.int64) if v.dtype.kind == "b" else v for v in values]


def _square_slope(g: Any, input: Any) -> Any:
    """2 input; under ``create_graph`` as a power, which its own derivative (a constant) then leaves in the graph, as in torch."""
    return g * (input + input if is_array(input) else input**1 * 2)


@op("elementwise", promote=_squarable, inplace=True, input=_square_slope)
def square(xp: Any, input: Any) -> Any:
    """Each element times itself.

    Args:
        input: any shape; bool, integer, float or complex.
    Source: torch.square.
    Example:
        >>> gradlib.square(gradlib.tensor([-2.0, 3.0]))
        tensor([4., 9.])
    """
    return xp.square(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: -(g * (out * out)))
def reciprocal(xp: Any, input: Any) -> Any:
    """One over each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.reciprocal.
    Example:
        >>> gradlib.reciprocal(gradlib.tensor([2.0, 4.0]))
        tensor([0.5000, 0.2500])
    """
    return vectorised.reciprocal(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * out)
def exp(xp: Any, input: Any) -> Any:
    """e to the power of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.exp.
    Example:
        >>> gradlib.exp(gradlib.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * out * LN2)
def exp2(xp: Any, input: Any) -> Any:
    """2 to the power of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.exp2.
    Example:
        >>> gradlib.exp2(gradlib.tensor([0.0, 3.0]))
        tensor([1., 8.])
    """
    return xp.exp2(input) if input.dtype.kind != "c" else xp.exp(input * LN2)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out + 1))
def expm1(xp: Any, input: Any) -> Any:
    """exp(x) - 1 of each element, exact also near 0.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.expm1.
    Example:
        >>> gradlib.expm1(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 1.7183])
    """
    return vectorised.expm1(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / input)
def log(xp: Any, input: Any) -> Any:
    """Natural logarithm of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.log.
    Example:
        >>> gradlib.log(gradlib.tensor([1.0, gradlib.e]))
        tensor([0., 1.])
    """
    return xp.log(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input + 1))
def log1p(xp: Any, input: Any) -> Any:
    """log(1 + x) of each element, exact also near 0.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.log1p.
    Example:
        >>> gradlib.log1p(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """
    return vectorised.log1p(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input * LN2))
def log2(xp: Any, input: Any) -> Any:
    """Logarithm to base 2 of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.log2.
    Example:
        >>> gradlib.log2(gradlib.tensor([1.0, 8.0]))
        tensor([0., 3.])
    """
    return xp.log2(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g / (input * LN10))
def log10(xp: Any, input: Any) -> Any:
    """Logarithm to base 10 of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.log10.
    Example:
        >>> gradlib.log10(gradlib.tensor([2.0, 50.0]))
        tensor([0.3010, 1.6990])
    """
    return vectorised.log10(xp, input)


def _sigmoid_slope(g: Any, out: Any) -> Any:
    return sigmoid_backward(g, out) if isinstance(out, Tensor) else g * (out * (1 - out))


@op(
    "elementwise", promote="same", method=False,
    grad_output=lambda g, result: _sigmoid_slope(g, result), result=lambda g, grad_output, result: g * grad_output * (1 - 2 * result),
)  # fmt: skip
def sigmoid_backward(xp: Any, grad_output: Any, result: Any) -> Any:
    """The gradient of ``sigmoid`` where that gave result; second derivatives record it as one operation."""
    return grad_output * (result * (1 - result))


@op(
    "elementwise", promote="float", inplace=True, device="sigmoid",
    device_into=lambda input: pointwise.into("sigmoid")(input),
    input=_sigmoid_slope,
)  # fmt: skip
@in_single
def sigmoid(xp: Any, input: Any) -> Any:
    """1 / (1 + exp(-x)) of each element, exact in both tails.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.sigmoid.
    Example:
        >>> gradlib.sigmoid(gradlib.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
    if input.dtype.kind == "c":
        return xp.reciprocal(xp.exp(-input) + 1)
    return vectorised.sigmoid(xp, input)


@op(
    "elementwise", promote=takes("erf", "bif", to_float=True), inplace=True,
    input=lambda g, input: g * exp(-(input * input)) * (2 / math.sqrt(math.pi)), kernels={"out": "erf"},
)  # fmt: skip
@in_single
def erf(xp: Any, input: Any) -> Any:
    """The error function of each element. Needs SciPy on the CPU.

    Args:
        input: any shape; bool, integer or float; bools and integers become the default float dtype.
    Source: torch.erf.
    Example:
        >>> gradlib.erf(gradlib.tensor([0.0, 0.5]))
        tensor([0.0000, 0.5205])
    """
    return vectorised.erf(input)


# ---- trigonometry -------------------------------------------------------------------------------------------------------------


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * cos(input))
def sin(xp: Any, input: Any) -> Any:
    """Sine of each element, in radians.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.sin.
    Example:
        >>> gradlib.sin(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8415])
    """
    return vectorised.sin(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: -(g * sin(input)))
def cos(xp: Any, input: Any) -> Any:
    """Cosine of each element, in radians.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.cos.
    Example:
        >>> gradlib.cos(gradlib.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5403])
    """
    return vectorised.cos(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g * (out * out + 1))
def tan(xp: Any, input: Any) -> Any:
    """Tangent of each element, in radians.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.tan.
    Example:
        >>> gradlib.tan(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 1.5574])
    """
    return vectorised.tan(xp, input)


@op("elementwise", promote="float", inplace=True, aliases=("arcsin",), input=lambda g, input: g / sqrt(1 - input * input))
def asin(xp: Any, input: Any) -> Any:
    """Angle in radians whose sine each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.asin.
    Example:
        >>> gradlib.asin(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 1.5708])
    """
    return vectorised.arcsin(xp, input)


@op("elementwise", promote="float", inplace=True, aliases=("arccos",), input=lambda g, input: -(g / sqrt(1 - input * input)))
def acos(xp: Any, input: Any) -> Any:
    """Angle in radians whose cosine each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.acos.
    Example:
        >>> gradlib.acos(gradlib.tensor([0.0, 1.0]))
        tensor([1.5708, 0.0000])
    """
    return vectorised.arccos(xp, input)


@op("elementwise", promote="float", inplace=True, aliases=("arctan",), input=lambda g, input: g / (input * input + 1))
def atan(xp: Any, input: Any) -> Any:
    """Angle in radians whose tangent each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.atan.
    Example:
        >>> gradlib.atan(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7854])
    """
    return vectorised.arctan(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * cosh(input))
def sinh(xp: Any, input: Any) -> Any:
    """Hyperbolic sine of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.sinh.
    Example:
        >>> gradlib.sinh(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 1.1752])
    """
    return vectorised.sinh(xp, input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * sinh(input))
def cosh(xp: Any, input: Any) -> Any:
    """Hyperbolic cosine of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.cosh.
    Example:
        >>> gradlib.cosh(gradlib.tensor([0.0, 1.0]))
        tensor([1.0000, 1.5431])
    """
    return vectorised.cosh(xp, input)


def _tanh_slope(g: Any, out: Any) -> Any:
    return tanh_backward(g, out) if isinstance(out, Tensor) else g * (1 - out * out)


@op(
    "elementwise", promote="same", method=False,
    grad_output=lambda g, result: _tanh_slope(g, result), result=lambda g, grad_output, result: g * grad_output * (-2 * result),
)  # fmt: skip
def tanh_backward(xp: Any, grad_output: Any, result: Any) -> Any:
    """The gradient of ``tanh`` where that gave result; second derivatives record it as one operation."""
    return grad_output * (1 - result * result)


@op("elementwise", promote="float", inplace=True, input=_tanh_slope)
def tanh(xp: Any, input: Any) -> Any:
    """Hyperbolic tangent of each element.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.tanh.
    Example:
        >>> gradlib.tanh(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
    return xp.tanh(input)


@op("elementwise", promote="float", inplace=True, aliases=("arcsinh",), input=lambda g, input: g / sqrt(input * input + 1))
def asinh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic sine each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.asinh.
    Example:
        >>> gradlib.asinh(gradlib.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8814])
    """
    return xp.arcsinh(input)


def _acosh_slope(g: Any, input: Any) -> Any:
    """1 / sqrt(x^2 - 1), on the branch of the complex root that the value takes."""
    return g / (sqrt(input - 1) * sqrt(input + 1) if input.dtype.kind == "c" else sqrt(input * input - 1))


@op("elementwise", promote="float", inplace=True, aliases=("arccosh",), input=_acosh_slope)
def acosh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic cosine each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.acosh.
    Example:
        >>> gradlib.acosh(gradlib.tensor([1.0, 2.0]))
        tensor([0.0000, 1.3170])
    """
    return xp.arccosh(input)


@op("elementwise", promote="float", inplace=True, aliases=("arctanh",), input=lambda g, input: g / (1 - input * input))
def atanh(xp: Any, input: Any) -> Any:
    """Number whose hyperbolic tangent each element is.

    Args:
        input: any shape; float or complex; bools and integers become the default float dtype.
    Source: torch.atanh.
    Example:
        >>> gradlib.atanh(gradlib.tensor([0.0, 0.5]))
        tensor([0.0000, 0.5493])
    """
    return vectorised.arctanh(xp, input)


# ---- rounding -----------------------------------------------------------------------------------------------------------------


@op("elementwise", promote=takes("floor", "if"), inplace=True, input=lambda g: zeros_like(g))
def floor(xp: Any, input: Any) -> Any:
    """The largest whole number not above each element.

    Args:
        input: any shape; integer or float.
    Source: torch.floor.
    Example:
        >>> gradlib.floor(gradlib.tensor([-0.5, 1.2]))
        tensor([-1.,  1.])
    """
    return xp.floor(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", promote=takes("ceil", "if"), inplace=True, input=lambda g: zeros_like(g))
def ceil(xp: Any, input: Any) -> Any:
    """The smallest whole number not below each element.

    Args:
        input: any shape; integer or float.
    Source: torch.ceil.
    Example:
        >>> gradlib.ceil(gradlib.tensor([-0.5, 1.2]))
        tensor([-0., 2.])
    """
    return xp.ceil(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", promote=takes("trunc", "if"), inplace=True, aliases=("fix",), input=lambda g: zeros_like(g))
def trunc(xp: Any, input: Any) -> Any:
    """Each element without what follows the point.

    Args:
        input: any shape; integer or float.
    Source: torch.trunc.
    Example:
        >>> gradlib.trunc(gradlib.tensor([-1.7, 1.7]))
        tensor([-1.,  1.])
    """
    return xp.trunc(input) if input.dtype.kind not in "iu" else input.copy()


@op("elementwise", keyword_only=("decimals",), promote=takes("round", "if"), inplace=True, input=lambda g: zeros_like(g))
@in_single
def round(xp: Any, input: Any, decimals: int = 0) -> Any:
    """The nearest number with that many decimals (tens for -1); halves go to the even neighbour.

    Args:
        input: any shape; integer or float.
        decimals: how many places are kept behind the point; 0 for integers.
    Raises: NotImplementedError for integers with decimals.
    Source: torch.round.
    Example:
        >>> gradlib.round(gradlib.tensor([0.5, 1.5, 2.345]), decimals=2)
        tensor([0.5000, 1.5000, 2.3400])
    """
    if input.dtype.kind in "iu":
        if decimals:
            raise NotImplementedError(f"round with decimals is not implemented for {input.dtype}, only for floats")
        return input.copy()
    if not decimals:
        return xp.rint(input)
    scale = 10.0 ** math.fabs(operator.index(decimals))
    return xp.rint(input * scale) / scale if decimals > 0 else xp.rint(input / scale) * scale


@op("elementwise", promote=takes("frac", "f"), inplace=True, input=lambda g: g, kernels={"out": "frac"})
def frac(xp: Any, input: Any) -> Any:
    """The fractional part of each element, with its sign.

    Args:
        input: any shape; float.
    Source: torch.frac.
    Example:
        >>> gradlib.frac(gradlib.tensor([-1.5, 2.25]))
        tensor([-0.5000,  0.2500])
    """
    return vectorised.fraction(xp, input)


# ---- special values -----------------------------------------------------------------------------------------------------------


@op("none", also=("input",))
def isnan(xp: Any, input: Any) -> Any:
    """Whether each element is not a number; for a complex one, whether either part is.

    Args:
        input: any shape and dtype.
    Source: torch.isnan.
    Example:
        >>> gradlib.isnan(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([False, False,  True])
    """
    return xp.isnan(input)


@op("none", also=("input",))
def isinf(xp: Any, input: Any) -> Any:
    """Whether each element is infinite; for a complex one, whether either part is.

    Args:
        input: any shape and dtype.
    Source: torch.isinf.
    Example:
        >>> gradlib.isinf(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([False,  True, False])
    """
    return xp.isinf(input)


@op("none", also=("input",))
def isfinite(xp: Any, input: Any) -> Any:
    """Whether each element is neither infinite nor NaN.

    Args:
        input: any shape and dtype.
    Source: torch.isfinite.
    Example:
        >>> gradlib.isfinite(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([ True, False, False])
    """
    return xp.isfinite(input)


@functools.cache
def _extremes(dtype: Any) -> tuple[Any, Any]:
    """The largest and the smallest finite number of a real float dtype, of that type."""
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else 255 * 2.0**120  # bfloat16
    return dtype.type(largest), dtype.type(-largest)


def _finite_on_device(input: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """``nan_to_num`` of CuPy arrays, of complex ones as of their parts."""
    dtype = dtypes.to_real(input.dtype)
    if dtype.kind in "biu" or not input._c_contiguous:
        return None
    parts = input if dtype is input.dtype else input.reshape(-1).view(dtype)
    high, low = _extremes(dtype)
    instead = 0.0 if nan is None else nan
    made = formula("nan_to_num")(parts, instead, high if posinf is None else posinf, low if neginf is None else neginf)
    return made if parts is input or made is None else made.view(input.dtype).reshape(input.shape)


@op(
    "elementwise", inplace=True, complex="explicit", input=lambda g, input: where_op(isfinite(input), g, 0),
    kernels={"out": _finite_on_device},
)  # fmt: skip
def nan_to_num(xp: Any, input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Each element, NaN and infinities replaced (each part of a complex one).

    Args:
        nan: in place of NaN, 0 when left out.
        posinf, neginf: in place of the infinities; the largest and the smallest finite number when left out.
    Source: torch.nan_to_num.
    Example:
        >>> gradlib.nan_to_num(gradlib.tensor([1.0, gradlib.nan]), nan=0.0)
        tensor([1., 0.])
    """
    nan = None if nan is None else float(nan)
    posinf = None if posinf is None else float(posinf)
    neginf = None if neginf is None else float(neginf)
    if input.dtype.kind in "biu":
        return input.copy()
    if input.dtype.kind == "c":
        result = xp.empty_like(input)
        result.real = nan_to_num.op.value(xp, input.real, nan, posinf, neginf)  # type: ignore[attr-defined]
        result.imag = nan_to_num.op.value(xp, input.imag, nan, posinf, neginf)  # type: ignore[attr-defined]
        return result
    if xp is np and all_finite(input):
        return input.copy("K")
    high, low = _extremes(input.dtype)
    high, low = high if posinf is None else posinf, low if neginf is None else neginf
    result = xp.array(input, order="K", copy=True)
    with np.errstate(over="ignore"):
        for found, value in ((xp.isnan(input), 0.0 if nan is None else nan), (input == math.inf, high), (input == -math.inf, low)):
            xp.copyto(result, result.dtype.type(value), where=found)  # not by a mask, whose size a CUDA device must report to the host
    return result


# ---- copies -------------------------------------------------------------------------------------------------------------------


@op("linear", complex="explicit", input=lambda g: g)
def clone(xp: Any, input: Any, memory_format: Any = None) -> Any:
    """A copy in new memory that passes gradients on.

    Args:
        input: any shape and dtype.
        memory_format: None, or one that keeps the order of elements.
    Raises: NotImplementedError for channels-last.
    Source: torch.clone.
    Example:
        >>> x = gradlib.ones(2)
        >>> gradlib.clone(x).add_(1), x
        (tensor([2., 2.]), tensor([1., 1.]))
    """
    if memory_format is not None:
        check_format("clone", memory_format)
    return copy(input)
