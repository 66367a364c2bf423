"""Adamax: Adam by the largest gradient instead of the mean square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import Number, counted, factor, rate
from gradlib.optim.optimizer import Group, Optimizer, check_betas, check_options, descend, descent, running_mean, write, zeros_like


def _factors(k: Number, lr: Number, b1: Number) -> dict[str, Number]:
    return {"rate": lr / (1 - b1**k)}


_STEP = steps.Step(
    "adamax", {"m": "exp_avg", "l": "exp_inf"},
    "m = m + (g - m) * mean_share, l = most(kept * l, T(fabs(g) + epsilon));\n    p = p - rate * (m / l);",
    numbers="mean_share kept epsilon", factors=_factors, options="b1",
)  # fmt: skip


class Adamax(Optimizer):
    """Adam whose steps are scaled by a decaying maximum of the gradient: bounded steps also where gradients are rarely large.

        m = b1 m + (1 - b1) g     u = max(b2 u, |g| + eps)     p = p - lr / (1 - b1^k) m / u

    at step k, with g the gradient plus weight_decay p. A complex parameter is treated as its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        betas: (b1, b2).
        eps: as above.
        weight_decay: as above.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for an option out of its range.
    Source: torch.optim.Adamax; D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.Adamax([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        b1, b2 = group["betas"]
        state = self.state[value]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_inf=zeros_like(p))
        k = counted(state, group, p)
        mean, largest = running_mean(state["exp_avg"], g, b1), state["exp_inf"]
        write(largest, xp.maximum(b2 * largest._array, abs(g) + group["eps"]))
        descend(value, p, factor(_factors(k, rate(group), b1)["rate"], p) * (mean / largest._array))

    def _plan(self, group: Group) -> steps.Plan:
        b1, b2 = group["betas"]
        return steps.Plan(_STEP, (*steps.given(group), 1 - b1, b2, group["eps"]), (b1,))
