"""Converts the arguments of NumPy's functions (lists, arrays, numbers) to Tensors of the dtype in which NumPy would compute."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array
from gradlib.core.tensor import Tensor, wrap
from gradlib.ops.join import stack

NUMBERS = frozenset((bool, int, float, complex))


def first_tensor(value: Any) -> Tensor | None:
    """The value itself if it is a Tensor, else the first Tensor in a list or tuple, however deep; None where there is none."""
    if isinstance(value, Tensor):
        return value
    if type(value) is list or type(value) is tuple:
        for each in value:
            if type(each) not in NUMBERS and (found := first_tensor(each)) is not None:
                return found
    return None


def the_tensor(value: Any) -> Tensor:
    """As ``first_tensor``, for arguments of which one must be a Tensor or hold one. Raises: TypeError where there is none."""
    found = first_tensor(value)
    if found is None:
        raise TypeError("there is no Tensor among the arguments; call NumPy's own function")
    return found


def tensor_of(value: Any, like: Tensor | None = None, dtype: Any = None) -> Tensor:
    """A value as a Tensor: lists of Tensors are stacked, arrays share their memory, numbers have NumPy's dtype.

    Args:
        value: a Tensor, an array, a number, or lists of them.
        like: a Tensor on whose device lists and numbers are put; arrays stay where they are.
        dtype: what it is converted to.
    Raises: TypeError for what holds no numbers.
    """
    if isinstance(value, Tensor):
        return value if dtype is None else cast(value, dtype)
    if isinstance(value, (list, tuple)) and first_tensor(value) is not None:
        parts = promoted(*value, like=like)
        return cast(stack(broadcast_same(parts)), dtype)
    if is_array(value):
        return cast(wrap(native(value)), dtype)
    made = np.asarray(value, dtype=dtype)
    if made.dtype.kind not in "biufc":
        raise TypeError(f"expected a Tensor, an array or numbers, got {type(value).__name__}")
    found = wrap(native(made))
    return found if like is None or not like.is_cuda else found.to(like.device)


def mask_of(value: Any, like: Tensor | None) -> Tensor:
    """A mask as a Tensor of bools on the device of ``like``. Operands must be there already; a mask may lie elsewhere."""
    found = tensor_of(value, like, dtypes.bool_)
    return found if like is None or like is found or found.is_cuda == like.is_cuda else found.to(like.device)


def broadcast_same(parts: Sequence[Tensor]) -> list[Tensor]:
    """The elements of a list, which must have one shape to be stacked. Raises: ValueError for several shapes, as NumPy does."""
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) > 1:
        raise ValueError(
            "setting an array element with a sequence: the parts of a list must have one shape, got " + ", ".join(map(str, sorted(shapes)))
        )
    return list(parts)


def native(array: Any) -> Any:
    """An array in a dtype that gradlib supports and in the machine's byte order. Raises: TypeError for other dtypes."""
    held = dtypes.as_dtype(array.dtype)
    if held not in HELD and not dtypes.is_half(held):  # type: ignore[arg-type]
        raise TypeError(f"gradlib holds {', '.join(sorted(d.name for d in HELD))} and bfloat16, got an array of {array.dtype}")
    return array if array.dtype == held and array.dtype.isnative else array.astype(held)


HELD = frozenset(
    map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"))
)


def held(dtype: Any) -> np.dtype:
    """The dtype of a result that NumPy would give in this one: int64 for unsigned integers wider than uint8, which gradlib lacks."""
    dtype = np.dtype(dtype)
    if dtype.kind == "u" and dtype.itemsize > 1:
        return dtypes.int64
    chosen = dtypes.as_dtype(dtype)
    if chosen is None or (chosen not in HELD and not dtypes.is_half(chosen)):
        raise TypeError(f"gradlib holds no elements of {dtype}")
    return chosen


def cast(x: Tensor, dtype: Any) -> Tensor:
    """The Tensor in another dtype, itself if it has that one or None is given. Of complex numbers the real part is kept, as in NumPy."""
    if dtype is None or x.dtype is dtype or x.dtype == dtype:
        return x
    dtype = held(dtype)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    return x.to(dtype)


def promoted(*values: Any, like: Tensor | None = None, floating: bool = False, dtype: Any = None) -> list[Tensor]:
    """Values as Tensors of one dtype, the one to which NumPy promotes them.

    Args:
        values: Tensors, arrays, numbers or lists.
        like: the Tensor on whose device lists and numbers are put; by default the first among the values.
        floating: whether integers and bools become float64.
        dtype: the dtype, where it is not to be found by promotion.
    """
    if dtype is None and _are_alike(values, floating):
        return list(values)
    like = like if like is not None else first_tensor(values)
    weak = [type(v) in NUMBERS for v in values]
    tensors = [None if light else tensor_of(v, like) for v, light in zip(values, weak, strict=True)]
    if dtype is None:
        dtype = common_dtype(*[v if t is None else t for v, t in zip(values, tensors, strict=True)])
        if floating and dtype.kind in "biu":
            dtype = dtypes.float64
    return [tensor_of(v, like, held(dtype)) if t is None else cast(t, dtype) for v, t in zip(values, tensors, strict=True)]


def promoted_arrays(*values: Any, like: Tensor | None = None, floating: bool = False, dtype: Any = None) -> list[Tensor]:
    """As ``promoted``, for functions of NumPy that call ``asarray`` on every argument: Python's numbers then take part in promotion."""
    if dtype is None and _are_alike(values, floating):
        return list(values)
    like = like if like is not None else first_tensor(values)
    return promoted(*[tensor_of(v, like) if type(v) in NUMBERS else v for v in values], like=like, floating=floating, dtype=dtype)


def _are_alike(values: Sequence[Any], floating: bool) -> bool:
    """Whether all are Tensors of one dtype already, so that ``promoted`` would return them as they are."""
    first: Any = None
    for value in values:
        if not isinstance(value, Tensor):
            return False
        dtype = value.dtype
        if dtype is not first and first is not None:
            return False
        first = dtype
    return first is not None and not (floating and first.kind in "biu")


def common_dtype(*values: Any) -> np.dtype:
    """The dtype to which NumPy promotes Tensors, arrays and numbers. Python's numbers are weak, as in NumPy 2."""
    found = [v if type(v) in NUMBERS else v.dtype if hasattr(v, "dtype") else np.asarray(v).dtype for v in values]
    return held(found[0] if len(found) == 1 and isinstance(found[0], np.dtype) else np.result_type(*found))


def floating(x: Any, like: Tensor | None = None) -> Tensor:
    """A value as a Tensor of floating or complex elements: integers and bools become float64, as in NumPy."""
    x = tensor_of(x, like)
    return x.to(dtypes.float64) if x.dtype.kind in "biu" else x


def sizes_of(shape: Any) -> tuple[int, ...]:
    """The sizes that a number, a sequence of them or an array of them names."""
    several = isinstance(shape, (tuple, list)) or (isinstance(shape, np.ndarray) and shape.ndim == 1)
    return tuple(map(operator.index, shape)) if several else (operator.index(shape),)


def sizes_with(x: Tensor, along: int, size: int) -> tuple[int, ...]:
    """The sizes of a Tensor with another along one axis."""
    return tuple(size if i == along else n for i, n in enumerate(x.shape))


def full_sizes(shape: Any) -> tuple[int, ...]:
    """Sizes of which none is left open. Raises: ValueError for negative ones."""
    sizes = sizes_of(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"sizes must not be negative, got {sizes}")
    return sizes


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that an ``axis=`` argument names, counted from 0; all for None. Raises: AxisError, ValueError for one named twice."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (axis_of(axis, ndim),)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(axis_of(each, ndim) for each in given)
    if len(set(found)) < len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def axis_of(axis: Any, ndim: int) -> int:
    """An axis counted from 0. Raises: numpy.exceptions.AxisError where there is none."""
    place = operator.index(axis)
    if not -ndim <= place < ndim:
        raise np.exceptions.AxisError(place, ndim)
    return place % ndim


def value_of(x: Any) -> Any:
    """The values of an argument that has no derivative, such as an index, a size or a mask, as a NumPy array or as they were given."""
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy()
    if isinstance(x, (list, tuple)) and first_tensor(x) is not None:
        return [value_of(each) for each in x]
    return x


def constant(array: Any, like: Tensor) -> Tensor:
    """A NumPy array as a Tensor on the device of another."""
    made = wrap(native(np.ascontiguousarray(array).reshape(np.shape(array))))
    return made.to(like.device) if like.is_cuda else made


def written(result: Any, out: Any, name: str) -> Any:
    """Write a result into ``out=`` and return that; without ``out=`` the result itself. A Tensor is written in place, which is recorded.

    Raises: TypeError for an array where the result requires grad or is on a GPU, and for a cast that loses; ValueError for another shape.
    """
    if out is None:
        return result
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
        return written(result, out, name)
    if isinstance(out, np.ndarray) and not result.requires_grad and not result.is_cuda:
        np.copyto(out, result.numpy(), casting="same_kind")
        return out
    if not isinstance(out, Tensor):
        raise TypeError(
            f"{name}: out= is {_described(out)}, but the result is a Tensor{' that requires grad' if result.requires_grad else ''} on "
            f"{result.device}; give a Tensor as out=, or leave it out"
        )
    if tuple(out.shape) != tuple(result.shape):
        raise ValueError(f"{name}: out= has shape {tuple(out.shape)}, the result {tuple(result.shape)}")
    if not np.can_cast(result.dtype, out.dtype, casting="same_kind"):
        raise TypeError(f"{name}: cannot cast the result from {result.dtype} to {out.dtype} of out= with casting rule 'same_kind'")
    return out.copy_(result)


def _described(value: Any) -> str:
    return "a NumPy array" if isinstance(value, np.ndarray) else type(value).__name__


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """As ``axes_of``, for reductions: NumPy's take a number for a vector of one, so that its axis may be 0 or -1."""
    return () if ndim == 0 and axis in (0, -1, (0,), (-1,)) else axes_of(axis, ndim)


def mask_within(where: Any, x: Tensor) -> Tensor:
    """A mask in the shape of x. Raises: ValueError for one that does not broadcast to it."""
    mask = mask_of(where, x)
    if np.broadcast_shapes(mask.shape, x.shape) != tuple(x.shape):
        raise ValueError(f"where= must broadcast to the shape {tuple(x.shape)} of the operand, got a mask of shape {tuple(mask.shape)}")
    return mask.broadcast_to(x.shape)


def vector(x: Tensor, name: str) -> Tensor:
    """A Tensor of one dimension; a number as a vector of one. Raises: ValueError for more dimensions."""
    if x.ndim > 1:
        raise ValueError(f"{name} takes vectors, got an array of shape {tuple(x.shape)}")
    return x.reshape((1,)) if x.ndim == 0 else x


def flat(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """A Tensor and the axis to work along, for functions that flatten where ``axis`` is None."""
    if axis is None or (x.ndim == 0 and axis in (0, -1)):  # NumPy's reductions take a number for a vector of one
        return (x if x.ndim == 1 else x.reshape((-1,))), 0
    return x, axis_of(axis, x.ndim)


def all_tensors(values: Iterable[Any]) -> list[Tensor]:
    """Each value as a Tensor in its own dtype."""
    values = list(values)
    like = first_tensor(values)
    return [tensor_of(v, like) for v in values]
