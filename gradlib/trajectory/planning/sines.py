"""The sums of sines that the planner searches, as a differentiable operation.

On the host its cost grows like H log H. On a device, and for short horizons on the host, it is a product with a matrix, which needs no
cuFFT beside CuPy: it grows like H^2, but is one product for each problem, and the matrix is made once for each H. The device's product is
gradlib's own kernel: its sums have one order, whatever the batch, and a CUDA graph can capture it.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gradlib.backend.array import Array, Namespace, device_index, there_for_all
from gradlib.backend.capture import kernels
from gradlib.core.op import op

_SHORT = 96  # sines up to which the matrix is the quicker on the host
_ALONE = 1 << 18  # multiplications of a product up to which BLAS takes one thread; the number of threads would change its rounding


@op("linear", name="trajopt_sines", method=False, complex="none", input=lambda g: sine_transform(g))
def sine_transform(xp: Namespace, input: Array) -> Array:
    """The M orthonormal sines sin(pi h k / (M+1)), h and k from 1 to M, with these coefficients; its own transpose and inverse.

    Args:
        input: (B, M, D), of which dimension 1 is transformed.
    Source: the discrete sine transform of the first kind, as the Fourier transform of the sequence continued as an odd one.
    """
    size = input.shape[1]
    if xp is not np:
        return kernels.product(sine_matrix(size, input.dtype, device_index(input)), input)
    if size <= _SHORT and size * size * input.shape[2] <= _ALONE:
        return np.matmul(sine_matrix(size, input.dtype, None), input)
    odd = xp.zeros((len(input), 2 * size + 2, input.shape[2]), input.dtype)
    odd[:, 1 : size + 1] = input
    odd[:, size + 2 :] = -input[:, ::-1]
    made = xp.fft.rfft(odd, axis=1).imag[:, 1 : size + 1] * -math.sqrt(0.5 / (size + 1))
    return made.astype(input.dtype, copy=False)


@functools.lru_cache(maxsize=2)
def sine_matrix(size: int, dtype: np.dtype, device: int | None) -> Array:
    """The transform as a matrix (M, M) on a device. Two are cached: that of a stage of the planner, and that of the next."""
    k = np.arange(1, size + 1)
    return there_for_all((np.sin(np.pi * k[:, None] * k / (size + 1)) * math.sqrt(2 / (size + 1))).astype(dtype), device)
