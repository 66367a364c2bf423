"""Kernels of gradlib's own for the derivatives of decompositions of small matrices, each in one launch.

The formulas are those of `gradlib.ops.linalg`, whose operators take up to thirty launches; a block works through one for one matrix, with
what lies between in shared memory. As in `gradlib.backend.pointwise`, every other call is theirs.
"""

from __future__ import annotations

import operator
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST
from gradlib.backend.launching import kernels
from gradlib.backend.matrices import WIDEST as TALLEST, stacks_alike
from gradlib.backend.matrix_text import REAL, head
from gradlib.backend.singular import SHARED, WIDEST

_KERNELS = """
// Operands in any order, of as many matrices or lines as there are blocks.
struct View { const T* at; int by_matrix, by_row, by_column; };
struct Line { const R* at; int by_matrix, by_step; };
__device__ T of(View x, int i, int j) { return x.at[(int)blockIdx.x * x.by_matrix + i * x.by_row + j * x.by_column]; }
__device__ R of(Line x, int i) { return x.at[(int)blockIdx.x * x.by_matrix + i * x.by_step]; }

struct Held {  // a matrix in shared memory, its rows an odd number apart, so that a column lies in different banks
    T* at;
    int apart;
    __device__ T& operator()(int i, int j) const { return at[i * apart + j]; }
};
__device__ Held held(T*& memory, int rows, int columns) {
    const Held made = {memory, columns | 1};
    memory += rows * made.apart;
    return made;
}

// What is done for each element, by all threads, before any goes on.
template <typename F> __device__ void each(int rows, int columns, F what) {
    for (int k = threadIdx.x; k < rows * columns; k += blockDim.x) what(k / columns, k % columns);
    __syncthreads();
}
template <typename F> __device__ T sum(int count, F of_each) {
    T made = number(0);
    for (int l = 0; l < count; l++) made = made + of_each(l);
    return made;
}

// V (diag(g values) + skew(V^H g vectors) / (l_j - l_i) off the diagonal) V^H
extern "C" __global__ void gradlib_eigh_slope(View V, Line values, Line g_values, View g, T* z, int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held M = held(room, n, n), C = held(room, n, n);
    z += (long long)blockIdx.x * n * n;
    if (g.at) each(n, n, [&](int i, int j) { M(i, j) = sum(n, [&](int l) { return conjugate(of(V, l, i)) * of(g, l, j); }); });
    each(n, n, [&](int i, int j) {
        if (i == j) C(i, j) = number(g_values.at ? of(g_values, i) : 0);
        else C(i, j) = g.at ? scaled(M(i, j) - conjugate(M(j, i)), R(0.5) / (of(values, j) - of(values, i))) : number(0);
    });
    each(n, n, [&](int i, int j) { M(i, j) = sum(n, [&](int l) { return C(i, l) * conjugate(of(V, j, l)); }); });
    each(n, n, [&](int i, int j) { z[i * n + j] = sum(n, [&](int l) { return of(V, i, l) * M(l, j); }); });
}

// Townsend's formula for U (m, k), S and Vh (k, n), of real matrices; of complex ones where there is only the gradient of S.
extern "C" __global__ void gradlib_svd_slope(View U, Line S, View Vh, View gU, Line gS, View gVh, T* z, int m, int n, int k) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held E = held(room, k, k), F = held(room, k, k), C = held(room, k, k), X = held(room, k, n);
    const bool tall = m > k && gU.at, wide = n > k && gVh.at;
    z += (long long)blockIdx.x * m * n;
    each(k, k, [&](int i, int j) {
        E(i, j) = sum(gU.at ? m : 0, [&](int l) { return conjugate(of(U, l, i)) * of(gU, l, j); });
        F(i, j) = sum(gVh.at ? n : 0, [&](int l) { return of(gVh, i, l) * conjugate(of(Vh, j, l)); });
    });
    each(k, k, [&](int i, int j) {
        const R s = of(S, i), r = of(S, j);
        T x = number(i == j && gS.at ? of(gS, i) : 0);
        if (i != j && (gU.at || gVh.at)) x = scaled(scaled(E(i, j) - E(j, i), r) + scaled(F(j, i) - F(i, j), s), 1 / ((r - s) * (r + s)));
        if (tall) x = x - scaled(E(i, j), 1 / r);
        if (wide) x = x - scaled(F(i, j), 1 / s);
        C(i, j) = x;
    });
    each(k, n, [&](int i, int j) {
        X(i, j) = sum(k, [&](int l) { return C(i, l) * of(Vh, l, j); });
        if (wide) X(i, j) = X(i, j) + scaled(of(gVh, i, j), 1 / of(S, i));
    });
    each(m, n, [&](int i, int j) {
        z[i * n + j] = sum(k, [&](int l) {
            const T x = of(U, i, l) * X(l, j);
            return tall ? x + scaled(of(gU, i, l), 1 / of(S, l)) * of(Vh, l, j) : x;
        });
    });
}

// (gQ + Q sym(triu(gU U^H - Q^H gQ))) U^-H for Q (m, k) and the triangle U, k of whose n columns count; what the others tell of Q first.
extern "C" __global__ void gradlib_qr_slope(View Q, View U, View gQ, View gU, T* z, int m, int n, int k) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held M = held(room, k, k), C = held(room, k, k), G = held(room, m, k);
    z += (long long)blockIdx.x * m * n;
    each(k, k, [&](int i, int j) {
        C(i, j) = sum(gU.at ? n - k : 0, [&](int l) { return of(U, i, k + l) * conjugate(of(gU, j, k + l)); });
        const T by_columns = sum(gQ.at ? m : 0, [&](int l) { return conjugate(of(Q, l, i)) * of(gQ, l, j); });
        M(i, j) = sum(gU.at ? k : 0, [&](int l) { return of(gU, i, l) * conjugate(of(U, j, l)); }) - by_columns - C(i, j);
    });
    each(k, k, [&](int i, int j) { C(i, j) = C(i, j) + (i < j ? M(i, j) : i > j ? conjugate(M(j, i)) : number(real(M(i, i)))); });
    each(m, k, [&](int i, int j) {
        const T x = sum(k, [&](int l) { return of(Q, i, l) * C(l, j); });
        G(i, j) = gQ.at ? x + of(gQ, i, j) : x;
    });
    each(m, 1, [&](int i, int) {
        for (int j = k - 1; j >= 0; j--) {
            T x = G(i, j);
            for (int l = j + 1; l < k; l++) x = x - G(i, l) * conjugate(of(U, j, l));
            G(i, j) = x / conjugate(of(U, j, j));
        }
    });
    each(m, n, [&](int i, int j) {
        z[i * n + j] = j < k ? G(i, j) : sum(gU.at ? k : 0, [&](int l) { return of(Q, i, l) * of(gU, l, j); });
    });
}

// L^-H (the lower triangle of L^H g, made Hermitian) L^-1
extern "C" __global__ void gradlib_cholesky_slope(View L, View g, T* z, int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held H = held(room, n, n);
    z += (long long)blockIdx.x * n * n;
    each(n, n, [&](int i, int j) {
        if (i < j) return;
        const T x = scaled(sum(n - i, [&](int l) { return conjugate(of(L, i + l, i)) * of(g, i + l, j); }), R(0.5));
        H(j, i) = conjugate(x);
        H(i, j) = x;
    });
    each(n, 1, [&](int c, int) {
        for (int i = n - 1; i >= 0; i--) {
            T x = H(i, c);
            for (int l = i + 1; l < n; l++) x = x - conjugate(of(L, l, i)) * H(l, c);
            H(i, c) = x / conjugate(of(L, i, i));
        }
    });
    each(n, 1, [&](int r, int) {
        for (int j = n - 1; j >= 0; j--) {
            T x = H(r, j);
            for (int l = j + 1; l < n; l++) x = x - H(r, l) * of(L, l, j);
            H(r, j) = x / of(L, j, j);
        }
    });
    each(n, n, [&](int i, int j) { z[i * n + j] = H(i, j); });
}

// Golub's and Pereyra's formula for A of m rows, no fewer than its n columns, and its pseudoinverse P; ``turned``: for their conjugate
// transposes, as those of a wide matrix are. With B = g^H, K = P B and Z = P P^H it is -(K P)^H + (B - A K) Z + P^H (K - K P A).
extern "C" __global__ void gradlib_pinv_slope(View A, View P, View g, T* z, int m, int n, int turned) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held K = held(room, n, n), Z = held(room, n, n), Y = held(room, n, n), W = held(room, n, n), E = held(room, n, n);
    auto read = [&](View x, int i, int j) { return turned ? conjugate(of(x, j, i)) : of(x, i, j); };
    z += (long long)blockIdx.x * m * n;
    each(n, n, [&](int i, int j) {
        K(i, j) = sum(m, [&](int l) { return read(P, i, l) * conjugate(read(g, j, l)); });
        Z(i, j) = sum(m, [&](int l) { return read(P, i, l) * conjugate(read(P, j, l)); });
        Y(i, j) = sum(m, [&](int l) { return read(P, i, l) * read(A, l, j); });
    });
    each(n, n, [&](int i, int j) {
        W(i, j) = sum(n, [&](int l) { return K(i, l) * Z(l, j); });
        E(i, j) = K(i, j) - conjugate(K(j, i)) - sum(n, [&](int l) { return K(i, l) * Y(l, j); });
    });
    each(turned ? n : m, turned ? m : n, [&](int row, int column) {
        const int i = turned ? column : row, j = turned ? row : column;
        const T x = sum(n, [&](int l) {
            return conjugate(read(g, l, i)) * Z(l, j) - read(A, i, l) * W(l, j) + conjugate(read(P, l, i)) * E(l, j);
        });
        z[row * (turned ? m : n) + column] = turned ? conjugate(x) : x;
    });
}

// That of X = P B, of c columns, by A (m, n): -P^H g X^H + (B - A X) (P P^H g)^H + P^H X (g - P A g)^H
extern "C" __global__ void gradlib_fit_slope(View A, View B, View X, View P, View g, T* z, int m, int n, int c) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held back = held(room, m, c), left = held(room, m, c), met = held(room, m, c), there = held(room, m, c);
    const Held turned = held(room, n, c), beyond = held(room, n, c);
    z += (long long)blockIdx.x * m * n;
    each(m, c, [&](int i, int j) {
        back(i, j) = sum(n, [&](int l) { return conjugate(of(P, l, i)) * of(g, l, j); });
        left(i, j) = of(B, i, j) - sum(n, [&](int l) { return of(A, i, l) * of(X, l, j); });
        met(i, j) = sum(n, [&](int l) { return conjugate(of(P, l, i)) * of(X, l, j); });
        there(i, j) = sum(n, [&](int l) { return of(A, i, l) * of(g, l, j); });
    });
    each(n, c, [&](int i, int j) {
        turned(i, j) = sum(m, [&](int l) { return of(P, i, l) * back(l, j); });
        beyond(i, j) = of(g, i, j) - sum(m, [&](int l) { return of(P, i, l) * there(l, j); });
    });
    each(m, n, [&](int i, int j) {
        z[i * n + j] = sum(c, [&](int l) {
            return left(i, l) * conjugate(turned(j, l)) - back(i, l) * conjugate(of(X, j, l)) + met(i, l) * conjugate(beyond(j, l));
        });
    });
}

// -P^T g P^T
extern "C" __global__ void gradlib_inverse_slope(View P, View g, T* z, int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* room = (T*)memory;
    const Held M = held(room, n, n);
    z += (long long)blockIdx.x * n * n;
    each(n, n, [&](int i, int j) { M(i, j) = sum(n, [&](int l) { return of(g, i, l) * of(P, j, l); }); });
    each(n, n, [&](int i, int j) { z[i * n + j] = number(0) - sum(n, [&](int l) { return of(P, l, i) * M(l, j); }); });
}

// W of A^T W = g by substitution, for a triangle A, and that triangle of -W X^T; ``unit``: A has ones on its diagonal.
extern "C" __global__ void gradlib_triangle_slope(View A, View g, View X, T* z, T* w, int n, int c, int upper, int unit) {
    z += (long long)blockIdx.x * n * n;
    w += (long long)blockIdx.x * n * c;
    for (int k = threadIdx.x; k < c; k += blockDim.x)
        for (int m = 0; m < n; m++) {
            const int i = upper ? m : n - 1 - m;
            T s = of(g, i, k);
            for (int l = upper ? 0 : i + 1; l < (upper ? i : n); l++) s = s - of(A, l, i) * w[l * c + k];
            w[i * c + k] = unit ? s : s / of(A, i, i);
        }
    __syncthreads();
    each(n, n, [&](int i, int j) {
        const bool inside = unit ? (upper ? j > i : j < i) : (upper ? j >= i : j <= i);
        z[i * n + j] = inside ? number(0) - sum(c, [&](int l) { return w[i * c + l] * of(X, j, l); }) : number(0);
    });
}
"""


def source(char: str) -> str:
    """The kernels for matrices of a dtype; their text says what each does."""
    return head(char, _KERNELS)


_kernel = kernels(source)


def _add(values: list[int], x: Any, like: Array, dims: int) -> bool:
    """Add where an operand on the device of ``like`` lies, and how many elements apart its matrices (or lines) are and what is in them.

    Returns: False where that is not the same for all of them, or a place may exceed an int.
    """
    if type(x) is not type(like) or x.dtype.char != (like.dtype.char if dims == 2 else like.dtype.char.lower()):
        return False
    shape, strides, itemsize, memory = x.shape, x.strides, x.itemsize, x.data
    outer = strides[:-dims]
    for d in range(len(outer) - 1):
        if outer[d] != outer[d + 1] * shape[d + 1]:
            return False
    if memory.device_id != like.data.device_id or sum(map(operator.mul, map(abs, strides), shape)) >= itemsize << 31:
        return False
    apart = outer[-1] // itemsize if outer else 0
    values += (memory.ptr, apart, strides[-1] // itemsize) if dims == 1 else (
        memory.ptr, apart, strides[-2] // itemsize, strides[-1] // itemsize,
    )  # fmt: skip
    return True


def _slope(
    name: str, like: Array, shape: tuple[int, ...], numbers: int, operands: tuple[tuple[Any, int], ...], *sizes: int,
    more: Array | None = None,
) -> Array | None:  # fmt: skip
    """Launch a kernel whose result has this shape with so many numbers in shared memory.

    Args:
        operands: with their dimensions. more: an array for a second result.
    """
    char, shared = like.dtype.char, numbers * like.itemsize
    out = type(like)(shape, char)
    if shared > SHARED or not 0 < (n := out.size) <= MOST or char not in REAL:
        return None
    values: list[int] = []
    for x, dims in operands:
        if x is None:
            values += (0,) * (dims + 2)
        elif not _add(values, x, like, dims):
            return None
    each = shape[-1] * shape[-2]
    threads = 32 if each <= 64 else 128
    outs = (out.data.ptr,) if more is None else (out.data.ptr, more.data.ptr)
    run = _kernel(name, char).run(like.data.device_id, n // each * threads, threads, *values, *outs, *sizes, shared=shared)
    return out if run else None


def eigh_slope(g: Any, eigenvalues: Array, eigenvectors: Array) -> Array | None:
    """The gradient of Hermitian matrices; of complex ones, whose vectors have phases, only where there is none for these."""
    n, (g_values, g_vectors) = eigenvectors.shape[-1], g
    if n > WIDEST or (g_vectors is not None and eigenvectors.dtype.kind == "c"):
        return None
    operands = ((eigenvectors, 2), (eigenvalues, 1), (g_values, 1), (g_vectors, 2))
    return _slope("eigh_slope", eigenvectors, eigenvectors.shape, 2 * n * (n | 1), operands, n)


def svd_slope(g: Any, U: Array, S: Array, Vh: Array) -> Array | None:
    """The gradient of matrices; of complex ones, whose vectors have phases, only where there is none for these."""
    m, n, k, (gU, gS, gVh) = U.shape[-2], Vh.shape[-1], S.shape[-1], g
    if k > WIDEST or (U.dtype.kind == "c" and (gU is not None or gVh is not None)):
        return None
    operands = ((U, 2), (S, 1), (Vh, 2), (gU, 2), (gS, 1), (gVh, 2))
    return _slope("svd_slope", U, (*S.shape[:-1], m, n), 3 * k * (k | 1) + k * (n | 1), operands, m, n, k)


def qr_slope(g: Any, Q: Array, R: Array) -> Array | None:
    """The gradient of matrices whose factors are these."""
    (m, k), n, (gQ, gR) = Q.shape[-2:], R.shape[-1], g
    if k > WIDEST:
        return None
    operands = ((Q, 2), (R, 2), (gQ, 2), (gR, 2))
    return _slope("qr_slope", Q, (*Q.shape[:-1], n), (2 * k + m) * (k | 1), operands, m, n, k)


def cholesky_slope(g: Any, out: Array) -> Array | None:
    """The gradient of positive definite matrices whose factor is this."""
    n = out.shape[-1]
    return None if n > WIDEST else _slope("cholesky_slope", out, out.shape, n * (n | 1), ((out, 2), (g, 2)), n)


def inverse_slope(g: Any, out: Array) -> Array | None:
    """The gradient of matrices whose inverse is this."""
    n = out.shape[-1]
    return None if n > WIDEST else _slope("inverse_slope", out, out.shape, n * (n | 1), ((out, 2), (g, 2)), n)


def triangle_slopes(g: Any, A: Array, out: Any, upper: bool, unit: bool, left: bool) -> list[Array] | None:
    """The gradients of triangles and of what was on the right, in their common batch shape, by the solution."""
    if out is None or type(out) is not type(A) or type(g) is not type(A) or not 0 < out.size <= MOST or A.shape[-1] > TALLEST:
        return None
    A, g = stacks_alike(A, g, left)
    out = out if left else out.mT
    n, c = out.shape[-2:]
    by_right = type(A)(out.shape, A.dtype)
    sizes = n, c, bool(upper) == bool(left), bool(unit)
    made = _slope("triangle_slope", A, A.shape, 0, ((A, 2), (g, 2), (out, 2)), *sizes, more=by_right)
    return None if made is None else [made, by_right] if left else [made.mT, by_right.mT]


def pinv_slope(g: Any, A: Array, out: Array) -> Array | None:
    """The gradient of matrices whose pseudoinverse is this."""
    m, n = A.shape[-2:]
    k = min(m, n)
    if k > WIDEST:
        return None
    return _slope("pinv_slope", A, A.shape, 5 * k * (k | 1), ((A, 2), (out, 2), (g, 2)), max(m, n), k, m < n)


def fit_slope(g: Any, A: Array, B: Array, solution: Array, inverse: Array, vector: bool) -> Array | None:
    """The gradient of the matrices of a least squares problem, where there is none but for its solution, of as many right sides."""
    gX, g_residuals, _, _, g_inverse = g
    m, n = A.shape[-2:]
    if gX is None or g_residuals is not None or g_inverse is not None or min(m, n) > WIDEST:
        return None
    if vector:
        B, solution, gX = B[..., None], solution[..., None], gX[..., None]
    if not A.shape[:-2] == B.shape[:-2] == gX.shape[:-2]:
        return None
    c = B.shape[-1]
    operands = ((A, 2), (B, 2), (solution, 2), (inverse, 2), (gX, 2))
    return _slope("fit_slope", A, A.shape, (4 * m + 2 * n) * (c | 1), operands, m, n, c)
