"""Comparisons, logic, bits, and whether two tensors agree. None of them has a derivative."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise
from gradlib.backend.array import cupy, is_array
from gradlib.backend.dtype import promote
from gradlib.backend.formulas import close
from gradlib.core.inplace import inplace_form
from gradlib.core.modes import global_state
from gradlib.core.op import CompiledOp, composite, inplace_name, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.arithmetic import reflected
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import by_dtype, takes

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "eq",
    "equal", "ge", "gt", "isclose", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne",
]  # fmt: skip

BOTH = ("input", "other")


def _compares(promote: Any, aliases: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a comparison, and its in-place forms, which have the dtype of the tensor that is written and a derivative of zeros.

    So it is in torch, which gives none to those of ``logical_and`` and its like and leaves the tensor the history of values that are gone.
    """

    def declare(value: Callable[..., Any]) -> Callable[..., Any]:
        name, operands = value.__name__, tuple(inspect.signature(value).parameters)[1:]
        call = op("none", promote=promote, also=operands, aliases=aliases)(value)

        def one(xp: Any, input: Any, dtype: Any) -> Any:
            return value(xp, input).astype(dtype)

        def two(xp: Any, input: Any, other: Any, dtype: Any) -> Any:
            return value(xp, input, other).astype(dtype)

        zeros = dict.fromkeys(operands, lambda g: zeros_like(g))
        form = CompiledOp(two if "other" in zeros else one, "elementwise", zeros, name=name, promote=promote, complex="explicit")
        publish(inplace_form(form, lambda shadow: (shadow.dtype,)), *filter(None, map(inplace_name, (name, *aliases))))
        return call

    return declare


# ---- comparisons --------------------------------------------------------------------------------------------------------------


@_compares(promote="same", aliases=("__eq__",))
def eq(xp: Any, input: Any, other: Any) -> Any:
    """Whether the elements of each pair are equal.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.eq.
    Example:
        >>> gradlib.eq(gradlib.tensor([1, 2]), gradlib.tensor([1, 3]))
        tensor([ True, False])
    """
    return xp.equal(input, other)


@_compares(promote="same", aliases=("not_equal", "__ne__"))
def ne(xp: Any, input: Any, other: Any) -> Any:
    """Whether the elements of each pair differ.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.ne.
    Example:
        >>> gradlib.ne(gradlib.tensor([1, 2]), gradlib.tensor([1, 3]))
        tensor([False,  True])
    """
    return xp.not_equal(input, other)


@_compares(promote=takes("lt", "bif"), aliases=("less", "__lt__"))
def lt(xp: Any, input: Any, other: Any) -> Any:
    """Whether each element of input is smaller than that of other.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.lt.
    Example:
        >>> gradlib.lt(gradlib.tensor([1, 2, 3]), 2)
        tensor([ True, False, False])
    """
    return xp.less(input, other)


@_compares(promote=takes("le", "bif"), aliases=("less_equal", "__le__"))
def le(xp: Any, input: Any, other: Any) -> Any:
    """Whether each element of input is at most that of other.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.le.
    Example:
        >>> gradlib.le(gradlib.tensor([1, 2, 3]), 2)
        tensor([ True,  True, False])
    """
    return xp.less_equal(input, other)


@_compares(promote=takes("gt", "bif"), aliases=("greater", "__gt__"))
def gt(xp: Any, input: Any, other: Any) -> Any:
    """Whether each element of input is larger than that of other.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.gt.
    Example:
        >>> gradlib.gt(gradlib.tensor([1, 2, 3]), 2)
        tensor([False, False,  True])
    """
    return xp.greater(input, other)


@_compares(promote=takes("ge", "bif"), aliases=("greater_equal", "__ge__"))
def ge(xp: Any, input: Any, other: Any) -> Any:
    """Whether each element of input is at least that of other.

    Args:
        input, other: tensors that broadcast together, or numbers; bool, integer or float.
    Source: torch.ge.
    Example:
        >>> gradlib.ge(gradlib.tensor([1, 2, 3]), 2)
        tensor([False,  True,  True])
    """
    return xp.greater_equal(input, other)


# ---- logic --------------------------------------------------------------------------------------------------------------------


@by_dtype
def _truths(values: list[Any]) -> list[Any]:
    met = []
    for v in values:
        if getattr(v, "dtype", None) is not dtypes.bool_ or isinstance(v, np.generic):
            v = v.astype(bool, copy=False) if is_array(v) else bool(v)
        met.append(v)
    return met


@_compares(promote=_truths)
def logical_not(xp: Any, input: Any) -> Any:
    """Whether each element is zero.

    Args:
        input: any shape and dtype.
    Source: torch.logical_not.
    Example:
        >>> gradlib.logical_not(gradlib.tensor([0, 1, 2]))
        tensor([ True, False, False])
    """
    return xp.logical_not(input)


@_compares(promote=_truths)
def logical_and(xp: Any, input: Any, other: Any) -> Any:
    """Whether both elements of each pair are nonzero.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.logical_and.
    Example:
        >>> gradlib.logical_and(gradlib.tensor([0, 1, 2]), gradlib.tensor([1, 0, 3]))
        tensor([False, False,  True])
    """
    return xp.logical_and(input, other)


@_compares(promote=_truths)
def logical_or(xp: Any, input: Any, other: Any) -> Any:
    """Whether any element of each pair is nonzero.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.logical_or.
    Example:
        >>> gradlib.logical_or(gradlib.tensor([0, 0, 2]), gradlib.tensor([1, 0, 3]))
        tensor([ True, False,  True])
    """
    return xp.logical_or(input, other)


@_compares(promote=_truths)
def logical_xor(xp: Any, input: Any, other: Any) -> Any:
    """Whether exactly one element of each pair is nonzero.

    Args:
        input, other: tensors that broadcast together, or numbers; any dtype.
    Source: torch.logical_xor.
    Example:
        >>> gradlib.logical_xor(gradlib.tensor([0, 1, 2]), gradlib.tensor([1, 0, 3]))
        tensor([ True,  True, False])
    """
    return xp.logical_xor(input, other)


# ---- bits ---------------------------------------------------------------------------------------------------------------------


@op("none", promote=takes("bitwise_not", "bi"), also=("input",), inplace=True)
def bitwise_not(xp: Any, input: Any) -> Any:
    """Each element with its bits inverted; of a bool, its negation.

    Args:
        input: any shape; bool or integer.
    Source: torch.bitwise_not.
    Example:
        >>> gradlib.bitwise_not(gradlib.tensor([0, 5]))
        tensor([-1, -6])
    """
    return xp.invert(input)


def _invert(self: Tensor) -> Tensor:
    """Each element with its bits inverted; of a bool, its negation."""
    if self.dtype.kind not in "biu":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


publish(_invert, "__invert__")


@op("none", promote=takes("bitwise_and", "bi"), also=BOTH, inplace=True, aliases=("__and__", "__rand__"))
def bitwise_and(xp: Any, input: Any, other: Any) -> Any:
    """The bits that both elements of each pair have.

    Args:
        input, other: tensors that broadcast together, or numbers; bool or integer.
    Source: torch.bitwise_and.
    Example:
        >>> gradlib.bitwise_and(gradlib.tensor([6, 5]), 3)
        tensor([2, 1])
    """
    return xp.bitwise_and(input, other)


@op("none", promote=takes("bitwise_or", "bi"), also=BOTH, inplace=True, aliases=("__or__", "__ror__"))
def bitwise_or(xp: Any, input: Any, other: Any) -> Any:
    """The bits that any element of each pair has.

    Args:
        input, other: tensors that broadcast together, or numbers; bool or integer.
    Source: torch.bitwise_or.
    Example:
        >>> gradlib.bitwise_or(gradlib.tensor([6, 5]), 3)
        tensor([7, 7])
    """
    return xp.bitwise_or(input, other)


@op("none", promote=takes("bitwise_xor", "bi"), also=BOTH, inplace=True, aliases=("__xor__", "__rxor__"))
def bitwise_xor(xp: Any, input: Any, other: Any) -> Any:
    """The bits that exactly one element of each pair has.

    Args:
        input, other: tensors that broadcast together, or numbers; bool or integer.
    Source: torch.bitwise_xor.
    Example:
        >>> gradlib.bitwise_xor(gradlib.tensor([6, 5]), 3)
        tensor([5, 6])
    """
    return xp.bitwise_xor(input, other)


@functools.cache
def _shift_on_device(name: str) -> Any:
    """A shift of CuPy arrays by its name."""
    return pointwise.of_two(name, functools.partial(_shifted, cupy(), getattr(cupy(), name)))


def _shifted(xp: Any, shift: Any, input: Any, other: Any) -> Any:
    """A shift on CuPy, whose kernels leave to C++ what moving by more than all bits gives: here, as in NumPy and torch, nothing is left.

    Of a negative number moved down that is -1, all of whose bits are the sign's.
    """
    dtype = next(value.dtype for value in (input, other) if is_array(value))
    bits = 8 * dtype.itemsize
    input, other = xp.asarray(input, dtype), xp.asarray(other, dtype)
    inside = (other >= 0) & (other < bits)
    moved = shift(input, xp.where(inside, other, 0).astype(dtype, copy=False))
    rest = xp.zeros((), dtype) if shift is xp.left_shift or dtype.kind != "i" else xp.where(input < 0, -1, 0).astype(dtype, copy=False)
    return xp.where(inside, moved, rest)


@op(
    "none", promote=takes("bitwise_left_shift", "i"), also=BOTH, inplace=True, aliases=("__lshift__",),
    device=lambda input, other: _shift_on_device("left_shift")(input, other),
)  # fmt: skip
def bitwise_left_shift(xp: Any, input: Any, other: Any) -> Any:
    """Each element's bits shifted left by ``other`` places.

    Args:
        input: integer.
        other: how many places; integers that broadcast with input.
    Source: torch.bitwise_left_shift.
    Example:
        >>> gradlib.bitwise_left_shift(gradlib.tensor([1, 2]), 3)
        tensor([ 8, 16])
    """
    return xp.left_shift(input, other) if xp is np else _shifted(xp, xp.left_shift, input, other)


@op(
    "none", promote=takes("bitwise_right_shift", "i"), also=BOTH, inplace=True, aliases=("__rshift__",),
    device=lambda input, other: _shift_on_device("right_shift")(input, other),
)  # fmt: skip
def bitwise_right_shift(xp: Any, input: Any, other: Any) -> Any:
    """Each element's bits shifted right by ``other`` places; the sign stays.

    Args:
        input: integer.
        other: how many places; integers that broadcast with input.
    Source: torch.bitwise_right_shift.
    Example:
        >>> gradlib.bitwise_right_shift(gradlib.tensor([8, 16]), 3)
        tensor([1, 2])
    """
    return xp.right_shift(input, other) if xp is np else _shifted(xp, xp.right_shift, input, other)


publish(reflected(bitwise_left_shift), "__rlshift__")
publish(reflected(bitwise_right_shift), "__rrshift__")


# ---- agreement ----------------------------------------------------------------------------------------------------------------


@by_dtype
def _alike(values: list[Any]) -> list[Any]:
    found = {v.dtype.name for v in values if is_array(v)}
    if len(found) > 1:
        raise RuntimeError(f"isclose: the tensors must have one dtype, got {' and '.join(sorted(found))}; convert one with .to()")
    return promote(values)


@op("none", promote=_alike, also=BOTH, kernels={"out": close})
def isclose(xp: Any, input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether |input - other| <= atol + rtol * |other| for each pair; equal infinities are close.

    Args:
        input, other: tensors of one dtype that broadcast together.
        rtol, atol: relative and absolute tolerance, not negative.
        equal_nan: count NaN as close to NaN.
    Raises: RuntimeError for a negative tolerance.
    Source: torch.isclose.
    Example:
        >>> gradlib.isclose(gradlib.tensor([1.0, 2.0]), gradlib.tensor([1.0 + 1e-7, 2.1]))
        tensor([ True, False])
    """
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got rtol={rtol}, atol={atol}")
    if input.dtype.kind == "b":
        input, other = (xp.asarray(x, np.int8) for x in (input, other))
    close = input == other
    if equal_nan and input.dtype.kind not in "biu":
        close |= xp.isnan(input) & xp.isnan(other)
    if rtol == 0 and atol == 0:
        return close
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = atol + xp.absolute(rtol * other)
        away = xp.absolute(input - other) if input.dtype.kind not in "iu" else _apart(xp, input, other)
    return close | (xp.isfinite(away) & (away <= allowed))


def _apart(xp: Any, input: Any, other: Any) -> Any:
    """The distance between integers, in a dtype that can hold it."""
    return xp.maximum(input, other).astype("uint64") - xp.minimum(input, other).astype("uint64")


@composite
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether every pair of elements is close: ``isclose`` everywhere.

    Args:
        input, other, rtol, atol, equal_nan: as for ``isclose``.
    Source: torch.allclose.
    Example:
        >>> gradlib.allclose(gradlib.tensor([1.0]), gradlib.tensor([1.0 + 1e-7]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composite
def equal(input: Any, other: Any) -> bool:
    """Whether both have the same shape and equal elements.

    Args:
        input, other: tensors of any shape and dtype.
    Source: torch.equal.
    Example:
        >>> gradlib.equal(gradlib.tensor([1, 2]), gradlib.tensor([1, 2]))
        True
    """
    a, b = (input._array, other._array) if type(input) is type(other) is Tensor else (raw(input), raw(other))
    if type(a) is type(b) is np.ndarray and a.dtype is b.dtype and not global_state.active:
        if a.shape != b.shape:
            return False
        if a.size <= _FEW and a.dtype.kind in "biuf":
            return a.data == b.data  # Python compares them one by one before NumPy has prepared its loop
        return b"\1" not in (a != b).tobytes() if a.size <= _SOME else _all_equal(a, b)  # the bytes in less time than a reduction
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(eq(input, other).all())


def _all_equal(a: Any, b: Any) -> bool:
    """Whether all elements of large arrays are equal, asked of some at a time so that an early difference ends it early."""
    if a.item(0) != b.item(0):  # most arrays that differ do so from the beginning
        return False
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        differs = np.not_equal(a, b)
        return not differs.item(differs.argmax())  # which stops at the first
    a, b = a.reshape(-1), b.reshape(-1)
    begin, end = 0, _FIRST
    while begin < a.size:
        if not np.logical_and.reduce(a[begin:end] == b[begin:end]):
            return False
        begin, end = end, end + _SOME
    return True


_FEW, _FIRST, _SOME = 32, 64, 4096
