"""Kernels of gradlib's own for integrals of samples by the trapezoidal rule, between places that are given, and for their gradients.

As in `gradlib.backend.kernel_text`, every other call is CuPy's own. Half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, THREADS, WARP_SUM
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan
from gradlib.backend.reducing import is_one

_PLACES = """    const E* const at = places + (whole ? line - x : 0);
    const unsigned step = whole ? inner : 1;
"""
_SPREAD = """    const T factor = T(g[one ? 0 : o]) * T(0.5);
    E* const out = z + (line - x);
    const unsigned last = count - 1;
"""
_KERNELS = {
    "integral": (
        "const E* places, bool whole, bool one, const E* g",
        f"""{_PLACES}    T s = 0;
    for (unsigned k = lane + 1; k < count; k += 32)
        s += (T(at[k * step]) - T(at[(k - 1) * step])) * (T(line[offset(k)]) + T(line[offset(k - 1)]));
    {WARP_SUM.format("s")}
    if (lane == 0) z[o] = E(s * T(0.5));
""",
    ),
    "by_samples": (
        "const E* places, bool whole, bool one, const E* g",
        f"""{_PLACES}{_SPREAD}    {EACH}
        out[offset(k)] = E(factor * (T(at[(k < last ? k + 1 : k) * step]) - T(at[(k ? k - 1 : k) * step])));
""",
    ),
    "by_places": (
        "const E* places, bool whole, bool one, const E* g",
        f"""{_SPREAD}    auto pair = [&](unsigned k) {{ return T(line[offset(k)]) + T(line[offset(k + 1)]); }};
    {EACH} out[offset(k)] = E(factor * ((k ? pair(k - 1) : T(0)) - (k < last ? pair(k) : T(0))));
""",
    ),
}
"""By name, what a warp does with a line of samples x, of every inner-th element: the integral; and the gradients, for g, which is ``one``
number for all lines or one for each, by the samples and by the places. ``whole``: each line has places of its own, else all the same."""


def source(char: str) -> str:
    """The kernels for elements of a dtype."""
    return of_lines(_KERNELS, char, False)


_kernel = kernels(source)


def integral(name: str, samples: Any, places: Any, dim: int, g: Any = None, shape: tuple[int, ...] | None = None) -> Array | None:
    """The "integral" of samples on the current device along a dimension from 0, or a gradient of it of their shape: "by_samples", of which
    only the ``shape`` is asked, or "by_places", of which neither is the sum over lines taken.

    Returns: None where no kernel serves it.
    """
    like, shape = (places, shape) if samples is None else (samples, samples.shape)
    char, data = like.dtype.char, like.data
    if char not in CTYPES or (planned := plan(shape, None, like.dtype, dim, False)) is None:
        return None
    made, n, count, _, sizes = planned
    whole = places is not None and places.shape == shape
    for each in (samples, places):
        if each is not None and (type(each) is not type(like) or each.dtype is not like.dtype or not each._c_contiguous):
            return None
        if each is not None and each.data.device_id != data.device_id:
            return None
    if places is not None and not whole and places.shape != (count,):
        return None
    one = False if g is None else is_one(g, n, like)
    if one is None:
        return None
    out = type(like)(made if name == "integral" else shape, like.dtype)
    x = out if samples is None else samples
    values = (x.data.ptr, out.data.ptr, 0 if places is None else places.data.ptr, whole, one, 0 if g is None else g.data.ptr)
    return out if _kernel(name, char).run(data.device_id, n * 32, THREADS, *values, *sizes) else None
