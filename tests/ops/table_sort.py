"""Sorting, parts of sorted lines, sets of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from gradlib.ops import sort
from tests.ops.case import Case, Rng, spread

ALL = ("float64", "float32", "float16", "bfloat16")


def whole(*shape: int) -> Callable[[Rng], list[np.ndarray]]:
    """Integers with many ties."""
    return lambda rng: [rng.integers(-3, 4, shape)]


def pairs(*shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    return lambda rng: [rng.integers(-3, 4, shape) for shape in shapes]


def ranked(a: Any, axis: int, descending: bool = False) -> tuple[Any, Any]:
    """Values and places along an axis by Python's own sort, which is stable."""
    moved = np.moveaxis(a, axis, -1)
    lines = (-moved if descending else moved).reshape(-1, moved.shape[-1])
    places = np.array([sorted(range(len(line)), key=line.__getitem__) for line in lines])
    where = np.moveaxis(places.reshape(moved.shape), -1, axis)
    return np.take_along_axis(a, where, axis), where


def part(a: Any, axis: int, keep: Any, descending: bool = False) -> list[Any]:
    return [np.take(x, keep, axis) for x in ranked(a, axis, descending)]


def distinct_rows(a: Any) -> tuple[Any, Any, Any]:
    """Distinct rows in order, where each row is among them, how often each occurs, by Python's set."""
    rows = [tuple(row) for row in a.tolist()]
    values = sorted(set(rows))
    return np.array(values), np.array([values.index(row) for row in rows]), np.array([rows.count(value) for value in values])


CASES = [
    Case("sort", lambda a: gradlib.sort(a, 1), spread((2, 5, 2)), lambda a: ranked(a, 1), dtypes=ALL),
    Case("sort", lambda a: gradlib.sort(a, 0, True), spread((5, 2)), lambda a: ranked(a, 0, True), dtypes=ALL, label="descending"),
    Case("sort", lambda a: gradlib.sort(a, stable=True, descending=True), whole(3, 9), lambda a: ranked(a, 1, True), label="stable"),
    Case("argsort", lambda a: gradlib.argsort(a, 0), whole(7, 3), lambda a: ranked(a, 0)[1]),
    Case("argsort", lambda a: gradlib.argsort(a, descending=True), whole(3, 7), lambda a: ranked(a, 1, True)[1], label="descending"),
    Case("topk", lambda a: gradlib.topk(a, 2), spread((3, 20)), lambda a: part(a, 1, [0, 1], True), dtypes=ALL),
    Case("topk", lambda a: gradlib.topk(a, 3, 0, False), spread((4, 3)), lambda a: part(a, 0, [0, 1, 2]), label="smallest"),
    Case("kthvalue", lambda a: gradlib.kthvalue(a, 2, 0), spread((5, 2)), lambda a: part(a, 0, 1), dtypes=ALL),
    Case("kthvalue", lambda a: gradlib.kthvalue(a, 3, -1, True), spread((2, 5)), lambda a: part(a, 1, [2]), label="keepdim"),
    Case("median", lambda a: gradlib.median(a, 1), spread((3, 4)), lambda a: part(a, 1, 1), dtypes=ALL),
    Case("median", lambda a: gradlib.median(a, 0, True), spread((5, 2)), lambda a: part(a, 0, [2]), label="keepdim"),
    Case("median_all", lambda a: gradlib.median(a), spread((2, 4)), lambda a: np.sort(a, None)[3], dtypes=ALL),
    Case("unique", lambda a: gradlib.unique(a, return_inverse=True, return_counts=True), whole(3, 4), lambda a: (
        np.array(sorted(set(a.ravel().tolist()))), np.searchsorted(sorted(set(a.ravel().tolist())), a),
        np.array([(a == v).sum() for v in sorted(set(a.ravel().tolist()))]),
    )),
    Case("unique", lambda a: gradlib.unique(a), spread((6,)), np.sort, differentiable=False, dtypes=ALL, label="float"),
    Case("unique", lambda a: gradlib.unique(a, True, True, True, 0), pairs((9, 2)), distinct_rows, label="rows"),
    Case("distinct", lambda a: sort.distinct(a, 1), pairs((2, 9)), lambda a: [
        x.T if i == 0 else x for i, x in enumerate(distinct_rows(a.T))
    ]),
    Case("isin", gradlib.isin, pairs((3, 4), (3,)), lambda a, b: np.vectorize(lambda x: x in b.tolist())(a)),
    Case("isin", lambda a: gradlib.isin(a, 1, invert=True), whole(3, 4), lambda a: a != 1, label="number"),
]  # fmt: skip
