"""Trigonometric and hyperbolic functions of one input, and their inverses."""

from __future__ import annotations

from typing import Any

from gradlib.backend import vectorised
from gradlib.core.op import op
from gradlib.core.tensor import Tensor
from gradlib.ops.elementwise import sqrt

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"]


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


# Of complex numbers on a branch cut the sign of a zero says on which side they are. Sums with a real number are written here as
# differences, which keep it: -0 + 0 is 0, -0 - 0 is -0.


def _sine_to_cosine(input: Any) -> Any:
    """sqrt(1 - x^2), on the branch of the complex root that the values of asin and acos take."""
    return sqrt(-(input * input - 1)) if input.dtype.kind == "c" else sqrt(1 - input * input)


@op("elementwise", promote="float", inplace=True, aliases=("arcsin",), input=lambda g, input: g / _sine_to_cosine(input))
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


@op("elementwise", promote="float", inplace=True, aliases=("arccos",), input=lambda g, input: -(g / _sine_to_cosine(input)))
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


@op("elementwise", promote="float", inplace=True, aliases=("arcsinh",), input=lambda g, input: g / sqrt(input * input - -1))
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
    return g / (sqrt(input - 1) * sqrt(input - -1) if input.dtype.kind == "c" else sqrt(input * input - 1))


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
