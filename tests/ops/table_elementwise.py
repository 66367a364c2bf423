"""Pointwise operations of one input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import gradlib
from tests.ops.case import Case, normal, spread, uniform

ALL = ("float64", "float32", "float16", "bfloat16")


def one(name: str, reference: Callable[..., Any], inputs: Any, dtypes: tuple[str, ...] = ALL, **options: Any) -> Case:
    """A row that calls ``gradlib.NAME`` on one tensor."""
    return Case(name, getattr(gradlib, name), inputs, reference, dtypes=dtypes, **options)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def whole(rng: np.random.Generator) -> list[np.ndarray]:
    """Integers of both signs and zero."""
    return [rng.integers(-5, 6, (3, 4))]


CASES = [
    one("neg", lambda x: 0 - x, normal((3, 4)), complex=True),
    one("abs", lambda x: np.sqrt(x.real**2 + x.imag**2), spread((3, 4)), complex=True),
    one("sign", lambda x: np.where(x > 0, 1.0, -1.0), spread((3, 4)), second=False),
    one("sgn", lambda x: x / abs(x), spread((3, 4)), complex=True, second=False, label="real"),
    Case(
        "sgn", lambda x, y: gradlib.sgn(gradlib.complex(x, y)), spread((3, 4), (3, 4)), lambda x, y: (x + 1j * y) / np.hypot(x, y),
        label="complex",
    ),
    one("positive", lambda x: x.copy(), normal((3, 4)), complex=True),
    one("exp", lambda x: np.e**x, uniform(-1, 1, (3, 4)), complex=True),
    one("exp", lambda x: np.e**x, uniform(-1, 1, ()), label="0-d"),
    one("exp", lambda x: x, normal((0, 3)), label="empty"),
    one("exp2", lambda x: 2.0**x, uniform(-1, 1, (3, 4)), complex=True),
    one("expm1", lambda x: np.exp(x) - 1, uniform(-1, 1, (3, 4)), complex=True),
    one("log", lambda x: np.emath.logn(np.e, x), uniform(0.5, 3, (3, 4)), complex=True),
    one("log1p", lambda x: np.log(1 + x), uniform(-0.5, 3, (3, 4)), complex=True),
    one("log2", lambda x: np.log(x) / np.log(2), uniform(1.5, 3, (3, 4)), complex=True),
    one("log10", lambda x: np.log(x) / np.log(10), uniform(1.5, 3, (3, 4)), complex=True),
    one("sqrt", lambda x: x**0.5, uniform(0.5, 3, (3, 4)), complex=True),
    one("rsqrt", lambda x: x**-0.5, uniform(0.5, 3, (3, 4)), complex=True),
    one("square", lambda x: x * x, normal((3, 4)), complex=True),
    one("reciprocal", lambda x: 1 / x, uniform(0.5, 3, (3, 4)), complex=True),
    one("sin", lambda x: np.cos(x - np.pi / 2), uniform(-2, 2, (3, 4)), complex=True),
    one("cos", lambda x: np.sin(x + np.pi / 2), uniform(-2, 2, (3, 4)), complex=True),
    one("tan", lambda x: np.sin(x) / np.cos(x), uniform(-1, 1, (3, 4)), complex=True),
    one("asin", lambda x: np.pi / 2 - np.arccos(x), uniform(-0.8, 0.8, (3, 4)), complex=True),
    one("acos", lambda x: np.pi / 2 - np.arcsin(x), uniform(-0.8, 0.8, (3, 4)), complex=True),
    one("atan", lambda x: np.arcsin(x / np.sqrt(1 + x * x)), uniform(-0.9, 0.9, (3, 4)), complex=True),
    one("sinh", lambda x: (np.exp(x) - np.exp(-x)) / 2, uniform(-1, 1, (3, 4)), complex=True),
    one("cosh", lambda x: (np.exp(x) + np.exp(-x)) / 2, uniform(-1, 1, (3, 4)), complex=True),
    one("tanh", lambda x: 1 - 2 / (np.exp(2 * x) + 1), uniform(-1, 1, (3, 4)), complex=True),
    one("asinh", lambda x: np.log(x + np.sqrt(x * x + 1)), uniform(-1, 1, (3, 4)), complex=True),
    one("acosh", lambda x: np.log(x + np.sqrt(x * x - 1)), uniform(1.5, 3, (3, 4)), complex=True),
    one("atanh", lambda x: np.log((1 + x) / (1 - x)) / 2, uniform(-0.8, 0.8, (3, 4)), complex=True),
    one("sigmoid", sigmoid, uniform(-3, 3, (3, 4)), complex=True),
    one("erf", lambda x: 2 * scipy.special.ndtr(x * np.sqrt(2)) - 1, uniform(-2, 2, (3, 4))),
    one("floor", lambda x: x // 1, spread((3, 4)), second=False),
    one("floor", lambda x: x, whole, label="integers"),
    one("ceil", lambda x: -np.floor(-x), spread((3, 4)), second=False),
    one("ceil", lambda x: x, whole, label="integers"),
    one("trunc", lambda x: np.sign(x) * np.floor(abs(x)), spread((3, 4)), second=False),
    one("trunc", lambda x: x, whole, label="integers"),
    one("round", lambda x: np.array([float(round(v)) for v in x.ravel()]).reshape(x.shape), spread((3, 4)), second=False),
    Case(
        "round", lambda x: gradlib.round(x, decimals=2), uniform(-3, 3, (3, 4)), lambda x: np.round(x, 2),
        dtypes=("float64",), differentiable=False, label="decimals",
    ),
    Case(
        "round", lambda x: gradlib.round(x * 100, decimals=-2), spread((3, 4)), lambda x: np.round(x) * 100,
        dtypes=("float64",), second=False, label="tens",
    ),
    one("frac", lambda x: x - np.sign(x) * np.floor(abs(x)), spread((3, 4)), dtypes=("float64", "float32")),
    one("signbit", lambda x: x < 0, normal((3, 4)), differentiable=False),
    one("isnan", lambda x: x != x, normal((3, 4)), differentiable=False),
    one("isinf", lambda x: abs(x) == np.inf, normal((3, 4)), differentiable=False),
    one("isfinite", lambda x: x - x == 0, normal((3, 4)), differentiable=False),
    one("nan_to_num", lambda x: x.copy(), normal((3, 4)), complex=True),
    one("clone", lambda x: x.copy(), normal((3, 4)), complex=True),
    one("clone", lambda x: x.copy(), whole, label="integers"),
]  # fmt: skip
