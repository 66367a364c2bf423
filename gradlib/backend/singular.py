"""Kernels of gradlib's own for the singular values and vectors of small matrices, and for what is made of them: pseudoinverses and least
squares. By Jacobi's rotations, from one side.

A block takes one matrix. Pairs of its columns that have none in common are turned at once, by some threads each, until all are orthogonal:
their lengths are the singular values. It is one launch, where cuSOLVER's functions are several between others of CuPy's. As in
`gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST
from gradlib.backend.launching import kernels
from gradlib.backend.matrices import NUMBERS, stacks_alike, steps
from gradlib.backend.matrix_text import REAL, head

WIDEST = 32
"""The most rows or columns, whichever are fewer: a block turns the pairs of so many at once."""
LONGEST = 128
"""The most of the others."""
SHARED = 48 << 10
"""The bytes of shared memory that a block has on every device."""
_SWEEPS = 30
"""After so many rounds over all pairs it ends in any case; some eight are enough."""


_KERNELS = """
// What a block knows of one matrix, of which the longer side is that of the columns: a A, or a conjugate transpose of it.
struct Decomposed {
    T *a;  // orthonormal columns, H apart, each of ``rows``, as many as wanted
    T *v;  // A v = a diag(s): k columns, G apart; null if they are not wanted
    R *s;  // k lengths
    int *order;  // by size, the largest first
    int H, G;
    bool broken;  // A is not finite
};

// More orthonormal columns, in the place of those up to ``count`` that are not ``known``: each from the unit vector that is furthest from
// those there are, whose part in their space is taken away twice.
__device__ void complete(T* a, int H, int rows, int count, int* known, T* spare) {
    const int t = threadIdx.x, all = blockDim.x;
    for (int j = 0; j < count; j++) {
        __syncthreads();
        if (known[j]) continue;
        for (int i = t; i < rows; i += all) {
            R left = 1;
            for (int c = 0; c < count; c++) left -= known[c] ? square(a[c * H + i]) : 0;
            spare[i] = number(left);
        }
        __syncthreads();
        int furthest = 0;
        for (int i = 1; i < rows; i++) furthest = real(spare[i]) > real(spare[furthest]) ? i : furthest;
        for (int i = t; i < rows; i += all) {
            T x = number(i == furthest);
            for (int c = 0; c < count; c++)
                if (known[c]) x = x - a[c * H + i] * conjugate(a[c * H + furthest]);
            a[j * H + i] = x;
        }
        __syncthreads();
        for (int c = t; c < count; c += all) {
            T x = number(0);
            for (int i = 0; known[c] && i < rows; i++) x = x + conjugate(a[c * H + i]) * a[j * H + i];
            spare[c] = x;
        }
        __syncthreads();
        for (int i = t; i < rows; i += all) {
            T x = a[j * H + i];
            for (int c = 0; c < count; c++)
                if (known[c]) x = x - a[c * H + i] * spare[c];
            a[j * H + i] = x;
        }
        __syncthreads();
        R size = 0;
        for (int i = 0; i < rows; i++) size += square(a[j * H + i]);
        __syncthreads();
        for (int i = t; i < rows; i += all) a[j * H + i] = scaled(a[j * H + i], 1 / sqrt(size));
        if (t == 0) known[j] = 1;
    }
}

// The decomposition of a matrix of k columns, no more than ``rows``; ``hermitian``: of which the lower triangle is read.
// ``count``: how many columns of ``a`` are wanted, none, k or ``rows``. ``width``: how many threads turn a pair.
__device__ Decomposed decomposed(const T* A, int rows, int k, int by_row, int by_column, bool turned, bool hermitian, int count,
    bool wants_v, int width) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int t = threadIdx.x, all = blockDim.x, players = k + k % 2, pairs = players / 2, held = count > k ? count : k;
    Decomposed d;
    d.H = rows | 1;
    d.G = k | 1;
    T* const a = d.a = (T*)memory;
    T* const v = a + held * d.H;
    T* const spare = v + (wants_v ? k * d.G : 0);
    R* const s = d.s = (R*)(spare + rows);
    int* const order = d.order = (int*)(s + k);
    int *const known = order + held, *const state = known + held;  // whether something was turned, and whether A is not finite
    const int H = d.H, G = d.G;
    d.v = wants_v ? v : nullptr;
    if (t == 0) state[1] = 0;
    __syncthreads();
    R size = 0;
    for (int m = t; m < rows * k; m += all) {
        const int i = m / k, j = m % k;
        const bool is_read = !hermitian || j <= i;
        T x = is_read ? A[i * by_row + j * by_column] : A[j * by_row + i * by_column];
        if (hermitian && i == j) x = number(real(x));
        if (!is_finite(x)) state[1] = 1;
        size = fmax(size, magnitude(x));
        a[j * H + i] = turned != !is_read ? conjugate(x) : x;
    }
    for (int m = t; wants_v && m < k * k; m += all) v[m / k * G + m % k] = number(m / k == m % k);
    size = largest_of(size, 32);
    if (t % 32 == 0) spare[t / 32] = number(size);
    __syncthreads();
    d.broken = state[1];
    for (int m = 0; m < all / 32; m++) size = fmax(size, real(spare[m]));
    const int exponent = size > 0 && !d.broken ? max(min(ilogb(size), LIMIT), -LIMIT) : 0;
    for (int m = t; m < rows * k; m += all) a[m / rows * H + m % rows] = scaled(a[m / rows * H + m % rows], ldexp(R(1), -exponent));
    const R enough = EPSILON * sqrt(R(rows));
    const int group = t / width, lane = t % width, groups = all / width;
    for (int sweep = 0; sweep < SWEEPS && !d.broken; sweep++) {
        __syncthreads();
        if (t == 0) state[0] = 0;
        __syncthreads();
        for (int round = 0; round < players - 1; round++) {
            // who meets: the last player stays, the others go round in a circle
            const int p = group ? (round + group) % (players - 1) : players - 1;
            const int q = (round - group + players - 1) % (players - 1);
            const bool is_pair = group < pairs && p < k && q < k;
            T *const x = a + p * H, *const y = a + q * H;
            R x_square = 0, y_square = 0;
            T product = number(0);
            for (int i = lane; is_pair && i < rows; i += width) {
                x_square += square(x[i]);
                y_square += square(y[i]);
                product = product + conjugate(x[i]) * y[i];
            }
            x_square = sum_of(x_square, width);
            y_square = sum_of(y_square, width);
            product = sum_of(product, width);
            const R aligned = length(product);
            if (fmin(x_square, y_square) > NOTHING && aligned > enough * sqrt(x_square * y_square)) {
                const R slope = (y_square - x_square) / (2 * aligned), steep = fabs(slope);
                const R tangent = (slope < 0 ? -1 : 1) / (steep + (steep > R(1e9) ? steep : sqrt(1 + slope * slope)));
                const R cosine = 1 / sqrt(1 + tangent * tangent), sine = tangent * cosine;
                const R share = sine / (1 + cosine);  // by which 1 - cosine is not rounded away, lest lengths grow
                const T phase = conjugate(direction(product));
                for (int i = lane; i < rows; i += width) {
                    const T b = x[i], c = y[i] * phase;
                    x[i] = b - scaled(c + scaled(b, share), sine);
                    y[i] = c + scaled(b - scaled(c, share), sine);
                }
                for (int i = lane; wants_v && i < k; i += width) {
                    const T b = v[p * G + i], c = v[q * G + i] * phase;
                    v[p * G + i] = b - scaled(c + scaled(b, share), sine);
                    v[q * G + i] = c + scaled(b - scaled(c, share), sine);
                }
                state[0] = 1;
            }
            __syncthreads();
        }
        if (!state[0]) break;
    }
    for (int from = 0; from < k; from += groups) {
        const int j = from + group;
        T* const x = a + j * H;
        R largest = 0, squares = 0;  // divided by the largest, lest they be too small for a number
        for (int i = lane; j < k && i < rows; i += width) largest = fmax(largest, magnitude(x[i]));
        largest = largest_of(largest, width);
        for (int i = lane; j < k && largest > 0 && i < rows; i += width) squares += square(scaled(x[i], 1 / largest));
        const R size = largest * sqrt(sum_of(squares, width));
        const bool is_known = size * size > NOTHING;
        for (int i = lane; j < k && is_known && i < rows; i += width) x[i] = scaled(x[i], 1 / size);
        if (j < k && lane == 0) {
            known[j] = is_known;
            s[j] = d.broken ? NAN_ : ldexp(size, exponent);
        }
    }
    for (int j = k + t; j < held; j += all) known[j] = 0;
    __syncthreads();
    if (count && !d.broken) complete(a, H, rows, count, known, spare);
    for (int j = t; j < held; j += all) {
        int place = j;
        if (j < k && !d.broken) {
            place = 0;
            for (int c = 0; c < k; c++) place += s[c] > s[j] || (s[c] == s[j] && c < j);
        }
        order[place] = j;
    }
    __syncthreads();
    return d;
}

// U (m, count), the singular values and V^H (count, n), or these alone where U is null; ``wide``: A has fewer rows than columns.
extern "C" __global__ void gradlib_svd(const T* A, T* U, R* values, T* Vh, int rows, int k, int count, int wide, int width, int by_matrix,
    int by_row, int by_column) {
    const int t = threadIdx.x, all = blockDim.x;
    const long long matrix = blockIdx.x;
    const Decomposed d = decomposed(A + blockIdx.x * by_matrix, rows, k, by_row, by_column, wide, false, U ? count : 0, U, width);
    for (int j = t; j < k; j += all) values[matrix * k + j] = d.s[d.order[j]];
    if (!U) return;
    T* const columns = wide ? U + matrix * k * k : U + matrix * rows * count;
    T* const lines = wide ? Vh + matrix * rows * count : Vh + matrix * k * k;
    const T *const left = wide ? d.v : d.a, *const right = wide ? d.a : d.v;
    const int m = wide ? k : rows, n = wide ? rows : k, p = wide ? k : count, q = wide ? count : k;
    const int P = wide ? d.G : d.H, Q = wide ? d.H : d.G;
    for (int i = t; i < m * p; i += all) columns[i] = d.broken ? unknown() : left[d.order[i % p] * P + i / p];
    for (int i = t; i < q * n; i += all) lines[i] = d.broken ? unknown() : conjugate(right[d.order[i / n] * Q + i % n]);
}

// The pseudoinverse Z (n, m) of A (m, n), of which singular values up to max(atol, rtol * the largest) count as zero. Where B is not null,
// which is (m, columns), also the values, X = Z B, how many values do not count as zero, and if wanted the squared norms of A X - B.
extern "C" __global__ void gradlib_pinv(const T* A, T* Z, R* values, const T* B, T* X, long long* ranks, R* residuals, double atol,
    double rtol, int rows, int k, int wide, int hermitian, int width, int by_matrix, int by_row, int by_column, int columns,
    int B_by_matrix, int B_by_row, int B_by_column) {
    const int t = threadIdx.x, all = blockDim.x, n = wide ? rows : k, m = wide ? k : rows;
    const long long matrix = blockIdx.x;
    const Decomposed d = decomposed(A + blockIdx.x * by_matrix, rows, k, by_row, by_column, wide, hermitian, 0, true, width);
    const T *const left = wide ? d.a : d.v, *const right = wide ? d.v : d.a;
    const int L = wide ? d.H : d.G, W = wide ? d.G : d.H;
    const R bound = fmax(atol, rtol * d.s[d.order[0]]);
    Z += matrix * n * m;
    for (int i = t; i < n * m; i += all) {
        T x = number(0);
        for (int j = 0; j < k; j++)
            if (d.s[j] > bound) x = x + scaled(left[j * L + i / m], 1 / d.s[j]) * conjugate(right[j * W + i % m]);
        Z[i] = d.broken ? unknown() : x;
    }
    if (!B) return;
    for (int j = t; j < k; j += all) values[matrix * k + j] = d.s[d.order[j]];
    if (t == 0) {
        int rank = 0;
        for (int j = 0; j < k; j++) rank += d.s[j] > bound;
        ranks[matrix] = rank;
    }
    __syncthreads();
    B += blockIdx.x * B_by_matrix;
    for (int i = t; i < n * columns; i += all) {
        T x = number(0);
        for (int j = 0; j < m; j++) x = x + Z[i / columns * m + j] * B[j * B_by_row + i % columns * B_by_column];
        X[matrix * n * columns + i] = x;
    }
    if (!residuals) return;
    __syncthreads();
    A += blockIdx.x * by_matrix;
    X += matrix * n * columns;
    for (int from = 0; from < columns; from += all / 32) {  // a warp for each; only tall matrices have any
        const int c = from + t / 32;
        R sum = 0;
        for (int i = t % 32; c < columns && i < m; i += 32) {
            T away = B[i * B_by_row + c * B_by_column];
            for (int j = 0; j < n; j++) away = away - A[i * by_row + j * by_column] * X[j * columns + c];
            sum += square(away);
        }
        sum = sum_of(sum, 32);
        if (c < columns && t % 32 == 0) residuals[matrix * columns + c] = sum;
    }
}
"""


_LIMITS = {
    "float": {"EPSILON": "1.1920929e-7f", "NOTHING": "1e-32f", "LIMIT": "125"},
    "double": {"EPSILON": "2.220446049250313e-16", "NOTHING": "1e-68", "LIMIT": "1021"},
}
"""NOTHING: the square of what counts as zero among columns, beside a largest element of 1: less than the square of the precision, it is
what rounding leaves of a column that depends on others, which each round would make smaller. LIMIT: the largest exponent of a power of two
that has a reciprocal.
"""


def source(char: str) -> str:
    """The kernels for matrices of a dtype; their text says what each does."""
    text = _KERNELS.replace("SWEEPS", str(_SWEEPS))
    for name, value in _LIMITS[REAL[char]].items():
        text = text.replace(name, value)
    return head(char, text)


_kernel = kernels(source)


@lru_cache(maxsize=512)
def _planned(shape: tuple[int, ...], char: str, full: bool | None, wants_v: bool) -> tuple[int, int, bool, int, int, int, int, int] | None:
    """What a launch needs: the longer and the shorter side, whether A is wide, how many orthonormal columns of the longer side are wanted
    (``full``: as many as they have rows, None: none), the threads for a pair, for a block, in all, and the bytes of shared memory.

    Returns: None where no kernel serves it.
    """
    m, n = shape[-2:]
    rows, k = max(m, n), min(m, n)
    elements = prod(shape)
    if not 0 < elements <= MOST or k > WIDEST or rows > LONGEST or char not in REAL:
        return None
    count = 0 if full is None else rows if full else k
    width, held, itemsize = 8 if rows <= 32 else 32, max(count, k), np.dtype(char).itemsize
    threads = -(-(k + 1) // 2 * width // 32) * 32
    numbers = held * (rows | 1) + (k * (k | 1) if wants_v else 0) + rows
    shared = numbers * itemsize + k * np.dtype(char.lower()).itemsize + 4 * (2 * held + 2)
    return None if shared > SHARED else (rows, k, m < n, count, width, threads, elements // (m * n) * threads, shared)


def decomposed(A: Array, full: bool, with_vectors: bool = True) -> tuple[Any, ...] | None:
    """U, the singular values in order and V^H; NaN of what is not finite.

    Args:
        full: give U and V^H as square matrices. with_vectors: else the values stand between two None.
    Returns: None where no kernel serves it.
    """
    shape, char = A.shape, A.dtype.char
    plan = _planned(shape, char, full if with_vectors else None, with_vectors)
    if plan is None or (strides := steps(A)) is None:
        return None
    rows, k, wide, count, width, block, threads, shared = plan
    by_matrix, by_row, by_column = strides
    made, outer, data = type(A), shape[:-2], A.data
    U = Vh = None
    U_ptr = Vh_ptr = 0
    if with_vectors:
        U = made((*outer, shape[-2], k if wide else count), A.dtype)
        Vh = made((*outer, count if wide else k, shape[-1]), A.dtype)
        U_ptr, Vh_ptr = U.data.ptr, Vh.data.ptr
    values = made((*outer, k), char.lower())
    places = (by_matrix, by_column, by_row) if wide else strides
    given = (data.ptr, U_ptr, values.data.ptr, Vh_ptr, rows, k, count, wide, width, *places)
    return (U, values, Vh) if _kernel("svd", char).run(data.device_id, threads, block, *given, shared=shared) else None


def values_alone(A: Array) -> Array | None:
    """The singular values in order."""
    made = decomposed(A, False, False)
    return None if made is None else made[1]


def pseudoinverse(A: Array, atol: Any, rtol: Any, hermitian: bool) -> Array | None:
    """The inverse on the singular vectors whose values exceed max(atol, rtol * the largest), zero on the others.

    Args:
        hermitian: read the lower triangle alone.
    Returns: None where no kernel serves it, as of tolerances that are arrays.
    """
    shape, char = A.shape, A.dtype.char
    plan = _planned(shape, char, None, True)
    if plan is None or (strides := steps(A)) is None or not isinstance(atol, NUMBERS) or not isinstance(rtol, NUMBERS):
        return None
    rows, k, wide, _, width, block, threads, shared = plan
    by_matrix, by_row, by_column = strides
    out, data = type(A)((*shape[:-2], shape[-1], shape[-2]), A.dtype), A.data
    places = (by_matrix, by_column, by_row) if wide else strides
    given = (data.ptr, out.data.ptr, 0, 0, 0, 0, 0, atol, rtol, rows, k, wide, hermitian, width, *places, 0, 0, 0, 0)
    return out if _kernel("pinv", char).run(data.device_id, threads, block, *given, shared=shared) else None


def fitted(A: Array, B: Array, rtol: float, driver: str, asks: bool, vector: bool) -> tuple[Array, ...] | None:
    """The X for which A X is nearest to B, of the dtype of A, and what else `lstsq_op` gives.

    Returns: None where no kernel serves it.
    """
    own, right = A.shape[:-2], B[..., None] if vector else B
    A, right = stacks_alike(A, right)
    shape, char = A.shape, A.dtype.char
    plan, n = _planned(shape, char, None, True), right.shape[-1]
    if plan is None or not 0 < right.size <= MOST or (strides := steps(A)) is None or (others := steps(right)) is None:
        return None
    rows, k, wide, _, width, block, threads, shared = plan
    by_matrix, by_row, by_column = strides
    made, outer, data, real = type(A), shape[:-2], A.data, char.lower()
    X = made((*outer, shape[-1]) if vector else (*outer, shape[-1], n), char)
    inverse = made((*outer, shape[-1], shape[-2]), char)
    values, rank, nothing = made((*outer, k), real), made(outer, np.int64), made((0,), real)
    residuals = made((*outer, n), real) if driver != "gelsy" and rows > k and not wide else None
    places = (by_matrix, by_column, by_row) if wide else strides
    given = (
        data.ptr, inverse.data.ptr, values.data.ptr, right.data.ptr, X.data.ptr, rank.data.ptr,
        0 if residuals is None else residuals.data.ptr, 0.0, rtol, rows, k, wide, False, width, *places, n, *others,
    )  # fmt: skip
    if not _kernel("pinv", char).run(data.device_id, threads, block, *given, shared=shared):
        return None
    if residuals is None or (asks and driver != "gels" and not (rank == k).all()):
        residuals = nothing
    if outer != own:  # what is known of A is not repeated for each B
        first = tuple(map(slice, own))
        values, rank = values[first], rank[first]
    shown = values if driver in ("gelsd", "gelss") else made((0,), real)
    return X, residuals, rank.reshape(-1)[:0] if driver == "gels" else rank, shown, inverse
