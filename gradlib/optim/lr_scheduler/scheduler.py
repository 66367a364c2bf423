"""The base of all schedules of the learning rate."""

from __future__ import annotations

import types
import warnings
from typing import Any

from gradlib.optim.lr_scheduler.arguments import checked_optimizer
from gradlib.optim.lr_scheduler.groups import Rate, copied, set_rate, values
from gradlib.optim.optimizer import Optimizer


class State:
    """A part of a schedule that changes with its steps: ``state_dict`` keeps its attributes."""


class LRScheduler:
    """The base of all schedules; a subclass implements ``get_lr``, and ``closed_form`` where it has one.

    Args:
        optimizer: its groups' "lr" are set; "initial_lr" is kept beside.
        last_epoch: the epoch to resume after, or -1 to begin.
    Raises: TypeError for no optimiser; KeyError when resumed without "initial_lr" in the groups.
    Source: torch.optim.lr_scheduler.LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0; "
                    "load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self.start()

    def start(self) -> None:
        """Set the first rates; no step of the optimiser is due before."""
        self._step_count = 1
        self._set_rates(self.last_epoch + 1, initial=True)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        """The rates of epoch ``last_epoch``, one for each group, from those that stand in the groups.

        Args:
            initial: whether this is the call that begins the schedule.
        """
        raise NotImplementedError(f"{type(self).__name__} must define get_lr(initial)")

    def closed_form(self) -> list[Rate]:
        """The same from the epoch alone, where there is such a form."""
        return self.get_lr()

    def get_last_lr(self) -> list[Rate]:
        """The rates set last, one for each group. Source: torch.optim.lr_scheduler.LRScheduler.get_last_lr."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch; call it after the optimiser's step.

        Args:
            epoch: which epoch instead of the next; deprecated, as in torch.
        Source: torch.optim.lr_scheduler.LRScheduler.step.
        """
        if self._step_count == 1 and not self.optimizer.has_stepped and type(self.optimizer).step is Optimizer.step:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`; the first value of the learning rate schedule is "
                "skipped. Call them in the opposite order",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self._set_rates(self.last_epoch + 1)
        else:
            warn_of_epoch()
            self.restart(epoch)

    def restart(self, epoch: int) -> None:
        """Set the rates of an epoch by the closed form."""
        self._set_rates(epoch, closed=True)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; functions of the user are left out, objects that are called give their ``__dict__``.

        Source: torch.optim.lr_scheduler.LRScheduler.state_dict.
        """
        return {name: _saved(value) for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state. Source: torch.optim.lr_scheduler.LRScheduler.load_state_dict."""
        for name, value in state_dict.items():
            self.__dict__[name] = _restored(self.__dict__.get(name), value)

    def _set_rates(self, epoch: int, initial: bool = False, closed: bool = False) -> None:
        self.last_epoch = epoch
        for group, rate in zip(self.optimizer.param_groups, self.closed_form() if closed else self.get_lr(initial), strict=True):
            set_rate(group, rate)
        self._last_lr = values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Rate]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list[Rate]:
        return values(self.optimizer, "lr")


def _saved(value: Any) -> Any:
    if isinstance(value, LRScheduler):
        return value.state_dict()
    if isinstance(value, list):
        return [_saved(each) for each in value]
    if isinstance(value, types.FunctionType):
        return None
    if isinstance(value, State) or (callable(value) and hasattr(value, "__dict__")):
        return dict(value.__dict__)
    return value


def _restored(own: Any, saved: Any) -> Any:
    """A part of a schedule after loading: schedules and objects that are called stay the user's own, with the state that was saved."""
    if isinstance(own, LRScheduler):
        own.load_state_dict(saved)
        return own
    if isinstance(own, list) and isinstance(saved, list) and len(own) == len(saved):
        return [_restored(mine, each) for mine, each in zip(own, saved, strict=True)]
    if isinstance(own, State) or callable(own):
        if saved is not None:
            own.__dict__.update(saved)
        return own
    return saved


def warn_of_epoch() -> None:
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
        "`scheduler.step()` to step the scheduler; the closed form is used where there is one",
        UserWarning,
        stacklevel=3,
    )
