"""The closed pair behind everything that picks elements along one dimension (max, sort, cummax, ...): each is the other's transpose."""

from __future__ import annotations

from typing import Any

from gradlib.core.op import op

__all__: list[str] = []


@op(
    "linear",
    complex="explicit",
    also=("index",),
    method=False,
    input=lambda g, index, dim, input_shape: put_along(g, index, dim, input_shape[dim] if input_shape else 1),
)
def take_along(xp: Any, input: Any, index: Any, dim: int) -> Any:
    """The elements at ``index`` along ``dim``; index names each element of the input at most once and has its rank."""
    return xp.take_along_axis(input, index, axis=dim) if input.ndim else input


@op("linear", complex="explicit", also=("index",), method=False, input=lambda g, index, dim: take_along(g, index, dim))
def put_along(xp: Any, input: Any, index: Any, dim: int, size: int) -> Any:
    """Zeros of ``size`` along ``dim`` with the input's elements at ``index``: the transpose of ``take_along``."""
    if not input.ndim:
        return input
    dim = dim % input.ndim
    result = xp.zeros((*input.shape[:dim], size, *input.shape[dim + 1 :]), input.dtype)
    xp.put_along_axis(result, index, input, axis=dim)
    return result
