"""HIPS autograd's functions for code written on arrays: ``grad``, ``jacobian``, ``primitive`` and the others, on NumPy and CuPy arrays.

``import gradlib.interop.hips as autograd`` and ``import gradlib.numpy as np`` stand where a program says ``import autograd`` and
``import autograd.numpy as np``. Most names are at gradlib's top level too.
"""

from gradlib.interop.hips.checks import *  # noqa: F403
from gradlib.interop.hips.operators import *  # noqa: F403
from gradlib.interop.hips.primitives import *  # noqa: F403
