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
_ALONE = frozenset((*_BASIC, slice, Tensor, np.ndarray))
"""The types of what is an index alone, or one part of it."""


def _view_index(item: Any) -> Any:
    """The part of a view's index that an item of an unusual type is, or NotImplemented for an array."""
    if type(item) is slice:  # of plain numbers from now on: a Tensor there could be written later
        return slice(*[b if b is None else operator.index(b) for b in (item.start, item.stop, item.step)])
    if isinstance(item, (bool, np.bool_, Tensor, Sequence, np.ndarray)) or is_array(item):
        return NotImplemented
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or bool arrays are valid indices "
            f"(got {type(item).__name__}: {item!r})"
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


def beside(indices: list[Any], like: Array, one: bool = False) -> list[Any]:
    """The arrays of an index where the array is that they index: those of the host go to its device by one copy.

    A mask of the host goes as the places that it marks, whose number the host then need not wait for.

    Args:
        indices: for the leading dimensions of ``like`` an array for each, a mask for several, or None.
        one: one element is written at all of them, for which nobody needs to know how many they are: a lone mask stays one.
    """
    if isinstance(like, np.ndarray):
        return indices
    if one and len(indices) == 1 and type(indices[0]) is np.ndarray and indices[0].dtype.kind == "b":
        return [move(indices[0], int(like.data.device_id))]
    made: list[Any] = []
    lines: list[np.ndarray] = []
    start = 0  # of the dimensions that an index is for
    for each in indices:
        given: tuple[Any, ...] = (each,)
        mask = each is not None and each.dtype.kind == "b"
        if type(each) is np.ndarray:
            given = _marked(each, like.shape, start) if mask else given
            lines += map(np.ravel, given)
        made += given
        start += each.ndim if mask else 1
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
    if type(index) is Tensor and not index._array.ndim and index._array.dtype is dtypes.int64:
        index = index._array.item()
    items = index if type(index) is tuple else (index,) if type(index) in _ALONE else _parts(index)
    if items and type(items[-1]) is Tensor:  # which no index of a view alone holds
        gather = _whole_or_places(items, x)
        return _read(items, x) if gather is None else (None, gather)
    for item in items:
        if type(item) is slice:
            if type(item.start) not in BOUNDS or type(item.stop) not in BOUNDS or type(item.step) not in BOUNDS:
                return _read(items, x)
        elif type(item) not in _BASIC:
            return _read(items, x)
    return (items if ... in items else (*items, ...)), None


def _whole_or_places(items: tuple[Any, ...], x: Array) -> list[Any] | None:
    """The arrays to gather by for ``x[i]``, ``x[:, i]`` and alike: whole dimensions, and Tensors of int64 and masks beside x, no more."""
    gather: list[Any] = []
    taken = 0
    for item in items:
        if type(item) is Tensor:
            places = item._array
            mask = places.dtype is dtypes.bool_
            if not (mask or places.dtype is dtypes.int64) or not places.ndim or type(places) is not type(x):
                return None
            if type(places) is not np.ndarray and places.data.device_id != x.data.device_id:
                return None
            gather.append(item)
            taken += places.ndim if mask else 1
        elif type(item) is slice and item.start is item.stop is item.step is None:
            gather.append(None)
            taken += 1
        else:
            return None
    return gather if taken <= x.ndim else None


def _read(items: tuple[Any, ...], x: Array) -> tuple[tuple[Any, ...] | None, list[Any] | None]:
    """``split`` of any index."""
    read: list[tuple[Any, Any]] = []
    taken, has_ellipsis = 0, False
    for item in items:
        kind, part, array = type(item), item, None
        if kind in _ARRAYS:
            part = NotImplemented
        elif kind not in _BASIC and (kind is not slice or not BOUNDS.issuperset((type(item.start), type(item.stop), type(item.step)))):
            part = _view_index(item)
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
