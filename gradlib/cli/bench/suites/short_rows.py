"""Operations of the suite `ops` on arrays with short rows: points, joints and quaternions of robots, batches of a network's features.

NumPy goes from row to row, or from one short line to the next, which costs more than the few numbers in it. Only operations are here for
which that matters; elementwise ones of one tensor take the same time in every shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from gradlib.cli.bench.suites.entry import Entry, Rng, Size, alike, along, method, named

POINTS, CHANNELS, FEATURES, QUATERNIONS = (20_000, 3), (3, 20_000), (1000, 64), (20_000, 4)
ALL: tuple[Size, ...] = (POINTS, CHANNELS, FEATURES)
BATCHES: tuple[Size, ...] = (POINTS, FEATURES)


# ---- the arguments ----------------------------------------------------------------------------------------------------------------


def normal(rng: Rng, shape: Any, count: int = 1) -> list[Any]:
    return [rng.standard_normal(shape) for _ in range(count)]


def near_one(rng: Rng, shape: Any) -> list[Any]:
    return [rng.uniform(0.99, 1.01, shape)]


def bools(rng: Rng, shape: Any) -> list[Any]:
    return [rng.random(shape) < 0.5]


def distinct(rng: Rng, shape: Any) -> list[Any]:
    return [rng.permutation(shape[0] * shape[1]).reshape(shape) / (shape[0] * shape[1]) - 0.5]


def with_row(rng: Rng, shape: Any) -> list[Any]:
    return [rng.standard_normal(shape), rng.uniform(0.5, 2.0, shape[1])]


def with_column(rng: Rng, shape: Any) -> list[Any]:
    return [rng.standard_normal(shape), rng.uniform(0.5, 2.0, (shape[0], 1))]


def with_matrix(rng: Rng, shape: Any) -> list[Any]:
    return [rng.standard_normal(shape), rng.standard_normal((shape[1], shape[1]))]


def with_matrices(rng: Rng, shape: Any, columns: int = 1) -> list[Any]:
    """A matrix for each row, which is a column to `matmul`; or another matrix."""
    return [rng.standard_normal((*shape, shape[1])), rng.standard_normal((*shape, columns))]


def gathered(rng: Rng, shape: Any) -> list[Any]:
    """A matrix, places for each of its elements along the columns, and values."""
    return [rng.standard_normal(shape), rng.integers(0, shape[1], shape), rng.standard_normal(shape)]


def picking(rng: Rng, shape: Any) -> list[Any]:
    """A matrix, rows of it with repeats, and values for these rows."""
    return [rng.standard_normal(shape), rng.integers(0, shape[0], shape[0]), rng.standard_normal(shape)]


def labelled(rng: Rng, shape: Any) -> list[Any]:
    return [rng.standard_normal(shape), rng.integers(0, shape[1], shape[0])]


# ---- the operations ---------------------------------------------------------------------------------------------------------------


def entries() -> Iterator[Entry]:
    """Each with the shapes that it is timed at; those that `ops` has too go by the same name."""
    for sizes, family in ((ALL, everywhere), (BATCHES, of_batches), ((POINTS,), of_points), ((QUATERNIONS,), of_quaternions)):
        yield from (replace(entry, sizes=sizes) for entry in family())


def everywhere() -> Iterator[Entry]:
    """What goes along the long dimension of some, and along the short one of others."""
    for dim in (0, 1):
        yield from along("sum amax", normal, dim)
        yield from along("argmax", normal, dim, gradient=False)
        yield from along("cumsum", normal, dim)
    yield Entry("vector_norm", normal, lambda m, x: m.linalg.vector_norm(x, dim=1))
    yield from named("softmax", normal, 1)
    yield method("add a row", with_row, lambda x, r: x + r, array=lambda m, x, r: x + r)
    yield method("mul by a column", with_column, lambda x, c: x * c, array=lambda m, x, c: x * c)


def of_batches() -> Iterator[Entry]:
    """What meets rows as wholes, or every element by a place of its own."""
    yield from along("mean var logsumexp", normal, 1)
    yield from along("count_nonzero", normal, 1, gradient=False)
    yield from (replace(entry, name=f"{entry.name}(dim=1)") for entry in named("max", distinct, 1))
    yield Entry("layer_norm", normal, lambda m, x: m.nn.functional.layer_norm(x, x.shape[1:]))
    yield Entry("cross_entropy", labelled, lambda m, x, t: m.nn.functional.cross_entropy(x, t))
    yield Entry("sort", distinct, lambda m, x: m.sort(x, 1))
    yield Entry("flip(dim=0)", normal, lambda m, x: m.flip(x, (0,)), lambda m, x: m.flip(x, 0).copy())
    yield Entry("cat", partial(normal, count=2), lambda m, a, b: m.cat([a, b], 1), lambda m, a, b: m.concatenate([a, b], 1))
    yield method("index rows", picking, lambda x, i, v: x[i], array=lambda m, x, i, v: x[i])
    yield method("index_add", picking, lambda x, i, v: x.index_add(0, i, v))
    yield Entry("gather", gathered, lambda m, x, i, v: m.gather(x, 1, i), lambda m, x, i, v: m.take_along_axis(x, i, 1))
    yield method("scatter_add", gathered, lambda x, i, v: x.scatter_add(1, i, v))
    yield method("contiguous", normal, lambda x: x.t().contiguous(), array=lambda m, x: m.ascontiguousarray(x.T))


def of_points() -> Iterator[Entry]:
    """What else is done with points."""
    yield from along("prod", near_one, 1)
    yield from along("all any", bools, 1, gradient=False)
    yield from along("cummax", distinct, 0)
    yield from along("cummax", distinct, 1)
    yield alike("diff", normal, lambda m, x: m.diff(x))
    yield Entry("diff(dim=0)", normal, lambda m, x: m.diff(x, dim=0), lambda m, x: m.diff(x, axis=0))
    yield Entry("flip", normal, lambda m, x: m.flip(x, (1,)), lambda m, x: m.flip(x, 1).copy())
    yield alike("roll", normal, lambda m, x: m.roll(x, 1, 1))
    yield Entry("pad", normal, lambda m, x: m.nn.functional.pad(x, (0, 1)), lambda m, x: m.pad(x, ((0, 0), (0, 1))))
    yield alike("stack(dim=1)", partial(normal, count=2), lambda m, a, b: m.stack([a, b], 1))
    yield Entry("stack of columns", normal, lambda m, x: m.stack(x.unbind(1), 1), lambda m, x: m.stack([x[:, k] for k in range(3)], 1))
    yield method("index columns", normal, lambda x: x[:, [2, 0, 1]], array=lambda m, x: x[:, [2, 0, 1]])
    yield method("write a column", with_column, _written, array=_written_by_numpy)
    yield Entry("where, rows", with_column, lambda m, x, c: m.where(c > 1, x, 0.0), lambda m, x, c: m.where(c > 1, x, x.dtype.type(0)))
    yield Entry("gather rows", picking, _gathered_rows, lambda m, x, i, v: x[i])
    yield method("scatter_add of rows", picking, lambda x, i, v: x.scatter_add(0, i[:, None].expand(*v.shape), v))
    yield alike("cross", partial(normal, count=2), lambda m, a, b: m.linalg.cross(a, b))
    yield Entry("vecdot", partial(normal, count=2), lambda m, a, b: m.linalg.vecdot(a, b), lambda m, a, b: m.vecdot(a, b))
    yield alike("matmul", with_matrix, lambda m, x, w: x @ w)
    yield alike("matmul of each row", with_matrices, lambda m, w, x: w @ x)
    yield Entry("matmul of rotations", partial(with_matrices, columns=3), lambda m, w, x: w @ x, lambda m, w, x: w @ x)
    yield method("normalized", normal, lambda x: x / x.norm(dim=1, keepdim=True), array=lambda m, x: x / m.linalg.norm(x, axis=1)[:, None])


def of_quaternions() -> Iterator[Entry]:
    """Products of quaternions (w, x, y, z)."""
    yield Entry("product of quaternions", partial(normal, count=2), _by_parts, lambda m, a, b: _product(m.stack, a.T, b.T))


# ---- how some are called ----------------------------------------------------------------------------------------------------------


def _written(x: Any, c: Any) -> Any:
    y = x.clone()
    y[:, 1:2] = c
    return y


def _written_by_numpy(m: Any, x: Any, c: Any) -> Any:
    y = x.copy()
    y[:, 1:2] = c
    return y


def _gathered_rows(m: Any, x: Any, i: Any, v: Any) -> Any:
    """As torch's users pick rows where each index may differ: by one that is repeated along them."""
    return m.gather(x, 0, i[:, None].expand(*v.shape))


def _by_parts(m: Any, a: Any, b: Any) -> Any:
    return _product(m.stack, a.unbind(1), b.unbind(1))


def _product(stack: Any, a: Any, b: Any) -> Any:
    (aw, ax, ay, az), (bw, bx, by, bz) = a, b
    parts = (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )
    return stack(parts, 1)
