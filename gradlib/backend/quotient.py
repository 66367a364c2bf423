"""Quotients of complex numbers on CuPy arrays as NumPy and torch have them: CuPy's own are NaN by zero and by infinity.

The arithmetic is that of gradlib's own small kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import NUMBERS
from gradlib.backend.kernel_text import SMITH

_KERNEL = f"""
    typedef typename T::value_type real;
    const real a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
    real re, im;
    {SMITH}
    z = T(re, im);
"""


@cache
def _kernel() -> Any:
    return cupy().ElementwiseKernel("T x, T y", "T z", _KERNEL, "gradlib_quotient")


def _are_complex(x: Any, y: Any) -> bool:
    """Whether one of two operands is complex, of which one is a CuPy array."""
    for each in (x, y):
        if isinstance(each, complex) or getattr(getattr(each, "dtype", None), "kind", "") == "c":
            array = cupy().ndarray
            return isinstance(x, array) or isinstance(y, array)
    return False


def _quotient(x: Any, y: Any) -> Array:
    a, b = x if isinstance(x, NUMBERS) else x.dtype, y if isinstance(y, NUMBERS) else y.dtype
    dtype = np.result_type(a, b)
    return _kernel()(
        dtype.type(x) if isinstance(x, NUMBERS) else x.astype(dtype, copy=False),
        dtype.type(y) if isinstance(y, NUMBERS) else y.astype(dtype, copy=False),
    )


def over(x: Any, y: Any) -> Any:
    """``x / y`` of any operands."""
    return _quotient(x, y) if _are_complex(x, y) else x / y


def over_in_place(x: Any, y: Any) -> Any:
    """``x /= y`` of any operands; returns x."""
    if _are_complex(x, y):
        x[...] = _quotient(x, y)
    else:
        x /= y
    return x


@cache
def _theirs(name: str) -> Any:
    return getattr(cupy(), name)


def divide(x: Any, y: Any, *more: Any, **options: Any) -> Array:
    """``cupy.true_divide``."""
    if not (more or options):
        a, b = getattr(x, "dtype", x), getattr(y, "dtype", y)
        if type(a) is complex or type(b) is complex or getattr(a, "kind", "") == "c" or getattr(b, "kind", "") == "c":
            return _kernel()(x, y) if a is b else _quotient(x, y)
    return _theirs("true_divide")(x, y, *more, **options)


def reciprocal(x: Array, *more: Any, **options: Any) -> Array:
    """``cupy.reciprocal``."""
    return _quotient(1, x) if not (more or options) and x.dtype.kind == "c" else _theirs("reciprocal")(x, *more, **options)


OURS: dict[str, Callable[..., Array]] = {"divide": divide, "true_divide": divide, "reciprocal": reciprocal}
"""By CuPy's names."""
