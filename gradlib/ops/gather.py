"""Reading and writing at given places: all of it is ``index`` and ``index_put`` of ``ops/index.py`` with the places spelled out.

Where an array of places would have to be copied from a CUDA device to be checked, it is not checked: there a place outside the tensor wraps
around. On the CPU it is an error at the call.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import is_array
from gradlib.backend.dtype import fitted
from gradlib.backend.flat_index import are_within
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched
from gradlib.core.inplace import described_as_inplace, is_plain_on_device, write
from gradlib.core.modes import global_state
from gradlib.core.op import composite, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.copies import clone, contiguous
from gradlib.ops.create import as_element
from gradlib.ops.dims import wrap_dim
from gradlib.ops.index import index as pick, index_add_op, index_put_op, trimmed
from gradlib.ops.index_key import array_index, beside
from gradlib.ops.select import where
from gradlib.ops.shape import expand, reshape
from gradlib.ops.take_along import take_along

__all__ = ["gather", "index_add", "index_copy", "index_put", "index_select", "take", "take_along_dim"]


# ---- places -----------------------------------------------------------------------------------------------------------------------


def integers(name: str, places: Any, error: type[Exception] = RuntimeError) -> Any:
    """Check that indices are integers, and return them."""
    array = places._array if type(places) is Tensor else raw(places)
    if type(places) is not Tensor and not is_array(array):
        raise TypeError(f"{name}: index must be a Tensor of integers, got {type(places).__name__}")
    if array.dtype.kind not in "iu":
        raise error(f"{name}: expected an index of dtype int64, got {array.dtype} of shape {list(array.shape)}")
    return places


_FEW = 16  # places that Python compares before NumPy has begun to


def inside(name: str, places: Any, size: int, error: type[Exception] = RuntimeError, negative: bool = False) -> int | None:
    """Refuse places outside 0..size-1 (or -size..size-1), as far as the host can see them.

    Returns: a lower bound, negative only where a place is; None where the host cannot see them.
    """
    while type(places) is Batched:
        places = places.value
    array = places._array if type(places) is Tensor else raw(places)
    if not isinstance(array, np.ndarray) or array.size == 0:
        return None
    if array.size > _FEW and 0 in array.strides:
        array = array[tuple([slice(0, 1) if not step else slice(None) for step in array.strides])]  # all that an expanded one holds
    if array.size <= _FEW:
        found = array.tolist() if array.ndim == 1 else array.reshape(-1).tolist()
        low, high = min(found), max(found)
    else:
        if are_within(array, size):
            return 0  # nobody asks how much larger the lowest is
        low, high = int(np.minimum.reduce(array, axis=None)), int(np.maximum.reduce(array, axis=None))
    if low < (-size if negative else 0) or high >= size:
        raise error(f"{name}: index {high if high >= size else low} is out of bounds for a dimension of size {size}")
    return low


def vector(name: str, dim: int, places: Any, error: type[Exception]) -> list[Any]:
    """The index for ``index`` of a vector (or one number) of positions along ``dim``, for the ``index_*`` functions."""
    integers(name, places)
    ndim = places.ndim
    if ndim > 1:
        raise error(f"{name}: index is supposed to be a vector, got shape {list(places.shape)}")
    return [None] * dim + [places if ndim else places.reshape((1,))]


def along(name: str, input: Any, dim: int, places: Any) -> Any:
    """Check the positions along ``dim`` of ``gather`` and ``scatter``, and return them; those of 0-d tensors with one dimension."""
    array = places._array if isinstance(places, Tensor) else places
    if type(places) is not Tensor or array.dtype.kind not in "iu":
        integers(name, places)
    whole = input._array if isinstance(input, Tensor) else input
    shape, sizes = array.shape or (1,), whole.shape or (1,)
    if len(shape) != len(sizes):
        raise RuntimeError(
            f"{name}: index must have the same number of dimensions as input, got {list(array.shape)} for {list(whole.shape)}"
        )
    if shape != sizes and 0 not in shape and any(map(operator.gt, shape, (*sizes[:dim], shape[dim], *sizes[dim + 1 :]))):
        raise RuntimeError(f"{name}: expected index {list(shape)} to be no larger than input {list(sizes)} apart from dimension {dim}")
    if type(places) is not Tensor or type(array) is np.ndarray:  # none of a device's, which the host does not see
        inside(name, places, sizes[dim])
    return places if array.shape else places.reshape((1,))


# ---- reading ----------------------------------------------------------------------------------------------------------------------


def without_dimensions(made: Any) -> Any:
    """A result of one element for an input of no dimensions: no view, so that it may be written wherever another result may."""
    return clone(made.reshape(()))


@composite
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """``out[i, j] = input[index[i, j], j]`` for dim 0, and likewise for other dims.

    Args:
        input: the tensor to read.
        dim: the dimension along which index counts.
        index: integers from 0, of input's rank, in no other dimension larger than input.
        sparse_grad: for compatibility; gradients are dense.
    Returns: a tensor of index's shape.
    Raises: RuntimeError for shapes that do not fit and, on the CPU, for places outside.
    Source: torch.gather.
    Example:
        >>> gradlib.gather(gradlib.tensor([[1, 2], [3, 4]]), 1, gradlib.tensor([[0], [1]]))
        tensor([[1],
                [4]])
    """
    dim = wrap_dim(dim, input.ndim)
    places = along("gather", input, dim, index)
    made = take_along(input if input.ndim else input.reshape((1,)), places, dim, True)
    return made if places is index else without_dimensions(made)


@composite
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices at ``index`` (a vector of integers) along a dimension, as a copy.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: (k,) of int64 or int32.
    Raises: IndexError for places outside (on the CPU) and an index that is no vector, RuntimeError for one of no integers.
    Source: torch.index_select.
    Example:
        >>> gradlib.index_select(gradlib.tensor([[1, 2], [3, 4]]), 0, gradlib.tensor([1]))
        tensor([[3, 4]])
    """
    shape = raw(input).shape
    dim = wrap_dim(dim, len(shape))
    places = vector("index_select", dim, index, IndexError)
    inside("index_select", index, shape[dim] if shape else 1, IndexError)
    if shape:
        return pick(input, places)
    if places[0].shape != (1,):
        raise RuntimeError(f"index_select: a 0-d tensor has one element to select, the index has {places[0].shape[0]}")
    return clone(input)


@composite
def take(input: Any, index: Any) -> Any:
    """The elements at ``index`` of the tensor read as one row; negative places count from its end.

    Args:
        input: any shape and dtype.
        index: any shape, int64: places in the flattened input.
    Raises: RuntimeError for an index of another dtype than integers, IndexError (on the CPU) outside the tensor.
    Source: torch.take.
    Example:
        >>> gradlib.take(gradlib.tensor([[1, 2], [3, 4]]), gradlib.tensor([0, 3]))
        tensor([1, 4])
    """
    return pick(input if input.ndim == 1 else reshape(input, (-1,)), [integers("take", index)])


@composite
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """``gather`` whose input and indices broadcast, for results of ``argsort`` and ``argmax``; without ``dim``, ``take``.

    Args:
        input: any shape and dtype.
        indices: int64, broadcast with input but for dim.
        dim: the dimension; both flattened when left out.
    Raises: RuntimeError for shapes that do not fit, IndexError (on the CPU) for places outside.
    Source: torch.take_along_dim.
    Example:
        >>> gradlib.take_along_dim(gradlib.tensor([[3, 1, 2]]), gradlib.tensor([[1, 2, 0]]), dim=1)
        tensor([[1, 2, 3]])
    """
    array = indices._array if type(indices) is Tensor else raw(indices)
    if type(indices) is not Tensor or array.dtype.kind not in "iu":
        integers("take_along_dim", indices)
    if dim is None:
        return take(input, reshape(indices, (-1,)))
    have, want = input._array.shape if type(input) is Tensor else raw(input).shape, array.shape
    if len(have) != len(want):
        raise RuntimeError(f"take_along_dim: input and indices should have the same rank, got {list(have)} and {list(want)}")
    if not have:
        raise IndexError(f"take_along_dim: dim is {dim}, but the tensors have no dimensions")
    dim = wrap_dim(dim, len(have))
    lowest = inside("take_along_dim", indices, have[dim], IndexError, negative=True)
    places = indices
    if lowest is not None and lowest < 0:
        places = where(indices < 0, indices + have[dim], indices)
    elif global_state.active or not isinstance(input, Tensor) or input._node is not None:
        places = clone(indices)  # for what is saved is not the caller's
    if have[:dim] != want[:dim] or have[dim + 1 :] != want[dim + 1 :]:
        of_input, of_places = _stretched(have, want, dim)
        input = input if have == of_input else expand(input, of_input)
        places = places if want == of_places else expand(places, of_places)
    return take_along(input, places, dim, True)


@functools.lru_cache(maxsize=512)
def _stretched(have: tuple[int, ...], want: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes to which a tensor and places in it broadcast, each of which keeps its size along a dimension."""
    both = [max(n, m) if min(n, m) else 0 for n, m in zip(have, want, strict=True)]
    return (*both[:dim], have[dim], *both[dim + 1 :]), (*both[:dim], want[dim], *both[dim + 1 :])


# ---- writing ----------------------------------------------------------------------------------------------------------------------


def writing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Publish a function as a composite that writes a copy and, with ``_``, in place: which of them its first argument says."""
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())[1:]

    on_copy: Any = functools.update_wrapper(functools.partial(function, False), function)

    def in_place(input: Tensor, *args: Any, **named: Any) -> Tensor:
        if "axis" in named:
            named["dim"] = named.pop("axis")
        try:
            if is_plain_on_device(input, (*args, *named.values())):
                function(True, input, *args, **named)
                (input._version_slot or input.version).bump()
                return input
            return write(input, lambda shadow: function(not global_state.active, shadow, *args, **named), f"{name}_", copies_input=False)
        except Exception:
            refuse_wrong(f"{name}_", on_copy, input, *args, **named)
            raise

    on_copy.__signature__ = inspect.Signature(parameters)
    made = composite(on_copy)
    publish(described_as_inplace(in_place, name, on_copy), f"{name}_")
    return made


def values_for(name: str, values: Any, input: Any) -> Any:
    """The values to write: a Tensor or array of input's dtype as it is, a number as it stands in an array of that."""
    if type(values) is type(input) is Tensor and values._array.dtype is input._array.dtype:
        return values
    if type(values) is float or type(values) is int:
        return fitted(values, input.dtype)
    if isinstance(values, Tensor) or is_array(values):
        if values.dtype != input.dtype:
            raise RuntimeError(f"{name}: expected values of input's dtype {input.dtype}, got {values.dtype}; convert them with .to()")
        return values
    if isinstance(values, complex) and input.dtype.kind != "c":
        raise RuntimeError(f"{name}: a complex number cannot be written to elements of dtype {input.dtype}")
    if not isinstance(values, (bool, int, float, complex)):
        raise TypeError(f"{name}: expected a Tensor or a number, got {type(values).__name__}")
    return as_element(values, input.dtype)


@writing
def index_put(into: bool, input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """``input[indices] = values``, or ``+=``, in which repeated indices all count.

    Args:
        input: the tensor to write.
        indices: a tuple or list of integer tensors or masks for the leading dimensions.
        values: a tensor of input's dtype that broadcasts to ``input[indices]``.
        accumulate: add instead of replace.
    Raises: RuntimeError for a dtype or shape that does not fit; IndexError (on the CPU) for places outside; TypeError for indices that are
        no tuple or list.
    Source: torch.Tensor.index_put_.
    Example:
        >>> gradlib.index_put(gradlib.zeros(3), (gradlib.tensor([0, 2]),), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put: indices must be a tuple of Tensors, got {type(indices).__name__}")
    array = input._array if type(input) is Tensor else raw(input)
    places: list[Any] = []
    for each in indices:
        places.append(None if each is None else array_index(each, array))
    values = values_for("index_put", values, input)
    number = isinstance(values, (int, float, complex))
    places = beside(places, array, not accumulate and (number or (values._array if type(values) is Tensor else raw(values)).size == 1))
    values = values if number else trimmed(values, array.ndim, places)
    return (index_add_op if accumulate else index_put_op)(input, values, places, into)


@writing
def index_add(into: bool, input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """``input[index[i]] += alpha * source[i]`` for dim 0, and likewise for other dims; repeated indices all count.

    Args:
        input: the tensor to add to.
        dim: the dimension along which index counts.
        index: a vector of integers from 0.
        source: of input's dtype and shape but for ``dim``, where it has index's length.
        alpha: a factor.
    Raises: RuntimeError for shapes and dtypes that do not fit and, on the CPU, for places outside.
    Source: torch.index_add.
    Example:
        >>> gradlib.index_add(gradlib.zeros(3), 0, gradlib.tensor([0, 2, 0]), gradlib.tensor([1.0, 2.0, 3.0]))
        tensor([4., 0., 2.])
    """
    places, values = _slices("index_add", input, dim, index, source, RuntimeError)
    if type(alpha) is not int or alpha != 1:
        alpha = bool(alpha) if input.dtype.kind == "b" else as_element(alpha, input.dtype)
    if not input.ndim:
        return without_dimensions(index_add_op(input.reshape((1,)), values, places, into, alpha))
    return index_add_op(input, values, places, into, alpha)


@writing
def index_copy(into: bool, input: Any, dim: int, index: Any, source: Any) -> Any:
    """``input[index[i]] = source[i]`` for dim 0, and likewise for other dims.

    Args:
        input: the tensor to write.
        dim, index, source: as for ``index_add``.
    Raises: RuntimeError for shapes and dtypes that do not fit, IndexError (on the CPU) for places outside.
    Source: torch.index_copy.
    Example:
        >>> gradlib.index_copy(gradlib.zeros(3), 0, gradlib.tensor([0, 2]), gradlib.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    places, values = _slices("index_copy", input, dim, index, source, IndexError)
    if not input.ndim:
        return without_dimensions(index_put_op(input.reshape((1,)), values, places, into))
    return index_put_op(input if into else contiguous(input), values, places, into)  # in row-major order, as torch's; so the sum is anyway


def _slices(name: str, input: Any, dim: Any, index: Any, source: Any, error: type[Exception]) -> tuple[list[Any], Any]:
    """Check the arguments of ``index_add`` and ``index_copy``: source has one slice along ``dim`` for each place.

    Returns: the index for ``index``, and source.
    """
    shape = input._array.shape if type(input) is Tensor else raw(input).shape
    have = source._array.shape if type(source) is Tensor else raw(source).shape
    dim = wrap_dim(dim, len(shape))
    places = vector(name, dim, index, error)
    named = places[-1]
    want = (*shape[:dim], (named._array if type(named) is Tensor else raw(named)).shape[0], *shape[dim + 1 :])
    if have != want:
        if len(have) != len(want) and have and shape:
            raise error(f"{name}: source has {len(have)} dimensions, input {len(shape)}; with this index it must have shape {list(want)}")
        if have or want != (1,):
            raise RuntimeError(f"{name}: source must have shape {list(want)} with this index, got {list(have)}")
    inside(name, index, shape[dim] if shape else 1, error)
    return places, values_for(name, source, input)
