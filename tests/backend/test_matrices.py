"""The kernels for small matrices give what the host's functions give, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import matrices, rotations, singular
from gradlib.backend.dtype import as_dtype
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
"""Of matrices; NumPy has no half types here."""


def drawn(dtype: str, *shape: int, seed: int = 5) -> gradlib.Tensor:
    draw = np.random.default_rng(seed)
    made = draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype[0] == "c" else 0)
    return gradlib.as_tensor(made.astype(dtype))


def assert_close(made, expected):
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    tolerance = 1e-3 if expected.dtype.itemsize == (8 if expected.dtype.kind == "c" else 4) else 1e-9
    np.testing.assert_allclose(made.cpu().numpy(), expected.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (1, 1), (2, 3, 6, 6), (0, 4, 4), (3, 0, 0), (70, 70), (2, 70, 70)])
def test_triangular_systems_are_solved_as_on_the_cpu(dtype, shape):
    size = shape[-1]
    A = drawn(dtype, *shape) / max(size, 1) ** 0.5 + 2 * gradlib.eye(size, dtype=dtype)
    B = drawn(dtype, *shape[:-1], 3, seed=6)
    for upper in (False, True):
        for unit in (False, True):
            for a, b in ((A, B), (A.mT, B), (A, B.mT.clone().mT), (A, B[..., ::2])):
                expected = L.solve_triangular(a, b, upper=upper, unitriangular=unit)
                for x, y in ((a, b), (drawn(dtype, *shape).mT * 0 + a, b)):
                    assert_close(L.solve_triangular(x.to("cuda"), y.to("cuda"), upper=upper, unitriangular=unit), expected)
    expected = L.solve_triangular(A, B.mT, upper=True, left=False)
    assert_close(L.solve_triangular(A.to("cuda"), B.mT.to("cuda"), upper=True, left=False), expected)


def test_the_other_triangle_is_not_read_and_zeros_on_the_diagonal_spoil_only_what_follows():
    A = gradlib.tensor([[2.0, np.nan, np.nan], [1, 0, np.nan], [1, 1, 4]])
    B = gradlib.ones(3, 1)
    with np.errstate(all="ignore"):
        for unit in (False, True):
            expected, made = (L.solve_triangular(A.to(d), B.to(d), upper=False, unitriangular=unit).cpu() for d in ("cpu", "cuda"))
            assert np.array_equal(made.numpy(), expected.numpy(), equal_nan=True)
            assert made[0] == (1 if unit else 0.5)
            assert np.isfinite(made.numpy()).all() == unit


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_triangular_systems_have_derivatives_of_both_orders_on_a_device(dtype):
    A, B = (drawn(dtype, 2, 3, n).to("cuda").requires_grad_() for n in (3, 2))

    def solved(A, B):
        return L.solve_triangular(A + 3 * gradlib.eye(3, device="cuda"), B, upper=False)

    assert gradlib.autograd.gradcheck(solved, (A, B))
    assert gradlib.autograd.gradgradcheck(solved, (A, B))


def multiplied(*parts: gradlib.Tensor) -> gradlib.Tensor:
    """The matrices again from eigenvalues and vectors, or U, S and Vh."""
    values, left, right = (*parts, parts[1].mH) if len(parts) == 2 else (parts[1], parts[0], parts[2])
    return (left * values[..., None, :]) @ right


def spoiled(dtype: str, *shape: int) -> gradlib.Tensor:
    """Hermitian matrices where they are square; some hold NaN or infinity, of which one only in the upper triangle."""
    A = drawn(dtype, *shape)
    A = A @ (A.conj() if dtype[0] == "c" else A).mT / shape[-1] + gradlib.eye(shape[-1]) if shape[-1] == shape[-2] else A
    A[0, 1, 0] = np.inf
    A[1, 0, 1] = np.inf
    return A


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("served", [True, False, None])
def test_matrices_that_are_not_finite_have_decompositions_of_nan(dtype, served, monkeypatch):
    size = 4
    if served is not None:  # by a kernel of their own, else by cuSOLVER's between some of gradlib's, or all by CuPy's functions
        monkeypatch.setattr(rotations, "WIDEST", 0)
        monkeypatch.setattr(singular, "_planned", lambda *given: None)
    if served is False:
        monkeypatch.setattr(matrices, "LARGEST", 1)
        monkeypatch.setattr(matrices, "MOST", 1)
    A = spoiled(dtype, 4, size, size)
    wide = spoiled(dtype, 4, size, size + 2)
    functions = [
        (A, lambda A: L.eigvalsh(A)), (A, lambda A: L.eigvalsh(A, "U")), (A, lambda A: multiplied(*L.eigh(A))),
        (wide, L.svdvals), (wide, lambda A: multiplied(*L.svd(A, False))), (wide, L.pinv),
        (wide.mT, L.pinv), (A, lambda A: L.pinv(A, hermitian=True)), (wide, lambda A: L.matrix_norm(A, 2)),
    ]  # fmt: skip
    for given, function in functions:
        for part in (given, given[1], given[:0], given[2]):
            for recorded in (False, True):
                assert_close(function(part.to("cuda").requires_grad_(recorded)).detach(), function(part))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_pseudoinverse_has_derivatives_of_both_orders_on_a_device(dtype, monkeypatch):
    monkeypatch.setattr(singular, "_planned", lambda *given: None)
    A = drawn(dtype, 2, 3, 2).to("cuda").requires_grad_()
    assert gradlib.autograd.gradcheck(L.pinv, A)
    assert gradlib.autograd.gradgradcheck(L.pinv, A)


def test_the_pseudoinverse_takes_tolerances_of_all_kinds(monkeypatch):
    monkeypatch.setattr(singular, "_planned", lambda *given: None)
    A = drawn("float64", 3, 4, 4)
    A[:, 0] = A[:, 1] + 1e-3 * A[:, 2]
    for named in ({"rtol": 0.01}, {"atol": 0.1}, {"rtol": gradlib.tensor([0.1, 1e-6, 0.5])}):
        moved = {name: x.to("cuda") if isinstance(x, gradlib.Tensor) else x for name, x in named.items()}
        assert_close(L.pinv(A.to("cuda"), **moved), L.pinv(A, **named))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "int32", "float64", "complex128"])
def test_triangles_of_matrices_are_those_of_the_cpu(dtype, monkeypatch):
    for name in ("tril", "triu"):
        monkeypatch.setattr(cupy, name, None)
    host = gradlib.as_tensor(np.random.default_rng(5).normal(size=(2, 3, 4, 5)).astype(as_dtype(dtype)))
    for given in (host, host.mT, host[0, :, ::2], host[1, 1, :, :1], host[:, 0]):
        for diagonal in (-9, -1, 0, 2):
            for name in ("tril", "triu"):
                expected, made = (getattr(gradlib, name)(x, diagonal) for x in (given, given.to("cuda")))
                assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())
                assert made.cpu().numpy().tobytes() == expected.numpy().tobytes()
    taken = host.to("cuda")
    assert taken.mT.tril(1).cpu().numpy().tobytes() == host.mT.tril(1).numpy().tobytes()


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x = cupy.ones((2, 3, 3), "f")
    assert matrices.finite_or_identity(x[:0], None) is None
    assert matrices.finite_or_identity(cupy.ones((1, matrices.LARGEST + 1), "f"), None) is None
    assert matrices.triangle_solved(x, [x.astype("d")], True, False, True) is None
    assert not matrices.spoil(cupy.zeros(2, bool), cupy.ones((3, 3, 2), "f").T)
    assert matrices.scaled_by_reciprocals(x, x[0, :2], cupy.zeros(2, bool), x[0, 0], 0.0, False) is None
    apart = cupy.ones((2, 4, 3, 3), "f")[:, ::3]
    assert matrices.triangle_solved(apart, [apart], True, False, True) is None
    assert L.solve_triangular(gradlib.as_tensor(apart), gradlib.as_tensor(apart), upper=True).shape == (2, 2, 3, 3)


def test_views_that_reach_beyond_what_an_int_counts_are_left_to_cupy():
    far = 1 << 29  # numbers of 4 bytes from matrix to matrix
    for count, expected in ((4, (far, 2, 1)), (5, None)):
        x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (count - 1, 2, 2), (4 * far, 8, 4))
        assert matrices.steps(x) == expected
