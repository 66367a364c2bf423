"""Floating-point operations of products and of the trajectory maps; a multiplication and an addition count as two."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import is_array
from gradlib.core.tensor import Tensor

# For each element of an output of the map (the formulas stand in kernels/*.cu): the chain adds one product; central differences combine
# at most five positions, five operations for each of p, v, a, j on average; cubic B-splines sum products over four control points.
_EACH_OUTPUT = {"trajectory_chain": 2.0, "trajectory_central": 5.0, "trajectory_bspline": 8.0}
_COST = 8  # for each element and term: the distance, its price and slope
_SMOOTHNESS = 30  # for each position: v, a, j take 6, their squares and sums 9, the gradient through them 15


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else ()


def forward_flops(name: str, args: tuple[Any, ...], made: Any) -> int:
    """The operations of one call; 0 for what is neither a product nor a trajectory map.

    Args:
        name: of the operation; args: its arguments; made: its result.
    """
    if name in ("matmul", "linear"):
        outputs = math.prod(shape_of(made))
        biased = len(args) > 2
        return outputs * (2 * shape_of(args[0])[-1] + biased)
    if name == "contract":
        return 2 * args[2].multiplications if args[2].sums else 0
    for prefix, each in _EACH_OUTPUT.items():
        if name.startswith(prefix):
            adjoint = "adjoint" in name
            large = [x for x in _arrays(args if adjoint else made) if len(shape_of(x)) == 3]
            return int(each * sum(math.prod(shape_of(x)) for x in large))
    if name == "smoothness_cost":
        return _SMOOTHNESS * max((math.prod(shape_of(x)) for x in _arrays(args)), default=0)
    if name == "motion_cost":
        return _COST * sum(math.prod(shape_of(x)) for x in _arrays(args) if len(shape_of(x)) == 3)
    return 0


def backward_flops(name: str, forward: int, wanted: int) -> int:
    """The operations of a node's run: a product costs one product of the same size for each gradient, a linear map its transpose once.

    Args:
        name: of the operation; forward: what its call took; wanted: how many of its inputs get a gradient.
    """
    return forward * wanted if name in ("matmul", "linear", "contract") else forward


def _arrays(values: Any) -> list[Any]:
    if isinstance(values, Tensor) or is_array(values):
        return [values]
    return [x for value in values for x in _arrays(value)] if isinstance(values, (list, tuple)) else []
