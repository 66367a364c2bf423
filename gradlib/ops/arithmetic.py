"""Pointwise operations of several inputs that calculate: sums, products, quotients, interpolation.

Python's operators go straight to operations of two arguments; ``alpha=``, ``value=`` and ``rounding_mode=`` are functions around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import division, dtype as dtypes, pointwise, vectorised
from gradlib.backend.array import is_array, is_cupy, zero_d
from gradlib.backend.dtype import promote
from gradlib.core.arguments import refuse_wrong
from gradlib.core.compile import named
from gradlib.core.dispatch import operate
from gradlib.core.inplace import write
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor
from gradlib.ops.create import as_element, zeros_like
from gradlib.ops.dtype_rules import by_dtype, in_single, takes

__all__ = ["add", "addcdiv", "addcmul", "div", "floor_divide", "fmod", "lerp", "mul", "remainder", "rsub", "sub", "true_divide"]


# ---- sums and differences -------------------------------------------------------------------------------------------------------


@op("linear", promote="same", aliases=("__add__", "__radd__"), inplace=True, input=lambda g: g, other=lambda g: g)
def add_op(xp: Any, input: Any, other: Any) -> Any:
    """Sum of each pair of elements."""
    return xp.add(input, other)


@by_dtype
def _subtractable(values: list[Any]) -> list[Any]:
    _refuse_bools(values)
    return promote(values)


def _refuse_bools(values: list[Any]) -> None:
    if any(isinstance(v, bool) or getattr(v, "dtype", None) == dtypes.bool_ for v in values):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. Use ~ or logical_not() to invert a mask, ^ or "
            "logical_xor() where two masks differ."
        )


@op("linear", promote=_subtractable, aliases=("__sub__",), inplace=True, input=lambda g: g, other=lambda g: -g)
def sub_op(xp: Any, input: Any, other: Any) -> Any:
    """Difference of each pair of elements."""
    return xp.subtract(input, other)


@op(
    "linear", promote=_subtractable, aliases=("__rsub__",), device=lambda input, other: pointwise.function("subtract")(other, input),
    input=lambda g: -g, other=lambda g: g,
)  # fmt: skip
def rsub_op(xp: Any, input: Any, other: Any) -> Any:
    """other minus input."""
    return xp.subtract(other, input)


def _is_one(alpha: Any) -> bool:
    return alpha == 1 and alpha is not True


def _times(name: str, alpha: Any, input: Any, other: Any, scaled: Any) -> Any:
    """``scaled``, one of the operands, times ``alpha``; of the function of that name, which is to name a wrong argument."""
    try:
        if not name.startswith("add"):
            _refuse_bools([input, other])
        return _by_alpha(scaled, alpha, dtypes.result_type(input, other))
    except Exception:
        refuse_wrong(name, add, input, other, alpha=alpha)
        raise


def _by_alpha(value: Any, alpha: Any, common: np.dtype) -> Any:
    """A value times ``alpha``, whose category (bool, integer, float, complex) must not be higher than the result's, ``common``."""
    kind = dtypes.category(common)
    if isinstance(alpha, bool) and kind > 0:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and kind < 2:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and kind < 3:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if not kind:
        return value if alpha else value ^ value
    alpha = as_element(alpha, common)
    if isinstance(value, Tensor):
        return value.to(common) * alpha  # times a fraction, an integer would take the default float dtype
    return (value.astype(common) if is_array(value) else value) * alpha


@op(
    "elementwise", promote="same", method=False, kernels={"out": "add_scaled"},
    input=lambda g, beta: g if beta == 1 else g * beta,
    scaled=lambda g, alpha: g * alpha,
)  # fmt: skip
def add_scaled(xp: Any, input: Any, scaled: Any, alpha: float, beta: float = 1) -> Any:
    """beta * input + alpha * scaled, of one real float dtype; a difference has the opposite alpha, which a zero's sign shows.

    A beta of zero makes zero of what is NaN or infinite too, as in BLAS.
    """
    number = input.dtype.type
    if beta != 1:
        input = input * number(beta) if beta else xp.zeros_like(input)
    return input + (scaled if alpha == 1 else scaled * number(alpha))


_ADD, _SUB, _RSUB = (named(add_scaled, name) for name in ("add", "sub", "rsub"))


def takes_factors(input: Any, scaled: Any, alpha: Any, beta: Any = 1) -> bool:
    """Whether these are for ``add_scaled``: two tensors, both float32 or both float64, and numbers."""
    if type(input) is not Tensor or type(scaled) is not Tensor:
        return False
    a, b = input._array, scaled._array
    if type(a) is not type(b) or a.dtype is not b.dtype or a.dtype.char not in "fd":
        return False
    are_numbers = (type(alpha) is float or type(alpha) is int) and (type(beta) is float or type(beta) is int)
    return are_numbers and -3e38 < alpha < 3e38 and -3e38 < beta < 3e38  # others are for ``_by_alpha`` to refuse


@composite(bare=True)
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha * other.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
        alpha: a factor, of no higher kind than the result.
    Source: torch.add.
    Example:
        >>> gradlib.add(gradlib.tensor([1, 2]), gradlib.tensor([10, 20]), alpha=2)
        tensor([21, 42])
    """
    if alpha != 1 and out is None and takes_factors(input, other, alpha):
        return _ADD(input, other, alpha)
    return add_op(input, other if _is_one(alpha) else _times("add", alpha, input, other, other), out=out)


@composite(aliases=("subtract",), bare=True)
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha * other.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
        alpha: a factor, of no higher kind than the result.
    Source: torch.sub.
    Example:
        >>> gradlib.sub(gradlib.tensor([10, 20]), gradlib.tensor([1, 2]), alpha=2)
        tensor([ 8, 16])
    """
    if alpha != 1 and out is None and takes_factors(input, other, alpha):
        return _SUB(input, other, -float(alpha))
    return sub_op(input, other if _is_one(alpha) else _times("sub", alpha, input, other, other), out=out)


@composite(method=False, bare=True)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
        alpha: a factor, of no higher kind than the result.
    Source: torch.rsub.
    Example:
        >>> gradlib.rsub(gradlib.tensor([1, 2]), 10)
        tensor([9, 8])
    """
    if alpha != 1 and takes_factors(input, other, alpha):
        return _RSUB(other, input, -float(alpha))
    return rsub_op(input if _is_one(alpha) else _times("rsub", alpha, input, other, input), other)


def _add_in_place(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Add alpha * other to this tensor."""
    return self.__iadd__(other if _is_one(alpha) else _times("add_", alpha, self, other, other))


def _sub_in_place(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Subtract alpha * other from this tensor."""
    return self.__isub__(other if _is_one(alpha) else _times("sub_", alpha, self, other, other))


publish(_add_in_place, "add_")
publish(_sub_in_place, "sub_", "subtract_")


# ---- products and quotients -----------------------------------------------------------------------------------------------------


@op(
    "bilinear", promote="same", numbers_in_single=True, inplace=True, aliases=("multiply", "__mul__", "__rmul__"),
    input=lambda g, other: g * other,
    other=lambda g, input: g * input,
)  # fmt: skip
def mul(xp: Any, input: Any, other: Any) -> Any:
    """Product of each pair of elements.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.mul.
    Example:
        >>> gradlib.mul(gradlib.tensor([1, 2]), gradlib.tensor([[3], [4]]))
        tensor([[3, 6],
                [4, 8]])
    """
    return xp.multiply(input, other)


@op(
    "elementwise", promote="float", numbers_in_single=True, inplace=True, aliases=("__truediv__",),
    input=lambda g, other: g / other,
    other=lambda g, input, other: -(g * ((input / other) / other)),
    jvp=lambda t_input, t_other, other, out: (t_input - t_other * out) / other,  # not NaN where other is 0
)  # fmt: skip
def div_op(xp: Any, input: Any, other: Any) -> Any:
    """Each element of input divided by that of other; integers divide to the default float dtype."""
    return xp.true_divide(input, other)


@op(
    "elementwise", promote="float", numbers_in_single=True, method=False, aliases=("__rtruediv__",),
    device=lambda input, other: pointwise.function("divide", True)(other, input),
    input=lambda g, input, other: -(g * ((other / input) / input)),
    other=lambda g, input: g / input,
)  # fmt: skip
def rdiv(xp: Any, input: Any, other: Any) -> Any:
    """Each element of other divided by that of input."""
    return xp.true_divide(other, input)


_INTEGER = np.dtype(np.int64)  # what a number beside an integer array is by now


def _divided(xp: Any, name: str, input: Any, other: Any) -> Any:
    """A whole-number division; of integers by zero it is an error, on the host, where it is seen without waiting."""
    if xp is not np and (is_cupy(input) or is_cupy(other)):
        return getattr(division, name)(input, other)
    if getattr(input, "dtype", _INTEGER).kind not in "iu" or getattr(other, "dtype", _INTEGER).kind not in "iu":
        return getattr(vectorised, name).on_host(input, other)
    try:
        with np.errstate(divide="raise"):
            return getattr(np, name, np.remainder)(input, other)  # which is NumPy's modulo
    except FloatingPointError:
        raise RuntimeError(f"ZeroDivisionError: {name} of integers by zero") from None


@op(
    "elementwise", promote=takes("floor_divide", "if"), inplace=True, aliases=("__floordiv__",), device=division.floor_divide,
    input=lambda g: zeros_like(g),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def floor_divide(xp: Any, input: Any, other: Any) -> Any:
    """The largest whole number not above each quotient.

    Args:
        input, other: tensors that broadcast together, or numbers; integer or float.
    Raises: RuntimeError for integers divided by zero.
    Source: torch.floor_divide.
    Example:
        >>> gradlib.floor_divide(gradlib.tensor([7, -7]), 2)
        tensor([ 3, -4])
    """
    return _divided(xp, "floor_divide", input, other)


@op(
    "elementwise", promote=takes("div", "if"), method=False,
    input=lambda g: zeros_like(g),
    other=lambda g: zeros_like(g),
)  # fmt: skip
def trunc_divide(xp: Any, input: Any, other: Any) -> Any:
    """Each quotient rounded towards zero. Raises: RuntimeError for integers divided by zero."""
    if not dtypes.are_integers(input, other):
        return xp.trunc(xp.true_divide(input, other))
    down = _divided(xp, "floor_divide", input, other)
    return down + ((down * other != input) & (down < 0))


@composite(aliases=("divide",), bare=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """Each element of input divided by that of other.

    Args:
        input, other: numbers or tensors that broadcast together.
        rounding_mode: None for the quotient (integers give floats); "trunc" rounds it to zero, "floor" down, both keep integers.
    Raises: RuntimeError for another mode, and for integers divided by zero under one.
    Source: torch.div.
    Example:
        >>> gradlib.div(gradlib.tensor([7.0, -7.0]), 2, rounding_mode="floor")
        tensor([ 3., -4.])
    """
    if rounding_mode is None:
        return div_op(input, other, out=out)
    try:
        if rounding_mode == "floor":
            return floor_divide(input, other, out=out)
        if rounding_mode == "trunc":
            return trunc_divide(input, other, out=out)
    except Exception:
        refuse_wrong("div", div, input, other)
        raise
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}")


@composite
def true_divide(input: Any, other: Any) -> Any:
    """Each element of input divided by that of other.

    Args:
        input, other: tensors that broadcast together, or numbers; bools and integers become the default float dtype.
    Source: torch.true_divide.
    Example:
        >>> gradlib.true_divide(gradlib.tensor([1, 2]), 2)
        tensor([0.5000, 1.0000])
    """
    return div_op(input, other)


def _div_in_place(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Divide this tensor; rounding_mode as in ``div``."""
    if rounding_mode is None:
        return self.__itruediv__(other)
    try:
        return write(self, lambda x: div(x, other, rounding_mode=rounding_mode), "div_")
    except Exception:
        refuse_wrong("div_", div, self, other)
        raise


publish(_div_in_place, "div_", "divide_", "true_divide_")


@op(
    "elementwise", promote=takes("remainder", "if"), inplace=True, aliases=("__mod__",), device=division.remainder,
    input=lambda g: g,
    other=lambda g, input, other: -(g * floor_divide(input, other)),
)  # fmt: skip
def remainder(xp: Any, input: Any, other: Any) -> Any:
    """The remainder of floor division, with the sign of other; a zero has that of input.

    Args:
        input, other: tensors that broadcast together, or numbers; integer or float.
    Raises: RuntimeError for integers divided by zero.
    Source: torch.remainder.
    Example:
        >>> gradlib.remainder(gradlib.tensor([7, -7]), 3)
        tensor([1, 2])
    """
    return _divided(xp, "remainder", input, other)


@op(
    "elementwise", promote=takes("remainder", "if"), method=False, device=division.modulo,
    input=lambda g: g,
    other=lambda g, input, other: -(g * floor_divide(input, other)),
)  # fmt: skip
def modulo(xp: Any, input: Any, other: Any) -> Any:
    """The remainder as NumPy and the array API standard have it: a zero too has the sign of other. Raises: as ``remainder``."""
    return _divided(xp, "modulo", input, other)


@op(
    "elementwise", promote=takes("fmod", "if"), inplace=True, device=division.fmod,
    input=lambda g: g,
    other=lambda g, input, other: -(g * trunc_divide(input, other)),
)  # fmt: skip
def fmod(xp: Any, input: Any, other: Any) -> Any:
    """The remainder of division rounded towards zero, with the sign of input.

    Args:
        input, other: tensors that broadcast together, or numbers; integer or float.
    Raises: RuntimeError for integers divided by zero.
    Source: torch.fmod.
    Example:
        >>> gradlib.fmod(gradlib.tensor([7, -7]), 3)
        tensor([ 1, -1])
    """
    return _divided(xp, "fmod", input, other)


def reflected(operation: Any) -> Any:
    """The reflected form of an operator, for a tensor as the second operand."""

    def call(self: Tensor, other: Any) -> Any:
        return operate(operation.op, (other, self))

    call.__doc__ = f"``{operation.op.name}`` of another operand and this tensor."
    return call


publish(reflected(floor_divide), "__rfloordiv__")
publish(reflected(remainder), "__rmod__")


# ---- between and beside -----------------------------------------------------------------------------------------------------------


_in_lerp = takes("lerp", "fc")


def _on_the_way(values: list[Any]) -> list[Any]:
    """Check the operands of ``lerp``: both ends of one dtype; the weight a number, a 0-d tensor or of that dtype."""
    if not any(dtypes.category(v.dtype) >= 2 for v in values[:2] if is_array(v)):
        return _in_lerp([v for v in values[:2] if is_array(v)])  # raises
    for name, value in zip(("end", "weight"), values[1:], strict=True):
        if is_array(value) and value.dtype != values[0].dtype and (value.ndim or name == "end"):
            raise RuntimeError(f"lerp: expected {name} of dtype {values[0].dtype}, as input, but got {value.dtype}; convert it with .to()")
    if is_array(values[0]) and isinstance(values[2], (int, float, complex)):
        dtypes.fitted(values[2], dtypes.computed(values[0].dtype))
    return _in_lerp(values)


_on_the_way.fits = True  # type: ignore[attr-defined]
by_dtype(_on_the_way, sees_numbers=True)


@op(
    "elementwise", promote=_on_the_way, numbers_in_single=True, inplace=True,
    input=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    weight=lambda g, input, end: g * (end - input), kernels={"out": "lerp"},
)  # fmt: skip
def lerp(xp: Any, input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input), exactly end for the weight 1.

    Args:
        input, end: tensors of one dtype, float or complex, that broadcast together.
        weight: a number or a tensor that broadcasts with the others.
    Source: torch.lerp.
    Example:
        >>> gradlib.lerp(gradlib.tensor([0.0, 10.0]), gradlib.tensor([1.0, 20.0]), 0.5)
        tensor([ 0.5000, 15.0000])
    """
    if type(weight) is float and -0.5 < weight < 0.5 and vectorised.are_long(input, end):
        return vectorised.between(input, end, weight)
    way = end - input
    if type(weight) is float and 0 < abs(weight) < 0.5 and way.ndim and way.dtype.char in "fd":
        way *= zero_d(weight, way.dtype) if xp is np else weight
        way += input
        return way
    if not is_array(weight):
        return input + way * weight if np.abs(weight) < 0.5 else end - way * (1 - weight)
    return xp.where(xp.absolute(weight) < 0.5, input + way * weight, end - way * (1 - weight))


def _scaled(product: Any, value: Any) -> Any:
    """The product times ``value``, in the dtype of the product."""
    return product if value == 1 else product * product.dtype.type(as_element(value, product.dtype))


@op(
    "elementwise", keyword_only=("value",), promote=takes("addcmul", "ifc"), inplace=True, kernels={"out": "addcmul"},
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * tensor2 * value,
    tensor2=lambda g, tensor1, value: g * tensor1 * value,
)  # fmt: skip
@in_single
def addcmul(xp: Any, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2; value is a number.

    Args:
        input, tensor1, tensor2: tensors that broadcast together; integer, float or complex.
        value: a number.
    Source: torch.addcmul.
    Example:
        >>> gradlib.addcmul(gradlib.tensor([1.0]), gradlib.tensor([2.0]), gradlib.tensor([3.0]), value=0.5)
        tensor([4.])
    """
    if vectorised.are_long(input, tensor1, tensor2):
        return vectorised.added(np.multiply, input, tensor1, tensor2, as_element(value, input.dtype))
    return vectorised.plus(input, _scaled(tensor1 * tensor2, value))


@by_dtype
def _dividable(values: list[Any]) -> list[Any]:
    if dtypes.category(dtypes.result_type(*values[1:])) < 2:
        raise RuntimeError("addcdiv does not divide integers by integers; convert one of them to floats, or use div(rounding_mode=...)")
    return promote(values)


@op(
    "elementwise", keyword_only=("value",), promote=_dividable, inplace=True, kernels={"out": "addcdiv"},
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g / tensor2 * value,
    tensor2=lambda g, tensor1, tensor2, value: -(g * ((tensor1 / tensor2) / tensor2) * value),
)  # fmt: skip
@in_single
def addcdiv(xp: Any, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2; value is a number.

    Args:
        input, tensor1, tensor2: tensors that broadcast together; tensor1 and tensor2 not both of integers.
        value: a number.
    Raises: RuntimeError when both tensors are of integers.
    Source: torch.addcdiv.
    Example:
        >>> gradlib.addcdiv(gradlib.tensor([1.0]), gradlib.tensor([1.0]), gradlib.tensor([4.0]), value=2)
        tensor([1.5000])
    """
    if vectorised.are_long(input, tensor1, tensor2):
        return vectorised.added(np.true_divide, input, tensor1, tensor2, as_element(value, input.dtype))
    return vectorised.plus(input, _scaled(tensor1 / tensor2, value))
