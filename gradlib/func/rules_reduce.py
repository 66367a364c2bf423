"""Batching rules of reductions and scans: dimension d of an example is dimension d + 1 of the physical tensor."""

from __future__ import annotations

from typing import Any

from gradlib.core.declaration import Op
from gradlib.func.level import Level
from gradlib.func.rules import named, pad_to_rank, perform, physical, replace_arguments, rule, run
from gradlib.ops.dims import wrap_dim, wrap_dims


@rule("sum", "mean", "nansum", "amax", "amin", "all", "any", "count_nonzero", "std", "var", "vector_norm", "logsumexp", "nanmean")
def over_several(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Reductions over one dimension, several or all."""
    given = named(op, args)
    x, dim, rank = given["input"].value, given["dim"], given["input"].ndim
    if not rank:
        wrap_dims(() if dim is None else dim, 0)
        return _reduce_0d(op, args, x)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if dim is not None and op.name in ("all", "any"):
            return perform(op, replace_arguments(op, args, input=x))
        dim = range(rank)
    dims = tuple(d + 1 for d in wrap_dims(dim if isinstance(dim, (tuple, list, range)) else (dim,), rank))
    return perform(op, replace_arguments(op, args, input=x, dim=dims))


def _reduce_0d(op: Op, args: tuple[Any, ...], x: Any) -> Any:
    """Reduce 0-d examples, which have a dimension 0 to reduce, as in torch."""
    changed = {"keepdim": False} if "keepdim" in op.params else {}
    return perform(op, replace_arguments(op, args, input=x.reshape((x.shape[0], 1)), dim=1, **changed))


@rule("trace")
def trace(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The sums over the diagonals of a batch of matrices."""
    (input,) = args
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim} (shape {list(input.shape)})")
    return run("sum", run("diagonal", input.value, 0, 1, 2), -1, False, None)


@rule("prod", "argmax", "argmin")
def over_one(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Reductions over one dimension or all."""
    given = named(op, args)
    x, dim, rank = given["input"].value, given["dim"], given["input"].ndim
    if not rank:
        if dim is not None:
            wrap_dim(dim, 0)
        return _reduce_0d(op, args, x)
    if dim is not None:
        return perform(op, replace_arguments(op, args, input=x, dim=wrap_dim(dim, rank) + 1))
    made = perform(op, replace_arguments(op, args, input=_flat(x), dim=1, keepdim=False))
    return made.reshape((level.size, *(1,) * rank)) if given["keepdim"] else made


def _flat(x: Any) -> Any:
    """Flatten each example."""
    count = 1
    for n in x.shape[1:]:
        count *= n
    return x.reshape((x.shape[0], count))


@rule(
    "cumsum", "cumsum_from_end", "diff", "diff_backward", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax", "log_softmax", "sort",
    "argsort", "topk", "kthvalue", "median", "max", "min", "fft_r2c", "fft_c2r", "fft_inner", "trapezoid",
)  # fmt: skip
def along_one(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Operations along one dimension; a 0-d example is treated as 1-d."""
    given = named(op, args)
    x, rank = given["input"].value, given["input"].ndim
    dim = wrap_dim(given["dim"], rank)
    if rank:
        return perform(op, replace_arguments(op, args, input=x, dim=dim + 1))
    made = perform(op, replace_arguments(op, args, input=x.reshape((x.shape[0], 1)), dim=1))
    if isinstance(made, tuple):
        return tuple(each.reshape((level.size, *each.shape[2:])) for each in made)
    return made.reshape((level.size,))


@rule("fft_c2c")
def over_some(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Operations over dimensions that are not negative."""
    given = named(op, args)
    return perform(op, replace_arguments(op, args, input=given["input"].value, dim=tuple(d + 1 for d in given["dim"])))


@rule("smooth_distance")
def smooth_distance(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The sum or mean over each example."""
    pair, beta, divided, mean = args
    input, target = (physical(level, x) for x in pair)
    each = run("smooth_absolute", input - target, beta, divided)
    return run("mean" if mean else "sum", _flat(each), 1, False, None)


@rule("squared_distance")
def squared_distance(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The sum or mean over each example."""
    input, target, mean = args
    each = run("square", physical(level, input) - physical(level, target))
    return run("mean" if mean else "sum", _flat(each), 1, False, None)


@rule("max_all", "min_all", "median_all")
def of_all(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The maximum, minimum or median of each example, behind the batch and what it leaves out itself."""
    input, lead = args
    x = input.value
    return perform(op, (x.unsqueeze(-1) if input.ndim == lead else x, lead + 1))


@rule("trapezoid_backward")
def trapezoid_backward(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Spread each example's integrals over its samples."""
    input, shape, dim = args
    return perform(op, (input.value, (level.size, *shape), dim + 1))


@rule("spread")
def spread(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Broadcast a reduction's result over the dimensions of an example that it reduced."""
    input, shape, dim, keepdim = args
    x, rank = input.value, len(shape)
    if not rank:
        return x
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        dims = tuple(range(1, rank + 1))
    else:
        dims = tuple(d + 1 for d in wrap_dims(dim if isinstance(dim, (tuple, list)) else (dim,), rank))
    return perform(op, (x, (level.size, *shape), dims, keepdim))


@rule("native_layer_norm")
def native_layer_norm(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, dims, eps = args
    return perform(op, (input.value, tuple(d + 1 for d in wrap_dims(dims, input.ndim)), eps))


@rule("affine_layer_norm")
def affine_layer_norm(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """One call of the operation if weight and bias are the same for all examples."""
    input, dims, eps, weight, bias = args
    x, rank, dims = physical(level, input), input.ndim, tuple(d + 1 for d in wrap_dims(dims, input.ndim))
    if not level.holds(weight) and not level.holds(bias):
        return perform(op, (x, dims, eps, weight, bias))
    out, centre, rstd = run("native_layer_norm", x, dims, eps)
    return out * pad_to_rank(level, weight, rank) + pad_to_rank(level, bias, rank), centre, rstd
