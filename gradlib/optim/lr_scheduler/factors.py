"""Schedules that multiply the rate by a factor of the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from gradlib.optim.lr_scheduler.arguments import checked_optimizer
from gradlib.optim.lr_scheduler.groups import Rate
from gradlib.optim.lr_scheduler.scheduler import LRScheduler
from gradlib.optim.optimizer import Optimizer

Multiplier = Callable[[int], float]


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch.

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or one for each group.
        last_epoch: the epoch to resume after.
    Raises: ValueError for another number of functions than groups.
    Source: torch.optim.lr_scheduler.LambdaLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Multiplier | Sequence[Multiplier], last_epoch: int = -1) -> None:
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LRScheduler):
    """At each epoch the rate is multiplied by a function of the epoch.

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or one for each group.
        last_epoch: the epoch to resume after.
    Raises: ValueError for another number of functions than groups; TypeError for what cannot be called.
    Source: torch.optim.lr_scheduler.MultiplicativeLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Multiplier | Sequence[Multiplier], last_epoch: int = -1) -> None:
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if initial:
            return self._unchanged()
        groups = self.optimizer.param_groups
        return [group["lr"] * factor(self.last_epoch) for group, factor in zip(groups, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The rate is multiplied by gamma every ``step_size`` epochs.

    Args:
        optimizer: whose rates are set.
        step_size: epochs between two changes.
        gamma: the factor.
        last_epoch: the epoch to resume after.
    Source: torch.optim.lr_scheduler.StepLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.StepLR(optimizer, step_size=1)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.1]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._unchanged()
        return self._scaled(self.gamma)

    def closed_form(self) -> list[Rate]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate is multiplied by gamma at each of the epochs named.

    Args:
        optimizer: whose rates are set.
        milestones: the epochs; one named twice counts twice.
        gamma: the factor.
        last_epoch: the epoch to resume after.
    Source: torch.optim.lr_scheduler.MultiStepLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1])
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.1]
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if self.last_epoch not in self.milestones:
            return self._unchanged()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def closed_form(self) -> list[Rate]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times a factor, until ``total_iters`` epochs have passed.

    Args:
        optimizer: whose rates are set.
        factor: between 0 and 1.
        total_iters: after how many epochs the factor goes.
        last_epoch: the epoch to resume after.
    Raises: ValueError for a factor outside [0, 1].
    Source: torch.optim.lr_scheduler.ConstantLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1; got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._unchanged()

    def closed_form(self) -> list[Rate]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that moves linearly from start to end: a warm-up.

    Args:
        optimizer: whose rates are set.
        start_factor: above 0 and at most 1.
        end_factor: between 0 and 1.
        total_iters: after how many epochs the end is reached.
        last_epoch: the epoch to resume after.
    Raises: ValueError for a factor out of its range.
    Source: torch.optim.lr_scheduler.LinearLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.LinearLR(optimizer, total_iters=2)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.6666666666666666]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"Starting multiplicative factor expected to be greater than 0 and less or equal to 1; got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1; got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def closed_form(self) -> list[Rate]:
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate is multiplied by gamma at every epoch.

    Args:
        optimizer: whose rates are set.
        gamma: the factor.
        last_epoch: the epoch to resume after.
    Source: torch.optim.lr_scheduler.ExponentialLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        return self._unchanged() if initial else self._scaled(self.gamma)

    def closed_form(self) -> list[Rate]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to zero as a power of the epochs that are left.

    Args:
        optimizer: whose rates are set.
        total_iters: when zero is reached.
        power: of the polynomial.
        last_epoch: the epoch to resume after.
    Source: torch.optim.lr_scheduler.PolynomialLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        left = (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        return self._scaled(left**self.power)

    def closed_form(self) -> list[Rate]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


def _functions(optimizer: Optimizer, functions: Multiplier | Sequence[Multiplier]) -> list[Multiplier]:
    count = len(checked_optimizer(optimizer).param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * count  # type: ignore[list-item]
    if len(functions) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
    return list(functions)
