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
_BETTER = {"max": ">", "min": "<"}
_FOLDS = {
    "sum": ("+", 0, "v"), "prod": ("*", 1, "v"), "nansum": ("+", 0, "v == v ? v : 0"), "nanmean": ("+", 0, "v == v ? v : 0"),
    "trapezoid": ("+", 0, "v"), "norm": ("+", 0, "v * v"), "norm_1": ("+", 0, "fabs(v)"),
}  # fmt: skip
"""By name the sign, what it begins with, and what each element v gives.

The mean without NaN divides by how many are numbers, the integral takes half of both ends away, and of squares the root is taken.
"""
EACH = "for (unsigned k = lane; k < count; k += 32)"
"""The elements of a line that a thread of its warp takes."""
_EXPONENTIALS = {
    "softmax": f"{EACH} out[k * inner] = ({{ctype}})(exp(({{computed}})line[k * inner] - top) / s);",
    "log_softmax": f"{EACH} out[k * inner] = ({{ctype}})(({{computed}})line[k * inner] - top - log(s));",
    "logsumexp": "if (lane == 0) z[o] = ({ctype})(log(s) + top);",
}
"""What is written, given the largest element of a line and ``s``, the sum of the exponentials of all less that."""


def entered(ctype: str) -> str:
    """The beginning of a kernel in which a warp has a line of x, of every inner-th element: ``o`` counts the lines."""
    return (
        f"    const unsigned o = (blockIdx.x * {THREADS} + threadIdx.x) / 32, lane = threadIdx.x % 32;\n"
        "    if (o >= n) return;\n"
        f"    const {ctype}* line = x + (unsigned long long)(o / inner) * count * inner + o % inner;\n"
    )


def source(char: str) -> str:
    """The kernels for elements of a dtype: ``max``, ``min``, ``nonzero``, and of floats those of `_FOLDS` and `_EXPONENTIALS`.

    A warp makes one result, of every inner-th element. Sums and products of half types are made in float32, and divided by a number at the
    end. Of the largest (smallest) elements the first one counts, and NaN before all others; their places are written unless ``places`` is
    null.
    """
    ctype = SERVED[char]
    computed = ctype if char in WHOLE or char in "il" else "float"
    begun = entered(ctype)
    kernels = [HEADERS.get(char, "")]
    parameters = f"const {ctype}* x, {ctype}* z, unsigned count, unsigned inner, {computed} by, unsigned n"
    for name, (sign, start, value) in _FOLDS.items() if char in CTYPES else ():
        counted, made = "", "s"
        if name == "nanmean":  # as a quotient of two results, of which the sum is rounded first
            counted = f"    by = 0;\n    {EACH} by += {computed}(line[k * inner]) == {computed}(line[k * inner]);\n"
            counted += f"    {WARP_SUM.format('by')}\n"
            made = f"{computed}({ctype}(s))"
        if name == "norm":
            made = f"count == 1 ? fabs({computed}(line[0])) : sqrt(s)"  # whose square might overflow
        if name == "trapezoid":
            made = f"s - ({computed}(line[0]) + {computed}(line[(count - 1) * inner])) * {computed}(0.5)"
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}({parameters}) {{\n'
            f"{begun}    {computed} s = {start};\n"
            f"    {EACH} {{ const {computed} v = {computed}(line[k * inner]); s {sign}= {value}; }}\n"
            f"    for (int bits = 16; bits; bits /= 2) s {sign}= __shfl_xor_sync(0xffffffffu, s, bits);\n"
            f"{counted}    if (lane == 0) z[o] = {ctype}(({made}) / by);\n}}\n"
        )
    for name, written in _EXPONENTIALS.items() if char in CTYPES else ():
        finite = "    if (!isfinite(top)) top = 0;\n" if name == "logsumexp" else ""
        target = "" if name == "logsumexp" else f"    {ctype}* const out = z + (line - x);\n"
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}(const {ctype}* x, {ctype}* z, unsigned count, unsigned inner, unsigned n) {{\n'
            f"{begun}{target}    {computed} top = -{INFINITE}, s = 0;\n"
            f"    {EACH} top = fmax(top, ({computed})line[k * inner]);\n"
            "    for (int bits = 16; bits; bits /= 2) top = fmax(top, __shfl_xor_sync(0xffffffffu, top, bits));\n"
            f"{finite}    {EACH} s += exp(({computed})line[k * inner] - top);\n"
            f"    {WARP_SUM.format('s')}\n"
            f"    {written.format(computed=computed, ctype=ctype)}\n}}\n"
        )
    kernels.append(
        f'extern "C" __global__ void gradlib_nonzero(const {ctype}* x, long long* z, unsigned count, unsigned inner, unsigned n) {{\n'
        f"{begun}    unsigned s = 0;\n    {EACH} s += ({computed})line[k * inner] != 0;\n"
        f"    {WARP_SUM.format('s')}\n"
        "    if (lane == 0) z[o] = s;\n}\n"
    )
    for name, sign in _BETTER.items():
        parameters = f"const {ctype}* x, {ctype}* z, long long* places, unsigned count, unsigned inner, unsigned n"
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}({parameters}) {{\n{begun}'
            f"    unsigned at = lane < count ? lane : 0;\n    {computed} best = ({computed})line[at * inner];\n"
            f"    auto meet = [&]({computed} other, unsigned k) {{\n"
            f"        if (best != best ? other != other && k < at : other != other || other {sign} best || (other == best && k < at)) {{\n"
            "            best = other;\n            at = k;\n        }\n    };\n"
            f"    for (unsigned k = lane + 32; k < count; k += 32) meet(({computed})line[k * inner], k);\n"
            "    for (int bits = 16; bits; bits /= 2) {\n"
            f"        const {computed} other = __shfl_xor_sync(0xffffffffu, best, bits);\n"
            "        const unsigned k = __shfl_xor_sync(0xffffffffu, at, bits);\n        meet(other, k);\n    }\n"
            f"    if (lane == 0) {{\n        z[o] = ({ctype})best;\n        if (places) places[o] = at;\n    }}\n}}\n"
        )
    return "".join(kernels)


def of_lines(kernels: Mapping[str, tuple[str, str]], char: str) -> str:
    """The text of kernels whose warps have a line each, for elements of a dtype, E, which compute in T.

    Args:
        kernels: by name, what each takes beside x, z and the sizes, and what a warp does.
    """
    ctype, computed = CTYPES[char], CTYPES[char] if char in WHOLE else "float"
    texts = [HEADERS.get(char, ""), f"typedef {ctype} E;\ntypedef {computed} T;\n"]
    for name, (more, body) in kernels.items():
        head = f"const E* x, E* z, {more}, unsigned count, unsigned inner, unsigned n"
        texts.append(f'extern "C" __global__ void gradlib_{name}({head}) {{\n{entered("E")}{body}}}\n')
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
    formats = f"PPII{computed}I" if name in _FOLDS else "PPIII" if name in _EXPONENTIALS or name == "nonzero" else "PPPIII"
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


def folded(name: str, input: Array, axis: Any, keepdim: bool, mean: bool = False) -> Array | None:
    """The sum ("sum", or the mean), that without NaN ("nansum", "nanmean"), product ("prod") or norm ("norm", and "norm_1" of order 1) of a
    CuPy array of floats on the current device, in its dtype.

    Args:
        axis: dimensions counted from 0, a number or a tuple of them; None for all.
        keepdim: leave them with size 1.
    Returns: None where there is no kernel for it.
    """
    planned = _planned(input, axis, keepdim) if input.dtype.char in CTYPES else None
    if planned is None:
        return None
    (out, n, count, inner), data = planned, input.data
    values = (data.ptr, out.data.ptr, count, inner, count if mean else 1, n)
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
    """The largest ("max") or smallest ("min") elements as ``folded`` gives sums, and where ``placed``, the place of each along ``axis``."""
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
