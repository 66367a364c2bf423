"""Activation functions and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

import gradlib
from gradlib.ops import activation, elementwise, trigonometry
from tests.ops.case import Case, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


def by_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def dropped(x: Any) -> Any:
    """Dropout from a fixed place in the stream, so that every call drops the same elements."""
    gradlib.manual_seed(3)
    return activation.dropout(x, 0.4)


CASES = [
    Case("relu", gradlib.relu, spread((3, 4)), lambda x: x * (x > 0), dtypes=ALL),
    Case("relu", gradlib.relu, lambda rng: [rng.integers(-4, 5, 6)], lambda x: x * (x > 0), label="integers"),
    Case(
        "threshold_backward", lambda g, x: activation.threshold_backward(g, x, 0), spread((3, 4), (3, 4)), lambda g, x: g * (x > 0),
        dtypes=ALL,
    ),
    Case(
        "leaky_relu_backward", lambda g, x: activation.leaky_relu_backward(g, x, 0.25), spread((3, 4), (3, 4)),
        lambda g, x: g * np.where(x > 0, 1, 0.25), dtypes=ALL,
    ),
    Case("tanh_backward", trigonometry.tanh_backward, normal((3, 4), (3, 4)), lambda g, y: g * (1 - y * y), dtypes=ALL, complex=True),
    Case("sigmoid_backward", elementwise.sigmoid_backward, normal((3, 4), (3, 4)), lambda g, y: g * y * (1 - y), dtypes=ALL, complex=True),
    Case("leaky_relu", activation.leaky_relu, spread((3, 4)), lambda x: x * np.where(x > 0, 1, 0.01), dtypes=ALL),
    Case("leaky_relu", lambda x: activation.leaky_relu(x, 0.3), spread((3, 4)), lambda x: x * np.where(x > 0, 1, 0.3), label="slope"),
    Case("elu", activation.elu, spread((3, 4)), elu, dtypes=ALL),
    Case("elu", lambda x: activation.elu(x, alpha=2.0), spread((3, 4)), lambda x: elu(x, 2.0), label="alpha"),
    Case("gelu", activation.gelu, normal((3, 4)), lambda x: x * scipy.stats.norm.cdf(x), dtypes=ALL),
    Case("gelu_tanh", lambda x: activation.gelu(x, approximate="tanh"), normal((3, 4)), by_tanh, dtypes=ALL),
    Case("silu", activation.silu, normal((3, 4)), lambda x: x / (1 + np.exp(-x)), dtypes=ALL, complex=True),
    Case("softplus", activation.softplus, normal((3, 4)), lambda x: np.log(1 + np.exp(x)), dtypes=ALL),
    Case("softplus", lambda x: activation.softplus(x, beta=3, threshold=2), spread((3, 4)),
         lambda x: np.where(3 * x > 2, x, np.log(1 + np.exp(3 * x)) / 3), label="beta"),
    Case("logsigmoid", activation.logsigmoid, normal((3, 4)), lambda x: -np.log(1 + np.exp(-x)), dtypes=ALL),
    Case("dropout", dropped, normal((6, 5))),
    Case("dropout", lambda x: activation.dropout(x, 0.4, training=False), normal((3, 4)), lambda x: x.copy(), label="evaluation"),
]  # fmt: skip
