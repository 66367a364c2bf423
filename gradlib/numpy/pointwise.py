"""Elementwise functions that are no ufuncs, and questions that have a yes or no for an answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import cast, constant, first_tensor, floating, promoted, tensor_of, value_of, written
from gradlib.numpy.registry import implements
from gradlib.ops import broadcast, compare, complex as complex_ops, finite, rounding, select, signs, trigonometry

_NUMBERS = {int, float, type(None)}


@implements(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """The values no smaller than ``a_min`` and no larger than ``a_max``."""
    lowest, highest = a_min if min is None else min, a_max if max is None else max
    if lowest is None and highest is None:
        return written(cast(tensor_of(a).clone(), dtype), out, "numpy.clip")
    if out is None and dtype is None and isinstance(a, Tensor) and a.dtype.kind == "f" and {type(lowest), type(highest)} <= _NUMBERS:
        return select.clamp(a, lowest, highest)
    like = first_tensor((a, lowest, highest))
    given = [v for v in (a, lowest, highest) if v is not None]
    x, *bounds = promoted(*given, like=like, dtype=dtype)
    low = bounds.pop(0) if lowest is not None else None
    high = bounds.pop(0) if highest is not None else None
    x = x if low is None else select.clamp_min(x, low)
    return written(x if high is None else select.clamp_max(x, high), out, "numpy.clip")


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    """Rounded to so many decimals, ties to the even one."""
    x = tensor_of(a)
    if x.dtype == np.bool_:
        if decimals != 0:
            raise TypeError(f"numpy.round rounds bools to decimals=0 only, got {decimals}; convert them first")
        x = x.to(np.float16)
    if x.dtype.kind == "c":
        return written(complex_ops.complex(round(x.real, decimals), round(x.imag, decimals)), out, "numpy.round")
    if x.dtype.kind in "iu" and decimals < 0:
        step = 10**-decimals
        found = rounding.round(x.to(np.float64) / step) * step
        return written(found.to(x.dtype), out, "numpy.round")
    return written(rounding.round(x, decimals=decimals) if x.dtype.kind == "f" else x.clone(), out, "numpy.round")


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Tensor:
    """Rounded towards zero."""
    t = tensor_of(x)
    if t.dtype.kind == "c":
        raise TypeError("numpy.fix does not take complex numbers; round their real and imaginary parts")
    return written(rounding.trunc(t) if t.dtype.kind == "f" else t.clone(), out, "numpy.fix")


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Replace NaN and infinities by numbers."""
    t = tensor_of(x)
    if t.dtype.kind == "c":
        return complex_ops.complex(nan_to_num(t.real, True, nan, posinf, neginf), nan_to_num(t.imag, True, nan, posinf, neginf))
    return finite.nan_to_num(t, nan, posinf, neginf) if t.dtype.kind == "f" else t.clone()


@implements(np.real)
def real(val: Any) -> Tensor:
    """The real part."""
    x = tensor_of(val)
    return x.real if x.dtype.kind == "c" else x


@implements(np.imag)
def imag(val: Any) -> Tensor:
    """The imaginary part; zeros of a real Tensor."""
    x = tensor_of(val)
    return x.imag if x.dtype.kind == "c" else select.where(constant(np.False_, x), x, x.new_zeros(()))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Tensor:
    """The angle of complex numbers, in radians or degrees."""
    x = tensor_of(z)
    if x.dtype.kind == "c":
        found = complex_ops.angle(x)
    else:  # pi where the sign is set, of a zero too
        found = cast(signs.signbit(x.detach()), np.arctan2.resolve_dtypes((int, x.dtype, None))[2]) * math.pi
        found = select.where(finite.isnan(x), x, found) if x.dtype.kind == "f" else found
    return found * (180.0 / math.pi) if deg else found


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Tensor:
    """The real part where the imaginary one is no more than rounding."""
    x = tensor_of(a)
    if x.dtype.kind != "c":
        return x
    bound = np.finfo(x.dtype).eps * tol if tol > 1 else tol
    return x.real if bool((x.detach().imag.abs() < bound).all()) else x


@implements(np.sinc)
def sinc(x: Any) -> Tensor:
    """``sin(pi x) / (pi x)``, 1 at zero."""
    t = floating(x) * math.pi
    zero = t == 0
    safe = select.where(zero, 1.0, t)
    # near zero the derivatives come from the series, which has them at zero
    square = t * t
    return select.where(zero, 1.0 - square / 6.0 + square * square / 120.0, trigonometry.sin(safe) / safe)


@implements(np.i0)
def i0(x: Any) -> Tensor:
    """Bessel's modified function of order 0, by its power series, whose terms are all positive."""
    t = floating(x)
    if t.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    largest = np.fmax.reduce(np.abs(value_of(t)), axis=None, initial=0.0)
    quarter = t * t / 4.0
    found: Any = 1.0
    for k in range(20 + int(1.5 * min(largest, 1e3)), 0, -1):
        found = 1.0 + quarter / (k * k) * found
    return found


@implements(np.iscomplexobj, exact=True)
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return bool(tensor_of(x).dtype.kind == "c")


@implements(np.isrealobj, exact=True)
def isrealobj(x: Any) -> bool:
    """Whether the dtype is real."""
    return not iscomplexobj(x)


@implements(np.iscomplex, exact=True)
def iscomplex(x: Any) -> Tensor:
    """Whether each element's imaginary part is not zero."""
    return imag(tensor_of(x).detach()) != 0


@implements(np.isreal, exact=True)
def isreal(x: Any) -> Tensor:
    """Whether each element's imaginary part is zero."""
    return imag(tensor_of(x).detach()) == 0


@implements(np.isposinf, exact=True)
def isposinf(x: Any, out: Any = None) -> Tensor:
    """Whether each element is positive infinity."""
    return written(_ordered(x).detach() == math.inf, out, "numpy.isposinf")


@implements(np.isneginf, exact=True)
def isneginf(x: Any, out: Any = None) -> Tensor:
    """Whether each element is negative infinity."""
    return written(_ordered(x).detach() == -math.inf, out, "numpy.isneginf")


def _ordered(x: Any) -> Tensor:
    t = tensor_of(x)
    if t.dtype.kind == "c":
        raise TypeError(f"This operation is not supported for {t.dtype} values because it would be ambiguous.")
    return t


@implements(np.isclose, exact=True)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether two elements differ by no more than a tolerance."""
    x, y = broadcast.broadcast_tensors(*promoted(a, b, floating=True))
    return compare.isclose(x.detach(), y.detach(), rtol, atol, equal_nan)


@implements(np.allclose, exact=True)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all differ by no more than a tolerance."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@implements(np.array_equal, exact=True)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and values are the same."""
    x, y = promoted(a1, a2)
    if tuple(x.shape) != tuple(y.shape):
        return False
    return bool(_same(x.detach(), y.detach(), equal_nan).all())


def _same(x: Tensor, y: Tensor, equal_nan: bool) -> Tensor:
    same = x == y
    return same | (finite.isnan(x) & finite.isnan(y)) if equal_nan and x.dtype.kind in "fc" else same


@implements(np.array_equiv, exact=True)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether the values are the same where the shapes meet."""
    x, y = promoted(a1, a2)
    try:
        x, y = broadcast.broadcast_tensors(x, y)
    except RuntimeError:
        return False
    return bool((x.detach() == y.detach()).all())


@implements(np.result_type, exact=True)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype in which NumPy would compute with these."""
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes])


@implements(np.can_cast, exact=True)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether the dtype may be cast to another."""
    return np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting)


@implements(np.min_scalar_type, exact=True)
def min_scalar_type(a: Any) -> np.dtype:
    """The smallest dtype that holds a number; of more than one its own."""
    x = tensor_of(a)
    return np.min_scalar_type(value_of(x)) if x.ndim == 0 else x.dtype


@implements(np.common_type, exact=True)
def common_type(*arrays: Any) -> Any:
    """The inexact scalar type of all."""
    return np.common_type(*[np.empty(0, x.dtype) if isinstance(x, Tensor) else x for x in arrays])


@implements(np.shares_memory, np.may_share_memory, exact=True)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether two have memory in common."""
    x, y = (v.detach() if isinstance(v, Tensor) else tensor_of(v) for v in (a, b))
    return x.device == y.device and not x.is_cuda and bool(np.shares_memory(x.numpy(), y.numpy()))


@implements(np.array_repr, exact=True)
def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """The text of a Tensor."""
    return repr(arr)


@implements(np.array_str, exact=True)
def array_str(a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """Its values as text."""
    return np.array_str(value_of(a), max_line_width, precision, suppress_small)


@implements(np.array2string, exact=True)
def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """Its values as text."""
    return np.array2string(value_of(a), *args, **kwargs)
