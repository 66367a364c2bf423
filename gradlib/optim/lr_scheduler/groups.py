"""The rates in an optimiser's groups, as schedules read and set them."""

from __future__ import annotations

from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.optim.optimizer import Group, Optimizer, write

Rate = Any  # a float, or a Tensor that holds one


def copied(rate: Rate) -> Rate:
    """The rate itself, or a copy of the Tensor that holds it."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def values(optimizer: Optimizer, key: str) -> list[Rate]:
    """What stands under a key in each group; of a Tensor a copy, since its memory is written at the next step."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_rate(group: Group, rate: Rate) -> None:
    """Set a group's rate; one that is a Tensor keeps its memory."""
    if isinstance(group["lr"], Tensor):
        write(group["lr"], rate._array if isinstance(rate, Tensor) else rate)
    else:
        group["lr"] = float(rate) if isinstance(rate, Tensor) else rate
