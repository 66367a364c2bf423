"""cuBLAS and cuSOLVER on the CPU, through CuPy's own functions, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from gradlib.testing import hostcuda
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (3, 3), (5, 2), (2, 5), (33, 40), (40, 33)]


def made(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of about 1, complex ones with both parts."""
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def definite(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Hermitian positive-definite matrices."""
    a = made(rng, shape, dtype)
    return (a @ a.conj().swapaxes(-2, -1) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def assert_close(got: Any, expected: Any, factor: float = 100) -> None:
    """Equal shape and dtype, and values to a multiple of the dtype's precision."""
    got, expected = cupy.asnumpy(got), np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=factor * float(np.finfo(expected.dtype).eps) * scale)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=-2)[..., ::2, :],
    "every other column": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1, ::-1])[..., ::-1, ::-1],
}


def laid_out(a: np.ndarray, layout: str) -> tuple[Any, np.ndarray]:
    """The same matrix on both libraries, lying in memory as the layout says."""
    host = LAYOUTS[layout](a)
    whole = cupy.asarray(a)
    device = {
        "C": lambda: whole,
        "F": lambda: cupy.asfortranarray(whole),
        "every other row": lambda: cupy.repeat(whole, 2, axis=-2)[..., ::2, :],
        "every other column": lambda: cupy.repeat(whole, 2, axis=-1)[..., ::2],
        "backwards": lambda: cupy.ascontiguousarray(whole[..., ::-1, ::-1])[..., ::-1, ::-1],
    }[layout]()
    assert device.strides == host.strides
    return device, host


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(rng: np.random.Generator, dtype: str, layout: str) -> None:
    for m, k, n in [(1, 1, 1), (4, 3, 5), (17, 33, 9), (1, 7, 3), (3, 7, 1)]:
        if np.dtype(dtype).kind in "iub":
            a, b = rng.integers(0, 2, (m, k)).astype(dtype), rng.integers(0, 2, (k, n)).astype(dtype)
        else:
            a, b = made(rng, (m, k), dtype), made(rng, (k, n), dtype)
        (da, a), (db, b) = laid_out(a, layout), laid_out(b, layout)
        # NumPy adds halves up in float32 as cuBLAS does, and rounds once
        expected = (a.astype("f4") @ b.astype("f4")).astype("f2") if dtype == "float16" else a @ b
        if np.dtype(dtype).kind in "iub":
            np.testing.assert_array_equal(cupy.asnumpy(da @ db), expected)
        else:
            assert_close(da @ db, expected, 1 if dtype == "float16" else 100)
            assert_close(cupy.dot(db.T, da.T), expected.T, 1 if dtype == "float16" else 100)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_stacks(rng: np.random.Generator, dtype: str) -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 4, 5), (3, 5, 2)),
        ((2, 3, 4, 5), (5, 2)),
        ((1, 4, 5), (6, 5, 2)),
        ((4, 5), (3, 5, 2)),
        ((0, 4, 5), (0, 5, 2)),
        ((3, 4, 0), (3, 0, 2)),
    ]
    for left, right in shapes:
        a, b = made(rng, left, dtype), made(rng, right, dtype)
        assert_close(cupy.matmul(cupy.asarray(a), cupy.asarray(b)), a @ b)
        swapped = cupy.asarray(a).swapaxes(-2, -1).copy().swapaxes(-2, -1)
        assert_close(swapped @ cupy.asarray(b), a @ b)
    a, b = made(rng, (4, 5, 6), dtype), made(rng, (6, 5, 3), dtype)
    assert_close(cupy.tensordot(cupy.asarray(a), cupy.asarray(b), axes=([1, 2], [1, 0])), np.tensordot(a, b, axes=([1, 2], [1, 0])))
    assert_close(cupy.einsum("abc,cbd->ad", cupy.asarray(a), cupy.asarray(b)), np.einsum("abc,cbd->ad", a, b))
    v, w = made(rng, (9,), dtype), made(rng, (9,), dtype)
    assert_close(cupy.dot(cupy.asarray(v), cupy.asarray(w)), np.dot(v, w))
    assert_close(cupy.vdot(cupy.asarray(v), cupy.asarray(w)), np.vdot(v, w))
    assert_close(cupy.outer(cupy.asarray(v), cupy.asarray(w)), np.outer(v, w))
    assert_close(cupy.asarray(a) @ cupy.asarray(v[:6]), a @ v[:6])


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_in_cublas(rng: np.random.Generator, dtype: str) -> None:
    from cupy import cublas

    x, y = made(rng, (50,), dtype), made(rng, (50,), dtype)
    dx, dy = cupy.asarray(x), cupy.asarray(y)
    size = np.abs(x.real) + np.abs(x.imag)
    assert int(cublas.iamax(dx)) == size.argmax() + 1
    assert int(cublas.iamin(dx)) == size.argmin() + 1
    assert_close(cublas.asum(dx), size.sum().astype(x.real.dtype))
    assert_close(cublas.nrm2(dx), np.linalg.norm(x).astype(x.real.dtype))
    if np.dtype(dtype).kind == "c":
        assert_close(cublas.dotu(dx, dy), (x * y).sum())
        assert_close(cublas.dotc(dx, dy), np.vdot(x, y))
    else:
        assert_close(cublas.dot(dx, dy), x @ y)
    a = np.dtype(dtype).type(1.5)
    cublas.axpy(a, dx, dy)
    assert_close(dy, a * x + y)
    cublas.scal(a, dx)
    assert_close(dx, a * x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", "CF")
def test_matrices_in_cublas(rng: np.random.Generator, dtype: str, order: str) -> None:
    from cupy import cublas

    A, B = made(rng, (6, 4), dtype), made(rng, (6, 4), dtype)
    x, y = made(rng, (4,), dtype), made(rng, (6,), dtype)
    dA, dB, dx, dy = cupy.asarray(A, order=order), cupy.asarray(B, order=order), cupy.asarray(x), cupy.asarray(y)
    out = dy.copy()
    cublas.gemv("N", 2.0, dA, dx, 0.5, out)
    assert_close(out, (2 * A @ x + 0.5 * y).astype(dtype))
    out = dx.copy()
    cublas.gemv("H", 2.0, dA, dy, 0.0, out)
    assert_close(out, (2 * A.conj().T @ y).astype(dtype))
    out = dA.copy(order="F")
    if np.dtype(dtype).kind == "c":
        cublas.gerc(1.5, dy, dx, out)
        assert_close(out, (A + 1.5 * np.outer(y, x.conj())).astype(dtype))
    else:
        cublas.ger(1.5, dy, dx, out)
        assert_close(out, (A + np.dtype(dtype).type(1.5) * np.outer(y, x)).astype(dtype))
    assert_close(cublas.gemm("N", "T", dA, dB), A @ B.T)
    assert_close(cublas.geam("N", "N", 2.0, dA, -1.0, dB), (2 * A - B).astype(dtype))
    assert_close(cublas.dgmm("L", dA, dy), y[:, None] * A)
    assert_close(cublas.dgmm("R", dA, dx), A * x)
    assert_close(cupy.triu(cublas.syrk("N", dA, lower=False)), np.triu(A @ A.T))


def test_a_factor_of_zero_does_not_read_the_result() -> None:
    from cupy import cublas

    a = cupy.ones((3, 3))
    out = cupy.full((3, 3), cupy.nan, order="F")
    cublas.gemm("N", "N", a, a, out=out, alpha=1.0, beta=0.0)
    assert (out.get() == 3).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_systems(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], n: int) -> None:
    A = made(rng, (*batch, n, n), dtype) + 3 * np.eye(n, dtype=dtype)
    B = made(rng, (*batch, n, 3), dtype)
    dA, dB = cupy.asarray(A), cupy.asarray(B)
    assert_close(cupy.linalg.solve(dA, dB), np.linalg.solve(A, B), 1e4)
    if not batch:
        assert_close(cupy.linalg.solve(dA, dB[:, 0]), np.linalg.solve(A, B[:, 0]), 1e4)
    assert_close(cupy.linalg.inv(dA), np.linalg.inv(A), 1e4)
    if batch != (0,):
        assert_close(cupy.linalg.det(dA).get() / np.linalg.det(A), np.ones(batch, dtype), 1e4)
        sign, size = cupy.linalg.slogdet(dA)
        expected = np.linalg.slogdet(A)
        assert_close(sign, expected[0], 1e3)
        assert_close(size, expected[1], 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_cholesky(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], n: int) -> None:
    A = definite(rng, (*batch, n, n), dtype)
    assert_close(cupy.linalg.cholesky(cupy.asarray(A)), np.linalg.cholesky(A), 1e3)
    assert_close(cupy.linalg.cholesky(cupy.asarray(A).swapaxes(-2, -1)), np.linalg.cholesky(A.swapaxes(-2, -1)), 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    A = made(rng, (*batch, *shape), dtype)
    for mode in ("reduced", "complete"):
        q, r = cupy.linalg.qr(cupy.asarray(A), mode)
        shapes = [part.shape for part in np.linalg.qr(A, mode)]
        assert [q.shape, r.shape] == shapes
        assert_close(q @ r, A, 1e3)
        unit = q.conj().swapaxes(-2, -1) @ q
        assert_close(unit, np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), unit.shape), 1e3)
        assert_close(r, np.triu(r.get()), 0)
    assert_close(cupy.linalg.qr(cupy.asarray(A), "r"), np.linalg.qr(A, "r"), 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("whole", [False, True])
def test_svd(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], shape: tuple[int, int], whole: bool) -> None:
    A = made(rng, (*batch, *shape), dtype)
    u, s, vh = cupy.linalg.svd(cupy.asarray(A), full_matrices=whole)
    expected = np.linalg.svd(A, full_matrices=whole)
    assert [part.shape for part in (u, s, vh)] == [part.shape for part in expected]
    assert_close(s, expected[1], 1e3)
    k = min(shape)
    assert_close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], A, 1e3)
    for unitary in (u.conj().swapaxes(-2, -1) @ u, vh @ vh.conj().swapaxes(-2, -1)):
        assert_close(unitary, np.broadcast_to(np.eye(unitary.shape[-1], dtype=dtype), unitary.shape), 1e3)
    assert_close(cupy.linalg.svd(cupy.asarray(A), compute_uv=False), expected[1], 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("n", [1, 4, 35])
def test_eigh(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], uplo: str, n: int) -> None:
    A = made(rng, (*batch, n, n), dtype)  # only the named triangle is read
    w, v = cupy.linalg.eigh(cupy.asarray(A), uplo)
    expected = np.linalg.eigh(A, uplo)[0]
    assert_close(w, expected, 1e3)
    half = np.tril(A, -1) if uplo == "L" else np.triu(A, 1)
    diagonal = np.einsum("...ii->...i", A).real
    whole = half + half.conj().swapaxes(-2, -1) + diagonal[..., None] * np.eye(n)
    assert_close(cupy.asarray(whole.astype(dtype)) @ v, (v * w[..., None, :]).get().astype(dtype), 1e3)
    assert_close(cupy.linalg.eigvalsh(cupy.asarray(A), uplo), expected, 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_eig(rng: np.random.Generator, dtype: str, batch: tuple[int, ...]) -> None:
    A = made(rng, (*batch, 6, 6), dtype)
    w, v = cupy.linalg.eig(cupy.asarray(A))
    assert_close(cupy.asarray(A.astype(w.dtype)) @ v, (v * w[..., None, :]).get(), 1e4)
    by_size = np.sort_complex(cupy.asnumpy(cupy.linalg.eigvals(cupy.asarray(A))))
    np.testing.assert_allclose(by_size, np.sort_complex(np.linalg.eigvals(A)).astype(by_size.dtype), atol=1e4 * np.finfo(by_size.dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_and_pseudoinverse(rng: np.random.Generator, dtype: str) -> None:
    A, B = made(rng, (7, 4), dtype), made(rng, (7, 2), dtype)
    x, residuals, rank, s = cupy.linalg.lstsq(cupy.asarray(A), cupy.asarray(B), rcond=None)
    expected = np.linalg.lstsq(A, B, rcond=None)
    assert_close(x, expected[0], 1e3)
    assert_close(residuals, expected[1], 1e4)
    assert int(rank) == expected[2]
    assert_close(s, expected[3], 1e3)
    assert_close(cupy.linalg.pinv(cupy.asarray(A)), np.linalg.pinv(A), 1e4)
    assert int(cupy.linalg.matrix_rank(cupy.asarray(A @ A.conj().T).astype("D"))) >= 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_scipys_decompositions(rng: np.random.Generator, dtype: str) -> None:
    import cupyx.scipy.linalg as linalg

    A, B = made(rng, (6, 6), dtype), made(rng, (6, 2), dtype)
    lu, pivots = linalg.lu_factor(cupy.asarray(A))
    expected = scipy.linalg.lu_factor(A)
    assert_close(lu, expected[0], 1e3)
    np.testing.assert_array_equal(cupy.asnumpy(pivots), expected[1])
    for trans in (0, 1, 2):
        assert_close(linalg.lu_solve((lu, pivots), cupy.asarray(B), trans=trans), scipy.linalg.lu_solve(expected, B, trans=trans), 1e4)
    T = np.tril(A) + 4 * np.eye(6, dtype=dtype)
    for trans in (0, 1, 2):
        for order in "CF":
            got = linalg.solve_triangular(cupy.asarray(T, order=order), cupy.asarray(B), lower=True, trans=trans)
            assert_close(got, scipy.linalg.solve_triangular(T, B, lower=True, trans=trans), 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lapack_of_cupyx(rng: np.random.Generator, dtype: str) -> None:
    from cupyx import lapack

    A, B = made(rng, (5, 5), dtype), made(rng, (5, 2), dtype)
    x = cupy.asarray(B, order="F")
    lapack.gesv(cupy.asarray(A, order="F"), x)
    assert_close(x, np.linalg.solve(A, B), 1e4)
    tall = made(rng, (7, 3), dtype)
    right = made(rng, (7, 2), dtype)
    assert_close(lapack.gels(cupy.asarray(tall), cupy.asarray(right)), np.linalg.lstsq(tall, right, rcond=None)[0], 1e4)
    wide = made(rng, (3, 7), dtype)
    assert_close(lapack.gels(cupy.asarray(wide), cupy.asarray(right[:3])), np.linalg.lstsq(wide, right[:3], rcond=None)[0], 1e4)
    P = definite(rng, (4, 4), dtype)
    assert_close(lapack.posv(cupy.asarray(P), cupy.asarray(B[:4])), np.linalg.solve(P, B[:4]), 1e4)
    stack, sides = definite(rng, (3, 4, 4), dtype), made(rng, (3, 4, 1), dtype)
    assert_close(lapack.posv(cupy.asarray(stack), cupy.asarray(sides)), np.linalg.solve(stack, sides), 1e4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_jacobis_methods(rng: np.random.Generator, dtype: str) -> None:
    from cupyx import cusolver

    A = made(rng, (6, 4), dtype)
    values = np.linalg.svd(A, compute_uv=False)
    for u, s, v in (cusolver.gesvdj(cupy.asarray(A), full_matrices=False), cusolver.gesvda(cupy.asarray(A))):
        assert_close(s, values, 1e3)
        assert_close((u * s) @ v.conj().T, A, 1e3)
    H = definite(rng, (5, 5), dtype)
    w, v = cusolver.syevj(cupy.asarray(H))
    assert_close(w, np.linalg.eigvalsh(H), 1e3)
    assert_close(cusolver.gesv(cupy.asarray(H), cupy.asarray(A[:5])), np.linalg.solve(H, A[:5]), 1e4)
    assert_close(cusolver.gels(cupy.asarray(A), cupy.asarray(A[:, :2])), np.linalg.lstsq(A, A[:, :2], rcond=None)[0], 1e4)


# ---- what goes wrong goes wrong as in cuSOLVER: silently, unless the info is read ------------------------------------------------------

FAILURES: dict[str, Callable[[], Any]] = {
    "cholesky of an indefinite matrix": lambda: cupy.linalg.cholesky(cupy.asarray([[1.0, 2.0], [2.0, 1.0]])),
    "cholesky of a stack with one of those": lambda: cupy.linalg.cholesky(cupy.asarray([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]])),
    "solve with a singular matrix": lambda: cupy.linalg.solve(cupy.ones((2, 2)), cupy.ones(2)),
    "inv of a singular matrix": lambda: cupy.linalg.inv(cupy.ones((2, 2))),
    "inv of a stack with one of those": lambda: cupy.linalg.inv(cupy.asarray([np.eye(2), np.ones((2, 2))])),
    "svd of NaN": lambda: cupy.linalg.svd(cupy.full((3, 3), cupy.nan)),
    "svd of a stack with NaN": lambda: cupy.linalg.svd(cupy.asarray([np.eye(3), np.full((3, 3), np.nan)])),
    "eigh of NaN": lambda: cupy.linalg.eigh(cupy.full((3, 3), cupy.nan)),
    "eigh of a stack with NaN": lambda: cupy.linalg.eigh(cupy.asarray([np.eye(3), np.full((3, 3), np.nan)])),
}


@pytest.mark.nonfinite
@pytest.mark.parametrize("failure", FAILURES)
def test_failures_are_silent_unless_asked_for(failure: str) -> None:
    import cupyx

    FAILURES[failure]()
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match=r"devInfo|infoArray"):
        FAILURES[failure]()


def infos(values: list[Any], dtype: str = "float64") -> tuple[Any, Any]:
    """potrfBatched of a list of matrices, called as CuPy calls it. Returns: the info codes and what is left of the matrices."""
    from cupy_backends.cuda.libs import cublas, cusolver

    x = cupy.asarray(values, dtype=dtype)
    pointers = cupy.arange(x.data.ptr, x.data.ptr + x.nbytes, x[0].nbytes, dtype=cupy.uintp)
    info = cupy.full(len(values), -7, dtype="i")
    handle = cupy.cuda.device.get_cusolver_handle()
    n = x.shape[-1]
    cusolver.dpotrfBatched(handle, cublas.CUBLAS_FILL_MODE_UPPER, n, pointers.data.ptr, n, info.data.ptr, len(values))
    return info.get(), x.get()


def test_info_names_the_minor_that_is_not_positive() -> None:
    info, factors = infos([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.diag([0.0, 1.0, 1.0])])
    np.testing.assert_array_equal(info, [0, 2, 1])
    assert np.isnan(np.triu(factors[0], 1)[0, 1])  # upper in column order is lower here: the other triangle is cuSOLVER's workspace
    np.testing.assert_array_equal(np.tril(factors[0]), np.eye(3))


def test_lu_goes_on_behind_a_pivot_of_zero() -> None:
    from cupy.linalg._decomposition import _lu_factor

    stack = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    _, pivots, info = _lu_factor(cupy.asarray(stack), np.dtype("float64"))
    np.testing.assert_array_equal(info.get(), [0, 2, 1])
    np.testing.assert_array_equal(pivots.get()[0], [1, 2, 3])


@pytest.mark.nonfinite
def test_inverse_of_a_singular_matrix_in_a_stack_is_not_finite() -> None:
    got = cupy.linalg.inv(cupy.asarray([np.diag([2.0, 4.0]), np.zeros((2, 2))])).get()
    np.testing.assert_array_equal(got[0], np.diag([0.5, 0.25]))
    assert not np.isfinite(got[1]).any()


def test_arguments_that_cusolver_refuses() -> None:
    from cupy_backends.cuda.libs import cusolver

    handle = cupy.cuda.device.get_cusolver_handle()
    with pytest.raises(cusolver.CUSOLVERError, match="INVALID_VALUE"):
        cusolver.dgesvd_bufferSize(handle, 3, 5)  # more columns than rows
    info = cusolver.createGesvdjInfo()
    with pytest.raises(cusolver.CUSOLVERError, match="INVALID_VALUE"):
        cusolver.dgesvdjBatched_bufferSize(handle, 1, 33, 33, 0, 33, 0, 0, 33, 0, 33, info, 2)  # at most 32
    cusolver.destroyGesvdjInfo(info)


def test_what_is_not_written_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    import cupyx.scipy.sparse
    from cupy_backends.cuda.libs import cusparse

    values, columns, rows = cupy.ones(2), cupy.arange(2, dtype="i"), cupy.arange(3, dtype="i")
    with pytest.raises(cusparse.CuSparseError, match="NOT_SUPPORTED"):
        cupyx.scipy.sparse.csr_matrix((values, columns, rows), shape=(2, 2)) @ values
    assert "is not written for the CPU" in capfd.readouterr().err


# ---- precisions that only tensor cores have ----------------------------------------------------------------------------------------------


def product_in(kind: int, a: Any, b: Any, cuda_type: int, scalar: str) -> float:
    """The product of a row and a column by cublasGemmEx with the precision that `kind` names."""
    from cupy_backends.cuda.libs import cublas

    n, out, one, zero = a.size, cupy.empty((1, 1), a.dtype), np.ones(1, scalar), np.zeros(1, scalar)
    left, right = (a.data.ptr, cuda_type, 1), (b.data.ptr, cuda_type, n)
    scalars = one.ctypes.data, zero.ctypes.data
    handle = cupy.cuda.device.get_cublas_handle()
    cublas.gemmEx(handle, 0, 0, 1, 1, n, scalars[0], *left, *right, scalars[1], out.data.ptr, cuda_type, 1, kind, -1)
    return float(out[0, 0])


@pytest.mark.parametrize(
    ("compute", "kept"), [("32F", 1 + 2.0**-11 + 2.0**-9 + 2.0**-20), ("32F_FAST_TF32", 1 + 2.0**-9), ("32F_FAST_16BF", 1.0)]
)
def test_a_shorter_precision_shortens_the_factors(compute: str, kept: float) -> None:
    from cupy_backends.cuda.libs import cublas

    a, b = cupy.asarray([[1 + 2.0**-9]], dtype="f"), cupy.asarray([[1 + 2.0**-11]], dtype="f")
    assert product_in(getattr(cublas, f"CUBLAS_COMPUTE_{compute}"), a, b, 0, "f") == np.float32(kept)


def test_sums_in_half_precision_stop_at_2048() -> None:
    from cupy_backends.cuda.libs import cublas

    ones = cupy.ones(4096, "e")
    assert product_in(cublas.CUBLAS_COMPUTE_32F, ones, ones, 2, "f") == 4096
    assert product_in(cublas.CUBLAS_COMPUTE_16F, ones, ones, 2, "e") == 2048


# ---- order ------------------------------------------------------------------------------------------------------------------------------


def drawn_into(a: Any) -> None:
    """Random numbers written over what an array holds."""
    from cupy_backends.cuda.libs import curand

    generator = curand.createGenerator(curand.CURAND_RNG_PSEUDO_PHILOX4_32_10)
    curand.generateUniformDouble(generator, a.data.ptr, a.size)
    curand.destroyGenerator(generator)


WORK: dict[str, Callable[[Any], Any]] = {
    "cuBLAS": lambda a: a @ a,
    "cuBLAS, a batch by pointers": lambda a: cupy.linalg.inv(a[None]),
    "cuSOLVER": lambda a: cupy.linalg.qr(a),
    "Thrust": lambda a: a.sort(),
    "CUB": lambda a: cupy.sum(a),
    "cuRAND": lambda a: drawn_into(a),
}


@pytest.mark.parametrize("work", WORK)
def test_libraries_keep_to_the_order_of_streams(work: str) -> None:
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with one:
        a = cupy.eye(8) + 1
    with hostcuda.expected("stream"), other:
        WORK[work](a)
    other.wait_event(one.record())
    with hostcuda.checked(), other:
        WORK[work](a)
    one.synchronize()
    other.synchronize()


def test_sparse_matrices_are_refused_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    with pytest.raises(Exception, match="CUSPARSE_STATUS_NOT_SUPPORTED"):
        sparse.csr_matrix(cupy.eye(3))
    assert "hostcuda: cusparseCreateDnMat is not written for the CPU" in capfd.readouterr().err
