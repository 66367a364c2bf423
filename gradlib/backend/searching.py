"""Kernels of gradlib's own that look for values among others in small CuPy arrays: ``searchsorted``, ``isin`` and ``unique``.

Each is one launch, where CuPy's functions sort, compare and gather by several. They compare elements as the sort of
`gradlib.backend.sorting` does. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import int64
from gradlib.backend.kernel_text import MOST, THREADS
from gradlib.backend.launching import kernels
from gradlib.backend.sorting import COMPARED, keys

LONGEST = 1024
"""The most elements that each of an array is compared with."""


def source(char: str) -> str:
    """The kernels for elements of a dtype.

    ``places``: where each value would go into its line of ``size`` numbers in order, of which there is one for every ``inner`` values;
    before equal ones, or where ``right`` behind them. ``among``: whether each element is one of ``count`` others.

    ``distinct``: by one block, the different elements in order, NaN each time anew; ``numbers`` has for each element the place of its value
    among them, then how often each occurs, and how many there are.
    """
    ctype, functions = keys(char)
    entered = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n    const {ctype} own = key(x[i]);\n"
    each = f"    for (unsigned k = threadIdx.x; k < n; k += {THREADS}) {{\n        const {ctype} own = key(x[k]);\n"
    return (
        f"{functions}"
        f'extern "C" __global__ void gradlib_places(const {ctype}* ordered, const {ctype}* x, long long* z, unsigned size,\n'
        f"    unsigned inner, unsigned right, unsigned n) {{\n{entered}"
        f"    const {ctype}* line = ordered + (unsigned long long)(i / inner) * size;\n    unsigned low = 0, high = size;\n"
        "    while (low < high) {\n"
        f"        const unsigned middle = (low + high) / 2;\n        const {ctype} there = key(line[middle]);\n"
        "        if (right ? there <= own : there < own) low = middle + 1; else high = middle;\n    }\n    z[i] = low;\n}\n"
        f'extern "C" __global__ void gradlib_among(const {ctype}* others, const {ctype}* x, bool* z, unsigned count, unsigned invert,\n'
        f"    unsigned n) {{\n{entered}    bool found = false;\n"
        "    for (unsigned m = 0; m < count && !found; m++) found = key(others[m]) == own;\n"
        "    z[i] = (found && !is_nan(x[i])) != (bool)invert;\n}\n"
        f'extern "C" __global__ void gradlib_distinct(const {ctype}* x, {ctype}* z, long long* numbers, unsigned n) {{\n'
        f"    __shared__ bool first[{LONGEST}];  // whether an element is the first of its value\n"
        f"{each}        bool met = false;\n        for (unsigned m = 0; m < k && !met; m++) met = key(x[m]) == own;\n"
        "        first[k] = !met || is_nan(x[k]);\n    }\n    __syncthreads();\n"
        f"{each}        const bool nan = is_nan(x[k]);\n        unsigned before = 0, same = 0;\n"
        f"        for (unsigned m = 0; m < n; m++) {{\n            const {ctype} other = key(x[m]);\n"
        "            same += other == own && (!nan || m == k);\n"
        "            before += first[m] && (other < own || (nan && other == own && m < k));\n        }\n"
        "        numbers[k] = before;\n        if (first[k]) {\n            z[before] = x[k];\n            numbers[n + before] = same;\n"
        "        }\n    }\n    if (threadIdx.x == 0) {\n        unsigned count = 0;\n"
        "        for (unsigned m = 0; m < n; m++) count += first[m];\n        numbers[2 * n] = count;\n    }\n}\n"
    )


_kernel = kernels(source)


def _alike(one: Any, other: Any) -> bool:
    """Whether both are contiguous CuPy arrays on one device of a dtype that has kernels, and the second is not empty nor large."""
    made = cupy().ndarray
    if type(one) is not made or type(other) is not made or one.dtype != other.dtype or other.dtype.char not in COMPARED:
        return False
    beside = one._c_contiguous and other._c_contiguous and one.data.device_id == other.data.device_id
    return bool(beside and 0 < other.size <= MOST)


def places(ordered: Array, values: Any, right: bool) -> Array | None:
    """``searchsorted``: where values would go into one line of numbers, or each row into its own; None where no kernel serves it."""
    if not _alike(ordered, values):
        return None
    n, size = values.size, ordered.shape[-1]
    inner = n if ordered.ndim == 1 else values.shape[-1]
    out, data = cupy().ndarray(values.shape, int64), values.data
    pointers = ordered.data.ptr, data.ptr, out.data.ptr
    return out if _kernel("places", values.dtype.char).run(data.device_id, n, THREADS, *pointers, size, inner, right, n) else None


def among(elements: Any, others: Any, invert: bool) -> Array | None:
    """``isin``: whether each element is one of the others, or where ``invert`` none of them; None where no kernel serves it."""
    if not _alike(others, elements) or elements.dtype.char == "?" or others.size > LONGEST:
        return None
    out, data, n = cupy().ndarray(elements.shape, bool), elements.data, elements.size
    values = (others.data.ptr, data.ptr, out.data.ptr, others.size, bool(invert), n)
    return out if _kernel("among", elements.dtype.char).run(data.device_id, n, THREADS, *values) else None


def distinct(input: Array) -> tuple[Array, Array, Array] | None:
    """``unique``: the different elements in order, the place of each element's value among them, and how often each occurs.

    The host waits for their number. Returns: None where no kernel serves it.
    """
    if not _alike(input, input) or (n := input.size) > LONGEST:
        return None
    made, data = cupy().ndarray, input.data
    out, numbers = made(n, input.dtype), made(2 * n + 1, int64)
    if not _kernel("distinct", input.dtype.char).run(data.device_id, THREADS, THREADS, data.ptr, out.data.ptr, numbers.data.ptr, n):
        return None
    count = int(numbers[-1])
    return out[:count], numbers[:n].reshape(input.shape), numbers[n : n + count]
