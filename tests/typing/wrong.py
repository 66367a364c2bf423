"""Mistakes that type checkers must find, one on each line marked so; never run, read by ``ci/typed_calls.py``."""

import gradlib
from gradlib import fft, func, linalg, optim, trajectory
from gradlib.nn import functional as F, utils as nn_utils
from gradlib.optim import lr_scheduler, swa_utils

x = gradlib.zeros(2, 3)
gradlib.tanh(x, 1, 2, 3)  # wrong
gradlib.tnah(x)  # wrong
x.tnah()  # wrong
x.sum(dimension=0)  # wrong
x.sum(0, keepdim="yes")  # wrong
gradlib.add(x, x, 2)  # wrong
gradlib.add(x)  # wrong
x.reshape("two")  # wrong
x.transpose(0)  # wrong
gradlib.sin("x")  # wrong
gradlib.sin([1.0, 2.0])  # wrong
a: int = x.sin()  # wrong
b: gradlib.Tensor = gradlib.allclose(x, x)  # wrong
values, indices, more = gradlib.max(x, 1)  # wrong
c: int = x.max(0).values  # wrong
x.split(1).sum()  # wrong
d = linalg.svd(x).V  # wrong
linalg.sdv(x)  # wrong
F.relu(x, in_place=True)  # wrong
F.softmaxx(x)  # wrong
x.add_()  # wrong
x.backward(retain="yes")  # wrong
x["key"]  # wrong
gradlib.no_gard()  # wrong
gradlib.cat(x, y=1)  # wrong
gradlib.savee({}, "x.npz")  # wrong
gradlib.load()  # wrong
fft.rfft(x, dimension=1)  # wrong
func.vmapp(abs)  # wrong
func.grad(abs, argnum=0)  # wrong
optim.Adam([x], learning_rate=0.1)  # wrong
optim.Adamm([x])  # wrong
lr_scheduler.StepLR(optim.Adam([x]))  # wrong
swa_utils.get_ema_avg_fn("slow")  # wrong
nn_utils.clip_grad_norm_([x], 1.0, norm="inf")  # wrong
trajectory.step_position(x, ())  # wrong
