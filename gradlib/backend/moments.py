"""Kernels of gradlib's own for small variances of CuPy arrays, for the normalisation of rows, and for the gradients of both.

They serve what those of `gradlib.backend.reducing` serve, of rows those that lie one behind the other; half types are computed in float32
and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, THREADS, WARP_SUM, WHOLE
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan, room_beside, strides_beside
from gradlib.backend.reducing import is_one

_MEAN = f"""    T mean = 0;
    {EACH} mean += T(line[offset(k)]);
    {WARP_SUM.format("mean")}
    mean /= count;
"""
_SQUARES = f"""    T s = 0;
    {EACH} {{ const T away = T(line[offset(k)]) - mean; s += away * away; }}
    {WARP_SUM.format("s")}
"""
_VARIANCES = {
    "variance": (
        "T freedom, bool root",
        f"""{_MEAN}{_SQUARES}    s /= freedom;
    if (lane == 0) z[o] = E(root ? sqrt(s) : s);
""",
    ),
    "variance_slope": (
        "const E* g, bool one, const E* root, T scale",
        f"""{_MEAN}    T factor = T(g[one ? 0 : o]);
    if (root) {{ const T r = T(root[o]); factor = r == 0 ? T(0) : factor / (r * 2); }}
    E* const out = z + (line - x);
    {EACH} out[offset(k)] = E(factor * ((T(line[offset(k)]) - mean) * scale));
""",
    ),
}
_ROWS = {
    "normalised": (
        "T* centre, T* rstd, T eps, const E* weight, const E* bias",
        f"""{_MEAN}{_SQUARES}    const T r = 1 / sqrt(s / count + eps);
    if (lane == 0) {{ centre[o] = mean; rstd[o] = r; }}
    {EACH} {{
        const T normal = (T(line[k]) - mean) * r;
        z[o * count + k] = E(weight ? normal * T(weight[k]) + T(bias[k]) : normal);
    }}
""",
    ),
    "normalised_slope": (
        "const E* g, bool one, const T* centre, const T* rstd, const E* weight",
        f"""    const T c = centre[o], r = rstd[o];
    const E* const from = one ? g : g + o * count;
    auto incoming = [&](unsigned k) {{ const T d = T(from[one ? 0 : k]); return weight ? d * T(weight[k]) : d; }};
    T all = 0, along = 0;
    {EACH} {{ const T d = incoming(k); all += d; along += d * ((T(line[k]) - c) * r); }}
    {WARP_SUM.format("all")}
    {WARP_SUM.format("along")}
    all /= count;
    along /= count;
    {EACH} z[o * count + k] = E(r * (incoming(k) - all - (T(line[k]) - c) * r * along));
""",
    ),
    "normal_products": (
        "const E* g, bool one, const T* centre, const T* rstd",
        f"""    const T c = centre[o], r = rstd[o];
    const E* const from = one ? g : g + o * count;
    {EACH} z[o * count + k] = E(T(from[one ? 0 : k]) * ((T(line[k]) - c) * r));
""",
    ),
}
"""By name, what a kernel takes beside x, z and the sizes, and what a warp does with a line, which is a row of x here.

``one``: the gradient is one number for all elements. ``root``: whether the root is taken; the root, or null, for the gradient of either.
``weight``, ``bias``: numbers for each place in a line, or null.
"""


def source(char: str, strided: bool) -> str:
    """The kernels for elements of a dtype; of strided lines those of variances."""
    return of_lines(_VARIANCES if strided else _VARIANCES | _ROWS, char, strided)


_kernel = kernels(source)


def variance(input: Array, axis: Any, correction: float, keepdim: bool, root: bool) -> Array | None:
    """The variance of a CuPy array of floats on the current device over dimensions counted from 0 (None for all), or its root.

    Returns: None where there is no kernel for it.
    """
    data, dtype = input.data, input.dtype
    planned = plan(input.shape, None if input._c_contiguous else input.strides, dtype, axis, keepdim)
    if planned is None or dtype.char not in CTYPES:
        return None
    shape, n, count, strided, sizes = planned
    out = type(input)(shape, dtype)
    values = (data.ptr, out.data.ptr, max(count - correction, 0), root)
    return out if _kernel("variance", dtype.char, strided).run(data.device_id, n * 32, THREADS, *values, *sizes) else None


def variance_slope(g: Any, input: Array, root: Array | None, axis: Any, correction: float) -> Array | None:
    """The gradient for that of the variance or, where it is given, of its root; None where no kernel serves it."""
    char, in_order = input.dtype.char, input._c_contiguous
    strides = None if in_order else strides_beside(input)
    planned = plan(input.shape, strides, input.dtype, axis, True)
    if planned is None or char not in CTYPES:
        return None
    _, n, count, strided, sizes = planned
    freedom = count - correction
    one = is_one(g, n, input)
    if one is None or (n == 1 and freedom <= 0) or (root is not None and not root._c_contiguous):
        return None
    x, out = (input, type(input)(input.shape, input.dtype)) if in_order else room_beside(input, strides)
    data, scale = x.data, 2 / freedom if freedom else np.inf
    values = (data.ptr, out.data.ptr, g.data.ptr, one, 0 if root is None else root.data.ptr, scale)
    return out if _kernel("variance_slope", char, strided).run(data.device_id, n * 32, THREADS, *values, *sizes) else None


def _pointer(numbers: Any, like: Array, count: int) -> Any:
    """Where so many numbers of an array's dtype lie; None for those that no kernel serves."""
    if type(numbers) is not type(like) or numbers.dtype is not like.dtype or numbers.size != count or not numbers._c_contiguous:
        return None
    return int(numbers.data.ptr) if numbers.data.device_id == like.data.device_id else None


def normalised(
    input: Array, dims: tuple[int, ...], eps: float, weight: Array | None = None, bias: Array | None = None
) -> tuple[Array, Array, Array] | None:
    """Each row of a CuPy array of floats, over its last dimensions, less its mean and divided by its deviation.

    Args:
        weight, bias: what each row is then multiplied by and what is added to it, both or neither.
    Returns: that, the means, and one over the deviations, in single at least; None where there is no kernel for it.
    """
    made, data, dtype = type(input), input.data, input.dtype
    planned = plan(input.shape, None, dtype, dims, True)
    if planned is None or dtype.char not in CTYPES or not input._c_contiguous:
        return None
    shape, n, count, _, sizes = planned
    factors = shifts = 0
    if weight is not None:
        factors, shifts = _pointer(weight, input, count), _pointer(bias, input, count)
        if factors is None or shifts is None:
            return None
    wide = dtype if dtype.char in WHOLE else np.dtype("f")
    out, centre, rstd = made(input.shape, dtype), made(shape, wide), made(shape, wide)
    values = (data.ptr, out.data.ptr, centre.data.ptr, rstd.data.ptr, eps, factors, shifts, *sizes)
    return (out, centre, rstd) if _kernel("normalised", dtype.char, False).run(data.device_id, n * 32, THREADS, *values) else None


def normalised_slope(g: Any, input: Array, centre: Array, rstd: Array, dims: tuple[int, ...], weight: Array | None = None) -> Array | None:
    """The gradient for that of the normalised rows, which were multiplied by ``weight``; None where no kernel serves it."""
    factors = 0 if weight is None else _pointer(weight, input, weight.size)
    return None if factors is None else _from_rows("normalised_slope", g, input, centre, rstd, dims, factors)


def normal_products(g: Any, input: Array, centre: Array, rstd: Array, dims: tuple[int, ...]) -> Array | None:
    """A gradient times the normalised rows; None where no kernel serves it."""
    return _from_rows("normal_products", g, input, centre, rstd, dims)


def _from_rows(name: str, g: Any, input: Array, centre: Array, rstd: Array, dims: tuple[int, ...], *more: int) -> Array | None:
    planned = plan(input.shape, None, input.dtype, dims, True)
    one = is_one(g, input.size, input)  # of floats alone
    if planned is None or one is None or not input._c_contiguous:
        return None
    _, n, _, _, sizes = planned
    out, data = type(input)(input.shape, input.dtype), input.data
    values = (data.ptr, out.data.ptr, g.data.ptr, one, centre.data.ptr, rstd.data.ptr, *more, *sizes)
    return out if _kernel(name, input.dtype.char, False).run(data.device_id, n * 32, THREADS, *values) else None
