"""A kernel of gradlib's own for the eigenvalues and eigenvectors of small Hermitian matrices, by Jacobi's rotations in shared memory.

A block takes one matrix; pairs of rows and columns that have no index in common are turned at once. It is one launch, where cuSOLVER's
functions are several between others of CuPy's. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST
from gradlib.backend.launching import kernels
from gradlib.backend.matrices import steps
from gradlib.backend.matrix_text import REAL, head

WIDEST = 32
"""The most rows of a matrix, which a block keeps in shared memory with its vectors."""

_SWEEPS = 30
"""After so many rounds over all pairs it ends in any case; some eight are enough."""

_KERNEL = """
// The eigenvalues in order, and where ``vectors`` is not null the columns V of A V = V diag(values); NaN of what is not finite. Of A one
// triangle is read.
extern "C" __global__ void gradlib_eigh(const T* A, R* values, T* vectors, int n, unsigned upper, int by_matrix, int by_row,
    int by_column) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int t = threadIdx.x, all = blockDim.x, W = n | 1, players = n + n % 2, pairs = players / 2;
    T* const a = (T*)memory;
    T *const v = a + n * W, *const turns = v + n * W;
    R* const shares = (R*)(turns + pairs);  // 1 less the cosines, which rounding would take for 0 of small angles, so that lengths grew
    int* const state = (int*)(shares + pairs);  // whether something was turned, and whether A is not finite
    A += blockIdx.x * by_matrix;
    values += blockIdx.x * n;
    if (t == 0) state[1] = 0;
    __syncthreads();
    R largest = 0;
    for (int k = t; k < n * n; k += all) {
        const int i = k / n, j = k % n;
        const bool is_read = upper ? j >= i : j <= i;
        const T x = is_read ? A[i * by_row + j * by_column] : conjugate(A[j * by_row + i * by_column]);
        a[i * W + j] = i == j ? number(real(x)) : x;
        v[i * W + j] = number(i == j);
        if (!is_finite(a[i * W + j])) state[1] = 1;
        largest = fmax(largest, magnitude(a[i * W + j]));
    }
    largest = largest_of(largest, 32);
    if (t % 32 == 0) shares[t / 32] = largest;
    __syncthreads();
    const bool broken = state[1];
    for (int k = 0; k < all / 32; k++) largest = fmax(largest, shares[k]);
    for (int sweep = 0; sweep < SWEEPS && !broken; sweep++) {
        __syncthreads();
        if (t == 0) state[0] = 0;
        __syncthreads();
        for (int round = 0; round < players - 1; round++) {
            // who meets: the last player stays, the others go round in a circle
            auto first = [&](int pair) { return pair ? (round + pair) % (players - 1) : players - 1; };
            auto second = [&](int pair) { return (round - pair + players - 1) % (players - 1); };
            for (int pair = t; pair < pairs; pair += all) {
                const int p = first(pair), q = second(pair);
                const bool is_pair = p < n && q < n;
                const R size = is_pair ? length(a[p * W + q]) : 0;
                R share = 0;
                T turn = number(0);
                if (size > largest * (EPSILON / 4)) {
                    const R slope = (real(a[q * W + q]) - real(a[p * W + p])) / (2 * size);
                    const R tangent = (slope < 0 ? -1 : 1) / (fabs(slope) + sqrt(1 + slope * slope));
                    const R cosine = 1 / sqrt(1 + tangent * tangent), sine = tangent * cosine;
                    share = sine * sine / (1 + cosine);
                    turn = scaled(a[p * W + q], sine / size);
                    state[0] = 1;
                }
                shares[pair] = share;
                turns[pair] = turn;
            }
            __syncthreads();
            for (int m = t; m < 2 * n * pairs; m += all) {  // columns, of the vectors too
                const int pair = m % pairs, row = m / pairs, p = first(pair), q = second(pair);
                if (p >= n || q >= n || (row >= n && !vectors)) continue;
                T* const line = row < n ? a + row * W : v + (row - n) * W;
                const T s = turns[pair], x = line[p], y = line[q];
                line[p] = x - (scaled(x, shares[pair]) + conjugate(s) * y);
                line[q] = y - (scaled(y, shares[pair]) - s * x);
            }
            __syncthreads();
            for (int m = t; m < n * pairs; m += all) {  // rows
                const int pair = m % pairs, column = m / pairs, p = first(pair), q = second(pair);
                if (p >= n || q >= n) continue;
                const T s = turns[pair], x = a[p * W + column], y = a[q * W + column];
                a[p * W + column] = x - (scaled(x, shares[pair]) + s * y);
                a[q * W + column] = y - (scaled(y, shares[pair]) - conjugate(s) * x);
            }
            __syncthreads();
        }
        if (!state[0]) break;
    }
    for (int i = t; i < n; i += all) {
        const R own = real(a[i * W + i]);
        int place = 0;
        for (int j = 0; j < n; j++) place += real(a[j * W + j]) < own || (real(a[j * W + j]) == own && j < i);
        if (broken) place = i;
        values[place] = broken ? NAN_ : own;
        if (vectors)
            for (int row = 0; row < n; row++) vectors[((long long)blockIdx.x * n + row) * n + place] = broken ? unknown() : v[row * W + i];
    }
}
"""


def source(char: str) -> str:
    """The kernel for matrices of a dtype; its text says what it does."""
    epsilon = "1.1920929e-7f" if REAL[char] == "float" else "2.220446049250313e-16"
    return head(char, _KERNEL.replace("SWEEPS", str(_SWEEPS)).replace("EPSILON", epsilon))


_kernel = kernels(source)


def eigenvalues(A: Array, upper: bool, with_vectors: bool) -> tuple[Array, Array | None] | None:
    """The eigenvalues of Hermitian matrices in order, of one triangle, and if wanted the vectors; None where no kernel serves them."""
    (rows, n), char = A.shape[-2:], A.dtype.char
    if rows != n or not 0 < n <= WIDEST or not 0 < A.size <= MOST or char not in REAL or (strides := steps(A)) is None:
        return None
    made, pairs = type(A), (n + 1) // 2
    values, vectors = made(A.shape[:-1], char.lower()), made(A.shape, A.dtype) if with_vectors else None
    shared = (2 * n * (n | 1) + pairs) * A.itemsize + pairs * values.itemsize + 8
    threads = 32 if n <= 8 else 128
    pointers = A.data.ptr, values.data.ptr, 0 if vectors is None else vectors.data.ptr
    run = _kernel("eigh", char).run(A.data.device_id, A.size // (n * n) * threads, threads, *pointers, n, upper, *strides, shared=shared)
    return (values, vectors) if run else None
