"""Indexing by NumPy's rules where torch's differ: slices with negative steps, and numbers beside index arrays."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import tensor_of, value_of
from gradlib.ops.rearrange import flip
from gradlib.ops.shape import broadcast_to

_EVERYTHING = slice(None)


def subscript(x: Tensor, key: Any) -> Tensor:
    """``x[key]`` as NumPy has it: a view for slices and numbers, a copy for lists, index arrays and masks."""
    keys = _decoded(key)
    if not any(isinstance(each, np.ndarray) for each in keys):
        forward, turned = forward_slices(x, keys)
        found = Tensor.__getitem__(x, forward)
        return flip(found, turned) if turned else found
    slices, rest = _in_two_steps(x, keys)
    return Tensor.__getitem__(x if slices is None else subscript(x, slices), rest)


def assign(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value`` as NumPy has it: the value is cast to x's dtype and broadcast.

    Raises: IndexError for index arrays beside a slice with a negative step, and where a value that requires grad would be written
        to one place more than once, since only the last write stays.
    """
    keys = _decoded(key)
    value = tensor_of(value, x, x.dtype) if not isinstance(value, (bool, int, float, complex)) else value
    if any(isinstance(each, np.ndarray) for each in keys):
        slices, rest = _in_two_steps(x, keys)
        if isinstance(value, Tensor) and value.requires_grad and value.ndim and _names_a_place_twice(x, rest):
            raise IndexError("an index that names a place twice cannot be assigned values with a derivative; numpy.add.at adds them up")
        if slices is not None and forward_slices(x, slices)[1]:
            raise IndexError("index arrays beside a slice with a negative step cannot be assigned to; give the slice as an index array")
        Tensor.__setitem__(x if slices is None else subscript(x, slices), rest, _trimmed(value))
        return
    forward, turned = forward_slices(x, keys)
    if turned and isinstance(value, Tensor):
        value = flip(broadcast_to(_trimmed(value), Tensor.__getitem__(x, forward).shape), turned)
    Tensor.__setitem__(x, forward, _trimmed(value))


def _names_a_place_twice(x: Tensor, keys: tuple[Any, ...]) -> bool:
    """Whether a key with index arrays selects some element more than once."""
    sizes: list[int] = []
    places: list[np.ndarray] = []
    dim = 0
    for each in keys:
        if isinstance(each, np.ndarray):
            found = each.nonzero() if each.dtype == np.bool_ else (each,)
            sizes += x.shape[dim : dim + len(found)]
            places += found
        dim += _taken((each,))
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), sizes, mode="wrap").ravel()
    return bool(np.unique(flat).size < flat.size)


def _trimmed(value: Any) -> Any:
    """A value without its leading dimensions of size 1, which NumPy ignores in assignments."""
    while isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] == 1:
        value = Tensor.__getitem__(value, 0)
    return value


def _decoded(key: Any) -> tuple[Any, ...]:
    """The key as a tuple of numbers, slices, None, Ellipsis, and NumPy arrays of integers or bools."""
    keys = tuple(map(_decoded_one, key)) if isinstance(key, tuple) else (_decoded_one(key),)
    if len(keys) > 1 and any(isinstance(each, bool) for each in keys):
        raise IndexError("a bool is an index by itself only; give numpy.newaxis in its place, or an array of bools")
    if sum(isinstance(each, EllipsisType) for each in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    return keys


def _decoded_one(key: Any) -> Any:
    if key is None or isinstance(key, (int, slice, EllipsisType)):
        return key
    array = np.asarray(value_of(key))
    if not array.size and not hasattr(key, "dtype"):
        array = array.astype(np.intp)  # an empty list
    if array.dtype == np.bool_:
        return array if array.ndim else bool(array)
    if array.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices, "
            f"got {array.dtype if hasattr(key, 'dtype') or isinstance(key, list) else type(key).__name__}"
        )
    return array.astype(np.int64) if array.ndim else int(array)


def _in_two_steps(x: Tensor, keys: tuple[Any, ...]) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]]:
    """Split a key with index arrays in two, to be applied one after the other.

    Returns: the slices with a negative step (None without such), and the rest, in which numbers have become index arrays.
    """
    rank = max(1 if each.dtype == np.bool_ else each.ndim for each in keys if isinstance(each, np.ndarray))
    rest: list[Any] = []
    slices: list[Any] = []
    backward = False
    for each in _without_ellipsis(x, keys):
        if isinstance(each, slice) and each.step is not None and each.step < 0:
            backward = True
            slices.append(each)
            rest.append(_EVERYTHING)
            continue
        if each is not None and not isinstance(each, bool):
            slices += [_EVERYTHING] * (each.ndim if isinstance(each, np.ndarray) and each.dtype == np.bool_ else 1)
        rest.append(np.full((1,) * rank, each) if type(each) is int else each)
    return tuple(slices) if backward else None, tuple(rest)


def _without_ellipsis(x: Tensor, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with its Ellipsis replaced by a full slice for each dimension that it covers."""
    at = next((i for i, each in enumerate(keys) if isinstance(each, EllipsisType)), None)
    if at is None:
        return keys
    return (*keys[:at], *[_EVERYTHING] * (x.ndim - _taken(keys)), *keys[at + 1 :])


def forward_slices(x: Tensor, key: Any) -> tuple[Any, tuple[int, ...]]:
    """A key in which every slice has a positive step, and the dimensions of the result that must then be flipped.

    Raises: IndexError for a slice with a negative step beside a Tensor of indices.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(each, slice) and each.step is not None and each.step < 0 for each in keys):
        return key, ()
    source = result = 0
    forward: list[Any] = []
    turned: list[int] = []
    for each in keys:
        if isinstance(each, slice):
            if each.step is not None and each.step < 0:
                each = _ascending(range(*each.indices(x.shape[source])))
                turned.append(result)
            source, result = source + 1, result + 1
        elif isinstance(each, EllipsisType):
            skipped = x.ndim - _taken(keys)
            source, result = source + skipped, result + skipped
        elif each is None:
            result += 1
        elif isinstance(each, Tensor) and each.ndim:
            raise IndexError("an index of arrays takes no slice with a negative step; flip the array first")
        else:
            source += _taken((each,))
        forward.append(each)
    return tuple(forward), tuple(turned)


def _taken(keys: tuple[Any, ...]) -> int:
    """The number of dimensions of the array that a key indexes, not counting its Ellipsis."""
    count = 0
    for each in keys:
        if each is None or isinstance(each, (bool, EllipsisType)):
            continue
        count += each.ndim if getattr(each, "dtype", None) == np.bool_ else 1
    return count


def _ascending(places: range) -> slice:
    """The slice with a positive step that selects the same elements as a descending range."""
    return slice(places[-1], places[0] + 1, -places.step) if places else slice(0, 0)
