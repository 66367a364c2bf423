"""The kernels for small square matrices give what NumPy's linear algebra gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import elimination
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (2, 2), (7, 7), (3, 4, 4), (2, 2, 3, 3), (2, 32, 32)]


def drawn(dtype: str, *shape: int, seed: int = 5) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return (draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype[0] == "c" else 0)).astype(dtype)


def assert_close(made, expected, dtype):
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-9
    np.testing.assert_allclose(made.get(), expected, tolerance, tolerance * max(1, np.abs(expected).max()))


@pytest.fixture
def kernels_alone(monkeypatch):
    """CuPy's functions for the same raise."""
    for name in ("solve", "inv", "det", "slogdet", "cholesky", "svd"):
        monkeypatch.setattr(cupy.linalg, name, None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_give_what_numpy_gives(dtype, shape, kernels_alone):
    host, other = drawn(dtype, *shape), drawn(dtype, *shape[:-1], 40, seed=6)
    turned = cupy.asarray(host.swapaxes(-1, -2).copy()).swapaxes(-1, -2)
    for A in (cupy.asarray(host), turned):
        for columns in (slice(0, 1), slice(None), slice(0, None, 3)):
            made = elimination.solved(A, [cupy.asarray(other)[..., columns]], True, False)
            assert_close(made, np.linalg.solve(host, other[..., columns]), dtype)
        assert_close(elimination.inverted(A), np.linalg.inv(host), dtype)
        assert_close(elimination.determinants(A), np.asarray(np.linalg.det(host)), dtype)
        for made, expected in zip(elimination.signs_and_logarithms(A), np.linalg.slogdet(host), strict=True):
            assert_close(made, np.asarray(expected), dtype)
        expected = (np.asarray(np.linalg.det(host))[..., None, None] * np.linalg.inv(host).swapaxes(-1, -2)).astype(dtype)
        assert_close(elimination.cofactors(A), expected, dtype)
    definite = host @ host.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)
    assert_close(elimination.cholesky(cupy.asarray(np.tril(definite) + np.triu(host, 1))), np.linalg.cholesky(definite), dtype)


def minors(A: np.ndarray) -> np.ndarray:
    """The cofactors one by one."""
    n = len(A)
    return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(A, i, 0), j, 1)) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_singular_matrices_have_cofactors(dtype, rank, kernels_alone):
    host = np.stack([drawn(dtype, 4, rank, seed=k) @ drawn(dtype, rank, 4, seed=k + 9) for k in range(3)])
    expected = np.stack([minors(each.astype("complex128" if dtype[0] == "c" else "float64")) for each in host]).astype(dtype)
    assert_close(elimination.cofactors(cupy.asarray(host)), expected, dtype)
    exact = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype)
    assert_close(elimination.cofactors(cupy.asarray(exact)), minors(exact).astype(dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_matrices_and_such_that_are_not_finite(dtype):
    host = np.stack([drawn(dtype, 3, 3, seed=k) for k in range(5)])
    host[0, 1] = 0
    host[1, :, 2] = 0
    host[2, 0] = 0, np.nan, 0
    host[2, 1:, 0] = 0
    host[3, 1, 1] = np.inf
    A, on_host = gradlib.as_tensor(host).to("cuda"), gradlib.as_tensor(host)
    with np.errstate(all="ignore"):
        for made, expected in zip((*L.slogdet(A[:3]), L.det(A[:3])), (*L.slogdet(on_host[:3]), L.det(on_host[:3])), strict=True):
            assert np.array_equal(made.cpu().numpy(), expected.numpy(), equal_nan=True)
    assert not np.isfinite(L.inv(A[:2]).cpu().numpy()).all((1, 2)).any()
    assert np.isfinite(L.inv(A[4]).cpu().numpy()).all()
    assert np.isnan(elimination.cofactors(A[2]._array).get()).all()
    for each in (-host[4] @ host[4].conj().T, host[2]):
        with pytest.raises(L.LinAlgError, match="cholesky"):
            L.cholesky(gradlib.as_tensor(each).to("cuda"))
        with pytest.raises(L.LinAlgError, match="cholesky"):
            L.cholesky(gradlib.as_tensor(np.stack([np.eye(3, dtype=dtype), each])).to("cuda"))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_both_orders_on_a_device(dtype):
    A, B = (gradlib.as_tensor(drawn(dtype, 2, 3, n)).to("cuda").requires_grad_() for n in (3, 2))
    b = B.detach()[..., 0].clone().requires_grad_()
    singular = gradlib.as_tensor(drawn(dtype, 3, 2) @ drawn(dtype, 2, 3)).to("cuda").requires_grad_()
    for function, given in ((L.det, (A,)), (L.det, (singular,)), (L.inv, (A,)), (L.solve, (A, B)), (L.solve, (A, b))):
        assert gradlib.autograd.gradcheck(function, given)
        assert gradlib.autograd.gradgradcheck(function, given, fast_mode=True)
    assert gradlib.autograd.gradcheck(lambda A: L.slogdet(A).logabsdet, A)
    assert gradlib.autograd.gradcheck(lambda A: L.cholesky(A @ A.mH + gradlib.eye(3, device="cuda")), A)


def test_vectors_within_vmap_are_solved_on_both_sides():
    A, b = (gradlib.as_tensor(drawn("float64", *shape)) for shape in ((4, 3, 3), (4, 3)))
    for device in ("cpu", "cuda"):
        x, y = A.to(device), b.to(device)
        for dims, (one, other) in {(0, 0): (x, y), (0, None): (x, y[0]), (None, 0): (x[0], y)}.items():
            made = gradlib.func.vmap(L.solve, dims)(one, other).cpu().numpy()
            pairs = [(one[k] if dims[0] == 0 else one, other[k] if dims[1] == 0 else other) for k in range(4)]
            np.testing.assert_allclose(made, np.stack([np.linalg.solve(p.cpu().numpy(), q.cpu().numpy()) for p, q in pairs]), 1e-9)


def test_they_are_captured_in_a_graph():
    A = gradlib.as_tensor(drawn("float32", 2, 3, 3)).to("cuda")
    graph = gradlib.cuda.CUDAGraph()
    functions = (L.det, L.inv, lambda A: L.solve(A, A[..., 0]), lambda A: L.slogdet(A)[1], lambda A: L.solve_triangular(A, A, upper=True))
    before = [function(A).tolist() for function in functions]
    with gradlib.cuda.graph(graph):
        made = [function(A) for function in functions]
    graph.replay()
    assert [each.tolist() for each in made] == before


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    for shape in ((0, 3, 3), (2, 0, 0), (elimination.WIDEST + 1,) * 2):
        A = cupy.ones(shape)
        assert elimination.inverted(A) is None
        assert elimination.determinants(A) is None
    A = cupy.stack([cupy.eye(3), 2 * cupy.eye(3)])
    assert elimination.solved(A, [A.astype("f")], True, False) is None
    large = gradlib.as_tensor(drawn("float64", 40, 40))
    for function in (L.det, L.inv, lambda A: L.solve(A, A[0]), lambda A: L.slogdet(A)[1], lambda A: L.cholesky(A @ A.mT)):
        np.testing.assert_allclose(function(large.to("cuda")).cpu().numpy(), function(large).numpy(), 1e-8, 1e-8)
