"""Functions in fewer calls, or in less memory, than their formulas take: no values other than these give."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace, zero_d
from gradlib.backend.vectorised.blocks import are_long, blocks, is_large


def reciprocal(xp: Namespace, input: Any) -> Any:
    """1 / x: by division, which takes NumPy half as long as its ``reciprocal``, whose complex 1 / 0 is NaN in both parts."""
    return np.divide(zero_d(1.0, input.dtype), input) if is_large(input) or (xp is np and input.dtype.kind == "c") else xp.reciprocal(input)


def reciprocal_root(xp: Namespace, input: Any) -> Any:
    """1 / sqrt(x)."""
    root = xp.sqrt(input)
    return np.divide(zero_d(1.0, root.dtype), root, out=root) if is_large(root) else reciprocal(xp, root)


def _fraction_of(x: Array, out: Array) -> None:
    np.subtract(x, np.trunc(x, out), out)


def fraction(xp: Namespace, input: Any) -> Any:
    """What follows the point, with the sign of x."""
    if are_long(input):
        return blocks(_fraction_of, input)
    whole = xp.trunc(input)
    return np.subtract(input, whole, out=whole) if is_large(whole) else input - whole


def leaky(xp: Namespace, input: Any, slope: float) -> Any:
    """Each element, times a slope from 0 to 1 where it is not positive."""
    if not is_large(input):
        return xp.maximum(input, input * slope)
    factor = zero_d(slope, input.dtype)
    if are_long(input):
        return blocks(lambda x, out: np.maximum(x, np.multiply(x, factor, out), out=out), input)
    scaled = input * factor
    return np.maximum(input, scaled, out=scaled)


def between(start: Array, end: Array, weight: float) -> Array:
    """start + weight * (end - start), of arrays that are long."""

    def form(a: Array, b: Array, out: Array) -> None:
        np.subtract(b, a, out)
        out *= weight
        out += a

    return blocks(form, start, end)


def added(ufunc: Any, input: Array, a: Array, b: Array, factor: Any) -> Array:
    """The input and a factor times ``ufunc(a, b)``, of arrays that are long."""

    def form(x: Array, a: Array, b: Array, out: Array) -> None:
        ufunc(a, b, out)
        if factor != 1:
            out *= factor
        out += x

    return blocks(form, input, a, b)


def plus(input: Array, product: Array) -> Array:
    """The sum of an array and one that nobody else has, which is written."""
    alike = type(input) is type(product) is np.ndarray and input.dtype is product.dtype
    if alike and input.strides == product.strides and input.shape == product.shape:
        return np.add(input, product, product)
    return input + product


def _side_by_side(real: Array, imag: Array, out: Array) -> None:
    out.real, out.imag = real, imag


def complex_of(real: Array, imag: Array, dtype: Any) -> Array:
    """Complex numbers of parts that are long."""
    return blocks(_side_by_side, real, imag, dtype=dtype)
