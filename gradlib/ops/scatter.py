"""Writing along one dimension at places of their own for every element, replacing, adding or reducing what meets there."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array, namespace, on_device_of, row_major_copy
from gradlib.backend.copying import fill
from gradlib.backend.scatter import write_along
from gradlib.core.batched import Batched
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.arithmetic import div
from gradlib.ops.convert import to
from gradlib.ops.copies import clone
from gradlib.ops.create import ones_like, zeros_like
from gradlib.ops.dims import wrap_dim
from gradlib.ops.gather import along, values_for, without_dimensions, writing
from gradlib.ops.index import slice_op
from gradlib.ops.select import where
from gradlib.ops.take_along import scatter_add_op, scatter_op, take_along

__all__ = ["scatter", "scatter_add", "scatter_reduce"]


def _scattered(operation: Any, name: str, input: Any, dim: int, index: Any, src: Any, *more: Any) -> Any:
    """The common part: check the arguments, and write the part of src that index addresses along ``dim``."""
    ndim = input._array.ndim if type(input) is Tensor else input.ndim
    dim = wrap_dim(dim, ndim)
    index = along(name, input, dim, index)
    src = values_for(name, src, input)
    src = src if isinstance(src, (int, float, complex)) else _cropped(name, src, index)
    if ndim:
        return operation(input, src, index, dim, *more)
    return without_dimensions(operation(input.reshape((1,)), src, index, dim, *more))


def _cropped(name: str, src: Any, index: Any) -> Any:
    """The leading part of src of index's shape; what has no dimensions as it is."""
    given = src._array if type(src) is Tensor else raw(src)
    have, want = given.shape, index._array.shape if type(index) is Tensor else raw(index).shape
    if have == want or (not have and (given is src or len(want) < 2)):
        return src
    if len(have) != len(want):
        raise RuntimeError(f"{name}: index must have the same number of dimensions as src, got {list(want)} and {list(have)}")
    if any(map(operator.gt, want, have)):
        raise RuntimeError(f"{name}: expected index {list(want)} to be no larger than src {list(have)}")
    return slice_op(src, (*map(slice, want), ...))


@writing
def scatter_add(into: bool, input: Any, dim: int, index: Any, src: Any) -> Any:
    """``input[index[i, j], j] += src[i, j]`` for dim 0, and alike for others; repeats all count.

    Args:
        input: the tensor to add to.
        dim: the dimension along which index counts.
        index: integers from 0, of input's rank, in no other dimension larger than input, in none larger than src.
        src: what to add, of input's dtype.
    Raises: RuntimeError for shapes and dtypes that do not fit and, on the CPU, for places outside; TypeError for a src that is no Tensor.
    Source: torch.scatter_add.
    Example:
        >>> gradlib.scatter_add(gradlib.zeros(3), 0, gradlib.tensor([0, 0, 2]), gradlib.tensor([1.0, 2.0, 3.0]))
        tensor([3., 0., 3.])
    """
    if not isinstance(src, Tensor) and not is_array(src):
        raise TypeError(f"scatter_add: src must be a Tensor, got {type(src).__name__}")
    return _scattered(scatter_add_op, "scatter_add", input, dim, index, src, into)


@writing
def scatter(into: bool, input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """``input[index[i, j], j] = src[i, j]`` for dim 0, and alike for others.

    Where a place is named several times, which of its values stays is not defined.

    Args:
        input, dim, index: as for ``scatter_add``.
        src: a tensor of input's dtype; or (also as ``value``) a number.
        reduce: "add" or "multiply" instead of replacing; torch gives these no gradient, gradlib does.
    Raises: RuntimeError for shapes and dtypes that do not fit and, on the CPU, for places outside; TypeError for both src and value.
    Source: torch.scatter.
    Example:
        >>> gradlib.scatter(gradlib.zeros(3), 0, gradlib.tensor([0, 2]), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    if src is not None and value is not None:
        raise TypeError("scatter() takes src or value, got both")
    src = value if src is None else src
    if reduce == "multiply":  # which keeps its input: one that is not written afterwards
        return _scattered(multiply_at, "scatter", clone(input) if into or global_state.active else input, dim, index, src)
    if reduce not in (None, "add"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    return _scattered(scatter_op if reduce is None else scatter_add_op, "scatter", input, dim, index, src, into)


# ---- reductions -------------------------------------------------------------------------------------------------------------------


@composite(inplace=True)
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Reduce the elements of src that meet at one place of input (along ``dim``, as for ``scatter_add``), and input itself.

    Args:
        input, dim, index, src: as for ``scatter_add``.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether input's element takes part where src writes; elsewhere it stays in any case.
    Raises: RuntimeError for another reduction, for shapes and dtypes that do not fit and, on the CPU, for places outside; TypeError for a
        src that is no Tensor.
    Source: torch.scatter_reduce; the gradients of amax and amin are shared evenly among equals.
    Example:
        >>> gradlib.scatter_reduce(gradlib.ones(2), 0, gradlib.tensor([0, 0, 1]), gradlib.tensor([2.0, 3.0, 4.0]), "prod")
        tensor([6., 4.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not isinstance(src, Tensor) and not is_array(src):
        raise TypeError(f"scatter_reduce: src must be a Tensor, got {type(src).__name__}")
    return _scattered(_reduced, "scatter_reduce", input, dim, index, src, reduce, include_self)


def _reduced(input: Any, src: Any, index: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """``scatter_reduce`` of checked arguments."""
    start = input
    if not include_self:
        start = scatter_op(input, values_for("scatter_reduce", _neutral(reduce, input.dtype), input), index, dim)
    if reduce == "prod":
        return multiply_at(start, src, index, dim)
    if reduce in ("amax", "amin"):
        return extreme_at(start, src, index, dim, reduce == "amax")
    total = scatter_add_op(start, src, index, dim)
    return total if reduce == "sum" else _mean(total, raw(input), index, dim, include_self)


def _mean(total: Any, like: Any, index: Any, dim: int, include_self: bool) -> Any:
    """The sums divided by how many elements met; integers round down."""
    places: Any = index._array if type(index) is Tensor else index  # of raw arrays alone nothing is recorded
    with on_device_of(like):
        count: Any = namespace(like).zeros(like.shape, like.dtype)
        if include_self:
            fill(count, 1)
        count = scatter_add_op(count, values_for("scatter_reduce", 1, like), places, dim, not global_state.active)
        count = count if include_self else where(count == 0, 1, count)
    return div(total, count) if dtypes.is_differentiable(like.dtype) else div(total, count, rounding_mode="floor")


def _neutral(reduce: str, dtype: Any) -> Any:
    """The neutral element of a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if dtype.kind in "iub":
        limits = np.iinfo(dtype if dtype.kind != "b" else np.uint8)
        return int(limits.min if reduce == "amax" else limits.max)
    return float("-inf" if reduce == "amax" else "inf")


def _other_factors(g: Any, input: Any, src: Any, index: Any, dim: int) -> Any:
    """g times the product of what met each element of input in src: also where the element itself is zero."""
    factor = where(input == 0, ones_like(input), input)
    return g * multiply_at(factor, src, index, dim) / factor


def _among_factors(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    """g times the product of all the others that met at the place of each element of src, zeros among them or not."""
    zero = src == 0
    zeros_met = take_along(scatter_add_op(zeros_like(input), to(zero, dtype=src.dtype), index, dim), index, dim, True)
    alone = zero & (zeros_met == 1)
    if isinstance(src, Tensor):
        src = _once(src, zero & (zeros_met != 1))
    product = multiply_at(input, where(alone, ones_like(src), src), index, dim)
    others = take_along(g * out, index, dim, True) / where(zero, ones_like(src), src)
    return where(alone, take_along(g * product, index, dim, True), others)


def _once(src: Tensor, several: Any) -> Tensor:
    """The same, differentiated no further where several zeros met: the derivative is zero there, but not its own by another of them."""
    has_tangent = any(level.tangent(src) is not None for level in thread_state.interpreters)
    if not (src.requires_grad or has_tangent):
        return src
    while type(several) is Batched:
        several = several.value
    if not raw(several).any():
        return src
    if has_tangent:
        _refuse_slope(src)
    src = clone(src)
    if src.requires_grad:
        src.register_hook(_refuse_slope)
    return src


def _refuse_slope(g: Any) -> NoReturn:
    raise RuntimeError(
        "Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self. Multiply them with prod() "
        "along a dimension, whose derivatives exist."
    )


@op(
    "other", also=("index",), method=False,
    input=lambda g, input, src, index, dim: _other_factors(g, input, src, index, dim),
    src=lambda g, input, src, out, index, dim: _among_factors(g, input, src, out, index, dim),
)  # fmt: skip
def multiply_at(xp: Any, input: Any, src: Any, index: Any, dim: int) -> Any:
    """A copy of input to whose elements at ``index`` along ``dim`` those of src are multiplied, as often as they are named."""
    result = row_major_copy(input)
    write_along("prod", result, index, dim, src)
    return result


def _shares(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> tuple[Any, Any, Any]:
    """g divided by how many elements equal the result, and which of input and of src do."""
    mine, its = input == out, src == take_along(out, index, dim, True)
    return g / scatter_add_op(to(mine, dtype=g.dtype), to(its, dtype=g.dtype), index, dim), mine, its


def _own_share(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    share, mine, _ = _shares(g, input, src, out, index, dim)
    return where(mine, share, 0.0)


def _met_share(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    share, _, its = _shares(g, input, src, out, index, dim)
    return where(its, take_along(share, index, dim, True), 0.0)


@op(
    "other", also=("index",), method=False, complex="none",
    input=lambda g, input, src, out, index, dim: _own_share(g, input, src, out, index, dim),
    src=lambda g, input, src, out, index, dim: _met_share(g, input, src, out, index, dim),
)  # fmt: skip
def extreme_at(xp: Any, input: Any, src: Any, index: Any, dim: int, largest: bool) -> Any:
    """A copy of input; its elements at ``index`` along ``dim`` are the largest (smallest) of themselves and what src brings there."""
    result = row_major_copy(input)
    write_along("max" if largest else "min", result, index, dim, src)
    return result
