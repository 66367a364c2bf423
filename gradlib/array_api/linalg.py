"""The standard's extension ``linalg``: gradlib's linear algebra under its names and argument forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.array_api.array import promoted, standard
from gradlib.array_api.reductions import sum
from gradlib.core.tensor import Tensor
from gradlib.ops import contract, product, shape as shapes
from gradlib.ops.complex import conj
from gradlib.ops.linalg import decompositions, determinant, norms, products, solve as solving
from gradlib.ops.slices import diagonal as diagonal_view

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


@standard
def matmul(x1: Any, x2: Any, /) -> Any:
    """Products of matrices, which broadcast; a vector is a row in front and a column behind."""
    return product.matmul(*_arrays("matmul", x1, x2))


@standard
def matrix_transpose(x: Any, /) -> Any:
    """Each matrix of the last two axes transposed, as a view."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: an array of {x.ndim} dimensions holds no matrices")
    return shapes.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@standard
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over some axes of both: the last of one and the first of the other, or two lists of them."""
    return contract.tensordot(*_arrays("tensordot", x1, x2), axes)


@standard
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum over an axis, counted from the end, of the products of elements, the first conjugated."""
    a, b = _arrays("vecdot", x1, x2)
    if not -min(a.ndim, b.ndim) <= axis < 0 and not (axis >= 0 and a.ndim == b.ndim):
        raise ValueError(f"vecdot: axis is counted from the end, from {-min(a.ndim, b.ndim)} to -1, got {axis}")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: sizes along axis {axis} differ: shapes {tuple(a.shape)} and {tuple(b.shape)}")
    moved = [shapes.movedim(each, axis, -1) for each in (a, b)]
    return (product.matmul(shapes.unsqueeze(conj(moved[0]), -2), shapes.unsqueeze(moved[1], -1)))[..., 0, 0]


@standard
def outer(x1: Any, x2: Any, /) -> Any:
    """The product of each element of one vector with each of another."""
    return product.outer(*_arrays("outer", x1, x2))


@standard
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross products of vectors of three elements along an axis."""
    a, b = _arrays("cross", x1, x2)
    rank = max(a.ndim, b.ndim)
    if axis >= 0 and a.ndim != b.ndim:
        raise ValueError(f"cross: axis is counted from the end where the arrays differ in their dimensions, got {axis}")
    a, b = (shapes.reshape(each, (*(1,) * (rank - each.ndim), *each.shape)) for each in (a, b))
    return product.cross(a, b, axis)


def _arrays(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    if not isinstance(x1, Tensor) or not isinstance(x2, Tensor):
        raise TypeError(f"{name} takes two arrays, got {type(x1).__name__} and {type(x2).__name__}")
    return promoted(x1, x2)


@standard
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices of the last two axes, as a view; ``offset`` above the main one."""
    return diagonal_view(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices of the last two axes."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


@standard
def det(x: Any, /) -> Any:
    """The determinants of square matrices."""
    return determinant.det(x)


@standard
def slogdet(x: Any, /) -> Any:
    """The signs and the logarithms of the sizes of determinants: (sign, logabsdet)."""
    return determinant.slogdet(x)


@standard
def inv(x: Any, /) -> Any:
    """The inverses of square matrices."""
    return solving.inv(x)


@standard
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Pseudo-inverses; singular values below ``rtol`` times the largest count as zero."""
    return solving.pinv(x, rtol=_default_rtol(x) if rtol is None else rtol)


def _default_rtol(x: Any) -> float:
    return max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)


@standard
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """The number of singular values above ``rtol`` times the largest; zero for an empty matrix."""
    if x.ndim < 2:
        raise ValueError(f"matrix_rank: an array of {x.ndim} dimensions holds no matrices")
    sizes = decompositions.svdvals(x)
    least = _default_rtol(x) if rtol is None else rtol
    if isinstance(least, Tensor):
        least = shapes.unsqueeze(least, -1)
    return (sizes > sizes[..., :1] * least).sum(-1)


@standard
def solve(x1: Any, x2: Any, /) -> Any:
    """The solutions of x1 @ x = x2: x2 is a vector where it has one dimension, and matrices otherwise."""
    a, b = _arrays("solve", x1, x2)
    return solving.solve_equations(a, b, vector=b.ndim == 1)


@standard
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The triangular factors L of x = L @ L.mH of positive definite matrices, or the upper ones."""
    return decompositions.cholesky(x, upper=upper)


@standard
def eigh(x: Any, /) -> Any:
    """The eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices: (eigenvalues, eigenvectors)."""
    return decompositions.eigh(x)


@standard
def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of symmetric or Hermitian matrices, ascending."""
    return decompositions.eigvalsh(x)


@standard
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """The factors x = Q @ R, orthogonal and upper triangular: (Q, R)."""
    return decompositions.qr(x, mode)


@standard
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """The factors x = U @ diag(S) @ Vh: (U, S, Vh), singular values descending."""
    return decompositions.svd(x, full_matrices)


@standard
def svdvals(x: Any, /) -> Any:
    """The singular values, descending."""
    return decompositions.svdvals(x)


@standard
def matrix_power(x: Any, n: int, /) -> Any:
    """The product of n copies of square matrices; of their inverses when n is negative."""
    return products.matrix_power(x, n)


@standard
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of the matrices of the last two axes."""
    return norms.matrix_norm(x, ord, (-2, -1), keepdims)


@standard
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Norms over axes, or of all elements."""
    if axis == () and isinstance(axis, tuple):
        return norms.vector_norm(shapes.unsqueeze(x, -1), ord, (-1,))
    return norms.vector_norm(x, ord, axis, keepdims)
