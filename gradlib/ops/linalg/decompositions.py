"""Decompositions of matrices, one or a batch, and their derivatives in torch's convention.

A dimension of size 1 or more in front of the last two counts matrices. Derivatives divide by the differences of eigenvalues (of squares of
singular values), so those with respect to vectors do not exist where values repeat.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NoReturn

import numpy as np

from gradlib.backend import dtype as dtypes, elimination, reflections, rotations, singular, slopes
from gradlib.backend.array import failures_seen, has_nan
from gradlib.core.batched import Batched
from gradlib.core.op import composite, op
from gradlib.core.tensor import raw
from gradlib.ops.convert import to
from gradlib.ops.join import cat
from gradlib.ops.linalg.matrices import (
    LinAlgError,
    adjoint,
    attempt,
    diagonal_mask,
    iterate,
    matrices,
    nan_where,
    records,
    without_broken,
)  # fmt: skip
from gradlib.ops.linalg.solve import solve_op, solve_triangle
from gradlib.ops.rearrange import tril, triu
from gradlib.ops.reduce import sum
from gradlib.ops.select import where_op

__all__: list[str] = []  # gradlib.linalg names them

Eig = namedtuple("Eig", ["eigenvalues", "eigenvectors"])
Eigh = namedtuple("Eigh", ["eigenvalues", "eigenvectors"])
SVD = namedtuple("SVD", ["U", "S", "Vh"])
QR = namedtuple("QR", ["Q", "R"])


def _refuse_phase(name: str, kind: str, turned: Any, other: Any = None) -> None:
    """Complex vectors are known up to a factor e^{i phi}: refuse a cotangent that depends on phi, as no loss with a derivative does.

    Args:
        turned, other: V^H g of the vectors and of those that share the factor, or None: the imaginary parts of their diagonals add up to
            the derivative by phi. Within vmap they are not read.
    """
    given = [x for x in (turned, other) if x is not None]
    if given[0].dtype.kind != "c" or any(type(x) is Batched for x in given):
        return
    a, b = (0.0 if x is None else raw(x).diagonal(0, -2, -1).imag for x in (turned, other))
    if bool((abs(a + b) > 1e-2 + 1e-2 * abs(b)).any()):  # torch's bounds; where there is NaN, the derivative is NaN
        raise RuntimeError(
            f"{name}_backward: The {kind} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
            "function depends on this quantity, so it is ill-defined. Use one that does not, such as one of their absolute values."
        )


# ---- Cholesky ----------------------------------------------------------------------------------------------------------------


def _cholesky_slope(g: Any, out: Any, upper: bool) -> Any:
    """L^-H phi L^-1, where phi is the lower triangle of L^H g, made Hermitian."""
    if upper:
        return adjoint(_cholesky_slope(adjoint(g), adjoint(out), False))
    phi = tril(adjoint(out) @ g)
    phi = where_op(diagonal_mask(phi), phi, phi + adjoint(phi)) * 0.5
    return solve_triangle(out, solve_triangle(adjoint(out), phi, True, False), False, False, left=False)


def _cholesky_slope_on_device(g: Any, out: Any, upper: bool) -> Any:
    if not upper:
        return slopes.cholesky_slope(g, out)
    made = slopes.cholesky_slope(adjoint(g), adjoint(out))
    return None if made is None else adjoint(made)


def _cholesky_tangent(t_A: Any, out: Any, upper: bool) -> Any:
    """L times the lower triangle, with half of the diagonal, of L^-1 S L^-H, where S is the Hermitian part of A's tangent."""
    if upper:
        return adjoint(_cholesky_tangent(t_A, adjoint(out), False))
    inner = solve_triangle(out, (t_A + adjoint(t_A)) * 0.5, False, False)
    inner = tril(solve_triangle(adjoint(out), inner, True, False, left=False))
    return out @ where_op(diagonal_mask(inner), inner * 0.5, inner)


_LAST = (..., slice(-1, None), slice(-1, None))  # the last pivot, if there is one


@op(
    "other", promote=matrices("cholesky", square=True), complex="explicit", A=_cholesky_slope, jvp=_cholesky_tangent,
    kernels={"A": _cholesky_slope_on_device},
)  # fmt: skip
def cholesky_op(xp: Any, A: Any, upper: bool) -> Any:
    """The triangular factor of a positive definite matrix. Of another one the factor that was begun looks like any factor."""
    if upper:
        A = adjoint(A)
    advice = "A must be Hermitian and positive-definite."
    if xp is np:
        L = attempt("cholesky", advice, np.linalg.cholesky, A)
        broken = has_nan(L[_LAST].real) if L.ndim > 2 or not L.size else (last := L.item(-1)) != last
    else:
        L = elimination.cholesky(A)
        if L is None:
            with failures_seen(xp):
                L = attempt("cholesky", advice, xp.linalg.cholesky, A)
        broken = bool(xp.isnan(L[_LAST]).any()) if L.ndim > 2 or not L.size else (last := L[-1, -1].item()) != last
    if broken:  # the last pivot is NaN where any is: LAPACK may take NaN for a positive one
        raise LinAlgError(f"linalg.cholesky: The factorization met NaN. {advice}")
    return adjoint(L) if upper else L


@composite(method=False)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with a positive diagonal for which A = L L^H.

    Args:
        A: (..., n, n), Hermitian and positive-definite; only its lower triangle is read. The gradient is made Hermitian.
        upper: give L^H instead, from the upper triangle.
    Raises: LinAlgError when A is not positive-definite (for which the host waits), RuntimeError for other shapes and dtypes.
    Source: torch.linalg.cholesky.
    Example:
        >>> gradlib.linalg.cholesky(gradlib.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    return cholesky_op(A, upper)


# ---- eigenvalues -------------------------------------------------------------------------------------------------------------


def _eig_slope(g: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """V^-H (diag(gL) + (V^H gV - V^H V diag(re V^H gV)) / conj(l_j - l_i) off the diagonal) V^H: columns of V keep their length 1."""
    values, vectors = g
    back = adjoint(eigenvectors)
    if vectors is None:
        return solve_op(back, [values[..., :, None] * back], True, False)
    turned = back @ vectors
    _refuse_phase("linalg_eig", "eigenvectors", turned)
    mask = diagonal_mask(eigenvectors)
    stretched = (back @ eigenvectors) * turned.diagonal(0, -2, -1).real[..., None, :]
    gaps = where_op(mask, 1.0, (eigenvalues[..., None, :] - eigenvalues[..., :, None]).conj())
    inner = where_op(mask, 0.0 if values is None else values[..., :, None], (turned - stretched) / gaps)
    return solve_op(back, [inner @ back], True, False)


def _eig_tangent(t_A: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    """The diagonal of V^-1 t_A V, and V times the rest of it over l_j - l_i, of which each column keeps its length."""
    inner = solve_op(eigenvectors, [to(t_A, dtype=eigenvectors.dtype) @ eigenvectors], True, False)
    mask = diagonal_mask(eigenvectors)
    gaps = where_op(mask, 1.0, eigenvalues[..., None, :] - eigenvalues[..., :, None])
    moved = eigenvectors @ where_op(mask, 0.0, inner / gaps)
    along = sum((eigenvectors.conj() * moved).real, -2)
    return sum(where_op(mask, inner, 0.0), -1), moved - eigenvectors * along[..., None, :]


def _of_general(xp: Any, name: str, A: Any) -> tuple[Any, Any]:
    """The decomposition of this name by ``numpy.linalg`` or ``cupy.linalg``; the identity replaces a GPU's matrices that are not finite."""
    safe, broken = (A, None) if xp is np else without_broken(xp, A)  # NumPy's refuse those, as torch does
    try:
        return attempt(name, "A must be finite.", getattr(xp.linalg, name), safe), broken
    except RuntimeError as error:
        if isinstance(error, LinAlgError) or "geev is not available" not in str(error):
            raise
        raise RuntimeError(
            f"linalg.{name}: the cuSOLVER that CuPy loads has no eigenvalues of general matrices, which came with CUDA 12.6. "
            f"Compute them on the host: gradlib.linalg.{name}(A.cpu())."
        ) from None


@op(
    "other", promote=matrices("eig", square=True), outputs=("eigenvalues", "eigenvectors"), complex="explicit",
    A=_eig_slope, jvp=_eig_tangent,
)  # fmt: skip
def eig_op(xp: Any, A: Any) -> Any:
    """Eigenvalues and eigenvectors of any square matrix."""
    (values, vectors), broken = _of_general(xp, "eig", A)
    if values.dtype.kind != "c":  # as NumPy has them where all values are real
        dtype = dtypes.to_complex(A.dtype)
        values, vectors = values.astype(dtype), vectors.astype(dtype)
    return nan_where(broken, values, vectors)


@op("none", promote=matrices("eigvals", square=True), also=("A",))
def eigvals_op(xp: Any, A: Any) -> Any:
    """Eigenvalues alone, where no gradient is wanted."""
    values, broken = _of_general(xp, "eigvals", A)
    return nan_where(broken, values if values.dtype.kind == "c" else values.astype(dtypes.to_complex(A.dtype)))


@composite(method=False)
def eig(A: Any) -> Any:
    """The eigenvalues and eigenvectors of square matrices: A = V diag(l) V^-1. For Hermitian matrices use ``eigh``.

    Args:
        A: (..., n, n), float or complex.
    Returns: the named tuple (eigenvalues (..., n); eigenvectors (..., n, n), in columns of length 1, each up to a factor of modulus 1),
        both complex, in no order. A function of the eigenvectors has a derivative where it does not depend on that factor, and no two
        eigenvalues are equal.
    Raises: LinAlgError (on the CPU) for inf and NaN, where on a GPU the results are NaN, and when the iteration does not converge;
        RuntimeError for other shapes and dtypes, on a GPU with CUDA below 12.6, and from backward for a loss that depends on the factor.
    Source: torch.linalg.eig.
    Example:
        >>> gradlib.linalg.eig(gradlib.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
        tensor([0.+1.j, 0.-1.j])
    """
    return Eig(*eig_op(A))


@composite(method=False)
def eigvals(A: Any) -> Any:
    """The eigenvalues of square matrices, complex, in no order. For Hermitian matrices use ``eigvalsh``.

    Args:
        A: (..., n, n), float or complex.
    Returns: (..., n), complex.
    Raises: as ``eig``.
    Source: torch.linalg.eigvals.
    Example:
        >>> gradlib.linalg.eigvals(gradlib.tensor([[2.0, 1.0], [0.0, 3.0]]))
        tensor([2.+0.j, 3.+0.j])
    """
    return eig_op(A)[0] if records(A) else eigvals_op(A)


def _eigh_slope(g: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """V (diag(gL) + skew(V^H gV) / (l_j - l_i) off the diagonal) V^H, which is Hermitian."""
    values, vectors = g
    back = adjoint(eigenvectors)
    if vectors is None:
        return eigenvectors @ (values[..., :, None] * back)
    mask = diagonal_mask(eigenvectors)
    gaps = where_op(mask, 1.0, eigenvalues[..., None, :] - eigenvalues[..., :, None])
    turned = back @ vectors
    _refuse_phase("linalg_eigh", "eigenvectors", turned)
    inner = where_op(mask, 0.0 if values is None else values[..., :, None], (turned - adjoint(turned)) * 0.5 / gaps)
    return eigenvectors @ (inner @ back)


def _eigh_tangent(t_A: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    """The diagonal of V^H S V, where S is the Hermitian part of A's tangent, and V times the rest of it over l_j - l_i."""
    inner = adjoint(eigenvectors) @ ((t_A + adjoint(t_A)) * 0.5 @ eigenvectors)
    mask = diagonal_mask(eigenvectors)
    gaps = where_op(mask, 1.0, eigenvalues[..., None, :] - eigenvalues[..., :, None])
    moved = sum(where_op(mask, inner, 0.0), -1)
    return moved.real if moved.dtype.kind == "c" else moved, eigenvectors @ where_op(mask, 0.0, inner / gaps)


@op(
    "other", promote=matrices("eigh", square=True), outputs=("eigenvalues", "eigenvectors"), complex="explicit",
    A=_eigh_slope, jvp=_eigh_tangent, kernels={"out": lambda A, UPLO: rotations.eigenvalues(A, UPLO == "U", True), "A": slopes.eigh_slope},
)  # fmt: skip
def eigh_op(xp: Any, A: Any, UPLO: str) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix, read from one triangle."""
    (values, vectors), broken = iterate("eigh", xp.linalg.eigh, A, UPLO, part=UPLO)
    return nan_where(broken, values, vectors)


def _eigenvalues_on_device(A: Any, UPLO: str) -> Any:
    made = rotations.eigenvalues(A, UPLO == "U", False)
    return None if made is None else made[0]


@op("none", promote=matrices("eigh", square=True), also=("A",), kernels={"out": _eigenvalues_on_device})
def eigvalsh_op(xp: Any, A: Any, UPLO: str) -> Any:
    """Eigenvalues alone, where no gradient is wanted."""
    values, broken = iterate("eigh", xp.linalg.eigvalsh, A, UPLO, part=UPLO)
    return nan_where(broken, values)


_TRIANGLES = {"L": "L", "U": "U", "l": "L", "u": "U"}


def _no_triangle(UPLO: str) -> NoReturn:
    raise RuntimeError(f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")


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
    Example:
        >>> gradlib.linalg.eigh(gradlib.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        tensor([1., 2.])
    """
    return Eigh(*eigh_op(A, _TRIANGLES.get(UPLO) or _no_triangle(UPLO)))


@composite(method=False)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of Hermitian matrices, ascending.

    Args:
        A, UPLO: as for ``eigh``.
    Returns: (..., n), real.
    Raises: as ``eigh``.
    Source: torch.linalg.eigvalsh.
    Example:
        >>> gradlib.linalg.eigvalsh(gradlib.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor([1., 2.])
    """
    part = _TRIANGLES.get(UPLO) or _no_triangle(UPLO)
    return eigh_op(A, part)[0] if records(A) else eigvalsh_op(A, part)


# ---- singular values ---------------------------------------------------------------------------------------------------------


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
    left = right = None
    if gU is not None:
        left = adjoint(U) @ gU
        left = left - adjoint(left)
        inner = left / gaps * S[..., None, :]
        if gVh is not None and U.dtype.kind == "c":
            inner = inner + where_op(mask, left / (2 * S[..., None, :]), 0.0)
    if gVh is not None:
        right = Vh @ adjoint(gVh)
        right = right - adjoint(right)
        inner = inner + S[..., :, None] * (right / gaps)
    _refuse_phase("svd", "singular vectors", left, right)
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


def _svd_tangent(t_A: Any, U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
    """The same formula for a tangent: of P = U^H t_A V the diagonal, and the rest over the gaps; the phase of complex vectors is U's."""
    k = S.shape[-1]
    whole, U, Vh = (U, Vh), U[..., :, :k], Vh[..., :k, :]
    mask = diagonal_mask(U[..., :k, :])
    gaps = where_op(mask, 1.0, S[..., None, :] ** 2 - S[..., :, None] ** 2)
    by_right = t_A @ adjoint(Vh)
    P = adjoint(U) @ by_right
    scaled, turned = P * S[..., None, :], S[..., :, None] * P
    of_U = where_op(mask, 0.0, (scaled + adjoint(scaled)) / gaps)
    of_V = where_op(mask, 0.0, (turned + adjoint(turned)) / gaps)
    if P.dtype.kind == "c":
        of_U = where_op(mask, (P - adjoint(P)) * 0.5 / S[..., None, :], of_U)
    of_S = sum(where_op(mask, P, 0.0), -1)
    of_U, of_Vh = U @ of_U, adjoint(of_V) @ Vh
    if U.shape[-2] > k:
        of_U = of_U + (by_right - U @ P) / S[..., None, :]
    if Vh.shape[-1] > k:
        of_Vh = of_Vh + (adjoint(U) @ t_A - P @ Vh) / S[..., :, None]
    if whole[0].shape[-1] > k:
        of_U = cat([of_U, whole[0][..., :, k:] * 0], -1)
    if whole[1].shape[-2] > k:
        of_Vh = cat([of_Vh, whole[1][..., k:, :] * 0], -2)
    return of_U, of_S.real if of_S.dtype.kind == "c" else of_S, of_Vh


@op(
    "other", outputs=("U", "S", "Vh"), complex="explicit", A=_svd_slope, jvp=_svd_tangent,
    kernels={"out": singular.decomposed, "A": slopes.svd_slope},
)  # fmt: skip
def svd_op(xp: Any, A: Any, full_matrices: bool) -> Any:
    """Singular values and vectors of what has been checked; the public function says more."""
    (U, S, Vh), broken = iterate("svd", xp.linalg.svd, A, full_matrices)
    return nan_where(broken, U, S, Vh)


@op("none", also=("A",), kernels={"out": singular.values_alone})
def svdvals_op(xp: Any, A: Any) -> Any:
    """Singular values alone, where no gradient is wanted."""
    values, broken = iterate("svd", xp.linalg.svd, A, compute_uv=False)
    return nan_where(broken, values)


def singular_values(A: Any) -> Any:
    """The singular values, descending, of what has been checked; with the vectors where derivatives may be asked for."""
    return svd_op(A, False)[1] if records(A) else svdvals_op(A)


_TO_DECOMPOSE = matrices("svd")


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
    Example:
        >>> gradlib.linalg.svd(gradlib.tensor([[3.0, 0.0], [0.0, 4.0]])).S
        tensor([4., 3.])
    """
    _TO_DECOMPOSE([A])
    return SVD(*svd_op(A, full_matrices))


@composite(method=False)
def svdvals(A: Any) -> Any:
    """The singular values of matrices, descending.

    Args:
        A: (..., m, n), float or complex.
    Source: torch.linalg.svdvals.
    Example:
        >>> gradlib.linalg.svdvals(gradlib.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor([4., 3.])
    """
    _TO_DECOMPOSE([A])
    return singular_values(A)


# ---- QR ----------------------------------------------------------------------------------------------------------------------


def _qr_slope(g: Any, Q: Any, R: Any) -> Any:
    """(gQ + Q sym(triu(gR R^H - Q^H gQ))) R^-H for as many rows as columns or more.

    Of more columns the first determine Q and R_1, and what is left is A_2 = Q R_2: its gradient is Q gR_2, and that by Q grows by
    A_2 gR_2^H.
    """
    gQ, gR = g
    rows, columns = Q.shape[-2], R.shape[-1]
    beyond = None
    if columns > rows:
        R, rest = R[..., :rows], R[..., rows:]
        beyond = rest * 0
        if gR is not None:
            gR, g_rest = gR[..., :rows], gR[..., rows:]
            beyond, by_rest = Q @ g_rest, Q @ (rest @ adjoint(g_rest))
            gQ = by_rest if gQ is None else gQ + by_rest
    inner = gR @ adjoint(R) if gR is not None else 0.0
    if gQ is not None:
        inner = inner - adjoint(Q) @ gQ
    inner = triu(inner)
    inner = inner + adjoint(inner)
    inner = Q @ where_op(diagonal_mask(inner), inner * 0.5, inner)
    made = solve_triangle(adjoint(R), inner if gQ is None else inner + gQ, False, False, left=False)
    return made if beyond is None else cat([made, beyond], -1)


def _qr_tangent(t_A: Any, Q: Any, R: Any) -> tuple[Any, Any]:
    """Of square R: t_R is T R, and t_Q what is left of t_A R^-1, where T is the upper triangle, the diagonal halved, of W + W^H for
    W = Q^H t_A R^-1. Of more columns the first determine Q, and t_R is Q^H (t_A - t_Q R).
    """
    rows = Q.shape[-2]
    of_Q = solve_triangle(R[..., :rows], t_A[..., :rows], True, False, left=False)
    inner = adjoint(Q) @ of_Q
    inner = triu(inner + adjoint(inner))
    inner = where_op(diagonal_mask(inner), inner * 0.5, inner)
    of_Q = of_Q - Q @ inner
    return of_Q, inner @ R if R.shape[-1] <= rows else adjoint(Q) @ (t_A - of_Q @ R)


@op(
    "other", outputs=("Q", "R"), complex="explicit", A=_qr_slope, jvp=_qr_tangent,
    kernels={"out": reflections.decomposed, "A": slopes.qr_slope},
)  # fmt: skip
def qr_op(xp: Any, A: Any) -> Any:
    """Orthonormal columns and a triangle whose product is the matrix."""
    return tuple(attempt("qr", "A must be finite.", xp.linalg.qr, A))


def _no_slope(g: Any) -> Any:
    raise RuntimeError(
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; use mode='reduced', whose Q is determined by A."
    )


@op(
    "other", outputs=("Q", "R"), complex="explicit", method=False, A=_no_slope,
    kernels={"out": reflections.decomposed_whole},
)  # fmt: skip
def qr_complete(xp: Any, A: Any) -> Any:
    """The same with a square orthonormal factor, which has no derivative."""
    return tuple(attempt("qr", "A must be finite.", xp.linalg.qr, A, mode="complete"))


_TO_SPLIT = matrices("qr")


@composite(method=False)
def qr(A: Any, mode: str = "reduced") -> Any:
    """The decomposition A = Q R into orthonormal columns and an upper triangle.

    Args:
        A: (..., m, n); its first min(m, n) columns must be independent for a derivative.
        mode: "reduced": Q (..., m, k) and R (..., k, n) with k the smaller of m and n; "complete": Q (..., m, m) and R (..., m, n), without
            a derivative where m > n; "r": R alone, and an empty Q.
    Returns: the named tuple (Q, R).
    Raises: RuntimeError for another mode and for other shapes and dtypes.
    Source: torch.linalg.qr.
    Example:
        >>> gradlib.linalg.qr(gradlib.tensor([[3.0, 0.0], [4.0, 5.0]])).R.abs()
        tensor([[5., 4.],
                [0., 3.]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode {mode!r} but expected one of 'reduced' (default), 'r', or 'complete'")
    _TO_SPLIT([A])
    rows, columns = A.shape[-2:]
    Q, R = qr_complete(A) if mode == "complete" and rows > columns else qr_op(A)
    return QR(Q[..., :0, :0].reshape((-1,))[:0] if mode == "r" else Q, R)
