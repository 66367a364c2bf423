"""Inverses of matrices and solutions of systems of linear equations, one or a batch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import elimination, singular, slopes
from gradlib.backend.array import all_finite, broadcast_to, is_array, namespace, on_device_of, scipy_blas
from gradlib.backend.matrices import scaled_by_reciprocals, stacks_alike, triangle_solved
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.declaration import Joint
from gradlib.core.op import composite, op
from gradlib.core.tensor import raw
from gradlib.ops.linalg.matrices import LinAlgError, adjoint, attempt, iterate, matrices, nan_of, nan_where
from gradlib.ops.rearrange import tril, triu
from gradlib.ops.reduce import sum

__all__ = ["inverse", "pinverse"]

Lstsq = namedtuple("Lstsq", ["solution", "residuals", "rank", "singular_values"])

# ---- triangular systems ------------------------------------------------------------------------------------------------------


def _triangle_slopes(g: Any, A: Any, out: Any, upper: bool, unitriangular: bool, on_left: bool) -> list[Any]:
    inner = solve_triangle(A.mT, g, not upper, unitriangular, on_left)
    if out is None:
        return [None, inner]
    outer = _slope_of_matrix(inner, out, on_left)
    return [triu(outer, 1 if unitriangular else 0) if upper else tril(outer, -1 if unitriangular else 0), inner]


def _triangle_tangent(t_A: Any, t_B: list[Any], A: Any, out: Any, upper: bool, unitriangular: bool, on_left: bool) -> Any:
    """The solution by the same triangle of what the tangents leave of A X = B."""
    t_A = triu(t_A, 1 if unitriangular else 0) if upper else tril(t_A, -1 if unitriangular else 0)
    return solve_triangle(A, t_B[0] - (t_A @ out if on_left else out @ t_A), upper, unitriangular, on_left)


def _slope_of_matrix(by_right: Any, X: Any, left: bool) -> Any:
    """The gradient of A for that of B, where A X = B or X A = B."""
    return -(by_right @ X.mT if left else X.mT @ by_right)


def _solved(xp: Any, solver: Callable[..., Any], A: Any, B: Any, left: bool, *args: Any) -> Any:
    """The X of A X = B, or where not ``left`` of X A = B; the batches broadcast.

    Args:
        solver: ``solver(xp, A, B, *args)`` gives the X of A X = B; of CuPy arrays for as many A as B.
    """
    if not left:
        return _solved(xp, solver, A.mT, B.mT, True, *args).mT
    if A.ndim == 2 < B.ndim and B.size:  # one matrix is decomposed once, for the columns of all
        rows = B.mT
        return solver(xp, A, rows.reshape((-1, len(A))).mT, *args).mT.reshape(rows.shape).mT
    if xp is not np:
        A, B = stacks_alike(A, B)
    return solver(xp, A, B, *args) if B.size or xp is np else B.copy()  # of nothing CuPy's solvers fail


@op(
    "other", sequence="B", A=Joint(needs=("out",)), B=_triangle_slopes, jvp=_triangle_tangent,
    kernels={"out": triangle_solved, "B": slopes.triangle_slopes},
)  # fmt: skip
def solve_triangular_op(xp: Any, A: Any, B: Any, upper: bool, unitriangular: bool, on_left: bool) -> Any:
    """The solution by the triangle of a matrix alone; B is a list of one."""
    return _solved(xp, _triangle_solved, A, B[0], on_left, upper if on_left else not upper, unitriangular)


def _triangle_solved(xp: Any, A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    if xp is not np:
        return _triangle_on_device(xp, A, B, upper, unitriangular)
    X = _by_blas(A, B, upper, unitriangular) if A.ndim == 2 and B.size else None
    if X is not None and all_finite(X):
        return X
    if unitriangular:
        A = np.where(np.eye(A.shape[-1], dtype=bool), 1, A)
    try:
        X = _by_halves(A, B, upper)
    except np.linalg.LinAlgError:
        return _substituted(A, B, upper)
    return X if all_finite(X) else _substituted(A, B, upper)


def _triangle_on_device(xp: Any, A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    """The same of CuPy arrays: by cuBLAS, or of many large matrices a decomposition of their triangles."""
    if A.ndim == 2:
        from cupyx.scipy.linalg import solve_triangular as by_cublas

        return by_cublas(A, B, lower=not upper, unit_diagonal=unitriangular)
    if unitriangular:
        A = xp.where(xp.eye(A.shape[-1], dtype=bool), 1, A)
    return xp.linalg.solve(triu(A) if upper else tril(A), B)


def _by_blas(A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    """The same of one matrix by SciPy; None without it. To BLAS rows are columns: it solves X^T A^T = B^T, and A^T is a lower triangle."""
    library = scipy_blas()
    if library is None:
        return None
    solve = getattr(library, _BLAS_SOLVERS[A.dtype.char])
    return solve(1, A.T, B.T, 1, upper, 0, unitriangular).T  # alpha, a, b, side, lower, trans_a, diag: names take it a third of the whole


_BLAS_SOLVERS = {"f": "strsm", "d": "dtrsm", "F": "ctrsm", "D": "ztrsm"}


def _by_halves(A: Any, B: Any, upper: bool) -> Any:
    """The same of regular matrices: of large ones half the rows, whose product with the rest leaves a system for the other half.

    NumPy has no solver for triangles, so without SciPy most of the work is to be in products.
    """
    size = A.shape[-1]
    if size <= _LARGE:
        return np.linalg.solve(triu(A) if upper else tril(A), B)
    low, high = slice(size // 2), slice(size // 2, None)
    first, rest = (high, low) if upper else (low, high)
    known = _by_halves(A[..., first, first], B[..., first, :], upper)
    other = _by_halves(A[..., rest, rest], B[..., rest, :] - A[..., rest, first] @ known, upper)
    return np.concatenate((other, known) if upper else (known, other), -2)


_LARGE = 100


def _substituted(A: np.ndarray, B: np.ndarray, upper: bool) -> np.ndarray:
    """The same row by row, with inf and NaN only in the rows to which they belong: for zeros on the diagonal, and what is not finite."""
    X = np.empty(np.broadcast_shapes((*A.shape[:-1], 1), B.shape), B.dtype)
    size = A.shape[-1]
    for i in reversed(range(size)) if upper else range(size):
        known = slice(i + 1, None) if upper else slice(i)
        X[..., i, :] = (B[..., i, :] - np.sum(A[..., i, known, None] * X[..., known, :], axis=-2)) / A[..., i, i, None]
    return X


def solve_triangle(A: Any, B: Any, upper: bool, unitriangular: bool, left: bool = True) -> Any:
    """The solution X of A X = B (or X A = B) for triangular matrices A, of which the other triangle is not looked at."""
    return solve_triangular_op(A, [B], upper, unitriangular, left)


_triangle = matrices("solve_triangular", square=True)


def _refuse_misfit(name: str, a: tuple[int, ...], b: tuple[int, ...], left: bool, vector: bool = False) -> None:
    """Refuse shapes of A and B that are those of no equation; whether their batches broadcast is seen when it is solved."""
    if (vector and not left) or len(b) + vector < 2 or a[-1] != b[-2 if left and not vector else -1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(f"linalg.{name}: Incompatible shapes of A and B for the equation {equation} ({list(a)} and {list(b)})")


@composite(method=False)
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The X for which A X = B (or X A = B), where A is triangular; the other triangle is not read.

    Args:
        A: (..., n, n), float or complex.
        B: (..., n, k), or (..., k, n) for X A = B; the batches broadcast.
        upper: whether A is an upper triangle.
        left: whether A stands on the left.
        unitriangular: take A's diagonal as ones.
    Returns: X; inf or NaN where A's diagonal is zero.
    Raises: RuntimeError for other shapes and dtypes.
    Source: torch.linalg.solve_triangular.
    Example:
        >>> gradlib.linalg.solve_triangular(gradlib.tensor([[2.0, 0.0], [1.0, 1.0]]), gradlib.tensor([[2.0], [3.0]]), upper=False)
        tensor([[1.],
                [2.]])
    """
    _triangle([A, B])
    _refuse_misfit("solve_triangular", raw(A).shape, raw(B).shape, left)
    return solve_triangular_op(A, [B], upper, unitriangular, left)


# ---- inverses ----------------------------------------------------------------------------------------------------------------


def _attempt_regular(xp: Any, name: str, advice: str, function: Any, A: Any, *rest: Any) -> Any:
    """``attempt``; but matrices that hold NaN are no singular ones, as which LAPACK reports some: their result is NaN.

    Where elimination in a matrix that is not finite (on the CPU) met NaN, it leaves NaN in those rows only to which its pivots led it;
    the whole result is NaN then.
    """
    try:
        made = attempt(name, advice, function, A, *rest)
        if xp is not np or all_finite(made):
            return made
        unknown = (np.isnan(made).any((-2, -1)) & ~np.isfinite(A).all((-2, -1)))[..., None, None]
    except LinAlgError:
        unknown = np.isnan(A).any((-2, -1))[..., None, None]
        if not unknown.any():
            raise
        made = attempt(name, advice, function, np.where(unknown, np.eye(A.shape[-1], dtype=A.dtype), A), *rest)
    return np.where(unknown, nan_of(made.dtype), made)


@op(
    "other", promote=matrices("inv", square=True), method=False, A=lambda g, out: -(out.mT @ (g @ out.mT)),
    jvp=lambda t_A, out: -(out @ (t_A @ out)),
    kernels={"out": elimination.inverted, "A": slopes.inverse_slope},
)  # fmt: skip
def inv(xp: Any, A: Any) -> Any:
    """The inverse of square matrices. To multiply with it, ``solve`` is quicker and more accurate.

    Args:
        A: (..., n, n), float or complex.
    Raises: LinAlgError (on the CPU) for a singular matrix, RuntimeError for other shapes and dtypes.
    Source: torch.linalg.inv.
    Example:
        >>> gradlib.linalg.inv(2 * gradlib.eye(2))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.5000]])
    """
    return _attempt_regular(xp, "inv", "Use linalg.pinv for matrices that have no inverse.", xp.linalg.inv, A)


@composite
def inverse(input: Any) -> Any:
    """Another name of ``linalg.inv``.

    Args:
        input: (..., n, n), or (..., m, n) for ``pinverse``; float or complex.
    Source: torch.inverse.
    Example:
        >>> gradlib.inverse(2 * gradlib.eye(2))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.5000]])
    """
    return inv(input)


def _pinv_slope(g: Any, A: Any, out: Any) -> Any:
    """Golub's and Pereyra's formula, which holds while the rank does not change."""
    back, P = adjoint(g), out
    Ph = adjoint(P)
    if A.shape[-2] <= A.shape[-1]:
        K = back @ P
        KPh = K @ Ph
        return KPh - adjoint(P @ K) - (A @ P) @ KPh + (Ph @ P) @ (back - K @ A)
    K = P @ back
    PhK = Ph @ K
    return ((back - A @ K) @ P) @ Ph - adjoint(K @ P) + PhK - (PhK @ P) @ A


def _pinv_tangent(t_A: Any, A: Any, out: Any) -> Any:
    """The same formula for a tangent."""
    turned = adjoint(t_A)
    left, right = out @ adjoint(out) @ turned, turned @ adjoint(out) @ out
    return left - (left @ A) @ out + right - out @ (A @ right) - out @ (t_A @ out)


def _by_values(xp: Any, A: Any, atol: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any]:
    """The inverse on the singular vectors whose values exceed max(atol, rtol * the largest), zero on the others; and those values."""
    if hermitian:
        (values, U), broken = iterate("pinv", xp.linalg.eigh, A, part="L")
        V, turned = U, False
    else:
        (U, values, Vh), broken = iterate("pinv", xp.linalg.svd, A, False)
        V, turned = Vh.mT, Vh.dtype.kind == "c"
    back = (U.conj() if U.dtype.kind == "c" else U).mT
    left = scaled_by_reciprocals(V, values, broken, atol, rtol, turned) if xp is not np and broken is not None else None
    if left is not None:
        return xp.matmul(left, back), values
    values = nan_where(broken, values)
    size = xp.abs(values) if hermitian else values
    largest = size.max(-1, keepdims=True) if size.shape[-1] else size.sum(-1, keepdims=True)
    bound = xp.maximum(xp.asarray(atol)[..., None], xp.asarray(rtol)[..., None] * largest)
    kept = size > bound
    reciprocal = xp.where(kept, 1 / xp.where(kept, values, 1), 0)
    inverse = xp.matmul((V.conj() if turned else V) * reciprocal[..., None, :], back)
    return inverse if broken is None else xp.where(broken[..., None, None], nan_of(inverse.dtype), inverse), values


@op(
    "other", complex="explicit", A=_pinv_slope, jvp=_pinv_tangent,
    kernels={"out": singular.pseudoinverse, "A": slopes.pinv_slope},
)  # fmt: skip
def pinv_op(xp: Any, A: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """The inverse of matrices on the singular vectors whose values exceed max(atol, rtol * the largest), zero on the others."""
    return _by_values(xp, A, atol, rtol, hermitian)[0]


def _tolerances(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """torch's defaults: rtol is eps * max(m, n), unless an atol is given."""
    if isinstance(atol, Batched) or isinstance(rtol, Batched):
        refuse_values()
    if rtol is None:
        default = np.finfo(A.dtype).eps * max(A.shape[-2:])
        if atol is None:
            return 0.0, default
        if is_array(raw(atol)):
            with on_device_of(raw(atol)):
                rtol = namespace(raw(atol)).where(raw(atol) > 0, 0.0, default)
        else:
            rtol = default if atol <= 0 else 0.0
    return (0.0 if atol is None else raw(atol)), raw(rtol)


_TO_INVERT, _SQUARE_TO_INVERT = matrices("pinv"), matrices("pinv", square=True)


@composite(method=False)
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """The Moore-Penrose pseudoinverse of matrices, which is the inverse where there is one.

    Args:
        A: (..., m, n), float or complex.
        rcond: the older name of rtol.
        hermitian: whether A is Hermitian, so that its eigenvalues will do; only its lower triangle is read then.
        atol, rtol: singular values up to max(atol, rtol * the largest) count as zero; numbers, or tensors (...). Without them, the dtype's
            epsilon times max(m, n) is rtol.
    Returns: (..., n, m). Its derivative exists where the rank does not change.
    Raises: RuntimeError for other shapes and dtypes.
    Source: torch.linalg.pinv.
    Example:
        >>> gradlib.linalg.pinv(gradlib.tensor([[2.0], [0.0]]))
        tensor([[0.5000, 0.0000]])
    """
    (_SQUARE_TO_INVERT if hermitian else _TO_INVERT)([A])
    return pinv_op(A, *_tolerances(A, atol, rtol if rcond is None else rcond), hermitian)


@composite
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """``linalg.pinv`` with an rtol of 1e-15.

    Args:
        input: (..., m, n), float or complex.
        rcond: the rtol, where another is wanted.
    Source: torch.pinverse.
    Example:
        >>> gradlib.pinverse(gradlib.tensor([[2.0], [0.0]]))
        tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rcond)


# ---- systems of equations ----------------------------------------------------------------------------------------------------


def _solve_slopes(g: Any, A: Any, out: Any, on_left: bool, vector: bool) -> list[Any]:
    inner = solve_op(A.mT, [g], on_left, vector)
    if out is None:
        return [None, inner]
    return [-(inner[..., None] * out[..., None, :]) if vector else _slope_of_matrix(inner, out, on_left), inner]


def _solve_tangent(t_A: Any, t_B: list[Any], A: Any, out: Any, on_left: bool, vector: bool) -> Any:
    """The solution by the same matrix of what the tangents leave of A X = B."""
    moved = (t_A @ out[..., None])[..., 0] if vector else t_A @ out if on_left else out @ t_A
    return solve_op(A, [t_B[0] - moved], on_left, vector)


@op(
    "other", sequence="B", A=Joint(needs=("out",)), B=_solve_slopes, jvp=_solve_tangent,
    kernels={"out": elimination.solved, "B": elimination.solved_slopes},
)  # fmt: skip
def solve_op(xp: Any, A: Any, B: Any, on_left: bool, vector: bool) -> Any:
    """The X of A X = B, or where not ``on_left`` of X A = B; B is a list of one, of matrices or of vectors. The batches broadcast."""
    (B,) = B
    made = _solved(xp, _eliminated, A, B[..., None] if vector else B, on_left)
    return made[..., 0] if vector else made


def _eliminated(xp: Any, A: Any, B: Any) -> Any:
    return _attempt_regular(xp, "solve", "A must not be singular; linalg.lstsq finds the nearest solution.", xp.linalg.solve, A, B)


_square_and_more = matrices("solve", square=True, vectors=True)


def solve_equations(A: Any, B: Any, left: bool = True, vector: bool | None = None) -> Any:
    """``solve`` where right sides are vectors or matrices as it is said; as torch takes them when None."""
    a, b = raw(A).shape, raw(B).shape
    if vector is None:
        vector = len(b) == 1 or b == a[:-1]
    _square_and_more([A, B])
    _refuse_misfit("solve", a, b, left, vector)
    return solve_op(A, [B], left, vector)


@composite(method=False)
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The X for which A X = B (or X A = B).

    Args:
        A: (..., n, n), float or complex.
        B: matrices (..., n, k), or (..., k, n) for X A = B, whose batch broadcasts with A's; or a vector (n,) for one matrix or all; or
            vectors (..., n), as many as matrices.
        left: whether A stands on the left.
    Returns: X, of B's kind.
    Raises: LinAlgError (on the CPU) when A is singular, RuntimeError for other shapes and dtypes.
    Source: torch.linalg.solve.
    Example:
        >>> gradlib.linalg.solve(2 * gradlib.eye(2), gradlib.tensor([2.0, 4.0]))
        tensor([1., 2.])
    """
    return solve_equations(A, B, left)


def _of_residuals(g: Any, A: Any, B: Any, X: Any) -> Any:
    """2 (A X - B) times the gradient by the residuals; None where there are none."""
    if g is None or g.ndim < A.ndim - 1 or not g.shape[-1]:
        return None
    return (A @ X - B) * (2 * g[..., None, :])


def _columns(vector: bool, *right: Any) -> list[Any]:
    """Right sides, and what is like them, as matrices; None stays None."""
    return [x[..., None] if vector and x is not None else x for x in right]


def _fit_slope_of_right(g: Any, A: Any, B: Any, solution: Any, inverse: Any, vector: bool) -> Any:
    """P^H gX - 2 (A X - B) g_residuals, where P is the pseudoinverse."""
    gX, B, X = _columns(vector, g[0], B, solution)
    by_residuals = _of_residuals(g[1], A, B, X)
    if gX is None:
        made = B * 0 if by_residuals is None else -by_residuals
    else:
        made = adjoint(inverse) @ gX
        made = made if by_residuals is None else made - by_residuals
    return made[..., 0] if vector else made


def _fit_slope(g: Any, A: Any, B: Any, solution: Any, inverse: Any, vector: bool) -> Any:
    """By Golub's and Pereyra's derivative of the pseudoinverse P, in products with X = P B rather than P where there are such."""
    _, g_residuals, _, _, g_inverse = g
    gX, B, X = _columns(vector, g[0], B, solution)
    by_residuals = _of_residuals(g_residuals, A, B, X)
    parts = [] if by_residuals is None else [by_residuals @ adjoint(X)]
    if gX is not None:
        Ph = adjoint(inverse)
        turned = Ph @ gX
        beyond = adjoint(gX - inverse @ (A @ gX))
        parts.append((B - A @ X) @ adjoint(inverse @ turned) - turned @ adjoint(X) + (Ph @ X) @ beyond)
    if g_inverse is not None:
        parts.append(_pinv_slope(g_inverse, A, inverse))
    made = parts[0] if parts else A * 0
    for each in parts[1:]:
        made = made + each
    return made


def _fit_tangent(
    t_A: Any, t_B: Any, A: Any, B: Any, solution: Any, residuals: Any, inverse: Any, vector: bool
) -> tuple[Any, Any, None, None, Any]:
    """That of P B, and of the squares of what is left, A X - B, at right angles to which A's columns are."""
    moved = _pinv_tangent(t_A, A, inverse)
    tB, B, X = _columns(vector, t_B, B, solution)
    of_solution = moved @ B + inverse @ tB
    of_residuals = residuals * 0
    if 0 not in residuals.shape:
        products = (A @ X - B).conj() * (t_A @ X - tB)
        of_residuals = sum(products.real if products.dtype.kind == "c" else products, -2) * 2
    return of_solution[..., 0] if vector else of_solution, of_residuals, None, None, moved


@op(
    "other", outputs=("solution", "residuals", "rank", "singular_values", "inverse"), differentiable=(0, 1, 4), complex="explicit",
    A=_fit_slope, B=_fit_slope_of_right, jvp=_fit_tangent, kernels={"out": singular.fitted, "A": slopes.fit_slope},
)  # fmt: skip
def lstsq_op(xp: Any, A: Any, B: Any, rtol: Any, driver: str, asks: bool, vector: bool) -> Any:
    """What ``lstsq`` returns, and the pseudoinverse. ``asks``: whether for "gelsd" and "gelss" residuals depend on the rank."""
    inverse, values = _by_values(xp, A, 0.0, rtol, False)
    rank = (values > rtol * values[..., :1]).sum(-1)
    (right,) = _columns(vector, B)
    X = xp.matmul(inverse, right)  # NaN where A is not finite, as the inverse is
    rows, columns = A.shape[-2:]
    nothing = values.reshape(-1)[:0]
    if driver == "gelsy" or rows <= columns or (asks and driver != "gels" and not (rank == columns).all()):
        residuals = nothing
    else:
        residuals = xp.sum(xp.abs(xp.matmul(A, X) - right) ** 2, -2)
    shown = values if driver in ("gelsd", "gelss") else nothing
    if X.shape[:-2] != inverse.shape[:-2]:  # so that the parts of a gradient are as many
        inverse = broadcast_to(inverse, (*X.shape[:-2], *inverse.shape[-2:]))
    return X[..., 0] if vector else X, residuals, rank.reshape(-1)[:0] if driver == "gels" else rank, shown, inverse


_TO_FIT = matrices("lstsq")


@composite(method=False)
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X of smallest norm among those for which the norm of A X - B is smallest, by singular values.

    Args:
        A: (..., m, n), float or complex.
        B: (..., m, k) or (..., m), whose batch broadcasts with A's.
        rcond: singular values up to rcond times the largest count as zero; the dtype's epsilon times max(m, n) when None.
        driver: torch's choice of method, "gelsy", "gels", "gelsd" or "gelss"; here it only says which results are filled in.
    Returns: the named tuple (solution (..., n, k) or (..., n); residuals (..., k), the squared norms of A X - B, where m > n, for "gelsd"
        and "gelss" if every A has full rank (for which the host waits), for "gels" always, for "gelsy" never, else empty; rank (...), empty
        for "gels"; singular_values (..., min(m, n)) for "gelsd" and "gelss", else empty).
    Raises: RuntimeError for another driver and for other shapes and dtypes.
    Source: torch.linalg.lstsq.
    Example:
        >>> gradlib.linalg.lstsq(gradlib.tensor([[1.0], [1.0]]), gradlib.tensor([[1.0], [3.0]])).solution
        tensor([[2.0000]])
    """
    _TO_FIT([A])
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}")
    a, b = A.shape, B.shape
    if A.ndim - B.ndim not in (0, 1) or B.dtype != A.dtype:
        found = f"{list(a)} {A.dtype} and {list(b)} {B.dtype}"
        raise RuntimeError(f"linalg.lstsq: B must have A's dtype and as many dimensions, or one less, got {found}")
    vector = A.ndim > B.ndim
    if b[-1 if vector else -2] != a[-2]:
        raise RuntimeError(f"linalg.lstsq: A and B must have as many rows, got {list(a)} and {list(b)}")
    rtol = np.finfo(A.dtype).eps * max(a[-2:]) if rcond is None else rcond
    return Lstsq(*lstsq_op(A, B, rtol, driver, True, vector)[:-1])
