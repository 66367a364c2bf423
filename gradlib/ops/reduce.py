"""Sums, means, products, ``all`` and ``any`` over dimensions; and ``spread``, which repeats a reduced gradient over them.

Sums of half-precision numbers run in float32 and of integers in int64, as torch's do.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import SMALL, Namespace, broadcast_to, has_nan
from gradlib.backend.copying import row_major
from gradlib.backend.kernel_text import CTYPES, WHOLE
from gradlib.backend.line_slopes import slope
from gradlib.backend.lines import MANY, counted, reduced
from gradlib.backend.mask import masked
from gradlib.backend.reducing import extreme, folded, nonzero
from gradlib.backend.rows import by_rows
from gradlib.backend.sums import LEAST, LEAST_ALONE, kept_ones, line_products, square_sum, sums
from gradlib.core.op import composite, op
from gradlib.ops.create import ones_like
from gradlib.ops.dims import wrap_dim, wrap_dims
from gradlib.ops.join import cat
from gradlib.ops.select import where_op
from gradlib.ops.shape import movedim
from gradlib.ops.slices import diagonal_backward

__all__ = ["all", "any", "count_nonzero", "mean", "nanmean", "nansum", "prod", "sum", "trace"]


# ---- what reductions share ----------------------------------------------------------------------------------------------------


def axes(ndim: int, dim: Any) -> Any:
    """NumPy's axis for torch's dim: None, () and [] mean all of them; a 0-d array has a dimension 0 (and -1) to reduce.

    Returns: None, an int, or a tuple of at least one int, each from 0 to ndim - 1.
    Raises: IndexError for a dimension that is not there, RuntimeError for one named twice.
    """
    if dim is None or (type(dim) is int and 0 <= dim < ndim):  # the common cases
        return dim
    if isinstance(dim, (tuple, list)):
        found = (_wrapped if {*map(type, dim)} == _INTEGERS else wrap_dims)(tuple(dim), ndim)
        return found if found and ndim else None
    return wrap_dim(dim, ndim) if ndim else wrap_dim(dim, ndim) or None


_wrapped = functools.lru_cache(1024)(wrap_dims)
_INTEGERS = {int}  # of the types of dimensions: True is equal to 1, and refused


def tangent(t: Any, slope: Any, dim: Any, keepdim: bool = False) -> Any:
    """The tangent of a reduction to real numbers: the sum of its products with ``slope``, the gradient of the input for one of ones."""
    made = t * (slope.conj() if slope.dtype.kind == "c" else slope)
    return sum(made.real if made.dtype.kind == "c" else made, dim, keepdim)


def count(shape: tuple[int, ...], dim: Any) -> int:
    """The number of elements of an array of this shape that are reduced to one."""
    chosen = None if dim is None else axes(len(shape), dim)
    if chosen is None:
        return math.prod(shape)
    number = 1
    for i in chosen if isinstance(chosen, tuple) else (chosen,):
        number *= shape[i]
    return number


def kept(shape: tuple[int, ...], dim: Any) -> tuple[int, ...]:
    """The shape of a reduction that keeps its dimensions."""
    chosen = axes(len(shape), dim)
    if chosen is None:
        return (1,) * len(shape)
    if type(chosen) is int:
        return (*shape[:chosen], 1, *shape[chosen + 1 :])
    return tuple([1 if i in chosen else size for i, size in enumerate(shape)])


@functools.cache
def wide(dtype: Any) -> Any:
    """The dtype in which numbers of this dtype are added or multiplied up: float32 for half types, int64 for integers, else None."""
    if dtype.itemsize >= 4 and dtype.kind in "fc":
        return None
    return dtypes.int64 if dtype.kind in "biu" else dtypes.float32


def total(xp: Namespace, input: Any, dim: Any, keepdim: bool) -> Any:
    """The sum in that dtype; in float64 for long sums over leading dimensions, which NumPy adds one by one and would lose digits."""
    axis, dtype = dim if dim is None or (type(dim) is int and 0 <= dim < input.ndim) else axes(input.ndim, dim), input.dtype
    if xp is not np and dtype.char in WHOLE and (made := folded("sum", input, axis, keepdim)) is not None:
        return made
    least = LEAST_ALONE if axis is None else LEAST
    if input.size >= least and dtype.char in "fd" and type(input) is np.ndarray and input.flags.c_contiguous:
        made = sums(input, axis)
        if made is not None:
            return made.reshape(kept(input.shape, dim)) if keepdim else made
    if axis is not None and input.size >= _MANY and dtype in _WIDER and axis != input.ndim - 1 and count(input.shape, dim) >= _MANY:
        return row_major(xp.add.reduce(input, axis=axis, dtype=_WIDER[dtype], keepdims=keepdim).astype(dtype))
    if type(axis) is int and input.size >= MANY and type(input) is np.ndarray and dtype.char in "fd" and not input.flags.c_contiguous:
        if input.ndim == 2 and input.flags.f_contiguous:
            made = total(xp, input.T, 1 - axis, False)
            return np.expand_dims(made, axis) if keepdim else made
        if axis == input.ndim - 1:
            return row_major(reduced(np.add, input, axis, keepdim))
    made = xp.add.reduce(input, axis=axis, dtype=wide(dtype), keepdims=keepdim)
    return made if axis is None or made.ndim < 2 else row_major(made)


def total_of_squares(xp: Namespace, input: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of the squares of real numbers; over all or the last dimension as products of lines with themselves."""
    made = None
    if input.dtype.char in "fd" and type(input) is np.ndarray and input.flags.c_contiguous:
        axis = None if dim is None else axes(input.ndim, dim)
        if axis is None:
            made = square_sum(input.reshape(-1))
        elif axis == input.ndim - 1:
            made = line_products(input, input)
    if made is None:
        return total(xp, input * input, dim, keepdim)
    return made.reshape(kept(input.shape, dim)) if keepdim else made


def sum_of_products(a: Any, b: Any, dim: int) -> Any:
    """``sum(a * b, dim, True)``; of raw arrays along the last dimension as products of lines."""
    alike = type(a) is type(b) is np.ndarray and a.dtype.char in "fd" and a.dtype is b.dtype and a.shape == b.shape and a.ndim > 0
    if alike and dim in (-1, a.ndim - 1):
        made = line_products(a, b)
        if made is not None:
            return made[..., None]
    return sum(a * b, dim, True)


_MANY = 1024  # numbers, of which NumPy adds those of other dimensions than the last one by one
_WIDER = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}


def back(result: Any, dtype: Any, asked: Any = None) -> Any:
    """The result in the requested dtype; without one, a float32 result of half-precision input goes back to the input's dtype."""
    if asked is not None:
        return result.astype(dtypes.as_dtype(asked), copy=False)
    return result.astype(dtype) if dtype.itemsize == 2 and dtype.kind not in "iu" else result


# ---- sums ---------------------------------------------------------------------------------------------------------------------


def _on_device(mean: bool) -> Any:
    """The kernel of ``sum`` or ``mean``."""

    def run(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        if dtype is not None or input.dtype.char not in CTYPES:
            return None
        made = folded("sum", input, dim if dim is None or type(dim) is int else axes(input.ndim, dim), keepdim, mean)
        if made is None and dim is None and not mean and input.dtype.char in WHOLE:
            return input.sum(keepdims=keepdim)  # `total` without its questions, which are all about NumPy's
        return made

    return run


@op(
    "linear", keyword_only=("dtype",), complex="explicit", kernels={"out": _on_device(mean=False)},
    input=lambda g, input_shape, dim, keepdim: spread(g, input_shape, dim, keepdim),
)  # fmt: skip
def sum(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum over ``dim`` (a number, several, or all).

    Args:
        input: any shape and dtype.
        dim: the dimensions to add up; None for all.
        keepdim: leave them in place with size 1.
        dtype: convert the input to this dtype first; integers and bools give int64 without it.
    Source: torch.sum.
    Example:
        >>> gradlib.sum(gradlib.tensor([[1, 2], [3, 4]]), dim=0)
        tensor([4, 6])
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    return back(total(xp, input, dim, keepdim), input.dtype, dtype)


@op("linear", method=False, complex="explicit", input=lambda g, dim, keepdim: sum(g, dim, keepdim))
def spread(xp: Namespace, input: Any, shape: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Repeat a reduction's result over the dimensions it reduced: the transpose of ``sum``, as a read-only view.

    Args:
        input: of the shape that reducing ``shape`` over dim gives.
        shape: what was reduced; dim, keepdim: how.
    """
    if not (keepdim or (dim is None and not input.ndim)):
        input = input.reshape(kept(shape, dim))
    return broadcast_to(input, shape)


def _indivisible(name: str, dtype: Any) -> RuntimeError:
    """The error for the dtypes in which there is no mean."""
    return RuntimeError(
        f"{name}(): could not infer output dtype. It must be a floating point or complex dtype, got {dtype}; give one with dtype="
    )


@op(
    "linear", keyword_only=("dtype",), complex="explicit", kernels={"out": _on_device(mean=True)},
    input=lambda g, input_shape, dim, keepdim: spread(g / count(input_shape, dim), input_shape, dim, keepdim),
)  # fmt: skip
def mean(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Arithmetic mean over ``dim`` (a number, several, or all); NaN of nothing.

    Args:
        input: any shape, float or complex dtype.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers and bools without ``dtype``.
    Source: torch.mean.
    Example:
        >>> gradlib.mean(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([2., 3.])
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    if input.dtype.kind in "biu":
        raise _indivisible("mean", input.dtype)
    return back(total(xp, input, dim, keepdim) / count(input.shape, dim), input.dtype)


def _folded_on_device(name: str) -> Any:
    """A reduction of CuPy arrays in their own dtype."""

    def run(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        if dtype is not None and dtypes.as_dtype(dtype) is not input.dtype:
            return None
        if dim is not None and type(dim) is not int:
            dim = wrap_dim(dim, input.ndim) if name == "prod" else axes(input.ndim, dim)  # which has no product over several
        return folded(name, input, dim, keepdim)

    return run


@op(
    "other", keyword_only=("dtype",), complex="explicit", kernels={"out": _folded_on_device("nansum")},
    input=lambda g, input, dim, keepdim: spread(g, input.shape, dim, keepdim) * (input == input),
    jvp=lambda t_input, input, dim, keepdim, dtype: sum(where_op(input == input, t_input, 0), dim, keepdim, dtype=dtype),
)  # fmt: skip
def nansum(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum over ``dim`` that leaves out NaN, as ``sum`` otherwise.

    Args:
        input: any shape; float (nansum: integers too).
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for complex dtypes.
    Source: torch.nansum.
    Example:
        >>> gradlib.nansum(gradlib.tensor([1.0, gradlib.nan, 3.0]))
        tensor(4.)
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    if input.dtype.kind == "c":
        raise RuntimeError(f"nansum does not support complex inputs, got {input.dtype}")
    if xp is np and input.dtype.kind == "f":
        whole = total(xp, input, dim, keepdim)
        if not has_nan(whole):  # then nothing was NaN, which is the common case and takes no pass to find out
            return back(whole, input.dtype, dtype)
    return back(total(xp, masked(xp, input == input, input), dim, keepdim), input.dtype, dtype)


def _numbers(input: Any, like: Any, dim: Any, keepdim: bool) -> Any:
    """How many elements are not NaN, to divide something by."""
    return sum(input == input, dim, keepdim, dtype=like.dtype if like.dtype.itemsize > 2 else dtypes.float32)


@op(
    "other", complex="explicit", kernels={"out": _folded_on_device("nanmean")}, node="div",
    input=lambda g, input, dim, keepdim: spread(g / _numbers(input, g, dim, keepdim), input.shape, dim, keepdim) * (input == input),
    jvp=lambda t_input, input, out, dim, keepdim: (
        sum(where_op(input == input, t_input, 0), dim, keepdim, dtype=out.dtype) / _numbers(input, out, dim, keepdim)
    ),
)  # fmt: skip
def nanmean_op(xp: Namespace, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """``nanmean`` with all its arguments in place."""
    summed = nansum.op.value(xp, input, dim, keepdim, dtype)  # type: ignore[attr-defined]
    return (summed / _numbers(input, summed, dim, keepdim)).astype(summed.dtype, copy=False)


@composite
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean over ``dim`` of the elements that are not NaN; NaN where there are none.

    Args:
        input: any shape; float (nansum: integers too).
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers and bools.
    Source: torch.nanmean.
    Example:
        >>> gradlib.nanmean(gradlib.tensor([1.0, gradlib.nan, 3.0]))
        tensor(2.)
    """
    given, wanted = input.dtype, dtypes.as_dtype(dtype)
    for each in (given, wanted):
        if each is not None and each.kind in "biu":
            raise _indivisible("nanmean", each)
    return nanmean_op(input, dim, keepdim, dtype)


# ---- products -----------------------------------------------------------------------------------------------------------------


def others(input: Any) -> Any:
    """The product of the other elements along the last dimension (two or more), for each element: no division, so zeros do no harm.

    Pairs are multiplied, the question is answered for the products, and each answer is multiplied by the element's partner.
    """
    size = input.shape[-1]
    half = size // 2
    left, right, rest = input[..., :half], input[..., half : 2 * half], input[..., 2 * half :]
    if size <= 2:
        return cat((right, left), -1)
    outside = others(cat((left * right, rest), -1))
    pairs = outside[..., :half]
    return cat((pairs * right, pairs * left, outside[..., half:]), -1)


def may_divide(input: Any, out: Any) -> bool:
    """Whether these are raw arrays of factors and products of which none is 0 or has left the range of normal numbers."""
    if type(input) is not np.ndarray or out.dtype.char not in "fd" or input.dtype is not out.dtype or not out.size:
        return False
    size, limits = np.absolute(out), np.finfo(out.dtype)
    return bool(np.minimum.reduce(size, axis=None) > limits.tiny and np.maximum.reduce(size, axis=None) < limits.max)


def _product_rule(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """The product of the other elements, from which all higher derivatives follow, also at zeros.

    Where there are none, and nothing is recorded, the product of all is divided by each, as in torch.
    """
    if may_divide(input, out):
        return spread(g * out, input.shape, dim, keepdim) / input
    if input.dtype.kind == "c" and g.dtype.kind != "c":  # a real dtype was asked for: what was multiplied are the real parts
        input = input.real
    g = spread(g, input.shape, dim, keepdim)
    if dim is None or not input.ndim:
        return g * others(input.reshape(-1)).reshape(input.shape) if count(input.shape, None) > 1 else g
    return g * movedim(others(movedim(input, dim, -1)), -1, dim) if input.shape[dim] > 1 else g


def _product_tangent(t_input: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    if out.dtype.kind != "c" and t_input.dtype.kind == "c":
        t_input = t_input.real
    return sum(t_input * _product_rule(ones_like(out), input, out, dim, keepdim), dim, keepdim)


def _side_by_side(input: Any) -> Any:
    """Numbers of the same product, but for rounding, in one row: NumPy multiplies rows by each other several elements at once."""
    line = input.reshape(-1)
    row = _ROW if line.size < _LARGE else _LONG_ROW
    whole = line.size - line.size % row
    made = np.multiply.reduce(line[:whole].reshape(-1, row), axis=0)
    return np.concatenate((made, line[whole:])) if whole < line.size else made


def _product_of_rows(rows: Any) -> Any:
    """The product of each row, but for rounding: as long as rows are long, their halves are multiplied by each other."""
    made = np.empty(len(rows), rows.dtype)
    count = max(1, _AT_ONCE // rows.shape[1])
    for begin in range(0, len(rows), count):
        part = rows[begin : begin + count]
        while part.shape[1] > _NARROW:
            half, odd = divmod(part.shape[1], 2)
            product = part[:, :half] * part[:, half : 2 * half]
            if odd:
                product[:, 0] *= part[:, -1]
            part = product
        np.multiply.reduce(part.T.copy(), axis=0, out=made[begin : begin + count])
    return made


_AT_ONCE, _NARROW = 1 << 18, 128  # elements of the rows that are in work at once, and the length from which these are multiplied one by one
_LONG, _LARGE = 1 << 13, 1 << 16  # elements from which rows take less time, and from which long ones do
_ROW, _LONG_ROW = 512, 2048


def _product_slope_on_device(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    return slope("product", g, input.shape, dim, input, out)


@op(
    "other", keyword_only=("dtype",), input=_product_rule,
    jvp=_product_tangent,
    kernels={"out": _folded_on_device("prod"), "input": _product_slope_on_device},
)  # fmt: skip
def prod(xp: Namespace, input: Any, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Product over one dimension, or of all elements.

    Args:
        input: any shape and dtype.
        dim: the dimension to multiply along; None for all.
        keepdim, dtype: as in ``sum``.
    Source: torch.prod.
    Example:
        >>> gradlib.prod(gradlib.tensor([[1, 2], [3, 4]]), dim=1)
        tensor([ 2, 12])
    """
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    axis = None if dim is None else wrap_dim(dim, input.ndim)
    if not input.ndim:
        axis = None
    if axis is None and not keepdim and input.size >= _LONG and type(input) is np.ndarray and input.dtype.char in "fd":
        input = _side_by_side(input)
    if axis is not None and type(input) is np.ndarray and input.dtype.char in "fd":
        if axis < input.ndim - 1 or input.shape[-1] <= _NARROW or input.size < _LARGE:
            return row_major(reduced(np.multiply, input, axis, keepdim))
        made = by_rows(_product_of_rows, input.reshape(-1, input.shape[-1])).reshape(input.shape[:-1])
        return made[..., None] if keepdim else made
    return back(row_major(xp.multiply.reduce(input, axis=axis, dtype=wide(input.dtype), keepdims=keepdim)), input.dtype, dtype)


# ---- questions ----------------------------------------------------------------------------------------------------------------


def _asked(xp: Namespace, name: str, input: Any, dim: Any, keepdim: bool) -> Any:
    """``all`` and ``any`` of nonzero elements; torch answers with uint8 for uint8 and reduces nothing for ``dim=()``."""
    truth = input if xp is not np and input.dtype.kind == "b" else input != 0
    if dim is None or dim not in ((), []):
        axis = axes(input.ndim, dim)
        if xp is np:
            truth = row_major(reduced(np.logical_and if name == "all" else np.logical_or, truth, axis, keepdim))
        elif (made := extreme("max" if name == "any" else "min", truth, axis, keepdim, False)) is not None:
            truth = made[0]
        else:
            truth = row_major(getattr(truth, name)(axis=axis, keepdims=keepdim))
    return truth.astype(input.dtype) if input.dtype == "uint8" else truth


@op("none", also=("input",))
def all(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether every element over ``dim`` (a number, several, or all) is nonzero; True of nothing.

    Args:
        input: any shape and dtype.
        dim: a number, several, or all when left out.
        keepdim: keep them, with size 1.
    Source: torch.all.
    Example:
        >>> gradlib.all(gradlib.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """
    return _asked(xp, "all", input, dim, keepdim)


@op("none", also=("input",))
def any(xp: Namespace, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether some element over ``dim`` (a number, several, or all) is nonzero; False of nothing.

    Args:
        input: any shape and dtype.
        dim: a number, several, or all when left out.
        keepdim: keep them, with size 1.
    Source: torch.any.
    Example:
        >>> gradlib.any(gradlib.tensor([[True, False], [False, False]]), dim=1)
        tensor([ True, False])
    """
    return _asked(xp, "any", input, dim, keepdim)


def _nonzero_on_device(input: Any, dim: Any) -> Any:
    return nonzero(input, dim if dim is None or type(dim) is int else axes(input.ndim, dim))


@op("none", also=("input",), kernels={"out": _nonzero_on_device})
def count_nonzero(xp: Namespace, input: Any, dim: Any = None) -> Any:
    """The number of nonzero elements over ``dim`` (a number, several, or all), as int64.

    Args:
        input: any shape and dtype.
        dim: a number, several, or all when left out.
    Source: torch.count_nonzero.
    Example:
        >>> gradlib.count_nonzero(gradlib.tensor([[0, 1], [2, 3]]), dim=0)
        tensor([1, 2])
    """
    if xp is np and dim is None:
        compared = input.size >= _MANY and input.dtype.kind in "fc"  # NumPy counts bools many at once, floats one by one
        return np.array(np.count_nonzero(input != 0 if compared else input), dtypes.int64)
    mask = input if input.dtype.kind == "b" else input != 0
    axis = axes(input.ndim, dim)
    return counted(mask, axis) if xp is np and type(axis) is int else total(xp, mask, dim, False)


@op("linear", complex="explicit", input=lambda g, input_shape: diagonal_backward(spread(g, (min(input_shape),)), input_shape, 0, 0, 1))
def trace(xp: Namespace, input: Any) -> Any:
    """Sum of the diagonal of a matrix.

    Args:
        input: (n, m), any dtype.
    Raises: RuntimeError unless there are two dimensions.
    Source: torch.trace.
    Example:
        >>> gradlib.trace(gradlib.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim} (shape {list(input.shape)})")
    line = input.diagonal()
    few = xp is np and line.size <= SMALL and line.dtype.char in "fd"
    return line.dot(kept_ones(line.size, line.dtype)) if few else sum(line)
