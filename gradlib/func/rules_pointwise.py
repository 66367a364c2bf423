"""Batching rules of pointwise operations: examples of smaller rank get dimensions of size 1 after the batch; the rest is broadcasting."""

from __future__ import annotations

from typing import Any

from gradlib.core.batched import Batched
from gradlib.core.declaration import Op
from gradlib.core.tensor import Tensor, raw
from gradlib.func.level import Level
from gradlib.func.rules import named, ndim, pad_to_rank, perform, physical, replace_arguments, rule, run
from gradlib.ops.convert import to


@rule(
    "pointwise",
    "add", "sub", "rsub", "mul", "neg", "where", "complex", "conj_physical", "real", "imag", "clone", "contiguous", "to_copy", "zero",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift",
    "eq", "ne", "lt", "le", "gt", "ge", "isclose", "isfinite", "isinf", "isnan", "signbit",
    "logical_and", "logical_or", "logical_xor", "logical_not", "binary_cross_entropy_with_logits",
)  # fmt: skip
def pointwise(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Operands are aligned at their last dimensions, and brought to the dtype to which the logical tensors are promoted."""
    if op.positions == (0,):
        return perform(op, (args[0].value, *args[1:]))
    operands = [args[i] for i in op.positions]
    rank = max([ndim(x) for x in operands])
    full = list(args)
    kinds = {x.dtype for x in operands if isinstance(x, Tensor)}
    met: list[Any] = operands
    if len(kinds) > 1 and op.meet is not None:  # promotion ranks a 0-d logical tensor below its physical tensor
        met = op.meet([raw(x) for x in operands])
    for position, value, like in zip(op.positions, operands, met, strict=True):
        if type(value) is Batched and value.level is level:
            full[position] = pad_to_rank(level, value, rank)
        if like is not value and isinstance(value, Tensor) and value.dtype != like.dtype:
            full[position] = to(full[position], like.dtype)
    return perform(op, tuple(full))


@rule("masked_fill")
def masked_fill(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    given = named(op, args)
    input, mask, value = given["input"], given["mask"], given["value"]
    rank = max(ndim(input), ndim(mask))
    if not level.holds(value):
        return perform(op, replace_arguments(op, args, input=pad_to_rank(level, input, rank), mask=pad_to_rank(level, mask, rank)))
    if value.ndim:
        raise RuntimeError(f"masked_fill only supports a 0-dimensional value tensor, but got shape {list(value.shape)}")
    value = to(pad_to_rank(level, value, rank), input.dtype)
    return run("where", pad_to_rank(level, mask, rank), value, pad_to_rank(level, input, rank))


@rule("copy")
def copy(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, src = args
    return perform(op, (physical(level, input), pad_to_rank(level, src, input.ndim)))


@rule("fill")
def fill(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, value = args
    if not level.holds(value):
        return perform(op, (input.value, value))
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return run("copy", physical(level, input), pad_to_rank(level, value, input.ndim))
