"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor, wrap
from gradlib.optim import steps
from gradlib.optim.capturable import factor, rate
from gradlib.optim.optimizer import Group, Optimizer, change, check_options, direction

_PLAIN = steps.Step("sgd", {}, "p = p - rate * g;", factors=steps.by_rate, counts=False)
_MOMENTUM = steps.Step(
    "momentum", {"b": "momentum_buffer"},
    "b = kept * b + share * g;\n    p = p - rate * (nesterov != 0 ? g + kept * b : b);",
    numbers="kept share nesterov", factors=steps.by_rate, counts=False,
)  # fmt: skip


class SGD(Optimizer):
    """Gradient descent, with momentum, Nesterov's variant and weight decay: the plain choice for noisy gradients.

        buf = momentum buf + (1 - dampening) g
        p = p - lr (g + momentum buf  if nesterov else  buf)

    with g the gradient plus weight_decay p, and buf = g at the first step.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        momentum: how much of the last step's buf is kept.
        dampening: how much of the gradient does not get into buf.
        weight_decay: how much of each parameter is added to its gradient.
        nesterov: look one step of momentum ahead.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        differentiable: False; a step is no part of a graph here.
        fused: as foreach, but not beside it; on a GPU all parameters of a group take one launch.
    Raises: ValueError for a negative option, or Nesterov without momentum or with dampening.
    Source: torch.optim.SGD.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.SGD([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
        options = {"maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused}
        super().__init__(params, {**defaults, **options})

    _always_capturable = True
    _keeps_real = False

    def _has_state(self, value: Tensor, group: Group) -> bool:
        return not group["momentum"] or self.state[value].get("momentum_buffer") is not None

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        momentum, taken, nesterov = group["momentum"], 1 - group["dampening"], group["nesterov"]
        size = factor(rate(group), value._array)
        held = self.state[value].get("momentum_buffer") if momentum else None
        is_first = bool(momentum) and held is None
        if is_first:
            held = wrap(namespace(gradient).empty_like(gradient))

        def rule(old: Array, g: Array, buffer: Array | None = None) -> None:
            p, g = direction(old, g, group)
            if buffer is not None:
                if is_first:
                    buffer[...] = g
                else:
                    buffer *= momentum
                    buffer += g if taken == 1 else taken * g
                g = g + momentum * buffer if nesterov else buffer
            namespace(old).subtract(p, size * g, out=old)

        change(rule, value, value._array, gradient, *([] if held is None else [held]))
        if is_first:
            self.state[value]["momentum_buffer"] = held

    def _plan(self, group: Group) -> steps.Plan:
        if not group["momentum"]:
            return steps.Plan(_PLAIN, steps.given(group))
        numbers = group["momentum"], 1 - group["dampening"], float(group["nesterov"])
        return steps.Plan(_MOMENTUM, (*steps.given(group), *numbers))
