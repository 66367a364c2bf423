"""Distances: between two tensors, and between all pairs of two sets of points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, formulas, pairs
from gradlib.backend.sums import SHORT, row_sums
from gradlib.core.compile import named
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
from gradlib.ops.elementwise import abs, sgn
from gradlib.ops.linalg.norms import norm_slope, vector_norm
from gradlib.ops.product import matmul, one_dtype, product
from gradlib.ops.reduce import sum as total
from gradlib.ops.select import where_op

__all__ = ["cdist", "dist"]

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _pulled(g: Any, points: Any, others: Any, out: Any) -> Any:
    """The gradient of distances by the points: g times the unit vector from the other point, zero where the two coincide."""
    weight = where_op(out == 0, 0.0, g / where_op(out == 0, 1.0, out))
    return points * total(weight, -1, True) - matmul(weight, others)


@op(
    "other", method=False, complex="none",
    x1=lambda g, x1, x2, out: _pulled(g, x1, x2, out),
    x2=lambda g, x1, x2, out: _pulled(g.swapaxes(-1, -2), x2, x1, out.swapaxes(-1, -2)),
)  # fmt: skip
def euclidean_distance(xp: Any, x1: Any, x2: Any) -> Any:
    """Distances from |x|² + |y|² - 2 x·y: one matrix product instead of all differences, at the cost of digits where points are close."""
    squares, own, others = product(xp, x1, x2.swapaxes(-1, -2)), _own_products(xp, x1)[..., :, None], _own_products(xp, x2)[..., None, :]
    if xp is not np and (made := formulas.formula("distance_of_products")(squares, own, others)) is not None:
        return made
    squares *= -2
    squares += own
    squares += others
    return xp.sqrt(xp.maximum(squares, 0, out=squares), out=squares)


def _own_products(xp: Any, x: Any) -> Any:
    """The square of each point's length."""
    return row_sums(x * x) if xp is np and x.shape[-1] <= SHORT and x.dtype.char in "fd" else (x * x).sum(-1)


@op(
    "other", method=False, complex="none",
    input=lambda g, input, out: g[..., None] * sgn(input) * (abs(input) == out[..., None]),
)  # fmt: skip
def farthest(xp: Any, input: Any) -> Any:
    """The largest absolute value along the last dimension; each of several equal ones gets the whole gradient, as in torch.cdist."""
    return xp.abs(input).max(-1) if input.shape[-1] else xp.zeros(input.shape[:-1], input.dtype)


def _pair_slope(g: Any, x1: Any, x2: Any, out: Any, p: float) -> Any:
    """The gradient of the distance of each pair of points by the difference of the two."""
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    if p == math.inf:
        return g[..., None] * sgn(difference) * (abs(difference) == out[..., None])
    return norm_slope(g, difference, out, p, -1, False)


@op(
    "other", method=False, complex="none",
    x1=lambda g, x1, x2, out, p: total(_pair_slope(g, x1, x2, out, p), -2),
    x2=lambda g, x1, x2, out, p: -total(_pair_slope(g, x1, x2, out, p), -3),
    kernels={
        "out": pairs.distances,
        "x1": lambda g, x1, x2, out, p: pairs.slope(g, x1, x2, out, p, False),
        "x2": lambda g, x1, x2, out, p: pairs.slope(g, x2, x1, out, p, True),
    },
)  # fmt: skip
def pair_distance(xp: Any, x1: Any, x2: Any, p: float) -> Any:
    """``cdist`` of arrays on a device, by their differences."""
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    made = farthest(difference) if p == math.inf else vector_norm(difference, p, -1)
    return made.astype(x1.dtype, copy=False)


_on_device = named(pair_distance, "cdist")
_FEW = 1 << 20  # differences of coordinates


@composite(method=False)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = _MODES[0]) -> Any:
    """The p-norm distance of each point of one set from each of another; where two coincide its gradient is zero.

    Args:
        x1: (..., n, d) float.
        x2: (..., m, d) of the same dtype; the other dimensions broadcast.
        p: 0 (how many coordinates differ), any positive number or inf.
        compute_mode: for p = 2, whether to compute with a matrix product, which needs no (..., n, m, d) array of differences but loses
            digits where points are close: "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist" or, for more than 25 points,
            "use_mm_for_euclid_dist_if_necessary".
    Returns: (..., n, m).
    Raises: RuntimeError for another p, for shapes and dtypes that do not fit; ValueError for another compute_mode.
    Source: torch.cdist.
    Example:
        >>> gradlib.cdist(gradlib.tensor([[0.0, 0.0]]), gradlib.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} has shape {list(x.shape)}")
        if not dtypes.is_floating_point(x.dtype):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} has {x.dtype}")
    one_dtype("cdist", [x1, x2])
    a, b = (x1._array.shape, x2._array.shape) if type(x1) is type(x2) is Tensor else (x1.shape, x2.shape)
    if a[-1] != b[-1]:
        raise RuntimeError(f"cdist: x1 and x2 must have the same number of columns, got {list(a)} and {list(b)}")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode; there are {', '.join(_MODES)}")
    on_device = type(x1) is type(x2) is Tensor and type(x1._array) is not np.ndarray
    if on_device and a[-1] and x1._array.size * b[-2] <= _FEW:
        return _on_device(x1, x2, float(p))  # also with a product of matrices allowed, which only saves memory there
    many = max(a[-2], b[-2]) > 25
    if p == 2 and a[-1] and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and many)):
        return euclidean_distance(x1, x2)
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    return farthest(difference) if p == math.inf else vector_norm(difference, p, -1)


@composite
def dist(input: Any, other: Any, p: float = 2.0) -> Any:
    """The p-norm of the difference of two tensors; zero gradient where they are equal.

    Args:
        input, other: shapes that broadcast, float or complex dtype (the result is real).
        p: any real number or ±inf.
    Raises: RuntimeError for integers.
    Source: torch.dist.
    Example:
        >>> gradlib.dist(gradlib.tensor([3.0, 4.0]), gradlib.tensor([0.0, 0.0]))
        tensor(5.)
    """
    return vector_norm(input - other, p)
