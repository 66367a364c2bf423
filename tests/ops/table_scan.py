"""Scans, differences, integrals, and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
import scipy.special

import gradlib
from gradlib.ops import scan
from tests.ops.case import Case, Rng, normal, spread
from tests.ops.table_reduce import with_zeros

ALL = ("float64", "float32", "float16", "bfloat16")


def folded(function: Callable[[Any, Any], Any], a: Any, axis: int) -> Any:
    """A running fold along an axis, one element after the other."""
    lines = np.moveaxis(a, axis, 0)
    made = [lines[0]]
    for line in lines[1:]:
        made.append(function(made[-1], line))
    return np.moveaxis(np.stack(made), 0, axis)


def latest(a: Any, axis: int, sign: int) -> tuple[Any, Any]:
    """Running extreme and the place of the latest element that attains it, by looking at every prefix."""
    lines = np.moveaxis(a * sign, axis, 0)
    places = [i - np.argmax(lines[: i + 1][::-1], 0) for i in range(len(lines))]
    where = np.moveaxis(np.stack(places), 0, axis)
    return np.take_along_axis(a, where, axis), where


def parts(*shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    """Small whole numbers, with ties."""
    return lambda rng: [rng.integers(-2, 3, shape).astype(float) for shape in shapes]


def irregular(rng: Rng) -> list[np.ndarray]:
    return [rng.standard_normal((2, 5)), np.cumsum(rng.uniform(0.1, 1, 5))]


CASES = [
    # ---- scans ----
    Case("cumsum", lambda a: gradlib.cumsum(a, 1), normal((2, 3, 4)), lambda a: folded(np.add, a, 1), complex=True, dtypes=ALL),
    Case("cumsum", lambda a: gradlib.cumsum(a, -1), normal((0,)), lambda a: a, label="empty"),
    Case("cumsum", lambda a: gradlib.cumsum(a, 0), normal(()), lambda a: a, label="0-d"),
    Case("cumsum_from_end", lambda a: scan.cumsum_from_end(a, 0), normal((4, 3)), lambda a: folded(np.add, a[::-1], 0)[::-1], complex=True),
    Case("cumprod", lambda a: gradlib.cumprod(a, 0), normal((5, 2)), lambda a: folded(np.multiply, a, 0), complex=True, dtypes=ALL),
    Case("cumprod", lambda a: gradlib.cumprod(a, -1), normal((2, 9)), lambda a: folded(np.multiply, a, 1), label="long"),
    Case(
        "cumprod", lambda a: gradlib.cumprod(a, 1), with_zeros(1, 0, 3, 4), lambda a: folded(np.multiply, a, 1), complex=True,
        label="one-zero",
    ),
    Case("cumprod", lambda a: gradlib.cumprod(a, 1), with_zeros(1, 0, 0, 4, 0, 6), lambda a: folded(np.multiply, a, 1), label="zeros"),
    Case(
        "logcumsumexp", lambda a: gradlib.logcumsumexp(a, 1), normal((2, 7)), lambda a: np.log(np.cumsum(np.exp(a), 1)),
        complex=True, dtypes=ALL,
    ),
    Case("logcumsumexp", lambda a: gradlib.logcumsumexp(a, 0), normal((4, 2)), lambda a: np.log(np.cumsum(np.exp(a), 0)), label="rows"),
    Case("cummax", lambda a: gradlib.cummax(a, 1), spread((2, 6)), lambda a: latest(a, 1, 1), dtypes=ALL),
    Case("cummax", lambda a: gradlib.cummax(a, 0), parts((5, 3)), lambda a: latest(a, 0, 1), differentiable=False, label="ties"),
    Case("cummin", lambda a: gradlib.cummin(a, -2), spread((2, 5, 2)), lambda a: latest(a, 1, -1), dtypes=ALL),
    Case("cummin", lambda a: gradlib.cummin(a, 0), parts((6,)), lambda a: latest(a, 0, -1), differentiable=False, label="ties"),
    # ---- differences and integrals ----
    Case(
        "trapezoid_backward", lambda a: scan.trapezoid_backward(a, (3, 5, 4), 1), normal((3, 4)),
        lambda a: a[:, None] * np.array([0.5, 1, 1, 1, 0.5])[:, None], complex=True,
    ),
    Case(
        "diff_backward", lambda a: scan.diff_backward(a, 1), normal((3, 4)), lambda a: -np.diff(np.pad(a, ((0, 0), (1, 1))), axis=1),
        complex=True,
    ),
    Case("diff", gradlib.diff, normal((2, 5)), lambda a: a[:, 1:] - a[:, :-1], complex=True, dtypes=ALL),
    Case("diff", lambda a: gradlib.diff(a, 2, 0), normal((4, 3)), lambda a: a[2:] - 2 * a[1:-1] + a[:-2], complex=True, label="twice"),
    Case("diff", lambda a: gradlib.diff(a, 3), normal((2, 2)), lambda a: np.zeros((2, 0)), label="more-than-there-are"),
    Case(
        "diff", lambda a, b, c: gradlib.diff(a, 1, 0, prepend=b, append=c), normal((3, 2), (1, 2), (2, 2)),
        lambda a, b, c: np.diff(np.concatenate([b, a, c]), axis=0), complex=True, label="ends",
    ),
    Case("diff", gradlib.diff, lambda rng: [rng.random((2, 5)) < 0.5], lambda a: a[:, 1:] ^ a[:, :-1], label="bool"),
    Case(
        "trapezoid", lambda a: gradlib.trapezoid(a, dx=0.5, dim=0), normal((4, 3)),
        lambda a: scipy.integrate.trapezoid(a, dx=0.5, axis=0), complex=True,
    ),
    Case("trapezoid", gradlib.trapezoid, irregular, scipy.integrate.trapezoid, label="samples"),
    Case(
        "trapezoid", lambda y, x: gradlib.trapezoid(y, x, dim=0), normal((4, 3), (4, 3)),
        lambda y, x: ((y[1:] + y[:-1]) / 2 * np.diff(x, axis=0)).sum(0), label="grid",
    ),
    # ---- softmax and friends ----
    Case("softmax", lambda a: gradlib.softmax(a, 1), normal((2, 5, 2)), lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True), dtypes=ALL),
    Case(
        "softmax", lambda a: gradlib.softmax(a, -1), lambda rng: [1000 * rng.standard_normal((3, 4))],
        lambda a: scipy.special.softmax(a, -1), differentiable=False, label="large",
    ),
    Case("softmax", lambda a: gradlib.softmax(a, 0), normal((0, 3)), lambda a: a, label="empty"),
    Case(
        "log_softmax", lambda a: gradlib.log_softmax(a, -1), normal((3, 4)), lambda a: a - np.log(np.exp(a).sum(1, keepdims=True)),
        dtypes=ALL,
    ),
    Case(
        "log_softmax", lambda a: gradlib.log_softmax(a, 0), lambda rng: [1000 * rng.standard_normal((4, 3))],
        lambda a: scipy.special.log_softmax(a, 0), differentiable=False, label="large",
    ),
    Case("logsumexp", lambda a: gradlib.logsumexp(a, 1), normal((2, 3, 4)), lambda a: np.log(np.exp(a).sum(1)), complex=True, dtypes=ALL),
    Case(
        "logsumexp", lambda a: gradlib.logsumexp(a, (0, 2), True), normal((2, 3, 4)),
        lambda a: np.log(np.exp(a).sum((0, 2), keepdims=True)), label="dims",
    ),
    Case(
        "logsumexp", lambda a: gradlib.logsumexp(a, 0), lambda rng: [rng.integers(-3, 3, (4, 2))],
        lambda a: scipy.special.logsumexp(a, 0), tolerance=1e-6, label="integers",
    ),
]  # fmt: skip
