"""Batching rules of views, joins and permutations: dimension d of an example is dimension d + 1 of the physical tensor."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.dtype import promote
from gradlib.core.batched import Batched
from gradlib.core.declaration import Op
from gradlib.core.tensor import Tensor, raw
from gradlib.func.level import Level
from gradlib.func.rules import named, perform, physical, replace_arguments, rule, run
from gradlib.ops.convert import to
from gradlib.ops.dims import wrap_dim, wrap_dims


@rule("view_as_real", "view_as_complex", "constant_pad", "farthest", "copy_row_major")
def last_dimensions(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Operations on the last dimensions, which are the same in logical and physical tensors."""
    return perform(op, (args[0].value, *args[1:]))


@rule("tril", "triu")
def triangle(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    if args[0].ndim < 2:
        raise RuntimeError(f"{op.name}: input tensor must have at least 2 dimensions, got shape {list(args[0].shape)}")
    return perform(op, (args[0].value, *args[1:]))


@rule("reshape", "view")
def reshape(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape = args
    shape = tuple(shape)
    if -1 in shape and not level.size:
        known = -math.prod(shape)
        shape = tuple(math.prod(input.shape) // known if n == -1 and known else n for n in shape)
    if -1 not in shape and math.prod(shape) != math.prod(input.shape):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {math.prod(input.shape)}")
    return perform(op, (input.value, (level.size, *shape)))


@rule("view_dtype")
def view_dtype(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dtype = args
    made = perform(op, (input.value, dtype))
    if not input.ndim and made.itemsize != input.itemsize:
        raise RuntimeError(f"cannot view a 0-d tensor of {input.dtype} as {made.dtype}: their sizes differ")
    return made


@rule("expand")
def expand(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape = args
    x, extra = input.value, len(shape) - input.ndim
    if extra > 0:
        x = x.reshape((level.size, *(1,) * extra, *x.shape[1:]))
    return perform(op, (x, (level.size, *shape)))


@rule("permute")
def permute(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dims = args
    if len(dims) != input.ndim:
        raise RuntimeError(f"permute(): the tensor has {input.ndim} dimensions, but the order of {len(dims)} was given: {tuple(dims)}")
    return perform(op, (input.value, (0, *(wrap_dim(d, input.ndim) + 1 for d in dims))))


@rule("transpose")
def transpose(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, *dims = args
    first, second = (wrap_dim(d, input.ndim) + 1 for d in dims)
    return run("expand", input.value, input.value.shape) if not input.ndim else perform(op, (input.value, first, second))


@rule("t")
def t(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    (input,) = args
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return run("transpose", input.value, 1, 2) if input.ndim == 2 else run("expand", input.value, input.value.shape)


@rule("squeeze")
def squeeze(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dim = args
    named = () if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if not input.ndim and any(d not in (0, -1) for d in named):
        raise RuntimeError(f"Dimension is out of range (expected to be in range of [-1, 0], but got {list(named)})")
    dims = range(input.ndim) if dim is None else wrap_dims(dim, input.ndim)
    chosen = tuple(d + 1 for d in dims if input.ndim and input.shape[d] == 1)
    return perform(op, (input.value, chosen))


@rule("unsqueeze")
def unsqueeze(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dim = args
    return perform(op, (input.value, wrap_dim(dim, input.ndim + 1) + 1))


@rule("diagonal")
def diagonal(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, offset, dim1, dim2 = args
    return perform(op, (input.value, offset, wrap_dim(dim1, input.ndim) + 1, wrap_dim(dim2, input.ndim) + 1))


@rule("diagonal_backward")
def diagonal_backward(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape, offset, dim1, dim2 = args
    rank = len(shape)
    return perform(op, (input.value, (level.size, *shape), offset, wrap_dim(dim1, rank) + 1, wrap_dim(dim2, rank) + 1))


@rule("unfold")
def unfold(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dimension, size, step = args
    at = wrap_dim(dimension, input.ndim)
    x = input.value if input.ndim else input.value.reshape((level.size, 1))
    made = perform(op, (x, at + 1, size, step))
    return made if input.ndim else made.reshape((level.size, size))


@rule("unfold_backward")
def unfold_backward(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape, dim, size, step = args
    if not shape:
        return input.value.sum(1)
    return perform(op, (input.value, (level.size, *shape), wrap_dim(dim, len(shape)) + 1, size, step))


@rule("unbind", "split_with_sizes", "unsafe_split_with_sizes")
def parts(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, *sizes, dim = args
    if not input.ndim:
        raise (IndexError if op.name == "unbind" else RuntimeError)(f"{op.name} cannot be applied to a 0-dim tensor")
    return perform(op, (input.value, *sizes, wrap_dim(dim, input.ndim) + 1))


@rule("as_strided")
def as_strided(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """A strided view of each example; the batch keeps its stride. Examples that share one memory have each its own derivative."""
    input, size, stride, start, layout = args
    step = input.value.stride()[0]
    return perform(op, (input.value, (level.size, *size), (step, *stride), start, (step or None, *layout)))


@rule("as_strided_backward", "as_strided_gather")
def as_strided_along(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Derivatives of ``as_strided``, for each example its own."""
    given = named(op, args)
    size, stride, layout = (given[name] for name in ("size", "stride", "layout"))
    new = {"input": given["input"].value, "size": (level.size, *size), "stride": (0, *stride), "layout": (None, *layout)}
    if "shape" in given:
        new["shape"] = (level.size, *given["shape"])
    return perform(op, replace_arguments(op, args, **new))


# ---- permutations --------------------------------------------------------------------------------------------------------------


@rule("flip")
def flip(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dims = args
    chosen = wrap_dims(dims, input.ndim)
    return perform(op, (input.value, tuple(d + 1 for d in chosen) if input.ndim else ()))


@rule("rot90")
def rot90(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, k, dims = args
    return perform(op, (input.value, k, tuple(wrap_dim(d, input.ndim) + 1 for d in dims)))


@rule("roll")
def roll(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shifts, dims = args
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        flat = input.value.reshape((level.size, math.prod(input.shape)))
        return perform(op, (flat, shifts, 1)).reshape(input.value.shape)
    along = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {along[0]} but tensor has no dimensions")
    return perform(op, (input.value, shifts, tuple(wrap_dim(d, input.ndim) + 1 for d in along)))


@rule("interleave")
def interleave(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, repeats, dim = args
    return perform(op, (input.value, repeats, wrap_dim(dim, input.ndim) + 1))


@rule("repeat")
def repeat(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, repeats = args
    extra = len(repeats) - input.ndim
    if extra < 0:
        raise RuntimeError(
            f"Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: {list(repeats)} for shape "
            f"{list(input.shape)}"
        )
    return perform(op, (input.value.reshape((level.size, *(1,) * extra, *input.shape)), (1, *repeats)))


# ---- joined ---------------------------------------------------------------------------------------------------------------------


@rule("cat")
def cat(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    tensors, dim = args
    kept = [x for x in tensors if tuple(x.shape) != (0,)] or tensors
    rank = kept[0].ndim
    for i, x in enumerate(kept):
        if not x.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    return perform(op, ([physical(level, x) for x in _in_one_dtype(tensors, kept)], wrap_dim(dim, rank) + 1))


@rule("stack")
def stack(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    tensors, dim = args
    return perform(op, ([physical(level, x) for x in _in_one_dtype(tensors, tensors)], wrap_dim(dim, tensors[0].ndim + 1) + 1))


def _in_one_dtype(tensors: Any, kept: Any) -> list[Any]:
    """Convert the tensors to the dtype to which they are promoted as logical tensors."""
    if len({x.dtype for x in tensors}) == 1:
        return list(kept)
    dtype = promote([raw(x) for x in tensors])[0].dtype
    return [_to(x, dtype) for x in kept]


def _to(x: Any, dtype: Any) -> Any:
    if not isinstance(x, Tensor):
        return x.astype(dtype)
    return x.again(to(x.value, dtype)) if isinstance(x, Batched) else to(x, dtype)
