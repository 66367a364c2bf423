"""Pointwise operations of one input: signs, roots, exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise, vectorised
from gradlib.backend.array import is_array, zero_d
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import by_dtype, in_single, takes
from gradlib.ops.select import where_op

__all__ = [
    "abs", "erf", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "neg", "positive", "reciprocal", "rsqrt", "sgn", "sigmoid",
    "sign", "sqrt", "square",
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


@op("elementwise", promote=takes("sign", "bif", "Use sgn()."), inplace=True, device="signum", input=lambda g: zeros_like(g))
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
        made = xp.sign(input)
        return xp.where(made == made, made, input.dtype.type(0))
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


@op("elementwise", promote="same", complex="explicit", inplace=True, device="signum", input=_sgn_slope)
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


@by_dtype
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
    if input.dtype.kind != "c":
        return xp.exp2(input)
    scaled = xp.empty_like(input)  # each part by itself: the product with a complex log(2) has NaN where one part is infinite
    scaled.real, scaled.imag = input.real * LN2, input.imag * LN2
    return xp.exp(scaled)


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
    return vectorised.log1p(xp, input) if input.dtype.kind != "c" else _complex_log1p(xp, input)


def _complex_log1p(xp: Any, x: Any) -> Any:
    """log(1 + x), where NumPy and CuPy take the logarithm of the rounded sum: log(s) / (s - 1) changes slowly with s (Kahan)."""
    s = x - -1  # a difference keeps the sign of zero that tells the side of the cut
    near = s - 1
    small = abs(near) < np.finfo(x.dtype).eps
    rounded = (near != x) & ~small & xp.isfinite(x)
    made = xp.log(s)
    made = xp.where(rounded, made * xp.where(rounded, x / xp.where(rounded, near, 1), 1), made)
    return xp.where(small, x, made)


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
    if xp is np or input.dtype.kind != "c":
        return xp.log2(input)
    made = xp.log(input)  # CuPy's log2 multiplies by a complex number, which makes NaN of infinity times 0
    made.real *= 1 / LN2
    made.imag *= 1 / LN2
    return made


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
