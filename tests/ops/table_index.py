"""``x[...]``, and reading and writing at places and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from gradlib.ops.index import index, index_add_op, index_backward, index_put_op, slice_backward, slice_op
from gradlib.ops.masked import masked_scatter_backward
from gradlib.ops.scatter import reduced_at, total_at
from tests.ops.case import Case, Rng, beside, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")
ROWS = np.array([2, 0, 2])
PAIR = np.array([[0, 1], [2, 0]])
MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]])


def at(*key: Any) -> Callable[[Any], Any]:
    return lambda x: x[key if len(key) != 1 else key[0]]


def assigned(*key: Any) -> Callable[[Any, Any], Any]:
    """A copy of x, written by item assignment."""

    def call(x: Any, v: Any) -> Any:
        y = gradlib.clone(x)
        y[key if len(key) != 1 else key[0]] = v
        return y

    return call


def wrote(*key: Any) -> Callable[[Any, Any], Any]:
    """The same on NumPy arrays."""

    def call(x: Any, v: Any) -> Any:
        y = np.array(x, dtype=np.result_type(x, v))
        y[key if len(key) != 1 else key[0]] = v
        return y

    return call


def one_by_one(x: np.ndarray, dim: int, places: np.ndarray, src: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    """What the scatter functions mean, one element after the other."""
    result = np.array(x, dtype=np.result_type(x, src))
    for where in np.ndindex(*places.shape):
        target = (*where[:dim], places[where], *where[dim + 1 :])
        result[target] = combine(result[target], src[where])
    return result


def gathered(x: np.ndarray, dim: int, places: np.ndarray) -> np.ndarray:
    result = np.empty(places.shape, x.dtype)
    for where in np.ndindex(*places.shape):
        result[where] = x[(*where[:dim], places[where], *where[dim + 1 :])]
    return result


def with_places(*shapes: tuple[int, ...], places: Any) -> Callable[[Rng], list[Any]]:
    """Normal arrays, then an array of integers or bools."""
    return lambda rng: [*(rng.standard_normal(shape) for shape in shapes), np.array(places)]


def reduced(reduce: str, include_self: bool = True) -> Callable[..., Any]:
    return lambda x, src, places: gradlib.scatter_reduce(x, 0, places, src, reduce, include_self=include_self)


def mean_of_met(x: np.ndarray, src: np.ndarray, places: np.ndarray) -> np.ndarray:
    count = one_by_one(np.ones(x.shape), 0, places, np.ones(src.shape), np.add)
    return one_by_one(x, 0, places, src, np.add) / count


def distinct_pair(rng: Rng) -> list[Any]:
    values = spread((24,))(rng)[0]
    return [values[:12].reshape(3, 4), values[12:].reshape(6, 2)[:4], np.array([[0, 1], [2, 0], [0, 0], [1, 1]])]


X = normal((3, 4, 2))
CASES = [
    Case("slice", at(1), X, lambda x: x.take(1, 0), complex=True, dtypes=ALL, label="number"),
    Case("slice", at(-1, 2), X, lambda x: x.take(2, 0).take(2, 0), complex=True, label="numbers"),
    Case("slice", at(0, 0, 0), X, lambda x: x.item(0), complex=True, label="one-element"),
    Case("slice", at(slice(1, None), slice(None, None, 2)), X, lambda x: x.take([1, 2], 0).take([0, 2], 1), complex=True, label="steps"),
    Case("slice", at(slice(None, None, -1)), X, lambda x: np.flip(x, 0), complex=True, label="backwards"),
    Case("slice", at(..., None, 1), X, lambda x: x.take(1, 2)[:, :, np.newaxis], complex=True, label="new-axis"),
    Case("slice", at(()), X, np.copy, label="nothing"),
    Case("slice", at(slice(2, 1)), X, lambda x: np.zeros((0, 4, 2)), label="empty"),
    Case("slice", lambda x: slice_op(x, (0, ...)), X, lambda x: x.take(0, 0), complex=True, label="op"),
    Case("slice_backward", lambda g: slice_backward(g, (3, 4), (slice(None), 1, ...)), normal((3,)),
         lambda g: np.outer(g, [0, 1, 0, 0]), complex=True, dtypes=ALL),
    Case("index", at(ROWS), X, lambda x: np.stack([x[2], x[0], x[2]]), complex=True, dtypes=ALL, label="rows"),
    Case("index", at(slice(None), PAIR), X, lambda x: x.take(PAIR, 1), complex=True, label="pairs"),
    Case("index", at(ROWS, np.array([[1], [-1]])), X, lambda x: x[np.tile(ROWS, (2, 1)), [[1] * 3, [3] * 3]], complex=True, label="both"),
    Case("index", at(ROWS, slice(None), np.array([0, 1, 1])), X, lambda x: x.transpose(0, 2, 1)[ROWS, [0, 1, 1]], label="apart"),
    Case("index", at(MASK), X, lambda x: x.reshape(12, 2)[MASK.ravel()], complex=True, dtypes=ALL, label="mask"),
    Case("index", at(slice(None), np.array([True, False, False, True])), X, lambda x: x[:, [0, 3]], complex=True, label="mask-second"),
    Case("index", at([0, 2], [True, True, False, False], slice(1)), X, lambda x: x[[0, 2], [0, 1], :1], label="lists"),
    Case("index", lambda x: x[True], X, lambda x: x[np.newaxis], label="true"),
    Case("index", lambda x: index(x, [None, beside(x, ROWS)]), X, lambda x: x[:, [2, 0, 2]], complex=True, label="op"),
    Case("index_backward", lambda g: index_backward(g, (3, 4), [None, beside(g, ROWS)]), normal((3, 3)),
         lambda g: np.stack([g[:, 1], 0 * g[:, 0], g[:, 0] + g[:, 2], 0 * g[:, 0]], 1), complex=True, dtypes=ALL[:3]),
    Case("index_put", lambda x, v: index_put_op(x, v, [None, beside(x, np.array([1, 3]))]), normal((3, 4), (3, 2)),
         wrote(slice(None), [1, 3]), complex=True, dtypes=ALL, label="op"),
    Case("index_add", lambda x, v: index_add_op(x, v, [beside(x, ROWS)]), normal((3, 4), (4,)),
         lambda x, v: x + np.outer([1, 0, 2], v), complex=True, dtypes=ALL[:3]),
    Case("index_put", lambda x, v: gradlib.index_put(x, (np.array([0, 1]), np.array([2, 2])), v), normal((3, 4), (1, 2)),
         wrote([0, 1], [2, 2]), complex=True, label="function"),
    Case("index_put", assigned(1), normal((3, 4), (4,)), wrote(1), complex=True, label="x[1]=v"),
    Case("index_put", assigned(slice(None), slice(1, 3)), normal((3, 4), (1,)), wrote(slice(None), slice(1, 3)), label="slice"),
    Case("index_put", assigned(MASK), normal((3, 4), ()), wrote(MASK), complex=True, dtypes=ALL, label="mask"),
    Case("index_put", assigned(..., np.array([3, 1])), normal((3, 4), (3, 2)), wrote(..., [3, 1]), complex=True, label="array"),
    Case("index_put", assigned(slice(1, None), np.array([3, 1])), normal((3, 4), (2,)), wrote(slice(1, None), [3, 1]), label="of-view"),
    Case("nonzero", lambda x: gradlib.nonzero(x > 0), normal((3, 4)), lambda x: np.stack(np.nonzero(x > 0), 1), differentiable=False),
    Case("argwhere", lambda x: gradlib.argwhere(x > 0), normal((3, 4)), lambda x: np.stack(np.nonzero(x > 0), 1), differentiable=False),
    Case("gather", lambda x, i: gradlib.gather(x, 0, i), with_places((3, 4), places=PAIR), lambda x, i: gathered(x, 0, i), complex=True,
         dtypes=ALL),
    Case("gather", lambda x, i: gradlib.gather(x, -1, i), with_places((3, 4), places=[[3, 3, 0, 1, 2]]), lambda x, i: gathered(x, 1, i),
         label="last"),
    Case("index_select", lambda x, i: gradlib.index_select(x, 1, i), with_places((3, 4, 2), places=ROWS), lambda x, i: x[:, i],
         complex=True, dtypes=ALL),
    Case("index_select", lambda x, i: gradlib.index_select(x, 0, i), with_places((), places=[0]), lambda x, i: x, label="0-d"),
    Case("take", gradlib.take, with_places((3, 4), places=[[0, -1], [5, 5]]), lambda x, i: x.ravel()[i], complex=True),
    Case("take_along_dim", lambda x, i: gradlib.take_along_dim(x, i, 1), with_places((3, 4), places=[[0, -1]]),
         lambda x, i: np.take_along_axis(x, np.tile(i, (3, 1)), 1), complex=True),
    Case("take_along_dim", gradlib.take_along_dim, with_places((3, 4), places=[[0, 7]]), lambda x, i: x.ravel()[i.ravel()], label="flat"),
    Case("index_add", lambda x, s, i: gradlib.index_add(x, 0, i, s, alpha=-2), with_places((3, 4), (3, 4), places=ROWS),
         lambda x, s, i: x - 2 * np.stack([s[1], 0 * s[0], s[0] + s[2]]), complex=True, label="rows"),
    Case("index_copy", lambda x, s, i: gradlib.index_copy(x, 1, i, s), with_places((3, 4), (3, 2), places=[3, 1]),
         lambda x, s, i: wrote(slice(None), i)(x, s), complex=True, dtypes=ALL),
    Case("index_fill", lambda x, v, i: gradlib.index_fill(x, 1, i, v), with_places((3, 4), (), places=[3, 1, 3]),
         lambda x, v, i: wrote(slice(None), [3, 1])(x, v), complex=True),
    Case("scatter", lambda x, s, i: gradlib.scatter(x, 0, i, s), with_places((3, 4), (3, 2), places=PAIR),
         lambda x, s, i: one_by_one(x, 0, i, s, lambda old, new: new), complex=True, dtypes=ALL),
    Case("scatter", lambda x, i: gradlib.scatter(x, 1, i, 2.5), with_places((3, 4), places=PAIR),
         lambda x, i: one_by_one(x, 1, i, np.full((2, 2), 2.5), lambda old, new: new), label="number"),
    Case("scatter", lambda x, s, i: gradlib.scatter(x, 0, i, s, reduce="multiply"), with_places((3, 4), (2, 2), places=PAIR),
         lambda x, s, i: one_by_one(x, 0, i, s, np.multiply), label="multiply"),
    Case("scatter_add", lambda x, s, i: gradlib.scatter_add(x, 0, i, s), with_places((3, 4), (3, 2), places=[[0, 1], [0, 1], [2, 1]]),
         lambda x, s, i: one_by_one(x, 0, i, s, np.add), complex=True),
    *[
        Case("scatter_reduce", reduced(name), distinct_pair, lambda x, s, i, f=f: one_by_one(x, 0, i, s, f), label=name, tolerance=1e-10)
        for name, f in {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}.items()
    ],
    Case("scatter_reduce", reduced("mean"), distinct_pair, mean_of_met, label="mean"),
    Case("scatter_reduce", reduced("prod", False), distinct_pair,
         lambda x, s, i: one_by_one(one_by_one(x, 0, i, s, lambda old, new: 1), 0, i, s, np.multiply), label="prod-of-others"),
    Case("reduced_at", lambda x, s: reduced_at(x, s, beside(x, np.stack([ROWS, ROWS], 1)), 0, "prod", True), normal((3, 2), (3, 2)),
         lambda x, s: x * np.stack([s[1], 1 + 0 * s[0], s[0] * s[2]]), complex=True),
    Case("reduced_at", lambda x, s: reduced_at(x, s, beside(x, np.stack([ROWS, ROWS], 1)), 0, "amax", True), spread((3, 2), (3, 2)),
         lambda x, s: np.stack([np.maximum(x[0], s[1]), x[1], np.max([x[2], s[0], s[2]], 0)]), label="amax"),
    Case("total_at", lambda x, s: total_at(x, s, beside(x, np.stack([ROWS, ROWS], 1)), 0, "mean", False), normal((3, 2), (3, 2)),
         lambda x, s: np.stack([s[1], x[1], (s[0] + s[2]) / 2]), complex=True),
    Case("masked_fill", lambda x, v: gradlib.masked_fill(x, beside(x, MASK), v), normal((2, 3, 4), ()),
         lambda x, v: x * ~MASK + v * MASK, complex=True),
    Case("masked_fill", lambda x, m: gradlib.masked_fill(x, m, -1.5), with_places((4,), places=MASK), lambda x, m: np.where(m, -1.5, x),
         dtypes=ALL, label="broadcast"),
    Case("masked_select", gradlib.masked_select, with_places((2, 3, 4), places=MASK), lambda x, m: x[:, m].ravel(), complex=True),
    Case("masked_select", gradlib.masked_select, with_places((4,), places=MASK), lambda x, m: np.tile(x, 3)[m.ravel()], label="broadcast"),
    Case("masked_scatter", lambda x, s, m: gradlib.masked_scatter(x, m, s), with_places((3, 4), (2, 4), places=MASK),
         lambda x, s, m: wrote(m)(x, s.ravel()[: m.sum()]), complex=True, dtypes=ALL),
    Case("masked_scatter", lambda x, s, m: gradlib.masked_scatter(x, m, s), with_places((3, 4), (5, 2), places=MASK[0]),
         lambda x, s, m: wrote(np.broadcast_to(m, x.shape))(x, s.ravel()[: 3 * m.sum()]), label="broadcast"),
    Case("masked_scatter_backward", lambda x, m: masked_scatter_backward(x, m, (4, 3)), with_places((3, 4), places=MASK),
         lambda x, m: np.concatenate((x[m], np.zeros(12 - m.sum()))).reshape(4, 3), complex=True, dtypes=ALL),
    Case("searchsorted", lambda s, v: gradlib.searchsorted(s, v), lambda rng: [np.arange(5.0), rng.uniform(-1, 6, (2, 3))],
         lambda s, v: np.clip(np.ceil(v), 0, 5).astype(int), differentiable=False),
    Case("searchsorted", lambda s, v: gradlib.searchsorted(s, v, right=True),
         lambda rng: [np.tile([0.0, 1, 1, 3], (2, 1)), np.array([[1.0, 3], [0, 9]])], lambda s, v: np.array([[3, 4], [1, 4]]),
         differentiable=False, label="rows"),
    Case("bucketize", lambda s, v: gradlib.bucketize(v, s, right=True), lambda rng: [np.arange(5.0), np.array([0.0, 2.0, 2.5])],
         lambda s, v: np.array([1, 3, 3]), differentiable=False),
]  # fmt: skip
