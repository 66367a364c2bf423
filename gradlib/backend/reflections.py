"""A kernel of gradlib's own for the QR decomposition of small matrices, by Householder's reflections in shared memory, with LAPACK's signs.

A block takes one matrix, and some of its threads a column. It is one launch, where cuSOLVER's functions are several between others of
CuPy's. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST
from gradlib.backend.launching import kernels
from gradlib.backend.matrices import steps
from gradlib.backend.matrix_text import REAL, head
from gradlib.backend.singular import LONGEST, SHARED, WIDEST

_THREADS = 256
"""The most of a block."""

_KERNEL = """
// Q (m, count) of orthonormal columns and the triangle U (count, n) whose product is A. A column is the work of ``width`` threads.
extern "C" __global__ void gradlib_qr(const T* A, T* Q, T* U, int m, int n, int count, int width, int by_matrix, int by_row,
    int by_column) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int t = threadIdx.x, all = blockDim.x, k = m < n ? m : n, H = m | 1, group = t / width, lane = t % width, groups = all / width;
    T* const a = (T*)memory;  // column by column: the triangle, and below it the vectors of the reflections, whose first elements are 1
    T *const q = a + n * H, *const factors = q + count * H;
    A += blockIdx.x * by_matrix;
    Q += (long long)blockIdx.x * m * count;
    U += (long long)blockIdx.x * count * n;
    for (int i = t; i < m * n; i += all) a[i % n * H + i / n] = A[i / n * by_row + i % n * by_column];
    for (int i = t; i < m * count; i += all) q[i / m * H + i % m] = number(i / m == i % m);
    __syncthreads();
    for (int j = 0; j < k; j++) {
        T* const x = a + j * H;
        R largest = magnitude(x[j]), squares = 0;  // of numbers made neither too large nor too small for it
        for (int i = j + 1 + lane; i < m; i += width) largest = fmax(largest, magnitude(x[i]));
        largest = largest_of(largest, width);
        const int exponent = largest > 0 ? max(min(ilogb(largest), LIMIT), -LIMIT) : 0;
        const R unit = ldexp(R(1), -exponent);
        for (int i = j + 1 + lane; i < m; i += width) squares += square(scaled(x[i], unit));
        squares = sum_of(squares, width);
        const T first = scaled(x[j], unit);
        const bool is_turned = squares != 0 || !is_zero(first - number(real(first)));  // else it is what it should be
        const R end = -copysign(sqrt(squares + square(first)), real(first));
        const T factor = is_turned ? scaled(number(end) - first, 1 / end) : number(0), rest = number(unit) / (first - number(end));
        __syncthreads();
        if (is_turned) {
            for (int i = j + 1 + t; i < m; i += all) x[i] = x[i] * rest;
            if (t == 0) x[j] = number(ldexp(end, exponent));
        }
        if (t == 0) factors[j] = factor;
        __syncthreads();
        for (int from = j + 1; is_turned && from < n; from += groups) {
            const int c = from + group;
            T* const y = a + c * H;
            T along = number(0);
            for (int i = j + lane; c < n && i < m; i += width) along = along + (i == j ? y[i] : conjugate(x[i]) * y[i]);
            along = conjugate(factor) * sum_of(along, width);
            for (int i = j + lane; c < n && i < m; i += width) y[i] = y[i] - (i == j ? along : along * x[i]);
        }
        __syncthreads();
    }
    for (int from = 0; from < count; from += groups) {
        const int c = from + group;
        T* const y = q + c * H;  // of which a thread keeps to its own rows
        for (int j = k - 1; j >= 0; j--) {
            const T *const x = a + j * H, factor = factors[j];
            if (is_zero(factor)) continue;
            T along = number(0);
            for (int i = lane; c < count && i < m; i += width)
                if (i >= j) along = along + (i == j ? y[i] : conjugate(x[i]) * y[i]);
            along = factor * sum_of(along, width);
            for (int i = lane; c < count && i < m; i += width)
                if (i >= j) y[i] = y[i] - (i == j ? along : along * x[i]);
        }
    }
    __syncthreads();
    for (int i = t; i < m * count; i += all) Q[i] = q[i % count * H + i / count];
    for (int i = t; i < count * n; i += all) U[i] = i / n <= i % n ? a[i % n * H + i / n] : number(0);
}
"""


def source(char: str) -> str:
    """The kernel for matrices of a dtype; its text says what it does."""
    return head(char, _KERNEL.replace("LIMIT", "125" if REAL[char] == "float" else "1021"))


_kernel = kernels(source)


@lru_cache(maxsize=512)
def _planned(shape: tuple[int, ...], char: str, whole: bool) -> tuple[int, int, int, int, int, int, int] | None:
    """Rows, columns, those of Q, threads for a column, for a block, in all, and bytes of shared memory; None where no kernel serves it."""
    m, n = shape[-2:]
    elements, count = prod(shape), m if whole else min(m, n)
    if not 0 < elements <= MOST or min(m, n) > WIDEST or max(m, n) > LONGEST or char not in REAL:
        return None
    width = 8 if m <= 32 else 32
    threads = min(_THREADS, -(-max(n, count) * width // 32) * 32)
    shared = ((n + count) * (m | 1) + min(m, n)) * np.dtype(char).itemsize
    return None if shared > SHARED else (m, n, count, width, threads, elements // (m * n) * threads, shared)


def decomposed(A: Array, whole: bool = False) -> tuple[Array, Array] | None:
    """Orthonormal columns and the triangle whose product are the matrices; None where no kernel serves them.

    Args:
        whole: give as many columns as there are rows.
    """
    shape, dtype = A.shape, A.dtype
    plan = _planned(shape, dtype.char, whole)
    if plan is None or (strides := steps(A)) is None:
        return None
    m, n, count, width, block, threads, shared = plan
    made, data = type(A), A.data
    Q, U = made((*shape[:-1], count), dtype), made((*shape[:-2], count, n), dtype)
    run = _kernel("qr", dtype.char).run(
        data.device_id, threads, block, data.ptr, Q.data.ptr, U.data.ptr, m, n, count, width, *strides, shared=shared
    )  # fmt: skip
    return (Q, U) if run else None


def decomposed_whole(A: Array) -> tuple[Array, Array] | None:
    """The same with as many columns of the first as there are rows."""
    return decomposed(A, True)
