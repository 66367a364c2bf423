"""RMSprop: steps divided by a running root mean square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim.capturable import counted, factor, rate
from gradlib.optim.optimizer import Group, Optimizer, check_options, descend, descent, running_mean, running_square, write, zeros_like


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
        weight_decay: float = 0.0,
        momentum: float = 0.0,
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
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        alpha = group["alpha"]
        state = self.state[value]
        if not state:
            state.update(step=0, square_avg=zeros_like(p))
            state.update({name: zeros_like(p) for name, used in (("momentum_buffer", "momentum"), ("grad_avg", "centered")) if group[used]})
        counted(state, group, p)
        spread = running_square(state["square_avg"], g, alpha)
        if group["centered"]:
            mean = running_mean(state["grad_avg"], g, alpha)
            spread = spread - mean * mean
        direction = g / (xp.sqrt(spread) + group["eps"])
        if group["momentum"]:
            buffer = state["momentum_buffer"]
            write(buffer, group["momentum"] * buffer._array + direction)
            direction = buffer._array
        descend(value, p, factor(rate(group), p) * direction)
