"""Regression losses: the distance of a prediction from its target, as one number (or, with ``reduction="none"``, one per element)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, formulas, vectorised
from gradlib.backend.array import Namespace
from gradlib.backend.formulas import formula
from gradlib.backend.kernel_text import CTYPES
from gradlib.core.compile import named
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.broadcast import broadcast_tensors
from gradlib.ops.convert import to
from gradlib.ops.dtype_rules import takes
from gradlib.ops.elementwise import sign, square
from gradlib.ops.finite import isinf, nan_to_num
from gradlib.ops.reduce import back, count, mean, sum, total, total_of_squares
from gradlib.ops.select import clamp, where_op

__all__: list[str] = []  # these are gradlib.nn.functional's

# ---- what losses share --------------------------------------------------------------------------------------------------------


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that is meant, also by torch's two deprecated arguments."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce are deprecated, please use reduction={reduction!r} instead.", UserWarning, stacklevel=4)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction; it is 'none', 'mean' or 'sum'")
    return reduction


def reduced(loss: Any, reduction: str) -> Any:
    """The mean or the sum of a loss, or the loss itself, as ``reduction`` says."""
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def _difference(name: str, input: Any, target: Any, kinds: str = "f") -> Any:
    """``input - target``, once dtype and shapes are those of a loss."""
    if raw(input).shape != raw(target).shape:
        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}). This will likely lead "
            "to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
            stacklevel=4,
        )
        input, target = broadcast_tensors(input, target)  # before their dtypes meet: then a 0-d one counts as much as the other
    if kinds == "f" and "b" in (input.dtype.kind, target.dtype.kind):  # then a mask counts as zeros and ones
        input, target = _as_numbers(input, target), _as_numbers(target, input)
    away = input - target
    if "bifc"[dtypes.category(away.dtype)] not in kinds:
        raise NotImplementedError(f"{name} is not implemented for {away.dtype}; convert input and target, for example with .float()")
    return away


def _as_numbers(x: Any, other: Any) -> Any:
    return to(x, dtype=other.dtype) if x.dtype.kind == "b" else x


def _weighted(loss: Any, weight: Any, input: Any, reduction: str, by_weight: bool = True) -> Any:
    """The loss reduced, each element with its weight; the mean divides by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != input.shape:
        raise ValueError(f"Weights and input must have the same size, got {list(weight.shape)} and {list(input.shape)}.")
    if reduction == "mean" and by_weight:
        return _by_weight(sum(loss * weight), weight, reduction)
    return reduced(loss * weight, reduction)


def _by_weight(summed: Any, weight: Any, reduction: str) -> Any:
    """The sum of weighted losses, or their mean: the sum divided by that of the weights."""
    return summed / sum(weight) if reduction == "mean" else summed


def _are_plain(input: Any, *others: Any) -> bool:
    """Whether these are Tensors of one shape and one real float dtype, on the host float32 or float64: their loss is one operation.

    A weight among the others may be None.
    """
    if type(input) is not Tensor:
        return False
    a = input._array
    for other in others:
        if other is None:
            continue
        if type(other) is not Tensor:
            return False
        b = other._array
        if type(a) is not type(b) or a.dtype is not b.dtype or a.shape != b.shape:
            return False
    return a.size > 0 and a.dtype.char in ("fd" if type(a) is np.ndarray else CTYPES)


# ---- regression ---------------------------------------------------------------------------------------------------------------


def _squared_slope(g: Any, input: Any, target: Any, mean: bool) -> Any:
    away, g = input - target, g * (2 / count(input.shape, None) if mean else 2)
    if type(away) is not np.ndarray:
        return away * g
    away *= g
    return away


@op(
    "other", promote="same", method=False, complex="none",
    input=lambda g, input, target, mean: _squared_slope(g, input, target, mean),
    target=lambda g, input, target, mean: -_squared_slope(g, input, target, mean),
    kernels={
        "out": lambda input, target, mean: formulas.summed("squared", input, target, by=input.size if mean else 1),
        "input": lambda g, input, target, mean: formula("squared_slope")(g, input, target, 2 / input.size if mean else 2),
        "target": lambda g, input, target, mean: formula("squared_slope")(g, input, target, -2 / input.size if mean else -2),
    },
)  # fmt: skip
def squared_distance(xp: Namespace, input: Any, target: Any, mean: bool = True) -> Any:
    """The sum or mean of the squared differences of two arrays of one shape, which are not kept."""
    away = input - target
    summed = total_of_squares(xp, away, None, False)
    return back(summed / away.size if mean else summed, away.dtype)


_mse = named(squared_distance, "mse_loss")


_DIFFERENCE = {"away": {"input": lambda g: g, "target": lambda g: -g}}
"""The hidden result by which input and target may be written before backward, as in torch."""


@op(
    "other", promote="same", method=False, complex="none", hidden=_DIFFERENCE,
    steps=lambda input, target, mean: reduced(abs(input - target), "mean" if mean else "sum"),
    input=lambda g, away, mean: sign(away) * (g / count(away.shape, None) if mean else g),
    target=lambda g, away, mean: sign(away) * (g / -count(away.shape, None) if mean else -g),
    kernels={
        "out": lambda input, target, mean: formulas.summed("absolute", input, target, by=input.size if mean else 1, keeps=True),
        "input": lambda g, away, mean: formula("absolute_slope")(g, away, away.size if mean else 1),
        "target": lambda g, away, mean: formula("absolute_slope")(g, away, -away.size if mean else -1),
    },
)  # fmt: skip
def absolute_distance(xp: Namespace, input: Any, target: Any, mean: bool = True) -> Any:
    """The sum or mean of the absolute differences of two arrays of one shape; and these differences."""
    away = input - target
    summed = total(xp, xp.absolute(away), None, False)
    return back(summed / away.size if mean else summed, away.dtype), away


_l1 = named(absolute_distance, "l1_loss")


def _each(away: Any, kind: str, beta: float) -> Any:
    """The loss of each difference; ``kind``: a name of `gradlib.backend.formulas.SUMS`."""
    return square(away) if kind == "squared" else abs(away) if kind == "absolute" else smooth_absolute(away, beta, False)


def _each_slope(g: Any, away: Any, kind: str, beta: float) -> Any:
    return away * (g * 2) if kind == "squared" else sign(away) * g if kind == "absolute" else _smooth_slope(g, away, beta, False)


@op(
    "other", promote="same", method=False, complex="none", node="sum", hidden=_DIFFERENCE,
    steps=lambda input, target, weight, kind, beta, by: sum(_each(input - target, kind, beta) * weight) / by,
    input=lambda g, away, weight, kind, beta, by: _each_slope(weight * (g / by), away, kind, beta),
    target=lambda g, away, weight, kind, beta, by: _each_slope(weight * (g / -by), away, kind, beta),
    weight=lambda g, away, kind, beta, by: _each(away, kind, beta) * (g / by),
    kernels={
        "out": lambda input, target, weight, kind, beta, by: formulas.summed(
            kind, input, target, *(beta, 1) if kind == "smooth" else (), by=by, weight=weight, keeps=True
        )
    },
)  # fmt: skip
def weighted_distance(xp: Namespace, input: Any, target: Any, weight: Any, kind: str, beta: float = 1.0, by: float = 1) -> Any:
    """The sum of ``_each`` of the differences of two arrays, each element with its weight, divided by a number; all of one shape. And
    these differences.
    """
    away = input - target
    summed = total(xp, _each(away, kind, beta) * weight, None, False)
    return back(summed / by, input.dtype), away


_weighted_mse, _weighted_l1, _weighted_huber = (named(weighted_distance, f"{name}_loss", node=False) for name in ("mse", "l1", "huber"))
_mean_weighted_huber = named(named(weighted_distance, "mean"), "huber_loss", node=False)  # the last of torch's steps is that


@composite(method=False)
def mse_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", weight: Any = None
) -> Any:
    """Squared difference.

    Args:
        input, target: the same shape, real float dtype.
        reduction: "mean" over all elements, "sum", or "none".
        weight: of the input's shape; "mean" then divides by its sum.
        size_average, reduce: deprecated forms of ``reduction``.
    Returns: 0-d, or the input's shape for "none".
    Source: torch.nn.functional.mse_loss.
    Example:
        >>> gradlib.nn.functional.mse_loss(gradlib.tensor([1.0, 2.0]), gradlib.tensor([0.0, 0.0]))
        tensor(2.5000)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction != "none" and _are_plain(input, target, weight):
        if weight is None:
            return _mse(input, target, reduction == "mean")
        return _by_weight(_weighted_mse(input, target, weight, "squared"), weight, reduction)
    return _weighted(square(_difference("mse_loss", input, target, "f" if weight is None else "ifc")), weight, input, reduction)


@composite(method=False)
def l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", weight: Any = None
) -> Any:
    """Absolute difference; its gradient at zero is zero.

    Args:
        input, target, size_average, reduce, reduction, weight: as for ``mse_loss``.
    Source: torch.nn.functional.l1_loss.
    Example:
        >>> gradlib.nn.functional.l1_loss(gradlib.tensor([1.0, 2.0]), gradlib.tensor([0.0, 0.0]))
        tensor(1.5000)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction != "none" and (weight is not None or type(raw(input)) is not np.ndarray) and _are_plain(input, target, weight):
        if weight is None:
            return _l1(input, target, reduction == "mean")
        return _by_weight(_weighted_l1(input, target, weight, "absolute"), weight, reduction)
    return _weighted(abs(_difference("l1_loss", input, target, "bifc")), weight, input, reduction)


def _smooth_slope(g: Any, input: Any, beta: float, divided: bool) -> Any:
    if type(input) is np.ndarray and input.dtype.char in "fd" and beta <= dtypes.ALWAYS_HELD:  # as below, in two passes
        return g * ((input if beta == 1 else input / beta).clip(-1, 1) if divided else input.clip(-beta, beta))
    if beta > dtypes.largest(input.dtype) or beta == math.inf:  # then every finite number is below
        near = nan_to_num(input, math.nan, math.inf, -math.inf)  # the input, without a derivative where it is not finite
        return g * (near if not divided else where_op(isinf(input), sign(input), near / beta))
    near = clamp(input, -beta, beta)  # which has no derivative at NaN
    return g * where_op(abs(input) >= beta, sign(input) * (1 if divided else beta), near / beta if divided else near)


@op(
    "elementwise", promote=takes("smooth_l1_loss", "f"), method=False, input=_smooth_slope,
    kernels={"out": lambda input, beta, divided: formula("smooth_absolute")(input, beta, beta if divided else 1)},
)  # fmt: skip
def smooth_absolute(xp: Namespace, input: Any, beta: float, divided: bool = True) -> Any:
    """x²/(2 beta) for |x| < beta, |x| - beta/2 beyond; or beta times that, not divided by it."""
    if vectorised.fits(input) and beta <= dtypes.ALWAYS_HELD:
        return vectorised.smooth_absolute(input, beta, divided)
    size = xp.absolute(input)
    number = size.dtype.type
    near = xp.minimum(size, number(min(beta, dtypes.largest(size.dtype))))
    size = size - near * number(0.5)
    return size * (near / number(beta) if divided and beta != 1 else near)  # x²/2, and (|x| - beta/2) beta beyond, or these by beta


def _distance_slopes(g: Any, pair: Any, beta: float, divided: bool, mean: bool) -> list[Any]:
    input, target = pair
    is_plain = type(g) is np.ndarray and vectorised.are_alike(input, target) and beta <= dtypes.ALWAYS_HELD
    g = g / count(input.shape, None) if mean else g
    if is_plain:
        return vectorised.smooth_slopes(g, input, target, beta, divided)
    slope = _smooth_slope(g, input - target, beta, divided)
    return [slope, -slope]


def _distance_on_device(pair: Any, beta: float, divided: bool, mean: bool) -> Any:
    input, target = pair
    return formulas.summed("smooth", input, target, beta, beta if divided else 1, by=input.size if mean else 1)


def _distance_slopes_on_device(g: Any, pair: Any, beta: float, divided: bool, mean: bool) -> Any:
    input, target = pair
    rest, number = (beta, 1) if divided else (1, beta), input.size if mean else 1
    made = [formula("smooth_slope")(g, input, target, *rest, each) for each in (number, -number)]
    return None if made[0] is None else made


@op(
    "other", promote="same", sequence="pair", method=False, complex="none", pair=_distance_slopes,
    kernels={"out": _distance_on_device, "pair": _distance_slopes_on_device},
)  # fmt: skip
def smooth_distance(xp: Namespace, pair: Any, beta: float, divided: bool = True, mean: bool = True) -> Any:
    """The sum or mean of ``smooth_absolute`` of the differences of a pair of arrays of one shape, which are not kept."""
    input, target = pair
    if not (vectorised.are_alike(input, target) and beta <= dtypes.ALWAYS_HELD):
        summed = total(xp, smooth_absolute.op.value(xp, input - target, beta, divided), None, False)  # type: ignore[attr-defined]
        return back(summed / input.size if mean else summed, input.dtype)
    made = vectorised.smooth_distance(input, target, beta)
    return np.array(made / ((beta if divided else 1) * (input.size if mean else 1)), input.dtype)


_smooth_l1, _huber = (named(smooth_distance, name) for name in ("smooth_l1_loss", "huber_loss"))


@composite(method=False)
def smooth_l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
) -> Any:
    """Square of small differences, absolute value of large ones, smoothly joined at ``beta``: x²/(2 beta), and |x| - beta/2.

    Args:
        beta: where they join; 0 gives ``l1_loss``.
        input, target, size_average, reduce, reduction: as for ``mse_loss``.
    Raises: RuntimeError for a negative beta.
    Source: torch.nn.functional.smooth_l1_loss.
    Example:
        >>> gradlib.nn.functional.smooth_l1_loss(gradlib.tensor([0.0, 3.0]), gradlib.tensor([0.5, 0.0]))
        tensor(1.3125)
    """
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    reduction = reduction_of(size_average, reduce, reduction)
    if 0 < beta < 2.0**-14 and dtypes.is_floating_point(raw(input).dtype) and not np.asarray(beta).astype(raw(input).dtype):
        beta = 0  # as the dtype holds it
    if beta and reduction != "none" and _are_plain(input, target):
        return _smooth_l1([input, target], beta, True, reduction == "mean")
    away = _difference("smooth_l1_loss", input, target)
    return reduced(smooth_absolute(away, beta) if beta else abs(away), reduction)


@composite(method=False)
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """x²/2 for small differences, delta (|x| - delta/2) for those beyond ``delta``.

    Args:
        delta: where they join, positive.
        input, target, reduction, weight: as for ``mse_loss``, but a weighted mean divides by the number of elements.
    Returns: a loss of input's dtype, whatever target's is.
    Raises: RuntimeError for a delta that is not positive.
    Source: torch.nn.functional.huber_loss.
    Example:
        >>> gradlib.nn.functional.huber_loss(gradlib.tensor([0.0, 3.0]), gradlib.tensor([0.5, 0.0]))
        tensor(1.3125)
    """
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    reduction = reduction_of(None, None, reduction)
    if reduction != "none" and _are_plain(input, target, weight):
        if weight is None:
            return _huber([input, target], delta, False, reduction == "mean")
        if reduction == "sum":
            return _weighted_huber(input, target, weight, "smooth", delta)
        return _mean_weighted_huber(input, target, weight, "smooth", delta, input._array.size)
    away = _difference("huber_loss", input, target)
    if away.dtype != input.dtype and not dtypes.can_cast(away.dtype, input.dtype):
        raise RuntimeError(
            f"huber_loss: result type {away.dtype} can't be cast to the desired output type {input.dtype}, that of input; convert it"
        )
    loss = smooth_absolute(away, delta, False)
    if loss.dtype != input.dtype:
        loss = to(loss, dtype=input.dtype)
    return _weighted(loss, weight, input, reduction, by_weight=False)
