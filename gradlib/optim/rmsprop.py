"""RMSprop: steps divided by a running root mean square."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import counted, factor, rate
from gradlib.optim.optimizer import Group, Optimizer, change, check_options, direction, move_mean, move_square, real, zeros_like


def _used(momentum: float, centered: bool) -> dict[str, str]:
    """The arrays of the state, by their names in the step."""
    return {"s": "square_avg", **({"b": "momentum_buffer"} if momentum else {}), **({"c": "grad_avg"} if centered else {})}


def _step(momentum: bool, centered: bool) -> steps.Step:
    body = f"""s = s * kept + g * g * share;
    {"c = c + (g - c) * share;" if centered else ""}
    T d = g / (sqrt({"s - c * c" if centered else "s"}) + epsilon);
    {"d = b = b * momentum + d;" if momentum else ""}
    p = p - rate * d;"""
    name = "_".join(["rmsprop", *["momentum"] * momentum, *["centered"] * centered])
    return steps.Step(name, _used(momentum, centered), body, numbers="kept share epsilon momentum", factors=steps.by_rate)


_STEPS = {kind: _step(*kind) for kind in itertools.product((False, True), repeat=2)}


class RMSprop(Optimizer):
    """Gradient descent divided by the root of a running mean of squared gradients: for gradients whose size drifts.

        s = alpha s + (1 - alpha) g^2     d = g / (sqrt(s - c^2) + eps)     b = momentum b + d     p = p - lr b

    with g the gradient plus weight_decay p, and c the running mean of g if ``centered``, else 0. A complex parameter is treated as its
    real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        alpha: as above.
        eps: as above.
        weight_decay: as above.
        momentum: as above.
        centered: divide by the deviation instead of the root mean square.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for a negative option.
    Source: torch.optim.RMSprop; G. Hinton, Neural networks for machine learning, lecture 6 (2012); A. Graves, arXiv:1308.0850.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.RMSprop([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([5.9605e-08])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        alpha, momentum, eps = group["alpha"], group["momentum"], group["eps"]
        state = self.state[value]
        p = real(value._array)
        used = _used(momentum, group["centered"]).values()
        if not state:
            state.update(step=0, **{name: zeros_like(p) for name in used})
        counted(state, group, p)
        size = factor(rate(group), p)

        def rule(old: Array, g: Array, square: Array, *more: Array) -> None:
            p, g = direction(old, g, group)
            move_square(square, g, alpha)
            spread = square
            if group["centered"]:
                mean = more[-1]
                move_mean(mean, g, alpha)
                spread = square - mean * mean
            xp = namespace(old)
            divisor = xp.sqrt(spread)
            divisor += eps
            step = g / divisor
            if momentum:
                buffer = more[0]
                buffer *= momentum
                buffer += step
                step = buffer
            xp.subtract(p, size * step, out=old)

        change(rule, value, p, real(gradient), *[state[name] for name in used])

    def _plan(self, group: Group) -> steps.Plan:
        numbers = (*steps.given(group), group["alpha"], 1 - group["alpha"], group["eps"], group["momentum"])
        return steps.Plan(_STEPS[bool(group["momentum"]), bool(group["centered"])], numbers)
