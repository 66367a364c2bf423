"""The array API standard on gradlib: its functions take Tensors and return Arrays, which differentiate as Tensors do.

    import gradlib.array_api as xp

    x = xp.asarray([1.0, 2.0, 3.0])
    x.requires_grad_()
    y = xp.sum(xp.sin(x[::-1]) * x)
    y.backward()

A library written for the standard, such as SciPy with ``SCIPY_ARRAY_API=1``, finds this namespace by itself from a Tensor or an Array.

Source: array API standard 2024.12, with the extensions ``linalg`` and ``fft``.
"""

from math import e as e, inf as inf, nan as nan, pi as pi

from gradlib.array_api import fft as fft, linalg as linalg
from gradlib.array_api.array import VERSION, Array as Array
from gradlib.array_api.creation import *  # noqa: F403
from gradlib.array_api.data_types import *  # noqa: F403
from gradlib.array_api.data_types import bool_
from gradlib.array_api.elementwise import *  # noqa: F403
from gradlib.array_api.info import __array_namespace_info__ as __array_namespace_info__
from gradlib.array_api.linalg import matmul as matmul, matrix_transpose as matrix_transpose, tensordot as tensordot, vecdot as vecdot
from gradlib.array_api.manipulation import *  # noqa: F403
from gradlib.array_api.reductions import *  # noqa: F403

bool = bool_
newaxis = None
__array_api_version__ = VERSION
