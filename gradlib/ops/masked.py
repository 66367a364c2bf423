"""Reading and writing where a mask holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, marked, placing
from gradlib.backend.array import is_array, namespace, on_device_of
from gradlib.backend.copying import row_major, row_major_copy
from gradlib.backend.mask import chosen, irregular_places
from gradlib.backend.where import put_where
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.convert import to
from gradlib.ops.create import as_element, zeros_like
from gradlib.ops.dims import wrap_dim
from gradlib.ops.gather import inside, vector, without_dimensions
from gradlib.ops.index import index as pick, index_put_op
from gradlib.ops.scan import cumsum
from gradlib.ops.select import where
from gradlib.ops.shape import expand

__all__ = ["index_fill", "masked_fill", "masked_scatter", "masked_select"]


def _mask(name: str, mask: Any) -> Any:
    array = mask._array if type(mask) is Tensor else mask
    if type(mask) is not Tensor and not is_array(raw(mask)):
        raise TypeError(f"{name}(): argument 'mask' (position 2) must be Tensor, not {type(mask).__name__}")
    if array.dtype != dtypes.bool_:
        raise RuntimeError(f"{name}: expected a mask of dtype bool, got {array.dtype} of shape {list(array.shape)}; use .bool()")
    return mask


def _filling(values: list[Any]) -> list[Any]:
    """The value to fill with in input's dtype, whatever its own."""
    input, mask, value = values
    if getattr(mask, "dtype", None) is not dtypes.bool_:
        _mask("masked_fill", mask)
    if type(input) is not np.ndarray and (type(value) is float or type(value) is int):
        return [input, mask, input.dtype.type(as_element(value, input.dtype))]
    if type(value) is type(input) and value.dtype is input.dtype and not value.ndim:
        return values
    _refuse_value("masked_fill", value, input.dtype)
    value = value if is_array(value) else as_element(value, input.dtype)
    if type(value) in (bool, int, float):
        return [input, mask, np.array(value, input.dtype) if type(input) is np.ndarray else input.dtype.type(value)]
    return [input, mask, namespace(input).asarray(value).astype(input.dtype)]


def _refuse_value(name: str, value: Any, dtype: np.dtype[Any]) -> None:
    """Refuse what is not one value for elements of a dtype."""
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"{name} only supports a 0-dimensional value tensor, but got shape {list(value.shape)}")
    if (isinstance(value, complex) or getattr(value, "dtype", dtype).kind == "c") and dtype.kind != "c":
        raise RuntimeError(f"{name}: a complex number cannot be written to elements of dtype {dtype}")


@op(
    "linear", promote=_filling, also=("mask",), inplace=True, complex="explicit", device_into=put_where,
    input=lambda g, mask: where(mask, 0, g),
    value=lambda g, mask: where(mask, g, 0),
)  # fmt: skip
def masked_fill(xp: Any, input: Any, mask: Any, value: Any) -> Any:
    """The input with one value where mask holds.

    Args:
        input: any tensor.
        mask: bool; broadcasts with input.
        value: a number or a 0-d tensor; it takes input's dtype.
    Raises: TypeError for a mask that is not of dtype bool; RuntimeError for a value with dimensions, or a complex one for real elements.
    Source: torch.Tensor.masked_fill.
    Example:
        >>> gradlib.masked_fill(gradlib.tensor([1, 2, 3]), gradlib.tensor([True, False, True]), 0)
        tensor([0, 2, 0])
    """
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_fill: expected a mask of dtype bool, got {mask.dtype}")
    return row_major(chosen(xp, mask, value, input))


def _together(input: Any, mask: Any) -> tuple[Any, Any]:
    """Input and mask, broadcast to their common shape."""
    have = input._array.shape if type(input) is Tensor else raw(input).shape
    want = mask._array.shape if type(mask) is Tensor else raw(mask).shape
    if have == want:
        return input, mask
    try:
        shape = np.broadcast_shapes(have, want)
    except ValueError:
        raise RuntimeError(f"a mask of shape {list(mask.shape)} does not broadcast with a tensor of shape {list(input.shape)}") from None
    return (input if have == shape else expand(input, shape), mask if want == shape else expand(mask, shape))


@composite
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where mask (bool, broadcast with input) holds, as a vector. On a CUDA device the host waits for their number.

    Args:
        input: any shape and dtype.
        mask: bool, broadcasts with input.
    Source: torch.masked_select.
    Example:
        >>> gradlib.masked_select(gradlib.tensor([1, 2, 3]), gradlib.tensor([True, False, True]))
        tensor([1, 3])
    """
    input, mask = _together(input, _mask("masked_select", mask))
    return pick(input, [mask]) if input.ndim else pick(input.reshape((1,)), [mask.reshape((1,))])


def _matching(values: list[Any]) -> list[Any]:
    """The operands of ``masked_scatter``, checked."""
    input, mask, source = values
    if getattr(mask, "dtype", None) is not dtypes.bool_:
        _mask("masked_scatter", mask)
    if source.dtype != input.dtype:
        raise RuntimeError(f"masked_scatter: expected input and source to have the same dtype, got {input.dtype} and {source.dtype}")
    return values


@op(
    "linear", promote=_matching, also=("mask",), inplace=True, complex="explicit",
    input=lambda g, mask: where(mask, 0, g),
    source=lambda g, mask, source_shape: masked_scatter_backward(g, mask, source_shape),
    kernels={"out": marked.spread}, device_into=lambda input, mask, source: marked.spread(input, mask, source, True) is not None,
)  # fmt: skip
def masked_scatter(xp: Any, input: Any, mask: Any, source: Any) -> Any:
    """The input with the first elements of source, in order, where mask holds.

    Args:
        input: any tensor.
        mask: bool; broadcasts with input.
        source: of input's dtype, with at least as many elements as mask has True (checked on the CPU).
    Raises: RuntimeError for too few elements or another dtype.
    Source: torch.Tensor.masked_scatter.
    Example:
        >>> gradlib.masked_scatter(gradlib.zeros(3), gradlib.tensor([True, False, True]), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    line = source.reshape(-1)
    if input.shape != mask.shape:
        input, mask = _together(input, mask)
    if xp is not np:
        return where(mask, line[_ranks(mask) % line.size], input) if line.size else masked_fill(input, mask, input.dtype.type(0))
    count = int(np.count_nonzero(mask))
    if count > line.size:
        raise RuntimeError(f"masked_scatter: source has {line.size} elements, fewer than the mask's {count} True")
    result = row_major_copy(input)
    places = irregular_places(result, mask)
    if places is None:
        result[mask] = line[:count]
    else:
        result.reshape(-1)[places] = line[:count]
    return result


@op(
    "linear", also=("mask",), method=False, complex="explicit", kernels={"out": marked.collected},
    input=lambda g, input, mask: masked_scatter(zeros_like(input), mask, g),
)  # fmt: skip
def masked_scatter_backward(xp: Any, input: Any, mask: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of that shape whose first elements are those of input where mask holds: the adjoint of ``masked_scatter`` for its source."""
    if mask.shape != input.shape:
        mask = xp.broadcast_to(mask, input.shape)
    if xp is np:
        made = np.zeros(shape, input.dtype)
        places = irregular_places(input, mask)
        chosen = input[mask] if places is None else input.reshape(-1).take(places)
        made.reshape(-1)[: chosen.size] = chosen
        return made
    size = math.prod(shape)
    line = xp.zeros(size + 1, input.dtype)  # what is not marked goes to its end
    line[where(mask, _ranks(mask), size)] = input
    return line[:size].reshape(shape)


def _ranks(mask: Any) -> Any:
    """Where an element of a raw mask stands among those that are True, if it does; else the place of the one before, -1 for none."""
    return cumsum(mask.reshape(-1), 0).reshape(mask.shape) - 1


def _fill_into(input: Any, dim: int, index: Any, value: Any) -> bool:
    """``index_fill`` into a CuPy array."""
    if type(value) not in (int, float) or not input.ndim or getattr(index, "ndim", 0) != 1 or index.dtype.kind not in "iu":
        return False
    return placing.put_along(input, wrap_dim(dim, input.ndim), index, as_element(value, input.dtype), along=False)


def _once(g: Any, indices: list[Any]) -> Any:
    """The gradient of a value that was written at indices, each of which counts once, before it is added up."""
    first = next(d for d, each in enumerate(indices) if each is not None)
    array = raw(g)
    with on_device_of(array):
        mask = namespace(array).zeros(g.shape[first : len(indices)], bool)
        mask = index_put_op(mask, True, indices[first:])
        return where(mask.reshape(mask.shape + (1,) * (g.ndim - len(indices))), g, 0)


@op(
    "linear", sequence="indices", overwrites="into", method=False, complex="explicit",
    input=lambda g, indices: index_put_op(g, 0.0, indices), value=_once,
)  # fmt: skip
def index_fill_op(xp: Any, input: Any, value: Any, indices: list[Any], into: bool = False) -> Any:
    """``index_put_op`` of one value along one dimension, whose gradient does not count repeats."""
    return index_put_op.op.value(xp, input, value, indices, into)  # type: ignore[attr-defined]


@composite(inplace=True, device_into=_fill_into)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """One value at the slices ``index`` (a vector of integers) along ``dim``.

    Args:
        input: any shape and dtype.
        dim: the dimension along which index counts.
        index: (n,), integers.
        value: a number, or a 0-d tensor.
    Raises: RuntimeError for a value of more dimensions, IndexError (on the CPU) for places outside.
    Source: torch.Tensor.index_fill.
    Example:
        >>> gradlib.index_fill(gradlib.zeros(3), 0, gradlib.tensor([0, 2]), 1)
        tensor([1., 0., 1.])
    """
    shape = input._array.shape if type(input) is Tensor else raw(input).shape
    dim = wrap_dim(dim, len(shape))
    places = vector("index_fill", dim, index, RuntimeError)
    size = shape[dim] if shape else 1
    inside("index_fill", index, size, IndexError, negative=True)
    if type(value) is not Tensor or value._array.dtype is not input.dtype or value._array.ndim:
        _refuse_value("index_fill", value, input.dtype)
        value = to(value, dtype=input.dtype) if isinstance(value, Tensor) or is_array(value) else as_element(value, input.dtype)
    fill = index_fill_op if isinstance(value, Tensor) else index_put_op
    return fill(input, value, places) if shape else without_dimensions(fill(input.reshape((1,)), value, places))
