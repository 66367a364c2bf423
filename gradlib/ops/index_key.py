"""What stands between the brackets of ``x[...]``, read: a view, then arrays that gather from it, as `gradlib.ops.index` takes them."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_index, is_array, move, on_device_of
from gradlib.backend.copying import copy
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.tensor import Tensor
from gradlib.ops.dims import WHOLE

_BASIC = frozenset((int, type(None), type(Ellipsis)))
BOUNDS = frozenset((int, type(None)))
"""The types of a slice's bounds that are read as they are."""
_ARRAYS = frozenset((list, np.ndarray, Tensor))


def _view_index(item: Any) -> Any:
    """The part of a view's index that item is, or NotImplemented for an array; what NumPy would only meet later is refused here."""
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        return item
    if kind is slice:
        bounds = (item.start, item.stop, item.step)  # plain numbers from now on: a Tensor there could be written later
        return item if BOUNDS.issuperset(map(type, bounds)) else slice(*[b if b is None else operator.index(b) for b in bounds])
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
    if len(index) >= _LONG or _NUMBERS.issuperset(map(type, index)) or not any(map(_is_no_number, index)):
        return (index,)
    warnings.warn(
        "x[list] is read as x[tuple(list)] where the list holds more than numbers, as in torch, which deprecates it; write x[tuple(list)], "
        "or x[gradlib.tensor(list)] for places in the first dimension alone.",
        UserWarning,
        stacklevel=4,
    )
    return tuple(index)


_NUMBERS = frozenset((int, bool))
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
            view += [WHOLE] * (values.ndim if mask else 1)
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
    whole = view.count(WHOLE) + view.count(Ellipsis) == len(view)
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}: {taken} given")
    return (None if whole else tuple(view)), (gather or None)


def number(key: Any) -> Any:
    """The number in a 0-d Tensor of int64; any other index as it is."""
    return key._array.item() if type(key) is Tensor and not key._array.ndim and key._array.dtype is dtypes.int64 else key


def view_alone(key: Any) -> tuple[Any, ...] | None:
    """The index with one Ellipsis, if it holds only numbers, slices, None and Ellipsis and so gives a view; None for any other."""
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) is slice:
            if type(item.start) not in BOUNDS or type(item.stop) not in BOUNDS or type(item.step) not in BOUNDS:
                return None
        elif type(item) not in _BASIC:
            return None
    return items if ... in items else (*items, ...)


def whole_or_places(key: tuple[Any, ...], array: Array) -> list[Any] | None:
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


def common(key: Any, array: Array) -> tuple[tuple[Any, ...] | None, list[Any] | None]:
    """The common indices in two parts as ``split`` has them, of which one is None; both are for an index that must be read by it."""
    if type(key) is Tensor and key._array.ndim:
        places = key._array
        mask = places.dtype is dtypes.bool_ and places.ndim <= array.ndim
        if not (mask or (places.dtype is dtypes.int64 and array.ndim)) or type(places) is not type(array):
            return None, None
        here = type(places) is np.ndarray or places.data.device_id == array.data.device_id
        return None, [key] if here else None
    if type(key) is tuple and key and type(key[-1]) is Tensor:  # which no index of a view alone holds
        return None, whole_or_places(key, array)
    return view_alone(key if type(key) is not Tensor else number(key)), None
