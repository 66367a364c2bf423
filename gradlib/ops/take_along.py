"""The closed pair behind everything that picks elements along one dimension (max, sort, cummax, ...): each is the other's transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import copying
from gradlib.backend.array import Namespace
from gradlib.backend.flat_index import along_grid, put_along_axis, take_along_axis
from gradlib.backend.scatter import scatter_add
from gradlib.core.op import op

__all__: list[str] = []


@op(
    "linear", also=("index",), method=False, complex="explicit",
    input=lambda g, index, dim, repeated, input_shape: put_along(g, index, dim, input_shape[dim] if input_shape else 1, repeated),
)  # fmt: skip
def take_along(xp: Namespace, input: Any, index: Any, dim: int, repeated: bool = False) -> Any:
    """The elements at ``index`` along ``dim``; index has the input's rank. ``repeated`` says that it may name an element twice."""
    if not input.ndim:
        return input
    alike = all(n == m or d == dim % input.ndim for d, (n, m) in enumerate(zip(input.shape, index.shape, strict=True)))
    return take_along_axis(xp, input, index, dim) if alike else xp.take_along_axis(input, index, axis=dim)


@op("linear", also=("index",), method=False, complex="explicit", input=lambda g, index, dim, repeated: take_along(g, index, dim, repeated))
def put_along(xp: Namespace, input: Any, index: Any, dim: int, size: int, repeated: bool = False) -> Any:
    """Zeros of ``size`` along ``dim`` with the input's elements at (where repeated: added at) ``index``: ``take_along``'s transpose."""
    if not input.ndim:
        return input
    dim = dim % input.ndim
    result = xp.zeros((*input.shape[:dim], size, *input.shape[dim + 1 :]), input.dtype)
    if repeated and xp is np:
        scatter_add(result, along_grid(input.shape, index, dim), input)
    elif repeated:
        grid = [xp.arange(n).reshape(-1, *[1] * (input.ndim - 1 - i)) for i, n in enumerate(input.shape)]
        grid[dim] = index
        scatter_add(result, tuple(grid), input)
    elif xp is np:
        put_along_axis(result, index, input, dim)
    elif not copying.put_along(result, index, input, dim):
        xp.put_along_axis(result, index, input, axis=dim)
    return result
