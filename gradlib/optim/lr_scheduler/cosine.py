"""Schedules along a cosine, with and without restarts."""

from __future__ import annotations

import math

from gradlib.optim.lr_scheduler.arguments import positive_integer
from gradlib.optim.lr_scheduler.groups import Rate
from gradlib.optim.lr_scheduler.scheduler import LRScheduler
from gradlib.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """The rate falls to ``eta_min`` along half a cosine, and rises again if it goes on.

    Args:
        optimizer: whose rates are set.
        T_max: epochs of the fall.
        eta_min: the lowest rate.
        last_epoch: the epoch to resume after.
    Source: torch.optim.lr_scheduler.CosineAnnealingLR; I. Loshchilov and F. Hutter, SGDR, ICLR 2017.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        if initial:
            return self._unchanged()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate stood at eta_min, which no factor leaves
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True)
            ]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in self.optimizer.param_groups]

    def closed_form(self) -> list[Rate]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate falls to ``eta_min`` along half a cosine and starts again, each time ``T_mult`` times longer.

    Args:
        optimizer: whose rates are set.
        T_0: epochs of the first fall.
        T_mult: factor of the next one's length.
        eta_min: the lowest rate.
        last_epoch: the epoch to resume after.
    Raises: ValueError for lengths that are no positive integers.
    Source: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts; I. Loshchilov and F. Hutter, SGDR, ICLR 2017.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        positive_integer("T_0", T_0)
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def start(self) -> None:
        if self.last_epoch < 0:
            self._place(0)
        else:
            self._advance()
        self._step_count = 1
        self._set_rates(math.floor(self.last_epoch + 1))

    def get_lr(self, initial: bool = False) -> list[Rate]:
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may lie between two (after a part of its batches)."""
        if epoch is None:
            self._advance()
            self._set_rates(self.last_epoch + 1)
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self.restart(epoch)

    def restart(self, epoch: float) -> None:
        self._place(epoch)
        self._set_rates(math.floor(epoch))

    def _advance(self) -> None:
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur %= self.T_i
            self.T_i *= self.T_mult

    def _place(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
