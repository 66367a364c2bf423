"""Special functions."""

import scipy.special
from cupy._functions import ufunc

_NAMES = ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit", "logit", "log_ndtr", "ndtr", "ndtri", "xlogy", "entr")
for _name in _NAMES:
    globals()[_name] = ufunc(getattr(scipy.special, _name))
