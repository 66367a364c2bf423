"""Calls that type checkers must take without a complaint; never run, read by ``ci/typed_calls.py``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradlib
from gradlib import Tensor, fft, func, linalg, optim, trajectory
from gradlib.autograd import Function, forward_ad, gradcheck, profiler
from gradlib.nn import functional as F, utils as nn_utils
from gradlib.optim import lr_scheduler, swa_utils
from gradlib.utils.checkpoint import checkpoint

x: Tensor = gradlib.tensor([[1.0, 2.0]], requires_grad=True)
y: Tensor = gradlib.randn(2, 3, dtype=gradlib.float32, device="cpu")
z: Tensor = gradlib.zeros((2, 3), dtype=np.float64)

a: Tensor = x.sin().cos().tanh() + 2 * x - 1 / x**2 @ x.T
b: Tensor = gradlib.sum(x, dim=0, keepdim=True)
c: Tensor = x.sum(axis=(0, 1), keepdims=True)
d: Tensor = x.mean(-1)
values, indices = gradlib.max(x, 1)
e: Tensor = gradlib.max(x) + gradlib.max(x, y) + x.min()
f: Tensor = x.sort(dim=-1, descending=True).values
g: tuple[Tensor, ...] = x.split(1, dim=0)
h: Tensor = gradlib.cat([x, y], dim=0).reshape(-1, 2).view(2, -1).permute(1, 0)
i: Tensor = x[..., None, 1:, [0, 1]]
x[0] = 1.0
x[x > 0] += y
x.add_(y, alpha=2).mul_(3).clamp_(min=0)
x += 1
j: Tensor = gradlib.where(x > 0, x, 0.0)
k: tuple[Tensor, ...] = gradlib.where(x > 0)
l_: bool = gradlib.allclose(x, y)
m: Tensor = gradlib.add(x, 1, alpha=2, out=y)
n: Tensor = gradlib.einsum("ij,jk->ik", x, y)
o: Tensor = F.cross_entropy(F.linear(x, y), gradlib.tensor([0]), reduction="sum")
q, r = linalg.qr(x)
u, s, vh = linalg.svd(x, full_matrices=False)
t: float = x.sum().item()
v: np.ndarray = x.detach().numpy()
w: Tensor = x.to("cuda").to(gradlib.float32).to(dtype=gradlib.float64, device="cpu").double()
x.backward()
x.requires_grad_().retain_grad()
grad: Tensor | None = x.grad
grads: Any = gradlib.autograd.grad(x.sum(), [x], create_graph=True)
with gradlib.no_grad(), gradlib.enable_grad():
    x.zero_()


class Square(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value)
        return value * value

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (value,) = ctx.saved_tensors
        result: Tensor = cotangent * value * 2
        return result


squared: Tensor = Square.apply(x)
checked: bool = gradcheck(lambda value: value * value, [x])
filled: Tensor = x.new_full((2, 3), 1.5)
optimizer = optim.Adam([x], lr=0.1)
optimizer.zero_grad()
optimizer.step()
scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
scheduler.step()
rates: list[float] = scheduler.get_last_lr()
average = swa_utils.AveragedParameters([x], avg_fn=swa_utils.get_ema_avg_fn(0.99))
length: Tensor = nn_utils.clip_grad_norm_([x], max_norm=1.0)
gradlib.save({"x": x}, "x.npz")
loaded: Any = gradlib.load("x.npz")
shared: Tensor = gradlib.from_dlpack(np.zeros(3))
spectrum: Tensor = fft.rfft(x, dim=-1)
mapped: Any = func.vmap(func.grad(lambda value: (value * value).sum()))(x)
again: Any = checkpoint(lambda value: value.exp(), x, use_reentrant=False)
with profiler.profile(record_shapes=True) as prof:
    x.exp()
table: str = prof.key_averages().table(row_limit=5)
motion = trajectory.step_acceleration(y, (gradlib.zeros(1, 1),), 0.05)
position: Tensor = motion.position
with forward_ad.dual_level():
    dual: Tensor = forward_ad.make_dual(x, y)


def norms(tensors: Sequence[Tensor]) -> Tensor:
    return gradlib.stack([linalg.norm(each) for each in tensors]).sum()
