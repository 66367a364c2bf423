"""Mistakes that type checkers must find, one on each line marked so; never run, read by ``ci/typed_calls.py``."""

import gradlib
from gradlib import linalg
from gradlib.nn import functional as F

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
