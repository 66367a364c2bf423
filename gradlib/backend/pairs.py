"""Kernels of gradlib's own for the distances of all pairs of two small sets of points on a device, and for their gradients.

A thread makes one distance, or one coordinate of a gradient. Coordinates are subtracted in their dtype; the rest is computed in float32 at
least. As in `gradlib.backend.kernel_text`, other calls are the declared formula's.
"""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, HEADERS, MOST, THREADS, WHOLE
from gradlib.backend.launching import kernels

LONGEST = 1024
"""The most steps of one thread."""


def source(char: str) -> str:
    """``distance``: z[b, i, j] of points x[b, i] and y[b, j] of ``size`` coordinates in the norm p; and ``slope``.

    That is the gradient by x for that of the distances, g, whose element of points i and j stands at ``i * down + j * across``. It is zero
    where a distance is.
    """
    computed = CTYPES[char] if char in WHOLE else "float"
    entered = f"    const unsigned o = blockIdx.x * {THREADS} + threadIdx.x;\n    if (o >= n) return;\n"
    return f"""{HEADERS.get(char, "")}typedef {CTYPES[char]} E;
typedef {computed} T;
extern "C" __global__ void gradlib_distance(const E* x, const E* y, E* z, T p, unsigned rows, unsigned others, unsigned size, unsigned n) {{
{entered}    const E *a = x + o / others * size, *b = y + (o / others / rows * others + o % others) * size;
    T s = 0;
    for (unsigned k = 0; k < size; k++) {{
        const T d = fabs(T(E(T(a[k]) - T(b[k]))));
        if (isinf(p)) s = d != d || d > s ? d : s;
        else s += p == 0 ? T(d != 0) : p == 1 ? d : p == 2 ? d * d : pow(d, p);
    }}
    z[o] = E(p == 2 ? sqrt(s) : p == 0 || p == 1 || isinf(p) ? s : pow(s, 1 / p));
}}
extern "C" __global__ void gradlib_slope(const E* g, bool one, const E* x, const E* y, const E* out, E* z, T p, unsigned rows,
    unsigned others, unsigned down, unsigned across, unsigned size, unsigned n) {{
{entered}    const unsigned i = o / size % rows, batch = o / size / rows, k = o % size;
    T s = 0;
    for (unsigned j = 0; j < others; j++) {{
        const unsigned at = batch * rows * others + i * down + j * across;
        const T d = T(E(T(x[o]) - T(y[(batch * others + j) * size + k]))), far = T(out[at]), size_of = fabs(d);
        const T sign = (d > 0) - (d < 0), h = T(g[one ? 0 : at]);
        if (p == 0) s += h * 0;
        else if (p == 1) s += h * sign;
        else if (isinf(p)) s += h * sign * (size_of == far);
        else if (far != 0) s += p == 2 ? h * (d / far) : size_of == 0 ? T(0) : h * (sign * pow(size_of / far, p - 1));
    }}
    z[o] = E(s);
}}
"""


_kernel = kernels(source)


def _are_served(x: Array, y: Array) -> bool:
    alike = type(x) is type(y) and x.dtype is y.dtype and x.dtype.char in CTYPES and x.data.device_id == y.data.device_id
    if not alike or not (x._c_contiguous and y._c_contiguous) or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-1]:
        return False
    return 0 < x.size <= MOST and 0 < y.size <= MOST and max(x.shape[-2], y.shape[-2], x.shape[-1]) <= LONGEST


def distances(x: Array, y: Array, p: float) -> Array | None:
    """The p-norm distance of each point x[..., i, :] from each y[..., j, :]; None where no kernel serves them."""
    if not _are_served(x, y):
        return None
    shape, data, char = (*x.shape[:-1], y.shape[-2]), x.data, x.dtype.char
    n = math.prod(shape)
    if n > MOST:
        return None
    out = type(x)(shape, x.dtype)
    values = (data.ptr, y.data.ptr, out.data.ptr, p, x.shape[-2], y.shape[-2], x.shape[-1], n)
    return out if _kernel("distance", char).run(data.device_id, n, THREADS, *values) else None


def slope(g: Any, x: Array, y: Array, out: Array, p: float, turned: bool) -> Array | None:
    """The gradient by x for that of distances; ``turned``: of y from x. None where no kernel serves them."""
    if not _are_served(x, y) or type(g) is not type(x) or g.dtype is not x.dtype or g.shape != out.shape or not out._c_contiguous:
        return None
    if g.data.device_id != x.data.device_id or (not (one := g._c_contiguous) and any(g.strides)):
        return None
    data, rows, others, size = x.data, x.shape[-2], y.shape[-2], x.shape[-1]
    made = type(x)(x.shape, x.dtype)
    steps = (1, rows) if turned else (others, 1)
    values = (g.data.ptr, not one, data.ptr, y.data.ptr, out.data.ptr, made.data.ptr, p, rows, others, *steps, size, x.size)
    return made if _kernel("slope", x.dtype.char).run(data.device_id, x.size, THREADS, *values) else None
