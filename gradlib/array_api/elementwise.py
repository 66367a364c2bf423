"""The standard's elementwise functions: gradlib's operations under its names, two operands brought to their common dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradlib.array_api.array import Array, as_standard, common_dtype, floor_quotient, promoted, standard
from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor
from gradlib.ops import (
    arithmetic,
    compare,
    complex as complexes,
    copies,
    elementwise,
    finite,
    powers,
    rounding,
    select,
    signs,
    trigonometry,
)
from gradlib.ops.convert import to
from gradlib.ops.create import full, zeros_like

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp",
    "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal",
    "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "multiply", "negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "where",
]  # fmt: skip


def _unary(operation: Callable[..., Any], name: str) -> Callable[[Any], Array]:
    """The function of one operand."""

    def call(x: Any, /) -> Any:
        return as_standard(operation(x), (x,))

    return _named(call, operation, name)


def _binary(operation: Callable[..., Any], name: str) -> Callable[[Any, Any], Array]:
    """The function of two operands, one of which may be a number."""

    def call(x1: Any, x2: Any, /) -> Any:
        return as_standard(operation(*promoted(x1, x2)), (x1, x2))

    return _named(call, operation, name)


def _named(call: Callable[..., Any], operation: Callable[..., Any], name: str) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = name
    call.__module__ = "gradlib.array_api"
    first = (operation.__doc__ or "").strip().splitlines()[0]
    call.__doc__ = f"{first}\n\nSource: array API standard, ``{name}``; gradlib's ``{operation.__name__}``."
    return call


abs = _unary(elementwise.abs, "abs")
acos = _unary(trigonometry.acos, "acos")
acosh = _unary(trigonometry.acosh, "acosh")
asin = _unary(trigonometry.asin, "asin")
asinh = _unary(trigonometry.asinh, "asinh")
atan = _unary(trigonometry.atan, "atan")
atanh = _unary(trigonometry.atanh, "atanh")
bitwise_invert = _unary(compare.bitwise_not, "bitwise_invert")
ceil = _unary(rounding.ceil, "ceil")
conj = _unary(complexes.conj, "conj")
cos = _unary(trigonometry.cos, "cos")
cosh = _unary(trigonometry.cosh, "cosh")
exp = _unary(elementwise.exp, "exp")
floor = _unary(rounding.floor, "floor")
isfinite = _unary(finite.isfinite, "isfinite")
isinf = _unary(finite.isinf, "isinf")
isnan = _unary(finite.isnan, "isnan")
log = _unary(elementwise.log, "log")
log1p = _unary(elementwise.log1p, "log1p")
log2 = _unary(elementwise.log2, "log2")
log10 = _unary(elementwise.log10, "log10")
logical_not = _unary(compare.logical_not, "logical_not")
negative = _unary(elementwise.neg, "negative")
positive = _unary(elementwise.positive, "positive")
real = _unary(complexes.real, "real")
reciprocal = _unary(elementwise.reciprocal, "reciprocal")
signbit = _unary(signs.signbit, "signbit")
sin = _unary(trigonometry.sin, "sin")
sinh = _unary(trigonometry.sinh, "sinh")
square = _unary(elementwise.square, "square")
sqrt = _unary(elementwise.sqrt, "sqrt")
tan = _unary(trigonometry.tan, "tan")
trunc = _unary(rounding.trunc, "trunc")

add = _binary(arithmetic.add, "add")
atan2 = _binary(powers.atan2, "atan2")
bitwise_and = _binary(compare.bitwise_and, "bitwise_and")
bitwise_left_shift = _binary(compare.bitwise_left_shift, "bitwise_left_shift")
bitwise_or = _binary(compare.bitwise_or, "bitwise_or")
bitwise_right_shift = _binary(compare.bitwise_right_shift, "bitwise_right_shift")
bitwise_xor = _binary(compare.bitwise_xor, "bitwise_xor")
copysign = _binary(signs.copysign, "copysign")
divide = _binary(arithmetic.div, "divide")
equal = _binary(compare.eq, "equal")
floor_divide = _binary(floor_quotient, "floor_divide")
greater = _binary(compare.gt, "greater")
greater_equal = _binary(compare.ge, "greater_equal")
hypot = _binary(powers.hypot, "hypot")
less = _binary(compare.lt, "less")
less_equal = _binary(compare.le, "less_equal")
logaddexp = _binary(powers.logaddexp, "logaddexp")
logical_and = _binary(compare.logical_and, "logical_and")
logical_or = _binary(compare.logical_or, "logical_or")
logical_xor = _binary(compare.logical_xor, "logical_xor")
maximum = _binary(select.maximum, "maximum")
minimum = _binary(select.minimum, "minimum")
multiply = _binary(arithmetic.mul, "multiply")
nextafter = _binary(signs.nextafter, "nextafter")
not_equal = _binary(compare.ne, "not_equal")
pow = _binary(powers.pow, "pow")
remainder = _binary(arithmetic.modulo, "remainder")
subtract = _binary(arithmetic.sub, "subtract")


@standard
def expm1(x: Any, /) -> Any:
    """exp(x) - 1, accurate near zero; of complex numbers that are not finite as ``exp`` has it."""
    found = elementwise.expm1(x)
    return select.where(finite.isfinite(x) & (x != 0), found, elementwise.exp(x) - 1) if x.dtype.kind == "c" else found


@standard
def tanh(x: Any, /) -> Any:
    """The hyperbolic tangent; far out along the real axis 1 or -1 and a zero of the imaginary part's sign."""
    found = trigonometry.tanh(x)
    if x.dtype.kind != "c":
        return found
    along, across = complexes.real(x), complexes.imag(x)
    limit = complexes.complex(elementwise.sign(along), signs.copysign(zeros_like(across), across))
    return select.where(finite.isinf(along) & finite.isfinite(across), limit, found)


@standard
def imag(x: Any, /) -> Any:
    """The imaginary parts, as a view; zeros of a real array."""
    return complexes.imag(x) if x.dtype.kind == "c" else zeros_like(x)


@standard
def round(x: Any, /) -> Any:
    """Each element to the nearest integer, halves to the even one; the parts of a complex element each for itself."""
    return complexes.complex(rounding.round(x.real), rounding.round(x.imag)) if x.dtype.kind == "c" else rounding.round(x)


@standard
def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign of each element, NaN for NaN; of a complex one the number of size 1 in its direction."""
    if x.dtype.kind == "c":
        return select.where(x == 0, zeros_like(x), elementwise.sgn(x))
    return select.where(finite.isnan(x), x, elementwise.sign(x)) if x.dtype.kind == "f" else elementwise.sign(x)


@standard
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Each element within bounds, in the dtype of x; None is no bound.

    Args:
        x: a real array.
        min, max: numbers, or arrays that broadcast with it.
    """
    for bound, choose in ((min, select.maximum), (max, select.minimum)):
        if bound is not None:
            common = common_dtype(x, bound)
            limit = bound if isinstance(bound, Tensor) else full((), bound, dtype=common, device=x.device)
            x = to(choose(to(x, common), to(limit, common)), x.dtype)
    return copies.clone(x) if min is None and max is None else x


@standard
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """The elements of x1 where a condition holds and those of x2 elsewhere, in their common dtype; one of them may be a number."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        common = dtypes.result_type(x1, x2)
        x1 = full((), x1, dtype=common, device=condition.device)
    return select.where(condition, *promoted(x1, x2))
