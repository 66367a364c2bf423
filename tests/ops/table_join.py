"""Joins and splits, repetitions and reversals, copies and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from gradlib.ops.convert import to, to_copy
from gradlib.ops.copies import contiguous, copy, zero
from gradlib.ops.rearrange import interleave, repeat
from tests.ops.case import Case, normal
from tests.ops.table_shape import row


def both(op: str, call: Any, first: tuple[int, ...], second: tuple[int, ...], reference: Any, label: str = "") -> Case:
    """A linear operation on two tensors, also with complex numbers."""
    return Case(op, call, normal(first, second), reference, complex=True, label=label)


JOINED = [
    both("cat", lambda x, y: gradlib.cat([x, y], -1), (2, 3), (2, 1), lambda x, y: np.concatenate([x, y], -1)),
    both("cat", lambda x, y: gradlib.cat([x, y, x]), (2, 3), (0, 3), lambda x, y: np.concatenate([x, x]), "empty-and-twice"),
    both("cat", lambda x, y: gradlib.cat([y, x], 1), (2, 3), (0,), lambda x, y: x, "nothing"),
    both("stack", lambda x, y: gradlib.stack([x, y], -1), (2, 3), (2, 3), lambda x, y: np.stack([x, y], -1)),
    both("stack", lambda x, y: gradlib.stack([x, y]), (), (), lambda x, y: np.stack([x, y]), "0d"),
    both("hstack", lambda x, y: gradlib.hstack([x, y]), (2, 3), (2, 1), lambda x, y: np.hstack([x, y])),
    both("hstack", lambda x, y: gradlib.hstack([x, y]), (), (2,), lambda x, y: np.hstack([x, y]), "vectors"),
    both("vstack", lambda x, y: gradlib.vstack([x, y]), (2, 3), (3,), lambda x, y: np.vstack([x, y])),
    both("dstack", lambda x, y: gradlib.dstack([x, y]), (2, 3), (2, 3, 2), lambda x, y: np.dstack([x, y])),
    both("dstack", lambda x, y: gradlib.dstack([x, y]), (3,), (3,), lambda x, y: np.dstack([x, y]), "vectors"),
    both("column_stack", lambda x, y: gradlib.column_stack([x, y]), (3,), (3, 2), lambda x, y: np.column_stack([x, y])),
    both("broadcast_tensors", gradlib.broadcast_tensors, (3,), (2, 1), lambda x, y: tuple(np.broadcast_arrays(x, y))),
    both("meshgrid", lambda x, y: gradlib.meshgrid(x, y, indexing="ij"), (3,), (2,), lambda x, y: tuple(np.meshgrid(x, y, indexing="ij"))),
    both("meshgrid", lambda x, y: gradlib.meshgrid(x, y, indexing="xy"), (3,), (), lambda x, y: tuple(np.meshgrid(x, y)), "xy-0d"),
    both("atleast_1d", gradlib.atleast_1d, (), (2, 1), lambda x, y: tuple(np.atleast_1d(x, y))),
    both("atleast_2d", gradlib.atleast_2d, (3,), (), lambda x, y: tuple(np.atleast_2d(x, y))),
    both("atleast_3d", gradlib.atleast_3d, (3,), (2, 3), lambda x, y: tuple(np.atleast_3d(x, y))),
    row("atleast_1d", gradlib.atleast_1d, (), np.atleast_1d, "one"),
]

PARTED = [
    row("split", lambda x: gradlib.split(x, 2, 1), (2, 5), lambda x: (x[:, :2], x[:, 2:4], x[:, 4:])),
    row("split", lambda x: gradlib.split(x, [1, 2])[1], (3, 2), lambda x: x[1:], "sizes-one-used"),
    row("chunk", lambda x: gradlib.chunk(x, 4), (5,), lambda x: (x[:2], x[2:4], x[4:])),
    row("chunk", lambda x: gradlib.chunk(x, 2), (0, 3), lambda x: (x, x), "empty"),
    row("unsafe_split", lambda x: gradlib.unsafe_split(x, 2, 1), (2, 5), lambda x: (x[:, :2], x[:, 2:4], x[:, 4:])),
    row("unsafe_chunk", lambda x: gradlib.unsafe_chunk(x, 2, 1), (2, 5), lambda x: (x[:, :3], x[:, 3:])),
    row("unsafe_split_with_sizes", lambda x: gradlib.unsafe_split_with_sizes(x, [1, 2]), (3, 2), lambda x: (x[:1], x[1:])),
    row("tensor_split", lambda x: gradlib.tensor_split(x, 3, -1), (2, 5), lambda x: tuple(np.array_split(x, 3, -1))),
    row("tensor_split", lambda x: gradlib.tensor_split(x, (1, 4, 3)), (5,), lambda x: (x[:1], x[1:4], x[4:3], x[3:]), "positions"),
    row("hsplit", lambda x: gradlib.hsplit(x, 2), (2, 4), lambda x: tuple(np.hsplit(x, 2))),
    row("hsplit", lambda x: gradlib.hsplit(x, [1]), (4,), lambda x: tuple(np.hsplit(x, [1])), "vector"),
    row("vsplit", lambda x: gradlib.vsplit(x, 2), (4, 2), lambda x: tuple(np.vsplit(x, 2))),
    row("dsplit", lambda x: gradlib.dsplit(x, (1, 2)), (1, 2, 3), lambda x: tuple(np.dsplit(x, (1, 2)))),
]

MOVED = [
    row("repeat", lambda x: repeat(x, (2, 1, 3)), (2, 2), lambda x: np.tile(x, (2, 1, 3))),
    row("repeat", lambda x: repeat(x, (0, 2)), (2, 2), lambda x: np.tile(x, (0, 2)), "zero"),
    row("repeat", lambda x: repeat(x, ()), (), lambda x: x, "0d"),
    row("tile", lambda x: gradlib.tile(x, (2,)), (2, 3), lambda x: np.tile(x, 2)),
    row("interleave", lambda x: interleave(x, 3, 1), (2, 2), lambda x: np.repeat(x, 3, 1)),
    row("repeat_interleave", lambda x: gradlib.repeat_interleave(x, 2), (2, 2), lambda x: np.repeat(x, 2)),
    Case("repeat_interleave", lambda x, n: gradlib.repeat_interleave(x, n, 1),
         lambda rng: [rng.standard_normal((2, 3)), np.array([2, 0, 3])], lambda x, n: np.repeat(x, n, 1), complex=True, label="each"),
    row("flip", lambda x: gradlib.flip(x, (0, -1)), (2, 3, 2), lambda x: x[::-1, :, ::-1]),
    row("flip", lambda x: gradlib.flip(x, ()), (2,), lambda x: x, "no-dims"),
    row("roll", lambda x: gradlib.roll(x, 2), (2, 3), lambda x: np.roll(x, 2)),
    row("roll", lambda x: gradlib.roll(x, (-1, 4), (0, 1)), (2, 3), lambda x: np.roll(x, (-1, 4), (0, 1)), "dims"),
    *[row("rot90", lambda x, k=k: gradlib.rot90(x, k), (2, 3), lambda x, k=k: np.rot90(x, k), f"{k}") for k in (0, 1, 2, 3, -1)],
    row("rot90", lambda x: gradlib.rot90(x, 1, (2, 0)), (2, 3, 2), lambda x: np.rot90(x, 1, (2, 0)), "dims"),
    row("tril", lambda x: gradlib.tril(x, 1), (2, 3, 4), lambda x: np.tril(x, 1)),
    row("triu", lambda x: gradlib.triu(x, -1), (4, 3), lambda x: np.triu(x, -1)),
]  # fmt: skip

COPIED = [
    row("contiguous", lambda x: contiguous(gradlib.transpose(x, 0, 1)), (2, 3), np.transpose),
    row("to_copy", lambda x: to(x, copy=True), (2, 3), lambda x: x),
    row("to_copy", lambda x: to_copy(x, gradlib.float32, None, None), (2, 3), lambda x: x, "float32", differentiable=False, complex=False,
        tolerance=1e-6),
    both("copy", copy, (2, 3), (3,), lambda x, y: np.broadcast_to(y, x.shape)),
    both("fill", gradlib.fill, (2, 3), (), lambda x, y: np.full(x.shape, y)),
    row("fill", lambda x: gradlib.fill(x, 2), (2, 0), lambda x: np.full(x.shape, 2.0), "number"),
    row("zero", zero, (2, 3), np.zeros_like),
]  # fmt: skip

CASES = JOINED + PARTED + MOVED + COPIED
