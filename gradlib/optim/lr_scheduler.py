"""Schedules of the learning rate: each sets its optimiser's ``lr`` when it is made and again at every ``step()``.

Most multiply the rate that stands in the group, so that several schedules on one optimiser combine; their closed form is used where an
epoch is named. Source: torch.optim.lr_scheduler, with its names, its recurrences and its rounding.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.optim.optimizer import Group, Optimizer, write

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

Rate = Any  # a float, or a Tensor that holds one
Multiplier = Callable[[int], float]


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
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0; "
                    "load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = _values(optimizer, "initial_lr")
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
            _warn_of_epoch()
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
            _set(group, "lr", rate)
        self._last_lr = _values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Rate]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list[Rate]:
        return _values(self.optimizer, "lr")


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
        _positive_integer("T_0", T_0)
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


class CyclicLR(LRScheduler):
    """The rate goes up and down between two bounds, and the momentum the other way.

    Args:
        optimizer: whose rates are set; with "momentum" or "betas" if the momentum cycles.
        base_lr: lower bound, or one for each group.
        max_lr: upper bound, or one for each group.
        step_size_up: steps of a rise.
        step_size_down: steps of a fall; as many by default.
        mode: "triangular", "triangular2" (half the height at each cycle) or "exp_range" (height times gamma^step).
        gamma: as above.
        scale_fn: the height's factor instead of a mode.
        scale_mode: whether scale_fn is given the "cycle" or "iterations".
        cycle_momentum: whether the momentum moves too.
        base_momentum: lower bound, or one for each group.
        max_momentum: upper bound, or one for each group.
        last_epoch: the step to resume after.
    Raises: ValueError for an unknown mode, or an optimiser without momentum.
    Source: torch.optim.lr_scheduler.CyclicLR; L. Smith, Cyclical learning rates for training neural networks, WACV 2017.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=1.0, cycle_momentum=False)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.10045000000000015]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None; mode is one of triangular, triangular2, exp_range, got {mode!r}")
        rise, fall = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.total_size, self.step_ratio = rise + fall, rise / (rise + fall)
        self.mode, self.gamma, self.custom_scale = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.momentum = _Momentum(optimizer, base_momentum, max_momentum, last_epoch == -1) if cycle_momentum else None
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                _set(group, "lr", rate)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of a cycle's height, of the cycle's number from 1 or of the step."""
        if self.custom_scale is not None:
            return self.custom_scale(x)
        return {"triangular": 1.0, "triangular2": 1 / 2.0 ** (x - 1)}.get(self.mode, self.gamma**x)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.momentum is not None:
            self.momentum.lower(self.optimizer, height, scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]


class OneCycleLR(LRScheduler):
    """One rise of the rate from a small one, then a fall to almost nothing; the momentum moves the other way. For a known number of steps.

    Args:
        optimizer: whose rates are set; with "momentum" or "betas" if the momentum cycles.
        max_lr: the highest rate, or one for each group.
        total_steps: of the cycle; or
        epochs: and
        steps_per_epoch: whose product it is.
        pct_start: part of the cycle that rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether the momentum moves too.
        base_momentum: its lower bound, or one for each group.
        max_momentum: its upper bound, or one for each group.
        div_factor: the first rate is max_lr over this.
        final_div_factor: the last rate is the first over this.
        three_phase: fall as long as the rise took, then to the last rate.
        last_epoch: the step to resume after.
    Raises: ValueError for an option out of its range, a step after the last, or an optimiser without momentum.
    Source: torch.optim.lr_scheduler.OneCycleLR; L. Smith and N. Topin, Super-convergence, arXiv:1708.07120.
    Example:
        >>> optimizer = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> schedule = gradlib.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=4)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.811745653949763]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        if total_steps is not None:
            self.total_steps = _positive_integer("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _positive_integer("epochs", epochs) * _positive_integer("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self.anneal_strategy = checked_strategy(anneal_strategy)
        end = pct_start * self.total_steps - 1
        # of each phase: its last step, and the rates and momentum factors (0: highest, 1: lowest momentum) that it goes between
        self.phases = [(end, "initial_lr", "max_lr", 0.0, 1.0)]
        if three_phase:
            self.phases.append((2 * pct_start * self.total_steps - 2, "max_lr", "initial_lr", 1.0, 0.0))
            self.phases.append((self.total_steps - 1, "initial_lr", "min_lr", 0.0, 0.0))
        else:
            self.phases.append((self.total_steps - 1, "max_lr", "min_lr", 1.0, 0.0))
        tops = for_groups("max_lr", optimizer, max_lr)
        self.momentum = _Momentum(optimizer, base_momentum, max_momentum, last_epoch == -1) if cycle_momentum else None
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, tops, strict=True):
                group.update(initial_lr=top / div_factor, max_lr=top, min_lr=top / div_factor / final_div_factor)
        super().__init__(optimizer, last_epoch)

    def get_lr(self, initial: bool = False) -> list[Rate]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        ends = [phase[0] for phase in self.phases]
        now = next((i for i, end in enumerate(ends) if step <= end), len(ends) - 1)
        begin, (end, first, last, high, low) = ends[now - 1] if now else 0.0, self.phases[now]
        part = (step - begin) / (end - begin)
        if self.momentum is not None:
            self.momentum.anneal(self.optimizer, high, low, part, self.anneal_strategy)
        return [_annealed(group[first], group[last], part, self.anneal_strategy) for group in self.optimizer.param_groups]


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
            _set(group, "lr", group["initial_lr"])
        _undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        first.start()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
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
        self._last_lr = _values(self.optimizer, "lr")

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch. Source: torch.optim.lr_scheduler.ChainedScheduler.step."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")

    def start(self) -> None:
        """Set the first rates as a part of another schedule."""
        self.step()

    def restart(self, epoch: int) -> None:
        """Begin again as a part of another schedule."""
        for scheduler in self._schedulers:
            scheduler.restart(epoch)
        self._last_lr = _values(self.optimizer, "lr")


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
        self._last_lr = _values(optimizer, "lr")

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the epoch's metric into account.

        Args:
            metrics: a number, or a Tensor of one.
            epoch: its number instead of the next; deprecated, as in torch.
        Source: torch.optim.lr_scheduler.ReduceLROnPlateau.step.
        """
        current = float(metrics)
        if epoch is not None:
            _warn_of_epoch()
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
        self._last_lr = _values(self.optimizer, "lr")

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
                _set(group, "lr", new)


class _Momentum:
    """The momentum of an optimiser's groups (or its first beta) as it cycles between two bounds."""

    def __init__(self, optimizer: Optimizer, base: float | Sequence[float], top: float | Sequence[float], begin: bool) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.bases, self.tops = for_groups("base_momentum", optimizer, base), for_groups("max_momentum", optimizer, top)
        if begin:
            for group, low, high in zip(optimizer.param_groups, self.bases, self.tops, strict=True):
                group.update(base_momentum=low, max_momentum=high)
                _set_momentum(group, high)

    def lower(self, optimizer: Optimizer, height: float, scale: float) -> None:
        """Set the momentum below its upper bound by a part of the range."""
        for group, low, high in zip(optimizer.param_groups, self.bases, self.tops, strict=True):
            _set_momentum(group, high - (high - low) * height * scale)

    def anneal(self, optimizer: Optimizer, first: float, last: float, part: float, strategy: str) -> None:
        """Set it on the way between two of its bounds, 0 being the upper and 1 the lower."""
        for group in optimizer.param_groups:
            bounds = (group["max_momentum"], group["base_momentum"])
            _set_momentum(group, _annealed(bounds[int(first)], bounds[int(last)], part, strategy))


def _set_momentum(group: Group, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _annealed(start: Rate, end: Rate, part: float, strategy: str) -> Rate:
    if strategy == "linear":
        return (end - start) * part + start
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


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


def _positive_integer(name: str, value: Any) -> int:
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


def _functions(optimizer: Optimizer, functions: Multiplier | Sequence[Multiplier]) -> list[Multiplier]:
    count = len(checked_optimizer(optimizer).param_groups)
    if not isinstance(functions, (list, tuple)):
        return [functions] * count  # type: ignore[list-item]
    if len(functions) != count:
        raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
    return list(functions)


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


def _copied(rate: Rate) -> Rate:
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def _values(optimizer: Optimizer, key: str) -> list[Rate]:
    return [_copied(group[key]) for group in optimizer.param_groups]


def _set(group: Group, key: str, rate: Rate) -> None:
    """Set a group's rate; one that is a Tensor keeps its memory."""
    if isinstance(group[key], Tensor):
        write(group[key], rate._array if isinstance(rate, Tensor) else rate)
    else:
        group[key] = float(rate) if isinstance(rate, Tensor) else rate


def _saved(value: Any) -> Any:
    if isinstance(value, LRScheduler):
        return value.state_dict()
    if isinstance(value, list):
        return [_saved(each) for each in value]
    if isinstance(value, types.FunctionType):
        return None
    if isinstance(value, _Momentum) or (callable(value) and hasattr(value, "__dict__")):
        return dict(value.__dict__)
    return value


def _restored(own: Any, saved: Any) -> Any:
    """A part of a schedule after loading: schedules and objects that are called stay the user's own, with the state that was saved."""
    if isinstance(own, LRScheduler):
        own.load_state_dict(saved)
        return own
    if isinstance(own, list) and isinstance(saved, list) and len(own) == len(saved):
        return [_restored(mine, each) for mine, each in zip(own, saved, strict=True)]
    if isinstance(own, _Momentum) or callable(own):
        if saved is not None:
            own.__dict__.update(saved)
        return own
    return saved


def _warn_of_epoch() -> None:
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
        "`scheduler.step()` to step the scheduler; the closed form is used where there is one",
        UserWarning,
        stacklevel=3,
    )
