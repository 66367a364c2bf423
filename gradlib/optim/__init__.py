"""Optimisers with torch.optim's names and semantics, for gradlib Tensors on either device; SciPy's solvers with the tape's derivatives."""

from gradlib.backend.names import suggest_names as _suggest_names
from gradlib.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from gradlib.optim.adadelta import Adadelta as Adadelta
from gradlib.optim.adagrad import Adagrad as Adagrad
from gradlib.optim.adam import Adam as Adam, AdamW as AdamW
from gradlib.optim.adamax import Adamax as Adamax
from gradlib.optim.asgd import ASGD as ASGD
from gradlib.optim.lbfgs import LBFGS as LBFGS
from gradlib.optim.nadam import NAdam as NAdam
from gradlib.optim.optimizer import Optimizer as Optimizer
from gradlib.optim.radam import RAdam as RAdam
from gradlib.optim.rmsprop import RMSprop as RMSprop
from gradlib.optim.rprop import Rprop as Rprop
from gradlib.optim.scipy_solvers import least_squares as least_squares, minimize as minimize, root as root, solve_ivp as solve_ivp
from gradlib.optim.sgd import SGD as SGD

_suggest_names(__name__)
