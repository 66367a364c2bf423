"""Special functions."""

import scipy.special
from cupy._functions import ufunc

_NAMES = ("erf", "erfc", "erfinv", "expit", "logit", "log_ndtr", "ndtr", "ndtri", "entr")
_REAL = ("erf", "erfc", "log_ndtr", "ndtr")
for _name in _NAMES:
    globals()[_name] = ufunc(getattr(scipy.special, _name), "c" if _name in _REAL else "", ("bfloat16", "int16"))
