"""Kernels of gradlib's own for what an element of a CuPy array becomes by values that meet it at places along a dimension: their sum, mean,
product or extreme, with it or without; and for the gradients of these.

A thread for each element looks at all places of its line for its own. So all is one launch, the copy of what nothing meets included, gives
the same bits at each run, and serves dtypes to which no atomic instruction adds. That is for lines of few places; for others there are
those of `gradlib.backend.placing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.copying import row_major_copy
from gradlib.backend.kernel_text import CTYPES, ENTERED, EXACT, HEADERS, MOST, THREADS
from gradlib.backend.launching import kernels
from gradlib.backend.placing import ADDED, PLACES, WRAPPED, named_of, put, spread_of
from gradlib.backend.reducing import is_one

LONGEST, MOST_LOOKS = 1024, 1 << 24
"""The most places of a line, and the most at which all threads look."""
_WHOLE_NUMBERS = {**EXACT, "b": "signed char", "B": "unsigned char", "h": "short"}
_COMPLEX = {"F": "float", "D": "double"}
SERVED = {**CTYPES, **_WHOLE_NUMBERS, **dict.fromkeys(_COMPLEX, "Pair")}

_FOLDS = {
    "sum": ("T(0)", "s + value", "s"),
    "mean": ("T(0)", "s + value", "over(s, met + own)"),
    "prod": ("T(1)", "s * value", "s"),
    "amax": ("value", "s != s || s >= value ? s : value", "s"),
    "amin": ("value", "s != s || s <= value ? s : value", "s"),
}
"""By name, where a fold begins without the element itself, how a value comes to it, and what it makes at last. NaN counts before all."""
_SLOPES = {
    "mean": ("T(own)", "s + 1", "given / s"),
    "prod": (
        "own && mine < lines.count ? T(x[element]) : T(1)", "k == mine ? s : s * value", "given * s * (self == 0 ? T(1) : self / self)"
    ),
    "extreme": ("T(own && T(x[element]) == top)", "s + T(value == top)", "T(self == top) * (given / s)"),
}
"""By name, of a gradient: where a fold over the values that meet an element begins, how each comes to it, and what it makes of the gradient
of the result (given). That is of the element itself, or of the value ``mine`` (called ``self``). As in torch the gradient of a product by
a factor that is infinite or NaN is NaN, and that of an extreme that is NaN, which no element equals."""
_SLOPE_OF = {"sum": "mean", "mean": "mean", "prod": "prod", "amax": "extreme", "amin": "extreme"}
"""The gradient of each fold. An element that takes no part itself has 0 where it is replaced, be it by a sum or a mean."""

_SHARED = f"""
struct Lines {{
    const P* places;
    const E* src;
    unsigned count, inner, outer, wide;
    long long adim, s_outer, s_step, s_inner, p_outer, p_step, p_inner;

    __device__ long long at(unsigned o, unsigned k, unsigned j) const {{
        const long long indices = places[o * p_outer + k * p_step + j * p_inner];
        {WRAPPED.format("        ")}        return at;
    }}
    __device__ T value(unsigned o, unsigned k, unsigned j) const {{ return T(src[o * s_outer + k * s_step + j * s_inner]); }}
}};
"""
_PAIR = """
struct Pair {
    R x, y;
    __device__ Pair(R x = 0, R y = 0) : x(x), y(y) {}
};
__device__ Pair operator+(Pair a, Pair b) { return Pair(a.x + b.x, a.y + b.y); }
__device__ Pair operator*(Pair a, Pair b) { return Pair(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ Pair operator/(Pair a, Pair b) { return Pair(a.x / b.x, a.y / b.x); }  // by a count
"""
"""A complex number."""
_OF = {
    "input": """    const unsigned j = i % lines.wide, o = i / lines.wide / (unsigned)lines.adim, mine = lines.count, element = i;
    const long long m = i / lines.wide % (unsigned)lines.adim;
    const T self = T(x ? x[i] : E(0));
""",
    "src": """    const unsigned j = i % lines.inner, mine = i / lines.inner % lines.count, o = i / lines.inner / lines.count;
    const long long m = lines.at(o, mine, j);
    const unsigned element = (o * lines.adim + m) * lines.wide + j;
    const T self = lines.src ? lines.value(o, mine, j) : T(0);
""",
}
"""Where a thread stands, by what it makes an element of: its line, its element there, and the place of its value, if it has one."""
_EACH_MET = """    for (unsigned k = 0; o < lines.outer && j < lines.inner && k < lines.count; k++) {
        if (lines.at(o, k, j) != m) continue;
        const T value = lines.src ? lines.value(o, k, j) : T(0);
"""


def source(char: str, places: str) -> str:
    """The kernels for elements of a dtype and places of one: those of `_FOLDS`, of which complex numbers have no extremes, and of floats
    each of `_SLOPES` for both of `_OF`.

    There are ``outer x count x inner`` places and values; x has ``adim`` elements in a line, and ``wide`` lines for ``inner``, of which
    the last meet nothing, as do those after the first ``outer``. ``own``: whether the element itself takes part. ``one``: g, the gradient
    of the result, is one number for all. Where it is not needed src or x is null.

    A place is called ``indices`` and the size of the dimension ``adim``, as in CuPy's kernels, by which hostcuda finds places outside.
    """
    computed = "long long" if char in _WHOLE_NUMBERS else "float" if char in HEADERS else SERVED[char]
    over = "__device__ T over(T s, long long met) { return s / T(met); }\n"
    if char in _WHOLE_NUMBERS:  # rounded down, of the sum that the dtype holds
        over = "__device__ T over(T s, long long met) { const T n = E(s), q = n / met; return q * met > n ? q - 1 : q; }\n"
    head = f"typedef {_COMPLEX[char]} R;\n{_PAIR}" if char in _COMPLEX else HEADERS.get(char, "")
    texts = [head, f"typedef {SERVED[char]} E;\ntypedef {computed} T;\ntypedef {EXACT[places]} P;\n", over, _SHARED]
    for name, (begin, meet, made) in _FOLDS.items():
        if char in _COMPLEX and name in ("amax", "amin"):
            continue
        texts.append(
            f'extern "C" __global__ void gradlib_{name}(Lines lines, const E* x, E* z, bool own, unsigned n) {{\n{ENTERED}{_OF["input"]}'
            f"    T s = self;\n    long long met = 0;\n{_EACH_MET}        if (!met++ && !own) s = {begin};\n        s = {meet};\n    }}\n"
            f"    z[i] = met ? E({made}) : x[i];\n}}\n"
        )
    operands = "Lines lines, const E* g, bool one, const E* x, const E* out, E* z, bool own, unsigned n"
    for name, (begin, meet, made) in _SLOPES.items() if char in CTYPES else ():
        for of, standing in _OF.items():
            given = "    const T given = T(g[one ? 0 : element]), top = T(out ? out[element] : E(0));\n"
            own = "own ? {0} : met ? T(0) : given" if of == "input" else "{0}"
            texts.append(
                f'extern "C" __global__ void gradlib_{name}_{of}({operands}) {{\n{ENTERED}{standing}{given}    T s = {begin};\n'
                f"    bool met = false;\n{_EACH_MET}        s = {meet};\n        met = true;\n    }}\n"
                f"    z[i] = E({own.format(made)});\n}}\n"
            )
    return "".join(texts)


_kernel = kernels(source)


@lru_cache(4096)
def _plan(
    shape: tuple[int, ...], places: tuple[int, ...], place_strides: tuple[int, ...], place_size: int, axis: int, along: bool,
    values: tuple[int, ...] | None, strides: tuple[int, ...], itemsize: int,
) -> tuple[int, ...] | None:  # fmt: skip
    """The numbers of ``Lines`` for a contiguous array of a shape, as `gradlib.backend.placing.spread_of` has them; None where the kernels
    do not serve them.
    """
    steps, n = tuple(math.prod(shape[d + 1 :]) * itemsize for d in range(len(shape))), math.prod(shape)
    spread = spread_of(shape, steps, places, place_strides, place_size, axis, along, values, strides, itemsize) if 0 < n <= MOST else None
    if spread is None:
        return None
    _, looks, (adim, count, inner, *lie) = spread
    outer, wide = looks // (count * inner), math.prod(shape[axis + 1 :])
    if count > LONGEST or n * count > MOST_LOOKS:
        return None
    if (inner > 1 and lie[8] != 1) or (outer > 1 and lie[6] != adim * wide):  # not the first of the lines
        return None
    return count, inner, outer, wide, adim, *lie[:6]


def _lines(like: Array, src: Any, index: Any, axis: int, along: bool = True) -> tuple[int, ...] | None:
    """The members of ``Lines``; None where the kernels do not serve them. ``src`` is null where it is None."""
    kind, device = type(like), like.data.device_id
    if type(index) is not kind or index.dtype.char not in PLACES or index.data.device_id != device:
        return None
    shape, strides, pointer = None, (), 0
    if src is not None:
        if type(src) is not kind or src.dtype is not like.dtype or src.data.device_id != device:
            return None
        shape, strides, pointer = src.shape, src.strides, src.data.ptr
    planned = _plan(like.shape, index.shape, index.strides, index.itemsize, axis, along, shape, strides, like.itemsize)
    return None if planned is None else (index.data.ptr, pointer, *planned)


def folded(input: Array, src: Any, index: Any, axis: int, how: str, own: bool, into: bool = False, along: bool = True) -> Array | None:
    """What the elements of a CuPy array become by values at places along a dimension, counted from 0; others stay.

    Args:
        how: "sum", "mean", "prod", "amax" or "amin". own: whether the elements take part themselves. into: write them into the array.
        along: whether there is a place for each value, and not one for each slice.
    Returns: None where no kernel serves it.
    """
    char = input.dtype.char
    if not into and not input._c_contiguous and char in SERVED:
        input, into = row_major_copy(input), True
    data = input.data
    is_served = char in SERVED and not (char in _COMPLEX and how in ("amax", "amin"))
    lines = _lines(input, src, index, axis, along) if is_served and input._c_contiguous else None
    if lines is None or (into and (src.data.mem is data.mem or index.data.mem is data.mem)):  # which would be written while it is read
        return None
    out = input if into else type(input)(input.shape, input.dtype)
    n = out.size
    run = _kernel(how, char, PLACES[index.dtype.char]).run
    return out if run(data.device_id, n, THREADS, *lines, data.ptr, out.data.ptr, own, n) else None


def slope(of: str, g: Any, input: Any, src: Any, out: Any, index: Any, axis: int, how: str, own: bool) -> Array | None:
    """A gradient of what ``folded`` gave, of floats.

    Args:
        of: "input" or "src". g: the gradient of the result, out. input, src, out: what it was called with, and gave; of a mean it does not
            matter what. axis, how, own: as there.
    """
    if (how == "sum" and (own or of == "src")) or g.dtype.char not in CTYPES:  # g itself, or a read at the places; or no real floats
        return None
    one = is_one(g, g.size)
    if one is None:
        g, one = row_major_copy(g), False
    lines = _lines(g, src, index, axis)
    if lines is None:
        return None
    for each in (input, out):
        if each is not None and (type(each) is not type(g) or each.dtype is not g.dtype or each.shape != g.shape):
            return None
    input, out = [each if each is None or each._c_contiguous else row_major_copy(each) for each in (input, out)]
    made = type(g)(g.shape if of == "input" else index.shape, g.dtype)
    pointers = [0 if each is None else each.data.ptr for each in (input, out)]
    run = _kernel(f"{_SLOPE_OF[how]}_{of}", g.dtype.char, PLACES[index.dtype.char]).run
    n = made.size
    return made if run(g.data.device_id, n, THREADS, *lines, g.data.ptr, one, *pointers, made.data.ptr, own, n) else None


@cache
def adder(char: str) -> Callable[..., bool]:
    """``array[key] += factor * values`` of CuPy arrays of a dtype where repeats all count, with `gradlib.backend.placing.put`'s arguments
    and a number, 1 where it is left out: by an atomic instruction for each value, where there is one. It returns whether it was done, which
    it is not where no kernel serves it.
    """
    return partial(put, how="add") if char in ADDED else _added


def _added(array: Array, key: Sequence[Any], values: Any, factor: Any = 1) -> bool:
    named = named_of(array, key) if factor == 1 else None
    return named is not None and folded(named[0], values, named[2], named[1], "sum", True, True, along=False) is not None
