"""Averages of parameters along the way: stochastic weight averaging and exponential moving averages. Source: torch.optim.swa_utils."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradlib.core.grad_mode import no_grad
from gradlib.core.tensor import Tensor
from gradlib.optim.lr_scheduler.arguments import checked_strategy, for_groups
from gradlib.optim.lr_scheduler.groups import Rate
from gradlib.optim.lr_scheduler.scheduler import LRScheduler
from gradlib.optim.optimizer import Optimizer, write

__all__ = ["SWALR", "AveragedParameters", "get_ema_avg_fn", "get_swa_avg_fn"]

Average = Callable[[Tensor, Tensor, int], Tensor]


def get_swa_avg_fn() -> Average:
    """The mean of all that were averaged: ``average + (value - average) / (n + 1)``.

    Source: torch.optim.swa_utils.get_swa_avg_fn.
    Example:
        >>> average = gradlib.optim.swa_utils.get_swa_avg_fn()
        >>> average(gradlib.tensor([1.0]), gradlib.tensor([3.0]), 1)
        tensor([2.])
    """

    def swa_update(averaged: Tensor, current: Tensor, num_averaged: int) -> Tensor:
        return averaged + (current - averaged) / (num_averaged + 1)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average ``decay average + (1 - decay) value``.

    Args:
        decay: between 0 and 1.
    Raises: ValueError for a decay outside [0, 1].
    Source: torch.optim.swa_utils.get_ema_avg_fn.
    Example:
        >>> average = gradlib.optim.swa_utils.get_ema_avg_fn(0.5)
        >>> average(gradlib.tensor([1.0]), gradlib.tensor([3.0]), 1)
        tensor([2.])
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def ema_update(averaged: Tensor, current: Tensor, num_averaged: int) -> Tensor:
        return decay * averaged + (1 - decay) * current

    return ema_update


class AveragedParameters:
    """An average of tensors beside the tensors themselves, updated now and then: often better than the last of them.

    What torch.optim.swa_utils.AveragedModel does for a module's parameters, for a list of tensors.

    Args:
        params: the tensors; copies of them are the first average.
        avg_fn: (average, value, number averaged so far) -> new average; the mean by default.
    Raises: ValueError at an update with another number of tensors or other shapes.
    Source: torch.optim.swa_utils.AveragedModel, for a list of tensors in the place of a module.
    Example:
        >>> x = gradlib.zeros(1)
        >>> average = gradlib.optim.swa_utils.AveragedParameters([x])
        >>> average.update_parameters([x])
    """

    def __init__(self, params: Iterable[Tensor], avg_fn: Average | None = None) -> None:
        self.params = [value.detach().clone() for value in params]
        self.avg_fn = avg_fn or get_swa_avg_fn()
        self.n_averaged = 0

    def update_parameters(self, params: Iterable[Tensor]) -> None:
        """Take the tensors' present values into the average; the first time they are the average."""
        values = self._matching(params)
        with no_grad():
            for averaged, value in zip(self.params, values, strict=True):
                value = value.detach().to(averaged.device)
                new = value if self.n_averaged == 0 else self.avg_fn(averaged, value, self.n_averaged)
                write(averaged, new._array)
        self.n_averaged += 1

    def copy_to(self, params: Iterable[Tensor]) -> None:
        """Write the average into the tensors."""
        for averaged, value in zip(self.params, self._matching(params), strict=True):
            write(value, averaged.to(value.device)._array)

    def state_dict(self) -> dict[str, Any]:
        """{"n_averaged": count, "params": the averages}, sharing their memory."""
        return {"n_averaged": self.n_averaged, "params": list(self.params)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved average."""
        for averaged, saved in zip(self.params, self._matching(state_dict["params"]), strict=True):
            write(averaged, saved.to(averaged.device)._array)
        self.n_averaged = int(state_dict["n_averaged"])

    def _matching(self, params: Iterable[Tensor]) -> list[Tensor]:
        values = list(params)
        expected, received = ([tuple(value.shape) for value in each] for each in (self.params, values))
        if expected != received:
            raise ValueError(f"the average was made for tensors of shapes {expected}; got {received}")
        return values


class SWALR(LRScheduler):
    """The rate moves to a fixed one over some epochs and stays there, for the time in which parameters are averaged.

    Args:
        optimizer: whose rates are set.
        swa_lr: the rate to reach, or one for each group.
        anneal_epochs: how long it takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: the epoch to resume after.
    Raises: ValueError for an unknown strategy or a negative number of epochs.
    Source: torch.optim.swa_utils.SWALR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=1)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_groups("swa_lr", optimizer, swa_lr)
        self.anneal_strategy = checked_strategy(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates

    def _part(self, step: int) -> float:
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
