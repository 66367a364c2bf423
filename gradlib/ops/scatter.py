"""Writing along one dimension at places of their own for every element, replacing, adding or reducing what meets there."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NoReturn

import numpy as np

from gradlib.backend import dtype as dtypes, folding
from gradlib.backend.array import is_array, namespace, on_device_of
from gradlib.backend.copying import fill, row_major_copy
from gradlib.backend.scatter import write_along
from gradlib.core.batched import Batched
from gradlib.core.compile import named
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import op
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
    src = src if isinstance(src, (int, float, complex)) else _cropped(name, src, index, operation is reduced_at and not more[-1])
    if ndim:
        return operation(input, src, index, dim, *more)
    return without_dimensions(operation(input.reshape((1,)), src, index, dim, *more))


def _cropped(name: str, src: Any, index: Any, kept: bool) -> Any:
    """The leading part of src of index's shape; what has no dimensions as it is. ``kept``: for backward, where writes to it are noticed."""
    given = src._array if type(src) is Tensor else raw(src)
    have, want = given.shape, index._array.shape if type(index) is Tensor else raw(index).shape
    if have == want or (not have and (given is src or len(want) < 2)):
        return src
    if len(have) != len(want):
        raise RuntimeError(f"{name}: index must have the same number of dimensions as src, got {list(want)} and {list(have)}")
    if any(map(operator.gt, want, have)):
        raise RuntimeError(f"{name}: expected index {list(want)} to be no larger than src {list(have)}")
    if type(src) is Tensor and src._node is None and not kept and not global_state.active:
        return given[tuple(map(slice, want))]
    return slice_op(src, (*map(slice, want), ...))


@writing
def scatter_add(into: bool, input: Any, dim: int, index: Any, src: Any) -> Any:
    """``input[index[i, j], j] += src[i, j]`` for dim 0, and likewise for other dims; repeated indices all count.

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
    """``input[index[i, j], j] = src[i, j]`` for dim 0, and likewise for other dims.

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
        input, into = _kept(into, input, src)
        return _scattered(reduced_at, "scatter", input, dim, index, src, "prod", True, into)
    if reduce not in (None, "add"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    return _scattered(scatter_op if reduce is None else scatter_add_op, "scatter", input, dim, index, src, into)


# ---- reductions -------------------------------------------------------------------------------------------------------------------


def _kept(into: bool, input: Any, src: Any) -> tuple[Any, bool]:
    """The input of an operation that keeps it for backward, and whether that may write it: a copy where it is written afterwards."""
    if not into and not global_state.active:
        return input, False
    recording = thread_state.grad_enabled or not global_state.no_grad
    recorded = recording and (input._node is not None or getattr(src, "_node", None) is not None)
    return (clone(input), False) if global_state.active or recorded else (input, True)


@writing
def scatter_reduce(into: bool, input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Reduce the elements of src that meet at one place of input (along ``dim``, as for ``scatter_add``), and input itself.

    Args:
        input, dim, index, src: as for ``scatter_add``.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether input's element takes part where src writes; elsewhere it stays in any case.
    Raises: RuntimeError for another reduction, for shapes and dtypes that do not fit and, on the CPU, for places outside; TypeError for a
        src that is no Tensor; NotImplementedError for extremes of complex numbers and means of bools.
    Source: torch.scatter_reduce; the gradients of amax and amin are shared evenly among equals.
    Example:
        >>> gradlib.scatter_reduce(gradlib.ones(2), 0, gradlib.tensor([0, 0, 1]), gradlib.tensor([2.0, 3.0, 4.0]), "prod")
        tensor([6., 4.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not isinstance(src, Tensor) and not is_array(src):
        raise TypeError(f"scatter_reduce: src must be a Tensor, got {type(src).__name__}")
    if reduce == "sum" and include_self:
        return _scattered(_sum_with_input, "scatter_reduce", input, dim, index, src, into)
    if reduce not in ("sum", "mean"):
        input, into = _kept(into, input, src)
        return _scattered(reduced_at, "scatter_reduce", input, dim, index, src, reduce, include_self, into)
    return _scattered(_summed, "scatter_reduce", input, dim, index, src, reduce, include_self, into)


def _summed(input: Any, src: Any, index: Any, dim: int, reduce: str, include_self: bool, into: bool) -> Any:
    """The sums or means of checked arguments. How many elements means are of is counted once; on a device the kernels count."""
    if reduce == "mean" and input.dtype.kind == "b":
        raise NotImplementedError("scatter_reduce: bools have no mean; convert them first, for example with .float()")
    array = index._array if type(index) is Tensor else raw(index)
    count = _count(input, index, dim, include_self) if reduce == "mean" and isinstance(array, np.ndarray) else None
    return total_at(input, src, index, dim, reduce, include_self, count, into)


_sum_with_input = named(scatter_add_op, "scatter_reduce")
_WAYS = {"sum": "add", "mean": "add", "prod": "prod", "amax": "max", "amin": "min"}
"""By the name of a reduction, how `gradlib.backend.scatter` writes it."""


def _reduced(input: Any, src: Any, index: Any, dim: int, reduce: str, include_self: bool, into: bool) -> Any:
    """The arrays that ``scatter_reduce`` gives, but for the division of a mean."""
    result = input if into else row_major_copy(input)
    if not include_self:
        write_along("put", result, index, dim, _neutral(reduce, input.dtype))
    write_along(_WAYS[reduce], result, index, dim, src)
    return result


def _count(like: Any, index: Any, dim: int, include_self: bool) -> Any:
    """How many elements each mean is of, 1 where nothing is met, in the dtype of an array that is to be divided by them."""
    places: Any = index._array if type(index) is Tensor else index  # of raw arrays alone nothing is recorded
    array = raw(like)
    with on_device_of(array):
        count: Any = namespace(array).zeros(array.shape, dtypes.int64)
        if include_self:
            fill(count, 1)
        count = scatter_add_op(count, 1, places, dim, not global_state.active)
        return to(count if include_self else where(count == 0, 1, count), dtype=array.dtype)


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
    return g * reduced_at(factor, src, index, dim, "prod", True) / factor


def _among_factors(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    """g times the product of all the others that met at the place of each element of src, zeros among them or not."""
    zero = src == 0
    zeros_met = take_along(scatter_add_op(zeros_like(input), to(zero, dtype=src.dtype), index, dim), index, dim, True)
    alone = zero & (zeros_met == 1)
    if isinstance(src, Tensor):
        src = _once(src, zero & (zeros_met != 1))
    product = reduced_at(input, where(alone, ones_like(src), src), index, dim, "prod", True)
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


def _own_share(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    """g divided by how many elements equal the result, where that of input does; NaN where the result is NaN, which none equals."""
    mine, its = to(input == out, dtype=g.dtype), to(src == take_along(out, index, dim, True), dtype=g.dtype)
    return mine * (g / scatter_add_op(mine, its, index, dim))


def _met_share(g: Any, own: Any, src: Any, out: Any, index: Any, dim: int) -> Any:
    """The same where an element of src does. ``own``: 1 where that of input counts as one of them."""
    its = to(src == take_along(out, index, dim, True), dtype=g.dtype)
    return its * take_along(g / scatter_add_op(own, its, index, dim), index, dim, True)


def _element_rule(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int, reduce: str, include_self: bool) -> Any:
    if not include_self:
        return scatter_op(g, 0.0, index, dim)
    return _other_factors(g, input, src, index, dim) if reduce == "prod" else _own_share(g, input, src, out, index, dim)


def _value_rule(g: Any, input: Any, src: Any, out: Any, index: Any, dim: int, reduce: str, include_self: bool) -> Any:
    if reduce == "prod":
        start = input if include_self else scatter_op(input, values_for("scatter_reduce", 1, input), index, dim)
        return _among_factors(g, start, src, out, index, dim)
    own = to(input == out, dtype=g.dtype) if include_self else scatter_op(ones_like(g), 0.0, index, dim)
    return _met_share(g, own, src, out, index, dim)


def _shared(g: Any, index: Any, dim: int, reduce: str, include_self: bool, count: Any) -> Any:
    """The gradient of sums from that of means."""
    return g if reduce == "sum" else div(g, _count(g, index, dim, include_self) if count is None else count)


def _element_of_sum_rule(g: Any, index: Any, dim: int, reduce: str, include_self: bool, count: Any) -> Any:
    return _shared(g, index, dim, reduce, True, count) if include_self else scatter_op(g, 0.0, index, dim)


def _value_of_sum_rule(g: Any, index: Any, dim: int, reduce: str, include_self: bool, count: Any) -> Any:
    return take_along(_shared(g, index, dim, reduce, include_self, count), index, dim, True)


def _slope_of_mean(of: str, g: Any, index: Any, dim: int, reduce: str, include_self: bool, count: Any) -> Any:
    return folding.slope(of, g, None, None, None, index, dim, reduce, include_self)


@op(
    "linear", also=("index", "count"), overwrites="into", method=False, complex="explicit", node="scatter_reduce",
    input=_element_of_sum_rule, src=_value_of_sum_rule,
    kernels={
        "out": lambda input, src, index, dim, reduce, include_self, count=None, into=False: folding.folded(
            input, src, index, dim, reduce, include_self, into
        ),
        "input": partial(_slope_of_mean, "input"), "src": partial(_slope_of_mean, "src"),
    },
)  # fmt: skip
def total_at(
    xp: Any, input: Any, src: Any, index: Any, dim: int, reduce: str, include_self: bool, count: Any = None, into: bool = False
) -> Any:
    """A copy of input whose elements at ``index`` along ``dim`` are the "sum" or "mean" of what src brings there, and of themselves where
    ``include_self``; ``into`` writes input itself. ``count``: how many elements means are of, if that is known. Means of integers are
    rounded down.
    """
    result = _reduced(input, src, index, dim, reduce, include_self, into)
    if reduce == "mean":
        count = _count(result, index, dim, include_self) if count is None else count
        if dtypes.is_differentiable(result.dtype):
            result /= count
        else:
            result //= count
    return result


@op(
    "other",
    also=("index",),
    overwrites="into",
    method=False,
    node="scatter_reduce",
    input=_element_rule,
    src=_value_rule,
    kernels={"out": folding.folded, "input": partial(folding.slope, "input"), "src": partial(folding.slope, "src")},
)
def reduced_at(xp: Any, input: Any, src: Any, index: Any, dim: int, reduce: str, include_self: bool, into: bool = False) -> Any:
    """The same for "prod", "amax" and "amin"."""
    if input.dtype.kind == "c" and reduce != "prod":
        raise NotImplementedError(f"complex numbers have no order, hence no {reduce} (got {input.dtype}); take .abs() first")
    return _reduced(input, src, index, dim, reduce, include_self, into)
