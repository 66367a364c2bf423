"""Views: another shape, another order of dimensions, a part of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from gradlib.ops.copies import contiguous
from gradlib.ops.join import split_with_sizes
from gradlib.ops.shape import view, view_dtype
from gradlib.ops.slices import as_strided_backward, as_strided_gather, diagonal_backward, unfold, unfold_backward
from tests.ops.case import Case, normal

ALL = ("float64", "float32", "float16", "bfloat16")


def row(op: str, call: Any, shape: tuple[int, ...], reference: Any, label: str = "", **more: Any) -> Case:
    """A linear operation on one tensor, checked in every dtype and with complex numbers."""
    return Case(op, call, normal(shape), reference, complex=more.pop("complex", True), dtypes=more.pop("dtypes", ALL), label=label, **more)


def windows(x: np.ndarray, size: int, step: int) -> np.ndarray:
    """Windows along the last dimension, one after another."""
    return np.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], -2)


def summed(g: np.ndarray, length: int, step: int) -> np.ndarray:
    """The sum of windows (..., n, size) where they lie in a dimension of that length."""
    total = np.zeros((*g.shape[:-2], length), g.dtype)
    for i in range(g.shape[-2]):
        total[..., i * step : i * step + g.shape[-1]] += g[..., i, :]
    return total


def strided_values(x: np.ndarray) -> np.ndarray:
    """Rows of two elements that begin at 1, 2 and 3."""
    flat = x.ravel()
    return np.stack([flat[1:3], flat[2:4], flat[3:5]])


def strided_sum(g: np.ndarray) -> np.ndarray:
    """What ``strided_values`` of a (2, 3) array sends back to it."""
    flat = np.zeros(6, g.dtype)
    for i in range(3):
        flat[i + 1 : i + 3] += g[i]
    return flat.reshape(2, 3)


RESHAPED = [
    row("reshape", lambda x: gradlib.reshape(x, (3, -1)), (2, 6), lambda x: x.reshape(3, 4)),
    row("reshape", lambda x: gradlib.reshape(gradlib.transpose(x, 0, 1), (4, 3)), (2, 6), lambda x: x.T.reshape(4, 3), "copy"),
    row("reshape", lambda x: gradlib.reshape(x, (0, 5)), (3, 0), lambda x: x.reshape(0, 5), "empty"),
    row("reshape", lambda x: gradlib.reshape(x, (1, 1)), (), lambda x: x.reshape(1, 1), "0d"),
    row("view", lambda x: view(x, (-1,)), (2, 3), np.ravel),
    row("view_dtype", lambda x: view_dtype(contiguous(x), "uint8"), (2, 3), lambda x: x.view(np.uint8), dtypes=("float64",),
        complex=False, differentiable=False),
    Case("reshape_as", gradlib.reshape_as, normal((2, 6), (3, 4)), lambda x, y: x.reshape(y.shape), complex=True, second=False),
    Case("view_as", gradlib.view_as, normal((2, 6), (12,)), lambda x, y: x.reshape(y.shape), complex=True, second=False),
    row("flatten", gradlib.flatten, (2, 3, 2), np.ravel),
    row("flatten", lambda x: gradlib.flatten(x, 1, -2), (2, 3, 2, 2), lambda x: x.reshape(2, 6, 2), "dims"),
    row("flatten", gradlib.flatten, (), lambda x: x.reshape(1), "0d"),
    row("ravel", gradlib.ravel, (2, 3), np.ravel),
    row("unflatten", lambda x: gradlib.unflatten(x, 1, (2, -1)), (2, 6), lambda x: x.reshape(2, 2, 3)),
    row("squeeze", gradlib.squeeze, (1, 3, 1), np.squeeze),
    row("squeeze", lambda x: gradlib.squeeze(x, (0, 1)), (1, 3, 1), lambda x: x[0], "dims"),
    row("squeeze", lambda x: gradlib.squeeze(x, 1), (1, 3), lambda x: x, "not-one"),
    row("unsqueeze", lambda x: gradlib.unsqueeze(x, -2), (2, 3), lambda x: x[:, None]),
    row("unsqueeze", lambda x: gradlib.unsqueeze(x, 0), (), lambda x: x[None], "0d"),
]  # fmt: skip

ORDERED = [
    row("transpose", lambda x: gradlib.transpose(x, 0, -1), (2, 3, 4), lambda x: np.swapaxes(x, 0, 2)),
    row("transpose", lambda x: gradlib.transpose(x, 0, -1), (), lambda x: x, "0d"),
    row("permute", lambda x: gradlib.permute(x, (2, 0, -2)), (2, 3, 4), lambda x: np.transpose(x, (2, 0, 1))),
    row("movedim", lambda x: gradlib.movedim(x, 0, -1), (2, 3, 4), lambda x: np.moveaxis(x, 0, -1)),
    row("movedim", lambda x: gradlib.movedim(x, (0, 1), (2, 0)), (2, 3, 4), lambda x: np.moveaxis(x, (0, 1), (2, 0)), "several"),
    row("t", gradlib.t, (2, 3), np.transpose),
    row("t", gradlib.t, (3,), lambda x: x, "vector"),
    row("adjoint", gradlib.adjoint, (2, 3, 4), lambda x: np.conj(np.swapaxes(x, 1, 2))),
    row("expand", lambda x: gradlib.expand(x, (4, -1, 3)), (2, 1), lambda x: np.broadcast_to(x, (4, 2, 3))),
    row("expand", lambda x: gradlib.expand(x, (2, 0)), (1,), lambda x: np.broadcast_to(x, (2, 0)), "empty"),
    row("expand", lambda x: gradlib.expand(x, (2, 2)), (), lambda x: np.broadcast_to(x, (2, 2)), "0d"),
    row("broadcast_to", lambda x: gradlib.broadcast_to(x, (2, 3)), (3,), lambda x: np.broadcast_to(x, (2, 3))),
    Case("expand_as", gradlib.expand_as, normal((1, 3), (2, 3)), lambda x, y: np.broadcast_to(x, y.shape), complex=True, second=False),
]

PARTS = [
    row("narrow", lambda x: gradlib.narrow(x, 1, -3, 2), (2, 4), lambda x: x[:, 1:3]),
    row("narrow", lambda x: gradlib.narrow(x, 0, 2, 0), (2, 4), lambda x: x[2:], "empty"),
    row("select", lambda x: gradlib.select(x, -1, -2), (2, 4), lambda x: x[:, 2]),
    row("select", lambda x: gradlib.select(x, 0, 1), (3,), lambda x: x[1], "to-0d"),
    row("unbind", lambda x: gradlib.unbind(x, 1), (2, 3), lambda x: tuple(x[:, i] for i in range(3))),
    row("unbind", lambda x: gradlib.unbind(x)[1], (3, 2), lambda x: x[1], "one-used"),
    row("split_with_sizes", lambda x: split_with_sizes(x, (1, 0, 3), -1), (2, 4), lambda x: (x[:, :1], x[:, 1:1], x[:, 1:])),
    row("diagonal", gradlib.diagonal, (3, 4), np.diagonal),
    row("diagonal", lambda x: gradlib.diagonal(x, 1, -1, 0), (3, 2, 4), lambda x: np.diagonal(x, 1, -1, 0), "dims"),
    row("diagonal", lambda x: gradlib.diagonal(x, 5), (2, 3), lambda x: np.diagonal(x, 5), "outside"),
    row("diagonal_backward", lambda x: diagonal_backward(x, (3, 3), -1, 0, 1), (2,), lambda x: np.diag(x, -1)),
    row("diag_embed", gradlib.diag_embed, (2, 3), lambda x: np.stack([np.diag(r) for r in x])),
    row("diag_embed", lambda x: gradlib.diag_embed(x, -1, 1, 0), (2, 3), lambda x: np.stack([np.diag(r, 1) for r in x], -1), "dims"),
    row("diag", lambda x: gradlib.diag(x, 1), (3,), lambda x: np.diag(x, 1)),
    row("diag", lambda x: gradlib.diag(x, -1), (3, 4), lambda x: np.diag(x, -1), "matrix"),
    row("unfold", lambda x: unfold(x, 1, 3, 1), (2, 6), lambda x: windows(x, 3, 1)),
    row("unfold", lambda x: unfold(x, 0, 2, 3), (6, 2), lambda x: np.moveaxis(windows(x.T, 2, 3), 0, 1), "gaps"),
    row("unfold", lambda x: unfold(x, 0, 1, 1), (), lambda x: x.reshape(1), "0d"),
    row("unfold_backward", lambda x: unfold_backward(x, (2, 7), 1, 3, 2), (2, 3, 3), lambda x: summed(x, 7, 2)),
    row("as_strided", lambda x: gradlib.as_strided(contiguous(x), (3, 2), (1, 1), 1), (2, 3), strided_values, "overlapping"),
    row("as_strided", lambda x: gradlib.as_strided(contiguous(x), (2,), (2,)), (2, 3), lambda x: x[0, ::2], "spaced"),
    row("as_strided_backward", lambda x: as_strided_backward(x, (2, 3), (3, 2), (1, 1), 1, (3, 1)), (3, 2), strided_sum),
    row("as_strided_gather", lambda x: as_strided_gather(x, (3, 2), (1, 1), 1, (3, 1)), (2, 3), strided_values),
    row("view_as_complex", lambda x: gradlib.view_as_complex(contiguous(x)), (3, 2), lambda x: x[:, 0] + 1j * x[:, 1],
        dtypes=("float64", "float32"), complex=False),
    row("view_as_real", lambda x: gradlib.view_as_real(gradlib.view_as_complex(contiguous(x)) * 1j), (3, 2),
        lambda x: np.stack([-x[:, 1], x[:, 0]], -1), dtypes=("float64", "float32"), complex=False),
]  # fmt: skip

CASES = RESHAPED + ORDERED + PARTS
