"""Kernels of gradlib's own for small square matrices: solutions, inverses, determinants, cofactors and the Cholesky factor.

A block decomposes one matrix in shared memory and goes on from there, all in one launch, where CuPy's functions call cuBLAS or cuSOLVER
between several of their own. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST
from gradlib.backend.launching import kernels
from gradlib.backend.matrices import stacks_alike, steps
from gradlib.backend.matrix_text import REAL, head
from gradlib.backend.reducing import is_one

WIDEST = 32
"""The most rows of a matrix, which a block keeps in shared memory: a warp finds the pivot of a column at once."""

_DECOMPOSE = """
// The decomposition into L U of a matrix whose rows and columns are those of A that ``rows`` and ``columns`` say, by the largest pivot of
// each column, or where ``complete`` of all that is left. ``at`` is for three numbers, of which the last says whether A is not finite.
// Returns: the sign of the permutations.
__device__ int decompose(const T* A, int by_row, int by_column, int n, int W, bool complete, T* lu, int* rows, int* columns, int* at) {
    const int t = threadIdx.x, all = blockDim.x;
    int sign = 1;
    if (t == 0) at[2] = 0;
    __syncthreads();
    for (int k = t; k < n * n; k += all) {
        lu[k / n * W + k % n] = A[k / n * by_row + k % n * by_column];
        if (!is_finite(lu[k / n * W + k % n])) at[2] = 1;
    }
    for (int k = t; k < n; k += all) rows[k] = columns[k] = k;
    __syncthreads();
    for (int k = 0; k < n; k++) {
        const int left = n - k;
        if (t < 32) {
            R size = -1;
            int place = k * n + k;
            for (int m = t; m < (complete ? left * left : left); m += 32) {
                const int i = k + (complete ? m / left : m), j = k + (complete ? m % left : 0);
                if (magnitude(lu[i * W + j]) > size) {
                    size = magnitude(lu[i * W + j]);
                    place = i * n + j;
                }
            }
            for (int bits = 16; bits; bits /= 2) {
                const R other = __shfl_xor_sync(0xffffffffu, size, bits);
                const int there = __shfl_xor_sync(0xffffffffu, place, bits);
                if (other > size || (other == size && there < place)) {
                    size = other;
                    place = there;
                }
            }
            if (t == 0) {
                at[0] = place / n;
                at[1] = place % n;
            }
        }
        __syncthreads();
        const int p = at[0], q = at[1];
        for (int j = t; p != k && j < n; j += all) exchange(lu[k * W + j], lu[p * W + j]);
        __syncthreads();
        for (int i = t; q != k && i < n; i += all) exchange(lu[i * W + k], lu[i * W + q]);
        if (t == 0) {
            exchange(rows[k], rows[p]);
            exchange(columns[k], columns[q]);
        }
        sign = (p != k) == (q != k) ? sign : -sign;
        __syncthreads();
        const bool nothing = is_zero(lu[k * W + k]);
        for (int i = k + 1 + t; !nothing && i < n; i += all) lu[i * W + k] = lu[i * W + k] / lu[k * W + k];
        __syncthreads();
        const int rest = left - 1;
        for (int m = t; !nothing && m < rest * rest; m += all) {
            const int i = k + 1 + m / rest, j = k + 1 + m % rest;
            lu[i * W + j] = lu[i * W + j] - lu[i * W + k] * lu[k * W + j];
        }
        __syncthreads();
    }
    return sign;
}
"""

_KERNELS = """
#define DECOMPOSED(complete) \\
    const int matrix = blockIdx.x, t = threadIdx.x, all = blockDim.x, W = n | 1;  /* so that a column lies in different banks */ \\
    extern __shared__ __align__(16) unsigned char memory[]; \\
    T* const lu = (T*)memory; \\
    int* const rows = (int*)(lu + n * W); \\
    int *const columns = rows + n, *const at = columns + n; \\
    const int sign = decompose(A + matrix * by_matrix, by_row, by_column, n, W, complete, lu, rows, columns, at)

// The solution Z of A Z = B, or the inverse where B is null; and -Z X^T where X is not null.
extern "C" __global__ void gradlib_solve(const T* A, const T* B, T* z, int n, int count, int by_matrix, int by_row, int by_column,
    int B_by_matrix, int B_by_row, int B_by_column, const T* X, T* product, int X_by_matrix, int X_by_row, int X_by_column) {
    DECOMPOSED(false);
    for (int c = t; c < count; c += all) {
        T* const x = z + (long long)matrix * n * count + c;
        const T* const b = B + matrix * B_by_matrix + c * B_by_column;
        for (int i = 0; i < n; i++) {
            T s = B ? b[rows[i] * B_by_row] : number(rows[i] == c);
            for (int j = 0; j < i; j++) s = s - lu[i * W + j] * x[j * count];
            x[i * count] = s;
        }
        for (int i = n - 1; i >= 0; i--) {
            T s = x[i * count];
            for (int j = i + 1; j < n; j++) s = s - lu[i * W + j] * x[j * count];
            x[i * count] = s / lu[i * W + i];
        }
    }
    if (!X) return;
    __syncthreads();
    for (int k = t; k < n * n; k += all) {
        const T *const left = z + ((long long)matrix * n + k / n) * count, *const right = X + matrix * X_by_matrix + k % n * X_by_row;
        T s = number(0);
        for (int c = 0; c < count; c++) s = s - left[c] * right[c * X_by_column];
        product[(long long)matrix * n * n + k] = s;
    }
}

extern "C" __global__ void gradlib_det(const T* A, T* z, int n, int by_matrix, int by_row, int by_column) {
    DECOMPOSED(false);
    if (t != 0) return;
    WIDE product = wide(number(sign));
    for (int i = 0; i < n; i++) product = product * wide(lu[i * W + i]);
    z[matrix] = at[2] && is_zero(product) ? unknown() : narrow(product);
}

// The sign and the logarithm of the size of the determinant; of a matrix that is not finite NaN, where the sign, if real, is zero.
extern "C" __global__ void gradlib_slogdet(const T* A, T* signs, R* sizes, int n, int by_matrix, int by_row, int by_column) {
    DECOMPOSED(false);
    if (t != 0) return;
    T turn = number(sign);
    R size = 0;
    bool singular = false;
    for (int i = 0; i < n; i++) {
        const T u = lu[i * W + i];
        singular |= is_zero(u);
        size += log(length(u));
        turn = turn * direction(u);
    }
    if (singular) size = at[2] ? NAN_ : -INFINITE_;
    signs[matrix] = size != size ? sign_of_unknown() : singular ? number(0) : turn;
    sizes[matrix] = size;
}

// A^-H times a number for each matrix, or ``one`` for all: the gradient by the logarithm of the size.
extern "C" __global__ void gradlib_log_slope(const T* A, const R* g, bool one, T* z, int n, int by_matrix, int by_row, int by_column) {
    DECOMPOSED(false);
    const T factor = number(g[one ? 0 : matrix]);
    for (int c = t; c < n; c += all) {
        T* const x = z + ((long long)matrix * n + c) * n;
        for (int i = 0; i < n; i++) {
            T s = number(rows[i] == c);
            for (int j = 0; j < i; j++) s = s - lu[i * W + j] * x[j];
            x[i] = s;
        }
        for (int i = n - 1; i >= 0; i--) {
            T s = x[i];
            for (int j = i + 1; j < n; j++) s = s - lu[i * W + j] * x[j];
            x[i] = s / lu[i * W + i];
        }
        for (int i = 0; i < n; i++) x[i] = factor * conjugate(x[i]);
    }
}

// The determinants of what is left without a row and a column, with their signs: det(A) A^-T, also of singular matrices.
extern "C" __global__ void gradlib_cofactors(const T* A, T* z, int n, int by_matrix, int by_row, int by_column) {
    DECOMPOSED(true);
    const int last = n - 1;
    T product = number(sign);  // of the pivots but the last, by which nothing is divided
    bool nothing = false;
    for (int i = 0; i < last; i++) {
        nothing |= is_zero(lu[i * W + i]);
        product = product * lu[i * W + i];
    }
    for (int c = t; c < n; c += all) {
        T* const x = z + ((long long)matrix * n + c) * n;
        if (nothing || at[2]) {
            for (int i = 0; i < n; i++) x[i] = at[2] ? unknown() : number(0);
            continue;
        }
        for (int i = 0; i < n; i++) {
            T s = number(rows[i] == c);
            for (int j = 0; j < i; j++) s = s - lu[i * W + j] * x[columns[j]];
            x[columns[i]] = s;
        }
        const T end = x[columns[last]];
        for (int i = last - 1; i >= 0; i--) {
            T s = x[columns[i]] * lu[last * W + last] - lu[i * W + last] * end;
            for (int j = i + 1; j < last; j++) s = s - lu[i * W + j] * x[columns[j]];
            x[columns[i]] = s / lu[i * W + i];
        }
        for (int i = 0; i < n; i++) x[i] = x[i] * product;
    }
}

// The lower triangular factor, from the lower triangle; NaN of a matrix that is not positive definite.
extern "C" __global__ void gradlib_cholesky(const T* A, T* z, int n, int by_matrix, int by_row, int by_column) {
    const int t = threadIdx.x, all = blockDim.x, W = n | 1;
    extern __shared__ __align__(16) unsigned char memory[];
    T* const l = (T*)memory;
    A += blockIdx.x * by_matrix;
    z += (long long)blockIdx.x * n * n;
    for (int k = t; k < n * n; k += all) l[k / n * W + k % n] = k % n <= k / n ? A[k / n * by_row + k % n * by_column] : number(0);
    __syncthreads();
    bool failed = false;
    for (int k = 0; k < n && !failed; k++) {
        const R pivot = real(l[k * W + k]), root = sqrt(pivot);
        failed = !(pivot > 0 && is_finite(number(pivot)));
        __syncthreads();
        for (int i = k + t; i < n; i += all) l[i * W + k] = i == k ? number(root) : l[i * W + k] / number(root);
        __syncthreads();
        const int rest = n - 1 - k;
        for (int m = t; m < rest * rest; m += all) {
            const int i = k + 1 + m / rest, j = k + 1 + m % rest;
            if (j <= i) l[i * W + j] = l[i * W + j] - l[i * W + k] * conjugate(l[j * W + k]);
        }
        __syncthreads();
    }
    for (int k = t; k < n * n; k += all) z[k] = failed ? unknown() : l[k / n * W + k % n];
}
"""

def source(char: str) -> str:
    """The kernels for matrices of a dtype; their text says what each does."""
    return head(char, f"{_EXCHANGE}{_DECOMPOSE}{_KERNELS}")


_EXCHANGE = "template <typename X> __device__ void exchange(X& a, X& b) { const X held = a; a = b; b = held; }\n"


_kernel = kernels(source)


def _planned(A: Array) -> tuple[int, int, tuple[int, int, int]] | None:
    """The number of matrices, their size and the strides; None where no kernel serves them, as of matrices that are not square."""
    rows, n = A.shape[-2:]
    if rows != n or not 0 < n <= WIDEST or not 0 < A.size <= MOST or A.dtype.char not in REAL or (strides := steps(A)) is None:
        return None
    return A.size // (n * n), n, strides


def _run(name: str, A: Array, blocks: int, columns: int, *values: Any) -> bool:
    """Launch a kernel with a block for each matrix, of a warp where that is enough."""
    n = A.shape[-1]
    threads, shared = 32 if columns <= 32 and n <= 8 else 128, n * (n | 1) * A.itemsize + 4 * (2 * n + 3)
    return _kernel(name, A.dtype.char).run(A.data.device_id, blocks * threads, threads, A.data.ptr, *values, shared=shared)


def inverted(A: Array) -> Array | None:
    """The inverse; not finite where A is singular; None where no kernel serves it."""
    if (plan := _planned(A)) is None:
        return None
    blocks, n, strides = plan
    out = type(A)(A.shape, A.dtype)
    return out if _run("solve", A, blocks, n, 0, out.data.ptr, n, n, *strides, 0, 0, 0, 0, 0, 0, 0, 0) else None


def solved(A: Array, B: Sequence[Array], left: bool, vector: bool) -> Array | None:
    """The solution of A X = B, or of X A = B, in one dtype; not finite where A is singular.

    Args:
        B: a list of one. vector: whether it holds vectors, for which A stands on the left.
    Returns: None where no kernel serves it.
    """
    right = B[0][..., None] if vector else B[0]
    if A.dtype != right.dtype:
        return None
    A, right = stacks_alike(A, right, left)
    if (plan := _planned(A)) is None or not 0 < right.size <= MOST or (others := steps(right)) is None:
        return None
    blocks, n, strides = plan
    out, count = type(A)(right.shape[:-1] if vector else right.shape, A.dtype), right.shape[-1]
    if not _run("solve", A, blocks, count, right.data.ptr, out.data.ptr, n, count, *strides, *others, 0, 0, 0, 0, 0):
        return None
    return out if left else out.mT


def solved_slopes(g: Array, A: Array, X: Array | None, left: bool, vector: bool) -> list[Array] | None:
    """The gradients of A and B, in their common batch shape, for that of the solution X, which has g's shape; None as for ``solved``."""
    if X is None or type(X) is not type(g) or g.dtype != A.dtype or X.dtype != A.dtype or not 0 < g.size <= MOST:
        return None
    right, solution = (g[..., None], X[..., None]) if vector else (g, X)
    A, right = stacks_alike(A, right, left)
    solution = solution if left else solution.mT
    if (plan := _planned(A.mT)) is None or (others := steps(right)) is None or (apart := steps(solution)) is None:
        return None
    blocks, n, strides = plan
    by_A, by_B, count = type(A)(A.shape, A.dtype), type(A)(right.shape[:-1] if vector else right.shape, A.dtype), right.shape[-1]
    values = (right.data.ptr, by_B.data.ptr, n, count, *strides, *others, solution.data.ptr, by_A.data.ptr, *apart)
    if not _run("solve", A, blocks, max(count, n), *values):
        return None
    return [by_A, by_B] if left else [by_A.mT, by_B.mT]


def logarithm_slope(g: Any, A: Array) -> Array | None:
    """The gradient of A for those, real, of the logarithms of the sizes of the determinants; None where no kernel serves it."""
    if (plan := _planned(A)) is None or A.dtype.char.lower() != g.dtype.char or (one := is_one(g, plan[0])) is None:
        return None
    if g.data.device_id != A.data.device_id:
        return None
    out = type(A)(A.shape, A.dtype)
    return out if _run("log_slope", A, plan[0], plan[1], g.data.ptr, one, out.data.ptr, plan[1], *plan[2]) else None


def determinants(A: Array) -> Array | None:
    """The determinants of square matrices; None where no kernel serves them."""
    if (plan := _planned(A)) is None:
        return None
    out = type(A)(A.shape[:-2], A.dtype)
    return out if _run("det", A, plan[0], 1, out.data.ptr, plan[1], *plan[2]) else None


def signs_and_logarithms(A: Array) -> tuple[Array, Array] | None:
    """The sign of each determinant and the logarithm of its size; None where no kernel serves them."""
    if (plan := _planned(A)) is None:
        return None
    signs, sizes = type(A)(A.shape[:-2], A.dtype), type(A)(A.shape[:-2], A.dtype.char.lower())
    return (signs, sizes) if _run("slogdet", A, plan[0], 1, signs.data.ptr, sizes.data.ptr, plan[1], *plan[2]) else None


def _of_shape(name: str, A: Array) -> Array | None:
    if (plan := _planned(A)) is None:
        return None
    out = type(A)(A.shape, A.dtype)
    return out if _run(name, A, plan[0], 1, out.data.ptr, plan[1], *plan[2]) else None


def cofactors(A: Array) -> Array | None:
    """det(A) A^-T of square matrices, which singular ones have too; NaN of what is not finite; None where no kernel serves them."""
    return _of_shape("cofactors", A)


def cholesky(A: Array) -> Array | None:
    """The lower triangular factors, NaN for matrices that are not positive definite; None where no kernel serves them."""
    return _of_shape("cholesky", A)
