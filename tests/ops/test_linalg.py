"""Linear algebra beyond the table: what is refused, singular and empty matrices, modes, named results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import linalg
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.ops.linalg import solve
from tests.values import host

INF = float("inf")


@pytest.fixture(autouse=True)
def operands(device: str) -> None:
    """What these tests work on, on the device of each."""
    global A, WIDE, SINGULAR, V
    A = gradlib.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]], dtype="float64")
    WIDE = gradlib.tensor(np.arange(6.0).reshape(2, 3))
    SINGULAR = gradlib.zeros(3, 3, dtype="float64")
    V = gradlib.tensor([1.0, 2.0, 3.0], dtype="float64")


SQUARE = {
    "det": linalg.det, "slogdet": linalg.slogdet, "inv": linalg.inv, "cholesky": linalg.cholesky, "eig": linalg.eig, "eigh": linalg.eigh,
    "eigvals": linalg.eigvals, "eigvalsh": linalg.eigvalsh, "solve": lambda a: linalg.solve(a, V.to(a.dtype)),
    "solve_triangular": lambda a: linalg.solve_triangular(a, V.to(a.dtype)[:, None], upper=True),
}  # fmt: skip
ANY = {
    "svd": linalg.svd, "svdvals": linalg.svdvals, "qr": linalg.qr, "pinv": linalg.pinv,
    "lstsq": lambda a: linalg.lstsq(a, V.to(a.dtype)),
}  # fmt: skip


# ---- what is refused --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SQUARE, *ANY])
def test_operands_that_are_no_float_matrices(name: str) -> None:
    call = {**SQUARE, **ANY}[name]
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(RuntimeError, match="Low precision dtypes not supported"):
            call(A.to(dtype))
    for dtype in ("int64", "bool"):
        with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor"):
            call(A.to(dtype))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        call(V)


@pytest.mark.parametrize("name", SQUARE)
def test_matrices_that_are_not_square(name: str) -> None:
    for matrix, sizes in ((WIDE, "2 by 3"), (WIDE.mT, "3 by 2"), (gradlib.ones(2, 3, 1), "3 by 1")):
        with pytest.raises(RuntimeError, match=f"must be batches of square matrices, but they are {sizes}"):
            SQUARE[name](matrix)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: linalg.inv(SINGULAR), "linalg.inv: Singular matrix"),
        (lambda: linalg.solve(SINGULAR, V), "linalg.solve: Singular matrix.*lstsq"),
        (lambda: linalg.matrix_power(SINGULAR, -1), "linalg.inv: Singular matrix"),
        (lambda: linalg.svd(A * float("nan"))[1], "must be finite"),
    ],
)
@pytest.mark.nonfinite
def test_problems_without_a_solution(call: Callable[[], Any], text: str, device: str) -> None:
    if device == "cpu":
        with pytest.raises(linalg.LinAlgError, match=text):
            call()
    else:  # nobody waits for an error
        assert not np.isfinite(host(call())).all()


def test_a_matrix_that_is_not_positive_definite() -> None:
    for A_or_batch in (-A, gradlib.stack([A @ A.mT, -A])):
        with pytest.raises(linalg.LinAlgError, match="positive-definite") as caught:
            linalg.cholesky(A_or_batch)
        assert isinstance(caught.value, RuntimeError)  # torch's base class
        assert isinstance(caught.value, np.linalg.LinAlgError)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.solve(A, WIDE), RuntimeError, r"equation AX = B \(\[3, 3\] and \[2, 3\]\)"),
        (lambda: linalg.solve(A, V, left=False), RuntimeError, "equation XA = B"),
        (lambda: linalg.solve(A[:1, :1], V[:1], left=False), RuntimeError, "equation XA = B"),
        (lambda: linalg.solve(A, V[0]), RuntimeError, "equation AX = B"),
        (lambda: linalg.solve(A, V.float()), RuntimeError, "same dtype, got float64 and float32"),
        (lambda: linalg.solve(A.expand(2, 3, 3), A.expand(4, 3, 3)), RuntimeError, "do not fit together"),
        (lambda: linalg.solve_triangular(A, WIDE, upper=True), RuntimeError, "equation AX = B"),
        (lambda: linalg.eigh(A, "x"), RuntimeError, "'L' or 'U', but got x"),
        (lambda: linalg.qr(A, mode="full"), RuntimeError, "unrecognized mode 'full'"),
        (lambda: linalg.pinv(WIDE, hermitian=True), RuntimeError, "square"),
        (lambda: linalg.lstsq(A, V, driver="lu"), RuntimeError, r"\(gels, gelsy, gelsd, gelss\), got 'lu'"),
        (lambda: linalg.lstsq(A, V[:2]), RuntimeError, "as many rows"),
        (lambda: linalg.lstsq(A, V.float()), RuntimeError, "B must have A's dtype"),
        (lambda: linalg.matrix_norm(A, 3), RuntimeError, "Order 3 not supported"),
        (lambda: linalg.matrix_norm(A, "max"), RuntimeError, "Order max not supported"),
        (lambda: linalg.matrix_norm(A, dim=(0, -2)), RuntimeError, "dims must be different"),
        (lambda: linalg.matrix_norm(A, dim=1), RuntimeError, "must be a 2-tuple"),
        (lambda: linalg.matrix_norm(V), RuntimeError, "at least 2 dimensions"),
        (lambda: linalg.matrix_norm(A, dtype=gradlib.float32), RuntimeError, r"matrix_norm: the dtype of the input \(float64\).*narrowing"),
        (lambda: linalg.matrix_norm(A, 1, dtype=gradlib.complex128), RuntimeError, "matrix_norm: the dtype of the input"),
        (lambda: linalg.norm(V, "fro"), RuntimeError, "at least 2 dimensions"),
        (lambda: linalg.norm(A[None], 2), RuntimeError, "must be 1D or 2D. Got 3D"),
        (lambda: linalg.norm(A[None], dim=(0, 1, 2)), RuntimeError, "length 1 or 2"),
        (lambda: linalg.matrix_power(A, 1.5), TypeError, "'n'.* must be int, not float"),
        (lambda: linalg.matrix_power(WIDE, 2), RuntimeError, "square"),
        (lambda: linalg.multi_dot([A]), RuntimeError, "at least 2 tensors but got 1"),
        (lambda: linalg.multi_dot([A, V, A]), RuntimeError, "tensor 1 must be 2D"),
        (lambda: linalg.multi_dot([A, WIDE]), RuntimeError, "tensors 0 and 1 with shapes"),
        (lambda: linalg.multi_dot([A, A.float()]), RuntimeError, "same dtype"),
        (lambda: linalg.vecdot(V.long(), V.long()), RuntimeError, "floating point or complex"),
        (lambda: linalg.vecdot(V, V.float()), RuntimeError, "same dtype"),
        (lambda: linalg.inv(2.0), TypeError, "'A'.* must be Tensor, not float"),
    ],
)  # fmt: skip
def test_what_does_not_fit(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# ---- shapes and names --------------------------------------------------------------------------------------------------------------------


def test_pinv_and_lstsq_are_brought_to_the_dtype_of_out() -> None:
    """As in torch; other decompositions are not."""
    single = gradlib.empty(0, dtype=gradlib.float32)
    assert linalg.pinv(A, out=single) is single
    np.testing.assert_allclose(host(single), np.linalg.inv(host(A)), 1e-5)
    parts = tuple(gradlib.empty(0, dtype=dtype) for dtype in ("float32", "float32", "int64", "float32"))
    assert linalg.lstsq(A, A, out=parts)[0] is parts[0]
    np.testing.assert_allclose(host(parts[0]), np.eye(3), atol=1e-6)
    with pytest.raises(RuntimeError, match="can't be cast"):
        linalg.svdvals(A, out=gradlib.empty(0, dtype=gradlib.float32))


def test_results_have_names() -> None:
    assert linalg.eigh(A)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.svd(A)._fields == ("U", "S", "Vh")
    assert linalg.qr(A)._fields == ("Q", "R")
    assert linalg.slogdet(A)._fields == ("sign", "logabsdet")
    assert linalg.lstsq(A, V)._fields == ("solution", "residuals", "rank", "singular_values")


@pytest.mark.parametrize("batch", [(), (0,), (2,), (2, 0)])
@pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 3), (3, 0), (2, 2), (2, 3), (3, 2)])
def test_shapes_of_empty_and_other_matrices(batch: tuple[int, ...], m: int, n: int) -> None:
    k = min(m, n)
    x = gradlib.zeros(*batch, m, n, dtype="float64") + gradlib.tensor(np.eye(m, n))
    U, S, Vh = linalg.svd(x)
    assert (U.shape, S.shape, Vh.shape) == ((*batch, m, m), (*batch, k), (*batch, n, n))
    assert linalg.svdvals(x).shape == (*batch, k)
    assert [part.shape for part in linalg.qr(x)] == [(*batch, m, k), (*batch, k, n)]
    assert linalg.pinv(x).shape == (*batch, n, m)
    assert linalg.matrix_norm(x, "nuc").shape == linalg.matrix_norm(x, 2).shape == batch
    if m == n:
        assert linalg.det(x).shape == linalg.slogdet(x).logabsdet.shape == batch
        assert linalg.inv(x).shape == linalg.cholesky(x).shape == x.shape
        assert linalg.eigh(x).eigenvalues.shape == (*batch, n)
        assert linalg.solve(x, gradlib.zeros(n, 5, dtype="float64")).shape == (*batch, n, 5)
        assert linalg.matrix_power(x, 3).shape == x.shape


def test_real_results_of_complex_matrices() -> None:
    z = (A + 0.5j * A.mT).to("complex64")
    assert linalg.svd(z).S.dtype == linalg.eigh(z).eigenvalues.dtype == linalg.slogdet(z).logabsdet.dtype == gradlib.float32
    assert linalg.matrix_norm(z).dtype == gradlib.float32
    assert linalg.svd(z).U.dtype == linalg.slogdet(z).sign.dtype == gradlib.complex64


def test_other_names() -> None:
    np.testing.assert_allclose(A.det().item(), gradlib.det(A).item())
    np.testing.assert_allclose(host(A.inverse() @ A), np.eye(3), atol=1e-14)
    np.testing.assert_allclose(host(gradlib.pinverse(A)), host(A.inverse()), rtol=1e-12)
    np.testing.assert_allclose(host(A.matrix_power(2)), host(A @ A))
    assert {name for name in linalg.__all__ if not callable(getattr(linalg, name))} == set()


# ---- determinants ------------------------------------------------------------------------------------------------------------------------


def cofactors(a: np.ndarray) -> np.ndarray:
    result = np.empty_like(a)
    for i, j in np.ndindex(*a.shape):
        result[i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return result


@pytest.mark.parametrize("imaginary", [0.0, 1.0])
@pytest.mark.parametrize(("size", "rank"), [(1, 0), (2, 1), (2, 0), (3, 2), (3, 1), (4, 3), (4, 2)])
def test_the_determinant_of_a_singular_matrix_has_derivatives(size: int, rank: int, imaginary: float) -> None:
    """The first is the cofactors (torch gives zeros where the determinant is exactly 0), and the second is that of the cofactors."""
    rng = np.random.default_rng(size + rank)
    draw = lambda *s: rng.standard_normal(s) + imaginary * 1j * rng.standard_normal(s)  # noqa: E731
    a = draw(size, rank) @ draw(rank, size)
    a = a if imaginary else a.real
    x = gradlib.tensor(a, requires_grad=True)
    one = gradlib.ones((), dtype=x.dtype)
    (plain,) = gradlib.autograd.grad(linalg.det(x), x, one)
    (first,) = gradlib.autograd.grad(linalg.det(x), x, one, create_graph=True)
    want = cofactors(a).conj()
    scale = np.abs(a).max() ** (size - 1) + 1e-9
    np.testing.assert_allclose(host(plain) / scale, want / scale, atol=1e-11)
    np.testing.assert_allclose(host(first) / scale, want / scale, atol=1e-11)
    direction, weight = (d if imaginary else d.real for d in (draw(size, size), draw(size, size)))
    if size == 1:
        assert not first.requires_grad  # of a linear function, as in torch
        return
    (second,) = gradlib.autograd.grad(first, x, gradlib.tensor(weight))
    step = 1e-5
    change = (cofactors(a + step * direction) - cofactors(a - step * direction)).conj() / (2 * step)
    ahead = np.sum(change * weight.conj()).real
    back = np.sum(host(second).conj() * direction).real
    assert back == pytest.approx(ahead, rel=1e-6, abs=1e-7)


def test_singular_matrices_among_others() -> None:
    batch = np.stack([np.eye(3), np.diag([1.0, 1.0, 0.0]), np.zeros((3, 3)), host(A), np.arange(9.0).reshape(3, 3)])
    x = gradlib.tensor(batch, requires_grad=True)
    (slope,) = gradlib.autograd.grad(linalg.det(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(host(slope), [cofactors(a) for a in batch], atol=1e-12)
    (second,) = gradlib.autograd.grad(slope.sum(), x)
    assert np.isfinite(host(second)).all()


def test_a_small_determinant_is_not_a_singular_matrix() -> None:
    x = gradlib.tensor(np.eye(8) * 1e-3, requires_grad=True)
    (slope,) = gradlib.autograd.grad(linalg.det(x), x, create_graph=True)
    np.testing.assert_allclose(host(slope), np.eye(8) * 1e-21)
    (second,) = gradlib.autograd.grad(slope.trace(), x)
    np.testing.assert_allclose(host(second), np.eye(8) * 7e-18)


@pytest.mark.nonfinite
def test_the_logarithm_at_a_singular_matrix(device: str) -> None:
    x = SINGULAR.clone().requires_grad_()
    sign, logarithm = linalg.slogdet(x)
    assert (sign.item(), logarithm.item()) == (0, -INF)
    logarithm.backward()
    if device == "cpu":
        np.testing.assert_array_equal(np.abs(host(x.grad)) == INF, cofactors(host(SINGULAR)) != 0)
    assert not np.isfinite(host(x.grad)).all()


def test_a_real_sign_has_a_gradient_of_zero() -> None:
    x = A.clone().requires_grad_()
    linalg.slogdet(x).sign.backward()
    assert not x.grad.any()


# ---- equations ---------------------------------------------------------------------------------------------------------------------------


def test_which_right_sides_are_vectors() -> None:
    batch = A.expand(2, 3, 3)
    assert linalg.solve(A, V).shape == (3,)
    assert linalg.solve(batch, V).shape == (2, 3)
    assert linalg.solve(batch, V.expand(2, 3)).shape == (2, 3)
    assert linalg.solve(A.expand(3, 3, 3), A).shape == (3, 3)  # as torch: three vectors, not one matrix
    assert linalg.solve(batch, A[:, :2]).shape == (2, 3, 2)
    assert linalg.solve(A, A.expand(4, 3, 3)).shape == (4, 3, 3)
    assert linalg.solve(A.expand(5, 1, 3, 3), A.expand(4, 3, 3)).shape == (5, 4, 3, 3)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("size", [3, 40])  # which kernels of gradlib's serve, and which do not
def test_batches_of_equations_broadcast_in_one_operation(size: int, left: bool) -> None:
    rng = np.random.default_rng(0)
    for batch, other in (((), (4,)), ((2, 1), (4,)), ((2,), ())):
        a, b = rng.standard_normal((*batch, size, size)) / size + np.eye(size), rng.standard_normal((*other, size, size))
        A, B = (gradlib.tensor(each, requires_grad=True) for each in (a, b))
        for X, part in ((linalg.solve(A, B, left=left), A), (linalg.solve_triangular(A, B, left=left, upper=True), A.triu())):
            assert [edge.name() for edge, _ in X.grad_fn.next_functions] == ["AccumulateGrad"] * 2
            expected = linalg.inv(part) @ B if left else B @ linalg.inv(part)
            g = gradlib.tensor(np.linspace(-1, 1, X.numel()).reshape(X.shape))
            slopes, wanted = (gradlib.autograd.grad(made, (A, B), g) for made in (X, expected))
            for made, want in zip((X, *slopes), (expected, *wanted), strict=True):
                np.testing.assert_allclose(host(made), host(want), atol=1e-9)


@pytest.mark.parametrize("size", [3, 40])
def test_equations_without_right_sides(size: int) -> None:
    A = gradlib.eye(size).requires_grad_()
    for shape in ((size, 0), (2, size, 0), (0, size, 2)):
        for X in (linalg.solve(A, gradlib.ones(shape)), linalg.solve_triangular(A, gradlib.ones(shape), upper=True)):
            assert X.shape == shape
            assert not gradlib.autograd.grad(X.sum(), A)[0].any()


def test_a_matrix_for_many_right_sides_is_decomposed_once(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    library = np if device == "cpu" else pytest.importorskip("cupy")
    solve, met = library.linalg.solve, []
    monkeypatch.setattr(library.linalg, "solve", lambda A, B: met.append((A.shape, B.shape)) or solve(A, B))
    right = gradlib.ones(5, 40, 2)
    A = gradlib.eye(40) * 2
    assert (linalg.solve(A, right) == 0.5).all()
    assert (linalg.solve(A, right.mT, left=False) == 0.5).all()
    assert (gradlib.func.vmap(lambda B: linalg.solve(A, B))(right[..., 0]) == 0.5).all()
    assert met == [((40, 40), (40, 10)), ((40, 40), (40, 10)), ((40, 40), (40, 5))]


@pytest.mark.parametrize("call", [gradlib.linalg.solve, lambda A, B: gradlib.linalg.solve_triangular(A, B, upper=True)])
def test_the_right_side_of_an_equation_is_not_kept(call: Callable[..., Any]) -> None:
    """Nor is the solution, where the matrix wants no gradient."""
    A, B = (gradlib.eye(2, dtype=gradlib.float64) * 2).requires_grad_(), gradlib.ones(2, 1, dtype=gradlib.float64)
    X = call(A, B)
    B.zero_()
    X.sum().backward()
    assert A.grad[0].tolist() == [-0.25, -0.25]
    right = gradlib.ones(2, 1, dtype=gradlib.float64, requires_grad=True)
    X = call(A.detach(), right)
    X.mul_(2)
    X.sum().backward()
    assert right.grad.tolist() == [[1], [1]]


@pytest.mark.nonfinite
@pytest.mark.parametrize("upper", [False, True])
def test_a_large_triangle_is_solved_by_halves_and_its_zeros_by_rows(upper: bool, device: str) -> None:
    rng = np.random.default_rng(0)
    dense, right = rng.standard_normal((2, 251, 251)) / 251 + 2 * np.eye(251), rng.standard_normal((2, 251, 3))
    A, B = gradlib.tensor(dense), gradlib.tensor(right)
    for unit in (False, True):
        X = linalg.solve_triangular(A, B, upper=upper, unitriangular=unit)
        part = A.triu(int(unit)) if upper else A.tril(-int(unit))
        np.testing.assert_allclose(host((part + gradlib.eye(251, dtype=gradlib.float64) if unit else part) @ X), right, atol=1e-12)
    if device == "cpu":
        dense[0, 120, 120] = 0
        X = host(linalg.solve_triangular(gradlib.tensor(dense), B, upper=upper))
        assert np.isfinite(X[1]).all()
        assert np.isfinite(X[0]).all(1).sum() == (130 if upper else 120)


@pytest.mark.host
@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_triangle_is_solved_alike_with_scipy_and_without_it(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(0)
    dense, right = ((rng.standard_normal((9, 9)) + 1j * rng.standard_normal((9, 9)) + 4 * np.eye(9)) for _ in range(2))
    singular = dense * (np.arange(9) != 4)
    known = (gradlib.tensor(x if dtype.startswith("complex") else x.real, dtype=dtype) for x in (dense, singular, right))
    dense, singular, right = known
    pairs = [(dense, right), (dense.mT, right), (dense, right.mT[:, :4]), (dense, right[:, :0]), (singular, right)]
    calls = [(A, B, upper, unit) for A, B in pairs for upper in (False, True) for unit in (False, True)]
    made = []
    for library in (solve.scipy_blas, lambda: None):
        monkeypatch.setattr(solve, "scipy_blas", library)
        made.append([host(linalg.solve_triangular(A, B, upper=upper, unitriangular=unit)) for A, B, upper, unit in calls])
    for ours, without in zip(*made, strict=True):
        np.testing.assert_allclose(ours, without, rtol=1e-4 if dtype == "float32" else 1e-11)


def test_the_other_triangle_is_not_looked_at() -> None:
    junk = gradlib.tensor(np.triu(np.full((3, 3), 1e6), 1))
    for upper in (False, True):
        clean = A.triu() if upper else A.tril()
        dirty = (clean + (junk.mT if upper else junk)).requires_grad_()
        X = linalg.solve_triangular(dirty, A, upper=upper)
        np.testing.assert_allclose(host(clean @ X), host(A), atol=1e-12)
        X.sum().backward()
        assert not (dirty.grad.tril(-1) if upper else dirty.grad.triu(1)).any()
    symmetric = A @ A.mT
    np.testing.assert_allclose(host(linalg.cholesky(symmetric + junk)), np.linalg.cholesky(host(symmetric)))
    np.testing.assert_allclose(host(linalg.cholesky(symmetric + junk.mT, upper=True)), np.linalg.cholesky(host(symmetric)).T)
    np.testing.assert_allclose(host(linalg.eigvalsh(symmetric + junk.mT, "U")), np.linalg.eigvalsh(host(symmetric)))
    np.testing.assert_allclose(host(linalg.eigh(symmetric + junk).eigenvalues), np.linalg.eigvalsh(host(symmetric)))


def test_symmetric_gradients() -> None:
    for function in (linalg.cholesky, lambda x: linalg.eigh(x).eigenvectors ** 2, linalg.eigvalsh):
        x = (A @ A.mT).requires_grad_()
        made = function(x)
        (slope,) = gradlib.autograd.grad(made, x, gradlib.tensor(np.arange(float(made.numel())).reshape(made.shape) ** 2))
        np.testing.assert_allclose(host(slope), host(slope.mT), atol=1e-12)
        assert slope.abs().max() > 0.01


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_what_each_driver_fills_in(driver: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 4, 3)), rng.standard_normal((5, 4, 2))
    X, residuals, rank, values = linalg.lstsq(gradlib.tensor(a), gradlib.tensor(b), driver=driver)
    wanted = [np.linalg.lstsq(m, y, rcond=None) for m, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(host(X), [w[0] for w in wanted])
    np.testing.assert_allclose(host(residuals), np.zeros(0) if driver == "gelsy" else [w[1] for w in wanted])
    assert rank.tolist() == ([] if driver == "gels" else [3] * 5)
    assert rank.dtype == gradlib.int64
    np.testing.assert_allclose(host(values), [w[3] for w in wanted] if driver in ("gelsd", "gelss") else np.zeros(0))


def test_a_system_without_full_rank() -> None:
    a = gradlib.ones(4, 2, dtype="float64")
    X, residuals, rank, _ = linalg.lstsq(a, V.new_tensor([1.0, 2.0, 3.0, 4.0]), driver="gelsd")
    np.testing.assert_allclose(host(X), [1.25, 1.25])
    assert (rank.item(), residuals.shape) == (1, (0,))


def test_the_batches_of_least_squares_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = (gradlib.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((2, 1, 4, 3), (1, 5, 4, 2)))
    X = linalg.lstsq(a, b).solution
    assert X.shape == (2, 5, 3, 2)
    np.testing.assert_allclose(host(X[1, 2]), np.linalg.lstsq(host(a[1, 0]), host(b[0, 2]), rcond=None)[0])
    assert linalg.lstsq(a, b[..., 0]).solution.shape == (2, 5, 3)
    with pytest.raises(RuntimeError, match="do not fit together"):
        linalg.lstsq(a[:, 0], b[:, :3].reshape(3, 4, 2))
    assert gradcheck(lambda a, b: linalg.lstsq(a, b, driver="gels")[:2], (a, b))
    assert gradgradcheck(lambda a, b: linalg.lstsq(a, b, driver="gelss")[:2], (a, b), fast_mode=True)


def test_what_lstsq_says_of_a_matrix_is_said_once() -> None:
    a, b = gradlib.tensor(np.eye(4, 3)).expand(2, 1, 4, 3), gradlib.ones(2, 5, 4, 2, dtype="float64")
    made = linalg.lstsq(a, b, driver="gelss")
    assert (made.solution.shape, made.residuals.shape) == ((2, 5, 3, 2), (2, 5, 2))
    assert (made.rank.tolist(), made.singular_values.shape) == ([[3], [3]], (2, 1, 3))
    assert linalg.lstsq(a, b).rank.tolist() == [[3], [3]]
    assert linalg.lstsq(a, b, driver="gels").rank.shape == (0,)


def test_tolerances_of_the_pseudoinverse() -> None:
    x = gradlib.tensor(np.diag([2.0, 0.2, 0.01]))
    one, two, three = np.diag([0.5, 0, 0]), np.diag([0.5, 5, 0]), np.diag([0.5, 5, 100])
    for made, want in (
        (linalg.pinv(x), three),
        (linalg.pinv(x, 0.01), two),
        (linalg.pinv(x, rtol=0.2), one),
        (linalg.pinv(x, atol=0.1), two),
        (linalg.pinv(x, atol=0.0), three),
        (linalg.pinv(x, atol=0.001, rtol=0.2), one),
        (linalg.pinv(x, rtol=gradlib.tensor(0.05)), two),
        (linalg.pinv(x, hermitian=True, rtol=0.01), two),
        (gradlib.pinverse(x, 0.2), one),
    ):
        np.testing.assert_allclose(host(made), want, atol=1e-13)
    both = linalg.pinv(x.expand(2, 3, 3), atol=gradlib.tensor([0.1, 1.0], dtype="float64"))
    np.testing.assert_allclose(host(both), [two, one], atol=1e-13)


@pytest.mark.nonfinite
def test_the_pseudoinverse_of_hermitian_matrices_reads_one_triangle() -> None:
    junk = gradlib.tensor(np.triu(np.full((3, 3), INF), 1))
    symmetric = A @ A.mT
    np.testing.assert_allclose(
        host(linalg.pinv(gradlib.where(junk == INF, junk, symmetric), hermitian=True)), np.linalg.inv(host(symmetric))
    )


def test_the_pseudoinverse_of_a_matrix_of_lower_rank_keeps_it_in_its_derivative() -> None:
    """The derivative along directions that do not change the rank."""
    rng = np.random.default_rng(0)
    left, right = (gradlib.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 2), (2, 3)))
    assert gradcheck(lambda a, b: linalg.pinv(a @ b, rtol=1e-8), (left, right))


# ---- decompositions ---------------------------------------------------------------------------------------------------------------


def test_vectors_are_computed_only_for_derivatives() -> None:
    symmetric = A @ A.mT
    assert linalg.eigvalsh(symmetric).grad_fn is None
    for values in (linalg.eigvalsh, linalg.svdvals):
        x = symmetric.clone().requires_grad_()
        with gradlib.no_grad():
            quick = values(x)
        slow = values(x)
        assert slow.requires_grad
        assert not quick.requires_grad
        np.testing.assert_allclose(host(quick), host(slow), rtol=1e-12)


def test_the_extra_columns_of_full_matrices_have_no_gradient() -> None:
    x = gradlib.tensor(np.random.default_rng(0).standard_normal((4, 2)), requires_grad=True)
    U = linalg.svd(x).U
    assert U.shape == (4, 4)
    (slope,) = gradlib.autograd.grad((U[:, 2:] ** 2).sum(), x, retain_graph=True)
    assert not slope.any()
    weight = gradlib.tensor(np.arange(8.0).reshape(4, 2))
    (full,) = gradlib.autograd.grad(((U[:, :2] ** 2) * weight).sum(), x)
    (thin,) = gradlib.autograd.grad(((linalg.svd(x, full_matrices=False).U ** 2) * weight).sum(), x)
    np.testing.assert_allclose(host(full), host(thin))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_functions_of_complex_singular_vectors(shape: tuple[int, int]) -> None:
    """First and second derivatives of what no phase changes."""
    rng = np.random.default_rng(0)
    x = gradlib.tensor(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), requires_grad=True)

    def product(a: Any) -> Any:
        U, S, Vh = linalg.svd(a, full_matrices=False)
        return U @ Vh, S, U[:, :1] @ Vh[:1]

    assert gradcheck(product, (x,))
    assert gradgradcheck(product, (x,))


def test_modes_of_qr() -> None:
    x = gradlib.tensor(np.random.default_rng(0).standard_normal((4, 2)), requires_grad=True)
    Q, R = linalg.qr(x, mode="complete")
    assert (Q.shape, R.shape) == ((4, 4), (4, 2))
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows > ncols"):
        Q.sum().backward()
    empty, alone = linalg.qr(x.detach(), mode="r")
    assert empty.shape == (0,)
    np.testing.assert_allclose(host(alone), host(linalg.qr(x).R))
    wide = x.detach().mT.contiguous().requires_grad_()
    for mode in ("reduced", "complete"):
        assert gradcheck(lambda a, mode=mode: tuple(linalg.qr(a, mode=mode)), (wide,))


# ---- norms and powers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, 1, INF])
def test_norms_of_nothing(ord: Any) -> None:
    assert linalg.matrix_norm(gradlib.zeros(0, 3), ord) == 0
    if ord != INF:
        assert linalg.matrix_norm(gradlib.zeros(2, 0, 2), ord, dim=(0, 1)).tolist() == [0.0, 0.0]


def test_the_gradient_of_the_norm_of_zeros_is_zero() -> None:
    for norm in (linalg.norm, linalg.matrix_norm, linalg.vector_norm):
        x = gradlib.zeros(2, 3, requires_grad=True)
        norm(x).backward()
        assert not x.grad.any()


def test_which_norm_is_meant() -> None:
    a = host(WIDE)
    for made, want in (
        (linalg.norm(WIDE), np.sqrt(55)),
        (linalg.norm(WIDE, 2), np.linalg.svd(a, compute_uv=False)[0]),
        (linalg.norm(WIDE, 2, dim=0), np.sqrt((a * a).sum(0))),
        (linalg.norm(WIDE, dim=(0, 1)), np.sqrt(55)),
        (linalg.norm(WIDE, INF, dim=(1, 0)), a.sum(0).max()),
        (linalg.norm(WIDE[1], INF), 5.0),
        (linalg.norm(WIDE.half()), np.sqrt(55)),
        (linalg.matrix_norm(WIDE, dtype=gradlib.float64), np.sqrt(55)),
    ):
        np.testing.assert_allclose(host(made), want, rtol=1e-3 if made.dtype == gradlib.float16 else 1e-12)
    assert linalg.norm(WIDE.half()).dtype == gradlib.float16
    assert linalg.matrix_norm(WIDE.float(), "nuc", dtype="float64").dtype == gradlib.float64


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power_equals_numpys(n: int) -> None:
    x = A.clone().requires_grad_()
    made = linalg.matrix_power(x, n)
    np.testing.assert_allclose(host(made), np.linalg.matrix_power(host(A), n), rtol=1e-10)
    made.sum().backward()
    assert x.grad.any() == (n != 0)
    assert made is not x
    if n >= 0:
        assert linalg.matrix_power(A.long(), n).dtype == gradlib.int64


def test_a_chain_of_products_takes_the_cheapest_order() -> None:
    rng = np.random.default_rng(0)
    parts = [gradlib.tensor(rng.standard_normal(s)) for s in ((30, 1), (1, 40), (40, 10), (10, 25))]
    made = linalg.multi_dot([parts[0].requires_grad_(), *parts[1:]])
    assert made.grad_fn.next_functions[0][0].name() == "AccumulateGrad"  # the first joins last: 30*25 + 40*10 + 10*25 products
    np.testing.assert_allclose(host(made), np.linalg.multi_dot([host(p) for p in parts]))
    row, column = parts[1][0], parts[2][:, 0]
    assert linalg.multi_dot([row, parts[2]]).shape == (10,)
    assert linalg.multi_dot([row, column]).shape == ()
    assert linalg.multi_dot([row, parts[2], parts[3]]).shape == (25,)


def test_the_diagonal_is_a_view() -> None:
    x = gradlib.zeros(2, 3, 3)
    linalg.diagonal(x).fill_(1.0)
    assert x.tolist() == [np.eye(3).tolist()] * 2


# ---- matrices that are not finite ---------------------------------------------------------------------------------------------------

ENDLESS = np.ones((5, 5))  # NumPy's own svd of it does not come back
ENDLESS[0, 0], ENDLESS[4, 0] = INF, 2.0


@pytest.mark.nonfinite
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (4, 4)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_values_of_a_matrix_that_holds_inf_are_nan(place: tuple[int, int], dtype: str) -> None:
    a = ENDLESS.astype(dtype)
    a[place] = -INF
    x = gradlib.tensor(np.stack([np.eye(5) * 2, a]), requires_grad=True)
    for values in (linalg.svd(x)[1], linalg.svdvals(x), linalg.svdvals(x.detach()), linalg.eigh(x)[0], linalg.eigvalsh(x.detach())):
        np.testing.assert_allclose(host(values), [[2.0] * 5, [np.nan] * 5])
    for norm in (linalg.matrix_norm(x, 2), linalg.matrix_norm(x, -2), linalg.matrix_norm(x, "nuc") / 5, linalg.norm(x, 2, dim=(1, 2))):
        np.testing.assert_allclose(host(norm), [2.0, np.nan])
        norm.sum().backward()
    for inverse in (linalg.pinv(x), linalg.pinv(x, hermitian=True)):  # torch: NaN or zeros, by shape
        np.testing.assert_allclose(host(inverse), [np.eye(5) / 2, np.full((5, 5), np.nan)])
    solution = linalg.lstsq(x, x.detach()[:, :, :1] * 0 + 1)[0]
    assert np.isnan(host(solution)[1]).all()
    np.testing.assert_allclose(host(solution)[0], np.full((5, 1), 0.5))


@pytest.mark.nonfinite
@pytest.mark.parametrize("name", ["svd", "svdvals", "eig", "eigh", "eigvals", "eigvalsh", "pinv", "cholesky"])
def test_nan_is_refused_or_stays(name: str, device: str) -> None:
    a = np.eye(3)
    a[1, 0] = a[1, 1] = np.nan
    for x in (gradlib.tensor(a), gradlib.tensor(a, requires_grad=True)):
        if device == "cpu" or name == "cholesky":
            with pytest.raises(linalg.LinAlgError):
                getattr(linalg, name)(x)
        elif name != "pinv":
            made = getattr(linalg, name)(x)
            values = made[1] if name == "svd" else made[0] if name in ("eig", "eigh") else made
            assert np.isnan(host(values)).all()


def test_a_loss_that_depends_on_the_phase_of_complex_vectors_is_refused() -> None:
    """By torch's bounds, as torch 2.13 answered; of a singular value decomposition both sides share the factor."""
    a = gradlib.tensor(np.array([[1.0, 2j, 0.5], [0.3, 2.0, 1j], [1.0, -1.0, 4.0]]), requires_grad=True)
    decompositions = {
        "eig": lambda: linalg.eig(a)[1:], "eigh": lambda: linalg.eigh(a + a.mH)[1:], "left": lambda: linalg.svd(a)[:1],
        "right": lambda: linalg.svd(a)[2:], "both": lambda: linalg.svd(a)[::2],
    }  # fmt: skip
    for name, turns, refused in (
        ("eig", [0.0101j], True), ("eig", [0.0099j], False), ("eigh", [0.0101j], True), ("eigh", [0.0099j], False),
        ("left", [0.0051j], True), ("left", [0.0049j], False), ("right", [0.0051j], True), ("right", [0.005j], False),
        ("both", [0.5j, 0.5j], False), ("both", [0.5j, -0.5j], True),
    ):  # fmt: skip
        vectors = decompositions[name]()
        with pytest.raises(RuntimeError, match="ill-defined") if refused else nullcontext():
            gradlib.autograd.backward(vectors, [v.detach() * turn for v, turn in zip(vectors, turns, strict=True)])


def test_eigenvectors_of_a_real_matrix_are_known_up_to_a_phase_too() -> None:
    turn = gradlib.tensor([[0.0, -1.0], [1.0, 0.5]], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"linalg_eig_backward.*ill-defined"):
        linalg.eig(turn)[1].real.sum().backward()
    assert gradlib.func.vmap(lambda x: linalg.eig(x).eigenvectors)(turn[None]).shape == (1, 2, 2)


def test_eig_says_where_it_can_be_had_when_cusolver_has_none(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    if device == "cuda":
        monkeypatch.setattr("cupyx.cusolver.check_availability", lambda name: name != "geev")
    for function in (linalg.eig, linalg.eigvals):
        with pytest.raises(RuntimeError, match=r"CUDA 12\.6.*\.cpu\(\)") if device == "cuda" else nullcontext():
            function(A)


def test_only_the_triangle_that_is_read_need_be_finite() -> None:
    a = np.diag([1.0, 2.0, 3.0])
    a[0, 2] = np.nan
    np.testing.assert_allclose(host(linalg.eigvalsh(gradlib.tensor(a))), [1, 2, 3])
    np.testing.assert_allclose(host(linalg.eigh(gradlib.tensor(a.T.copy()), "U")[0]), [1, 2, 3])


@pytest.mark.nonfinite
def test_determinants_of_matrices_that_are_not_finite(device: str) -> None:
    x = gradlib.tensor([[INF]], dtype="float64", requires_grad=True)
    (slope,) = gradlib.autograd.grad(linalg.det(x), x)
    assert linalg.det(x).item() == INF
    assert slope.item() == 1
    if device == "cpu":  # LAPACK reports such matrices as singular, and NumPy their determinant as zero
        for a in ([[1.0, 1, 1], [1, np.nan, 1], [1, 1, 1]], ENDLESS):
            x = gradlib.tensor(a, dtype="float64", requires_grad=True)
            sign, size = linalg.slogdet(x)
            assert sign.item() == 0
            assert np.isnan(size.item())
            assert np.isnan(linalg.det(x).item())
            for value in (size, linalg.det(x)):
                assert np.isnan(host(gradlib.autograd.grad(value, x)[0])).all()
        for corner in (complex(INF, 0), complex(0, INF), complex(INF, 1)):
            sign, size = linalg.slogdet(gradlib.tensor([[corner, 1], [1, 1]]))
            assert np.isnan(sign.item())
            assert np.isnan(size.item())


@pytest.mark.nonfinite
def test_a_matrix_of_nan_is_no_singular_one(device: str) -> None:
    x = gradlib.tensor(np.stack([np.eye(2) * 2, [[1.0, 1], [1, np.nan]], np.full((2, 2), np.nan)]))
    for made in (linalg.inv(x), linalg.solve(x, gradlib.ones(2, 2, dtype=x.dtype))):
        assert np.isfinite(host(made)[0]).all()
        assert np.isnan(host(made)[1:]).all()


@pytest.mark.nonfinite
def test_triangles_with_a_zero_on_the_diagonal(device: str) -> None:
    """inf and NaN where substitution meets them, as torch gives them; the rows before are as they were."""
    a = np.array([[2.0, 0, 0], [1, 0, 0], [1, 1, 4]])
    x, one = gradlib.tensor(a, requires_grad=True), gradlib.ones(3, 1, dtype="float64")
    made = linalg.solve_triangular(x, one, upper=False)
    made.sum().backward()
    assert not np.isfinite(host(x.grad)).all()
    if device == "cpu":
        np.testing.assert_array_equal(host(made)[:, 0], [0.5, INF, -INF])
        np.testing.assert_array_equal(host(linalg.solve_triangular(x.mT, one, upper=True))[:, 0], [-INF, INF, 0.25])


@pytest.mark.nonfinite
def test_the_slope_of_qr_at_dependent_columns_is_not_finite(device: str) -> None:
    x = gradlib.zeros(3, 3, dtype="float64", requires_grad=True)
    Q, R = linalg.qr(x)
    (slope,) = gradlib.autograd.grad(Q.sum() + R.sum(), x)
    assert not np.isfinite(host(slope)).any()


@pytest.mark.host
@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_elimination_leaves_of_nan_is_nan_throughout(dtype: str) -> None:
    """LAPACK leaves it in those rows only to which its pivots led."""
    a = np.array([[[2.0, 0, 0], [0, 2, 0], [0, 0, 2]], [[1, 2, 3], [4, -INF, 1], [0, 1, 1]], [[np.nan, 1, 0], [1, 2, 0], [0, 0, 1]]], dtype)
    x = gradlib.tensor(a)
    for made in (linalg.inv(x), linalg.solve(x, gradlib.ones(3, 1, dtype=x.dtype)), linalg.matrix_power(x, -1)):
        assert np.isfinite(host(made)[0]).all()
        assert np.isnan(host(made)[1:]).all()


@pytest.mark.nonfinite
def test_decompositions_of_a_matrix_that_holds_inf_have_slopes_of_nan() -> None:
    x = gradlib.tensor(np.stack([np.eye(5) * 2, ENDLESS]), requires_grad=True)
    for values in (linalg.svdvals(x), linalg.eigvalsh(x), linalg.svd(x)[0], linalg.matrix_norm(x, "nuc")):
        (slope,) = gradlib.autograd.grad(values.sum(), x)
        assert np.isnan(host(slope)[1]).all()


@pytest.mark.nonfinite
@pytest.mark.parametrize(("name", "bad"), [("det", np.nan), ("det", INF), ("slogdet", np.nan)])
def test_the_second_derivative_of_a_determinant_that_is_not_finite_is_nan(name: str, bad: float) -> None:
    x = gradlib.tensor([[[2.0, 0, 1], [0, 2, 0], [0, 0, 2]], [[1, bad, 3], [4, 1, 1], [0, 1, 1]]], dtype="float64", requires_grad=True)
    made = getattr(linalg, name)(x)
    (slope,) = gradlib.autograd.grad((made if name == "det" else made[1]).sum(), x, create_graph=True)
    (again,) = gradlib.autograd.grad(slope.cos().sum(), x)
    assert np.isfinite(host(again)[0]).all()
    assert np.isnan(host(again)[1]).any()
