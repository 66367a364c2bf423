"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import Number, changed, counted, factor, number, rate, root, shrink
from gradlib.optim.optimizer import Group, Optimizer, check_betas, check_options, descend, descent, running_mean, running_square, zeros_like


def _factors(k: Number, lr: Number, apart: Number, b1: Number, b2: Number, decay: Number, product: Number) -> dict[str, Number]:
    """With mu_k and mu_(k+1), of which the product so far is M_k."""
    now, after = (b1 * (1 - 0.5 * 0.96 ** (n * decay)) for n in (k, k + 1))
    product = product * now
    steps = {"now": lr * (1 - now) / (1 - product), "later": lr * after / (1 - product * after)}
    return {"shrink": shrink(lr, apart), "root": root(1 - b2**k), **steps, "mu_product": product}


_STEP = steps.Step(
    "nadam", {"m": "exp_avg", "s": "exp_avg_sq"},
    f"{steps.MEANS}\n    p = p - (now * g + later * m) / (sqrt(s) / root + epsilon);",
    numbers=f"{steps.OF_MEANS} epsilon", factors=_factors, options="apart b1 b2 momentum_decay", held=["mu_product"],
)  # fmt: skip


class NAdam(Optimizer):
    """Adam that looks ahead: the momentum of the next step takes part in this one.

        mu_k = b1 (1 - 0.96^(k momentum_decay) / 2)     M_k = mu_1 ... mu_k
        p = p - lr ((1 - mu_k) / (1 - M_k) g + mu_(k+1) / (1 - M_(k+1)) m) / (sqrt(s / (1 - b2^k)) + eps)

    at step k, with the running means m and s of `Adam` and g the gradient plus weight_decay p. A complex parameter is treated as its
    real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        betas: (b1, b2).
        eps: as above.
        weight_decay: as above.
        momentum_decay: as above.
        decoupled_weight_decay: shrink p by lr weight_decay instead of adding to the gradient.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for an option out of its range.
    Source: torch.optim.NAdam; T. Dozat, Incorporating Nesterov momentum into Adam, ICLR 2016 workshop.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.NAdam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.8944])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        decay = {"weight_decay": weight_decay, "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        defaults = {"lr": lr, "betas": betas, "eps": eps, **decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        b1, b2 = group["betas"]
        state = self.state[value]
        if not state:
            state.update(step=0, mu_product=1.0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        k = counted(state, group, p)
        found = _factors(k, rate(group), 0.0, b1, b2, group["momentum_decay"], number(state, "mu_product", group, p))
        changed(state, "mu_product", found["mu_product"])
        mean = running_mean(state["exp_avg"], g, b1)
        square = running_square(state["exp_avg_sq"], g, b2)
        denominator = xp.sqrt(square) / factor(found["root"], p) + group["eps"]
        look_ahead = factor(found["now"], p) * g + factor(found["later"], p) * mean
        descend(value, p, look_ahead / denominator)

    def _plan(self, group: Group) -> steps.Plan:
        numbers = (*steps.given(group), *steps.of_means(*group["betas"]), group["eps"])
        return steps.Plan(_STEP, numbers, (steps.apart(group), *group["betas"], group["momentum_decay"]))
