"""The kernels for the singular values of small matrices give NumPy's to some units in the last place, and vectors that fit them."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import singular
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (2, 2), (7, 7), (3, 4, 4), (2, 1, 5, 3), (2, 3, 6), (1, 5), (5, 1), (9, 17), (40, 3)]
KINDS = [
    "any", "tiny", "huge", "zero", "equal", "rank 1", "rank 2", "diagonal", "identity", "graded", "zero column", "zero row",
]  # fmt: skip


@pytest.fixture
def kernels_alone(monkeypatch):
    """CuPy's functions for the same raise."""
    for name in ("svd", "pinv", "eigh"):
        monkeypatch.setattr(cupy.linalg, name, None)


def normal(dtype: str, *shape: int, seed: int = 5) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.asarray(draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype[0] == "c" else 0), dtype)


def drawn(kind: str, dtype: str, *shape: int) -> np.ndarray:
    A, one, last = normal(dtype, *shape), np.eye(*shape[-2:]), np.arange(shape[-1])
    far, first = 1e36 if np.finfo(dtype).bits == 32 else 1e300, min(2, *shape[-2:])
    made = {
        "any": A, "tiny": A / far, "huge": A * far, "zero": 0 * A, "equal": 0 * A + 1, "diagonal": A * one, "identity": one + 0 * A,
        "rank 1": A[..., :1] @ A[..., :1, :], "rank 2": A[..., :first] @ A[..., :first, :], "graded": A * 0.1**last,
        "zero column": np.where(last == 0, 0, A), "zero row": np.where(np.arange(shape[-2])[:, None] == 0, 0, A),
    }[kind]  # fmt: skip
    return np.ascontiguousarray(made, dtype)


def wide(A: np.ndarray) -> np.ndarray:
    return A.astype("complex128" if A.dtype.kind == "c" else "float64")


def adjoint(A: np.ndarray) -> np.ndarray:
    return A.conj().swapaxes(-1, -2)


def both(host: np.ndarray) -> list[gradlib.Tensor]:
    """On the device by rows, and by columns."""
    return [gradlib.as_tensor(host).to("cuda"), gradlib.as_tensor(host.swapaxes(-1, -2).copy()).to("cuda").mT]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_numpy_and_vectors_fit_them(kind, dtype, kernels_alone):
    eps = 24 * np.finfo(dtype).eps
    for shape in (*SHAPES, (32, 32)) if kind in ("any", "rank 2") else SHAPES:
        host, k = drawn(kind, dtype, *shape), min(shape[-2:])
        expected = np.linalg.svd(wide(host), compute_uv=False)
        top = max(expected.max(), np.finfo(dtype).tiny)
        for A in both(host):
            for full in (False, True):
                U, S, Vh = (each.cpu().numpy() for each in L.svd(A, full))
                assert (U.dtype, S.dtype, Vh.dtype) == (host.dtype, host.real.dtype, host.dtype)
                assert (U.shape[-2], Vh.shape[-1]) == shape[-2:]
                assert (U.shape[-1], Vh.shape[-2]) == (shape[-2:] if full else (k, k))
                assert np.abs(S - expected).max() <= eps * top
                assert (np.diff(S) <= 0).all()
                for Q in (U, adjoint(Vh)):
                    assert np.abs(adjoint(Q) @ Q - np.eye(Q.shape[-1])).max() <= eps
                assert np.abs((wide(U)[..., :k] * (S / top)[..., None, :]) @ wide(Vh)[..., :k, :] - wide(host) / top).max() <= eps
            assert np.abs(L.svdvals(A).cpu().numpy() - expected).max() <= eps * top


def close(made: gradlib.Tensor, expected: np.ndarray, condition: float = 1.0) -> None:
    host = made.cpu().numpy()
    assert host.shape == expected.shape
    np.testing.assert_allclose(host, expected, 0, 256 * condition * np.finfo(host.dtype).eps * max(1e-30, np.abs(expected).max()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [0, 1, 2, 9])
def test_pseudoinverses_and_least_squares_are_those_of_numpy(rank, dtype, kernels_alone):
    for shape in SHAPES:
        k = min(rank, *shape[-2:])
        host = normal(dtype, *shape[:-1], k, seed=1) @ normal(dtype, *shape[:-2], k, shape[-1], seed=2) + 0
        right, one = normal(dtype, *shape[:-1], 3, seed=3), normal(dtype, *shape[:-1], seed=4)
        kept = np.linalg.svd(wide(host), compute_uv=False)[..., :k]
        condition = (kept[..., 0] / kept[..., -1]).max() ** 2 if k else 1.0
        bound = 1e-5 if np.finfo(dtype).bits == 32 else 1e-13
        assert condition < 1e6  # so that the last singular value is told from zero
        inverse = np.linalg.pinv(wide(host), bound)
        X = inverse @ right
        away = np.sum(np.abs(host @ X - right) ** 2, -2)
        for A, B, driver in zip(both(host) * 2, [*both(right), *both(right)[::-1]], ("gelsy", "gels", "gelsd", "gelss"), strict=True):
            close(L.pinv(A, rtol=bound), inverse, condition)
            made, tall = L.lstsq(A, B, bound, driver=driver), shape[-2] > shape[-1]
            close(made.solution, X, condition)
            if tall and (driver == "gels" or (driver != "gelsy" and k == shape[-1])):
                np.testing.assert_allclose(made.residuals.cpu().numpy(), away, 1e-3 if bound == 1e-5 else 1e-9, 1e-6)
            else:
                assert made.residuals.shape == (0,)
            assert made.rank.tolist() == ([] if driver == "gels" else np.full(shape[:-2], k).tolist())
            if driver in ("gelsd", "gelss"):
                close(made.singular_values, np.linalg.svd(wide(host), compute_uv=False), condition)
            else:
                assert made.singular_values.shape == (0,)
            close(L.lstsq(A, gradlib.as_tensor(one).to("cuda"), bound)[0], (inverse @ one[..., None])[..., 0], condition)
        if shape[-1] == shape[-2]:
            hermitian, junk = host + adjoint(host), np.triu(np.full(shape[-2:], np.nan), 1)
            if rank != 2:
                expected = np.linalg.pinv(wide(hermitian), bound)
                scale = np.abs(expected).max() * np.abs(hermitian).max()
                for A in both(hermitian + junk.astype(host.real.dtype)):
                    close(L.pinv(A, hermitian=True, rtol=bound), expected, max(1, scale))


def test_tolerances_and_the_rank_are_those_of_the_host():
    values = np.array([2.0, 0.2, 0.01])
    A, host = (gradlib.as_tensor(np.diag(values)).to(device) for device in ("cuda", "cpu"))
    for given in ({}, {"rcond": 0.01}, {"rtol": 0.2}, {"atol": 0.1}, {"atol": 0.0}, {"atol": 0.001, "rtol": 0.2}):
        np.testing.assert_allclose(L.pinv(A, **given).cpu().numpy(), L.pinv(host, **given).numpy(), 1e-12, 1e-13)
    for bound in (None, 1e-3, 0.05, 0.5, 1.0):
        assert L.lstsq(A, A, bound).rank.tolist() == L.lstsq(host, host, bound).rank.tolist()


def test_matrices_that_are_not_finite_have_nan_and_spoil_no_others():
    host = normal("complex128", 4, 5, 3)
    host[0, 1, 0] = np.nan
    host[2, 4, 2] = np.inf
    A, B = (gradlib.as_tensor(each).to("cuda") for each in (host, normal("complex128", 4, 5, 2)))
    for result in (*L.svd(A), *L.svd(A, False), L.svdvals(A), L.pinv(A), L.lstsq(A, B)[0], L.lstsq(A, B, driver="gelsd")[3]):
        made = result.cpu().numpy().reshape(4, -1)
        assert np.isnan(made[[0, 2]]).all()
        assert np.isfinite(made[[1, 3]]).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4)])
def test_derivatives_of_both_orders_on_a_device(shape, dtype):
    A, B = (gradlib.as_tensor(normal(dtype, *each)).to("cuda").requires_grad_() for each in (shape, (*shape[:-1], 2)))

    def sizes(A):
        U, S, Vh = L.svd(A, False)
        return S, U.abs(), Vh.abs()

    for function, given in (
        (sizes, (A,)), (L.svdvals, (A,)), (L.pinv, (A,)), (lambda A, B: L.lstsq(A, B, driver="gelsd")[:2], (A, B)),
        (lambda A, B: L.lstsq(A, B)[0], (A, B)),
    ):  # fmt: skip
        assert gradlib.autograd.gradcheck(function, given)
        assert gradlib.autograd.gradgradcheck(function, given, fast_mode=True)


def test_a_graph_captures_them():
    A, B = (gradlib.as_tensor(normal("float32", 2, 5, each)).to("cuda") for each in (3, 2))
    functions = (*(lambda A, i=i: L.svd(A)[i] for i in range(3)), L.svdvals, L.pinv, lambda A: L.lstsq(A, B)[0])
    functions += (lambda A: L.lstsq(A, B, driver="gels").residuals,)
    expected = [function(A).tolist() for function in functions]
    graph = gradlib.cuda.CUDAGraph()
    with gradlib.cuda.graph(graph):
        made = [function(A) for function in functions]
    graph.replay()
    assert [each.tolist() for each in made] == expected


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    for shape in ((0, 3, 3), (2, 0, 0), (2, 0, 3), (singular.WIDEST + 1,) * 2, (singular.LONGEST + 1, 2)):
        A = cupy.ones(shape)
        assert singular.decomposed(A, True) is None
        assert singular.pseudoinverse(A, 0.0, 0.0, False) is None
        assert singular.fitted(A, A, 0.0, "gelsy", True, False) is None
    A = cupy.stack([cupy.eye(3), 2 * cupy.eye(3)])
    assert singular.pseudoinverse(A, cupy.zeros(2), 0.0, False) is None
    assert singular.decomposed(cupy.ones((singular.LONGEST, 2), "D"), True) is None  # more than a block's memory
    host, right = normal("float64", 40, 36), normal("float64", 40, 2)
    A, B = (gradlib.as_tensor(each).to("cuda") for each in (host, right))
    np.testing.assert_allclose(L.svdvals(A).cpu().numpy(), np.linalg.svd(host, compute_uv=False), 1e-9)
    np.testing.assert_allclose(L.pinv(A).cpu().numpy(), np.linalg.pinv(host), 1e-9, 1e-9)
    np.testing.assert_allclose(L.lstsq(A, B)[0].cpu().numpy(), np.linalg.lstsq(host, right)[0], 1e-9, 1e-9)
