"""``x[...]`` and ``x[...] = v``, as torch reads an index.

An index is split in two. Numbers, slices, None and Ellipsis select a *view* of x, first; arrays of integers and masks then select which
elements of that view to *gather* into a copy. (So ``x[:, i, :, 0]`` keeps the dimension of the array ``i`` in its place; NumPy, which
counts the number among the arrays, would move it to the front.)
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
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
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.declaration import Op
from gradlib.core.inplace import is_part_recordable, rebase_part, write
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.core.writes import has_begun, refuse_memory
from gradlib.ops.create import as_element
from gradlib.ops.dims import WHOLE
from gradlib.ops.shape import reshape

__all__ = ["argwhere", "nonzero"]

_BASIC = frozenset((int, type(None), type(Ellipsis)))
_BOUNDS = frozenset((int, type(None)))
_ARRAYS = frozenset((list, np.ndarray, Tensor))
_EVERYTHING = slice(None)
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
            key.append(_EVERYTHING)
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


# ---- reading an index -----------------------------------------------------------------------------------------------------------


def _view_index(item: Any) -> Any:
    """The part of a view's index that item is, or NotImplemented for an array; what NumPy would only meet later is refused here."""
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        return item
    if kind is slice:
        bounds = (item.start, item.stop, item.step)  # plain numbers from now on: a Tensor there could be written later
        return item if _BOUNDS.issuperset(map(type, bounds)) else slice(*[b if b is None else operator.index(b) for b in bounds])
    if isinstance(item, (bool, np.bool_, Tensor, Sequence, np.ndarray)) or is_array(item):
        return NotImplemented
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or bool arrays are valid indices "
            f"(got {kind.__name__}: {item!r})"
        ) from None


def array_index(item: Any, like: Array) -> Any:
    """An array of integers or a mask for an array that it indexes. A Tensor beside that stays one, so that a later write to it is noticed;
    what is on the host while that is not goes there by ``beside``.
    """
    if isinstance(item, Tensor):
        values = item._array
        alike = type(values) is type(like) and (values.dtype is dtypes.int64 or values.dtype is dtypes.bool_)
        if alike and (isinstance(values, np.ndarray) or values.data.device_id == like.data.device_id):  # the common case
            return item
    elif isinstance(item, np.ndarray):
        item = values = copy(item) if isinstance(like, np.ndarray) else item
    elif not isinstance(item, (list, bool)) and is_array(item):
        item = values = copy(item)
    else:
        values = np.asarray(item)
        item = values = values.astype(np.int64) if values.size == 0 and values.dtype.kind == "f" else values
    if values.dtype.kind not in "iub":
        raise IndexError(f"tensors used as indices must be integers or bools, got {values.dtype} of shape {list(values.shape)}")
    if values.dtype == np.uint8 and isinstance(item, Tensor):
        warnings.warn("indexing with dtype uint8 reads it as a mask, as torch does; use bool or int64 instead.", UserWarning, stacklevel=4)
        with on_device_of(values):
            item = values = values.astype(np.bool_)
    if type(values) is np.ndarray and not isinstance(like, np.ndarray):
        return values
    if not type(values) is type(like) is np.ndarray and device_index(values) != device_index(like):
        if device_index(values) is not None:
            raise IndexError(f"indices are on cuda:{device_index(values)}, the indexed tensor is not; they go to the CPU with .cpu()")
        item = move(values, device_index(like))
    return item


def beside(indices: list[Any], like: Array) -> list[Any]:
    """The arrays of an index where the array is that they index: those of the host go to its device by one copy.

    A mask of the host goes as the places that it marks, whose number the host then need not wait for.

    Args:
        indices: for the leading dimensions of ``like`` an array for each, a mask for several, or None.
    """
    if isinstance(like, np.ndarray):
        return indices
    made: list[Any] = []
    lines: list[np.ndarray] = []
    for each in indices:
        given: tuple[Any, ...] = (each,)
        if type(each) is np.ndarray:
            given = _marked(each, like.shape, len(made)) if each.dtype.kind == "b" else given
            lines += map(np.ravel, given)
        made += given
    if lines:
        sent = move(np.concatenate(lines, dtype=np.int64, casting="unsafe"), int(like.data.device_id))
        at = sent.data
        for d, each in enumerate(made):
            if type(each) is np.ndarray:
                made[d] = type(sent)(each.shape, sent.dtype, at)
                at = at + each.size * sent.itemsize  # CuPy adds in place otherwise
    return made


def _marked(mask: np.ndarray, shape: tuple[int, ...], start: int) -> tuple[np.ndarray, ...]:
    """The places that a mask marks, of an array of a shape, along each of its dimensions from ``start`` on."""
    if mask.shape != (marked := shape[start : start + mask.ndim]):
        raise IndexError(f"boolean index did not match: a mask of shape {list(mask.shape)} for dimensions of sizes {list(marked)}")
    return mask.nonzero()


def _parts(index: Any) -> tuple[Any, ...]:
    """An index as a tuple. A short list with a sequence, Tensor, slice, None or Ellipsis in it is one too, as in torch."""
    kind = type(index)
    if kind is tuple:
        return index
    if kind in _BASIC or kind is slice or kind is Tensor or kind is str or not isinstance(index, Sequence):
        return (index,)
    if len(index) >= _LONG or _WHOLE.issuperset(map(type, index)) or not any(map(_is_no_number, index)):
        return (index,)
    warnings.warn(
        "x[list] is read as x[tuple(list)] where the list holds more than numbers, as in torch, which deprecates it; write x[tuple(list)], "
        "or x[gradlib.tensor(list)] for places in the first dimension alone.",
        UserWarning,
        stacklevel=4,
    )
    return tuple(index)


_WHOLE = frozenset((int, bool))
_LONG = 32  # NumPy's and torch's heuristic for lists that are meant as one array


def _is_no_number(item: Any) -> bool:
    """Whether an element of a list makes the list a tuple of indices."""
    return item is None or item is Ellipsis or isinstance(item, (slice, Sequence, Tensor, np.ndarray)) or is_array(item)


def split(index: Any, x: Array) -> tuple[tuple[Any, ...] | None, list[Any] | None]:
    """An index in its two parts.

    Args:
        index: what stood between the brackets.
        x: the array to be indexed.
    Returns: the index of the view (with one Ellipsis; None when it is the whole of x) and, for the dimensions of that view, the arrays that
        gather from it (None in a list leaves a dimension whole; None instead of the list: nothing to gather), as ``array_index`` has them.
    Raises: IndexError for anything else than torch's and NumPy's indices.
    """
    read: list[tuple[Any, Any]] = []
    taken, has_ellipsis = 0, False
    for item in index if type(index) is tuple else _parts(index):
        part, array = NotImplemented if type(item) in _ARRAYS else _view_index(item), None
        if part is NotImplemented:
            array = array_index(item, x)
            values = array._array if isinstance(array, Tensor) else array
            taken += values.ndim if values.dtype.kind == "b" else 1
        elif part is Ellipsis:
            has_ellipsis = True
        elif part is not None:
            taken += 1
        read.append((part, array))
    view: list[Any] = []
    gather: list[Any] = []
    for part, array in read:
        if array is None:
            view.append(part)
            gather += [] if type(part) is int else [None] * (max(x.ndim - taken, 0) if part is Ellipsis else 1)
            continue
        values = array._array if isinstance(array, Tensor) else array
        mask = values.dtype.kind == "b"
        if values.ndim or (isinstance(array, Batched) and not mask):  # a number that differs from example to example is a place too
            view += [_EVERYTHING] * (values.ndim if mask else 1)
            gather.append(array)
        elif mask:
            if isinstance(array, Batched):
                refuse_values()
            view.append(None)
            gather.append(np.arange(int(values.item())))
        else:
            view.append(values.item())
    if not has_ellipsis:
        view.append(Ellipsis)
    while gather and gather[-1] is None:
        gather.pop()
    whole = view.count(_EVERYTHING) + view.count(Ellipsis) == len(view)
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}: {taken} given")
    return (None if whole else tuple(view)), (gather or None)


def _number(key: Any) -> Any:
    """The number in a 0-d Tensor of int64; any other index as it is."""
    return key._array.item() if type(key) is Tensor and not key._array.ndim and key._array.dtype is dtypes.int64 else key


def _view_alone(key: Any) -> tuple[Any, ...] | None:
    """The index with one Ellipsis, if it holds only numbers, slices, None and Ellipsis and so gives a view; None for any other."""
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) is slice:
            if type(item.start) not in _BOUNDS or type(item.stop) not in _BOUNDS or type(item.step) not in _BOUNDS:
                return None
        elif type(item) not in _BASIC:
            return None
    return items if ... in items else (*items, ...)


def _whole_or_places(key: tuple[Any, ...], array: Array) -> list[Any] | None:
    """The indices of gather for ``x[:, i]`` and alike: whole dimensions and Tensors of int64 beside the array, no more."""
    gather: list[Any] = []
    for item in key:
        if type(item) is Tensor:
            places = item._array
            if places.dtype is not dtypes.int64 or not places.ndim or type(places) is not type(array):
                return None
            if type(places) is not np.ndarray and places.data.device_id != array.data.device_id:
                return None
            gather.append(item)
        elif type(item) is slice and item.start is item.stop is item.step is None:
            gather.append(None)
        else:
            return None
    return gather if len(gather) <= array.ndim and gather[-1] is not None else None


def _common(key: Any, array: Array) -> tuple[tuple[Any, ...] | None, list[Any] | None]:
    """The common indices in two parts as ``split`` has them, of which one is None; both are for an index that must be read by it."""
    if type(key) is Tensor and key._array.ndim:
        places = key._array
        mask = places.dtype is dtypes.bool_ and places.ndim <= array.ndim
        if not (mask or (places.dtype is dtypes.int64 and array.ndim)) or type(places) is not type(array):
            return None, None
        here = type(places) is np.ndarray or places.data.device_id == array.data.device_id
        return None, [key] if here else None
    if type(key) is tuple and key and type(key[-1]) is Tensor:  # which no index of a view alone holds
        return None, _whole_or_places(key, array)
    return _view_alone(key if type(key) is not Tensor else _number(key)), None


def getitem(input: Tensor, key: Any) -> Tensor:
    """``input[key]``: a view for numbers, slices, None and Ellipsis, a copy as soon as arrays or masks take part.

    Numbers come before arrays, as in torch. On a CUDA device, arrays of integers are not checked against the size (that would need a copy
    to the host) and wrap around; a 0-d integer tensor is read by the host, as in torch.
    Raises: IndexError for positions outside the tensor and for anything but an index.
    """
    if type(key) is int or (type(key) is slice and type(key.start) in _BOUNDS and type(key.stop) in _BOUNDS and key.step is None):
        return slice_op(input, (key, ...))
    if type(key) is Tensor and key._array.ndim and key._array.dtype.kind in "bi" and type(key._array) is type(input._array):
        return index(input, [key])
    if type(key) is tuple and key and type(key[-1]) is Tensor:  # which no index of a view alone holds
        gather = _whole_or_places(key, input._array)
        if gather is not None:
            return index(input, gather)
    else:
        view = _view_alone(key if type(key) is not Tensor else _number(key))
        if view is not None:
            return slice_op(input, view)
    view, gather = split(key, input._array)
    if gather is None:
        return slice_op(input, view or (...,))
    region = input if view is None else slice_op(input, view)
    return index(region, beside(gather, region._array))


# ---- writing --------------------------------------------------------------------------------------------------------------------


@op(
    "linear", sequence="indices", overwrites="into", complex="explicit",
    input=lambda g, indices: index_put_op(g, 0.0, indices),
    values=lambda g, indices: index(g, indices),
)  # fmt: skip
def index_put_op(xp: Any, input: Any, values: Any, indices: Sequence[Any], into: bool = False) -> Any:
    """A copy of input whose elements at ``indices`` are replaced by values; ``into`` writes input itself."""
    result = input if into else row_major_copy(input) if input.flags.c_contiguous else copy(input)
    if xp is np or not indices or not placing.put(result, indices, values):
        _store(result, indices, values, fresh=not into)
    return result


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


def gathered_ndim(ndim: int, indices: Sequence[Any]) -> int:
    """The number of dimensions that ``index`` gives for a tensor of ndim."""
    taken, given = 0, 0
    for each in indices:
        if each is not None:
            array = each._array if isinstance(each, Tensor) else each
            mask = array.dtype.kind == "b"
            taken += array.ndim if mask else 1
            given = max(given, 1 if mask else array.ndim)
    return ndim - taken + given


def _fitting(value: Any, like: Array, ndim: int) -> Any:
    """The value to assign, in like's dtype and on its device, without leading dimensions of size 1 beyond ndim."""
    if type(value) is Tensor and value._array.dtype is like.dtype:  # the common case
        array = value._array
        if type(array) is type(like) and (type(array) is np.ndarray or array.data.device_id == like.data.device_id):
            return value if array.ndim <= ndim else trimmed(value, ndim)
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
    return trimmed(value, ndim)


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


def trimmed(value: Any, ndim: int) -> Any:
    """A value without the leading dimensions of size 1 that it has beyond ndim."""
    shape = value._array.shape if type(value) is Tensor else raw(value).shape
    extra = len(shape) - ndim
    return reshape(value, shape[extra:]) if extra > 0 and math.prod(shape[:extra]) == 1 else value


def _unrecorded(target: Tensor, value: Any) -> bool:
    """Whether a write needs no recording."""
    if type(target) is not Tensor or global_state.active or global_state.born is not None:
        return False
    if global_state.no_grad and not thread_state.grad_enabled:
        return True
    return target._node is None and getattr(value, "_node", None) is None and (target._meta is None or target._meta.view is None)


def _write_region(input: Tensor, region: Array, gather: list[Any] | None, values: Any) -> None:
    """Write a tensor's memory: all of a region, or its elements at the indices ``gather``; the write is counted."""
    if 0 in region.strides or (isinstance(region, np.ndarray) and not region.flags.writeable):
        refuse_memory(region, _WRITE)
    places = None if gather is None else [i._array if isinstance(i, Tensor) else i for i in gather]
    written = values._array if isinstance(values, Tensor) else values
    try:
        if type(region) is np.ndarray:
            done = False
        elif places is not None:
            done = placing.put(region, places, written)
        elif type(written) is float or type(written) is int:
            done = filled(region, written)
        else:
            done = moved(region, written) or placed(region, written)
        if not done:
            _store(region, places or (), written)
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
    view, gather = _common(key, array)
    if view is None and gather is None:
        view, gather = split(key, array)
    if gather is not None and isinstance(value, Tensor) and value._array.dtype != array.dtype and not _is_filling(gather, value, array):
        raise RuntimeError(f"x[indices] = value needs one dtype: x has {array.dtype}, value {value._array.dtype}; convert it with .to()")
    region = array if view is None else array[view] if type(array) is np.ndarray else _sliced(array, view)
    with on_device_of(array):
        any_rank = gather is None or type(value) is float or type(value) is int
        gather = gather and beside(gather, region)
        values = _fitting(value, array, region.ndim if any_rank else gathered_ndim(region.ndim, gather or ()))
        unrecorded = _unrecorded(input, value)
        whole = gather is None and region.shape == array.shape and input._base is None and _is_whole(view, region, array)
        if unrecorded or (gather is None and not whole and is_part_recordable(input)):
            _write_region(input, region, gather, values)
            if not unrecorded:
                rebase_part(input, (_SLICE, (view or (...,),), None), values._node if isinstance(values, Tensor) else None)
        elif whole:
            input.copy_(values) if isinstance(values, Tensor) or is_array(values) else input.fill_(values)
        elif gather is None:
            put = functools.partial(index_put_op, values=values, indices=[], into=not global_state.active)
            write(slice_op(input, view or (...,)), lambda shadow: put(shadow.data), _WRITE, False, False)
        else:
            target = input if view is None else slice_op(input, view)
            put = functools.partial(index_put_op, values=values, indices=gather, into=not global_state.active)
            write(target, put, _WRITE, False, False)


publish(getitem, "__getitem__")
publish(setitem, "__setitem__")
