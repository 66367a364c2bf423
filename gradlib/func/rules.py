"""Batching rules: where they are registered, and what they are made of.

A rule is a function ``rule(level, op, args)`` that runs below the level and returns physical tensors, batch dimension in front. ``RULES``
has them by the operation's name; the ``rules_*.py`` beside this file fill it. An operation without one runs row by row, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gradlib.core.batched import Batched, VmapLevel
from gradlib.core.declaration import Op
from gradlib.core.op import REGISTRY
from gradlib.core.tensor import Tensor
from gradlib.ops.from_data import as_tensor

Rule = Callable[[Any, Any, tuple[Any, ...]], Any]

RULES: dict[str, Rule] = {}
"""The batching rule of each operation, by name."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a batching rule for operations."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def rule_of(op: Op) -> Rule | None:
    """The batching rule of an operation: its own, or what its kind says."""
    return RULES.get(op.name) or (RULES["pointwise"] if op.kind == "elementwise" and len(op.outputs) == 1 else None)


def pad_to_rank(level: VmapLevel, value: Any, rank: int) -> Any:
    """The physical tensor of a row, with dimensions of size 1 behind the batch's so that rows have ``rank``; other values as they are."""
    if type(value) is not Batched or value.level is not level:
        return value
    physical = value.value
    missing = rank + 1 - physical.ndim
    return physical if missing <= 0 else physical.reshape((level.size, *(1,) * missing, *physical.shape[1:]))


def ndim(value: Any) -> int:
    return getattr(value, "ndim", 0)


def replace_arguments(op: Op, args: tuple[Any, ...], **new: Any) -> tuple[Any, ...]:
    """The arguments with some replaced by name."""
    return tuple(new.get(name, value) for name, value in zip(op.params, args, strict=True))


def perform(op: Op, args: tuple[Any, ...]) -> Any:
    """An operation on its arguments, by its public function, which is quickest."""
    return op.call(*args)


def named(op: Op, args: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments by name."""
    return dict(zip(op.params, args, strict=True))


def run(name: str, *args: Any) -> Any:
    """An operation by name, on all of its arguments."""
    return perform(REGISTRY[name], args)


def row_by_row(level: VmapLevel, op: Op, args: tuple[Any, ...]) -> Any:
    """The fallback: the operation on each row, one after the other, and the results stacked."""
    if not level.size:
        raise RuntimeError(f"vmap: {op.name} has no batching rule and cannot be run row by row over a batch of size 0")
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {op.name}; it runs once per row.",
        UserWarning,
        stacklevel=2,
    )
    made = [perform(op, tuple(row(level, value, i) for value in args)) for i in range(level.size)]
    if isinstance(made[0], tuple):
        return tuple(run("stack", list(parts), 0) for parts in zip(*made, strict=True))
    return run("stack", made, 0)


def row(level: VmapLevel, value: Any, number: int) -> Any:
    """Row ``number`` of an argument."""
    if isinstance(value, (list, tuple)):
        return [row(level, each, number) for each in value]
    return value.value[number] if level.holds(value) else value


def physical(level: VmapLevel, value: Any) -> Any:
    """The physical tensor of a row, or one spread over the batch from what is the same for all rows; None stays None."""
    if value is None:
        return None
    if type(value) is Batched and value.level is level:
        return value.value
    if isinstance(value, Tensor):
        return level.broadcast(value)
    return level.broadcast(as_tensor(value))


def any_batched(level: VmapLevel, values: Sequence[Any]) -> bool:
    return any(level.holds(value) for value in values)
