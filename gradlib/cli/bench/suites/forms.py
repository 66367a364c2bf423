"""The best form in NumPy, CuPy and SciPy of operations that these do not have by name: how fast an operation could be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradlib.backend.array import special


def _gelu(m: Any, x: Any) -> Any:
    return x * (special(x).erf(x * math.sqrt(0.5)) * 0.5 + 0.5)


def _below_largest(m: Any, x: Any) -> Any:
    return x - x.max(1, keepdims=True)


def _softmax(m: Any, x: Any) -> Any:
    made = m.exp(_below_largest(m, x))
    made /= made.sum(1, keepdims=True)
    return made


def _log_softmax(m: Any, x: Any) -> Any:
    made = _below_largest(m, x)
    made -= m.log(m.exp(made).sum(1, keepdims=True))
    return made


def _layer_norm(m: Any, x: Any) -> Any:
    away = x - x.mean(1, keepdims=True)
    away /= m.sqrt((away * away).mean(1, keepdims=True) + 1e-5)
    return away


def _likelihood(m: Any, x: Any, t: Any) -> Any:
    return -x[m.arange(len(t)), t].mean()


def _near_and_far(m: Any, a: Any, b: Any) -> Any:
    size = m.abs(a - b)
    near = m.minimum(size, 1)
    return ((size - near * 0.5) * near).mean()


def _answers(m: Any, x: Any, t: Any) -> Any:
    return (m.maximum(x, 0) - x * t + m.log1p(m.exp(-m.abs(x)))).mean()


def _kth(m: Any, x: Any, place: int) -> Any:
    index = m.argpartition(x, place, 1)[:, place]
    return x[m.arange(len(x)), index], index


def _topk(m: Any, x: Any) -> Any:
    index = m.argsort(-x, 1)[:, :2]
    return m.take_along_axis(x, index, 1), index


def _at(name: str) -> Callable[..., Any]:
    def write(m: Any, x: Any, i: Any, v: Any) -> Any:
        made = x.copy()
        getattr(m, name).at(made, (m.arange(len(x))[:, None], i), v)
        return made

    return write


def _rows_added(m: Any, x: Any, i: Any, v: Any) -> Any:
    made = x.copy()
    m.add.at(made, i, v)
    return made


def _rows_written(m: Any, x: Any, i: Any, v: Any) -> Any:
    made = x.copy()
    made[i] = v
    return made


def _scattered(m: Any, x: Any, i: Any, v: Any) -> Any:
    made = x.copy()
    m.put_along_axis(made, i, v, 1)
    return made


def _masked(m: Any, x: Any, c: Any, v: Any) -> Any:
    made = x.copy()
    m.place(made, c, v)
    return made


FORMS: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda m, x: 1 / (1 + m.exp(-x)),
    "silu": lambda m, x: x / (1 + m.exp(-x)),
    "erf": lambda m, x: special(x).erf(x),
    "gelu": _gelu,
    "relu": lambda m, x: m.maximum(x, 0),
    "elu": lambda m, x: m.where(x > 0, x, m.expm1(m.minimum(x, 0))),
    "leaky_relu": lambda m, x: m.maximum(x, x * 0.01),
    "softplus": lambda m, x: m.log1p(m.exp(x)),
    "logsigmoid": lambda m, x: m.minimum(x, 0) - m.log1p(m.exp(-m.abs(x))),
    "frac": lambda m, x: x - m.trunc(x),
    "rsqrt": lambda m, x: 1 / m.sqrt(x),
    "sgn": lambda m, x: m.sign(x),
    "clamp": lambda m, x: m.clip(x, -0.5, 0.5),
    "clamp_min": lambda m, x: m.maximum(x, 0.1),
    "clamp_max": lambda m, x: m.minimum(x, 0.1),
    "lerp": lambda m, a, b: a + (b - a) * 0.3,
    "addcmul": lambda m, a, b, c: a + b * c,
    "addcdiv": lambda m, a, b, c: a + b / c,
    "var": lambda m, x: m.var(x, ddof=1),
    "std": lambda m, x: m.std(x, ddof=1),
    "norm": lambda m, x: m.linalg.norm(x),
    "vector_norm": lambda m, x: m.linalg.norm(x, axis=1),
    "trapezoid": lambda m, x: (x[1:] + x[:-1]).sum() / 2,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "nll_loss": _likelihood,
    "cross_entropy": lambda m, x, t: _likelihood(m, _log_softmax(m, x), t),
    "mse_loss": lambda m, a, b: m.square(a - b).mean(),
    "smooth_l1_loss": _near_and_far,
    "huber_loss": _near_and_far,
    "binary_cross_entropy_with_logits": _answers,
    "topk": _topk,
    "kthvalue": lambda m, x: _kth(m, x, 1),
    "median(dim)": lambda m, x: _kth(m, x, (x.shape[1] - 1) // 2),
    "equal": lambda m, a, b: m.array_equal(a, b),
    "view": lambda m, x: x.reshape(-1),
    "flatten": lambda m, x: x.reshape(-1),
    "permute": lambda m, x: x.transpose(1, 0),
    "movedim": lambda m, x: x.transpose(1, 0),
    "diagonal": lambda m, x: x.diagonal(),
    "index_add": _rows_added,
    "index_copy": _rows_written,
    "scatter": _scattered,
    "scatter_add": _at("add"),
    "scatter_reduce": _at("maximum"),
    "masked_scatter": _masked,
}
"""From a namespace and the arguments to the result, by the name of the operation in `suites/ops.py`."""
