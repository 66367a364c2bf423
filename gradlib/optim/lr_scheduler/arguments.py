"""Arguments that several schedules take, checked."""

from __future__ import annotations

from typing import Any

from gradlib.optim.optimizer import Optimizer


def checked_optimizer(optimizer: Any) -> Optimizer:
    """The optimiser itself, once it is seen to be one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def checked_strategy(strategy: str) -> str:
    """The name of an annealing itself, once it is seen to be one."""
    if strategy not in ("cos", "linear"):
        raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {strategy}")
    return strategy


def positive_integer(name: str, value: Any) -> int:
    """The number itself, once it is seen to be a positive integer."""
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from one for all or a list of them."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {count}."
        )
    return list(value)
