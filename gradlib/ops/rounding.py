"""Pointwise rounding: to whole numbers, to decimals, and the part that rounding drops."""

from __future__ import annotations

import math
import operator
from typing import Any

from gradlib.backend import vectorised
from gradlib.core.op import op
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import in_single, takes

__all__ = ["ceil", "floor", "frac", "round", "trunc"]


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
    """Each element without its fractional part, rounded towards zero.

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
