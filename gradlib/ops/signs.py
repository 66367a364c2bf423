"""The sign bit of numbers, and the numbers next to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Namespace
from gradlib.core.op import op
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import takes
from gradlib.ops.elementwise import sign
from gradlib.ops.select import where_op

__all__ = ["copysign", "nextafter", "signbit"]


@op("none", also=("input",))
def signbit(xp: Namespace, input: Any) -> Any:
    """Whether each element is negative, -0.0 and a negative NaN included.

    Args:
        input: any shape; bool, integer or float.
    Raises: NotImplementedError for complex tensors.
    Source: torch.signbit.
    Example:
        >>> gradlib.signbit(gradlib.tensor([1.0, -0.0]))
        tensor([False,  True])
    """
    if input.dtype.kind == "c":
        raise NotImplementedError(f"signbit is not implemented for complex tensors, got {input.dtype}; take .real")
    return xp.zeros(input.shape, bool) if input.dtype.kind in "bu" else xp.signbit(input)


@op(
    "elementwise", promote=takes("copysign", "bif", to_float=True), inplace=True,
    input=lambda g, input, out: g * sign(input) * sign(out),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def copysign(xp: Namespace, input: Any, other: Any) -> Any:
    """The size of one number with the sign of another; zeros and NaN have signs too.

    Args:
        input: any shape; bool, integer or float; bools and integers become the default float dtype.
        other: a tensor that broadcasts with it, or a number.
    Source: torch.copysign; the derivative is 0 at 0.
    Example:
        >>> gradlib.copysign(gradlib.tensor([1.0, -2.0]), gradlib.tensor([-0.0, 3.0]))
        tensor([-1.,  2.])
    """
    return xp.copysign(input, other)


@op(
    "elementwise", promote=takes("nextafter", "f"), inplace=True,
    input=lambda g, input, other: where_op(input != other, g, 0),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def nextafter(xp: Namespace, input: Any, other: Any) -> Any:
    """The next number of the dtype after each element of input, towards other; other where they are equal.

    Args:
        input, other: float tensors that broadcast together.
    Raises: NotImplementedError for other dtypes.
    Source: torch.nextafter.
    Example:
        >>> gradlib.nextafter(gradlib.tensor(1.0), gradlib.tensor(2.0)) - 1 == gradlib.finfo(gradlib.float32).eps
        tensor(True)
    """
    made = xp.nextafter(input, other)
    if type(made) is not np.ndarray and made.dtype.char == "e" and not isinstance(made, np.generic):  # CuPy's are NaN from an infinity on
        infinite = xp.isinf(input) & ~xp.isnan(other)
        last = xp.copysign(made.dtype.type(65504), input)
        made = xp.where(infinite, xp.where(xp.equal(input, other), input, last), made)
    return made
