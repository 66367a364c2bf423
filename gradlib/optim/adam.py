"""Adam: steps measured element by element."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim.optimizer import Group, Optimizer, check_options, real, write, zeros_like


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
        decoupled_weight_decay: shrink p by lr weight_decay instead of adding to the gradient (AdamW).
    Raises: ValueError for an option out of its range.
    Source: torch.optim.Adam; D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        super().__init__(params, {**defaults, "decoupled_weight_decay": decoupled_weight_decay})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = real(value._array), real(gradient)
        (b1, b2), lr, decay = group["betas"], float(group["lr"]), group["weight_decay"]
        state = self.state[value]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(p)
        state["step"] += 1
        if group["maximize"]:
            g = -g
        if decay and group["decoupled_weight_decay"]:
            p = p * (1 - lr * decay)
        elif decay:
            g = g + decay * p
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        write(mean, mean._array + (1 - b1) * (g - mean._array))
        write(square, b2 * square._array + (1 - b2) * (g * g))
        if group["amsgrad"]:
            write(state["max_exp_avg_sq"], xp.maximum(state["max_exp_avg_sq"]._array, square._array))
            square = state["max_exp_avg_sq"]
        denominator = xp.sqrt(square._array) / math.sqrt(1 - b2 ** state["step"]) + group["eps"]
        p = p - (lr / (1 - b1 ** state["step"])) * mean._array / denominator
        write(value, p.view(value._array.dtype) if value.is_complex() else p)
