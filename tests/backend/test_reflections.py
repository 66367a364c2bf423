"""The kernel for the QR decomposition of small matrices gives LAPACK's, its signs included."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import reflections
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (2, 2), (7, 7), (3, 4, 4), (2, 1, 5, 3), (2, 3, 6), (1, 5), (5, 1), (32, 32), (9, 17), (40, 6), (6, 40)]


def normal(dtype: str, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(5)
    return np.asarray(draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype[0] == "c" else 0), dtype)


def drawn(kind: str, dtype: str, *shape: int) -> np.ndarray:
    A, first = normal(dtype, *shape), np.arange(shape[-1])
    far = 1e36 if np.finfo(dtype).bits == 32 else 1e300
    made = {
        "any": A, "tiny": A / far, "huge": A * far, "graded": A * (far**-0.5) ** (first % 3), "triangle": np.triu(A.real),
        "zero column": np.where(first == 0, 0, A), "zero": 0 * A, "rank 1": A[..., :1] @ A[..., :1, :], "negative": -np.triu(np.abs(A)),
    }[kind]  # fmt: skip
    return np.asarray(made, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["any", "tiny", "huge", "graded", "triangle", "negative", "zero column", "zero", "rank 1"])
def test_the_decomposition_is_that_of_numpy(kind, dtype, monkeypatch):
    monkeypatch.setattr(cupy.linalg, "qr", None)
    eps = 16 * np.finfo(dtype).eps
    for shape in SHAPES:
        host = drawn(kind, dtype, *shape)
        length = np.maximum(np.abs(host.astype("complex128")).max((-2, -1) if kind != "graded" else -2, keepdims=True), 1e-300)
        for mode in ("reduced", "complete"):
            expected = np.linalg.qr(host, mode)
            for A in (gradlib.as_tensor(host).to("cuda"), gradlib.as_tensor(host.swapaxes(-1, -2).copy()).to("cuda").mT):
                Q, R = (each.cpu().numpy() for each in L.qr(A, mode))
                assert [(x.shape, x.dtype) for x in (Q, R)] == [(x.shape, x.dtype) for x in expected]
                wide = Q.astype("complex128")
                assert np.abs(wide.conj().swapaxes(-1, -2) @ wide - np.eye(Q.shape[-1])).max() <= eps * max(shape[-2:])
                assert np.abs(wide @ (R / length) - host / length).max() <= eps * max(shape[-2:])
                assert not np.tril(R, -1).any()
                if kind != "rank 1":  # where the second column is what rounding leaves
                    assert np.abs((R - expected[1]) / length).max() <= 4 * eps * max(shape[-2:])
                    if shape[-2] <= shape[-1] or mode == "reduced":
                        np.testing.assert_allclose(Q, expected[0], 0, 2048 * eps)


def test_what_is_not_finite_stays_so_and_spoils_no_other_matrix():
    host = normal("float64", 3, 4, 3)
    host[0, 1, 0], host[2, 3, 2] = np.nan, np.inf
    for each in L.qr(gradlib.as_tensor(host).to("cuda")):
        made = each.cpu().numpy()
        assert not np.isfinite(made[[0, 2]]).all((1, 2)).any()
        assert np.isfinite(made[1]).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4)])
def test_derivatives_of_both_orders_on_a_device(shape, dtype):
    A = gradlib.as_tensor(normal(dtype, *shape)).to("cuda").requires_grad_()
    for function in (lambda A: tuple(L.qr(A)), lambda A: L.qr(A).Q, lambda A: L.qr(A).R):
        assert gradlib.autograd.gradcheck(function, A)
        assert gradlib.autograd.gradgradcheck(function, A, fast_mode=True)


def test_a_graph_captures_it():
    A = gradlib.as_tensor(normal("float32", 2, 5, 3)).to("cuda")
    expected = [each.tolist() for each in L.qr(A)]
    graph = gradlib.cuda.CUDAGraph()
    with gradlib.cuda.graph(graph):
        made = L.qr(A)
    graph.replay()
    assert [each.tolist() for each in made] == expected


def test_what_the_kernel_does_not_serve_is_left_to_cupy():
    for shape in ((0, 3, 3), (2, 0, 3), (2, 0, 0), (reflections.WIDEST + 1,) * 2, (reflections.LONGEST + 1, 2)):
        assert reflections.decomposed(cupy.ones(shape)) is None
    assert reflections.decomposed_whole(cupy.ones((reflections.LONGEST, 2), "D")) is None  # more than a block's memory
    host = normal("float64", 40, 36)
    np.testing.assert_allclose(L.qr(gradlib.as_tensor(host).to("cuda")).R.cpu().numpy(), np.linalg.qr(host)[1], 0, 1e-12)
