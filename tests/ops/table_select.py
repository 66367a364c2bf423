"""Pointwise choices: where, the larger or smaller of two, clamping."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from tests.ops.case import Case, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")


def masked(*shapes: tuple[int, ...]) -> Any:
    """A mask of shape (3, 1) and normal arrays."""
    return lambda rng: [rng.random((3, 1)) < 0.5, *(rng.standard_normal(shape) for shape in shapes)]


def apart(*shapes: tuple[int, ...]) -> Any:
    """Arrays no two elements of which are closer than 0.1."""

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        sizes = [int(np.prod(shape)) for shape in shapes]
        values = rng.permutation(sum(sizes)) * 0.3 - 0.15 * sum(sizes)
        return [part.reshape(shape) for part, shape in zip(np.split(values, np.cumsum(sizes)[:-1]), shapes, strict=True)]

    return draw


def bounded(rng: np.random.Generator) -> list[np.ndarray]:
    """Values on both sides of bounds and between them; one lower bound is above the upper ones."""
    return [rng.permutation(12).reshape(3, 4) * 0.4 - 2.3, np.array([-1.2, -0.9, 2.8, -1.7]), np.array([[0.4], [1.3], [2.4]])]


def larger(a: Any, b: Any) -> Any:
    return np.where(a > b, a, b)


def smaller(a: Any, b: Any) -> Any:
    return np.where(a < b, a, b)


CASES = [
    Case("where", gradlib.where, masked((3, 4), (4,)), lambda c, a, b: np.choose(c, [b, a]), dtypes=ALL),
    Case("where", lambda c, a: gradlib.where(c, a, 2.0), masked((3, 4)), lambda c, a: np.choose(c, [2.0, a]), dtypes=ALL, label="number"),
    Case("where", lambda c, a: gradlib.where(c, 1j * a, a), masked((3, 4)), lambda c, a: a * np.choose(c, [1, 1j]), label="complex"),
    Case("where", lambda c: gradlib.where(c), lambda rng: [rng.random((3, 4)) < 0.5], np.nonzero, label="indices"),
    Case("maximum", gradlib.maximum, apart((2, 1, 4), (3, 1)), larger, dtypes=ALL),
    Case("minimum", gradlib.minimum, apart((2, 1, 4), (3, 1)), smaller, dtypes=ALL),
    Case("fmax", gradlib.fmax, apart((2, 1, 4), (3, 1)), larger, dtypes=ALL),
    Case("fmin", gradlib.fmin, apart((2, 1, 4), (3, 1)), smaller, dtypes=ALL),
    Case("maximum", gradlib.maximum, normal((0, 2), (2,)), lambda a, b: a, label="empty"),
    Case("clamp_min", lambda a: gradlib.clamp_min(a, 0), spread((3, 4)), lambda a: larger(a, 0), dtypes=ALL),
    Case("clamp_min", gradlib.clamp_min, apart((3, 4), (4,)), larger, label="tensor"),
    Case("clamp_max", lambda a: gradlib.clamp_max(a, 0.5), spread((3, 4)), lambda a: smaller(a, 0.5), dtypes=ALL),
    Case("clamp_max", gradlib.clamp_max, apart((3, 4), (4,)), smaller, label="tensor"),
    Case("clamp", lambda a: gradlib.clamp(a, -1, 1), spread((3, 4)), lambda a: smaller(larger(a, -1), 1), dtypes=ALL),
    Case("clamp", lambda a: gradlib.clamp(a, min=0), spread((3, 4)), lambda a: larger(a, 0), label="below"),
    Case("clamp", lambda a: gradlib.clip(a, max=0), spread((3, 4)), lambda a: smaller(a, 0), label="above"),
    Case("clamp", gradlib.clamp, bounded, lambda a, low, high: smaller(larger(a, low), high), label="tensors"),
]  # fmt: skip
