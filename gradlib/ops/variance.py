"""Variance and standard deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, moments
from gradlib.backend.array import SMALL, Namespace, zero_d
from gradlib.backend.copying import row_major
from gradlib.backend.sums import row_sums
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
from gradlib.ops.create import ones_like
from gradlib.ops.reduce import axes, count, kept, mean, tangent, total, total_of_squares
from gradlib.ops.select import where_op

__all__ = ["std", "std_mean", "var", "var_mean"]


def _variance(xp: Namespace, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """The variance in real numbers; on the CPU, where squares of float32 numbers leave its range, in float64, as torch adds them up."""
    dtype = input.dtype
    if dtype.kind in "biu":
        raise RuntimeError(f"std and var only support floating point and complex dtypes, got {dtype}; convert it, as with .float()")
    if xp is np and input.size <= SMALL and dtype.kind != "c":  # one way for all numbers, without a question
        return _of_few(input.astype(dtypes.float64), dim, correction, keepdim)
    if xp is not np or dtype.kind == "c" or dtype.itemsize > 4:
        return _mean_square(xp, input, dim, correction, keepdim)
    with np.errstate(over="ignore"):
        made = _mean_square(np, input, dim, correction, keepdim)
    inside = ((made > _SMALLEST) & (made < math.inf)).all()
    return made if inside else _mean_square(np, input.astype(dtypes.float64), dim, correction, keepdim)


_SMALLEST = 1e-30  # of the variances in float32 beside which squares that vanished count for nothing


def _of_few(away: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """The same, of real numbers in an array that may be written, which is too small for more than plain sums."""
    axis = axes(away.ndim, dim)
    if away.size and axis is None:
        line = away.reshape(-1)
        line -= row_sums(line) / line.size
        made = line.dot(line) / max(line.size - correction, 0)
        return np.reshape(made, (1,) * away.ndim) if keepdim else made
    if away.size and axis == away.ndim - 1 and away.flags.c_contiguous:
        number = away.shape[-1]
        away -= (row_sums(away) / zero_d(float(number), away.dtype))[..., None]
        away *= away
        freedom = number - correction
        made = row_sums(away) / (zero_d(float(freedom), away.dtype) if freedom > 0 else 0)
        return made[..., None] if keepdim else made
    reduce: Any = np.add.reduce  # of which the overloads ask for a literal
    middle = reduce(away, axis=axis, keepdims=True)
    number = away.size // middle.size if away.size else count(away.shape, dim)
    away -= middle / (number or 1)
    away *= away
    made = reduce(away, axis=axis, keepdims=keepdim) / (max(number - correction, 0) if number else math.nan)
    return made if axis is None else row_major(made)


def _mean_square(xp: Namespace, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """The mean square of the distances from the mean."""
    number = count(input.shape, dim)
    away = input - total(xp, input, dim, True) / max(number, 1)
    freedom = max(number - correction, 0)
    if input.dtype.kind == "c":
        summed = total(xp, away.real**2 + away.imag**2, dim, keepdim)
    else:
        summed = total_of_squares(xp, away, dim, keepdim)
    return summed / (freedom if number else math.nan)


def _variance_rule(g: Any, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    freedom = count(input.shape, dim) - correction
    middle = mean(input, dim, True)
    away = input - middle
    g = g if keepdim or g.ndim == 0 else g.reshape(kept(input.shape, dim))  # which the product stretches
    if freedom <= 0 and (dim is None or not input.ndim):  # as torch has it: NaN where an element is the mean, else inf
        return g * where_op(input == middle, math.nan, math.inf)  # two infinities are equal, though their difference is NaN
    return g * (away * (2 / freedom if freedom else math.inf))


def _on_device(root: bool) -> Any:
    """The variance of CuPy arrays, or its root."""

    def run(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
        return moments.variance(input, dim if dim is None or type(dim) is int else axes(input.ndim, dim), correction, keepdim, root)

    return run


def _slope_on_device(g: Any, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return moments.variance_slope(g, input, None, dim if dim is None or type(dim) is int else axes(input.ndim, dim), correction)


@op(
    "other", complex="explicit", input=_variance_rule, kernels={"out": _on_device(root=False), "input": _slope_on_device},
    jvp=lambda t_input, input, out, dim, correction, keepdim: tangent(
        t_input, _variance_rule(ones_like(out), input, dim, correction, keepdim), dim, keepdim
    ),
)  # fmt: skip
def var_op(xp: Namespace, input: Any, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    """``var`` with all its arguments in place."""
    return _variance(xp, input, dim, correction, keepdim).astype(dtypes.to_real(input.dtype), copy=False)


def _deviation_rule(g: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """As for the variance, and zero where the deviation is zero."""
    if type(out) is np.ndarray and np.count_nonzero(out) == out.size:
        return _variance_rule(g / (out * 2), input, dim, correction, keepdim)
    still = out == 0
    return _variance_rule(where_op(still, 0.0, g / where_op(still, 1.0, out * 2)), input, dim, correction, keepdim)


def _deviation_slope_on_device(g: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return moments.variance_slope(g, input, out, dim if dim is None or type(dim) is int else axes(input.ndim, dim), correction)


@op(
    "other", complex="explicit", input=_deviation_rule, kernels={"out": _on_device(root=True), "input": _deviation_slope_on_device},
    jvp=lambda t_input, input, out, dim, correction, keepdim: tangent(
        t_input, _deviation_rule(ones_like(out), input, out, dim, correction, keepdim), dim, keepdim
    ),
)  # fmt: skip
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
        return dim, correction.item() if isinstance(correction, Tensor) else correction
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
    Example:
        >>> gradlib.var(gradlib.tensor([1.0, 2.0, 3.0]), correction=0)
        tensor(0.6667)
    """
    dim, correction = _corrected("var", dim, unbiased, correction)
    return var_op(input, dim, correction, keepdim, out=out)


@composite
def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, out: Any = None
) -> Any:
    """Standard deviation over ``dim``: the square root of ``var``; zero has zero gradient.

    Args:
        input, dim, unbiased, keepdim, correction: as for ``var``.
    Raises: as ``var``.
    Source: torch.std.
    Example:
        >>> gradlib.std(gradlib.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """
    dim, correction = _corrected("std", dim, unbiased, correction)
    return std_op(input, dim, correction, keepdim, out=out)


@composite(method=False)
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Any:
    """The variance and the mean over ``dim``.

    Args:
        input, dim, unbiased, keepdim, correction: as for ``var``.
    Returns: the pair (``var``, ``mean``).
    Raises: as ``var``.
    Source: torch.var_mean.
    Example:
        >>> gradlib.var_mean(gradlib.tensor([1.0, 2.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    dim, correction = _corrected("var_mean", dim, unbiased, correction)
    return var_op(input, dim, correction, keepdim), mean(input, dim, keepdim)


@composite(method=False)
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Any:
    """The standard deviation and the mean over ``dim``.

    Args:
        input, dim, unbiased, keepdim, correction: as for ``var``.
    Returns: the pair (``std``, ``mean``).
    Raises: as ``var``.
    Source: torch.std_mean.
    Example:
        >>> gradlib.std_mean(gradlib.tensor([1.0, 2.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    dim, correction = _corrected("std_mean", dim, unbiased, correction)
    return std_op(input, dim, correction, keepdim), mean(input, dim, keepdim)
