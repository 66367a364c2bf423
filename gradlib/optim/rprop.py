"""Rprop: steps by the sign of the gradient alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.core.tensor import Tensor, wrap
from gradlib.ops.elementwise import sign
from gradlib.optim import steps
from gradlib.optim.capturable import counted
from gradlib.optim.optimizer import Group, Optimizer, check_options, descend, descent, write, zeros_like

_STEP = steps.Step(
    "rprop",
    {"b": "prev", "l": "step_size"},
    """const T turned = g * b;
    l = least(most(l * (turned > 0 ? grow : turned < 0 ? shrunk : T(1)), shortest), longest);
    b = turned < 0 ? T(0) : g;
    p = p - (T(b > 0) - T(b < 0)) * l;""",
    numbers="shrunk grow shortest longest",
)


class Rprop(Optimizer):
    """Resilient backpropagation for full-batch losses: each element has its own step, longer while the gradient keeps its sign.

        step = clip(step etas[1]  if g g' > 0,  step etas[0]  if g g' < 0,  step  otherwise)     p = p - sign(g) step

    with g' the gradient of the step before; where the sign has changed the element rests once and g counts as 0. The sign of NaN is 0.
    A complex parameter is treated as its real and imaginary parts.

    Args:
        params: Tensors, or groups of them.
        lr: first step.
        etas: (factor to shrink by, factor to grow by).
        step_sizes: (shortest, longest step).
        maximize: climb instead.
        foreach: step all parameters of a group as one (the same numbers); by default where they are several and small.
        capturable: keep the step count on the device, so that a CUDA graph can capture the step; parameters are on a GPU then.
        differentiable: False; a step is no part of a graph here.
    Raises: ValueError for a negative lr, or etas that do not shrink and grow.
    Source: torch.optim.Rprop; M. Riedmiller and H. Braun, A direct adaptive method for faster backpropagation learning, ICNN 1993.
    Example:
        >>> x = gradlib.ones(1, requires_grad=True)
        >>> optimizer = gradlib.optim.Rprop([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.detach()
        tensor([0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {"lr": lr, "etas": etas, "step_sizes": step_sizes}
        options = {"maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, {**defaults, **options})

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        xp = namespace(gradient)
        p, g = descent(value, gradient, {**group, "weight_decay": 0})  # which is no option of this method
        (shrink, grow), (shortest, longest) = group["etas"], group["step_sizes"]
        state = self.state[value]
        if not state:
            state.update(step=0, prev=zeros_like(p), step_size=wrap(xp.full(p.shape, float(group["lr"]), p.dtype)))
        counted(state, group, p)
        previous, size = state["prev"], state["step_size"]
        turned = g * previous._array
        factor = xp.where(turned > 0, grow, xp.where(turned < 0, shrink, 1.0)).astype(p.dtype)
        write(size, xp.minimum(xp.maximum(size._array * factor, shortest), longest))
        g = xp.where(turned < 0, xp.zeros_like(g), g)
        write(previous, g)
        descend(value, p, sign(g) * size._array)

    def _plan(self, group: Group) -> steps.Plan:
        return steps.Plan(_STEP, (*steps.given({**group, "weight_decay": 0}), *group["etas"], *group["step_sizes"]))
