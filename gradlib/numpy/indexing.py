"""Choosing elements, and writing them, with NumPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.joining import concatenate
from gradlib.numpy.operands import (
    axes_of,
    axis_of,
    cast,
    constant,
    first_tensor,
    flat,
    mask_of,
    promoted,
    tensor_of,
    the_tensor,
    value_of,
    written,
)
from gradlib.numpy.registry import implements
from gradlib.ops import gather, index as indices, join, select


def _places(chosen: Any, size: int, mode: str) -> np.ndarray:
    """Indices counted from 0, as ``mode`` treats those outside. Raises: IndexError for these in mode "raise"."""
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    found = np.asarray(value_of(chosen))
    if found.size == 0:
        return found.astype(np.intp)
    if found.dtype.kind not in "biu":
        raise IndexError(f"indices are integers, got {found.dtype}")
    found = found.astype(np.intp)
    if mode == "clip":
        return np.clip(found, 0, size - 1)
    if mode == "wrap":
        return found % size
    if (found < -size).any() or (found >= size).any():
        raise IndexError(f"index {found[(found < -size) | (found >= size)][0]} is out of bounds for size {size}")
    return np.where(found < 0, found + size, found)


def along_axis(along: int, key: Any) -> tuple[Any, ...]:
    """An index for one axis."""
    return (*[slice(None)] * along, key)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    """The elements, or slices along an axis, at these places."""
    x, along = flat(tensor_of(a, first_tensor(indices)), axis)
    places = _places(indices, x.shape[along], mode)
    taken = x[along_axis(along, places)]
    return written(taken if np.ndim(places) else taken.clone(), out, "numpy.take")  # a single place is a view


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    """Elements along an axis, for each line its own."""
    x, along = flat(tensor_of(arr, first_tensor(indices)), axis)
    places = tensor_of(indices, x)
    if places.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    places = places.to(np.int64)
    if places.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return gather.take_along_dim(x, places, along)


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write elements along an axis, for each line its own, in place."""
    x = target(arr, "put_along_axis")
    if axis is None:
        x.reshape((-1,))[np.asarray(value_of(indices))] = cast(tensor_of(values, x), x.dtype)
        return
    along, places = axis_of(axis, x.ndim), np.asarray(value_of(indices))
    key = tuple(places if i == along else np.arange(n).reshape([-1 if j == i else 1 for j in range(x.ndim)]) for i, n in enumerate(x.shape))
    x[key] = cast(tensor_of(values, x), x.dtype)


def target(value: Any, name: str) -> Tensor:
    """The target of a write in place: a Tensor, since an array would drop the derivative."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"numpy.{name} writes into its first argument, which must be a Tensor where the values are, got {type(value).__name__}"
        )
    return value


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write elements at places of the flattened array, in place."""
    x = target(a, "put")
    places = _places(ind, int(np.prod(x.shape)), mode).ravel()
    values = cast(tensor_of(v, x), x.dtype).reshape((-1,))
    x[np.unravel_index(places, tuple(x.shape))] = values[np.arange(places.size) % values.shape[0]]


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write values one after the other where the mask is true, in place."""
    x = target(arr, "place")
    chosen = np.flatnonzero(value_of(mask))
    if chosen.size:
        put(x, chosen, tensor_of(vals, x).reshape((-1,)))


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write where the mask is true, from the same place of the values, in place."""
    x = target(a, "putmask")
    chosen, given = np.flatnonzero(value_of(mask)), tensor_of(values, x).reshape((-1,))
    if chosen.size:
        put(x, chosen, given[chosen % given.shape[0]])


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write the values, in place; where the mask is true."""
    x = target(dst, "copyto")
    given = tensor_of(src, x)
    if not np.can_cast(given.dtype, x.dtype, casting=casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {given.dtype!r} to {x.dtype!r} according to the rule {casting!r}")
    given = cast(given, x.dtype)
    x.copy_(given if where is True else select.where(mask_of(where, x), given, x))


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write the main diagonal, in place."""
    x = target(a, "fill_diagonal")
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if wrap:
        raise TypeError("numpy.fill_diagonal does not take wrap=True for a Tensor; write through an index instead")
    count = min(x.shape)
    values = cast(tensor_of(val, x), x.dtype).reshape((-1,))
    x[(np.arange(count),) * x.ndim] = values[np.arange(count) % values.shape[0]]


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """At each place from the choice that ``a`` says."""
    parts = promoted(*choices, like=first_tensor((a, choices)))
    chosen = _places(a, len(parts), mode)
    if mode == "raise" and (np.asarray(value_of(a)) < 0).any():
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(chosen.shape, *[tuple(part.shape) for part in parts])
    together = join.stack([part.broadcast_to(shape) for part in parts])
    places = tensor_of(np.broadcast_to(chosen, shape)[None].copy(), None).to(together.device)
    return written(gather.take_along_dim(together, places, 0)[0], out, "numpy.choose")


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    """The slices along an axis for which the condition is true."""
    x, along = flat(tensor_of(a, first_tensor(condition)), axis)
    if np.ndim(value_of(condition)) != 1:
        raise ValueError("condition must be a 1-d array")
    return written(x[along_axis(along, np.flatnonzero(value_of(condition)))], out, "numpy.compress")


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Tensor:
    """The elements for which the condition is true."""
    return tensor_of(arr, first_tensor(condition)).reshape((-1,))[np.flatnonzero(value_of(condition))]


@implements(np.where)
def where(condition: Any, *choice: Any) -> Any:
    """Elements of x where the condition is true, of y elsewhere; alone, the indices where it is."""
    if not choice:
        return nonzero(condition)
    if len(choice) != 2:
        raise ValueError("either both or neither of x and y should be given")
    like = condition if isinstance(condition, Tensor) else first_tensor((condition, choice))
    x, y = promoted(*choice, like=like)
    return select.where_op(mask_of(condition, like), x, y)


@implements(np.select)
def select_(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Elements from the first choice whose condition is true."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError("list of cases must be same length as list of conditions")
    like = first_tensor((condlist, choicelist, default))
    for i, condition in enumerate(condlist):
        if tensor_of(condition, like).dtype != np.bool_:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    *parts, result = promoted(*choicelist, default, like=like)
    for condition, part in reversed(list(zip(condlist, parts, strict=True))):
        result = select.where(mask_of(condition, like), part, result)
    return result


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """Functions, or numbers, each on the part of x where its condition is true."""
    t = tensor_of(x)
    several = isinstance(condlist, (list, tuple)) and (np.ndim(value_of(condlist[0])) > 0 or t.ndim == 0)
    conditions = list(condlist) if several else [condlist]
    masks = [np.asarray(value_of(each), dtype=bool) for each in conditions]
    if len(funclist) == len(masks) + 1:
        masks.append(~np.any(masks, axis=0))
    elif len(funclist) != len(masks):
        raise ValueError(f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions are expected")
    result = t.new_zeros(tuple(t.shape)) if t.ndim else t.new_zeros((1,))
    t = t if t.ndim else t.reshape((1,))
    for mask, function in zip(masks, funclist, strict=True):
        chosen = np.nonzero(mask.reshape(tuple(t.shape)))
        if chosen[0].size:
            values = function(t[chosen], *args, **kw) if callable(function) else function
            result = result.index_put(chosen_tensors(chosen, t), cast(tensor_of(values, t), t.dtype).broadcast_to((chosen[0].size,)))
    return result.reshape(tuple(tensor_of(x).shape))


def chosen_tensors(places: tuple[np.ndarray, ...], like: Tensor) -> tuple[Tensor, ...]:
    """Index arrays as Tensors on the device of another."""
    return tuple(constant(each, like) for each in places)


@implements(np.nonzero, exact=True)
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, a Tensor for each axis."""
    x = tensor_of(a).detach()
    if not x.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(indices.nonzero(x, as_tuple=True))


@implements(np.flatnonzero, exact=True)
def flatnonzero(a: Any) -> Tensor:
    """The indices of the elements that are not zero, in the flattened array."""
    return nonzero(tensor_of(a).reshape((-1,)))[0]


@implements(np.argwhere, exact=True)
def argwhere(a: Any) -> Tensor:
    """The indices of the elements that are not zero, one in each row."""
    return indices.argwhere(tensor_of(a).detach())


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    """Without the slices at these places."""
    x, along = flat(tensor_of(arr), axis)
    return x[along_axis(along, np.delete(np.arange(x.shape[along]), value_of(obj)))]


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    """An array with values inserted before these indices."""
    like = first_tensor((arr, values))
    x = tensor_of(arr, like)
    given = cast(tensor_of(values, like), x.dtype)
    places = np.arange(x.numel()).reshape(tuple(x.shape))
    new = np.arange(x.numel(), x.numel() + given.numel()).reshape(tuple(given.shape))
    arranged = np.insert(places, obj if isinstance(obj, slice) else value_of(obj), new, axis)
    return concatenate([x.reshape((-1,)), given.reshape((-1,))])[arranged]


@implements(np.ix_, exact=True)
def ix_(*args: Any) -> tuple[np.ndarray, ...]:
    """Index arrays that choose a grid."""
    return np.ix_(*map(value_of, args))


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    """Without the zeros at its ends."""
    x = tensor_of(filt)
    if x.ndim != 1:
        raise TypeError("numpy.trim_zeros takes a Tensor of one dimension")
    axes_of(axis, 1)
    left = np.flatnonzero(value_of(x))
    if not left.size:
        return x[:0]
    return x[int(left[0]) if "f" in trim.lower() else 0 : int(left[-1]) + 1 if "b" in trim.lower() else None]


@implements(np.diag_indices_from, exact=True)
def diag_indices_from(arr: Any) -> tuple[np.ndarray, ...]:
    """The places of the diagonal."""
    return np.diag_indices_from(np.broadcast_to(0, tuple(tensor_of(arr).shape)))


@implements(np.tril_indices_from, exact=True)
def tril_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """The places of the lower triangle."""
    return np.tril_indices_from(np.broadcast_to(0, tuple(tensor_of(arr).shape)), k)


@implements(np.triu_indices_from, exact=True)
def triu_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """The places of the upper triangle."""
    return np.triu_indices_from(np.broadcast_to(0, tuple(tensor_of(arr).shape)), k)


@implements(np.unravel_index, exact=True)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> tuple[Tensor, ...]:
    """Places in the flattened array as places along each axis."""
    like = tensor_of(indices)
    return tuple(constant(each, like) for each in np.unravel_index(value_of(indices), shape, order))


@implements(np.ravel_multi_index, exact=True)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Tensor:
    """Places along each axis as places in the flattened array."""
    like = the_tensor(multi_index)
    given = tuple(value_of(each) for each in multi_index)
    return constant(np.asarray(np.ravel_multi_index(given, dims, mode, order)), like)
