"""Forward mode through a custom Function: its own ``jvp`` gives the tangents of what it returned."""

from __future__ import annotations

from typing import Any

from gradlib.autograd.function_node import FunctionNode
from gradlib.backend.array import zeros_like
from gradlib.backend.dtype import is_differentiable
from gradlib.core.forward import Level
from gradlib.core.modes import beneath
from gradlib.core.tensor import Tensor, wrap


def carry(level: Level, node: FunctionNode, arguments: tuple[Any, ...], made: Any) -> None:
    """Let the results of a call carry, at this level, what the user's ``jvp`` makes of the arguments' tangents.

    Args:
        level: a level of forward mode, at which the call itself was not seen.
        node, arguments, made: the call, what forward received and what it returned.
    Raises: NotImplementedError when there is no ``jvp``; RuntimeError naming the Function when what it returns does not fit.
    """
    tangents = [level.tangent(a) for a in arguments]
    if all(t is None for t in tangents):
        return
    if node.materialize:
        tangents = [_zeros(a) if t is None else t for a, t in zip(arguments, tangents, strict=True)]
    node.in_jvp = True
    try:
        with beneath(level):
            moved = node.public.apply_jvp(*tangents)
    finally:
        node.in_jvp = False
    moved = moved if isinstance(moved, tuple) else (moved,)
    results = made if isinstance(made, tuple) else (made,)
    name = node.ctx_class._forward_cls.__name__
    if len(moved) != len(results):
        raise RuntimeError(f"{name}.jvp returned an invalid number of forward gradients (expected {len(results)} but got {len(moved)})")
    for position, (result, tangent) in enumerate(zip(results, moved, strict=True)):
        if tangent is None:
            continue
        if not isinstance(tangent, Tensor):
            raise RuntimeError(f"{name}.jvp returned {type(tangent).__name__} for output {position}; it gives a Tensor or None")
        _check(f"{name}.jvp returned for output {position}", node, position, result, tangent, level)
        level.attach(result, tangent)


def _zeros(value: Any) -> Tensor | None:
    if not isinstance(value, Tensor) or not is_differentiable(value._array.dtype):
        return None
    return wrap(zeros_like(value._array))


def _check(says: str, node: FunctionNode, position: int, result: Any, tangent: Tensor, level: Level) -> None:
    if not isinstance(result, Tensor) or position in node.constant or not is_differentiable(result._array.dtype):
        raise RuntimeError(f"{says} a tangent, but that output is not a differentiable Tensor; return None at that position instead")
    if tangent.shape != result.shape or tangent.dtype != result.dtype or tangent.device != result.device:
        raise RuntimeError(
            f"{says} a tangent of shape {list(tangent.shape)}, {tangent.dtype} on {tangent.device}; the output has shape "
            f"{list(result.shape)}, {result.dtype} on {result.device}"
        )
    held = level.tangent(result)
    if held is not None and held is not tangent:  # the output is an input that forward wrote
        raise RuntimeError(
            f"{says} a tangent of its own. If the forward is modifying an input inplace, then the jvp function must modify the gradient "
            "inplace and return it as-is."
        )
    if held is None and result._is_view() and not tangent._is_view():
        raise RuntimeError(f"{says} a fresh tangent, but the forward is returning a view (or an input as-is): then jvp returns a view too")
