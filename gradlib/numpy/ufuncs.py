"""NumPy's ufuncs on Tensors: one call of gradlib's operation, in the dtypes that the ufunc itself names.

Which loop a ufunc takes for the dtypes of its operands is asked from NumPy (``ufunc.resolve_dtypes``), once for each combination.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import NUMBERS, cast, constant, first_tensor, held, mask_of, tensor_of, value_of, written
from gradlib.numpy.products import inner_along
from gradlib.numpy.registry import SERVED, Served, numpy_function, refusal
from gradlib.ops import (
    arithmetic,
    broadcast,
    compare,
    complex as complex_ops,
    create,
    elementwise,
    finite,
    powers,
    product,
    rounding,
    select,
    signs,
    trigonometry,
)

DIRECT: dict[Any, Callable[..., Any]] = {}
"""The operation of each ufunc, on Tensors that already have the dtypes of its loop."""

OF_FLOATS: dict[Any, Callable[..., Any]] = {}
"""Those of them whose loops take floats as they are."""

_OPERATORS: dict[str, Any] = {
    "radd": np.add, "rsub": np.subtract, "rmul": np.multiply, "rtruediv": np.true_divide, "rpow": np.power, "rfloordiv": np.floor_divide,
    "rmod": np.remainder, "rmatmul": np.matmul, "rand": np.bitwise_and, "ror": np.bitwise_or, "rxor": np.bitwise_xor,
    "rlshift": np.left_shift, "rrshift": np.right_shift, "gt": np.less, "ge": np.less_equal, "lt": np.greater, "le": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
REFLECTED: dict[Any, Callable[..., Any]] = {function: getattr(Tensor, f"__{name}__") for name, function in _OPERATORS.items()}
"""The operator of Tensor's that answers ``array + tensor``, which NumPy hands on as a call of this ufunc."""


def ufunc(name: str, operation: Callable[..., Any], exact: bool = False) -> None:
    """Serve a ufunc by an operation; one that this NumPy does not have is passed over."""
    function = numpy_function(name)
    if function is not None:
        DIRECT[function] = operation
        if any(types.startswith("d" * function.nin) for types in function.types):
            OF_FLOATS[function] = operation
        SERVED[function] = Served(functools.partial(call, function), exact)


def call(function: Any, *inputs: Any, out: Any = None, where: Any = True, **kwargs: Any) -> Any:
    """A ufunc called on operands among which is a Tensor, with the keywords that NumPy's take.

    Args:
        function: the ufunc. inputs: its operands; further ones are ``out``.
        out: a Tensor, or one for each result, that the result is written into, in place, so that it carries the derivative.
        where: only there the result is computed; elsewhere it is that of ``out``, or zero without one.
        kwargs: dtype, casting, signature, and order and subok, which say nothing of Tensors; axis, axes and keepdims of ``vecdot``.
    """
    if len(inputs) > function.nin:
        inputs, out = inputs[: function.nin], inputs[function.nin :]
    operation = DIRECT.get(function)
    if operation is None:
        raise refusal(function)
    shaping = {name: kwargs.pop(name) for name in ("axis", "axes", "keepdims") if name in kwargs}
    like = first_tensor(inputs)
    operands = [x if type(x) in NUMBERS or isinstance(x, Tensor) else tensor_of(x, like) for x in inputs]
    wanted, given = loop(function, operands, **kwargs)
    placed = [
        (x if dtype.kind in "fc" and type(x) is not bool else tensor_of(x, like, dtype)) if type(x) in NUMBERS else cast(x, dtype)
        for x, dtype in zip(operands, wanted, strict=True)
    ]
    if where is not True:
        where = mask_of(where, like)
        placed = [_tamed(function, x, where) for x in placed]
    made = operation(*placed, **shaping)
    several = isinstance(made, tuple)
    results = [cast(r, dtype) for r, dtype in zip(made if several else (made,), given, strict=True)]
    outs = out if isinstance(out, tuple) else (out,)
    outs = (*outs, *[None] * (len(results) - len(outs)))
    if where is not True:
        results = [_where(where, r, o, like) for r, o in zip(results, outs, strict=True)]
    results = [written(r, o, f"numpy.{function.__name__}") for r, o in zip(results, outs, strict=True)]
    return tuple(results) if several else results[0]


def from_operator(function: Any, inputs: tuple[Any, ...], kwargs: Any) -> bool:
    """Whether a call may be that of ``array + x`` or ``array += x``, which NumPy hands on as a call of the ufunc."""
    return (
        function in REFLECTED and len(inputs) == 2 and isinstance(inputs[0], (np.ndarray, np.generic)) and isinstance(inputs[1], Tensor)
        and (not kwargs or (len(kwargs) == 1 and "out" in kwargs and kwargs["out"][0] is inputs[0]))
    )  # fmt: skip


def _tamed(function: Any, x: Any, where: Tensor) -> Any:
    """An operand that is harmless where nothing is computed, so that no derivative there is infinite or not a number."""
    if not isinstance(x, Tensor) or x.dtype.kind not in "fc":
        return x
    return select.where(where, x, 2.0 if function is np.arccosh else 0.5)


def _where(where: Tensor, result: Any, out: Any, like: Any) -> Any:
    if out is None:
        return select.where(where, result, result.new_zeros(()))
    kept = tensor_of(out, like)
    if np.can_cast(result.dtype, kept.dtype, casting="same_kind"):  # what `written` refuses else
        result = cast(result, kept.dtype)
    return select.where(where, result, cast(kept, result.dtype))


def loop(
    function: Any, operands: list[Any], dtype: Any = None, casting: str = "same_kind", signature: Any = None, sig: Any = None,
    order: Any = None, subok: bool = True,
) -> tuple[tuple[np.dtype, ...], tuple[np.dtype, ...]]:  # fmt: skip
    """The dtypes of operands and of results in which NumPy would compute.

    Raises: TypeError for operands that the ufunc does not take.
    """
    signature = signature if signature is not None else sig
    key = tuple([type(x) if type(x) in NUMBERS else x.dtype for x in operands])
    if dtype is None and signature is None and casting == "same_kind":
        return _loop(function, key)
    if dtype is not None:
        signature = (*[None] * function.nin, *[np.dtype(dtype)] * function.nout)
    elif isinstance(signature, str):
        letters = signature.replace("->", "")
        signature = tuple(np.dtype(c) for c in letters) if len(letters) > 1 else (*[None] * function.nin, np.dtype(letters))
    return _resolved(function, key, signature, casting)


@functools.lru_cache(maxsize=4096)
def _loop(function: Any, operands: tuple[Any, ...]) -> tuple[tuple[np.dtype, ...], tuple[np.dtype, ...]]:
    return _resolved(function, operands, None, "same_kind")


def _resolved(function: Any, operands: tuple[Any, ...], signature: Any, casting: str) -> Any:
    alone = all(isinstance(x, type) for x in operands)
    operands = tuple(np.dtype(x) if x is bool or alone else x for x in operands)
    chosen = {} if signature is None else {"signature": signature}
    found = function.resolve_dtypes((*operands, *[None] * function.nout), casting=casting, **chosen)
    return tuple(map(held, found[: function.nin])), tuple(map(held, found[function.nin :]))


# ---- what gradlib has no operation of its own for ------------------------------------------------------------------------------


def _tensors(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both operands as Tensors, a number in the dtype of the other one."""
    return (x if isinstance(x, Tensor) else tensor_of(x, y, y.dtype)), (y if isinstance(y, Tensor) else tensor_of(y, x, x.dtype))


def absolute(x: Tensor) -> Tensor:
    """The size of each element."""
    return x.clone() if x.dtype == np.bool_ else elementwise.abs(x)


def positive(x: Tensor) -> Tensor:
    """The numbers themselves, in new memory."""
    return elementwise.positive(x).clone()


def power(x: Any, y: Any) -> Tensor:
    """``x**y``. Raises: ValueError for integers to negative integers, as NumPy does."""
    if isinstance(y, Tensor) and y.dtype.kind == "i" and bool((y.detach() < 0).any()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    return powers.pow(x, y)


def rint(x: Tensor) -> Tensor:
    """Rounded to the nearest integer, ties to the even one."""
    return rounding.round(x) if x.dtype.kind == "f" else complex_ops.complex(rounding.round(x.real), rounding.round(x.imag))


def cbrt(x: Tensor) -> Tensor:
    """The real cube root; its derivative at zero is infinite."""
    side = signs.copysign(create.ones_like(x), x.detach())  # not the sign, whose 0 at zero would meet the infinite slope
    return side * (side * x) ** (1.0 / 3.0)


def logaddexp2(x: Any, y: Any) -> Tensor:
    """``log2(2**x + 2**y)`` without overflow."""
    ln2 = math.log(2.0)
    x, y = _tensors(x, y)
    return powers.logaddexp(x * ln2, y * ln2) / ln2


def heaviside(x: Any, middle: Any) -> Tensor:
    """0 below zero, 1 above it, and ``middle`` at zero."""
    x, middle = _tensors(x, middle)
    return select.where(x == 0, middle, select.where(finite.isnan(x), x, (x > 0).to(x.dtype)))


def ldexp(x: Any, exponent: Any) -> Tensor:
    """``x * 2**exponent``, in three steps: the smallest number times 2**exponent may be finite where 2**exponent is not."""
    like = first_tensor((x, exponent))
    x = tensor_of(x, like)
    x = x if x.dtype.kind == "f" else cast(x, np.dtype(np.float64))
    limits = np.finfo(x.dtype)
    span = limits.maxexp - limits.minexp + limits.nmant + 2  # what is further off makes 0 or inf of every number but zero
    left = tensor_of(exponent, like, np.int64).clamp(-span, span)
    for parts in (3, 2, 1):
        step = left // parts
        left = left - step
        x = x * elementwise.exp2(step.to(x.dtype))
    return x


def modf(x: Tensor) -> tuple[Tensor, Tensor]:
    """(fractional part, integral part), both with the sign of x."""
    none = signs.copysign(create.zeros_like(x), x.detach())
    return arithmetic.fmod(select.where(finite.isinf(x), none, x), 1.0), rounding.trunc(x)


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """(mantissa, exponent): ``x == mantissa * 2**exponent``; the mantissa is differentiable while the exponent stays."""
    exponent = constant(np.frexp(value_of(x))[1], x)
    half = exponent // 2
    return x * elementwise.exp2((-half).to(x.dtype)) * elementwise.exp2((half - exponent).to(x.dtype)), exponent


def gcd(x: Any, y: Any) -> Tensor:
    """The greatest common divisor of integers, by Euclid's algorithm."""
    a, b = (abs(v) for v in broadcast.broadcast_tensors(*_tensors(x, y)))
    while bool((b != 0).any()):
        more = b != 0
        a, b = select.where(more, b, a), select.where(more, arithmetic.remainder(a, select.where(more, b, 1)), 0)
    return a


def lcm(x: Any, y: Any) -> Tensor:
    """The least common multiple of integers."""
    x, y = _tensors(x, y)
    common = gcd(x, y)
    return arithmetic.floor_divide(abs(x), select.where(common == 0, 1, common)) * abs(y)


def bitwise_count(x: Tensor) -> Tensor:
    """The number of bits set in each integer's absolute value."""
    left = abs(x.to(np.int64))
    found = left & 1
    for _ in range(8 * x.dtype.itemsize - 1):
        left = left >> 1
        found = found + (left & 1)
    return found.to(np.uint8)


def float_power(x: Any, y: Any) -> Tensor:
    """The power, in float64 or complex128."""
    like = first_tensor((x, y))
    return powers.pow(*[tensor_of(v, like, np.result_type(tensor_of(v, like).dtype, np.float64)) for v in (x, y)])


def divmod_(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """(x // y, x % y)."""
    return arithmetic.floor_divide(x, y), arithmetic.modulo(x, y)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; of a complex number ``x / abs(x)``."""
    found = elementwise.sgn(x) if x.dtype.kind == "c" else elementwise.sign(x)
    return select.where(finite.isnan(x), x, found) if x.dtype.kind in "fc" else found


def reciprocal(x: Tensor) -> Tensor:
    """``1 / x``; of integers the whole part."""
    return rounding.trunc(1.0 / x.to(dtypes.float64)).to(x.dtype) if x.dtype.kind in "iu" else elementwise.reciprocal(x)


def degrees(x: Tensor) -> Tensor:
    """Convert radians to degrees."""
    return x * (180.0 / math.pi)


def radians(x: Tensor) -> Tensor:
    """Convert degrees to radians."""
    return x * (math.pi / 180.0)


def _rounding(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: x.clone() if x.dtype.kind in "biu" else operation(x)


def _conjugate(x: Tensor) -> Tensor:
    return complex_ops.conj(x) if x.dtype.kind == "c" else x.clone()


def _both(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that wants a Tensor first."""
    return lambda x, y: operation(*_tensors(x, y))


def _matvec(a: Tensor, b: Tensor, **axes: Any) -> Tensor:
    _no_axes(axes)
    _with_dims(a, 2, b, 1, "matvec")
    return product.matmul(a, b.unsqueeze(-1)).squeeze(-1)


def _vecmat(a: Tensor, b: Tensor, **axes: Any) -> Tensor:
    _no_axes(axes)
    _with_dims(a, 1, b, 2, "vecmat")
    return product.matmul(_conjugate(a).unsqueeze(-2), b).squeeze(-2)


def _vecdot(a: Tensor, b: Tensor, axis: int = -1, keepdims: bool = False, axes: Any = None) -> Tensor:
    _no_axes({} if axes is None else {"axes": axes})
    result = inner_along(a, b, axis, "numpy.vecdot")
    return result.unsqueeze(-1).movedim(-1, axis) if keepdims else result


def _matmul(a: Tensor, b: Tensor, **axes: Any) -> Tensor:
    _no_axes(axes)
    return product.matmul(a, b)


def _with_dims(a: Tensor, least: int, b: Tensor, other: int, name: str) -> None:
    if a.ndim < least or b.ndim < other:
        raise ValueError(f"numpy.{name} takes operands of at least {least} and {other} dimensions, got {a.ndim} and {b.ndim}")


def _no_axes(axes: dict[str, Any]) -> None:
    if axes:
        raise TypeError(f"{', '.join(axes)}= is not taken for Tensors; move the axes first, with numpy.moveaxis")


_ONE: dict[str, Callable[..., Any]] = {
    "sin": trigonometry.sin, "cos": trigonometry.cos, "tan": trigonometry.tan, "sinh": trigonometry.sinh, "cosh": trigonometry.cosh,
    "tanh": trigonometry.tanh, "arcsin": trigonometry.asin, "arccos": trigonometry.acos, "arctan": trigonometry.atan,
    "arcsinh": trigonometry.asinh, "arccosh": trigonometry.acosh, "arctanh": trigonometry.atanh, "exp": elementwise.exp,
    "exp2": elementwise.exp2, "expm1": elementwise.expm1, "log": elementwise.log, "log2": elementwise.log2,
    "log10": elementwise.log10, "log1p": elementwise.log1p, "sqrt": elementwise.sqrt, "square": elementwise.square,
    "absolute": absolute, "fabs": elementwise.abs, "negative": elementwise.neg, "positive": positive,
    "reciprocal": reciprocal, "cbrt": cbrt, "degrees": degrees, "rad2deg": degrees, "radians": radians, "deg2rad": radians,
    "rint": _rounding(rint), "floor": _rounding(rounding.floor), "ceil": _rounding(rounding.ceil),
    "trunc": _rounding(rounding.trunc), "sign": sign, "conjugate": _conjugate, "modf": modf, "frexp": frexp,
}  # fmt: skip
_TWO: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add, "subtract": arithmetic.sub, "multiply": arithmetic.mul, "true_divide": arithmetic.div,
    "floor_divide": arithmetic.floor_divide, "remainder": arithmetic.modulo, "fmod": arithmetic.fmod, "divmod": divmod_,
    "power": power, "float_power": float_power, "arctan2": powers.atan2, "hypot": powers.hypot, "logaddexp": powers.logaddexp,
    "logaddexp2": logaddexp2, "maximum": select.maximum, "minimum": select.minimum, "fmax": select.fmax, "fmin": select.fmin,
    "copysign": signs.copysign, "nextafter": signs.nextafter, "heaviside": heaviside, "ldexp": ldexp,
    "matmul": _matmul, "matvec": _matvec, "vecmat": _vecmat,
    "vecdot": _vecdot,
}  # fmt: skip
_EXACT_ONE: dict[str, Callable[..., Any]] = {
    "isnan": finite.isnan, "isinf": finite.isinf, "isfinite": finite.isfinite, "signbit": signs.signbit,
    "logical_not": compare.logical_not, "invert": compare.bitwise_not, "bitwise_count": bitwise_count,
}  # fmt: skip
_EXACT_TWO: dict[str, Callable[..., Any]] = {
    "less": compare.lt, "less_equal": compare.le, "greater": compare.gt, "greater_equal": compare.ge, "equal": compare.eq,
    "not_equal": compare.ne, "logical_and": compare.logical_and, "logical_or": compare.logical_or, "logical_xor": compare.logical_xor,
    "bitwise_and": compare.bitwise_and, "bitwise_or": compare.bitwise_or, "bitwise_xor": compare.bitwise_xor,
    "left_shift": compare.bitwise_left_shift, "right_shift": compare.bitwise_right_shift, "gcd": gcd, "lcm": lcm,
}  # fmt: skip

_TENSORS_ONLY = (select.maximum, select.minimum, select.fmax, select.fmin, signs.copysign, signs.nextafter)

for _name, _operation in _ONE.items():
    ufunc(_name, _operation)
for _name, _operation in _TWO.items():
    ufunc(_name, _both(_operation) if _operation in _TENSORS_ONLY else _operation)
for _name, _operation in _EXACT_ONE.items():
    ufunc(_name, _operation, exact=True)
for _name, _operation in _EXACT_TWO.items():
    ufunc(_name, _both(_operation), exact=True)
