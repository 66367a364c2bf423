"""Adam: steps measured element by element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import Number, counted, factor, rate, root, shrink
from gradlib.optim.optimizer import (
    Group,
    Optimizer,
    change,
    check_betas,
    check_options,
    direction,
    move_mean,
    move_square,
    real,
    zeros_like,
)


def _factors(k: Number, lr: Number, apart: Number, b1: Number, b2: Number) -> dict[str, Number]:
    return {"shrink": shrink(lr, apart), "root": root(1 - b2**k), "rate": lr / (1 - b1**k)}


def _step(name: str, **largest: str) -> steps.Step:
    body = f"""{steps.MEANS}
    {"s_max = most(s_max, s);" if largest else ""}
    p = p - rate * m / (sqrt({"s_max" if largest else "s"}) / root + epsilon);"""
    state = {"m": "exp_avg", "s": "exp_avg_sq", **largest}
    return steps.Step(name, state, body, numbers=f"{steps.OF_MEANS} epsilon", factors=_factors, options="apart b1 b2")


_ADAM, _AMSGRAD = _step("adam"), _step("amsgrad", s_max="max_exp_avg_sq")


class Adam(Optimizer):
    """Gradient descent whose steps are scaled by running means of the gradient and its square: robust to badly scaled problems.

        m = b1 m + (1 - b1) g
        s = b2 s + (1 - b2) g^2
        p = p - lr (m / (1 - b1^k)) / (sqrt(s / (1 - b2^k)) + eps)

    at step k, with g the gradient plus weight_decay p. A complex parameter is treated as its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        betas: (b1, b2), each in [0, 1).
        eps: keeps the divisor from zero.
        weight_decay: how much of each parameter is added to its gradient.
        amsgrad: divide by the largest s so far.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
        fused: as foreach, but not beside it; on a GPU all parameters of a group take one launch.
        decoupled_weight_decay: shrink p by lr weight_decay instead of adding to the gradient (AdamW).
    Raises: ValueError for an option out of its range.
    Source: torch.optim.Adam; D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.Adam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        decay = {"weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        defaults = {"lr": lr, "betas": betas, "eps": eps, "amsgrad": amsgrad, **decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        b1, b2 = group["betas"]
        state = self.state[value]
        p = real(value._array)
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(p)
        k = counted(state, group, p)
        found = _factors(k, rate(group), 0.0, b1, b2)
        scale, size = factor(found["root"], p), factor(found["rate"], p)

        def rule(old: Array, g: Array, mean: Array, square: Array, largest: Array | None = None) -> None:
            xp = namespace(old)
            p, g = direction(old, g, group)
            move_mean(mean, g, b1)
            move_square(square, g, b2)
            if largest is not None:
                square = xp.maximum(largest, square, out=largest)
            denominator = xp.sqrt(square)
            denominator /= scale
            denominator += group["eps"]
            step = size * mean
            step /= denominator
            xp.subtract(p, step, out=old)

        largest = [state["max_exp_avg_sq"]] if group["amsgrad"] else []
        change(rule, value, p, real(gradient), state["exp_avg"], state["exp_avg_sq"], *largest)

    def _plan(self, group: Group) -> steps.Plan:
        numbers = (*steps.given(group), *steps.of_means(*group["betas"]), group["eps"])
        return steps.Plan(_AMSGRAD if group["amsgrad"] else _ADAM, numbers, (steps.apart(group), *group["betas"]))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself, apart from the gradient: the usual choice where weights are regularised.

        p = p (1 - lr weight_decay), then a step of `Adam`

    Args:
        params: Tensors, or groups of them.
        lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused: as in `Adam`.
        weight_decay: as above.
    Raises: ValueError for an option out of its range.
    Source: torch.optim.AdamW; I. Loshchilov and F. Hutter, Decoupled weight decay regularization, ICLR 2019.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.AdamW([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.8990])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            foreach=foreach, maximize=maximize, capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
