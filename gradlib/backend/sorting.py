"""A kernel of gradlib's own that sorts the short lines of a small CuPy array, or finds what stands at some places of the sorted ones.

Values and places come from one launch, where CuPy's ``argsort`` takes several and buffers whatever the size. As in
`gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import int64
from gradlib.backend.kernel_text import MOST, THREADS
from gradlib.backend.launching import kernels

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
COMPARED = frozenset((*_WHOLE, *_FLOATS))
"""The dtypes whose elements are compared here."""


def keys(char: str) -> str:
    """The beginning of a text: ``K``, the type of integers that stand for the elements of a dtype, and ``key`` and ``is_nan`` of one.

    Floats are compared by their bits as integers, since CuPy's options flush subnormal numbers: zeros of both signs are equal, and so
    are all NaN, which come behind infinity.
    """
    if char in _WHOLE:
        ctype, key, nan = _WHOLE[char], "return x;", "false"
    else:
        unsigned, ctype, infinity = _FLOATS[char]
        largest = f"(K)(({unsigned})-1 >> 1)" if ctype != "short" else "(K)0x7fff"
        key = (
            f"const {unsigned} size = ({unsigned})(({unsigned})x << 1);\n"
            f"    return size > ({unsigned}){2 * infinity}ull ? {largest} : size == 0 ? 0 : x < 0 ? x ^ {largest} : x;"
        )
        nan = f"key(x) == {largest}"
    return f"typedef {ctype} K;\n__device__ K key(K x) {{\n    {key}\n}}\n__device__ bool is_nan(K x) {{ return {nan}; }}\n"


_KERNEL = """
// A thread finds the place of one element, which is the number of those before it; equal elements keep their order. Only the elements at
// the ``count`` places from ``start`` on are written. Where ``median`` and a line holds NaN, these places begin with the first one.
extern "C" __global__ void gradlib_sort(const K* x, K* z, long long* places, unsigned size, unsigned inner, unsigned start, unsigned count,
    unsigned descending, unsigned median, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned outer = i / inner / size, k = i / inner - outer * size, line = i - k * inner;
    const K own = key(x[i]);
    unsigned before = 0, missing = 0;
    for (unsigned m = 0; m < size; m++) {
        const K raw = x[line + m * inner], other = key(raw);
        missing += is_nan(raw);
        before += (descending ? other > own : other < own) || (other == own && m < k);
    }
    before -= median && missing ? size - missing : start;  // below 0 wraps around
    if (before >= count) return;
    const unsigned to = line - outer * (size - count) * inner + before * inner;
    z[to] = x[i];
    places[to] = k;
}
"""


def source(char: str) -> str:
    """The kernel for elements of a dtype; its text says what it does."""
    return f"{keys(char)}{_KERNEL}"


_kernel = kernels(source)


def sorted_lines(
    array: Array, axis: Any, descending: bool, start: int = 0, count: Any = None, *, keepdim: bool = True, median: bool = False
) -> tuple[Array, Array] | None:
    """The elements of a CuPy array in order along a dimension, and the places (int64) that they come from.

    Args:
        start, count: give only so many from there on; all when None. keepdim: whether the dimension stays, of one element.
        median: begin with the first NaN in lines that hold one.
    Returns: None where there is no kernel for it.
    """
    shape, char, ndim = array.shape, array.dtype.char, array.ndim
    if char not in COMPARED or not 0 < (n := array.size) <= MOST:
        return None
    if type(axis) is not int or not -ndim <= axis < ndim or (size := shape[axis]) > LONGEST:
        return None
    if count is None:
        count = size
    elif type(count) is not int or not 0 <= start < start + count <= size:
        return None
    axis %= ndim
    inner, ndarray = math.prod(shape[axis + 1 :]), cupy().ndarray
    if count != size or not keepdim:
        shape = (*shape[:axis], *((count,) if keepdim else ()), *shape[axis + 1 :])
    if not array._c_contiguous:
        array = array.copy()
    data, out, places = array.data, ndarray(shape, array.dtype), ndarray(shape, int64)
    values = (data.ptr, out.data.ptr, places.data.ptr, size, inner, start, count, bool(descending), median, n)
    return (out, places) if _kernel("sort", char).run(data.device_id, n, THREADS, *values) else None
