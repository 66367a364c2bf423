"""Linear maps, look-ups, padding, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib.nn.functional as F
from gradlib.ops import nn
from tests.ops.case import Case, Rng, normal

ALL = ("float64", "float32", "float16", "bfloat16")
PLACES = np.array([[0, 2], [2, 4]])


def table(rng: Rng) -> list[np.ndarray]:
    return [rng.standard_normal((5, 3)), PLACES]


def normalised(a: Any, axis: Any, eps: float = 1e-5) -> Any:
    return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + eps)


def deviation(a: Any) -> Any:
    return 1 / np.sqrt(a.var(1, keepdims=True) + 0.1)


CASES = [
    Case("linear", F.linear, normal((2, 3), (4, 3), (4,)), lambda x, w, b: np.einsum("ni,oi->no", x, w) + b, complex=True, dtypes=ALL),
    Case("linear", F.linear, normal((3,), (4, 3), (4,)), lambda x, w, b: np.einsum("i,oi->o", x, w) + b, complex=True, label="vector"),
    Case("linear", F.linear, normal((2, 5, 3), (4, 3), (4,)), lambda x, w, b: np.einsum("mni,oi->mno", x, w) + b, label="batch"),
    Case(
        "linear_unbiased", F.linear, normal((2, 5, 3), (4, 3)), lambda x, w: np.einsum("mni,oi->mno", x, w), complex=True, dtypes=ALL,
    ),
    Case("linear_unbiased", F.linear, normal((3,), (4, 3)), lambda x, w: np.einsum("i,oi->o", x, w), complex=True, label="vector"),
    Case("linear", F.linear, normal((2, 3), (3,)), lambda x, w: (x * w).sum(1), label="one-output"),
    Case("linear", F.linear, normal((0, 3), (4, 3), (4,)), lambda x, w, b: np.zeros((0, 4)), label="empty"),
    Case(
        "embedding", lambda w, i: F.embedding(i, w), table, lambda w, i: np.stack([[w[j] for j in row] for row in i]), complex=True,
        dtypes=ALL,
    ),
    Case("one_hot", F.one_hot, lambda rng: [PLACES], lambda i: np.eye(5, dtype=np.int64)[i]),
    Case("one_hot", lambda i: F.one_hot(i, 7), lambda rng: [np.array(3)], lambda i: np.arange(7) // 1 == 3, label="0-d"),
    Case(
        "gradient_share", lambda i: nn.gradient_share(i, 5, 4, True, np.dtype("float64")), lambda rng: [PLACES],
        lambda i: np.array([[[1.0], [0.5]], [[0.5], [0]]]),
    ),
    Case(
        "pad", lambda a: F.pad(a, (1, 2, 0, 3), value=2.5), normal((2, 3)),
        lambda a: np.pad(a, ((0, 3), (1, 2)), constant_values=2.5), complex=True, dtypes=ALL,
    ),
    Case("pad", lambda a: F.pad(a, (-1, 2)), normal((2, 3)), lambda a: np.pad(a[:, 1:], ((0, 0), (0, 2))), label="cut"),
    Case(
        "pad", lambda a: F.pad(a, (1, -2), value=1), lambda rng: [rng.integers(0, 9, (2, 3))],
        lambda a: np.pad(a[:, :1], ((0, 0), (1, 0)), constant_values=1), label="integers",
    ),
    Case(
        "constant_pad", lambda a: nn.constant_pad(a, [-1, -1, 2, 0], 0), normal((2, 4)),
        lambda a: np.pad(a[:, 1:3], ((2, 0), (0, 0))), complex=True,
    ),
    Case(
        "layer_norm", lambda a, w, b: F.layer_norm(a, (4,), w, b), normal((2, 3, 4), (4,), (4,)),
        lambda a, w, b: normalised(a, -1) * w + b, dtypes=ALL,
    ),
    Case(
        "layer_norm", lambda a: F.layer_norm(a, [3, 4], eps=0.1), normal((2, 3, 4)), lambda a: normalised(a, (1, 2), 0.1),
        dtypes=ALL, label="two-dims",
    ),
    Case("native_layer_norm", lambda a: nn.native_layer_norm(a, (1,), 0.1), normal((3, 4)),
         lambda a: (normalised(a, 1, 0.1), a.mean(1, keepdims=True), deviation(a))),
    Case("affine_layer_norm", lambda a, w, b: nn.affine_layer_norm(a, (1,), 0.1, w, b), normal((3, 4), (4,), (4,)),
         lambda a, w, b: (normalised(a, 1, 0.1) * w + b, a.mean(1, keepdims=True), deviation(a))),
]  # fmt: skip
