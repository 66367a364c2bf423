"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import Number, changed, chosen, counted, factor, number, rate
from gradlib.optim.optimizer import Group, Optimizer, check_options, descent, put, write, zeros_like


def _factors(
    k: Number, lr: Number, lambd: Number, alpha: Number, t0: Number, eta: Number, mu: Number
) -> dict[str, Number]:  # fmt: skip
    """By the eta and mu that the step before has left, and those that this one leaves."""
    behind = k - t0
    after = {"eta": lr / (1 + lambd * lr * k) ** alpha, "mu": 1 / chosen(behind > 1, lambda: behind, lambda: 1.0)}
    return {"kept": 1 - lambd * eta, "taken": eta, "share": mu, **after}


_STEP = steps.Step(
    "asgd", {"a": "ax"}, "p = p * kept - taken * g;\n    a = share == 1 ? p : a + share * (p - a);",
    factors=_factors, options="lambd alpha t0", held=["eta", "mu"],
)  # fmt: skip


class ASGD(Optimizer):
    """Gradient descent that keeps an average of its parameters in ``state[parameter]["ax"]``: less noise than the last one.

        p = (1 - lambd eta) p - eta g     eta = lr / (1 + lambd lr k)^alpha     ax = ax + mu (p - ax)     mu = 1 / max(1, k - t0)

    after step k, with g the gradient plus weight_decay p; the first step uses eta = lr and mu = 1. A complex parameter is treated as
    its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        lambd: as above.
        alpha: as above.
        t0: the step at which averaging starts.
        weight_decay: as above.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for a negative lr or weight_decay.
    Source: torch.optim.ASGD; B. Polyak and A. Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control 30 (1992).
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.ASGD([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        defaults = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        p, g = descent(value, gradient, group)
        lr = rate(group)
        state = self.state[value]
        if not state:
            state.update(step=0, eta=lr, mu=1.0, ax=zeros_like(p))
        k, eta, mu = counted(state, group, p), number(state, "eta", group, p), number(state, "mu", group, p)
        found = _factors(k, lr, group["lambd"], group["alpha"], group["t0"], eta, mu)
        p = p * factor(found["kept"], p) - factor(eta, p) * g
        average = state["ax"]
        moved = chosen(mu == 1, lambda: p, lambda: average._array + factor(mu, p) * (p - average._array))
        write(average, moved)
        changed(state, "eta", found["eta"])
        changed(state, "mu", found["mu"])
        put(value, p)

    def _plan(self, group: Group) -> steps.Plan:
        return steps.Plan(_STEP, steps.given(group), (group["lambd"], group["alpha"], group["t0"]))
