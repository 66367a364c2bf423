"""The kernel for the eigenvalues of small Hermitian matrices gives NumPy's to some units in the last place, and vectors that fit them."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import rotations
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
SHAPES = [(1, 1), (2, 2), (7, 7), (3, 4, 4), (2, 2, 5, 5)]


def drawn(kind: str, dtype: str, *shape: int) -> np.ndarray:
    """Hermitian matrices: any, positive definite and large, of rank 1, with a space of equal eigenvalues, diagonal, or zero."""
    draw = np.random.default_rng(5)
    A = draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype[0] == "c" else 0)
    back, one = A.conj().swapaxes(-1, -2), np.eye(shape[-1])
    simple, full = A[..., :1] @ back[..., :1, :], A + back
    made = {
        "any": full, "definite": 1e6 * A @ back, "rank 1": simple, "diagonal": one * full.real, "equal": one + simple, "zero": 0 * A,
    }[kind]  # fmt: skip
    return np.asarray(made, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("kind", ["any", "definite", "rank 1", "diagonal", "equal", "zero"])
def test_eigenvalues_are_those_of_numpy_and_vectors_fit_them(kind, dtype, monkeypatch):
    for name in ("eigh", "eigvalsh"):
        monkeypatch.setattr(cupy.linalg, name, None)
    for shape in (*SHAPES, (2, 32, 32)) if kind in ("any", "equal") else SHAPES:
        host = drawn(kind, dtype, *shape)
        other = np.full_like(host, np.nan)
        wide = np.eye(shape[-1])
        expected = np.linalg.eigvalsh(host)
        bound = 16 * np.finfo(dtype).eps * max(1, np.abs(expected).max())
        for part, given in (("L", np.where(np.tri(shape[-1]), host, other)), ("U", np.where(np.tri(shape[-1]).T, host, other))):
            for A in (gradlib.as_tensor(given).to("cuda"), gradlib.as_tensor(given.swapaxes(-1, -2).copy()).to("cuda").mT):
                values, vectors = (each.cpu().numpy() for each in L.eigh(A, part))
                assert (values.dtype, vectors.dtype) == (expected.dtype, host.dtype)
                assert np.abs(values - expected).max() <= bound
                assert (np.diff(values) >= 0).all()
                assert np.abs(L.eigvalsh(A, part).cpu().numpy() - expected).max() <= bound
                assert np.abs(host @ vectors - vectors * values[..., None, :]).max() <= bound
                assert np.abs(vectors.conj().swapaxes(-1, -2) @ vectors - wide).max() <= 16 * np.finfo(dtype).eps


def test_matrices_that_are_not_finite_have_nan_and_spoil_no_others():
    host = drawn("any", "complex128", 4, 3, 3)
    host[0, 1, 0] = np.nan
    host[2, 2, 2] = np.inf
    for result in (*L.eigh(gradlib.as_tensor(host).to("cuda")), L.eigvalsh(gradlib.as_tensor(host).to("cuda"))):
        made = result.cpu().numpy().reshape(4, -1)
        assert np.isnan(made[[0, 2]]).all()
        assert np.isfinite(made[[1, 3]]).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_both_orders_on_a_device(dtype):
    A = gradlib.as_tensor(drawn("any", dtype, 2, 4, 4)).to("cuda").requires_grad_()

    def parts(A):
        values, vectors = L.eigh((A + A.mH) / 2)
        return values, vectors.abs()

    assert gradlib.autograd.gradcheck(parts, A)
    assert gradlib.autograd.gradgradcheck(parts, A)


def test_a_graph_captures_it():
    A = gradlib.as_tensor(drawn("any", "float32", 2, 4, 4)).to("cuda")
    expected = L.eigvalsh(A).tolist()
    graph = gradlib.cuda.CUDAGraph()
    with gradlib.cuda.graph(graph):
        made = L.eigvalsh(A)
    graph.replay()
    assert made.tolist() == expected


def test_what_the_kernel_does_not_serve_is_left_to_cupy():
    for shape in ((0, 3, 3), (2, 0, 0), (rotations.WIDEST + 1,) * 2):
        assert rotations.eigenvalues(cupy.ones(shape), False, True) is None
    host = drawn("any", "float64", 34, 34)
    np.testing.assert_allclose(L.eigvalsh(gradlib.as_tensor(host).to("cuda")).cpu().numpy(), np.linalg.eigvalsh(host), 1e-9, 1e-9)
