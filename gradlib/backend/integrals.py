"""Kernels of gradlib's own for integrals of samples by the trapezoidal rule, between places that are given, and for their gradients.

As in `gradlib.backend.kernel_text`, every other call is CuPy's own. Half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, THREADS, WARP_SUM
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan
from gradlib.backend.reducing import is_one

_BETWEEN = "(unsigned long long)(o / inner) * (count - 1) * inner + o % inner"
_KERNELS = {
    "integral": (
        "const E* places, bool whole, E* apart, E* pairs",
        f"""    const E* const at = places + (whole ? line - x : 0);
    const unsigned long long first = {_BETWEEN};
    const unsigned step = whole ? inner : 1;
    E* const own = apart + (whole ? first : 0);
    T s = 0;
    for (unsigned k = lane + 1; k < count; k += 32) {{
        const T width = T(at[k * step]) - T(at[(k - 1) * step]), pair = T(line[offset(k)]) + T(line[offset(k - 1)]);
        if (whole || o == 0) own[(k - 1) * step] = E(width);
        pairs[first + (k - 1) * inner] = E(pair);
        s += width * pair;
    }}
    {WARP_SUM.format("s")}
    if (lane == 0) z[o] = E(s * T(0.5));
""",
    ),
    "spread": (
        "const E* between, bool whole, bool one, const E* g, T sign",
        f"""    const T factor = T(g[one ? 0 : o]) * T(0.5);
    const E* const at = between + (whole ? {_BETWEEN} : 0);
    const unsigned step = whole ? inner : 1, last = count - 1;
    E* const out = z + (line - x);
    {EACH} out[offset(k)] = E(factor * ((k ? T(at[(k - 1) * step]) : T(0)) + sign * (k < last ? T(at[k * step]) : T(0))));
""",
    ),
}
"""By name, what a warp does with a line of ``count`` samples, of which each stands ``inner`` elements behind the one before.

"integral": the integral of samples x; how far the places of neighbours are apart; and the sums of pairs of neighbours. ``whole``: each line
has places of its own, else all the same. "spread": half of what stands between neighbours, added to the second, and to the first times a
sign; times g, which is ``one`` number for all lines or one for each.
"""


def source(char: str) -> str:
    """The kernels for elements of a dtype."""
    return of_lines(_KERNELS, char, False)


_kernel = kernels(source)


def integral(samples: Array, places: Array, dim: int) -> tuple[Array, Array, Array] | None:
    """The integral of samples on the current device along a dimension from 0, between places of their shape or in one line.

    Returns: with it how far the places are apart, and the sums of pairs of neighbouring samples; None where no kernel serves it.
    """
    shape, dtype, data = samples.shape, samples.dtype, samples.data
    if dtype.char not in CTYPES or (planned := plan(shape, None, dtype, dim, False)) is None:
        return None
    made, n, count, _, sizes = planned
    whole = places.shape == shape
    if type(places) is not type(samples) or places.dtype is not dtype or not (whole or places.shape == (count,)):
        return None
    if not (samples._c_contiguous and places._c_contiguous) or places.data.device_id != data.device_id:
        return None
    kind, between = type(samples), (*shape[:dim], count - 1, *shape[dim + 1 :])
    out, apart, pairs = kind(made, dtype), kind(between if whole else (count - 1,), dtype), kind(between, dtype)
    values = (data.ptr, out.data.ptr, places.data.ptr, whole, apart.data.ptr, pairs.data.ptr)
    return (out, apart, pairs) if _kernel("integral", dtype.char).run(data.device_id, n * 32, THREADS, *values, *sizes) else None


def spread(between: Array, dim: int, g: Array, shape: tuple[int, ...], sign: float) -> Array | None:
    """A gradient of the integral of samples of a shape, for g: by the samples, of how far the places are apart, with the sign 1; or by
    places of that shape, of the sums of pairs, with the sign -1.

    Returns: None where no kernel serves it.
    """
    dtype, data = between.dtype, between.data
    if dtype.char not in CTYPES or (planned := plan(shape, None, dtype, dim, False)) is None:
        return None
    _, n, count, _, sizes = planned
    whole = between.shape == (*shape[:dim], count - 1, *shape[dim + 1 :])
    if not between._c_contiguous or not (whole or between.shape == (count - 1,)) or (one := is_one(g, n, between)) is None:
        return None
    out = type(between)(shape, dtype)
    values = (out.data.ptr, out.data.ptr, data.ptr, whole, one, g.data.ptr, sign)
    return out if _kernel("spread", dtype.char).run(data.device_id, n * 32, THREADS, *values, *sizes) else None
