"""Schedules made of schedules: one after the other, and all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gradlib.optim.lr_scheduler.groups import set_rate, values
from gradlib.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradlib.optim.lr_scheduler.scheduler import LRScheduler
from gradlib.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """One schedule after the other.

    Args:
        optimizer: whose rates are set.
        schedulers: in their order, all of this optimiser.
        milestones: the epochs at which the next one takes over.
        last_epoch: the epoch to resume after.
    Raises: ValueError or TypeError for schedules of another optimiser, of the plateau, or another number of milestones.
    Source: torch.optim.lr_scheduler.SequentialLR.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> parts = [gradlib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=gamma) for gamma in (1.0, 0.5)]
        >>> schedule = gradlib.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [1.0]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1) -> None:
        _check_parts(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, "
                f"but got number of schedulers {len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        first.start()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch. Source: torch.optim.lr_scheduler.SequentialLR.step."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler.restart(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def start(self) -> None:
        """Set the first rates as a part of another schedule."""
        self.step()

    def restart(self, epoch: int) -> None:
        """Begin again as a part of another schedule."""
        self.last_epoch = epoch
        scheduler = self._schedulers[bisect_right(self._milestones, epoch)]
        scheduler.restart(epoch)
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(LRScheduler):
    """Several schedules at once: each changes what the one before has set.

    Args:
        schedulers: in their order, all of one optimiser.
        optimizer: that optimiser.
    Raises: ValueError or TypeError for schedules of another optimiser, or of the plateau.
    Source: torch.optim.lr_scheduler.ChainedScheduler.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> halved = gradlib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> schedule = gradlib.optim.lr_scheduler.ChainedScheduler([halved])
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if schedulers and optimizer is None:
            optimizer = schedulers[0].optimizer
        _check_parts(type(self).__name__, schedulers, optimizer)
        self._schedulers = list(schedulers)
        self.optimizer = schedulers[0].optimizer
        self._last_lr = values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch. Source: torch.optim.lr_scheduler.ChainedScheduler.step."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values(self.optimizer, "lr")

    def start(self) -> None:
        """Set the first rates as a part of another schedule."""
        self.step()

    def restart(self, epoch: int) -> None:
        """Begin again as a part of another schedule."""
        for scheduler in self._schedulers:
            scheduler.restart(epoch)
        self._last_lr = values(self.optimizer, "lr")


def _check_parts(name: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
    if len(schedulers) < 1:
        raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified when calling "
                f"`step`, but got one at index {i} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but the one at index {i} has another")


def _undo(scheduler: LRScheduler) -> None:
    """Take back the first step that each of the schedules made when it was created."""
    for part in getattr(scheduler, "_schedulers", ()):
        if hasattr(part, "_schedulers"):
            _undo(part)
        else:
            part.last_epoch -= 1
