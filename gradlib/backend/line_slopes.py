"""Kernels of gradlib's own for the gradients of what becomes of the lines of small CuPy arrays: norms, extremes, softmax and its kin.

They serve what those of `gradlib.backend.reducing` serve; half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import NUMBERS, THREADS, WARP_SUM
from gradlib.backend.launching import Kernel, kernel_of
from gradlib.backend.reducing import EACH, is_one, of_lines, plan

_SIGN = "__device__ T sign(T x) { return T(x > 0) - T(x < 0); }\n"
_HEAD = """    const T factor = T(g[one ? 0 : o]);
    const E* const results = (const E*)more;
    E* const out = z + (line - x);
"""
_WHOLE = """    const E* const from = one ? g : g + (line - x);
    E* const out = z + (line - x);
    auto at = [&](unsigned k) { return T(from[one ? 0 : k * inner]); };
    T s = 0;
"""
_KERNELS = {
    "norm": f"""{_HEAD}    const T size = T(results[o]);
    {EACH} {{ const T own = T(line[k * inner]); out[k * inner] = E(size == 0 ? T(0) * own : factor * T(E(own / size))); }}
""",
    "norm_1": f"""{_HEAD}    {EACH} out[k * inner] = E(factor * sign(T(line[k * inner])));
""",
    "norm_power": f"""{_HEAD}    const T size = T(results[o]);
    {EACH} {{
        const T own = T(line[k * inner]);
        out[k * inner] = E(own == 0 || size == 0 ? T(0) : factor * (sign(own) * pow(fabs(own) / size, power - 1)));
    }}
""",
    "norm_extreme": f"""{_HEAD}    const T top = T(results[o]);
    unsigned met = 0;
    auto is_met = [&](T v) {{ return fabs(v) == top || v != v; }};
    {EACH} met += is_met(T(line[k * inner]));
    {WARP_SUM.format("met")}
    {EACH} {{ const T own = T(line[k * inner]); out[k * inner] = E(factor * sign(own) * T(is_met(own)) / met); }}
""",
    "logsumexp": f"""{_HEAD}    const T whole = T(results[o]);
    {EACH} out[k * inner] = E(factor * exp(T(line[k * inner]) - whole));
""",
    "extreme": f"""{_HEAD}    const T top = T(results[o]);
    unsigned met = 0;
    auto is_met = [&](T v) {{ return v == top || (every && v != v); }};
    {EACH} met += is_met(T(line[k * inner]));
    {WARP_SUM.format("met")}
    const T share = factor / met;
    {EACH} out[k * inner] = E(top != top && !every ? top : is_met(T(line[k * inner])) ? share : T(0));
""",
    "picked": f"""{_HEAD}    const unsigned place = ((const long long*)more)[o];
    {EACH} out[k * inner] = E(k == place ? factor : T(0));
""",
    "product": f"""{_HEAD}    const T all = T(results[o]);
    const bool divides = all != 0 && all - all == 0;
    {EACH} {{
        T others = divides ? T(E(factor * all)) / T(line[k * inner]) : factor;
        for (unsigned m = divides ? count : 0; m < count; m++) others *= m == k ? T(1) : T(line[m * inner]);
        out[k * inner] = E(others);
    }}
""",
    "softmax": f"""{_WHOLE}    {EACH} s += at(k) * T(line[k * inner]);
    {WARP_SUM.format("s")}
    {EACH} out[k * inner] = E(T(line[k * inner]) * (at(k) - s));
""",
    "log_softmax": f"""{_WHOLE}    {EACH} s += at(k);
    {WARP_SUM.format("s")}
    {EACH} out[k * inner] = E(at(k) - exp(T(line[k * inner])) * s);
""",
}
"""By name, what a warp does with a line, of every inner-th element of x.

``g``: the gradient, of which ``one`` says that it is one number for all. x: the input; for the last two, whose gradient has its shape, the
result. ``more``: the results, one for each line; for "picked" the places of the elements that were chosen. ``every``: whether NaN each
have a share of what an extreme gets; otherwise it is NaN for all of a line in which one is. A product is divided by each element; one that
is 0 or not finite is made anew without it, for which lines are short.
"""
_LONGEST_PRODUCT = 1024


def source(char: str) -> str:
    """The kernels for elements of a dtype."""
    return of_lines(
        {name: ("const E* g, bool one, const void* more, bool every, T power", body) for name, body in _KERNELS.items()}, char, _SIGN
    )


@cache
def _kernel(name: str, char: str) -> Kernel:
    return Kernel(f"PPP?P?{NUMBERS[char]}III", kernel_of(source, char, name=name))


def slope(
    name: str, g: Any, shape: tuple[int, ...], axis: Any, x: Array | None = None, more: Array | None = None, every: bool = False,
    power: float = 0.0,
) -> Array | None:  # fmt: skip
    """A gradient of `_KERNELS` of an array of a shape; None where no kernel serves it.

    Args:
        axis: the dimensions of a line: a number, several counted from 0, or None for all. x, more, every: as there.
    """
    planned = plan(shape, axis, True)
    if planned is None:
        return None
    _, n, count, inner = planned
    if name == "product" and count > _LONGEST_PRODUCT:
        return None
    whole = name in ("softmax", "log_softmax")
    one = is_one(g, n * count if whole else n)
    if one is None:
        return None
    kind, dtype, device = type(g), g.dtype, g.data.device_id
    for each, size, wanted in ((x, n * count, dtype.char), (more, n, "lq" if name == "picked" else dtype.char)):
        if each is not None and (type(each) is not kind or each.dtype.char not in wanted or each.size != size or not each._c_contiguous):
            return None
        if each is not None and each.data.device_id != device:
            return None
    out = kind(shape, dtype)
    pointer = out.data.ptr
    values = (pointer if x is None else x.data.ptr, pointer, g.data.ptr, one, 0 if more is None else more.data.ptr, every, power)
    return out if _kernel(name, dtype.char).run(device, n * 32, THREADS, *values, count, inner, n) else None
