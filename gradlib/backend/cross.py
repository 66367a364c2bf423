"""A kernel of gradlib's own for cross products, of vectors of three elements, in one launch; asked of CuPy's function they take seven.

As in `gradlib.backend.kernel_text`, it serves contiguous arrays of one real float dtype and shape; other calls are CuPy's.
"""

from __future__ import annotations

import math
from functools import cache

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, HEADERS, MOST, THREADS, WHOLE
from gradlib.backend.launching import Kernel, compiled, kernel_in


def source(char: str) -> str:
    """The kernel ``cross`` for a dtype: a thread makes one element, those of a vector being ``step`` apart."""
    computed = CTYPES[char] if char in WHOLE else "float"
    return f"""{HEADERS.get(char, "")}typedef {CTYPES[char]} E;
typedef {computed} T;
extern "C" __global__ void gradlib_cross(const E* x, const E* y, E* z, unsigned step, unsigned n) {{
    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= n) return;
    const unsigned place = i / step % 3, first = i - place * step;
    const unsigned j = first + (place + 1) % 3 * step, k = first + (place + 2) % 3 * step;
    z[i] = E(T(x[j]) * T(y[k]) - T(x[k]) * T(y[j]));
}}
"""


@cache
def _kernel(char: str) -> Kernel:
    return kernel_in(compiled(source(char), "--fmad=false"), "cross")  # so that parallel vectors give zero


def cross(x: Array, y: Array, dim: int) -> Array | None:
    """The cross products of vectors along a dimension; None where no kernel serves them."""
    shape, char, n, data = x.shape, x.dtype.char, x.size, x.data
    if y.shape != shape or y.dtype is not x.dtype or char not in CTYPES or not 0 < n <= MOST or y.data.device_id != data.device_id:
        return None
    if not (x._c_contiguous and y._c_contiguous):
        return None
    out = type(x)(shape, x.dtype)
    step = math.prod(shape[dim:]) // 3
    return out if _kernel(char).run(data.device_id, n, THREADS, data.ptr, y.data.ptr, out.data.ptr, step, n) else None
