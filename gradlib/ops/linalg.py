"""Determinants, inverses, systems of equations and norms of matrices, one or a batch."""

from __future__ import annotations

import itertools
import math
import operator
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import namespace, on_device_of
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.complexes import conj
from gradlib.ops.create import ones_like
from gradlib.ops.decompose import adjoint, diagonal_mask, matrices, nan_of, svd, svdvals, without_broken
from gradlib.ops.dims import wrap_dim
from gradlib.ops.elementwise import abs, clone
from gradlib.ops.equations import inv
from gradlib.ops.extreme import amax, amin
from gradlib.ops.join import cat
from gradlib.ops.moments import vector_norm
from gradlib.ops.product import cross, matmul, one_dtype, vdot
from gradlib.ops.rearrange import flip
from gradlib.ops.reduce import sum as total
from gradlib.ops.scan import cumprod
from gradlib.ops.select import where_op
from gradlib.ops.shape import movedim
from gradlib.ops.slices import diagonal

__all__ = ["det", "matrix_power", "slogdet"]

Slogdet = namedtuple("Slogdet", ["sign", "logabsdet"])


# ---- determinants -------------------------------------------------------------------------------------------------------------------


def _of_others(x: Any) -> Any:
    """For each element along the last dimension, the product of all others, by no division."""
    one = ones_like(x[..., :1])
    before = cumprod(cat([one, x[..., :-1]], -1), -1)
    behind = flip(cumprod(flip(cat([x[..., 1:], one], -1), (-1,)), -1), (-1,))
    return before * behind


def _turned(U: Any, inner: Any, Vh: Any) -> Any:
    """What cofactors, or their derivatives, of U diag(S) Vh are when those of diag(S) are ``inner``."""
    product = U.conj() @ inner @ Vh.conj() if U.dtype.kind == "c" else U @ inner @ Vh
    return (det(U) * det(Vh))[..., None, None] * product


def _cofactors_slope(g: Any, A: Any) -> Any:
    """The second derivative of the determinant: for a diagonal matrix all pairs i, j weighted with the product of the other elements."""
    array = raw(A)
    safe, broken = without_broken(namespace(array), array)
    U, S, Vh = svd(A if broken is None else where_op(broken[..., None, None], safe, A), False)
    mask = diagonal_mask(U)
    pairs = where_op(mask, 0.0, _of_others(where_op(mask, 1.0, S[..., None, :])))
    g = adjoint(U) @ g @ adjoint(Vh)
    on_diagonal = total(pairs * where_op(mask, g, 0.0).sum(-1)[..., None, :], -1)
    made = _turned(U, where_op(mask, on_diagonal[..., None, :], -(pairs * g).mT), Vh)
    return made if broken is None else where_op(broken[..., None, None], math.nan, made)


@op("other", method=False, A=_cofactors_slope)
def cofactors(xp: Any, A: Any) -> Any:
    """The derivative of the determinant by each element, from the singular values: it exists for singular matrices too."""
    safe, broken = without_broken(xp, A)
    U, S, Vh = svd(safe, False)
    made = _turned(U, xp.eye(S.shape[-1], dtype=S.dtype) * _of_others(S)[..., None, :], Vh)
    return made if broken is None else xp.where(broken[..., None, None], nan_of(made.dtype), made)


def _det_slope(g: Any, A: Any, out: Any) -> Any:
    """g times the cofactors: det(A) A^-T, or for matrices that are singular to working precision from their singular values."""
    array, size = raw(A), A.shape[-1]
    if size == 1:
        return g[..., None, None]
    xp = namespace(array)
    identity = xp.eye(size, dtype=array.dtype)
    singular = ((raw(out) == 0) | (raw(out) != raw(out)))[..., None, None]  # of NaN: inv might refuse it, the cofactors are NaN
    safe = where_op(singular, identity, A)
    inverse = inv(safe)
    weight = (g * out)[..., None, None]
    if size:
        condition = xp.abs(raw(safe)).sum(-1).max(-1) * xp.abs(raw(inverse)).sum(-1).max(-1)
        singular = singular | (condition * (10 * size * np.finfo(array.dtype).eps) > 1)[..., None, None]
    if not singular.any():
        return weight * inverse.mT
    distinct = xp.diag(xp.arange(1, size + 1).astype(array.dtype))
    inverse = inv(where_op(singular, identity, A))
    return where_op(singular, g[..., None, None] * cofactors(where_op(singular, A, distinct)), weight * inverse.mT)


@op("other", promote=matrices("det", square=True), A=_det_slope)
def det(xp: Any, A: Any) -> Any:
    """The determinant of square matrices.

    Args:
        A: (..., n, n), float or complex.
    Returns: (...). Its derivative exists everywhere, at singular matrices too.
    Raises: RuntimeError for other shapes and dtypes. Source: torch.linalg.det.
    """
    made = xp.linalg.det(A)
    return made if xp is not np or np.all(made) else xp.where((made == 0) & ~np.isfinite(A).all((-2, -1)), nan_of(made.dtype), made)


def _slogdet_slope(g: Any, A: Any, sign: Any) -> Any:
    """A^-H times the gradient by log|det|, and by the angle of a complex sign; cofactors over zero for singular matrices."""
    by_sign, by_size = g
    weight: Any = 0.0 if by_size is None else by_size
    if by_sign is not None and A.dtype.kind == "c":
        weight = (by_sign.conj() * sign).imag * -1j + weight  # in this order NumPy scalars stay NumPy scalars
    elif by_size is None:
        weight = by_sign * 0
    weight = weight[..., None, None]
    array = raw(A)
    singular = (raw(sign) == 0)[..., None, None]
    if namespace(array) is not np or not singular.any():
        return weight * adjoint(inv(A))
    identity = np.eye(array.shape[-1], dtype=array.dtype)
    distinct = np.diag(np.arange(1, array.shape[-1] + 1).astype(array.dtype))
    conjugated = conj(cofactors(where_op(singular, A, distinct)))
    return weight * where_op(singular, conjugated / 0.0, adjoint(inv(where_op(singular, identity, A))))


@op("other", promote=matrices("slogdet", square=True), outputs=("sign", "logabsdet"), complex="explicit",
    A=_slogdet_slope)  # fmt: skip
def slogdet_op(xp: Any, A: Any) -> Any:
    """Sign and logarithm of the size of the determinant."""
    sign, size = xp.linalg.slogdet(A)
    if xp is np and not np.all(np.isfinite(size)):  # LAPACK takes a pivot of NaN for a zero
        size = np.where((sign == 0) & ~np.isfinite(A).all((-2, -1)), size.dtype.type(math.nan), size)
        sign = np.where(size != size, nan_of(sign.dtype) if sign.dtype.kind == "c" else 0.0, sign)
    return sign, size


@composite
def slogdet(A: Any) -> Any:
    """The sign of the determinant of square matrices and the logarithm of its absolute value, which does not overflow.

    Args:
        A: (..., n, n), float or complex.
    Returns: the named tuple (sign, of modulus 1 or zero; logabsdet, real, -inf for a singular matrix, where there is no derivative).
    Raises: RuntimeError for other shapes and dtypes. Source: torch.linalg.slogdet.
    """
    return Slogdet(*slogdet_op(A))


# ---- norms --------------------------------------------------------------------------------------------------------------------------


def _cast(A: Any, dtype: Any) -> Any:
    if dtype is None:
        return A
    return A.to(dtype) if isinstance(A, Tensor) else A.astype(dtypes.as_dtype(dtype))


@composite(method=False)
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A norm of matrices.

    Args:
        A: (..., m, n), float or complex.
        ord: "fro" (the root of the sum of squares), "nuc" (the sum of singular values), 2 and -2 (the largest and smallest of them), 1 and
            -1 (the largest and smallest sum of a column's absolute values), inf and -inf (of a row's).
        dim: the two dimensions of the matrices.
        keepdim: leave them with size 1.
        dtype: convert to this dtype first.
    Returns: real; at a zero matrix the gradient of "fro" is zero.
    Raises: RuntimeError for another ord and for other shapes and dtypes. Source: torch.linalg.matrix_norm.
    """
    if ord not in ("fro", "nuc", 1, 2, math.inf, -1, -2, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported; there are 'fro', 'nuc', 1, 2, inf, -1, -2 and -inf")
    matrices("matrix_norm", low_precision=ord not in ("nuc", 2, -2))([A])
    if not isinstance(dim, Sequence) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    row, column = (wrap_dim(d, A.ndim) for d in dim)
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {tuple(dim)}")
    A = _cast(A, dtype)
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        S = svdvals(movedim(A, (row, column), (-2, -1)))
        made = total(S, -1) if ord == "nuc" or (ord == 2 and not S.shape[-1]) else amax(S, -1) if ord == 2 else amin(S, -1)
    else:
        summed, left = (row, column) if math.fabs(ord) == 1 else (column, row)
        sums = total(abs(A), summed, True)
        made = (total if ord > 0 and not sums.shape[left] else amax if ord > 0 else amin)(sums, left, True)
        return made if keepdim else made.reshape(tuple(n for d, n in enumerate(made.shape) if d not in (row, column)))
    return made.reshape(tuple(1 if d in (row, column) else n for d, n in enumerate(A.shape))) if keepdim else made


@composite(method=False)
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of vectors or matrices.

    Args:
        A: float or complex.
        ord: as for ``vector_norm`` where there is one dimension, as for ``matrix_norm`` where there are two; None is the root of the sum of
            squares.
        dim: one dimension or two; all when None, for which ord must be None or A a vector or a matrix.
        keepdim, dtype: as for both.
    Raises: RuntimeError for another number of dimensions. Source: torch.linalg.norm.
    """
    if isinstance(dim, Sequence) and len(dim) > 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    count = A.ndim if dim is None else len(dim) if isinstance(dim, Sequence) else 1
    if isinstance(ord, str) or count == 2:
        return matrix_norm(A, ord, (0, 1) if dim is None and A.ndim == 2 else (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype)


# ---- products -----------------------------------------------------------------------------------------------------------------------


@composite
def matrix_power(A: Any, n: int) -> Any:
    """The product of n copies of a square matrix; of its inverse when n is negative.

    Args:
        A: (..., m, m).
        n: any integer; 0 gives identities.
    Raises: RuntimeError for other shapes, LinAlgError (on the CPU) when there is no inverse. Source: torch.linalg.matrix_power.
    """
    exponent = operator.index(n)
    matrices("matrix_power", square=True, low_precision=True, integers=True)([A])
    if exponent == 0:
        xp = namespace(raw(A))
        with on_device_of(raw(A)):
            return where_op(xp.ones((), bool), xp.broadcast_to(xp.eye(A.shape[-1], dtype=A.dtype), A.shape), A)
    square = A if exponent > 0 else inv(A)
    left = exponent if exponent > 0 else -exponent
    result = None
    while left:
        if left & 1:
            result = square if result is None else matmul(result, square)
        left >>= 1
        if left:
            square = matmul(square, square)
    return clone(A) if exponent == 1 else result


@composite(method=False)
def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of several matrices in the order that takes the fewest multiplications.

    Args:
        tensors: at least two matrices of one dtype; the first may be a vector (a row), and so may the last (a column).
    Raises: RuntimeError for shapes that do not meet. Source: torch.linalg.multi_dot.
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    one_dtype("multi_dot", parts)
    for i, x in enumerate(parts):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, len(parts) - 1)):
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D (or 1D at either end) but got {x.ndim}D, shape {list(x.shape)}")
    row, column = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0][None] if row else parts[0]
    parts[-1] = parts[-1][:, None] if column else parts[-1]
    for i, (a, b) in enumerate(itertools.pairwise(parts)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    result = _chain(parts, _splits([parts[0].shape[0], *(x.shape[1] for x in parts)]), 0, len(parts) - 1)
    result = result[0] if row else result
    return result[..., 0] if column else result


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """For each run of matrices i..j, behind which of them its last product splits. Source: the textbook's dynamic programme."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            found = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(found, key=lambda k: found[k])
            cost[i, j] = found[split[i, j]]
    return split


def _chain(parts: list[Any], split: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return parts[i]
    return matmul(_chain(parts, split, i, split[i, j]), _chain(parts, split, split[i, j] + 1, j))


@composite(method=False)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sum over one dimension of the products of elements, the first conjugated.

    Args:
        x, y: float or complex, of one dtype; they broadcast.
        dim: the dimension, of the same size in both.
    Raises: RuntimeError for other dtypes and sizes. Source: torch.linalg.vecdot.
    """
    one_dtype("linalg.vecdot", [x, y])
    if not dtypes.is_differentiable(x.dtype):
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if x.ndim == 1 and y.ndim == 1:
        return vdot(x, y)
    return total(conj(x) * y, dim)


@composite(method=False)
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross products of vectors of three elements along ``dim``; other dimensions broadcast. Source: torch.linalg.cross."""
    return cross(input, other, dim)


@composite(method=False)
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as a view; ``offset`` above the main one. Source: torch.linalg.diagonal."""
    return diagonal(A, offset, dim1, dim2)
