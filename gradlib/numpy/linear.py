"""Linear algebra: numpy.linalg's functions, with its arguments and the form of its results."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import axes_of, constant, first_tensor, floating, promoted, tensor_of, value_of
from gradlib.numpy.registry import implements
from gradlib.ops import finite, rearrange, select, slices
from gradlib.ops.complex import conj
from gradlib.ops.linalg import decompositions, determinant, norms, products, solve as solving


def inexact(a: Any) -> Tensor:
    """A matrix in a dtype in which NumPy decomposes it. Raises: TypeError for float16, as NumPy does."""
    x = floating(a)
    if x.dtype.itemsize == 2:
        raise TypeError(f"array type {x.dtype} is unsupported in linalg")
    return x


def _check_square(x: Tensor) -> None:
    if x.ndim < 2:
        raise np.linalg.LinAlgError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(f"Last 2 dimensions of the array must be square, got shape {tuple(x.shape)}")


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


@implements(np.linalg.inv)
def inv(a: Any) -> Tensor:
    """The inverse of matrices."""
    return solving.inv(inexact(a))


@implements(np.linalg.det)
def det(a: Any) -> Tensor:
    """The determinant of matrices."""
    return determinant.det(inexact(a))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its size."""
    return SlogdetResult(*determinant.slogdet(inexact(a)))


def _system(a: Any, b: Any) -> list[Tensor]:
    """A matrix and right-hand sides in one dtype in which NumPy decomposes them."""
    like = first_tensor((a, b))
    return promoted(inexact(tensor_of(a, like)), inexact(tensor_of(b, like)))


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Tensor:
    """x with ``a @ x == b``; b of one dimension is a vector, any other matrices."""
    x, y = _system(a, b)
    return solving.solve_equations(x, y, vector=y.ndim == 1)


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices, of which the lower triangle is read."""
    return decompositions.cholesky(_of_triangle(inexact(a), upper), upper=upper)


def _of_triangle(x: Tensor, upper: bool) -> Tensor:
    """The Hermitian matrices of which x is one triangle: the other is not read, so that the derivative there is zero, as of NumPy's."""
    _check_square(x)
    read = rearrange.triu(x, 1) if upper else rearrange.tril(x, -1)
    diagonal = slices.diagonal(x, 0, -2, -1)
    return read + conj(read).mT + slices.diag_embed(diagonal.real if x.is_complex() else diagonal)


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthogonal and triangular factors."""
    if mode not in ("reduced", "complete", "r"):
        raise TypeError(f"numpy.linalg.qr takes mode 'reduced', 'complete' or 'r' for a Tensor, got {mode!r}")
    found = decompositions.qr(inexact(a), mode if mode == "complete" else "reduced")
    return found[1] if mode == "r" else QRResult(*found)


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The singular value decomposition."""
    x = inexact(a)
    return SVDResult(*decompositions.svd(x, full_matrices)) if compute_uv else decompositions.svdvals(x)


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Tensor:
    """The singular values."""
    return decompositions.svdvals(inexact(x))


@implements(np.linalg.eig)
def eig(a: Any) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrix; real where a is and no eigenvalue has an imaginary part."""
    x = inexact(a)
    values, vectors = decompositions.eig(x)
    return EigResult(values.real, vectors.real) if _all_real(x, values) else EigResult(values, vectors)


@implements(np.linalg.eigvals)
def eigvals(a: Any) -> Tensor:
    """Eigenvalues of any square matrix; real as those of ``eig``."""
    x = inexact(a)
    values = decompositions.eigvals(x)
    return values.real if _all_real(x, values) else values


def _all_real(x: Tensor, eigenvalues: Tensor) -> bool:
    return not x.is_complex() and bool((value_of(eigenvalues).imag == 0).all())


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*decompositions.eigh(_of_triangle(inexact(a), UPLO.upper() == "U"), UPLO))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices."""
    return decompositions.eigvalsh(_of_triangle(inexact(a), UPLO.upper() == "U"), UPLO)


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """Moore and Penrose's inverse."""
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    bound = rtol if rcond is None else rcond
    x = inexact(a)
    return solving.pinv(x, 1e-15 if bound is None else value_of(bound), hermitian)


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Tensor, Tensor, Any, Tensor]:
    """(least squares solution, residuals, rank, singular values) of ``a @ x = b``.

    Singular values below ``rcond`` times the largest count as zero; an ``rcond`` that is not between 0 and 1 means the machine precision,
    as in LAPACK.
    """
    x, y = _system(a, b)
    if x.ndim != 2 or y.ndim not in (1, 2):
        raise np.linalg.LinAlgError(f"numpy.linalg.lstsq takes a matrix and a vector or matrix, got {x.ndim} and {y.ndim} dimensions")
    rows, columns = x.shape
    values = decompositions.svdvals(x)
    precision = np.finfo(x.dtype).eps
    bound = precision * max(rows, columns) if rcond is None else float(rcond) if 0 < rcond < 1 else precision
    rank = int((values.detach() > bound * values.detach().amax()).sum()) if min(rows, columns) else 0
    sides = y if y.ndim == 2 else y.unsqueeze(-1)
    found = products.multi_dot([solving.pinv(x, bound), sides])
    away = sides - x @ found
    residuals = (away.abs() ** 2).sum(0) if rank == columns and rows > columns else values.new_zeros((0,))
    return found if y.ndim == 2 else found.squeeze(-1), residuals, rank, values


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """A norm of vectors or matrices."""
    t = floating(x)
    if axis is None and (ord is None or (ord in ("f", "fro") and t.ndim == 2) or (ord == 2 and t.ndim == 1)):
        found = norms.vector_norm(t)
        return found.reshape((1,) * t.ndim) if keepdims else found
    axes = axes_of(axis, t.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return norms.vector_norm(t, 2 if ord is None else ord, axes[0], bool(keepdims))
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if ord in (None, "f", "fro"):
        return norms.vector_norm(t, 2, axes, bool(keepdims))
    return norms.matrix_norm(t, ord, axes, bool(keepdims))


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """A norm of vectors."""
    t = floating(x)
    axes = axes_of(axis, t.ndim)
    if not axes:  # each element is a vector of one
        return (t != 0).to(t.abs().dtype) if ord == 0 else t.abs()
    return norms.vector_norm(t, 2 if ord is None else ord, axes, bool(keepdims))


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices."""
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Tensor:
    """The condition number of matrices."""
    t = inexact(x)
    if p in (None, 2, -2):
        values = decompositions.svdvals(t)
        found = values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    else:
        found = norm(t, p, (-2, -1)) * norm(solving.inv(t), p, (-2, -1))
    unknown = finite.isnan(found.detach()) & ~finite.isnan(t.detach()).any(-1).any(-1)
    return select.where(unknown, math.inf, found) if bool(unknown.any()) else found


@implements(np.linalg.matrix_rank, exact=True)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """The number of singular values that are not zero."""
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = floating(A).detach()
    if x.ndim < 2:
        return (x != 0).any().to(np.int64)
    values = eigvalsh(x).abs() if hermitian else decompositions.svdvals(x)
    if not values.shape[-1]:
        return constant(np.zeros(tuple(values.shape[:-1]), np.int64), x)
    if tol is None:
        share = np.finfo(x.dtype).eps * max(x.shape[-2:]) if rtol is None else value_of(rtol)
        bound: Any = values.amax(-1, True) * share
    else:
        bound = tensor_of(value_of(tol), x).unsqueeze(-1)
    return (values > bound).sum(-1)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """The inverse for ``tensordot`` over the first ``ind`` axes."""
    x = inexact(a)
    old = tuple(x.shape)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    return solving.inv(x.reshape((math.prod(old[ind:]), -1))).reshape((*old[ind:], *old[:ind]))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    """x with ``tensordot(a, x, x.ndim) == b``."""
    x, y = promoted(a, b, floating=True)
    if axes is not None:
        named = axes_of(tuple(axes), x.ndim)
        x = x.permute((*[i for i in range(x.ndim) if i not in named], *named))
    inner = tuple(x.shape[y.ndim :])
    return solve(x.reshape((-1, math.prod(inner))), y.reshape((-1,))).reshape(inner)
