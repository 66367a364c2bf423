"""Decompositions of matrices, one or a batch, and their derivatives in torch's convention.

A dimension of size 1 or more in front of the last two counts matrices. Derivatives divide by the differences of eigenvalues (of squares of
singular values), so those with respect to vectors do not exist where values repeat.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import failures_seen, is_array, namespace, on_device_of
from gradlib.core.declaration import Joint
from gradlib.core.modes import local, watch
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.join import cat
from gradlib.ops.rearrange import tril, triu
from gradlib.ops.select import where_op

__all__: list[str] = []  # gradlib.linalg names them

Eigh = namedtuple("Eigh", ["eigenvalues", "eigenvectors"])
SVD = namedtuple("SVD", ["U", "S", "Vh"])
QR = namedtuple("QR", ["Q", "R"])


# ---- what they share --------------------------------------------------------------------------------------------------------------


class LinAlgError(np.linalg.LinAlgError, RuntimeError):
    """A matrix for which the problem has no solution, such as the inverse of a singular one. Source: torch.linalg.LinAlgError."""


def attempt(name: str, advice: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function of ``numpy.linalg`` or ``cupy.linalg``; a failure names the operation and what to do.

    CuPy reports none, so that the host need not wait for it: the result is then not finite, except where ``failures_seen``.
    """
    try:
        return function(*args, **named)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.{name}: {error}. {advice}") from None


def without_broken(xp: Any, A: Any) -> tuple[Any, Any]:
    """The matrices, but the identity in the place of those that hold inf or NaN, on which LAPACK's iterations may never end.

    Returns: the matrices; where the others were, (...) of bool, or None for nowhere, which only the host asks.
    """
    whole = xp.isfinite(A)
    if xp is np and whole.all():
        return A, None
    broken = ~whole.all((-2, -1))
    return xp.where(broken[..., None, None], xp.eye(A.shape[-2], A.shape[-1], dtype=A.dtype), A), broken


def iterate(name: str, function: Callable[..., Any], A: Any, *args: Any, read: Any = None, **named: Any) -> tuple[Any, Any]:
    """What a decomposition that iterates gives, with the identity in place of matrices that are not finite; and which those were.

    Args:
        name, function, args, named: as for ``attempt``.
        read: the part of A that the function looks at; all of it when None.
    Raises: LinAlgError (on the CPU) for NaN, as torch does; a matrix of inf has values that are NaN.
    """
    xp = namespace(A)
    seen = A if read is None else read
    safe, broken = without_broken(xp, seen)
    if xp is np and broken is not None and np.isnan(seen).any():
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix contained non-finite values. A must be finite."
        )
    return attempt(name, "A must be finite.", function, A if broken is None else safe, *args, **named), broken


def nan_of(dtype: np.dtype) -> Any:
    """NaN in this dtype, in both parts of a complex one."""
    return dtype.type(complex(np.nan, np.nan) if dtype.kind == "c" else np.nan)


def nan_where(broken: Any, *results: Any) -> Any:
    """Each result (..., k) or (..., m, k), NaN for the matrices that were not finite, so that their derivatives are as well."""
    if broken is not None:
        xp, added = namespace(broken), broken.ndim
        results = tuple(
            xp.where(broken.reshape(broken.shape + (1,) * (x.ndim - added)), nan_of(x.dtype), x) for x in results
        )
    return results if len(results) > 1 else results[0]


def matrices(name: str, square: bool = False, low_precision: bool = False, integers: bool = False) -> Callable[[list[Any]], list[Any]]:
    """For ``op(promote=...)``: refuse operands that are no float or complex matrices of one dtype, or no square ones."""

    def check(values: list[Any]) -> list[Any]:
        for value in values:
            if not is_array(value) and not isinstance(value, Tensor):
                raise TypeError(f"linalg.{name}: expected a Tensor, got {type(value).__name__}")
            if value.ndim < 2:
                raise RuntimeError(f"linalg.{name}: The input tensor must have at least 2 dimensions, got shape {list(value.shape)}")
            if value.dtype != values[0].dtype:
                raise RuntimeError(f"linalg.{name}: expected tensors of the same dtype, got {values[0].dtype} and {value.dtype}")
            if not integers and not dtypes.is_differentiable(value.dtype):
                raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {value.dtype}; use .float()")
            if not low_precision and value.dtype.itemsize < 4 and dtypes.is_floating_point(value.dtype):
                raise RuntimeError(f"linalg.{name}: Low precision dtypes not supported. Got {value.dtype}; use .float()")
        if square and values[0].shape[-1] != values[0].shape[-2]:
            rows, columns = values[0].shape[-2:]
            raise RuntimeError(f"linalg.{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices")
        return values

    return check


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return (x.conj() if x.dtype.kind == "c" else x).mT


def diagonal_mask(x: Any) -> Any:
    """Bool, for matrices like x: where the diagonal is."""
    array = raw(x)
    with on_device_of(array):
        return namespace(array).eye(array.shape[-2], array.shape[-1], dtype=bool)


def records(x: Any) -> bool:
    """Whether derivatives of x may be asked for."""
    return isinstance(x, Tensor) and (bool(watch.active) or (x._node is not None and (local.grad_enabled or not watch.no_grad)))


# ---- Cholesky -----------------------------------------------------------------------------------------------------------------------


def _cholesky_slope(g: Any, out: Any) -> Any:
    """L^-H phi L^-1, where phi is the lower triangle of L^H g, made Hermitian."""
    phi = tril(adjoint(out) @ g)
    phi = where_op(diagonal_mask(phi), phi, phi + adjoint(phi)) * 0.5
    left = solve_triangle(adjoint(out), phi, True, False)
    return adjoint(solve_triangle(adjoint(out), adjoint(left), True, False))


@op("other", promote=matrices("cholesky", square=True), complex="explicit", A=_cholesky_slope)
def cholesky_op(xp: Any, A: Any) -> Any:
    """The triangular factor of a positive definite matrix. Of another one the factor that was begun looks like any factor."""
    advice = "A must be Hermitian and positive-definite."
    with failures_seen(xp):
        L = attempt("cholesky", advice, xp.linalg.cholesky, A)
    if bool(xp.isnan(xp.diagonal(L, 0, -2, -1)).any()):  # LAPACK may take NaN for a positive pivot
        raise LinAlgError(f"linalg.cholesky: The factorization met NaN. {advice}")
    return L


@composite(method=False)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with a positive diagonal for which A = L L^H.

    Args:
        A: (..., n, n), Hermitian and positive-definite; only its lower triangle is read. The gradient is made Hermitian.
        upper: give L^H instead, from the upper triangle.
    Raises: LinAlgError when A is not positive-definite (for which the host waits), RuntimeError for other shapes and dtypes.
    Source: torch.linalg.cholesky.
    """
    return adjoint(cholesky_op(adjoint(A))) if upper else cholesky_op(A)


# ---- triangular systems -------------------------------------------------------------------------------------------------------------


def _triangle_slopes(g: Any, A: Any, out: Any, upper: bool, unitriangular: bool) -> list[Any]:
    inner = solve_triangle(A.mT, g, not upper, unitriangular)
    if out is None:
        return [None, inner]
    outer = -(inner @ out.mT)
    return [triu(outer, 1 if unitriangular else 0) if upper else tril(outer, -1 if unitriangular else 0), inner]


@op("other", promote=matrices("solve_triangular"), sequence="B", A=Joint(needs=("out",)), B=_triangle_slopes)
def solve_triangular_op(xp: Any, A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    """The solution by the triangle of a matrix alone; B is a list of one."""
    (B,) = B
    A = xp.triu(A) if upper else xp.tril(A)
    if unitriangular:
        A = xp.where(xp.eye(A.shape[-1], dtype=bool), 1, A)
    try:
        X = xp.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        return _substituted(A, B, upper)
    return X if xp is not np or np.isfinite(X).all() else _substituted(A, B, upper)


def _substituted(A: np.ndarray, B: np.ndarray, upper: bool) -> np.ndarray:
    """The same row by row, with inf and NaN only in the rows to which they belong: for zeros on the diagonal, and what is not finite."""
    X = np.empty(np.broadcast_shapes((*A.shape[:-1], 1), B.shape), B.dtype)
    size = A.shape[-1]
    for i in reversed(range(size)) if upper else range(size):
        known = slice(i + 1, None) if upper else slice(i)
        X[..., i, :] = (B[..., i, :] - np.sum(A[..., i, known, None] * X[..., known, :], axis=-2)) / A[..., i, i, None]
    return X


def solve_triangle(A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    """The solution X of A X = B for triangular matrices A, of which the other triangle is not looked at."""
    return solve_triangular_op(A, [B], upper, unitriangular)


# ---- eigenvalues --------------------------------------------------------------------------------------------------------------------


def _eigh_slope(g: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """V (diag(gL) + skew(V^H gV) / (l_j - l_i) off the diagonal) V^H, which is Hermitian."""
    values, vectors = g
    back = adjoint(eigenvectors)
    if vectors is None:
        return eigenvectors @ (values[..., :, None] * back)
    mask = diagonal_mask(eigenvectors)
    gaps = where_op(mask, 1.0, eigenvalues[..., None, :] - eigenvalues[..., :, None])
    turned = back @ vectors
    inner = where_op(mask, 0.0 if values is None else values[..., :, None], (turned - adjoint(turned)) * 0.5 / gaps)
    return eigenvectors @ (inner @ back)


@op(
    "other", promote=matrices("eigh", square=True), outputs=("eigenvalues", "eigenvectors"), complex="explicit",
    A=_eigh_slope,
)  # fmt: skip
def eigh_op(xp: Any, A: Any, UPLO: str) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix, read from one triangle."""
    (values, vectors), broken = iterate("eigh", xp.linalg.eigh, A, UPLO, read=_one_triangle(xp, A, UPLO))
    return nan_where(broken, values, vectors)


@op("none", promote=matrices("eigh", square=True), also=("A",))
def eigvalsh_op(xp: Any, A: Any, UPLO: str) -> Any:
    """Eigenvalues alone, where no gradient is wanted."""
    values, broken = iterate("eigh", xp.linalg.eigvalsh, A, UPLO, read=_one_triangle(xp, A, UPLO))
    return nan_where(broken, values)


def _one_triangle(xp: Any, A: Any, UPLO: str) -> Any:
    """The triangle that is read, to be asked whether it is finite; all of A where that is, as it mostly is, or where A is no matrix."""
    return A if A.ndim < 2 or (xp is np and np.isfinite(A).all()) else xp.tril(A) if UPLO == "L" else xp.triu(A)


def _triangle_named(UPLO: str) -> str:
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@composite(method=False)
def eigh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues and eigenvectors of Hermitian matrices: A = V diag(l) V^H.

    Args:
        A: (..., n, n); only one triangle is read.
        UPLO: which, "L"ower or "U"pper.
    Returns: the named tuple (eigenvalues (..., n), real, ascending; eigenvectors (..., n, n), in columns, each up to a factor of modulus
        1). A function of the eigenvectors has a derivative where it does not depend on that factor and no two eigenvalues are equal.
    Raises: LinAlgError (on the CPU) for NaN and when the iteration does not converge, RuntimeError for other shapes and dtypes. A matrix
        with inf has eigenvalues and eigenvectors NaN.
    Source: torch.linalg.eigh.
    """
    return Eigh(*eigh_op(A, _triangle_named(UPLO)))


@composite(method=False)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of Hermitian matrices, ascending. Arguments as for ``eigh``. Source: torch.linalg.eigvalsh."""
    return eigh_op(A, _triangle_named(UPLO))[0] if records(A) else eigvalsh_op(A, _triangle_named(UPLO))


# ---- singular values ----------------------------------------------------------------------------------------------------------------


def _svd_slope(g: Any, U: Any, S: Any, Vh: Any) -> Any:
    """Townsend's formula; what U and Vh have beyond the singular values (full matrices) takes no part."""
    k = S.shape[-1]
    gU, gS, gVh = g
    gU, U = (None if gU is None else gU[..., :, :k]), U[..., :, :k]
    gVh, Vh = (None if gVh is None else gVh[..., :k, :]), Vh[..., :k, :]
    tall, wide = U.shape[-2] > k, Vh.shape[-1] > k
    if gU is None and gVh is None:
        return (U * gS[..., None, :]) @ Vh
    mask = diagonal_mask(U[..., :k, :])
    gaps = where_op(mask, 1.0, S[..., None, :] ** 2 - S[..., :, None] ** 2)
    inner: Any = 0.0
    if gU is not None:
        turned = adjoint(U) @ gU
        turned = turned - adjoint(turned)
        inner = turned / gaps * S[..., None, :]
        if gVh is not None and U.dtype.kind == "c":
            inner = inner + where_op(mask, turned / (2 * S[..., None, :]), 0.0)
    if gVh is not None:
        turned = Vh @ adjoint(gVh)
        inner = inner + S[..., :, None] * ((turned - adjoint(turned)) / gaps)
    if gS is not None:
        inner = where_op(mask, gS[..., :, None] + inner, inner)
    result = U @ inner @ Vh
    if tall and gU is not None:
        rest = gU / S[..., None, :]
        result = result + (rest - U @ (adjoint(U) @ rest)) @ Vh
    if wide and gVh is not None:
        rest = gVh / S[..., :, None]
        result = result + U @ (rest - (rest @ adjoint(Vh)) @ Vh)
    return result


@op("other", promote=matrices("svd"), outputs=("U", "S", "Vh"), complex="explicit", A=_svd_slope)
def svd_op(xp: Any, A: Any, full_matrices: bool) -> Any:
    """Singular values and vectors; the public function says more."""
    (U, S, Vh), broken = iterate("svd", xp.linalg.svd, A, full_matrices)
    return nan_where(broken, U, S, Vh)


@op("none", promote=matrices("svd"), also=("A",))
def svdvals_op(xp: Any, A: Any) -> Any:
    """Singular values alone, where no gradient is wanted."""
    values, broken = iterate("svd", xp.linalg.svd, A, compute_uv=False)
    return nan_where(broken, values)


@composite(method=False)
def svd(A: Any, full_matrices: bool = True) -> Any:
    """The singular value decomposition A = U diag(S) Vh.

    Args:
        A: (..., m, n); k below is the smaller of m and n.
        full_matrices: give U and Vh as square matrices; the columns (rows) beyond k have no derivative.
    Returns: the named tuple (U (..., m, k or m), S (..., k), real, descending, Vh (..., k or n, n)). A function of U and Vh has a
        derivative where it does not depend on the factor of modulus 1 that their columns and rows share, and no two singular values are
        equal.
    Raises: LinAlgError (on the CPU) for NaN and when the iteration does not converge, RuntimeError for other shapes and dtypes. A matrix
        with inf gives NaN throughout.
    Source: torch.linalg.svd.
    """
    return SVD(*svd_op(A, full_matrices))


@composite(method=False)
def svdvals(A: Any) -> Any:
    """The singular values of matrices, descending. Source: torch.linalg.svdvals."""
    return svd_op(A, False)[1] if records(A) else svdvals_op(A)


# ---- QR -----------------------------------------------------------------------------------------------------------------------------


def _qr_slope(g: Any, Q: Any, R: Any) -> Any:
    """(gQ + Q sym(triu(gR R^H - Q^H gQ))) R^-H for as many rows as columns or more."""
    gQ, gR = g
    inner = gR @ adjoint(R) if gR is not None else 0.0
    if gQ is not None:
        inner = inner - adjoint(Q) @ gQ
    inner = triu(inner)
    inner = inner + adjoint(inner)
    inner = Q @ where_op(diagonal_mask(inner), inner * 0.5, inner)
    return adjoint(solve_triangle(R, adjoint(inner if gQ is None else inner + gQ), True, False))


@op("other", promote=matrices("qr"), outputs=("Q", "R"), complex="explicit", A=_qr_slope)
def qr_op(xp: Any, A: Any) -> Any:
    """Orthonormal columns and a triangle whose product is the matrix."""
    return tuple(attempt("qr", "A must be finite.", xp.linalg.qr, A))


def _no_slope(g: Any) -> Any:
    raise RuntimeError(
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; use mode='reduced', whose Q is determined by A."
    )


@op("other", promote=matrices("qr"), outputs=("Q", "R"), complex="explicit", method=False, A=_no_slope)
def qr_complete(xp: Any, A: Any) -> Any:
    """The same with a square orthonormal factor, which has no derivative."""
    return tuple(attempt("qr", "A must be finite.", xp.linalg.qr, A, mode="complete"))


@composite(method=False)
def qr(A: Any, mode: str = "reduced") -> Any:
    """The decomposition A = Q R into orthonormal columns and an upper triangle.

    Args:
        A: (..., m, n); its first min(m, n) columns must be independent for a derivative.
        mode: "reduced": Q (..., m, k) and R (..., k, n) with k the smaller of m and n; "complete": Q (..., m, m) and R (..., m, n), without
            a derivative where m > n; "r": R alone, and an empty Q.
    Returns: the named tuple (Q, R).
    Raises: RuntimeError for another mode and for other shapes and dtypes. Source: torch.linalg.qr.
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode {mode!r} but expected one of 'reduced' (default), 'r', or 'complete'")
    matrices("qr")([A])
    rows, columns = A.shape[-2:]
    if mode == "complete" and rows > columns:
        return QR(*qr_complete(A))
    if rows >= columns or not records(A):
        Q, R = qr_op(A)
    else:  # the first columns determine Q, and Q the rest of R
        Q, R = qr_op(A[..., :rows])
        R = cat([R, adjoint(Q) @ A[..., rows:]], -1)
    return QR(Q[..., :0, :0].reshape((-1,))[:0] if mode == "r" else Q, R)
