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


_KERNELS = """
// Where each value would go into its line of ``size`` numbers in order, before equal ones, or where ``right`` behind them. There is a line
// for every ``inner`` values.
extern "C" __global__ void gradlib_places(const K* ordered, const K* x, long long* z, unsigned size, unsigned inner, unsigned right,
    unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const K own = key(x[i]);
    const K* const line = ordered + (unsigned long long)(i / inner) * size;
    unsigned low = 0, high = size;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const K there = key(line[middle]);
        if (right ? there <= own : there < own) low = middle + 1;
        else high = middle;
    }
    z[i] = low;
}

// Whether each element is one of ``count`` others.
extern "C" __global__ void gradlib_among(const K* others, const K* x, bool* z, unsigned count, unsigned invert, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const K own = key(x[i]);
    bool found = false;
    for (unsigned m = 0; m < count && !found; m++) found = key(others[m]) == own;
    z[i] = (found && !is_nan(x[i])) != (bool)invert;
}

// By one block: the different elements in order, NaN each time anew. ``numbers`` has for each element the place of its value among them,
// then how often each occurs, and how many there are.
extern "C" __global__ void gradlib_distinct(const K* x, K* z, long long* numbers, unsigned n) {
    __shared__ bool first[LONGEST];  // whether an element is the first of its value
    for (unsigned k = threadIdx.x; k < n; k += blockDim.x) {
        const K own = key(x[k]);
        bool met = false;
        for (unsigned m = 0; m < k && !met; m++) met = key(x[m]) == own;
        first[k] = !met || is_nan(x[k]);
    }
    __syncthreads();
    for (unsigned k = threadIdx.x; k < n; k += blockDim.x) {
        const K own = key(x[k]);
        const bool nan = is_nan(x[k]);
        unsigned before = 0, same = 0;
        for (unsigned m = 0; m < n; m++) {
            const K other = key(x[m]);
            same += other == own && (!nan || m == k);
            before += first[m] && (other < own || (nan && other == own && m < k));
        }
        numbers[k] = before;
        if (first[k]) {
            z[before] = x[k];
            numbers[n + before] = same;
        }
    }
    if (threadIdx.x == 0) {
        unsigned count = 0;
        for (unsigned m = 0; m < n; m++) count += first[m];
        numbers[2 * n] = count;
    }
}
"""


def source(char: str) -> str:
    """The kernels for elements of a dtype; their text says what each does."""
    return keys(char) + _KERNELS.replace("LONGEST", str(LONGEST))


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
