"""RAdam: Adam that begins without its second moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, is_cupy, namespace
from gradlib.core.tensor import Tensor
from gradlib.optim import steps
from gradlib.optim.capturable import Number, chosen, counted, factor, rate, root, shrink
from gradlib.optim.optimizer import Group, Optimizer, check_betas, check_options, descend, descent, running_mean, running_square, zeros_like


def _factors(k: Number, lr: Number, apart: Number, b1: Number, b2: Number) -> dict[str, Number]:
    limit = 2 / (1 - b2) - 1
    length = limit - 2 * k * b2**k / (1 - b2**k)  # of the moving average, in gradients
    enough, scale = length > 5, lr / (1 - b1**k)
    adapted = chosen(enough, lambda: scale * _rectification(length, limit) * root(1 - b2**k), lambda: scale)
    return {"shrink": shrink(lr, apart), "adapts": chosen(enough, lambda: 1.0, lambda: 0.0), "rate": adapted}


def _rectification(length: Number, limit: Number) -> Number:
    return root((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))


_STEP = steps.Step(
    "radam", {"m": "exp_avg", "s": "exp_avg_sq"},
    f"{steps.MEANS}\n    p = p - m * (adapts != 0 ? rate / (sqrt(s) + epsilon) : rate);",
    numbers=f"{steps.OF_MEANS} epsilon", factors=_factors, options="apart b1 b2",
)  # fmt: skip


class RAdam(Optimizer):
    """Adam rectified: while too few gradients have been seen to trust the mean square, steps are those of momentum alone.

        r_inf = 2 / (1 - b2) - 1     r = r_inf - 2 k b2^k / (1 - b2^k)
        p = p - lr m / (1 - b1^k) (R sqrt(1 - b2^k) / (sqrt(s) + eps)  if r > 5 else  1)
        R = sqrt((r - 4) (r - 2) r_inf / ((r_inf - 4) (r_inf - 2) r))

    at step k, with the running means m and s of `Adam` and g the gradient plus weight_decay p. A complex parameter is treated as its
    real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: step size.
        betas: (b1, b2).
        eps: as above.
        weight_decay: as above.
        decoupled_weight_decay: shrink p by lr weight_decay instead of adding to the gradient.
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for an option out of its range.
    Source: torch.optim.RAdam; L. Liu et al., On the variance of the adaptive learning rate and beyond, ICLR 2020.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.RAdam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, group)
        b1, b2 = group["betas"]
        state = self.state[value]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        k = counted(state, group, p)
        mean = running_mean(state["exp_avg"], g, b1)
        square = running_square(state["exp_avg_sq"], g, b2)
        found = _factors(k, rate(group), 0.0, b1, b2)
        scale, adapts = factor(found["rate"], p), found["adapts"]
        if is_cupy(adapts) or adapts:
            adapted = scale / (xp.sqrt(square) + group["eps"])
            scale = xp.where(adapts, adapted, scale) if is_cupy(adapts) else adapted
        descend(value, p, mean * scale)

    def _plan(self, group: Group) -> steps.Plan:
        numbers = (*steps.given(group), *steps.of_means(*group["betas"]), group["eps"])
        return steps.Plan(_STEP, numbers, (steps.apart(group), *group["betas"]))
