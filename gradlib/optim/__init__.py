"""Optimisers with torch.optim's names and semantics, for gradlib Tensors on either device."""

from gradlib.optim.adam import Adam as Adam
from gradlib.optim.lbfgs import LBFGS as LBFGS
from gradlib.optim.optimizer import Optimizer as Optimizer
from gradlib.optim.sgd import SGD as SGD
