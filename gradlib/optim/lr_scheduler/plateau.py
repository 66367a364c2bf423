"""The schedule that goes by a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradlib.optim.lr_scheduler.arguments import checked_optimizer, for_groups
from gradlib.optim.lr_scheduler.groups import set_rate, values
from gradlib.optim.lr_scheduler.scheduler import LRScheduler, warn_of_epoch
from gradlib.optim.optimizer import Optimizer, number


class ReduceLROnPlateau(LRScheduler):
    """The rate is multiplied by a factor when a metric has not improved for some epochs.

    Args:
        optimizer: whose rates are set.
        mode: whether "min" or "max" of the metric is wanted.
        factor: below 1.
        patience: epochs without improvement that are borne.
        threshold: what counts as an improvement;
        threshold_mode: "rel" to the best, or "abs".
        cooldown: epochs after a change that do not count.
        min_lr: the lowest rate, or one for each group.
        eps: smaller changes of the rate are not made.
    Raises: ValueError for a factor or mode out of its range, or another number of rates than groups.
    Source: torch.optim.lr_scheduler.ReduceLROnPlateau.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        >>> schedule.step(1.0)
        >>> schedule.step(2.0)
        >>> schedule.get_last_lr()
        [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0; got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! It is min or max")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! It is rel or abs")
        self.optimizer = checked_optimizer(optimizer)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = for_groups("min_lr", optimizer, min_lr)
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.best = math.inf if mode == "min" else -math.inf
        self.last_epoch = self.cooldown_counter = self.num_bad_epochs = 0
        self._last_lr = values(optimizer, "lr")

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the epoch's metric into account.

        Args:
            metrics: a number, or a Tensor of one.
            epoch: its number instead of the next; deprecated, as in torch.
        Source: torch.optim.lr_scheduler.ReduceLROnPlateau.step.
        """
        current = number(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = values(self.optimizer, "lr")

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs without improvement do not count now."""
        return self.cooldown_counter > 0

    def _is_better(self, metric: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        best = self.best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else self.best + sign * self.threshold
        return metric > best if self.mode == "max" else metric < best

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when `ReduceLROnPlateau` was initialized "
                    f"({len(self.min_lrs)}); modify the `min_lrs` field to match the length of the `optimizer` param groups"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_rate(group, new)
