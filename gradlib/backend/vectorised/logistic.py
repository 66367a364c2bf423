"""The logistic function and its kin: sigmoid, silu, log_sigmoid, softplus, elu, the cross-entropy of logits, and their slopes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace, zero_d
from gradlib.backend.mask import chosen
from gradlib.backend.vectorised.blocks import LEAST, blocks, fit, fits, row
from gradlib.backend.vectorised.exponential import above_one, expm1, log_sum
from gradlib.backend.vectorised.parts import CONSTANTS, keep_zeros

_FEW = 100  # elements: up to that what counts is the number of calls


def _by_logistic(numerator: Any, x: Array, out: Array) -> None:
    """A numerator divided by 1 + exp(-x)."""
    grown = np.exp(np.negative(x, out), out)
    grown += CONSTANTS[x.dtype.char].one
    np.divide(numerator, grown, out)


def sigmoid(xp: Namespace, input: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if xp is np and 0 < input.size < LEAST and input.dtype.kind == "f" and input.item(input.argmin()) > -87:
        grown = np.exp(np.negative(input))  # it took less time to ask than to have errors ignored
        return np.reciprocal(np.add(grown, zero_d(1.0, input.dtype)))
    with np.errstate(over="ignore"):  # far below zero exp is infinite, and the result 0, as in torch
        if xp is np and fits(input, "fd"):
            return blocks(functools.partial(_by_logistic, CONSTANTS[input.dtype.char].one), input)
        grown = xp.exp(-input)
    grown += 1
    return xp.reciprocal(grown)


def silu(xp: Namespace, input: Any) -> Any:
    """Each element times its sigmoid."""
    if xp is np and fits(input, "fd"):
        with np.errstate(over="ignore", invalid="ignore"):  # of -inf it is NaN, as in torch
            return blocks(lambda x, out: _by_logistic(x, x, out), input)
    return input * sigmoid(xp, input)


def _by_mirrored_logistic(numerator: Any, x: Array, out: Array) -> None:
    """A numerator divided by 1 + exp(x)."""
    grown = np.exp(x, out)
    grown += CONSTANTS[x.dtype.char].one
    np.divide(numerator, grown, out)


def times_logistic(g: Array, input: Array, mirrored: bool = False) -> Array | None:
    """g times the ``sigmoid`` of x, or of -x where ``mirrored``; None for arrays that do not fit."""
    if not fit(g, input):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_by_mirrored_logistic if mirrored else _by_logistic, g, input)


def _logistic_slope(g: Array, x: Array, out: Array) -> None:
    one = CONSTANTS[x.dtype.char].one
    _by_logistic(one, x, out)
    rest = np.subtract(one, out)
    rest *= x
    rest += one
    out *= rest
    out *= g


def silu_slope(g: Array, input: Array) -> Array | None:
    """The gradient of ``silu`` for the gradient g of its result; None for arrays that do not fit."""
    if not fit(g, input):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return blocks(_logistic_slope, g, input)


def _log_of_sigmoid(x: Array, out: Array) -> None:
    small = log_sum(x, np.empty_like(x), out)
    np.subtract(np.minimum(x, row(0, x.dtype.char)[: x.size], out=small), out, out)


def log_sigmoid(xp: Namespace, input: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    if xp is np and input.size <= _FEW and input.dtype.char in "fd":
        none = zero_d(0.0, input.dtype)
        return none - np.logaddexp(none, -input)  # fewer calls, which take longer for each element
    if xp is np and fits(input, "fd"):
        return blocks(_log_of_sigmoid, input)
    zero, below = (zero_d(0.0, input.dtype), zero_d(-1.0, input.dtype)) if xp is np else (0, -1.0)
    return xp.minimum(input, zero) - xp.log1p(xp.exp(xp.copysign(input, below)))


def softplus(input: Array, threshold: float) -> Array:
    """log(1 + exp(x)) of an array that `fits`, and x above the threshold."""

    def form(x: Array, out: Array) -> None:
        small = log_sum(x, np.empty_like(x), out)
        out += np.maximum(x, row(0, x.dtype.char)[: x.size], out=small)
        _put_above(threshold, x, x, out)

    return blocks(form, input)


def _put_above(threshold: float, x: Array, value: Array, out: Array) -> None:
    """Write a value where x is above a threshold; from 17 on ``softplus`` of float32 is x, and its slope 1, without that."""
    if x.dtype.char == "f" and threshold >= 17:
        return
    if not x.item(x.argmax()) <= threshold:  # NaN counts as the largest
        np.copyto(out, value, where=np.greater(x, threshold))


def softplus_slope(g: Array, input: Array, threshold: float) -> Array | None:
    """The gradient of ``softplus`` for the gradient g of its result; None for arrays that do not fit."""
    made = times_logistic(g, input)
    if made is not None:
        _put_above(threshold, input, g, made)
    return made


def _cross_entropy(x: Array, target: Array, out: Array) -> None:
    small = log_sum(x, np.empty_like(x), out)
    out -= np.minimum(x, row(0, x.dtype.char)[: x.size], out=small)
    np.subtract(CONSTANTS[x.dtype.char].one, target, small)
    small *= x
    out += small


def cross_entropy_with_logits(input: Array, target: Array) -> Array:
    """log(1 + exp(-x)) + (1 - t) x of arrays that `fit`."""
    return blocks(_cross_entropy, input, target)


def _below_zero_grown(x: Array, alpha: float, out: Array) -> None:
    below = x.clip(-87, 0)  # further down it is -alpha
    above_one(below, out)
    if alpha != 1:
        out *= alpha
    out += np.maximum(x, row(0, x.dtype.char)[: x.size], out=below)
    keep_zeros(x, out)


def elu(xp: Namespace, input: Array, alpha: Any) -> Array:
    """Each element, alpha (exp(x) - 1) where it is not positive."""
    if xp is np and alpha > 0 and fits(input, "fd"):
        return blocks(_below_zero_grown, input, alpha)
    zero = zero_d(0.0, input.dtype) if xp is np else 0
    below = xp.minimum(input, zero)
    if xp is np and alpha == 1:
        return np.maximum(np.expm1(below) if below.size < LEAST else expm1(np, below), input)  # exp(x) - 1 is never below x
    below = expm1(xp, below)
    return chosen(xp, input >= zero, input, below if alpha == 1 else below * alpha)
