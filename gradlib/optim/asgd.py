"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import fused
from gradlib.optim.capturable import changed, counted, factor, number, rate
from gradlib.optim.fused import Rule
from gradlib.optim.optimizer import Group, Optimizer, check_options, descent, put, write, zeros_like


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
        lr, lambd = rate(group), group["lambd"]
        state = self.state[value]
        if not state:
            state.update(step=0, eta=lr, mu=1.0, ax=zeros_like(p))
        k, eta, mu = counted(state, group, p), number(state, "eta", group, p), number(state, "mu", group, p)
        p = p * factor(1 - lambd * eta, p) - factor(eta, p) * g
        average = state["ax"]
        alone = not group["capturable"] and mu == 1  # on the device, mu = 1 gives p up to its rounding
        write(average, p if alone else average._array + factor(mu, p) * (p - average._array))
        changed(state, "eta", lr / (1 + lambd * lr * k) ** group["alpha"])
        behind = k - group["t0"]
        changed(state, "mu", 1 / (namespace(p).maximum(1, behind) if group["capturable"] else max(1, behind)))
        put(value, p)

    def _rule(self, state: dict[str, Any], group: Group) -> Rule | None:
        if not fused.is_plain(state, group, 4):
            return None
        k, eta, lr, lambd = state["step"] + 1, state["eta"], float(group["lr"]), group["lambd"]
        after = {"eta": lr / (1 + lambd * lr * k) ** group["alpha"], "mu": 1 / max(1, k - group["t0"])}
        return Rule("asgd", (state["ax"]._array,), (*fused.given(group), 1 - lambd * eta, eta, state["mu"]), after)
