"""Variance and standard deviation, and the vector norms."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Namespace
from gradlib.core.op import composite, op
from gradlib.ops.elementwise import sgn
from gradlib.ops.reduce import axes, back, count, mean, spread, sum, total
from gradlib.ops.select import where_op

__all__ = ["norm", "std", "std_mean", "var", "var_mean"]


# ---- distance from the mean ---------------------------------------------------------------------------------------------------


def _variance(xp: Namespace, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """The variance in real numbers, those of real dtypes in float64: the squares of float32 numbers overflow at half of the exponent."""
    dtype = input.dtype
    if dtype.kind in "biu":
        raise RuntimeError(f"std and var only support floating point and complex dtypes, got {dtype}; convert it, as with .float()")
    if dtype.kind != "c":
        input = input.astype(dtypes.float64, copy=False)
    number = count(input.shape, dim)
    away = input - total(xp, input, dim, True) / max(number, 1)
    squares = away.real**2 + away.imag**2 if dtype.kind == "c" else away * away
    freedom = max(number - correction, 0)
    return total(xp, squares, dim, keepdim) / (freedom if number else math.nan)


def _variance_rule(g: Any, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    freedom = count(input.shape, dim) - correction
    away = input - mean(input, dim, True)
    g = spread(g, input.shape, dim, keepdim)
    if freedom <= 0 and (dim is None or not input.ndim):  # as torch has it: NaN where an element is the mean, else inf
        return g * where_op(away == 0, math.nan, math.inf)
    return g * (away * (2 / freedom if freedom else math.inf))


@op("other", complex="explicit", input=_variance_rule)
def var_op(xp: Namespace, input: Any, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    """``var`` with all its arguments in place."""
    return _variance(xp, input, dim, correction, keepdim).astype(dtypes.to_real(input.dtype), copy=False)


def _deviation_rule(g: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """As for the variance, and zero where the deviation is zero."""
    still = out == 0
    return _variance_rule(where_op(still, 0.0, g / where_op(still, 1.0, out * 2)), input, dim, correction, keepdim)


@op("other", complex="explicit", input=_deviation_rule)
def std_op(xp: Namespace, input: Any, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    """``std`` with all its arguments in place."""
    return xp.sqrt(_variance(xp, input, dim, correction, keepdim)).astype(dtypes.to_real(input.dtype), copy=False)


def _corrected(name: str, dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """The dimensions and the correction that torch's several signatures mean."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() takes unbiased or correction, got both (unbiased={unbiased}, correction={correction})")
    if correction is not None:
        return dim, correction
    return dim, 1 if unbiased is None else int(unbiased)


@composite
def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, out: Any = None
) -> Any:
    """Variance over ``dim`` (a number, several, or all).

    Args:
        input: any shape, float or complex dtype (the result is real).
        dim, keepdim: as in ``sum``; ``var(x, False)`` means ``unbiased=False``.
        correction: what is taken from the number of elements before dividing by it; 1 unless given.
        unbiased: True for a correction of 1, False for 0.
    Raises: RuntimeError for integers and bools.
    Source: torch.var.
    """
    dim, correction = _corrected("var", dim, unbiased, correction)
    return var_op(input, dim, correction, keepdim, out=out)


@composite
def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, out: Any = None
) -> Any:
    """Standard deviation over ``dim``: the square root of ``var``, whose arguments it takes; zero has zero gradient. Source: torch.std."""
    dim, correction = _corrected("std", dim, unbiased, correction)
    return std_op(input, dim, correction, keepdim, out=out)


@composite(method=False)
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Any:
    """The pair (``var``, ``mean``). Arguments as for ``var``. Source: torch.var_mean."""
    dim, correction = _corrected("var_mean", dim, unbiased, correction)
    return var_op(input, dim, correction, keepdim), mean(input, dim, keepdim)


@composite(method=False)
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Any:
    """The pair (``std``, ``mean``). Arguments as for ``var``. Source: torch.std_mean."""
    dim, correction = _corrected("std_mean", dim, unbiased, correction)
    return std_op(input, dim, correction, keepdim), mean(input, dim, keepdim)


# ---- norms --------------------------------------------------------------------------------------------------------------------


def _norm_rule(g: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """The derivative of (sum |x|^p)^(1/p), zero at zero, whatever arrives there."""
    if ord not in (0, 1) and abs(ord) != math.inf:
        g = where_op(out == 0, 0.0, g)
    g = spread(g, input.shape, dim, keepdim)
    if ord == 0:
        return g * 0
    if ord == 1:
        return g * sgn(input)
    whole = spread(out, input.shape, dim, keepdim)
    if ord == 2:
        return g * where_op(whole == 0, 0.0, input / where_op(whole == 0, 1.0, whole))
    size = abs(input)
    if abs(ord) == math.inf:
        ties = (size == whole) | (size != size)
        return g * sgn(input) * ties / spread(sum(ties, dim, keepdim), input.shape, dim, keepdim)
    nothing = (size == 0) | (whole == 0)
    share = where_op(nothing, 1.0, size) / where_op(nothing, 1.0, whole)
    return g * where_op(nothing, 0.0, sgn(input) * share ** (ord - 1))


@op("other", complex="explicit", method=False, input=_norm_rule)
def vector_norm(xp: Namespace, input: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The ``ord``-norm of the elements over ``dim``: (sum |x|^ord)^(1/ord), the largest or smallest |x| for ±inf, their number for 0.

    Args:
        input: any shape, float or complex dtype (the result is real).
        ord: any real number or ±inf.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers, and for a negative or infinite ord of nothing.
    Source: torch.linalg.vector_norm.
    """
    if input.dtype.kind in "biu":
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype}")
    if dtype is not None:
        input = input.astype(_wider(input.dtype, dtypes.as_dtype(dtype)))
    real = dtypes.to_real(input.dtype)
    if input.dtype.kind == "V":
        input = input.astype(dtypes.float32)
    if abs(ord) == math.inf or ord < 0:
        _refuse_empty(input.shape, ord, dim)
    alone = count(input.shape, dim) == 1  # then no power may overflow
    if ord == 2 and not alone:
        squares = input.real**2 + input.imag**2 if input.dtype.kind == "c" else input.astype(_at_least_single(input.dtype), copy=False) ** 2
        return back(xp.sqrt(total(xp, squares, dim, keepdim)), real)
    size = xp.abs(input)
    if ord == math.inf or (alone and ord != 0):
        return back(size.max(axis=axes(input.ndim, dim), keepdims=keepdim), real)
    if ord == -math.inf:
        return back(size.min(axis=axes(input.ndim, dim), keepdims=keepdim), real)
    if ord == 0:
        return total(xp, size != 0, dim, keepdim).astype(real)
    size = size.astype(_at_least_single(size.dtype), copy=False)
    return back(total(xp, size if ord == 1 else size**ord, dim, keepdim) ** (1 / ord), real)


def _wider(dtype: Any, wanted: Any) -> Any:
    """The dtype in which a norm was asked for. Raises: RuntimeError where that would lose something."""
    if dtypes.category(wanted) != dtypes.category(dtype) or dtypes.promote_types(dtype, wanted) != wanted:
        raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({dtype}) should convert without narrowing to dtype={wanted}")
    return wanted


def _at_least_single(dtype: Any) -> Any:
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def _refuse_empty(shape: tuple[int, ...], ord: float, dim: Any) -> None:
    if count(shape, dim) == 0:
        where = "an empty tensor" if dim is None else f"dimension {dim}, which is empty,"
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on {where} because the operation "
            f"does not have an identity (shape {list(shape)})"
        )


@composite
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm of the elements, as one vector, over ``dim`` (a number, several, or all); zero has zero gradient.

    Args:
        input: any shape, float or complex dtype (the result is real).
        p: any real number or ±inf; "fro" and None mean 2; "nuc" is the sum of singular values of a matrix.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers and for a p that is none of these.
    Source: torch.norm.
    """
    if p == "nuc":
        from gradlib.ops.linalg import matrix_norm

        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f'norm: p is a number, inf, -inf, "fro" or "nuc", got {p!r}')
    return vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype)
