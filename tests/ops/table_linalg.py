"""Decompositions, equations and norms of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from gradlib import linalg
from gradlib.ops.linalg.determinant import cofactors
from tests.ops.case import Case, Rng, normal

INF = float("inf")


def good(*shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    """Square matrices (the first shape) far from singular, with real parts and draws that differ; then normal arrays."""

    def draw(rng: Rng) -> list[np.ndarray]:
        first, *others = shapes
        return [rng.uniform(-0.4, 0.4, first) + np.diag(np.arange(1.0, first[-1] + 1)), *(rng.standard_normal(s) for s in others)]

    return draw


def adjoint(a: Any) -> Any:
    return a.conj().swapaxes(-1, -2)


def hermitian(a: Any) -> Any:
    return a + adjoint(a)


def definite(a: Any) -> Any:
    return a @ adjoint(a) + (a @ adjoint(a)).swapaxes(-1, -2).conj()


def size(a: Any) -> Any:
    """What does not depend on the phase of vectors: the squared absolute values of their elements."""
    return (a * a.conj()).real if a.dtype.kind == "c" else a * a


def first(decomposition: Any, *taken: int) -> Any:
    """Some of the results of a decomposition, vectors by their squared elements."""

    def call(a: Any) -> Any:
        results = decomposition(a)
        return tuple(results[i] if results[i].ndim < a.ndim else size(results[i]) for i in taken)

    return call


def cubed(a: Any) -> Any:
    """A A^H A, from the singular values."""
    U, S, Vh = linalg.svd(a, full_matrices=False)
    return U @ (S[..., None] ** 3 * Vh)


def minors(a: np.ndarray) -> np.ndarray:
    """The cofactors by their definition."""
    result = np.empty_like(a)
    for i, j in np.ndindex(*a.shape):
        result[i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return result


def of_rank(rank: int, m: int, n: int) -> Callable[[Rng], list[np.ndarray]]:
    return lambda rng: [rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))]


LOOSE: dict[str, Any] = {"tolerance": 1e-9, "dtypes": ("float64",)}
CASES = [
    Case("det", linalg.det, good((2, 3, 3)), np.linalg.det, complex=True),
    Case("det", linalg.det, of_rank(2, 3, 3), lambda a: np.zeros(()), label="singular", **LOOSE),
    Case("det", lambda a: gradlib.det(a * 0), normal((3, 3)), lambda a: np.zeros(()), label="zero"),
    Case("det", linalg.det, normal((0, 0)), lambda a: np.ones(()), label="empty"),
    Case("cofactors", cofactors, good((3, 3)), minors, complex=True, **LOOSE),
    Case("cofactors", cofactors, of_rank(1, 3, 3), lambda a: np.zeros((3, 3)), label="rank-1", second=False, **LOOSE),
    Case("slogdet", lambda a: linalg.slogdet(-a)[1], good((2, 3, 3)), lambda a: np.log(np.abs(np.linalg.det(a))), complex=True),
    Case("slogdet", linalg.slogdet, good((3, 3)), lambda a: tuple(np.linalg.slogdet(a)), complex=True, label="both"),
    Case("inv", linalg.inv, good((2, 3, 3)), lambda a: np.linalg.solve(a, np.broadcast_to(np.eye(3), a.shape)), complex=True),
    Case("inverse", gradlib.inverse, good((3, 3)), np.linalg.inv, complex=True),
    Case("pinv", linalg.pinv, normal((2, 4, 3)), lambda a: np.linalg.inv(adjoint(a) @ a) @ adjoint(a), complex=True, **LOOSE),
    Case("pinv", linalg.pinv, normal((3, 4)), lambda a: adjoint(a) @ np.linalg.inv(a @ adjoint(a)), complex=True, label="wide", **LOOSE),
    Case("pinv", lambda a: linalg.pinv(hermitian(a), hermitian=True), good((3, 3)), lambda a: np.linalg.inv(hermitian(a)), complex=True,
         label="hermitian", **LOOSE),
    Case("pinverse", gradlib.pinverse, normal((4, 3)), lambda a: np.linalg.pinv(a), **LOOSE),
    Case("solve", linalg.solve, good((2, 3, 3), (3, 4)), lambda a, b: np.linalg.inv(a) @ b, complex=True, **LOOSE),
    Case("solve", linalg.solve, good((3, 3), (3,)), lambda a, b: np.linalg.inv(a) @ b, complex=True, label="vector", **LOOSE),
    Case("solve", linalg.solve, good((2, 3, 3), (2, 3)), lambda a, b: np.einsum("bij,bj->bi", np.linalg.inv(a), b), label="vectors",
         **LOOSE),
    Case("solve", lambda a, b: linalg.solve(a, b, left=False), good((3, 3), (2, 4, 3)), lambda a, b: b @ np.linalg.inv(a), complex=True,
         label="right", **LOOSE),
    Case("solve", linalg.solve, good((2, 1, 3, 3), (4, 3, 2)), lambda a, b: np.linalg.inv(a) @ b, complex=True, label="batches", **LOOSE),
    Case("solve", linalg.solve, good((2, 3, 3), (3,)), lambda a, b: np.linalg.inv(a) @ b, label="one vector", **LOOSE),
    Case("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=True, left=False), good((2, 1, 3, 3), (4, 2, 3)),
         lambda a, b: b @ np.linalg.inv(np.triu(a)), label="batches", **LOOSE),
    Case("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=True), good((2, 3, 3), (3, 2)),
         lambda a, b: np.linalg.inv(np.triu(a)) @ b, complex=True, **LOOSE),
    Case("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True), good((3, 3), (2, 3)),
         lambda a, b: b @ np.linalg.inv(np.tril(a, -1) + np.eye(3)), complex=True, label="unit-right", **LOOSE),
    Case("lstsq", lambda a, b: linalg.lstsq(a, b)[0], normal((4, 3), (4, 2)), lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
         complex=True, **LOOSE),
    Case("lstsq", lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2], normal((2, 4, 3), (2, 4, 1)), label="residuals"),
    Case("lstsq", lambda a, b: linalg.lstsq(a, b)[0], normal((2, 3), (2,)), lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
         label="wide", **LOOSE),
    Case("lstsq", lambda a, b: linalg.lstsq(a, b)[0], normal((2, 1, 4, 3), (1, 3, 4)),
         lambda a, b: (np.linalg.pinv(a) @ b[..., None])[..., 0], label="batches", **LOOSE),
    Case("cholesky", lambda a: linalg.cholesky(definite(a)), good((2, 3, 3)), lambda a: np.linalg.cholesky(definite(a)),
         complex=True, **LOOSE),
    Case("cholesky", lambda a: linalg.cholesky(definite(a), upper=True), good((3, 3)), lambda a: adjoint(np.linalg.cholesky(definite(a))),
         complex=True, label="upper", **LOOSE),
    Case("eig", lambda a: first(linalg.eig, 0, 1)(a), good((2, 3, 3)),
         lambda a: (np.linalg.eig(a)[0].astype(complex), size(np.linalg.eig(a)[1])), complex=True, **LOOSE),
    Case("eig", lambda a: size(linalg.eig(a)[1]), normal((3, 3)), lambda a: size(np.linalg.eig(a)[1]), label="pairs", **LOOSE),
    Case("eigvals", linalg.eigvals, good((2, 3, 3)), lambda a: np.linalg.eigvals(a).astype(complex), complex=True, **LOOSE),
    Case("eigh", lambda a: first(linalg.eigh, 0, 1)(hermitian(a)), good((2, 3, 3)), lambda a: first(np.linalg.eigh, 0, 1)(hermitian(a)),
         complex=True, **LOOSE),
    Case("eigh", lambda a: linalg.eigh(hermitian(a), "U")[0], good((3, 3)), lambda a: np.linalg.eigvalsh(hermitian(a)), complex=True,
         label="upper", **LOOSE),
    Case("eigvalsh", lambda a: linalg.eigvalsh(hermitian(a)), good((2, 3, 3)), lambda a: np.linalg.eigvalsh(hermitian(a)),
         complex=True, **LOOSE),
    Case("svd", lambda a: first(linalg.svd, 0, 1, 2)(a), good((3, 3)), lambda a: first(np.linalg.svd, 0, 1, 2)(a), complex=True, **LOOSE),
    Case("svd", lambda a: first(lambda x: linalg.svd(x, full_matrices=False), 0, 1, 2)(a), normal((2, 4, 3)),
         lambda a: first(lambda x: np.linalg.svd(x, full_matrices=False), 0, 1, 2)(a), complex=True, label="tall", **LOOSE),
    Case("svd", cubed, normal((2, 3)), lambda a: a @ adjoint(a) @ a, complex=True, label="cubed", **LOOSE),
    Case("svdvals", linalg.svdvals, normal((2, 3, 4)), lambda a: np.sqrt(np.linalg.eigvalsh(a @ adjoint(a))[..., ::-1]),
         complex=True, **LOOSE),
    Case("qr", lambda a: tuple(linalg.qr(a)), normal((2, 4, 3)), lambda a: tuple(np.linalg.qr(a)), **LOOSE),
    Case("qr", lambda a: tuple(linalg.qr(a)), normal((3, 5)), lambda a: tuple(np.linalg.qr(a)), label="wide", **LOOSE),
    Case("qr", lambda a: size(linalg.qr(a)[0]), normal((3, 2)), lambda a: size(np.linalg.qr(a)[0]), complex=True, label="complex", **LOOSE),
    Case("qr_complete", lambda a: linalg.qr(a.detach() if isinstance(a, gradlib.Tensor) else a, mode="complete")[0], normal((4, 3)),
         lambda a: np.linalg.qr(a, mode="complete")[0], differentiable=False),
    *[
        Case("matrix_norm", lambda a, ord=ord: linalg.matrix_norm(a, ord), normal((2, 3, 4)),
             lambda a, ord=ord: np.linalg.norm(a, ord, axis=(-2, -1)), complex=True, label=str(ord), **LOOSE)
        for ord in ("fro", "nuc", 2, -2, 1, -1, INF, -INF)
    ],
    Case("matrix_norm", lambda a: linalg.matrix_norm(a, 1, dim=(2, 0), keepdim=True), normal((2, 3, 4)),
         lambda a: np.linalg.norm(a, 1, axis=(2, 0), keepdims=True), label="dim"),
    Case("linalg_norm", linalg.norm, normal((2, 3, 4)), lambda a: np.sqrt(np.sum(size(a))), complex=True),
    Case("linalg_norm", lambda a: linalg.norm(a, 3, dim=1), normal((2, 3, 4)), lambda a: np.sum(np.abs(a) ** 3, 1) ** (1 / 3),
         label="vectors"),
    Case("linalg_norm", lambda a: linalg.norm(a, 1), normal((3, 4)), lambda a: np.abs(a).sum(0).max(), label="matrix"),
    Case("matrix_power", lambda a: linalg.matrix_power(a, 5), normal((2, 3, 3)), lambda a: a @ a @ a @ a @ a, complex=True),
    Case("matrix_power", lambda a: linalg.matrix_power(a, -2), good((3, 3)), lambda a: np.linalg.inv(a @ a), complex=True,
         label="-2", **LOOSE),
    Case("matrix_power", lambda a: linalg.matrix_power(a, 0), normal((2, 3, 3)), lambda a: np.stack([np.eye(3)] * 2), label="0"),
    Case("linalg_diagonal", lambda a: linalg.diagonal(a, offset=1), normal((2, 3, 4)), lambda a: a[:, [0, 1, 2], [1, 2, 3]], complex=True),
]  # fmt: skip
