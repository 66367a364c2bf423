"""Kernels of gradlib's own for small reductions of CuPy arrays: sums, means, the largest or smallest elements with their places, softmax.

Each serves contiguous arrays of real floats whose reduced dimensions stand side by side. As in `gradlib.backend.kernel_text`, every other
call is CuPy's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.kernel_text import CTYPES, EXACT, HEADERS, INFINITE, MOST, THREADS, WARP_SUM, WHOLE
from gradlib.backend.launching import Kernel, kernel_of
from gradlib.backend.lines import MANY, reduced

LONGEST = 1024
"""The most elements that are reduced to one: a warp does it, of which longer ones would take more time than CuPy's blocks."""

SERVED = {**CTYPES, **EXACT}
"""The dtypes of which there are kernels; sums and products of floats alone."""
EACH = "for (unsigned k = lane; k < count; k += 32)"
"""The elements of a line that a thread of its warp takes."""
_FOLDS = {
    "sum": ("+", 0, "v", "s"), "prod": ("*", 1, "v", "s"), "nansum": ("+", 0, "v == v ? v : 0", "s"),
    "nanmean": ("+", 0, "v == v ? v : 0", "T(E(s))"),  # as a quotient of two results, of which the sum is rounded first
    "trapezoid": ("+", 0, "v", "s - (T(line[0]) + T(line[(count - 1) * inner])) * T(0.5)"),
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
    "softmax": f"E* const out = z + (line - x);\n    {EACH} out[k * inner] = E(exp(T(line[k * inner]) - top) / s);",
    "log_softmax": f"E* const out = z + (line - x);\n    {EACH} out[k * inner] = E(T(line[k * inner]) - top - log(s));",
    "logsumexp": "if (lane == 0) z[o] = E(log(s) + top);",
}
"""What is written, given the largest element of a line and ``s``, the sum of the exponentials of all less that."""

_ENTERED = f"""    const unsigned o = (blockIdx.x * {THREADS} + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (o >= n) return;
    const E* line = x + (unsigned long long)(o / inner) * count * inner + o % inner;
"""
_BEFORE = {
    "nanmean": f"""    by = 0;
    {EACH} by += T(line[k * inner]) == T(line[k * inner]);
    {WARP_SUM.format("by")}
""",
    "norm_power": """    s = count == 1 ? fabs(T(line[0])) : pow(s, 1 / by);
    by = 1;
""",
}
"""What comes before the division: of a norm ``by`` is the power."""
_NONZERO = f"""    unsigned s = 0;
    {EACH} s += T(line[k * inner]) != 0;
    {WARP_SUM.format("s")}
    if (lane == 0) ((long long*)z)[o] = s;
"""


def _fold(name: str) -> str:
    sign, start, value, made = _FOLDS[name]
    return f"""    T s = {start};
    {EACH} {{ const T v = T(line[k * inner]); s {sign}= {value}; }}
    for (int bits = 16; bits; bits /= 2) s {sign}= __shfl_xor_sync(0xffffffffu, s, bits);
{_BEFORE.get(name, "")}    if (lane == 0) z[o] = E(({made}) / by);
"""


def _exponential(name: str) -> str:
    finite = "if (!isfinite(top)) top = 0;\n    " if name == "logsumexp" else ""
    return f"""    T top = -{INFINITE}, s = 0;
    {EACH} top = fmax(top, T(line[k * inner]));
    for (int bits = 16; bits; bits /= 2) top = fmax(top, __shfl_xor_sync(0xffffffffu, top, bits));
    {finite}{EACH} s += exp(T(line[k * inner]) - top);
    {WARP_SUM.format("s")}
    {_EXPONENTIALS[name]}
"""


def _extreme(sign: str, value: str = "T(line[{}])") -> str:
    """Of the best elements the first one counts, and NaN before all others."""
    return f"""    unsigned at = lane < count ? lane : 0;
    T best = {value.format("at * inner")};
    auto meet = [&](T other, unsigned k) {{
        if (best != best ? other != other && k < at : other != other || other {sign} best || (other == best && k < at)) {{
            best = other;
            at = k;
        }}
    }};
    for (unsigned k = lane + 32; k < count; k += 32) meet({value.format("k * inner")}, k);
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


def source(char: str) -> str:
    """The kernels for elements of a dtype: ``max``, ``min``, ``nonzero``, and of floats those of `_FOLDS` and `_EXPONENTIALS`.

    A warp makes one result, of every inner-th element. Sums and products of half types are made in float32, and divided by a number at the
    end. The places of extremes are written unless ``places`` is null.
    """
    kernels = {"nonzero": ("", _NONZERO), **{name: ("long long* places", _extreme(sign)) for name, sign in _BETTER.items()}}
    if char in CTYPES:
        kernels |= {name: ("T by", _fold(name)) for name in _FOLDS} | {name: ("", _exponential(name)) for name in _EXPONENTIALS}
        kernels |= {name: ("long long* places", _extreme(sign, "fabs(T(line[{}]))")) for name, sign in _SIZES.items()}
    return of_lines(kernels, char)


def of_lines(kernels: Mapping[str, tuple[str, str]], char: str, shared: str = "") -> str:
    """The text of kernels whose warps have a line each, of every inner-th element of x, for elements of a dtype, E, which compute in T.

    Args:
        kernels: by name, what each takes beside x, z and the sizes, and what a warp does; ``o`` counts the lines.
        shared: what they may call.
    """
    ctype = SERVED[char]
    texts = [HEADERS.get(char, ""), f"typedef {ctype} E;\ntypedef {ctype if char in (*WHOLE, 'i', 'l') else 'float'} T;\n", shared]
    for name, (more, body) in kernels.items():
        head = ", ".join(filter(None, ("const E* x, E* z", more, "unsigned count, unsigned inner, unsigned n")))
        texts.append(f'extern "C" __global__ void gradlib_{name}({head}) {{\n{_ENTERED}{body}}}\n')
    return "".join(texts)


def is_one(g: Any, size: int, like: Array | None = None) -> bool | None:
    """Whether a gradient, an array of floats, is one number for so many elements; None for what no kernel serves.

    ``like``: an array whose dtype and device it must have.
    """
    if type(g) is not cupy().ndarray or g.size != size or g.dtype.char not in CTYPES:
        return None
    if like is not None and (g.dtype is not like.dtype or g.data.device_id != like.data.device_id):
        return None
    return False if g._c_contiguous else None if any(g.strides) else True


@cache
def _kernel(name: str, char: str) -> Kernel:
    computed = char if char in WHOLE else "f"  # of the number by which is divided
    formats = f"PP{computed}III" if name in _FOLDS else "PPPIII" if name in (*_BETTER, *_SIZES) else "PPIII"
    return Kernel(formats, kernel_of(source, char, name=name))


@lru_cache(4096)
def plan(shape: tuple[int, ...], axis: Any, keepdim: bool) -> tuple[tuple[int, ...], int, int, int] | None:
    """A reduction over ``axis`` (a number, several from 0, None for all): the result's shape, its size, and ``count, inner`` of `source`.

    Returns: None where there are no elements or too many, where dimensions between the reduced ones stay, and for one that is not there.
    """
    ndim = len(shape)
    if type(axis) is int:
        axis = axis + ndim if axis < 0 else axis
        if not 0 <= axis < max(ndim, 1):
            return None
    chosen = tuple(range(ndim)) if axis is None else tuple(sorted(axis)) if isinstance(axis, tuple) else (axis,)
    if ndim and chosen != tuple(range(chosen[0], chosen[-1] + 1)):
        return None
    made = tuple(1 if d in chosen else size for d, size in enumerate(shape) if keepdim or d not in chosen)
    n, count = math.prod(made), math.prod(shape[d] for d in chosen if d < ndim)
    if not 0 < n * count <= MOST or count > LONGEST or n * 32 > MOST:
        return None
    return made, n, count, math.prod(shape[chosen[-1] + 1 :]) if ndim else 1


def _planned(input: Array, axis: Any, keepdim: bool) -> tuple[Array, int, int, int] | None:
    """An array for the result, and the rest of `plan`; None where there is no kernel for this input."""
    if input.dtype.char not in SERVED or not input._c_contiguous:
        return None
    planned = plan(input.shape, axis, keepdim)
    return None if planned is None else (type(input)(planned[0], input.dtype), *planned[1:])


def folded(name: str, input: Array, axis: Any, keepdim: bool, mean: bool = False, power: float | None = None) -> Array | None:
    """The sum ("sum", or the mean), that without NaN ("nansum", "nanmean"), product ("prod") or norm ("norm", "norm_1" and "norm_0", and
    of another ``power`` "norm_power") of a CuPy array of floats on the current device, in its dtype.

    Args:
        axis: dimensions counted from 0, a number or a tuple of them; None for all.
        keepdim: leave them with size 1.
    Returns: None where there is no kernel for it.
    """
    planned = _planned(input, axis, keepdim) if input.dtype.char in CTYPES else None
    if planned is None:
        return None
    (out, n, count, inner), data = planned, input.data
    values = (data.ptr, out.data.ptr, power or (count if mean else 1), count, inner, n)
    return out if _kernel(name, input.dtype.char).run(data.device_id, n * 32, THREADS, *values) else None


def exponentials(name: str, input: Array, axis: Any, keepdim: bool = False) -> Array | None:
    """The "softmax" or "log_softmax" of a CuPy array of floats along a dimension, or its "logsumexp", as ``folded`` gives sums.

    Returns: None where there is no kernel for it.
    """
    char, data = input.dtype.char, input.data
    planned = plan(input.shape, axis, keepdim) if char in CTYPES and input.ndim and input._c_contiguous else None
    if planned is None:
        return None
    shape, n, count, inner = planned
    out = type(input)(shape if name == "logsumexp" else input.shape, input.dtype)
    return out if _kernel(name, char).run(data.device_id, n * 32, THREADS, data.ptr, out.data.ptr, count, inner, n) else None


def nonzero(input: Array, axis: Any) -> Array | None:
    """How many elements are not 0, as int64; ``axis`` and None as for ``folded``."""
    char, data = input.dtype.char, input.data
    planned = plan(input.shape, axis, False) if char in SERVED and input._c_contiguous else None
    if planned is None:
        return None
    shape, n, count, inner = planned
    out = type(input)(shape, "q")
    return out if _kernel("nonzero", char).run(data.device_id, n * 32, THREADS, data.ptr, out.data.ptr, count, inner, n) else None


def summed(input: Array, axis: Any, keepdim: bool, mean: bool = False) -> Array | None:
    """``folded`` of sums."""
    return folded("sum", input, axis, keepdim, mean)


def extreme(name: str, input: Array, axis: Any, keepdim: bool, placed: bool) -> tuple[Array, Array | None] | None:
    """The largest ("max") or smallest ("min") elements as ``folded`` gives sums, and where ``placed``, the place of each along ``axis``; or
    of floats the largest ("max_size") or smallest ("min_size") absolute values.
    """
    planned = _planned(input, axis, keepdim)
    if planned is None:
        return None
    (out, n, count, inner), data = planned, input.data
    places = type(input)(out.shape, "q") if placed else None
    values = (data.ptr, out.data.ptr, 0 if places is None else places.data.ptr, count, inner, n)
    return (out, places) if _kernel(name, input.dtype.char).run(data.device_id, n * 32, THREADS, *values) else None


def largest(array: Array, axis: int, keepdims: bool = True) -> Array:
    """The largest elements along a dimension (from 0), NaN where there is one; at less cost than the array's method."""
    if type(array) is np.ndarray:
        if array.size >= MANY:
            return reduced(np.maximum, array, axis, keepdims)
        reduce: Any = np.maximum.reduce  # of which the overloads ask for a literal
        return reduce(array, axis=axis, keepdims=keepdims)
    made = None if isinstance(array, np.ndarray) else extreme("max", array, axis, keepdims, False)
    return array.max(axis, keepdims=keepdims) if made is None else made[0]
