"""Pointwise choices between values: where, the larger or smaller of two, clamping."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise
from gradlib.backend.array import is_array
from gradlib.backend.dtype import ALWAYS_HELD, promote
from gradlib.backend.formulas import formula
from gradlib.backend.kernel_text import LARGEST
from gradlib.backend.mask import LEAST, chosen, extreme
from gradlib.core.arguments import refuse_wrong
from gradlib.core.compile import named
from gradlib.core.op import composite, op, publish
from gradlib.ops.dtype_rules import numbers_alike, refuse_beyond, takes

__all__ = ["clamp", "clamp_max", "clamp_min", "fmax", "fmin", "maximum", "minimum", "where"]


# ---- where --------------------------------------------------------------------------------------------------------------------


def _are_alike(condition: Any, input: Any, other: Any) -> bool:
    """Whether these are a mask and two arrays of one dtype."""
    kind = type(condition)
    return type(input) is type(other) is kind and getattr(condition, "dtype", None) is dtypes.bool_ and input.dtype is other.dtype


@numbers_alike
def _branches_meet(values: list[Any]) -> list[Any]:
    condition, *branches = values
    if _are_alike(*values):  # the common case
        return values
    dtype = getattr(condition, "dtype", None)
    if dtype not in (dtypes.bool_, dtypes.uint8):
        refuse_wrong("where", where, condition)
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtype}; compare it first, for example with != 0"
        )
    met = promote(branches, fitting=True)
    for value in branches:
        if isinstance(value, (int, float, complex)) and not abs(value) < ALWAYS_HELD:
            array = next((each for each in met if is_array(each)), None)
            if array is not None and not dtypes.is_half(array.dtype):  # torch makes them float32 first, and writes inf into half types
                refuse_beyond([value], array.dtype)
    return [condition.astype(bool, copy=False), *met]


@op(
    "linear", promote=_branches_meet, also=("condition",), complex="explicit", device="where",
    input=lambda g, condition: where_op(condition, g, 0),
    other=lambda g, condition: where_op(condition, 0, g),
)  # fmt: skip
def where_op(xp: Any, condition: Any, input: Any, other: Any) -> Any:
    """Elements of input where condition holds, of other elsewhere."""
    return chosen(xp, condition, input, other)


@composite(method=False, bare=True)
def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Elements of input where condition holds, of other elsewhere; with condition alone, the indices where it holds.

    Args:
        condition: bool; broadcast with the others.
        input, other: tensors or numbers.
    Returns: the broadcast shape in the common dtype; or a tuple of int64 index tensors, one per dimension.
    Raises: RuntimeError when condition is not bool, TypeError for input without other and the reverse.
    Source: torch.where.
    Example:
        >>> gradlib.where(gradlib.tensor([True, False]), gradlib.tensor([1.0, 2.0]), 0.0)
        tensor([1., 0.])
    """
    if input is None and other is None:
        from gradlib.ops import index

        return index.nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError(f"where() takes input and other, or neither; got no {'input' if input is None else 'other'}")
    return where_op(condition, input, other, out=out)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """Elements of this tensor where condition holds, of other elsewhere."""
    return where_op(condition, self, other)


publish(_where_method, "where")


# ---- the larger or smaller of two -----------------------------------------------------------------------------------------------


def _of_equals(g: Any, mine: Any, its: Any) -> Any:
    """The gradient of a value that is taken outright or, where both are equal, shares it half and half."""
    return where_op(mine == its, g * 0.5, g)


@op(
    "elementwise", promote=takes("maximum", "bif"),
    input=lambda g, input, other: where_op(input < other, 0, _of_equals(g, input, other)),
    other=lambda g, input, other: where_op(other < input, 0, _of_equals(g, input, other)),
)  # fmt: skip
def maximum(xp: Any, input: Any, other: Any) -> Any:
    """The larger of each pair of elements, NaN if either is; equal elements share the gradient.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.maximum.
    Example:
        >>> gradlib.maximum(gradlib.tensor([1, 5]), gradlib.tensor([3, 2]))
        tensor([3, 5])
    """
    return xp.maximum(input, other)


@op(
    "elementwise", promote=takes("minimum", "bif"),
    input=lambda g, input, other: where_op(input > other, 0, _of_equals(g, input, other)),
    other=lambda g, input, other: where_op(other > input, 0, _of_equals(g, input, other)),
)  # fmt: skip
def minimum(xp: Any, input: Any, other: Any) -> Any:
    """The smaller of each pair of elements, NaN if either is; equal elements share the gradient.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.minimum.
    Example:
        >>> gradlib.minimum(gradlib.tensor([1, 5]), gradlib.tensor([3, 2]))
        tensor([1, 2])
    """
    return xp.minimum(input, other)


@op(
    "elementwise", promote=takes("fmax", "bif"),
    input=lambda g, input, other: where_op((input >= other) | (other != other), g, 0),
    other=lambda g, input, other: where_op((input >= other) | (other != other), 0, g),
)  # fmt: skip
def fmax(xp: Any, input: Any, other: Any) -> Any:
    """The larger of each pair of elements, the other one where one is NaN; of equal elements the first has the gradient.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.fmax.
    Example:
        >>> gradlib.fmax(gradlib.tensor([1.0, gradlib.nan]), gradlib.tensor([2.0, 3.0]))
        tensor([2., 3.])
    """
    return xp.fmax(input, other)


@op(
    "elementwise", promote=takes("fmin", "bif"),
    input=lambda g, input, other: where_op((input <= other) | (other != other), g, 0),
    other=lambda g, input, other: where_op((input <= other) | (other != other), 0, g),
)  # fmt: skip
def fmin(xp: Any, input: Any, other: Any) -> Any:
    """The smaller of each pair of elements, the other one where one is NaN; of equal elements the first has the gradient.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.fmin.
    Example:
        >>> gradlib.fmin(gradlib.tensor([1.0, gradlib.nan]), gradlib.tensor([2.0, 3.0]))
        tensor([1., 3.])
    """
    return xp.fmin(input, other)


# ---- clamping -------------------------------------------------------------------------------------------------------------------


@op(
    "elementwise", promote=takes("clamp_min", "bif", fitting=True), inplace=True,
    device=lambda input, min: pointwise.function("maximum")(input, min),
    device_into=lambda input, min: pointwise.into("maximum")(input, min),
    input=lambda g, input, min: where_op(input >= min, g, 0),
    min=lambda g, input, min: where_op(input < min, g, 0),
)  # fmt: skip
def clamp_min(xp: Any, input: Any, min: Any) -> Any:
    """Each element, or min where it is smaller.

    Args:
        input: any shape; bool, integer or float.
        min: a number or a tensor that broadcasts with input.
    Source: torch.clamp_min.
    Example:
        >>> gradlib.clamp_min(gradlib.tensor([-1.0, 2.0]), 0)
        tensor([0., 2.])
    """
    return extreme(xp.maximum, input, min)


@op(
    "elementwise", promote=takes("clamp_max", "bif", fitting=True), inplace=True,
    device=lambda input, max: pointwise.function("minimum")(input, max),
    device_into=lambda input, max: pointwise.into("minimum")(input, max),
    input=lambda g, input, max: where_op(input <= max, g, 0),
    max=lambda g, input, max: where_op(input > max, g, 0),
)  # fmt: skip
def clamp_max(xp: Any, input: Any, max: Any) -> Any:
    """Each element, or max where it is larger.

    Args:
        input: any shape; bool, integer or float.
        max: a number or a tensor that broadcasts with input.
    Source: torch.clamp_max.
    Example:
        >>> gradlib.clamp_max(gradlib.tensor([-1.0, 2.0]), 1)
        tensor([-1.,  1.])
    """
    return extreme(xp.minimum, input, max)


@op(
    "elementwise", promote=takes("clamp", "bif", fitting=True), kernels={"out": "clamp"},
    input=lambda g, input, min, max: where_op((input >= min) & (input <= max), g, 0),
    min=lambda g, input, min, max: where_op((input < min) & (min < max), g, 0),
    max=lambda g, input, min, max: where_op((input > max) | (max < min), g, 0),
)  # fmt: skip
def clamp_op(xp: Any, input: Any, min: Any, max: Any) -> Any:
    """Each element, or the bound that it passes; max where min is larger."""
    if type(input) is np.ndarray and input.size >= LEAST and input.dtype.char in "fd" and _are_plain(min, max):
        return input.clip(min, max)  # one pass
    made = extreme(xp.maximum, input, min)
    return extreme(xp.minimum, made, max, into=made)


def _are_plain(*bounds: Any) -> bool:
    """Whether bounds are numbers other than NaN and 0, of whose two signs it would matter which is kept."""
    return all(type(x) in (int, float) and x == x and x for x in bounds)


_from_below, _from_above = (named(bound, "clamp", node=False) for bound in (clamp_min, clamp_max))


def _clamp_into(input: Any, min: Any = None, max: Any = None) -> bool:
    """``clamp`` into a CuPy array."""
    if min is None or max is None:
        return min is not max and pointwise.into("maximum" if max is None else "minimum")(input, min if max is None else max)
    if hasattr(min, "dtype") or hasattr(max, "dtype"):  # arrays, which may lie in the same memory
        return False
    held = input.dtype != dtypes.float16 or (abs(min) < LARGEST["e"] and abs(max) < LARGEST["e"])
    return held and formula("clamp")(input, min, max, out=input) is not None


@composite(inplace=True, device_into=_clamp_into, aliases=("clip",), bare=True)
def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Each element limited to the interval from min to max; the gradient passes inside the closed interval.

    Args:
        min, max: numbers or tensors that broadcast with input; at least one. Where min is larger than max the result is max.
    Raises: RuntimeError without a bound.
    Source: torch.clamp.
    Example:
        >>> gradlib.clamp(gradlib.tensor([-1.0, 0.5, 2.0]), 0, 1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min or max must be given")
    if max is None:
        return _from_below(input, min, out=out)
    if min is None:
        return _from_above(input, max, out=out)
    return clamp_op(input, min, max, out=out)
