"""Batching rules of products of matrices."""

from __future__ import annotations

import math
from typing import Any

from gradlib.core.batched import Batched
from gradlib.core.declaration import Op
from gradlib.core.op import REGISTRY
from gradlib.core.tensor import raw
from gradlib.func.level import Level
from gradlib.func.rules import ndim, pad_to_rank, perform, rule, run
from gradlib.ops.contract import interleaved
from gradlib.ops.dims import wrap_dim


@rule("matmul")
def matmul(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """One large product if an operand is the same for all examples, else a batch of products."""
    a, b = args
    if op.meet is not None:
        op.meet([raw(a), raw(b)])  # check the examples' dtypes and shapes: with the batch, vectors become matrices, which might fit
    if not level.holds(b):
        return _unbatched_right(level, op, a, b)
    if not level.holds(a) and a.ndim <= 2 and b.ndim == 1:
        return perform(op, (b.value, a if a.ndim == 1 else run("transpose", a, 0, 1)))
    if a.ndim == 1 and b.ndim == 1:
        return _dots(a.value, b.value)
    left, right = _matrix(level, a, True), _matrix(level, b, False)
    rank = max(left.ndim, right.ndim)
    made = perform(op, (pad_to_rank(level, left, rank), pad_to_rank(level, right, rank)))
    if a.ndim == 1:
        made = made.reshape((*made.shape[:-2], made.shape[-1]))
    return made.reshape(made.shape[:-1]) if b.ndim == 1 else made


def _dots(a: Any, b: Any) -> Any:
    """The scalar product of each pair of examples."""
    product = (a * b).sum(1)
    return product if product.dtype == a.dtype else product.to(a.dtype)


def _unbatched_right(level: Level, op: Op, a: Any, b: Any) -> Any:
    """The product with an unbatched right operand."""
    x = a.value
    if a.ndim == 1 and b.ndim > 2:
        made = perform(op, (x.reshape((level.size, *(1,) * (b.ndim - 1), x.shape[-1])), b))
        return made.reshape((*made.shape[:-2], made.shape[-1]))
    if b.ndim > 2:
        return perform(op, (pad_to_rank(level, a, max(a.ndim, b.ndim)), b))
    if x.ndim > 2:
        made = perform(op, (x.reshape((math.prod(x.shape[:-1]), x.shape[-1])), b))
        return made.reshape((*x.shape[:-1], *made.shape[1:]))
    return perform(op, (x, b))


def _matrix(level: Level, value: Any, as_row: bool) -> Any:
    """A vector as a matrix with one row or one column."""
    if value.ndim != 1:
        return value
    if not level.holds(value):
        return run("unsqueeze", value, 0 if as_row else 1)
    return Batched(level, run("unsqueeze", value.value, 1 if as_row else 2))


@rule("linear")
def linear(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """``input @ weight.T + bias``: one call of the operation if weight and bias are the same for all examples."""
    input, weight, bias = args
    if op.meet is not None:
        op.meet([raw(input), raw(weight), raw(bias)])
    if not level.holds(weight) and not level.holds(bias):
        return perform(op, (input.value, weight, bias))
    if level.holds(weight):
        product = _by_batched_weight(level, input, weight)
    elif level.holds(input):
        product = matmul(level, REGISTRY["matmul"], (input, run("transpose", weight, 0, 1)))
    else:
        product = run("unsqueeze", run("matmul", input, run("transpose", weight, 0, 1)), 0)
    return product + pad_to_rank(level, bias, product.ndim - 1)


@rule("linear_unbiased")
def linear_unbiased(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """``input @ weight.T``: one call of the operation if weight is the same for all examples."""
    input, weight = args
    if op.meet is not None:
        op.meet([raw(input), raw(weight)])
    return _by_batched_weight(level, input, weight) if level.holds(weight) else perform(op, (input.value, weight))


@rule("left_transposed")
def left_transposed(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """``input.T @ other``: a product with the transpose, which may be of each example's own."""
    input, other = args
    if op.meet is not None:
        op.meet([raw(input), raw(other)])
    turned = Batched(level, run("transpose", input.value, 1, 2)) if level.holds(input) else run("transpose", input, 0, 1)
    return matmul(level, REGISTRY["matmul"], (turned, other))


def _by_batched_weight(level: Level, input: Any, weight: Any) -> Any:
    """The product with the transpose of a weight of each example's own."""
    return matmul(level, REGISTRY["matmul"], (input, Batched(level, run("transpose", weight.value, 1, 2))))


@rule("contract")
def contract(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """A product whose result, and whichever operand is batched, has one dimension more."""
    input, other, pair = args
    values = [each.value if level.holds(each) else each for each in (input, other)]
    return perform(op, (*values, pair.batched(level.size, level.holds(input), level.holds(other))))


@rule("cross")
def cross(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, other, dim = args
    rank = max(ndim(input), ndim(other))
    back = wrap_dim(dim, rank) - rank  # counted from the end, the dimension is the same for both operands, batched or not
    return perform(op, (pad_to_rank(level, input, rank), pad_to_rank(level, other, rank), back))


@rule("euclidean_distance", "pair_distance")
def distances(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    points, rest = args[:2], args[2:]
    rank = max(ndim(x) for x in points)
    return perform(op, (*(pad_to_rank(level, x, rank) for x in points), *rest))


@rule("kron")
def kron(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The factors broadcast, example by example, as their shapes are apart."""
    wide, fine, whole = interleaved(*(tuple(x.shape) for x in args))
    shaped = zip(args, (wide, fine), strict=True)
    a, b = (x.value.reshape((level.size, *shape)) if level.holds(x) else x.reshape((1, *shape)) for x, shape in shaped)
    return (a * b).reshape((level.size, *whole))
