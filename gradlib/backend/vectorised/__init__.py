"""Functions that NumPy computes element by element, written with those that it computes by several at once or in less time: exp, log, tanh.

Each is NumPy's own function for small arrays, other dtypes and CuPy, where NumPy has a vector loop of it (`loops`), and in every block of
elements in which one is not an ordinary number; what it gives otherwise is NumPy's value but for a few units in the last place.

A form, ``form(x, out)``, writes a function of a block of elements in several passes over it; `forms` makes the function of it, and says
when it is used. `blocks` has the blocks, and the questions which arrays are computed by them; `parts` what forms are made of.
"""

from gradlib.backend.vectorised.angles import (
    across as across,
    arccos as arccos,
    arcsin as arcsin,
    arctan as arctan,
    arctan2 as arctan2,
    cos as cos,
    hypot as hypot,
    sin as sin,
    tan as tan,
)
from gradlib.backend.vectorised.blocks import LEAST as LEAST, are_alike as are_alike, are_long as are_long, fit as fit, fits as fits
from gradlib.backend.vectorised.distances import (
    smooth_absolute as smooth_absolute,
    smooth_distance as smooth_distance,
    smooth_slopes as smooth_slopes,
)
from gradlib.backend.vectorised.exponential import (
    arctanh as arctanh,
    cosh as cosh,
    expm1 as expm1,
    log1p as log1p,
    log10 as log10,
    logaddexp as logaddexp,
    sinh as sinh,
)
from gradlib.backend.vectorised.half import cast_half as cast_half
from gradlib.backend.vectorised.logistic import (
    cross_entropy_with_logits as cross_entropy_with_logits,
    elu as elu,
    log_sigmoid as log_sigmoid,
    sigmoid as sigmoid,
    silu as silu,
    silu_slope as silu_slope,
    softplus as softplus,
    softplus_slope as softplus_slope,
    times_logistic as times_logistic,
)
from gradlib.backend.vectorised.normal import erf as erf, gelu as gelu, gelu_slope as gelu_slope
from gradlib.backend.vectorised.passes import (
    added as added,
    between as between,
    complex_of as complex_of,
    fraction as fraction,
    leaky as leaky,
    plus as plus,
    reciprocal as reciprocal,
    reciprocal_root as reciprocal_root,
)
from gradlib.backend.vectorised.remainders import (
    floor_divide as floor_divide,
    fmod as fmod,
    modulo as modulo,
    remainder as remainder,
)
