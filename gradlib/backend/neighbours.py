"""Kernels of gradlib's own for differences of neighbours along a dimension, for their gradient, and for cross products.

As in `gradlib.backend.kernel_text`, every other call is CuPy's own. Of half types each step is computed in float32 and rounded, so the bits
are those of CuPy's functions one after the other.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import ALL_CTYPES, ENTERED, HEADERS, MOST, THREADS
from gradlib.backend.launching import Kernel, compiled, kernel_in


def source(char: str) -> str:
    """The kernels for elements of a dtype, each of which makes element i of z; along the dimension, steps are of ``inner`` elements.

    ``diff``: of x, which has one more element along the dimension than z, whose are ``count``.
    ``diff_slope``: its gradient, for g, which has one less.
    ``cross``: of x and y.
    """
    ctype = ALL_CTYPES[char]
    differ = "at[inner] != at[0]" if char == "?" else "T(at[inner]) - T(at[0])"
    return f"""{HEADERS.get(char, "")}typedef {ctype} E;
typedef {"float" if char in HEADERS else ctype} T;
extern "C" __global__ void gradlib_diff(const E* x, E* z, unsigned count, unsigned inner, unsigned n) {{
{ENTERED}    const E* const at = x + i + i / inner / count * inner;
    z[i] = E({differ});
}}
extern "C" __global__ void gradlib_diff_slope(const E* g, E* z, unsigned count, unsigned inner, unsigned n) {{
{ENTERED}    const unsigned line = i / inner, k = line % count;
    const E* const at = g + i - line / count * inner;
    z[i] = E((k ? T(*(at - inner)) : T(0)) - (k + 1 < count ? T(*at) : T(0)));
}}
extern "C" __global__ void gradlib_cross(const E* x, const E* y, E* z, unsigned inner, unsigned n) {{
{ENTERED}    const unsigned k = i / inner % 3, first = i - k * inner;
    const unsigned after = first + (k + 1) % 3 * inner, last = first + (k + 2) % 3 * inner;
    const E one = E(T(x[after]) * T(y[last])), other = E(T(x[last]) * T(y[after]));
    z[i] = E(T(one) - T(other));
}}
"""


@cache
def _module(char: str) -> Any:
    return compiled(source(char), "--fmad=false")


@cache
def _kernel(name: str, char: str) -> Kernel:
    return kernel_in(_module(char), name)


def differences(array: Array, dim: int, slope: bool = False) -> Array | None:
    """The difference of each two neighbours along a dimension of a CuPy array of the current device, or with ``slope`` what gives the
    gradient from that of the differences: each from the one before. None where no kernel serves it.
    """
    char, shape, data = array.dtype.char, array.shape, array.data
    if char not in ALL_CTYPES or not array._c_contiguous or (slope and char == "?"):
        return None
    dim %= len(shape)
    count = shape[dim] + (1 if slope else -1)
    made = (*shape[:dim], count, *shape[dim + 1 :])
    if not 0 < (n := math.prod(made)) <= MOST:
        return None
    out, kernel = type(array)(made, array.dtype), _kernel("diff_slope" if slope else "diff", char)
    inner = math.prod(shape[dim + 1 :])
    return out if kernel.run(data.device_id, n, THREADS, data.ptr, out.data.ptr, count, inner, n) else None


def cross(x: Array, y: Array, dim: int) -> Array | None:
    """The cross products of two CuPy arrays of the current device along a dimension of size 3; None where no kernel serves them."""
    char, shape, data, n = x.dtype.char, x.shape, x.data, x.size
    if type(y) is not type(x) or y.dtype is not x.dtype or y.shape != shape or y.data.device_id != data.device_id:
        return None
    if char not in ALL_CTYPES or char == "?" or not (x._c_contiguous and y._c_contiguous) or not 0 < n <= MOST:
        return None
    out, inner = type(x)(shape, x.dtype), math.prod(shape[dim % len(shape) + 1 :])
    return out if _kernel("cross", char).run(data.device_id, n, THREADS, data.ptr, y.data.ptr, out.data.ptr, inner, n) else None
