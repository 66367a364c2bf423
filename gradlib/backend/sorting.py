"""A kernel of gradlib's own that sorts the short lines of a small CuPy array: values and places in one launch.

CuPy's ``argsort`` takes several launches and buffers whatever the size. As in `gradlib.backend.pointwise`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import int64
from gradlib.backend.launching import Kernel, compiled
from gradlib.backend.pointwise import MOST, THREADS

LONGEST = 256
"""The longest lines that are sorted here: each element is compared with every other one of its line."""

_WHOLE = {
    "?": "unsigned char", "B": "unsigned char", "b": "signed char", "H": "unsigned short", "h": "short", "I": "unsigned", "i": "int",
    "L": "unsigned long long", "l": "long long", "Q": "unsigned long long", "q": "long long",
}  # fmt: skip
_FLOATS = {  # the type of the bits without and with a sign, and the bits of infinity
    "e": ("unsigned short", "short", 0x7C00), "E": ("unsigned short", "short", 0x7F80), "f": ("unsigned", "int", 0x7F800000),
    "d": ("unsigned long long", "long long", 0x7FF0000000000000),
}  # fmt: skip


def source(char: str) -> str:
    """The kernel for elements of a dtype; a thread finds the place of one element, which is the number of those before it.

    Floats are compared by their bits as integers, since CuPy's options flush subnormal numbers: zeros of both signs are equal, and so
    are all NaN, which come behind infinity. Equal elements keep their order.
    """
    if char in _WHOLE:
        ctype, key = _WHOLE[char], "return x;"
    else:
        unsigned, ctype, infinity = _FLOATS[char]
        largest = f"({ctype})(({unsigned})-1 >> 1)" if ctype != "short" else "(short)0x7fff"
        key = (
            f"const {unsigned} size = ({unsigned})(({unsigned})x << 1);\n"
            f"    return size > ({unsigned}){2 * infinity}ull ? {largest} : size == 0 ? 0 : x < 0 ? x ^ {largest} : x;"
        )
    return (
        f"__device__ {ctype} key({ctype} x) {{\n    {key}\n}}\n"
        f'extern "C" __global__ void gradlib_sort(const {ctype}* x, {ctype}* z, long long* places, unsigned size, unsigned inner,\n'
        "    unsigned descending, unsigned n) {\n"
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
        "    const unsigned k = i / inner % size, line = i - k * inner;\n"
        f"    const {ctype} own = key(x[i]);\n    unsigned before = 0;\n"
        "    for (unsigned m = 0; m < size; m++) {\n"
        f"        const {ctype} other = key(x[line + m * inner]);\n"
        "        before += (descending ? other > own : other < own) || (other == own && m < k);\n    }\n"
        "    z[line + before * inner] = x[i];\n    places[line + before * inner] = k;\n}\n"
    )


@cache
def _kernel(char: str) -> Kernel:
    module = compiled(source(char))
    return Kernel("PPPIIII", lambda device: module.get_function("gradlib_sort"))


def sorted_lines(array: Array, axis: Any, descending: bool) -> tuple[Array, Array] | None:
    """The elements of a contiguous CuPy array in order along a dimension, and the places (int64) that they come from.

    Returns: None where there is no kernel for it.
    """
    shape, char = array.shape, array.dtype.char
    if (char not in _WHOLE and char not in _FLOATS) or not array._c_contiguous or not 0 < (n := array.size) <= MOST:
        return None
    ndim = len(shape)
    if type(axis) is not int or not -ndim <= axis < ndim or shape[axis] > LONGEST:
        return None
    ndarray, data = cupy().ndarray, array.data
    out, places = ndarray(shape, array.dtype), ndarray(shape, int64)
    inner = math.prod(shape[axis % ndim + 1 :])
    values = (data.ptr, out.data.ptr, places.data.ptr, shape[axis], inner, bool(descending), n)
    return (out, places) if _kernel(char).run(data.device_id, n, THREADS, *values) else None
