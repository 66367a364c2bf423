"""Products of matrices and vectors, contractions, distances."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from gradlib.ops.distance import euclidean_distance, farthest, pair_distance
from gradlib.ops.labelled import Term, contract, paired
from gradlib.ops.product import left_transposed
from tests.ops.case import Case, Rng, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")


def sums(equation: str) -> Any:
    """NumPy's own einsum, which contracts element by element."""
    return lambda *operands: np.einsum(equation, *operands, optimize=False)


def contracted(equation: str, *output: int) -> Any:
    """The product of two operands whose dimensions have letters; ``output``: the shape of the result."""
    mine, its, made = (tuple(map(ord, letters)) for letters in equation.replace("->", ",").split(","))
    return lambda a, b: contract(a, b, paired(Term(mine, tuple(a.shape)), Term(its, tuple(b.shape)), Term(made, output)))


def einsum(equation: str) -> Any:
    return lambda *operands: gradlib.einsum(equation, *operands)


def all_distances(p: float) -> Any:
    """The distances from all differences."""

    def call(x: Any, y: Any) -> Any:
        size = np.abs(x[..., :, None, :] - y[..., None, :, :])
        if p == np.inf:
            return size.max(-1)
        return (size != 0).sum(-1) if p == 0 else (size**p).sum(-1) ** (1 / p)

    return call


def points(rng: Rng) -> list[np.ndarray]:
    """Two sets of points, no two with a coordinate in common."""
    values = spread((33,))(rng)[0]
    return [values[:18].reshape(2, 3, 3), values[18:30].reshape(4, 3)]


CASES = [
    Case("matmul", lambda a, b: a @ b, normal((2, 3), (3, 4)), sums("ij,jk->ik"), complex=True, dtypes=ALL),
    Case("left_transposed", left_transposed, normal((3, 2), (3, 4)), sums("ji,jk->ik"), complex=True, dtypes=ALL),
    Case("matmul", gradlib.matmul, normal((3,), (3,)), sums("i,i->"), complex=True, dtypes=ALL, label="vectors"),
    Case("matmul", gradlib.matmul, normal((3,), (3, 4)), sums("i,ij->j"), complex=True, dtypes=ALL, label="vector-matrix"),
    Case("matmul", gradlib.matmul, normal((2, 3), (3,)), sums("ij,j->i"), complex=True, dtypes=ALL, label="matrix-vector"),
    Case("matmul", gradlib.matmul, normal((5, 2, 3), (3, 4)), sums("bij,jk->bik"), complex=True, dtypes=ALL, label="batch-matrix"),
    Case("matmul", gradlib.matmul, normal((2, 3), (5, 3, 4)), sums("ij,bjk->bik"), complex=True, label="matrix-batch"),
    Case("matmul", gradlib.matmul, normal((5, 1, 2, 3), (4, 3, 2)), sums("abij,bjk->abik"), complex=True, label="broadcast"),
    Case("matmul", gradlib.matmul, normal((3,), (2, 3, 4)), sums("i,bij->bj"), complex=True, label="vector-batch"),
    Case("matmul", gradlib.matmul, normal((5, 2, 3), (3,)), sums("bij,j->bi"), complex=True, label="batch-vector"),
    Case("matmul", gradlib.matmul, normal((2, 0), (0, 3)), lambda a, b: np.zeros((2, 3)), label="empty-sum"),
    Case("matmul", gradlib.matmul, normal((0, 2), (2, 3)), lambda a, b: np.zeros((0, 3)), label="no-rows"),
    Case("mm", gradlib.mm, normal((2, 3), (3, 4)), sums("ij,jk->ik"), complex=True),
    Case("bmm", gradlib.bmm, normal((5, 2, 3), (5, 3, 4)), sums("bij,bjk->bik"), complex=True),
    Case("mv", gradlib.mv, normal((2, 3), (3,)), sums("ij,j->i"), complex=True),
    Case("dot", gradlib.dot, normal((3,), (3,)), sums("i,i->"), complex=True),
    Case("vdot", gradlib.vdot, normal((3,), (3,)), lambda a, b: np.sum(a.conj() * b), complex=True),
    Case("outer", gradlib.outer, normal((3,), (2,)), sums("i,j->ij"), complex=True, dtypes=ALL),
    Case("addmm", lambda i, a, b: gradlib.addmm(i, a, b, beta=0.5, alpha=-2), normal((4,), (2, 3), (3, 4)),
         lambda i, a, b: i / 2 - 2 * np.einsum("ij,jk->ik", a, b), complex=True),
    Case("addmm", lambda i, a, b: gradlib.addmm(i, a, b, beta=0), normal((2, 4), (2, 3), (3, 4)), lambda i, a, b: a.dot(b), label="beta=0"),
    Case("addmv", gradlib.addmv, normal((2,), (2, 3), (3,)), lambda i, a, b: i + a.dot(b), complex=True),
    Case("baddbmm", gradlib.baddbmm, normal((2, 4), (5, 2, 3), (5, 3, 4)), lambda i, a, b: i + np.einsum("bij,bjk->bik", a, b),
         complex=True),
    Case("cross", lambda a, b: gradlib.cross(a, b, dim=1), normal((2, 3, 4), (1, 3, 4)), lambda a, b: np.cross(a, b, axis=1), complex=True,
         dtypes=ALL),
    Case("cross", gradlib.cross, normal((4, 3), (4, 3)), np.cross, label="first-of-size-3"),
    Case("linalg_cross", gradlib.linalg.cross, normal((3, 3), (3, 3)), np.cross, complex=True),
    Case("einsum", einsum("ij,jk->ik"), normal((2, 3), (3, 4)), sums("ij,jk->ik"), complex=True, dtypes=ALL),
    Case("einsum", einsum("ab,cb"), normal((2, 3), (4, 3)), sums("ab,cb->ac"), complex=True, label="implicit"),
    Case("einsum", einsum("ba"), normal((2, 3)), lambda x: x.T, complex=True, label="transpose"),
    Case("einsum", einsum("ii"), normal((3, 3)), lambda x: np.trace(x), complex=True, label="trace"),
    Case("einsum", einsum("iij->ji"), normal((3, 3, 2)), sums("iij->ji"), complex=True, label="diagonal"),
    Case("einsum", einsum("i,i->i"), normal((3,), (3,)), lambda a, b: b * a, complex=True, label="no-sum"),
    Case("einsum", einsum("i,j->ji"), normal((3,), (2,)), lambda a, b: np.outer(b, a), label="outer"),
    Case("einsum", einsum("...ij,...jk->...ik"), normal((2, 1, 2, 3), (4, 3, 2)), np.matmul, complex=True, label="ellipsis"),
    Case("einsum", einsum("i...->..."), normal((3, 2, 2)), lambda x: x.sum(0), label="ellipsis-sum"),
    Case("einsum", einsum("ij,jk,kl,l->i"), normal((2, 3), (3, 4), (4, 2), (2,)), lambda a, b, c, d: a.dot(b).dot(c).dot(d), complex=True,
         label="chain"),
    Case("einsum", einsum("bi,bj,bij->b"), normal((5, 2), (5, 3), (5, 2, 3)), sums("bi,bj,bij->b"), complex=True, label="bilinear"),
    Case("einsum", einsum("ij,ij->j"), normal((3, 1), (1, 4)), lambda a, b: a.sum() * b[0], label="size-1"),
    Case("einsum", einsum("ij,k->"), normal((2, 3), (4,)), lambda a, b: a.sum() * b.sum(), label="all"),
    Case("einsum", lambda a, b: gradlib.einsum(a, [0, ..., 1], b, [1, 2], [..., 2, 0]), normal((2, 5, 3), (3, 4)), sums("iaj,jk->aki"),
         label="lists"),
    Case("einsum", einsum("ij,jk"), normal((2, 0), (0, 3)), lambda a, b: np.zeros((2, 3)), label="empty"),
    Case("contract", contracted("bij,jbk->kib", 4, 2, 3), normal((3, 2, 5), (5, 3, 4)), sums("bij,jbk->kib"), complex=True, dtypes=ALL),
    Case("contract", contracted("bi,bj->jbi", 4, 3, 2), normal((3, 2), (3, 4)), sums("bi,bj->jbi"), complex=True, label="no-sum"),
    Case("contract", contracted("ij,j->i", 1), normal((1, 3), (3,)), sums("ij,j->i"), label="size-1"),
    Case("tensordot", lambda a, b: gradlib.tensordot(a, b, 2), normal((4, 2, 3), (2, 3, 2)), sums("aij,ijb->ab"), complex=True),
    Case("tensordot", lambda a, b: gradlib.tensordot(a, b, ([0, -1], [1, 0])), normal((2, 4, 3), (3, 2, 2)), sums("iaj,jib->ab"),
         complex=True, label="lists"),
    Case("tensordot", lambda a, b: gradlib.tensordot(a, b, 0), normal((2,), (3, 2)), sums("a,bc->abc"), label="none"),
    Case("inner", gradlib.inner, normal((2, 3), (4, 2, 3)), sums("ak,bck->abc"), complex=True),
    Case("inner", gradlib.inner, normal((2, 3), (4, 3)), sums("ak,bk->ab"), complex=True, label="matrices"),
    Case("inner", gradlib.inner, normal((2, 4, 3), (3,)), sums("abk,k->ab"), complex=True, label="vector"),
    Case("inner", gradlib.inner, normal((3,), (2, 4, 3)), sums("k,abk->ab"), complex=True, label="of vector"),
    Case("inner", gradlib.inner, normal((2, 3), ()), lambda a, b: b * a, complex=True, label="0-d"),
    Case("kron", gradlib.kron, normal((2, 3), (2,)), np.kron, complex=True, dtypes=ALL),
    Case("vecdot", lambda a, b: gradlib.linalg.vecdot(a, b, dim=0), normal((3, 4), (3, 4)), lambda a, b: (a.conj() * b).sum(0),
         complex=True),
    Case("multi_dot", lambda *m: gradlib.linalg.multi_dot(m), normal((3,), (3, 5), (5, 2), (2, 4)),
         lambda a, b, c, d: a.dot(b).dot(c).dot(d), complex=True),
    *[
        Case("cdist", lambda x, y, p=p: gradlib.cdist(x, y, p), points, all_distances(p), label=f"p={p}")
        for p in (0, 0.5, 1, 1.5, 2, 3, np.inf)
    ],
    Case("cdist", lambda x, y: gradlib.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), points, all_distances(2), tolerance=1e-8,
         dtypes=("float64",), label="product"),
    Case("euclidean_distance", euclidean_distance, points, all_distances(2), tolerance=1e-8, dtypes=("float64",)),
    Case("pair_distance", lambda a, b: pair_distance(a, b, 3.0), points, all_distances(3), tolerance=1e-8, dtypes=("float64",)),
    Case("farthest", farthest, spread((2, 3, 4)), lambda x: np.abs(x).max(-1)),
    *[
        Case("dist", lambda x, y, p=p: gradlib.dist(x, y, p), spread((3, 4), (4,)), lambda x, y, p=p: np.linalg.norm((x - y).ravel(), p),
             label=f"p={p}")
        for p in (0, 1, 3, np.inf)
    ],
    Case("dist", gradlib.dist, normal((3, 4), (3, 4)), lambda x, y: np.linalg.norm((x - y).ravel()), complex=True),
]  # fmt: skip
