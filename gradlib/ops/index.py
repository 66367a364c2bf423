"""``x[...]`` and ``x[...] = v``, as torch reads an index.

An index is split in two. Numbers, slices, None and Ellipsis select a *view* of x, first; arrays of integers and masks then select which
elements of that view to *gather* into a copy. (So ``x[:, i, :, 0]`` keeps the dimension of the array ``i`` in its place; NumPy, which
counts the number among the arrays, would move it to the front.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, folding, placing
from gradlib.backend.array import Array, device_index, is_array, move, namespace, on_device_of
from gradlib.backend.columns import LEAST, has_columns, write as write_rows
from gradlib.backend.copying import assign, copy, fill, filled, moved, placed, row_major, row_major_copy
from gradlib.backend.device import device_of
from gradlib.backend.flat_index import FEW, flat_index
from gradlib.backend.mask import irregular_places
from gradlib.backend.scatter import rows_into_zeros, scatter_add
from gradlib.core.declaration import Op
from gradlib.core.inplace import is_part_recordable, rebase_part, write
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.core.writes import has_begun, refuse_memory
from gradlib.ops.create import as_element
from gradlib.ops.dims import WHOLE
from gradlib.ops.index_key import BOUNDS, beside, split
from gradlib.ops.shape import reshape

__all__ = ["argwhere", "nonzero"]

_WRITE = "x[...] = value"


# ---- views --------------------------------------------------------------------------------------------------------------------


def _sliced(input: Any, index: tuple[Any, ...]) -> Any:
    """``slice_op`` of CuPy arrays, whose single elements are views without an Ellipsis, which takes CuPy a while."""
    if len(index) == 2 and index[1] is ... and index[0] is not ...:
        return input[index[0]]
    return input[index]


@op(
    "linear", view=True, complex="explicit", device=_sliced,
    input=lambda g, input_shape, index: slice_backward(g, input_shape, index),
)  # fmt: skip
def slice_op(xp: Any, input: Any, index: tuple[Any, ...]) -> Any:
    """``input[index]`` for an index of numbers, slices, None and one Ellipsis (with which a single element is a view too)."""
    return input[index]


_SLICE: Op = slice_op.op  # type: ignore[attr-defined]


@op("linear", method=False, complex="explicit", input=lambda g, index: slice_op(g, index))
def slice_backward(xp: Any, input: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros of that shape with input at ``[index]``: the adjoint of ``slice_op``."""
    result = xp.zeros(shape, input.dtype)
    if input.size >= LEAST and xp is np and has_columns(input):
        write_rows(result[index], input)
    elif xp is np:
        result[index] = input
    else:
        assign(_sliced(result, index), ..., input)
    return result


# ---- gathering ----------------------------------------------------------------------------------------------------------------


def _read(indices: Sequence[Any]) -> tuple[tuple[Any, ...], int, Any]:
    """The arrays, and slices for None, as NumPy takes them between brackets; how many of them are arrays, and the last of these."""
    key, count, last = [], 0, None
    for i in indices:
        if i is None:
            key.append(WHOLE)
        else:
            key.append(i)
            count, last = count + 1, i
    return tuple(key), count, last


@op(
    "linear", sequence="indices", method=False, complex="explicit",
    input=lambda g, input_shape, indices: index_backward(g, input_shape, indices), kernels={"out": placing.picked},
)  # fmt: skip
def index(xp: Any, input: Any, indices: Sequence[Any]) -> Any:
    """The elements that integer arrays and masks pick from the leading dimensions; None stands for a whole dimension."""
    key, count, last = _read(indices)
    if count == 1 and last.dtype.kind != "b" and input.flags.c_contiguous:
        return input.take(last, len(indices) - 1)  # the same, twice as fast
    try:
        places = None
        if xp is np and input.size >= FEW:
            places = flat_index(input, key) if count > 1 else irregular_places(input, key[0]) if len(key) == 1 else None
        if places is not None:
            return input.reshape(-1).take(places, None, None, "wrap")  # they are in range
        made = input[key]
        return row_major(made) if indices and indices[0] is None else made  # NumPy puts what arrays picked first in memory
    except ValueError as error:  # CuPy's; NumPy raises an IndexError
        raise _apart(key) from error


def _apart(key: tuple[Any, ...]) -> IndexError:
    """The error for index arrays of shapes that do not broadcast."""
    shapes = " ".join(str(list(part.shape)) for part in key if is_array(part))
    return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")


@op("linear", sequence="indices", method=False, complex="explicit", input=lambda g, indices: index(g, indices))
def index_backward(xp: Any, input: Any, shape: tuple[int, ...], indices: Sequence[Any]) -> Any:
    """Zeros of that shape to which each element of input is added where ``index`` takes it from: the adjoint of ``index``."""
    made = rows_into_zeros(shape, indices[0], input) if xp is np and len(indices) == 1 else None
    if made is None:
        made = xp.zeros(shape, input.dtype)
        if xp is np or not folding.adder(made.dtype.char)(made, indices, input):
            add_at(made, indices, input)
    return made


def add_at(target: Array, indices: Sequence[Any], values: Array) -> None:
    """``target[indices] += values`` on raw arrays, where repeats count; a lone mask has none and is quicker."""
    key, count, last = _read(indices)
    if count == 1 and last.dtype.kind == "b":
        places = irregular_places(target, key[0])
        if places is not None:
            target, key = target.reshape(-1), (places,)
        target[key] += values
    else:
        scatter_add(target, key, values)


@op("none", also=("input",))
def nonzero_op(xp: Any, input: Any) -> Any:
    """The indices of the elements that are not zero: one row for each."""
    return input.nonzero()[0].reshape(-1, 1) if input.ndim == 1 else xp.argwhere(input)


@composite
def argwhere(input: Any) -> Any:
    """The positions of the elements that are not zero, one row each (int64).

    Args:
        input: any shape and dtype.
    Source: torch.argwhere.
    Example:
        >>> gradlib.argwhere(gradlib.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    return nonzero_op(input)


@composite
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not zero.

    Args:
        as_tuple: give one vector per dimension, ready to index with, instead of one row per element.
    Returns: int64, (count, ndim); or ndim vectors. How many there are has to be copied from a CUDA device.
    Source: torch.nonzero.
    Example:
        >>> gradlib.nonzero(gradlib.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    places = nonzero_op(input if input.ndim or not as_tuple else input.reshape((1,)))
    return tuple([slice_op(places, (WHOLE, d)) for d in range(input.ndim or 1)]) if as_tuple else places


def getitem(input: Tensor, key: Any) -> Tensor:
    """``input[key]``: a view for numbers, slices, None and Ellipsis, a copy as soon as arrays or masks take part.

    Numbers come before arrays, as in torch. On a CUDA device, arrays of integers are not checked against the size (that would need a copy
    to the host) and wrap around; a 0-d integer tensor is read by the host, as in torch.
    Raises: IndexError for positions outside the tensor and for anything but an index.
    """
    if type(key) is int or (type(key) is slice and type(key.start) in BOUNDS and type(key.stop) in BOUNDS and key.step is None):
        return slice_op(input, (key, ...))
    if type(key) is Tensor and key._array.ndim and key._array.dtype.kind in "bi" and type(key._array) is type(input._array):
        return index(input, [key])
    view, gather = split(key, input._array)
    if gather is None:
        return slice_op(input, view or (...,))
    region = input if view is None else slice_op(input, view)
    return index(region, beside(gather, region._array))


# ---- writing --------------------------------------------------------------------------------------------------------------------


@op(
    "linear", sequence="indices", overwrites="into", complex="explicit",
    input=lambda g, indices: index_put_op(g, 0.0, indices),
    values=lambda g, indices, values_shape: _of_written(g, indices, values_shape),
)  # fmt: skip
def index_put_op(xp: Any, input: Any, values: Any, indices: Sequence[Any], into: bool = False) -> Any:
    """A copy of input whose elements at ``indices`` are replaced by values; ``into`` writes input itself."""
    result = input if into else row_major_copy(input) if input.flags.c_contiguous else copy(input)
    if xp is np or not indices or not placing.put(result, indices, values):
        _store(result, indices, values, fresh=not into)
    return result


def _of_written(g: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """The gradient of values of a shape that were written at indices, before what broadcasts is added up.

    Of one that was written wherever a mask holds, nobody counts at how many elements.
    """
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype.kind == "b" and math.prod(shape) == 1:
        return index_put_op(g, 0.0, [~mask])
    return index(g, indices)


@op(
    "linear", sequence="indices", overwrites="into", complex="explicit",
    input=lambda g: g,
    values=lambda g, indices, alpha: index(g, indices) if alpha == 1 else index(g, indices) * alpha.conjugate(),
)  # fmt: skip
def index_add_op(xp: Any, input: Any, values: Any, indices: Sequence[Any], into: bool = False, alpha: Any = 1) -> Any:
    """A copy of input to whose elements at ``indices`` values times alpha are added, where repeats count; ``into`` writes input itself."""
    result = input if into else row_major_copy(input)
    if xp is np or not folding.adder(result.dtype.char)(result, indices, values, factor=alpha):
        add_at(result, indices, values if alpha == 1 else values * alpha)
    return result


def _store(target: Array, indices: Sequence[Any], values: Any, fresh: bool = False) -> None:
    """``target[indices] = values`` on raw arrays where no kernel does it; ``fresh``: nothing else has the target's memory."""
    on_device = type(target) is not np.ndarray
    key = _read(indices)[0]
    places = None
    if len(key) > 1 and target.size >= FEW and not on_device and sum(type(part) is np.ndarray for part in key) > 1:
        places = flat_index(target, key)
    elif len(key) == 1:
        places = irregular_places(target, key[0])
    if places is not None:
        target, key = target.reshape(-1), (places,)
    try:
        if fresh and not on_device:
            target[key] = values
        elif key or not on_device:
            assign(target, key, values)
        else:
            fill(target, values)
    except (TypeError, ValueError) as error:
        try:
            into = target[key].shape
        except ValueError:
            raise _apart(key) from error
        given = getattr(values, "shape", ())
        raise RuntimeError(f"shape mismatch: a value of shape {list(given)} cannot be broadcast to x[...] of shape {list(into)}") from error


def _fitting(value: Any, like: Array, ndim: int, gather: Sequence[Any] | None) -> Any:
    """The value to assign, in like's dtype and on its device, trimmed."""
    if type(value) is Tensor and value._array.dtype is like.dtype:  # the common case
        array = value._array
        if type(array) is type(like) and (type(array) is np.ndarray or array.data.device_id == like.data.device_id):
            return trimmed(value, ndim, gather) if array.ndim and array.shape[0] == 1 else value
    if isinstance(value, (bool, int, float)) or (isinstance(value, complex) and like.dtype.kind == "c"):
        if like.dtype.kind in "iu" or isinstance(value, complex):
            return as_element(value, like.dtype)
        largest = dtypes.largest(like.dtype)
        if -largest <= value <= largest or value != value:
            return value
        return _half(value) if like.dtype.itemsize == 2 else as_element(value, like.dtype)
    if isinstance(value, complex):
        raise RuntimeError(f"a complex number cannot be assigned to elements of dtype {like.dtype}; take its .real")
    if isinstance(value, Tensor):
        if value._array.dtype != like.dtype:
            value = value.to(like.dtype)
        if device_index(value._array) != device_index(like):
            value = value.to(device_of(like))
    elif value is None or isinstance(value, str):
        raise TypeError(f"can't assign a {type(value).__name__} to elements of dtype {like.dtype}")
    else:
        value = namespace(like).asarray(move(value, device_index(like)) if is_array(value) else value, dtype=like.dtype)
    return trimmed(value, ndim, gather)


def _is_filling(gather: Sequence[Any], value: Tensor, like: Array) -> bool:
    """Whether one element is written wherever a lone mask holds, which brings it to the dtype of what is written."""
    masks = [index for index in gather if index is not None]
    one = value.numel() == 1 and value.device.type == "cpu" and not (value.is_complex() and like.dtype.kind != "c")
    return one and len(masks) == 1 and masks[0].dtype.kind == "b"


def _is_whole(view: tuple[Any, ...] | None, region: Array, array: Array) -> bool:
    """Whether an index gives no view but the tensor itself, as torch reads slices that leave nothing out."""
    return region.strides == array.strides and (view is None or all(item is ... or type(item) is slice for item in view))


def _half(value: float) -> float:
    """A number rounded to float16 where it is out of range: torch accepts that here, but in no other dtype or function."""
    with np.errstate(over="ignore"):
        return float(np.float16(value))


def trimmed(value: Any, ndim: int, gather: Sequence[Any] | None) -> Any:
    """A value without the leading dimensions of size 1 that the elements at which it is written do not have.

    ``ndim``: the number of dimensions of what is written, or of what ``gather`` indexes.
    """
    shape = value._array.shape if type(value) is Tensor else raw(value).shape
    if gather is not None:
        taken, given = 0, 0
        for each in gather:
            if each is not None:
                array = each._array if isinstance(each, Tensor) else each
                mask = array.dtype.kind == "b"
                taken += array.ndim if mask else 1
                given = max(given, 1 if mask else array.ndim)
        ndim += given - taken
    extra = len(shape) - ndim
    return reshape(value, shape[extra:]) if extra > 0 and math.prod(shape[:extra]) == 1 else value


def _write_region(input: Tensor, region: Array, gather: list[Any] | None, values: Any) -> None:
    """Write a tensor's memory: all of a region, or its elements at the indices ``gather``; the write is counted."""
    if 0 in region.strides or (isinstance(region, np.ndarray) and not region.flags.writeable):
        refuse_memory(region, _WRITE)
    places: list[Any] = []
    for each in gather or ():
        places.append(each._array if isinstance(each, Tensor) else each)
    written = values._array if isinstance(values, Tensor) else values
    try:
        if type(region) is np.ndarray:
            done = False
        elif gather is not None:
            done = placing.put(region, places, written)
        elif type(written) is float or type(written) is int:
            done = filled(region, written)
        else:
            done = moved(region, written) or placed(region, written)
        if not done:
            _store(region, places, written)
    except BaseException as error:
        if has_begun(error):
            input.version.bump()
        raise
    input.version.bump()


def setitem(input: Tensor, key: Any, value: Any) -> None:
    """``input[key] = value``, in place: gradients flow to value and to what input keeps.

    Args:
        input: the tensor to write; refused when it is a leaf that requires a gradient.
        key: as for reading.
        value: a tensor, an array or a number that broadcasts to ``input[key]``; it is brought to input's dtype and device. Where an element
            is named several times, which of its values stays is not defined.
    Raises: IndexError as for reading, RuntimeError for a shape that does not fit and for what may not be written, TypeError for no values.
    """
    array = input._array
    view, gather = split(key, array)
    if gather is not None and isinstance(value, Tensor) and value._array.dtype != array.dtype and not _is_filling(gather, value, array):
        raise RuntimeError(f"x[indices] = value needs one dtype: x has {array.dtype}, value {value._array.dtype}; convert it with .to()")
    region = array if view is None else array[view] if type(array) is np.ndarray else _sliced(array, view)
    with on_device_of(array):
        if gather is not None and type(array) is not np.ndarray:
            gather = beside(gather, region, not isinstance(value, Tensor) or value._array.size == 1)
        values = _fitting(value, array, region.ndim, gather)
        node = values._node if isinstance(values, Tensor) else None
        within = input._meta is not None and input._meta.view is not None
        whole = view is None if gather is not None else region.shape == array.shape and _is_whole(view, region, array)
        plain = type(input) is Tensor and not global_state.active and global_state.born is None
        recording = not global_state.no_grad or thread_state.grad_enabled
        if plain and not (recording and (input._node is not None or node is not None or within)):  # nothing is recorded
            _write_region(input, region, gather, values)
        elif plain and (within or not whole) and is_part_recordable(input):  # a part, which needs no view of its own
            _write_region(input, region, gather, values)
            step = None if view is None else (_SLICE, (view,), None)
            rebase_part(input, step, node, None if gather is None else (_of_written, index_put_op, gather))
        elif gather is not None:
            quick = plain and type(array) is not np.ndarray  # then the operation on a device is called without a detour
            operation = index_put_op.op.on_device if quick else index_put_op  # type: ignore[attr-defined]
            put = functools.partial(operation, values=values, indices=gather, into=not global_state.active)
            write(input if view is None else slice_op(input, view), put, _WRITE, False, False)
        elif whole and not within:
            input.copy_(values) if isinstance(values, Tensor) or is_array(values) else input.fill_(values)
        else:
            put = functools.partial(index_put_op, values=values, indices=[], into=not global_state.active)
            write(slice_op(input, view or (...,)), lambda shadow: put(shadow.data), _WRITE, False, False)


publish(getitem, "__getitem__")
publish(setitem, "__setitem__")
