"""Polynomials by their coefficients, highest power first, as numpy.poly and its kin hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.joining import concatenate, stack
from gradlib.numpy.linear import eigvals, inexact, lstsq
from gradlib.numpy.operands import cast, constant, first_tensor, floating, promoted_arrays, tensor_of, value_of, vector
from gradlib.numpy.registry import implements
from gradlib.numpy.sampled import convolve
from gradlib.ops import elementwise


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Tensor:
    """The polynomial at x, by Horner's rule."""
    like = first_tensor((p, x))
    coefficients, at = promoted_arrays(p, x, like=like)
    found = at * 0
    for i in range(coefficients.shape[0]):
        found = found * at + coefficients[i]
    return found


def _padded(a: Any, b: Any) -> list[Tensor]:
    parts = [vector(x, "a polynomial") for x in promoted_arrays(a, b)]
    size = max(x.shape[0] for x in parts)
    return [concatenate([x.new_zeros((size - x.shape[0],)), x]) for x in parts]


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum."""
    x, y = _padded(a1, a2)
    return x + y


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference."""
    x, y = _padded(a1, a2)
    return x - y


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Tensor:
    """The product, of the coefficients behind the leading zeros."""
    x, y = (_without_leading_zeros(each) for each in promoted_arrays(a1, a2))
    return convolve(x, y)


def _without_leading_zeros(x: Tensor) -> Tensor:
    x = vector(x, "a polynomial")
    left = np.flatnonzero(value_of(x))
    return x[int(left[0]) :] if left.size else x.new_zeros((1,))


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """(quotient, remainder)."""
    x, y = (vector(t, "a polynomial") for t in promoted_arrays(u, v, floating=True))
    if not x.shape[0] or not y.shape[0]:
        raise ValueError(f"numpy.polydiv takes polynomials of at least one coefficient, got {x.shape[0]} and {y.shape[0]}")
    steps = x.shape[0] - y.shape[0] + 1
    if steps < 1:
        return x.new_zeros((1,)), x
    found = []
    for i in range(steps):
        factor = x[i] / y[0]
        found.append(factor)
        x = concatenate([x[:i], x[i : i + y.shape[0]] - factor * y, x[i + y.shape[0] :]])
    rest = x[steps:] if steps < x.shape[0] else x[-1:]
    left = np.flatnonzero(~np.isclose(value_of(rest), 0, rtol=1e-14, atol=1e-14))
    return stack(found), rest[int(left[0]) if left.size else rest.shape[0] - 1 :]


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Tensor:
    """The m-th derivative."""
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    x = tensor_of(p)
    for _ in range(m):
        factors = constant(np.arange(x.shape[0] - 1, 0, -1), x)
        x = x[:-1] * cast(factors, np.result_type(x.dtype, np.int64))
    return x


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The m-th antiderivative, with k as constants of integration."""
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    like = first_tensor((p, k))
    x = cast(tensor_of(p, like), np.result_type(tensor_of(p, like).dtype, np.float64))
    constants = x.new_zeros((m,)) if k is None else tensor_of(k, like, x.dtype).reshape((-1,))
    if constants.shape[0] == 1 and m > 1:
        constants = constants.broadcast_to((m,))
    for i in range(m):
        x = concatenate([x / constant(np.arange(x.shape[0], 0, -1, dtype=np.float64), x), constants[i : i + 1]])
    return x


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Tensor:
    """The coefficients of the polynomial with these zeros; of a matrix, its characteristic one. Real where zeros are in conjugate pairs."""
    x = floating(seq_of_zeros)
    x = eigvals(x) if x.ndim == 2 else vector(x, "numpy.poly")
    if x.dtype.itemsize == 2:
        x = cast(x, np.dtype(np.float64))
    if not x.shape[0]:
        return x.new_ones((), dtype=np.dtype(np.float64))
    found = x.new_ones((1,))
    for i in range(x.shape[0]):
        found = convolve(found, stack([x.new_ones(()), -x[i]]))
    zeros = value_of(x)
    return found.real if x.is_complex() and (np.sort(zeros) == np.sort(zeros.conj())).all() else found


@implements(np.roots)
def roots(p: Any) -> Tensor:
    """The zeros of the polynomial, as eigenvalues of its companion matrix: no derivative exists where two are equal."""
    x = inexact(p)
    x = x.reshape((1,)) if x.ndim == 0 else x
    if x.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    places = np.flatnonzero(value_of(x))
    if not places.size:
        return x.new_zeros((0,))
    at_zero = x.shape[0] - int(places[-1]) - 1
    x = x[int(places[0]) : int(places[-1]) + 1]
    if x.shape[0] == 1:
        return x.new_zeros((at_zero,))
    size = x.shape[0] - 1
    found = eigvals(concatenate([(-x[1:] / x[0]).unsqueeze(0), constant(np.eye(size - 1, size, dtype=x.dtype), x)]))
    return concatenate([found, found.new_zeros((at_zero,))]) if at_zero else found


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element in its row, the highest first unless ``increasing``."""
    t = tensor_of(x)
    t = cast(t, np.result_type(t.dtype, np.int64))
    if t.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = t.shape[0] if N is None else N
    if count < 0:
        raise ValueError(f"N must not be negative, got {count}")
    columns = [t.new_ones((t.shape[0],))] if count else []
    for _ in range(count - 1):
        columns.append(columns[-1] * t)
    if not columns:
        return t.new_zeros((t.shape[0], 0))
    return stack(columns if increasing else columns[::-1], 1)


@implements(np.polyfit)
def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Tensor:
    """The coefficients that fit points best in the sense of least squares."""
    if full or cov:
        raise TypeError("numpy.polyfit takes neither full= nor cov= for a Tensor; numpy.linalg.lstsq gives residuals")
    like = first_tensor((x, y, w))
    at, values = (cast(tensor_of(v, like), np.result_type(tensor_of(v, like).dtype, np.float64)) for v in (x, y))
    if at.ndim != 1 or not at.shape[0] or values.ndim not in (1, 2) or values.shape[0] != at.shape[0]:
        shapes = f"{tuple(at.shape)} and {tuple(values.shape)}"
        raise TypeError(f"numpy.polyfit takes a vector for x and a vector or matrix of as many rows for y, got shapes {shapes}")
    matrix = vander(at, int(deg) + 1)
    if w is not None:
        weights = tensor_of(w, like, at.dtype)
        matrix = matrix * weights.unsqueeze(1)
        values = values * (weights.unsqueeze(1) if values.ndim == 2 else weights)
    scale = elementwise.sqrt((matrix * matrix).sum(0))  # of fewer points than coefficients the solution depends on it
    bound = at.shape[0] * np.finfo(floating(x, like).dtype).eps if rcond is None else rcond
    found = lstsq(matrix / scale, values, bound)[0]
    return found / (scale.unsqueeze(1) if found.ndim == 2 else scale)
