"""Kernels of gradlib's own for small reductions of CuPy arrays: sums, means, the largest or smallest elements with their places, softmax.

Each serves arrays of real floats in any layout of `gradlib.backend.line_layout`, and any of their dimensions. As in
`gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.copying import row_major_copy
from gradlib.backend.kernel_text import CTYPES, INFINITE, THREADS, WARP_SUM
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan
from gradlib.backend.lines import MANY, reduced

_FOLDS = {
    "sum": ("+", 0, "v", "s"), "prod": ("*", 1, "v", "s"), "nansum": ("+", 0, "v == v ? v : 0", "s"),
    "nanmean": ("+", 0, "v == v ? v : 0", "T(E(s))"),  # as a quotient of two results, of which the sum is rounded first
    "trapezoid": ("+", 0, "v", "s - (T(line[0]) + T(line[offset(count - 1)])) * T(0.5)"),
    "norm": ("+", 0, "v * v", "count == 1 ? fabs(T(line[0])) : sqrt(s)"),  # of one, whose square might overflow
    "norm_1": ("+", 0, "fabs(v)", "s"), "norm_0": ("+", 0, "v != 0", "s"), "norm_power": ("+", 0, "pow(fabs(v), by)", "s"),
}  # fmt: skip
"""By name the sign, what it begins with, what each element v gives, and the result, which is divided by a number.

The mean without NaN divides by how many are numbers, and the integral takes half of both ends away.
"""
_BETTER = {"max": ">", "min": "<"}
_SIZES = {"max_size": ">", "min_size": "<"}
"""The same of absolute values, which floats alone have here."""
_EXPONENTIALS = {
    "softmax": f"E* const out = z + (line - x);\n    {EACH} out[offset(k)] = E(exp(T(line[offset(k)]) - top) / s);",
    "log_softmax": f"E* const out = z + (line - x);\n    {EACH} out[offset(k)] = E(T(line[offset(k)]) - top - log(s));",
    "logsumexp": "if (lane == 0) z[o] = E(log(s) + top);",
}
"""What is written, given the largest element of a line and ``s``, the sum of the exponentials of all less that."""

_BEFORE = {
    "nanmean": f"""    by = 0;
    {EACH} by += T(line[offset(k)]) == T(line[offset(k)]);
    {WARP_SUM.format("by")}
""",
    "norm_power": """    s = count == 1 ? fabs(T(line[0])) : pow(s, 1 / by);
    by = 1;
""",
}
"""What comes before the division: of a norm ``by`` is the power."""
_NONZERO = f"""    unsigned s = 0;
    {EACH} s += T(line[offset(k)]) != 0;
    {WARP_SUM.format("s")}
    if (lane == 0) ((long long*)z)[o] = s;
"""


def _fold(name: str) -> str:
    sign, start, value, made = _FOLDS[name]
    return f"""    T s = {start};
    {EACH} {{ const T v = T(line[offset(k)]); s {sign}= {value}; }}
    for (int bits = 16; bits; bits /= 2) s {sign}= __shfl_xor_sync(0xffffffffu, s, bits);
{_BEFORE.get(name, "")}    if (lane == 0) z[o] = E(({made}) / by);
"""


def _exponential(name: str) -> str:
    finite = "if (!isfinite(top)) top = 0;\n    " if name == "logsumexp" else ""
    return f"""    T top = -{INFINITE}, s = 0;
    {EACH} top = fmax(top, T(line[offset(k)]));
    for (int bits = 16; bits; bits /= 2) top = fmax(top, __shfl_xor_sync(0xffffffffu, top, bits));
    {finite}{EACH} s += exp(T(line[offset(k)]) - top);
    {WARP_SUM.format("s")}
    {_EXPONENTIALS[name]}
"""


def _extreme(sign: str, value: str = "T(line[{}])") -> str:
    """Of the best elements the first one counts, and NaN before all others."""
    return f"""    unsigned at = lane < count ? lane : 0;
    T best = {value.format("offset(at)")};
    auto meet = [&](T other, unsigned k) {{
        if (best != best ? other != other && k < at : other != other || other {sign} best || (other == best && k < at)) {{
            best = other;
            at = k;
        }}
    }};
    for (unsigned k = lane + 32; k < count; k += 32) meet({value.format("offset(k)")}, k);
    for (int bits = 16; bits; bits /= 2) {{
        const T other = __shfl_xor_sync(0xffffffffu, best, bits);
        const unsigned k = __shfl_xor_sync(0xffffffffu, at, bits);
        meet(other, k);
    }}
    if (lane == 0) {{
        z[o] = E(best);
        if (places) places[o] = at;
    }}
"""


def source(char: str, strided: bool) -> str:
    """The kernels for elements of a dtype: ``max``, ``min``, ``nonzero``, and of floats those of `_FOLDS` and `_EXPONENTIALS`, of which
    those that write whole lines have even ones.

    A warp makes one result. Sums and products of half types are made in float32, and divided by a number at the end. The places of extremes
    are written unless ``places`` is null.
    """
    texts = {"nonzero": ("", _NONZERO), **{name: ("long long* places", _extreme(sign)) for name, sign in _BETTER.items()}}
    if char in CTYPES:
        texts |= {name: ("T by", _fold(name)) for name in _FOLDS}
        texts |= {name: ("", _exponential(name)) for name in _EXPONENTIALS if not strided or name == "logsumexp"}
        texts |= {name: ("long long* places", _extreme(sign, "fabs(T(line[{}]))")) for name, sign in _SIZES.items()}
    return of_lines(texts, char, strided)


def is_one(g: Any, size: int, like: Array | None = None) -> bool | None:
    """Whether a gradient, an array of floats, is one number for so many elements; None for what no kernel serves.

    ``like``: an array whose dtype and device it must have.
    """
    if type(g) is not cupy().ndarray or g.size != size or g.dtype.char not in CTYPES:
        return None
    if like is not None and (g.dtype is not like.dtype or g.data.device_id != like.data.device_id):
        return None
    return False if g._c_contiguous else None if any(g.strides) else True


_kernel = kernels(source)


def folded(name: str, input: Array, axis: Any, keepdim: bool, mean: bool = False, power: float | None = None) -> Array | None:
    """The sum ("sum", or the mean), that without NaN ("nansum", "nanmean"), product ("prod") or norm ("norm", "norm_1" and "norm_0", and
    of another ``power`` "norm_power") of a CuPy array of floats on the current device, in its dtype.

    Args:
        axis: dimensions counted from 0, a number or a tuple of them; None for all.
        keepdim: leave them with size 1.
    Returns: None where there is no kernel for it.
    """
    data, dtype = input.data, input.dtype
    planned = plan(input.shape, None if input._c_contiguous else input.strides, dtype, axis, keepdim)
    if planned is None or dtype.char not in CTYPES:
        return None
    shape, n, count, strided, sizes = planned
    out = type(input)(shape, dtype)
    values = (data.ptr, out.data.ptr, power or (count if mean else 1))
    return out if _kernel(name, dtype.char, strided).run(data.device_id, n * 32, THREADS, *values, *sizes) else None


def exponentials(name: str, input: Array, axis: Any, keepdim: bool = False) -> Array | None:
    """The "softmax" or "log_softmax" of a CuPy array of floats along a dimension, or its "logsumexp", as ``folded`` gives sums.

    Returns: None where there is no kernel for it.
    """
    char, whole = input.dtype.char, name != "logsumexp"  # which alone writes no element for each that it reads
    strides = None if whole or input._c_contiguous else input.strides
    planned = plan(input.shape, strides, input.dtype, axis, keepdim)
    if planned is None or char not in CTYPES or not input.ndim:
        return None
    shape, n, _, strided, sizes = planned
    data = (row_major_copy(input) if whole and not input._c_contiguous else input).data
    out = type(input)(input.shape if whole else shape, input.dtype)
    return out if _kernel(name, char, strided).run(data.device_id, n * 32, THREADS, data.ptr, out.data.ptr, *sizes) else None


def nonzero(input: Array, axis: Any) -> Array | None:
    """How many elements are not 0, as int64; ``axis`` and None as for ``folded``."""
    data, dtype = input.data, input.dtype
    planned = plan(input.shape, None if input._c_contiguous else input.strides, dtype, axis, False)
    if planned is None:
        return None
    shape, n, _, strided, sizes = planned
    out, kernel = type(input)(shape, "q"), _kernel("nonzero", dtype.char, strided)
    return out if kernel.run(data.device_id, n * 32, THREADS, data.ptr, out.data.ptr, *sizes) else None


def extreme(name: str, input: Array, axis: Any, keepdim: bool, placed: bool) -> tuple[Array, Array | None] | None:
    """The largest ("max") or smallest ("min") elements as ``folded`` gives sums, and where ``placed``, the place of each along ``axis``; or
    of floats the largest ("max_size") or smallest ("min_size") absolute values.
    """
    data, dtype = input.data, input.dtype
    planned = plan(input.shape, None if input._c_contiguous else input.strides, dtype, axis, keepdim)
    if planned is None:
        return None
    shape, n, _, strided, sizes = planned
    out = type(input)(shape, dtype)
    places = type(input)(shape, "q") if placed else None
    values = (data.ptr, out.data.ptr, 0 if places is None else places.data.ptr)
    return (out, places) if _kernel(name, dtype.char, strided).run(data.device_id, n * 32, THREADS, *values, *sizes) else None


def largest(array: Array, axis: int, keepdims: bool = True) -> Array:
    """The largest elements along a dimension (from 0), NaN where there is one; at less cost than the array's method."""
    if type(array) is np.ndarray:
        if array.size >= MANY:
            return reduced(np.maximum, array, axis, keepdims)
        reduce: Any = np.maximum.reduce  # of which the overloads ask for a literal
        return reduce(array, axis=axis, keepdims=keepdims)
    made = None if isinstance(array, np.ndarray) else extreme("max", array, axis, keepdims, False)
    return array.max(axis, keepdims=keepdims) if made is None else made[0]
