"""The registry of batching rules, and functions that rules share.

A batching rule ``rule(level, op, args)`` runs an operation on physical tensors, outside the level, and returns physical tensors with the
batch as first dimension. ``RULES`` has them by the operation's name; the modules ``rules_*.py`` fill it. An operation without a rule runs
example by example, with a warning.
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
    """The batching rule of an operation: its own, or for elementwise operations the rule "pointwise"; None without one."""
    return RULES.get(op.name) or (RULES["pointwise"] if op.kind == "elementwise" and len(op.outputs) == 1 else None)


def pad_to_rank(level: VmapLevel, value: Any, rank: int) -> Any:
    """The physical tensor, with dimensions of size 1 after the batch so that an example has ``rank``; other values unchanged."""
    if type(value) is not Batched or value.level is not level:
        return value
    physical = value.value
    missing = rank + 1 - physical.ndim
    return physical if missing <= 0 else physical.reshape((level.size, *(1,) * missing, *physical.shape[1:]))


def ndim(value: Any) -> int:
    """The number of dimensions of a tensor or array; 0 for a Python number."""
    return getattr(value, "ndim", 0)


def replace_arguments(op: Op, args: tuple[Any, ...], **new: Any) -> tuple[Any, ...]:
    """The arguments with some replaced by name."""
    return tuple(new.get(name, value) for name, value in zip(op.params, args, strict=True))


def perform(op: Op, args: tuple[Any, ...]) -> Any:
    """Call an operation. It goes by the public function, which takes the fast path."""
    if not op.keyword_only:
        return op.call(*args)
    positional = len(args) - len(op.keyword_only)
    return op.call(*args[:positional], **dict(zip(op.keyword_only, args[positional:], strict=True)))


def named(op: Op, args: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments by name."""
    return dict(zip(op.params, args, strict=True))


def run(name: str, *args: Any) -> Any:
    """Call an operation given by name, with all of its arguments."""
    return perform(REGISTRY[name], args)


def one_by_one(level: VmapLevel, op: Op, args: tuple[Any, ...]) -> Any:
    """The fallback for operations without a rule: run the operation on each example in a loop, and stack the results."""
    if not level.size:
        raise RuntimeError(f"vmap: {op.name} has no batching rule and cannot be run example by example over a batch of size 0")
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {op.name}; it runs once per example.",
        UserWarning,
        stacklevel=2,
    )
    made = [perform(op, tuple(example(level, value, i) for value in args)) for i in range(level.size)]
    if isinstance(made[0], tuple):
        return tuple(run("stack", list(parts), 0) for parts in zip(*made, strict=True))
    return run("stack", made, 0)


def example(level: VmapLevel, value: Any, number: int) -> Any:
    """Example ``number`` of an argument; one that is not batched is the same for every example."""
    if isinstance(value, (list, tuple)):
        return [example(level, each, number) for each in value]
    return value.value[number] if level.holds(value) else value


def physical(level: VmapLevel, value: Any) -> Any:
    """The physical tensor of a logical one; an unbatched value is expanded over the batch; None stays None."""
    if value is None:
        return None
    if type(value) is Batched and value.level is level:
        return value.value
    if isinstance(value, Tensor):
        return level.broadcast(value)
    return level.broadcast(as_tensor(value))


def any_batched(level: VmapLevel, values: Sequence[Any]) -> bool:
    """Whether some of these values are logical tensors at this level."""
    return any(level.holds(value) for value in values)
