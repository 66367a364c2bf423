"""Kernels of gradlib's own for running sums, products and extremes along the lines of small CuPy arrays, and for their gradients.

A warp runs along a line, 32 elements at a time. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import int64
from gradlib.backend.kernel_text import CTYPES, EXACT, HEADERS, INFINITE, MOST, THREADS, WHOLE
from gradlib.backend.launching import kernels
from gradlib.backend.reducing import is_one

LONGEST = 4096
"""The longest lines for which a warp takes no more time than the launches of CuPy's functions."""

_FOLDS = {"sum": ("0", "a + b"), "prod": ("1", "a * b"), "logsumexp": (f"-{INFINITE}", "log_add(a, b)")}
"""By name, where it begins and how ``b`` comes to the elements before it, ``a``."""
_BETTER = {"max": ">=", "min": "<="}
_SLOPES = {
    "prod": ("x[at + inner]", "k + 1 < count ? T(out[at - inner]) : T(1)"),
    "logsumexp": ("exp(level(out[at]) - level(out[at + inner]))", "exp(T(x[at]) - level(out[at]))"),
}
"""By name, what takes the sum over the elements behind to an element at ``at``, and what that sum is multiplied by.

Both as the rules of `gradlib.ops.scan` have them: without a division, and with no exponent above 0.
"""

_LOG_ADD = """
template <typename T>
__device__ T log_add(T a, T b) {
    const T d = a - b;  // NaN of two infinities alike
    return a == b ? a + T(0.6931471805599453) : d > 0 ? a + log1p(exp(-d)) : d <= 0 ? b + log1p(exp(d)) : d;
}
"""


_ENTERED = f"""    const unsigned line = (blockIdx.x * {THREADS} + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (line >= lines) return;
    const unsigned long long start = (unsigned long long)(line / inner) * count * inner + line % inner;
    const unsigned rounded = (count + 31) / 32 * 32;
"""
_PLACE = "start + (unsigned long long)(from_end ? count - 1 - k : k) * inner"
_SIZES = "unsigned count, unsigned inner, unsigned from_end, unsigned lines"


def source(char: str) -> str:
    """The kernels for elements of a dtype: ``sum``, ``prod`` (of integers in int64), ``logsumexp`` of floats; ``max``, ``min``.

    Sums and products of float32 are made in float64, those of half types in float32. Of equal extremes the latest counts, and NaN before
    all numbers; ``places`` has where each was met. ``from_end``: lines run from their last element to the first.

    Of floats ``prod_slope`` and ``logsumexp_slope`` are the gradients, given x, what came of it (out) and the gradient of that (g): one
    number for all where ``one``.
    """
    kernels = [HEADERS.get(char, ""), _LOG_ADD]
    kernels += [_fold(name, char) for name in _FOLDS if name != "logsumexp" or char not in EXACT]
    kernels += [_extreme(name, char) for name in _BETTER]
    kernels += [_slope(name, char) for name in _SLOPES if char in CTYPES]
    return "".join(kernels)


def _fold(name: str, char: str) -> str:
    neutral, met = _FOLDS[name]
    ctype = {**CTYPES, **EXACT}[char]
    wide = "long long" if char in EXACT else "double" if char == "d" or (char == "f" and name != "logsumexp") else "float"
    made = "long long" if char in EXACT else ctype
    return f"""extern "C" __global__ void gradlib_{name}(const {ctype}* x, {made}* z, {_SIZES}) {{
{_ENTERED}    {wide} before = {neutral};
    for (unsigned k = lane; k < rounded; k += 32) {{
        {wide} own = k < count ? ({wide})x[{_PLACE}] : ({wide}){neutral};
        for (unsigned step = 1; step < 32; step *= 2) {{
            const {wide} a = __shfl_up_sync(0xffffffffu, own, step), b = own;
            if (lane >= step) own = {met};
        }}
        const {wide} a = before, b = own;
        own = {met};
        if (k < count) z[{_PLACE}] = ({made})own;
        before = __shfl_sync(0xffffffffu, own, 31);
    }}
}}
"""


def _extreme(name: str, char: str) -> str:
    ctype = {**CTYPES, **EXACT}[char]
    computed = "float" if char in HEADERS else ctype
    return f"""extern "C" __global__ void gradlib_{name}(const {ctype}* x, {ctype}* z, long long* places, {_SIZES}) {{
{_ENTERED}    {computed} before = ({computed})x[start + (from_end ? (count - 1) * inner : 0)];
    unsigned before_at = 0;
    for (unsigned k = lane; k < rounded; k += 32) {{
        {computed} own = k < count ? ({computed})x[{_PLACE}] : before;
        unsigned at = k < count ? k : before_at;
        auto meet = [&]({computed} earlier, unsigned earlier_at) {{
            if (own == own && (earlier != earlier || !(own {_BETTER[name]} earlier))) {{
                own = earlier;
                at = earlier_at;
            }}
        }};
        for (unsigned step = 1; step < 32; step *= 2) {{
            const {computed} earlier = __shfl_up_sync(0xffffffffu, own, step);
            const unsigned earlier_at = __shfl_up_sync(0xffffffffu, at, step);
            if (lane >= step) meet(earlier, earlier_at);
        }}
        meet(before, before_at);
        if (k < count) {{
            z[{_PLACE}] = ({ctype})own;
            places[{_PLACE}] = from_end ? count - 1 - at : at;
        }}
        before = __shfl_sync(0xffffffffu, own, 31);
        before_at = __shfl_sync(0xffffffffu, at, 31);
    }}
}}
"""


def _slope(name: str, char: str) -> str:
    factor, share = _SLOPES[name]
    ctype = CTYPES[char]
    operands = f"const {ctype}* g, bool one, const {ctype}* x, const {ctype}* out, {ctype}* z"
    return f"""extern "C" __global__ void gradlib_{name}_slope({operands}, unsigned count, unsigned inner, unsigned lines) {{
{_ENTERED}    typedef {"double" if char in WHOLE else "float"} T;
    T before = 0;
    auto level = [](T v) {{ return v == -{INFINITE} ? T(0) : v; }};
    for (unsigned k = lane; k < rounded; k += 32) {{  // from the end: each t = own + factor * (t behind it)
        const unsigned long long at = start + (unsigned long long)(count - 1 - k) * inner;
        T own = k < count ? T(g[one ? 0 : at]) : T(0), factor = 0 < k && k < count ? T({factor}) : T(1);
        for (unsigned step = 1; step < 32; step *= 2) {{
            const T behind = __shfl_up_sync(0xffffffffu, own, step), more = __shfl_up_sync(0xffffffffu, factor, step);
            if (lane >= step) {{
                own += factor * behind;
                factor *= more;
            }}
        }}
        if (k >= 32) own += factor * before;
        if (k < count) z[at] = {ctype}(own * ({share}));
        before = __shfl_sync(0xffffffffu, own, 31);
    }}
}}
"""


_kernel = kernels(source)


@lru_cache(4096)
def _plan(shape: tuple[int, ...], axis: int) -> tuple[int, int, int] | None:
    """``count, inner, lines`` of the kernels; None for what they do not serve."""
    n, count = math.prod(shape), shape[axis]
    if not 0 < n <= MOST or count > LONGEST or n // count * 32 > MOST:
        return None
    return count, math.prod(shape[axis + 1 :]), n // count


def running(name: str, input: Array, axis: int, from_end: bool = False) -> tuple[Array, ...] | None:
    """The running fold of a CuPy array along a dimension, counted from 0.

    Args:
        name: "sum", "prod" or "logsumexp"; "max" or "min". from_end: from the last element to the first.
    Returns: the values, of sums and products of integers in int64, and of extremes where each was met; None for what no kernel serves.
    """
    shape, char, data = input.shape, input.dtype.char, input.data
    if (char not in CTYPES and char not in EXACT) or (name == "logsumexp" and char in EXACT) or not input._c_contiguous:
        return None
    planned = _plan(shape, axis)
    if planned is None:
        return None
    count, inner, lines = planned
    made, sums = cupy().ndarray, name in _FOLDS
    out = made(shape, int64 if sums and char in EXACT else input.dtype)
    results = (out,) if sums else (out, made(shape, int64))
    values = (data.ptr, *[each.data.ptr for each in results], count, inner, from_end, lines)
    return results if _kernel(name, char).run(data.device_id, lines * 32, THREADS, *values) else None


def slope(name: str, g: Any, x: Array, out: Array, axis: int) -> Array | None:
    """The gradient of a running fold of floats along a dimension, counted from either end.

    Args:
        name: "prod" or "logsumexp". g: the gradient of out, the fold of x.
    Returns: None for what no kernel serves.
    """
    shape, dtype, data = x.shape, x.dtype, x.data
    one = is_one(g, x.size, x) if shape else None
    planned = None if one is None or out.dtype is not dtype else _plan(shape, axis % len(shape))
    if planned is None or not x._c_contiguous or not out._c_contiguous:
        return None
    made, lines = cupy().ndarray(shape, dtype), planned[2]
    values = (g.data.ptr, one, data.ptr, out.data.ptr, made.data.ptr, *planned)
    return made if _kernel(f"{name}_slope", dtype.char).run(data.device_id, lines * 32, THREADS, *values) else None
