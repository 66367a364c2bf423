"""Adagrad: steps divided by the root of all squared gradients so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace, on_device_of
from gradlib.core.tensor import Tensor, wrap
from gradlib.optim import steps
from gradlib.optim.capturable import Number, factor, rate
from gradlib.optim.optimizer import Group, Optimizer, check_options, descend, descent, real, write


def _factors(k: Number, lr: Number, lr_decay: Number) -> dict[str, Number]:
    return {"rate": lr / (1 + (k - 1) * lr_decay)}


_STEP = steps.Step(
    "adagrad", {"s": "sum"}, "s = s + g * g;\n    p = p - rate * (g / (sqrt(s) + epsilon));",
    numbers="epsilon", factors=_factors, options="lr_decay",
)  # fmt: skip


class Adagrad(Optimizer):
    """Gradient descent whose steps shrink where gradients have been large: for sparse features.

        s = s + g^2     p = p - lr / (1 + (k - 1) lr_decay) g / (sqrt(s) + eps)

    at step k, with g the gradient plus weight_decay p. A complex parameter is treated as its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        lr_decay: as above.
        weight_decay: as above.
        initial_accumulator_value: s at the start.
        eps: as above.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        differentiable: False; a step is no part of a graph here.
        fused: as foreach, but not beside it.
    Raises: ValueError for a negative option.
    Source: torch.optim.Adagrad; J. Duchi, E. Hazan and Y. Singer, Adaptive subgradient methods, JMLR 12 (2011).
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.Adagrad([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        start = initial_accumulator_value
        check_options(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=start, eps=eps)
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "initial_accumulator_value": start}
        options = {"maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused}
        super().__init__(params, {**defaults, **options})
        for group in self.param_groups:
            for value in group["params"]:
                self._begin(value, group)

    def _begin(self, value: Tensor, group: Group) -> None:
        with on_device_of(value._array):
            p = real(value._array)
            start = namespace(p).full(p.shape, group["initial_accumulator_value"], p.dtype)
        self.state[value].update(step=0, sum=wrap(start))

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        state = self.state[value]
        if not state:
            self._begin(value, group)
        state["step"] += 1
        write(state["sum"], state["sum"]._array + g * g)
        found = _factors(state["step"], rate(group), group["lr_decay"])
        descend(value, p, factor(found["rate"], p) * (g / (xp.sqrt(state["sum"]._array) + group["eps"])))

    def _plan(self, group: Group) -> steps.Plan:
        return steps.Plan(_STEP, (*steps.given(group), group["eps"]), (group["lr_decay"],))
