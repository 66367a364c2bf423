"""Reductions that choose: the largest and smallest elements, their places, and the median."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from gradlib.backend.array import is_array
from gradlib.core.op import REGISTRY, op, publish
from gradlib.core.tensor import Tensor
from gradlib.ops.along import put_along
from gradlib.ops.dims import wrap_dim
from gradlib.ops.reduce import axes, kept, spread, sum

__all__ = ["amax", "amin", "max", "min"]


def _refuse(name: str, input: Any, dim: Any, complex_too: bool = True) -> None:
    """Raise what torch raises for an input with nothing to choose from, or without an order."""
    if input.dtype.kind == "c" and complex_too:
        raise RuntimeError(f"{name}(): does not support complex input, which has no order; take .abs() or .real first (got {input.dtype})")
    if input.size:
        return
    if dim is None or dim in ((), []):
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0 (shape {list(input.shape)}). "
            "Specify the reduction dim with the 'dim' argument."
        )
    chosen = axes(input.ndim, dim)
    for each in chosen if isinstance(chosen, tuple) else (chosen,):
        if input.shape[each] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {each} to have non-zero size, got shape {list(input.shape)}.")


# ---- over any dimensions: ties share the gradient -----------------------------------------------------------------------------


def _shared(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient goes in equal parts to all elements that attain the extreme."""
    mask = input == spread(out, input.shape, dim, keepdim)
    return spread(g / sum(mask, dim, keepdim), input.shape, dim, keepdim) * mask


@op("other", input=_shared)
def amax(xp: Any, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Largest element over ``dim`` (a number, several, or all); its gradient is shared equally among ties.

    Args:
        input: any shape, real dtype.
        dim, keepdim: as in ``sum``.
    Raises: RuntimeError when there is nothing to choose from.
    Source: torch.amax.
    """
    if not input.size or input.dtype.kind == "c":
        _refuse("amax", input, dim)
    return input.max(axis=axes(input.ndim, dim), keepdims=keepdim)


@op("other", input=_shared)
def amin(xp: Any, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Smallest element over ``dim`` (a number, several, or all); its gradient is shared equally among ties.

    Args:
        input: any shape, real dtype.
        dim, keepdim: as in ``sum``.
    Raises: RuntimeError when there is nothing to choose from.
    Source: torch.amin.
    """
    if not input.size or input.dtype.kind == "c":
        _refuse("amin", input, dim)
    return input.min(axis=axes(input.ndim, dim), keepdims=keepdim)


# ---- over one dimension: the chosen element gets the gradient ------------------------------------------------------------------


def _picked(g: Any, indices: Any, dim: int, keepdim: bool, input_shape: tuple[int, ...]) -> Any:
    """The gradient goes to the element that was chosen."""
    if not input_shape:
        return g[0]
    shape = kept(input_shape, dim)
    return put_along(g[0].reshape(shape), indices.reshape(shape), wrap_dim(dim, len(input_shape)), input_shape[dim])


def _choose(find: str) -> Callable[..., Any]:
    def value(xp: Any, input: Any, dim: int, keepdim: bool = False) -> Any:
        name = find[3:]
        if not input.size or input.dtype.kind == "c":
            _refuse(name, input, dim)
        dim = wrap_dim(dim, input.ndim)
        if not input.ndim:
            return input.copy(), xp.zeros((), "int64")
        indices = xp.expand_dims(getattr(input, find)(axis=dim), dim)
        values = xp.take_along_axis(input, indices, axis=dim)
        return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))

    return value


def _share_of_all(g: Any, input: Any, out: Any) -> Any:
    """In equal parts to all elements that attain the extreme, or are NaN when it is."""
    mask = (input == out) | (input != input)
    return g / sum(mask) * mask


max_dim = op("other", name="max", outputs=("values", "indices"), differentiable=(0,), method=False, input=_picked)(_choose("argmax"))
min_dim = op("other", name="min", outputs=("values", "indices"), differentiable=(0,), method=False, input=_picked)(_choose("argmin"))


@op("other", method=False, input=_share_of_all)
def max_all(xp: Any, input: Any) -> Any:
    """Largest element of all, as ``max(input)`` gives it."""
    if not input.size or input.dtype.kind == "c":
        _refuse("max", input, None)
    return input.max()


@op("other", method=False, input=_share_of_all)
def min_all(xp: Any, input: Any) -> Any:
    """Smallest element of all, as ``min(input)`` gives it."""
    if not input.size or input.dtype.kind == "c":
        _refuse("min", input, None)
    return input.min()


Max = namedtuple("Max", ["values", "indices"])
Min = namedtuple("Min", ["values", "indices"])


def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None, **aliases: Any) -> Any:
    """Largest element: of all, along one dimension, or of each pair.

    ``max(x)`` is a 0-d tensor; ``max(x, dim)`` the pair (values, indices) along dim, where the gradient goes to the chosen element;
    ``max(x, y)`` is ``maximum(x, y)``.

    Args:
        input: any shape, real dtype.
        dim: the dimension to reduce, or the other tensor.
        keepdim: leave the reduced dimension with size 1.
    Returns: a tensor, or the named tuple (values, indices), indices of dtype int64.
    Raises: RuntimeError or IndexError when there is nothing to choose from.
    Source: torch.max.
    """
    return _overloads(max_dim, max_all, "maximum", Max, input, dim, keepdim, other, out, aliases)


def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None, **aliases: Any) -> Any:
    """Smallest element: of all, along one dimension, or of each pair. Arguments and results as in ``max``. Source: torch.min."""
    return _overloads(min_dim, min_all, "minimum", Min, input, dim, keepdim, other, out, aliases)


def _overloads(
    along: Any, over_all: Any, pairwise: str, named: Any, input: Any, dim: Any, keepdim: bool, other: Any, out: Any, aliases: dict[str, Any]
) -> Any:
    dim, keepdim = aliases.pop("axis", dim), aliases.pop("keepdims", keepdim)
    if aliases:
        raise TypeError(f"{named.__name__.lower()}() got an unexpected keyword argument {next(iter(aliases))!r}")
    if other is None and (isinstance(dim, Tensor) or is_array(dim)):
        other = dim
    if other is not None:
        return REGISTRY[pairwise].call(input, other, out=out)
    if dim is None:
        return over_all(input, out=out)
    return named(*along(input, dim, keepdim, out=out))


publish(max, "max")
publish(min, "min")
