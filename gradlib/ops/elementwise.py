"""Pointwise operations of one or several inputs."""

from __future__ import annotations

from typing import Any

from gradlib.core.op import op


@op("elementwise", promote="float", inplace=True, input=lambda g, input: g * cos(input))
def sin(xp: Any, input: Any) -> Any:  # noqa: A002
    """Sine of each element, in radians."""
    return xp.sin(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, input: -(g * sin(input)))
def cos(xp: Any, input: Any) -> Any:  # noqa: A002
    """Cosine of each element, in radians."""
    return xp.cos(input)


@op("elementwise", promote="float", inplace=True, input=lambda g, out: g - g * (out * out))
def tanh(xp: Any, input: Any) -> Any:  # noqa: A002
    """Hyperbolic tangent of each element."""
    return xp.tanh(input)


@op("bilinear", promote="same", inplace=True, aliases=("multiply", "__mul__", "__rmul__"), input=lambda g, other: g * other, other=lambda g, input: g * input)
def mul(xp: Any, input: Any, other: Any) -> Any:  # noqa: A002
    """Product of each pair of elements."""
    return xp.multiply(input, other)


@op("linear", promote="same", inplace=True, aliases=("__add__", "__radd__"), input=lambda g: g, other=lambda g: g)
def add(xp: Any, input: Any, other: Any) -> Any:  # noqa: A002
    """Sum"""
    return xp.add(input, other)

@op("linear", promote="same", inplace=True, aliases=("__sub__",), input=lambda g: g, other=lambda g: -g)
def sub(xp: Any, input: Any, other: Any) -> Any:  # noqa: A002
    return input - other

@op("linear", aliases=("__neg__",), input=lambda g: -g)
def neg(xp: Any, input: Any) -> Any:  # noqa: A002
    return -input

@op("linear", input=lambda g, input_shape, dim: expand(g, input_shape))
def sum(xp: Any, input: Any, dim: Any=None) -> Any:  # noqa: A002
    return xp.sum(input, axis=dim)

@op("linear", view=True, input=lambda g: g)
def expand(xp: Any, input: Any, shape: Any) -> Any:  # noqa: A002
    return xp.broadcast_to(input, shape)
