"""Writing along one dimension at places of their own for every element, replacing, adding or reducing what meets there."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array, namespace, on_device_of
from gradlib.backend.scatter import extreme_at as extreme_into, multiply_at as multiply_into
from gradlib.core.batched import Batched
from gradlib.core.modes import thread_state
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.arithmetic import div
from gradlib.ops.create import ones_like, zeros_like
from gradlib.ops.dims import wrap_dim
from gradlib.ops.elementwise import clone
from gradlib.ops.gather import along, put_shaped, values_for, writing
from gradlib.ops.index import index as pick, index_add_op, key_of, put_into, slice_op
from gradlib.ops.select import where
from gradlib.ops.shape import expand

__all__ = ["scatter", "scatter_add", "scatter_reduce"]


def _scattered(put: Any, name: str, input: Any, dim: int, index: Any, src: Any, accumulate: bool) -> Any:
    """The common part of scatter and scatter_add: write the part of src that index addresses along ``dim``."""
    places = along(name, input, wrap_dim(dim, input.ndim), index if index.ndim else index.reshape((1,)))
    src = values_for(name, src, input)
    return put_shaped(put, input, _cropped(name, src, index), places, accumulate)


def _cropped(name: str, src: Any, index: Any) -> Any:
    """The leading part of src of index's shape; a number as it is."""
    array, places = src._array if isinstance(src, Tensor) else src, index._array if isinstance(index, Tensor) else index
    if array.shape == places.shape or (is_array(src) and not src.ndim):
        return src
    if src.ndim != index.ndim and max(src.ndim, index.ndim) > 1:
        raise RuntimeError(f"{name}: index must have the same number of dimensions as src, got {list(index.shape)} and {list(src.shape)}")
    if src.shape == index.shape:
        return src
    if any(n > m for n, m in zip(index.shape, src.shape, strict=False)):
        raise RuntimeError(f"{name}: expected index {list(index.shape)} to be no larger than src {list(src.shape)}")
    return src if not src.ndim else slice_op(src, (*(slice(n) for n in index.shape), ...))


@writing
def scatter_add(put: Any, input: Any, dim: int, index: Any, src: Any) -> Any:
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
    return _scattered(put, "scatter_add", input, dim, index, src, True)


@writing
def scatter(put: Any, input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
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
    if reduce == "multiply":
        src = src if isinstance(src, Tensor) or is_array(src) else expand(values_for("scatter", src, input), index.shape)
        return scatter_reduce(clone(input) if put is put_into else input, dim, index, src, "prod")
    if reduce not in (None, "add"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    return _scattered(put, "scatter", input, dim, index, src, reduce == "add")


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
    if not input.ndim:
        row = scatter_reduce(input.reshape((1,)), dim, index.reshape((-1,)), src.reshape((-1,)), reduce, include_self=include_self)
        return row.reshape(())
    dim = wrap_dim(dim, input.ndim)
    places = along("scatter_reduce", input, dim, index)
    src = _cropped("scatter_reduce", values_for("scatter_reduce", src, input), index)
    src = src if src.ndim else src.reshape((1,))
    if reduce in ("sum", "mean"):
        total = scatter_add(input if include_self else scatter(input, dim, index, 0), dim, index, src)
        return total if reduce == "sum" else _mean(total, input, dim, index, include_self)
    neutral = input if include_self else scatter(input, dim, index, _neutral(reduce, input.dtype))
    if reduce == "prod":
        return multiply_at(neutral, src, places)
    return extreme_at(neutral, src, places, reduce == "amax")


def _mean(total: Any, input: Any, dim: int, index: Any, include_self: bool) -> Any:
    """The sums divided by how many elements met; integers round down."""
    places = raw(index)
    with on_device_of(places):
        ones = namespace(places).ones(places.shape, input.dtype)
        count = scatter_add((ones_like if include_self else zeros_like)(raw(input)), dim, index, ones)
        count = where(count == 0, 1, count)
    return div(total, count) if dtypes.is_differentiable(input.dtype) else div(total, count, rounding_mode="floor")


def _neutral(reduce: str, dtype: Any) -> Any:
    """The neutral element of a reduction."""
    if reduce == "prod":
        return 1
    if dtype.kind in "iub":
        limits = np.iinfo(dtype if dtype.kind != "b" else np.uint8)
        return int(limits.min if reduce == "amax" else limits.max)
    return float("-inf" if reduce == "amax" else "inf")


def _other_factors(g: Any, input: Any, src: Any, indices: Any) -> Any:
    """g times the product of what met each element of input in src: also where the element itself is zero."""
    factor = where(input == 0, ones_like(input), input)
    return g * multiply_at(factor, src, indices) / factor


def _among_factors(g: Any, input: Any, src: Any, out: Any, indices: Any) -> Any:
    """g times the product of all the others that met at the place of each element of src, zeros among them or not."""
    zero = src == 0
    zeros_met = pick(index_add_op(zeros_like(input), ones_like(src) * zero, indices), indices)
    alone = zero & (zeros_met == 1)
    if isinstance(src, Tensor):
        src = _once(src, zero & (zeros_met != 1))
    product = multiply_at(input, where(alone, ones_like(src), src), indices)
    others = pick(g * out, indices) / where(zero, ones_like(src), src)
    return where(alone, pick(g * product, indices), others)


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
    "other", sequence="indices", method=False,
    input=lambda g, input, src, indices: _other_factors(g, input, src, indices),
    src=lambda g, input, src, out, indices: _among_factors(g, input, src, out, indices),
)  # fmt: skip
def multiply_at(xp: Any, input: Any, src: Any, indices: Any) -> Any:
    """A copy of input to whose elements at ``indices`` those of src are multiplied, as often as they are named."""
    result = xp.array(input, copy=True)
    multiply_into(result, key_of(indices), src)
    return result


def _shares(g: Any, input: Any, src: Any, out: Any, indices: Any) -> tuple[Any, Any, Any]:
    """g divided by how many elements equal the result, and which of input and of src do."""
    mine, its = input == out, src == pick(out, indices)
    return g / index_add_op(ones_like(g) * mine, ones_like(src) * its, indices), mine, its


def _own_share(g: Any, input: Any, src: Any, out: Any, indices: Any) -> Any:
    share, mine, _ = _shares(g, input, src, out, indices)
    return where(mine, share, 0.0)


def _met_share(g: Any, input: Any, src: Any, out: Any, indices: Any) -> Any:
    share, _, its = _shares(g, input, src, out, indices)
    return where(its, pick(share, indices), 0.0)


@op(
    "other", sequence="indices", method=False, complex="none",
    input=lambda g, input, src, out, indices: _own_share(g, input, src, out, indices),
    src=lambda g, input, src, out, indices: _met_share(g, input, src, out, indices),
)  # fmt: skip
def extreme_at(xp: Any, input: Any, src: Any, indices: Any, largest: bool) -> Any:
    """A copy of input in which the elements at ``indices`` are the largest (smallest) of themselves and what src brings there."""
    result = xp.array(input, copy=True)
    extreme_into(result, key_of(indices), src, largest)
    return result
