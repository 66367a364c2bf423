"""Schedules that raise and lower the rate, and move the momentum the other way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gradlib.optim.lr_scheduler.arguments import checked_optimizer, checked_strategy, for_groups, positive_integer
from gradlib.optim.lr_scheduler.groups import Rate, set_rate
from gradlib.optim.lr_scheduler.scheduler import LRScheduler, State
from gradlib.optim.optimizer import Group, Optimizer


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
        self.momentum = CycledMomentum(optimizer, base_momentum, max_momentum, last_epoch == -1) if cycle_momentum else None
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, rate)
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
            self.total_steps = positive_integer("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = positive_integer("epochs", epochs) * positive_integer("steps_per_epoch", steps_per_epoch)
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
        self.momentum = CycledMomentum(optimizer, base_momentum, max_momentum, last_epoch == -1) if cycle_momentum else None
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


class CycledMomentum(State):
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
