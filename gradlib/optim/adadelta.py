"""Adadelta: steps in the parameter's own units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import counted, factor, rate
from gradlib.optim.optimizer import Group, Optimizer, check_options, descend, descent, running_square, zeros_like

_STEP = steps.Step(
    "adadelta", {"s": "square_avg", "a": "acc_delta"},
    """s = s * kept + g * g * share;
    const T d = sqrt(a + epsilon) / sqrt(s + epsilon) * g;
    a = a * kept + d * d * share;
    p = p - rate * d;""",
    numbers="kept share epsilon", factors=steps.by_rate,
)  # fmt: skip


class Adadelta(Optimizer):
    """Gradient descent scaled by the ratio of past steps to past gradients, so that no step size needs choosing.

        s = rho s + (1 - rho) g^2     d = sqrt(a + eps) / sqrt(s + eps) g     a = rho a + (1 - rho) d^2     p = p - lr d

    with g the gradient plus weight_decay p. A complex parameter is treated as its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: factor of the step.
        rho: as above.
        eps: as above.
        weight_decay: as above.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for a negative option, or rho above 1.
    Source: torch.optim.Adadelta; M. Zeiler, ADADELTA: an adaptive learning rate method, arXiv:1212.5701.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.Adadelta([x], lr=1.0)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.9968])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        rho, eps = group["rho"], group["eps"]
        state = self.state[value]
        if not state:
            state.update(step=0, square_avg=zeros_like(p), acc_delta=zeros_like(p))
        counted(state, group, p)
        square, moved = running_square(state["square_avg"], g, rho), state["acc_delta"]
        delta = xp.sqrt(moved._array + eps) / xp.sqrt(square + eps) * g
        running_square(moved, delta, rho)
        descend(value, p, factor(rate(group), p) * delta)

    def _plan(self, group: Group) -> steps.Plan:
        return steps.Plan(_STEP, (*steps.given(group), group["rho"], 1 - group["rho"], group["eps"]))
