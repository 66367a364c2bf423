"""Reductions: sums, products, questions, moments, norms, extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from gradlib.ops import reduce, take_along
from gradlib.ops.linalg import norms
from tests.ops.case import Case, Rng, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")
SHAPE = (2, 3, 4)


def gaps(*shape: int) -> Callable[[Rng], list[np.ndarray]]:
    """Standard normal values, a third of them NaN."""
    return lambda rng: [np.where(rng.random(shape) < 0.3, np.nan, rng.standard_normal(shape))]


def truths(*shape: int) -> Callable[[Rng], list[np.ndarray]]:
    """Bools."""
    return lambda rng: [rng.random(shape) < 0.6]


def with_zeros(*pattern: float) -> Callable[[Rng], list[np.ndarray]]:
    """These values and, below, the same from the other end."""
    return lambda rng: [np.array([pattern, pattern[::-1]], dtype=float)]


def product(a: Any, axis: Any = None) -> Any:
    """The product as a fold of multiplications."""
    lines = a.reshape(-1) if axis is None else np.moveaxis(a, axis, 0)
    made = np.ones(lines.shape[1:], a.dtype)
    for line in lines:
        made = made * line
    return made


def variance(a: Any, axis: Any, correction: float = 1) -> Any:
    number = a.size if axis is None else math.prod(np.array(a.shape)[np.atleast_1d(axis)].tolist())
    mean = np.mean(a, axis=axis, keepdims=True)
    return (np.abs(a - mean) ** 2).sum(axis=axis) / (number - correction)


def p_norm(a: Any, p: float, axis: Any = None) -> Any:
    size = np.abs(a)
    if p == 0:
        return (size > 0).sum(axis=axis).astype(float)
    return np.max(size, axis=axis) if p == math.inf else np.min(size, axis=axis) if p == -math.inf else (size**p).sum(axis=axis) ** (1 / p)


def norm_rows() -> list[Case]:
    rows = []
    for p in (0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf, -1, -2.5):
        rows.append(
            Case(
                "vector_norm", lambda a, p=p: norms.vector_norm(a, p, 1), spread((3, 4)), lambda a, p=p: p_norm(a, p, 1),
                second=abs(p) != math.inf and p != 0, complex=abs(p) != math.inf, label=f"p={p}",
            )
        )  # fmt: skip
    return rows


CASES = [
    # ---- sums ----
    Case("sum", lambda a: gradlib.sum(a), normal(SHAPE), lambda a: np.einsum("ijk->", a), complex=True, dtypes=ALL),
    Case("sum", lambda a: gradlib.sum(a, 1), normal(SHAPE), lambda a: np.einsum("ijk->ik", a), complex=True, dtypes=ALL, label="dim"),
    Case("sum", lambda a: gradlib.sum(a, (0, -1)), normal(SHAPE), lambda a: np.einsum("ijk->j", a), complex=True, label="dims"),
    Case("sum", lambda a: gradlib.sum(a, [0, 2], True), normal(SHAPE), lambda a: np.einsum("ijk->j", a)[None, :, None], label="keepdim"),
    Case("sum", lambda a: gradlib.sum(a, ()), normal(SHAPE), lambda a: np.einsum("ijk->", a), label="no-dims"),
    Case("sum", lambda a: gradlib.sum(a, 0), normal((0, 3)), lambda a: np.zeros(3), label="empty"),
    Case("sum", lambda a: gradlib.sum(a, -1), normal(()), lambda a: a, label="0-d"),
    Case("sum", lambda a: gradlib.sum(a, 0), truths(5, 2), lambda a: np.count_nonzero(a, 0), label="bool"),
    Case("spread", lambda a: reduce.spread(a, (2, 3), 1), normal((2,)), lambda a: np.stack([a] * 3, 1), complex=True),
    Case("spread", lambda a: reduce.spread(a, (2, 3), None, False), normal(()), lambda a: a * np.ones((2, 3)), label="all"),
    Case("spread", lambda a: reduce.spread(a, (2, 3), 0, True), normal((1, 3)), lambda a: np.concatenate([a, a]), label="kept"),
    Case("mean", lambda a: gradlib.mean(a), normal(SHAPE), lambda a: np.einsum("ijk->", a) / 24, complex=True, dtypes=ALL),
    Case(
        "mean", lambda a: gradlib.mean(a, (0, 1)), normal(SHAPE), lambda a: np.einsum("ijk->k", a) / 6, complex=True, dtypes=ALL,
        label="dims",
    ),
    Case("mean", lambda a: gradlib.mean(a, 2, True), normal(SHAPE), lambda a: np.einsum("ijk->ij", a)[..., None] / 4, label="keepdim"),
    Case("nansum", lambda a: gradlib.nansum(a, 1), gaps(3, 5), lambda a: np.nansum(a, 1), differentiable=False),
    Case("nansum", lambda a: gradlib.nansum(a), normal((3, 5)), lambda a: a.sum(), label="whole"),
    Case("nanmean", lambda a: gradlib.nanmean(a, (0, 2)), gaps(4, 3, 5), lambda a: np.nanmean(a, (0, 2)), differentiable=False),
    Case("nanmean", lambda a: gradlib.nanmean(a, 1, True), normal((3, 5)), lambda a: a.mean(1, keepdims=True), label="whole"),
    Case("trace", gradlib.trace, normal((3, 4)), lambda a: np.einsum("ii->", a[:, :3]), complex=True),
    # ---- products ----
    Case("prod", lambda a: gradlib.prod(a), normal((2, 3)), product, complex=True, dtypes=ALL),
    Case("prod", lambda a: gradlib.prod(a, 1), normal((2, 5, 2)), lambda a: product(a, 1), complex=True, label="dim"),
    Case("prod", lambda a: gradlib.prod(a, -1, True), normal((3, 8)), lambda a: product(a, 1)[:, None], label="keepdim"),
    Case("prod", lambda a: gradlib.prod(a, 0), normal((1, 3)), lambda a: a[0], second=False, label="one"),
    Case("prod", lambda a: gradlib.prod(a, 1), with_zeros(0, 2, 3, 4), lambda a: product(a, 1), complex=True, label="one-zero"),
    Case("prod", lambda a: gradlib.prod(a, 1), with_zeros(1, 0, 0, 4, 5), lambda a: product(a, 1), complex=True, label="two-zeros"),
    Case("prod", lambda a: gradlib.prod(a), with_zeros(0, 2, 3), product, label="zeros-of-all"),
    # ---- questions ----
    Case("all", lambda a: gradlib.all(a, 1), truths(6, 2), lambda a: a.sum(1) == 2),
    Case(
        "all", lambda a: gradlib.all(a, (0, 2), True), lambda rng: [rng.integers(0, 9, (2, 3, 2))],
        lambda a: a.min((0, 2), keepdims=True) > 0, label="dims",
    ),
    Case("any", lambda a: gradlib.any(a, 1), truths(6, 2), lambda a: a.sum(1) > 0),
    Case("any", lambda a: gradlib.any(a), normal((2, 2)), lambda a: np.array(True), differentiable=False, label="float"),
    Case("count_nonzero", lambda a: gradlib.count_nonzero(a, 1), lambda rng: [rng.integers(0, 3, (4, 5))], lambda a: np.sign(a).sum(1)),
    Case(
        "count_nonzero", lambda a: gradlib.count_nonzero(a, (0, 2)), lambda rng: [rng.integers(0, 3, SHAPE)],
        lambda a: np.sign(a).sum((0, 2)), label="dims",
    ),
    # ---- moments ----
    Case("var", lambda a: gradlib.var(a, 1), normal(SHAPE), lambda a: variance(a, 1), complex=True, dtypes=ALL),
    Case(
        "var", lambda a: gradlib.var(a, (0, 2), correction=0.5), normal(SHAPE), lambda a: variance(a, (0, 2), 0.5), complex=True,
        label="correction",
    ),
    Case("var", lambda a: gradlib.var(a, False), normal(SHAPE), lambda a: variance(a, None, 0), label="biased"),
    Case("var", lambda a: gradlib.var(a, 0, True, True), normal(SHAPE), lambda a: variance(a, 0)[None], label="keepdim"),
    Case("std", lambda a: gradlib.std(a), normal(SHAPE), lambda a: np.sqrt(variance(a, None)), complex=True, dtypes=ALL),
    Case("std", lambda a: gradlib.std(a, -1, correction=0), normal(SHAPE), lambda a: np.sqrt(variance(a, 2, 0)), complex=True, label="dim"),
    Case("var_mean", lambda a: gradlib.var_mean(a, 1), normal(SHAPE), lambda a: (variance(a, 1), a.mean(1)), complex=True),
    Case(
        "std_mean", lambda a: gradlib.std_mean(a, 1, False), normal(SHAPE), lambda a: (np.sqrt(variance(a, 1, 0)), a.mean(1)),
        complex=True,
    ),
    # ---- norms ----
    *norm_rows(),
    Case(
        "vector_norm", lambda a: norms.vector_norm(a, 3, (0, 2), True), spread(SHAPE),
        lambda a: p_norm(a, 3, (0, 2))[None, :, None], label="dims",
    ),
    Case(
        "norm", lambda a: gradlib.norm(a), normal((3, 4)), lambda a: np.sqrt(np.einsum("ij,ij->", a.conj(), a).real), complex=True,
        dtypes=ALL,
    ),
    Case("norm", lambda a: gradlib.norm(a, 1, 0), spread((3, 4)), lambda a: p_norm(a, 1, 0), label="p"),
    # ---- extremes ----
    Case("amax", lambda a: gradlib.amax(a, 1), spread(SHAPE), lambda a: np.sort(a, 1)[:, -1], dtypes=ALL),
    Case("amax", lambda a: gradlib.amax(a, (0, 2), True), spread(SHAPE), lambda a: a.max((0, 2), keepdims=True), label="dims"),
    Case("amin", lambda a: gradlib.amin(a), spread(SHAPE), lambda a: np.sort(a, None)[0], dtypes=ALL),
    Case("amin", lambda a: gradlib.amin(a, -1), spread(SHAPE), lambda a: np.sort(a, 2)[..., 0], label="dim"),
    Case("aminmax", lambda a: gradlib.aminmax(a), spread(SHAPE), lambda a: (a.min(), a.max())),
    Case(
        "aminmax", lambda a: gradlib.aminmax(a, dim=1, keepdim=True), spread(SHAPE),
        lambda a: (a.min(1, keepdims=True), a.max(1, keepdims=True)), label="dim",
    ),
    Case("max", lambda a: gradlib.max(a, 1), spread(SHAPE), lambda a: (np.sort(a, 1)[:, -1], a.argmax(1)), dtypes=ALL),
    Case(
        "max", lambda a: gradlib.max(a, -1, True), spread(SHAPE), lambda a: (a.max(2, keepdims=True), a.argmax(2)[..., None]),
        label="keepdim",
    ),
    Case("max", lambda a, b: gradlib.max(a, b), spread((3, 4), (4,)), np.fmax, label="pairs"),
    Case("max_all", lambda a: gradlib.max(a), spread(SHAPE), lambda a: np.sort(a, None)[-1], dtypes=ALL),
    Case("min", lambda a: gradlib.min(a, 0), spread(SHAPE), lambda a: (np.sort(a, 0)[0], a.argmin(0)), dtypes=ALL),
    Case("min", lambda a, b: gradlib.min(a, b), spread((3, 4), (4,)), np.fmin, label="pairs"),
    Case("min_all", lambda a: gradlib.min(a), spread(SHAPE), lambda a: np.sort(a, None)[0]),
    Case("argmax", lambda a: gradlib.argmax(a, 1), spread(SHAPE), lambda a: np.argsort(a, 1)[:, -1], differentiable=False),
    Case("argmax", lambda a: gradlib.argmax(a), spread(SHAPE), lambda a: np.argsort(a, None)[-1], differentiable=False, label="all"),
    Case("argmin", lambda a: gradlib.argmin(a, 2, True), spread(SHAPE), lambda a: np.argsort(a, 2)[..., :1], differentiable=False),
    Case(
        "argmin", lambda a: gradlib.argmin(a, keepdim=True), spread((3, 2)), lambda a: np.argsort(a, None)[:1, None],
        differentiable=False, label="all",
    ),
    # ---- the pair behind them ----
    Case(
        "take_along", lambda a, i: take_along.take_along(a, i, 1),
        lambda rng: [rng.standard_normal((2, 3, 2)), np.array([[[0, 2], [1, 0]]] * 2)],
        lambda a, i: np.stack([a[:, [0, 1], 0], a[:, [2, 0], 1]], -1), complex=True,
    ),
    Case(
        "take_along", lambda a, i: take_along.take_along(a, i, 0, True), lambda rng: [rng.standard_normal(4), np.array([1, 1, 3])],
        lambda a, i: np.array([a[1], a[1], a[3]]), complex=True, label="repeated",
    ),
    Case(
        "put_along", lambda a, i: take_along.put_along(a, i, 1, (2, 3)),
        lambda rng: [rng.standard_normal((2, 2)), np.array([[2, 0], [1, 2]])],
        lambda a, i: np.array([[a[0, 1], 0, a[0, 0]], [0, a[1, 0], a[1, 1]]]), complex=True,
    ),
    Case(
        "put_along", lambda a, i: take_along.put_along(a, i, 0, (4,), True), lambda rng: [rng.standard_normal(3), np.array([1, 1, 3])],
        lambda a, i: np.array([0, a[0] + a[1], 0, a[2]]), complex=True, label="repeated",
    ),
]  # fmt: skip
