"""Kernels of gradlib's own for the gradients of what becomes of the lines of small CuPy arrays: norms, extremes, softmax and its kin.

They serve what those of `gradlib.backend.reducing` serve; half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import THREADS, WARP_SUM
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan, room_beside, strides_beside
from gradlib.backend.reducing import is_one

_SIGN = "__device__ T sign(T x) { return T(x > 0) - T(x < 0); }\n"
_HEAD = """    const T factor = T(g[one ? 0 : o]);
    const E* const results = (const E*)more;
    E* const out = z + (line - x);
"""
_WHOLE = """    const E* const from = one ? g : g + (line - x);
    E* const out = z + (line - x);
    auto at = [&](unsigned k) { return T(from[one ? 0 : offset(k)]); };
    T s = 0;
"""
_KERNELS = {
    "norm": f"""{_HEAD}    const T size = T(results[o]);
    {EACH} {{ const T own = T(line[offset(k)]); out[offset(k)] = E(size == 0 ? T(0) * own : factor * T(E(own / size))); }}
""",
    "norm_1": f"""{_HEAD}    {EACH} out[offset(k)] = E(factor * sign(T(line[offset(k)])));
""",
    "norm_power": f"""{_HEAD}    const T size = T(results[o]);
    {EACH} {{
        const T own = T(line[offset(k)]);
        out[offset(k)] = E(size == 0 ? T(0) : factor * (own == 0 ? T(0) : sign(own) * pow(fabs(own) / size, power - 1)));
    }}
""",
    "norm_extreme": f"""{_HEAD}    const T top = T(results[o]);
    unsigned met = 0;
    auto is_met = [&](T v) {{ return fabs(v) == top || v != v; }};
    {EACH} met += is_met(T(line[offset(k)]));
    {WARP_SUM.format("met")}
    {EACH} {{ const T own = T(line[offset(k)]); out[offset(k)] = E(factor * sign(own) * T(is_met(own)) / met); }}
""",
    "logsumexp": f"""{_HEAD}    const T whole = T(results[o]);
    {EACH} out[offset(k)] = E(factor * exp(T(line[offset(k)]) - whole));
""",
    "extreme": f"""{_HEAD}    const T top = T(results[o]);
    unsigned met = 0;
    auto is_met = [&](T v) {{ return v == top || (every && v != v); }};
    {EACH} met += is_met(T(line[offset(k)]));
    {WARP_SUM.format("met")}
    const T share = factor / met;
    {EACH} out[offset(k)] = E(top != top && !every ? top : is_met(T(line[offset(k)])) ? share : T(0));
""",
    "picked": f"""{_HEAD}    const unsigned place = ((const long long*)more)[o];
    {EACH} out[offset(k)] = E(k == place ? factor : T(0));
""",
    "product": f"""{_HEAD}    const T all = T(results[o]);
    const bool divides = all != 0 && all - all == 0;
    {EACH} {{
        T others = divides ? T(E(factor * all)) / T(line[offset(k)]) : factor;
        for (unsigned m = divides ? count : 0; m < count; m++) others *= m == k ? T(1) : T(line[offset(m)]);
        out[offset(k)] = E(others);
    }}
""",
}
_WHOLE_LINES = {
    "softmax": f"""{_WHOLE}    {EACH} s += at(k) * T(line[offset(k)]);
    {WARP_SUM.format("s")}
    {EACH} out[offset(k)] = E(T(line[offset(k)]) * (at(k) - s));
""",
    "log_softmax": f"""{_WHOLE}    {EACH} s += at(k);
    {WARP_SUM.format("s")}
    {EACH} out[offset(k)] = E(at(k) - exp(T(line[offset(k)])) * s);
""",
}
"""By name, what a warp does with a line of x; of the latter the gradient has the shape of x too.

``g``: the gradient, of which ``one`` says that it is one number for all. x: the input; of the latter the result. ``more``: the results, one
for each line; for "picked" the places of the elements that were chosen. ``every``: whether NaN each have a share of what an extreme gets;
otherwise it is NaN for all of a line in which one is. A product is divided by each element; one that is 0 or not finite is made anew
without it, for which lines are short.
"""
_LONGEST_PRODUCT = 1024


def source(char: str, strided: bool) -> str:
    """The kernels for elements of a dtype."""
    more, bodies = "const E* g, bool one, const void* more, bool every, T power", _KERNELS if strided else _KERNELS | _WHOLE_LINES
    return of_lines({name: (more, body) for name, body in bodies.items()}, char, strided, _SIGN)


_kernel = kernels(source)


def slope(
    name: str, g: Any, shape: tuple[int, ...], axis: Any, x: Array | None = None, more: Array | None = None, every: bool = False,
    power: float = 0.0,
) -> Array | None:  # fmt: skip
    """A gradient of `_KERNELS` or `_WHOLE_LINES` of an array of a shape; None where no kernel serves it.

    Args:
        axis: the dimensions of a line: a number, several counted from 0, or None for all. x, more, every: as there.
    """
    kind, whole = type(g), name in _WHOLE_LINES
    if x is not None and (type(x) is not kind or x.shape != shape or x.dtype is not g.dtype):
        return None
    in_order = x is None or whole or x._c_contiguous
    strides = None if in_order else strides_beside(x)
    planned = plan(shape, strides, g.dtype, axis, True)
    if planned is None:
        return None
    _, n, count, strided, sizes = planned
    one = is_one(g, n * count if whole else n)
    if one is None or (name == "product" and count > _LONGEST_PRODUCT):
        return None
    dtype, device = g.dtype, g.data.device_id
    if x is not None and (x.data.device_id != device or (whole and not x._c_contiguous)):
        return None
    if more is not None:
        if type(more) is not kind or more.dtype.char not in ("lq" if name == "picked" else dtype.char):
            return None
        if more.size != n or more.data.device_id != device or not more._c_contiguous:
            return None
    x, out = (x, kind(shape, dtype)) if in_order else room_beside(x, strides)
    pointer = out.data.ptr
    values = (pointer if x is None else x.data.ptr, pointer, g.data.ptr, one, 0 if more is None else more.data.ptr, every, power)
    return out if _kernel(name, dtype.char, strided).run(device, n * 32, THREADS, *values, *sizes) else None
