"""Kernels of gradlib's own for small matrices: triangles and triangular systems; and around CuPy's decompositions, which matrices are
finite, and what becomes of the others.

Asked of CuPy's functions these take up to seven launches each. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, broadcast_to
from gradlib.backend.kernel_text import MOST, THREADS
from gradlib.backend.launching import kernels
from gradlib.backend.matrix_text import REAL, head

LARGEST = 4096
"""The most elements of a matrix, which a warp goes through."""

WIDEST = 64
"""The most rows of a triangle, which one thread goes through for each column of the right-hand side."""

NUMBERS = (int, float, np.floating)
_PARTS = {None: 0, "L": 1, "U": 2}


_KERNELS = """
// A copy of each matrix, of its lower (part is 1) or upper (2) triangle, or of all (0); the identity where what is copied is not finite.
// A warp takes a matrix, and writes into ``broken`` whether that is so.
extern "C" __global__ void gradlib_finite(const T* x, T* z, bool* broken, unsigned rows, unsigned columns, unsigned part, unsigned n) {
    const unsigned matrix = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, size = rows * columns;
    if (matrix >= n) return;
    x += matrix * size;
    z += matrix * size;
    auto is_read = [&](unsigned k) { return !part || (part == 1 ? k % columns <= k / columns : k % columns >= k / columns); };
    int bad = 0;
    for (unsigned k = lane; k < size; k += 32) bad |= is_read(k) && !is_finite(x[k]);
    for (int bits = 16; bits; bits /= 2) bad |= __shfl_xor_sync(0xffffffffu, bad, bits);
    for (unsigned k = lane; k < size; k += 32)
        z[k] = bad ? number(k % columns == k / columns) : is_read(k) ? x[k] : number(0);
    if (lane == 0) broken[matrix] = bad;
}

// NaN in up to three arrays, of ``a_size`` and so on numbers for each matrix, where that is broken.
extern "C" __global__ void gradlib_spoil(const bool* broken, R* a, R* b, R* c, unsigned a_size, unsigned b_size, unsigned c_size,
    unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, each = a_size + b_size + c_size;
    if (i >= n || !broken[i / each]) return;
    const unsigned matrix = i / each, k = i % each;
    if (k < a_size) a[matrix * a_size + k] = NAN_;
    else if (k < a_size + b_size) b[matrix * b_size + k - a_size] = NAN_;
    else c[matrix * c_size + k - a_size - b_size] = NAN_;
}

// V diag(1 / s), where the s up to max(atol, rtol * the largest) count as infinite, and NaN where the matrix was broken, for which the s
// become NaN too. The s are in order, of either sign. V is read by its strides, and conjugated where ``turned``.
extern "C" __global__ void gradlib_scaled(const bool* broken, const T* V, R* s, T* z, double atol, double rtol, unsigned rows,
    unsigned count, int by_matrix, int by_row, int by_column, unsigned turned, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned matrix = i / (rows * count), row = i / count % rows, column = i % count;
    R* const own = s + matrix * count;
    R r = NAN_;
    if (!broken[matrix]) {
        const R size = fabs(own[column]), largest = fmax(fabs(own[0]), fabs(own[count - 1]));
        r = size > fmax(atol, rtol * largest) ? 1 / own[column] : 0;
    } else if (row == 0) {
        own[column] = NAN_;
    }
    const T v = V[(int)matrix * by_matrix + (int)row * by_row + (int)column * by_column];
    z[i] = scaled(turned ? conjugate(v) : v, r);
}

// The solution of A Z = B by substitution, A and B being read by their strides; ``unit``: A has ones on its diagonal.
extern "C" __global__ void gradlib_triangle(const T* A, const T* B, T* z, unsigned rows, unsigned columns, unsigned upper, unsigned unit,
    int A_by_matrix, int A_by_row, int A_by_column, int B_by_matrix, int B_by_row, int B_by_column, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int matrix = i / columns, column = i % columns, count = rows;
    A += matrix * A_by_matrix;
    B += matrix * B_by_matrix + column * B_by_column;
    z += (unsigned long long)matrix * rows * columns + column;
    for (int step = 0; step < count; step++) {
        const int row = upper ? count - 1 - step : step;
        T s = B[row * B_by_row];
        for (int k = upper ? row + 1 : 0; k < (upper ? count : row); k++) s = s - A[row * A_by_row + k * A_by_column] * z[k * columns];
        z[row * columns] = unit ? s : s / A[row * (A_by_row + A_by_column)];
    }
}
"""


def source(char: str) -> str:
    """The kernels for matrices of a dtype; their text says what each does."""
    return head(char, _KERNELS)


_kernel = kernels(source)


_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "ulonglong2"}  # by their number of bytes


def part_source(itemsize: int) -> str:
    """The kernel that copies one side of a diagonal, with it, of each matrix; of whatever elements of a size."""
    return f"""typedef {_BITS[itemsize]} T;
extern "C" __global__ void gradlib_part(const T* x, T* z, int rows, int columns, int diagonal, unsigned upper, int by_matrix, int by_row,
    int by_column, unsigned n) {{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
    const bool stays = upper ? column - row >= diagonal : column - row <= diagonal;
    z[i] = stays ? x[matrix * by_matrix + row * by_row + column * by_column] : T();
}}
"""


_part = kernels(part_source)


def part_of_matrices(A: Array, diagonal: int, upper: bool) -> Array | None:
    """The upper or the lower triangle of each matrix from a diagonal on, zeros elsewhere; None where no kernel serves it."""
    shape, itemsize = A.shape, A.itemsize
    if not 0 < (n := A.size) <= MOST or itemsize not in _BITS or abs(diagonal) > MOST or (strides := steps(A)) is None:
        return None
    out, data = type(A)(shape, A.dtype), A.data
    values = (data.ptr, out.data.ptr, shape[-2], shape[-1], diagonal, upper, *strides, n)
    return out if _part("part", itemsize).run(data.device_id, n, THREADS, *values) else None


def finite_or_identity(A: Array, part: str | None) -> tuple[Array, Array] | None:
    """Copies of the matrices, or of their triangle "L" or "U", but identities where there is inf or NaN; and where those are.

    Returns: None where no kernel serves them.
    """
    shape = A.shape
    size = shape[-2] * shape[-1]
    if not 0 < size <= LARGEST or not 0 < (n := A.size // size) * 32 <= MOST or A.dtype.char not in REAL:
        return None
    if not A._c_contiguous:
        A = A.copy()
    made, data = type(A), A.data
    out, broken = made(shape, A.dtype), made(shape[:-2], bool)
    values = (data.ptr, out.data.ptr, broken.data.ptr, shape[-2], shape[-1], _PARTS[part], n)
    return (out, broken) if _kernel("finite", A.dtype.char).run(data.device_id, n * 32, THREADS, *values) else None


def spoil(broken: Array, *results: Array) -> bool:
    """Write NaN over what was computed from broken matrices: up to three arrays (..., k) or (..., m, k). Returns: whether it did."""
    if not (count := broken.size) or len(results) > 3:
        return False
    pointers, sizes = [], []
    for x in results:
        if not x._c_contiguous and not (x.ndim == broken.ndim + 2 and x.mT._c_contiguous):  # each matrix by rows or by columns
            return False
        pointers.append(x.data.ptr)
        sizes.append(x.size // count * (2 if x.dtype.kind == "c" else 1))
    if not 0 < (n := count * sum(sizes)) <= MOST:
        return False
    rest, kernel = (0,) * (3 - len(sizes)), _kernel("spoil", results[0].dtype.char.lower())
    return kernel.run(broken.data.device_id, n, THREADS, broken.data.ptr, *pointers, *rest, *sizes, *rest, n)


def steps(x: Array) -> tuple[int, int, int] | None:
    """How many elements apart two matrices, rows and columns lie; None where that is not the same for all, or a place may exceed an int."""
    *outer, by_row, by_column = x.strides
    for d in range(len(outer) - 1):
        if outer[d] != outer[d + 1] * x.shape[d + 1]:
            return None
    if sum(map(operator.mul, map(abs, x.strides), x.shape)) >= x.itemsize << 31:
        return None
    itemsize = x.itemsize
    return (outer[-1] if outer else 0) // itemsize, by_row // itemsize, by_column // itemsize


def scaled_by_reciprocals(V: Array, s: Array, broken: Array, atol: Any, rtol: Any, conjugated: bool) -> Array | None:
    """V diag(1 / s) of matrices V (..., m, k) whose s (..., k), in order, exceed max(atol, rtol * the largest); zero in other columns.

    Args:
        broken: for which matrices the result, and what is in ``s``, become NaN. conjugated: take V's conjugate.
    Returns: None where no kernel serves it, as of tolerances that are arrays.
    """
    n, (rows, count) = V.size, V.shape[-2:]
    if not 0 < n <= MOST or not s._c_contiguous or V.dtype.char not in REAL or (strides := steps(V)) is None:
        return None
    if not isinstance(atol, NUMBERS) or not isinstance(rtol, NUMBERS):
        return None
    out, data = type(V)(V.shape, V.dtype), V.data
    values = (broken.data.ptr, data.ptr, s.data.ptr, out.data.ptr, atol, rtol, rows, count, *strides, conjugated, n)
    return out if _kernel("scaled", V.dtype.char).run(data.device_id, n, THREADS, *values) else None


def stacks_alike(A: Array, B: Array, left: bool = True) -> tuple[Array, Array]:
    """Matrices A and B in their common batch shape, those of each as far apart from one another: views where they can be.

    Args:
        left: that they stand as in A X = B; if not they are transposed, since X A = B is that of the transposed matrices.
    Raises: ValueError where the batches do not broadcast.
    """
    if not left:
        A, B = A.mT, B.mT
    if A.shape[:-2] == B.shape[:-2]:
        return A, B
    batch, made = np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), list[Array]()
    for x in (A, B):
        if x.shape[:-2] != batch:
            rows, columns = x.shape[-2:]
            alone = x.size == rows * columns
            x = broadcast_to(x, (*batch, rows, columns))
            x = x if alone else x.copy()
        made.append(x)
    return made[0], made[1]


def triangle_solved(A: Array, B: Sequence[Array], upper: bool, unit: bool, left: bool) -> Array | None:
    """The solution of A X = B, or of X A = B, for triangles A, of which the rest is not read; ``unit``: of diagonal ones.

    Args:
        B: a list of one, of the dtype of A.
    Returns: None where no kernel serves it.
    """
    if A.dtype != B[0].dtype or A.dtype.char not in REAL:
        return None
    A, right = stacks_alike(A, B[0], left)
    rows, columns = right.shape[-2:]
    if not 0 < right.size <= MOST or rows > WIDEST or (A_steps := steps(A)) is None or (B_steps := steps(right)) is None:
        return None
    out, data = type(A)(right.shape, A.dtype), right.data
    n = right.size // rows
    values = (A.data.ptr, data.ptr, out.data.ptr, rows, columns, bool(upper) == bool(left), bool(unit), *A_steps, *B_steps, n)
    if not _kernel("triangle", A.dtype.char).run(data.device_id, n, THREADS, *values):
        return None
    return out if left else out.mT
