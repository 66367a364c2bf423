"""Kernels of gradlib's own for small matrices: triangles and triangular systems; and around CuPy's decompositions, which matrices are
finite, and what becomes of the others.

Asked of CuPy's functions these take up to seven launches each. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import MOST, THREADS
from gradlib.backend.launching import kernels

LARGEST = 4096
"""The most elements of a matrix, which a warp goes through."""

WIDEST = 64
"""The most rows of a triangle, which one thread goes through for each column of the right-hand side."""

REAL = {"f": "float", "d": "double", "F": "float", "D": "double"}
NUMBERS = (int, float, np.floating)
_PARTS = {None: 0, "L": 1, "U": 2}


COMPLEX = """
__device__ PAIR operator+(PAIR a, PAIR b) { return make_PAIR(a.x + b.x, a.y + b.y); }
__device__ PAIR operator-(PAIR a, PAIR b) { return make_PAIR(a.x - b.x, a.y - b.y); }
__device__ PAIR operator*(PAIR a, PAIR b) { return make_PAIR(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ PAIR operator/(PAIR a, PAIR b) {  // by the larger part of b, so that its square may overflow
    const bool turned = fabs(b.x) < fabs(b.y);
    const REAL r = turned ? b.x / b.y : b.y / b.x, size = turned ? b.x * r + b.y : b.x + b.y * r;
    return turned ? make_PAIR((a.x * r + a.y) / size, (a.y * r - a.x) / size) : make_PAIR((a.x + a.y * r) / size, (a.y - a.x * r) / size);
}
"""


def source(char: str) -> str:
    """The kernels for matrices of a dtype.

    ``finite``: a copy of each matrix, of its lower (``part`` is 1) or upper (2) triangle, or of all (0); the identity where what is copied
    is not finite. ``broken`` has where.

    ``spoil``: NaN in up to three arrays, of ``a_size`` and so on numbers for each matrix, where that is broken.

    ``scaled``: V diag(1 / s), where the s up to max(atol, rtol * the largest) count as infinite, and NaN where the matrix was broken, for
    which the s become NaN too. The s are in order, of either sign. V is read by its strides, and conjugated where ``turned``.

    ``triangle``: the solution of A Z = B by substitution, A and B being read by their strides; ``unit``: A has ones on its diagonal.
    """
    real, is_complex = REAL[char], char in "FD"
    ctype = f"{real}2" if is_complex else real
    zero, one = (f"make_{ctype}(0, 0)", f"make_{ctype}(1, 0)") if is_complex else (f"{real}(0)", f"{real}(1)")
    finite = "isfinite(x[k].x) && isfinite(x[k].y)" if is_complex else "isfinite(x[k])"
    product = f"make_{ctype}(v.x * r, (turned ? -v.y : v.y) * r)" if is_complex else "v * r"
    nan = "__int_as_float(0x7fc00000)" if real == "float" else "__longlong_as_double(0x7ff8000000000000ll)"
    return (
        f'extern "C" __global__ void gradlib_finite(const {ctype}* x, {ctype}* z, bool* broken, unsigned rows,\n'
        f"    unsigned columns, unsigned part, unsigned n) {{\n"
        f"    const unsigned matrix = (blockIdx.x * {THREADS} + threadIdx.x) / 32, lane = threadIdx.x % 32, size = rows * columns;\n"
        "    if (matrix >= n) return;\n    x += matrix * size;\n    z += matrix * size;\n"
        "    auto is_read = [&](unsigned k) { return !part || (part == 1 ? k % columns <= k / columns : k % columns >= k / columns); };\n"
        f"    int bad = 0;\n    for (unsigned k = lane; k < size; k += 32) bad |= is_read(k) && !({finite});\n"
        "    for (int bits = 16; bits; bits /= 2) bad |= __shfl_xor_sync(0xffffffffu, bad, bits);\n"
        "    for (unsigned k = lane; k < size; k += 32)\n"
        f"        z[k] = bad ? k % columns == k / columns ? {one} : {zero} : is_read(k) ? x[k] : {zero};\n"
        "    if (lane == 0) broken[matrix] = bad;\n}\n"
        f'extern "C" __global__ void gradlib_spoil(const bool* broken, {real}* a, {real}* b, {real}* c, unsigned a_size,\n'
        f"    unsigned b_size, unsigned c_size, unsigned n) {{\n"
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x, each = a_size + b_size + c_size;\n"
        "    if (i >= n || !broken[i / each]) return;\n    const unsigned matrix = i / each, k = i % each;\n"
        "    if (k < a_size) a[matrix * a_size + k] = NAN_;\n    else if (k < a_size + b_size) b[matrix * b_size + k - a_size] = NAN_;\n"
        "    else c[matrix * c_size + k - a_size - b_size] = NAN_;\n}\n"
        f'extern "C" __global__ void gradlib_scaled(const bool* broken, const {ctype}* V, {real}* s, {ctype}* z, double atol,\n'
        "    double rtol, unsigned rows, unsigned count, int by_matrix, int by_row, int by_column, unsigned turned, unsigned n) {\n"
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
        "    const unsigned matrix = i / (rows * count), row = i / count % rows, column = i % count;\n"
        f"    {real}* const own = s + matrix * count;\n    {real} r = NAN_;\n"
        "    if (!broken[matrix]) {\n"
        f"        const {real} size = fabs(own[column]), largest = fmax(fabs(own[0]), fabs(own[count - 1]));\n"
        "        r = size > fmax(atol, rtol * largest) ? 1 / own[column] : 0;\n    } else if (row == 0) own[column] = NAN_;\n"
        f"    const {ctype} v = V[(int)matrix * by_matrix + (int)row * by_row + (int)column * by_column];\n    z[i] = {product};\n}}\n"
        f"{COMPLEX.replace('REAL', real).replace('PAIR', ctype) if is_complex else ''}"
        f'extern "C" __global__ void gradlib_triangle(const {ctype}* A, const {ctype}* B, {ctype}* z, unsigned rows,\n'
        "    unsigned columns, unsigned upper, unsigned unit, int A_by_matrix, int A_by_row, int A_by_column,\n"
        f"    int B_by_matrix, int B_by_row, int B_by_column, unsigned n) {{\n"
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
        "    const int matrix = i / columns, column = i % columns, count = rows;\n"
        "    A += matrix * A_by_matrix;\n    B += matrix * B_by_matrix + column * B_by_column;\n"
        "    z += (unsigned long long)matrix * rows * columns + column;\n"
        "    for (int step = 0; step < count; step++) {\n        const int row = upper ? count - 1 - step : step;\n"
        f"        {ctype} s = B[row * B_by_row];\n        for (int k = upper ? row + 1 : 0; k < (upper ? count : row); k++)\n"
        "            s = s - A[row * A_by_row + k * A_by_column] * z[k * columns];\n"
        "        z[row * columns] = unit ? s : s / A[row * (A_by_row + A_by_column)];\n    }\n}\n"
    ).replace("NAN_", nan)


_kernel = kernels(source)


_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "ulonglong2"}  # by their number of bytes


def part_source(itemsize: int) -> str:
    """The kernel that copies one side of a diagonal, with it, of each matrix; of whatever elements of a size."""
    return (
        f"typedef {_BITS[itemsize]} T;\n"
        'extern "C" __global__ void gradlib_part(const T* x, T* z, int rows, int columns, int diagonal, unsigned upper, int by_matrix,\n'
        "    int by_row, int by_column, unsigned n) {\n"
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
        "    const int column = i % columns, row = i / columns % rows, matrix = i / columns / rows;\n"
        "    const bool stays = upper ? column - row >= diagonal : column - row <= diagonal;\n"
        "    z[i] = stays ? x[matrix * by_matrix + row * by_row + column * by_column] : T();\n}\n"
    )


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


def triangle_solved(A: Array, B: Array, upper: bool, unit: bool) -> Array | None:
    """The solution of A X = B for triangles A, of which the rest is not read, of as many and the dtype of B; ``unit``: of diagonal ones.

    Returns: None where no kernel serves it.
    """
    rows, columns = B.shape[-2:]
    if not 0 < B.size <= MOST or rows > WIDEST or A.dtype != B.dtype or A.dtype.char not in REAL or A.shape[:-2] != B.shape[:-2]:
        return None
    if (A_steps := steps(A)) is None or (B_steps := steps(B)) is None:
        return None
    out, data = type(B)(B.shape, B.dtype), B.data
    n = B.size // rows
    values = (A.data.ptr, data.ptr, out.data.ptr, rows, columns, bool(upper), bool(unit), *A_steps, *B_steps, n)
    return out if _kernel("triangle", B.dtype.char).run(data.device_id, n, THREADS, *values) else None
