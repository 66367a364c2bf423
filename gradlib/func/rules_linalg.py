"""Batching rules of linear algebra. The operations take batches of matrices; the batch of vmap is one more batch dimension."""

from __future__ import annotations

from typing import Any

from gradlib.core.declaration import Op
from gradlib.func.level import Level
from gradlib.func.rules import named, pad_to_rank, perform, physical, rule


@rule("cholesky", "cofactors", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "pinv", "qr", "qr_complete", "slogdet", "svd", "svdvals")
def of_matrices(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    if args[0].ndim < 2:
        raise RuntimeError(f"linalg.{op.name}: The input tensor A must have at least 2 dimensions, got shape {list(args[0].shape)}")
    return perform(op, (args[0].value, *args[1:]))


@rule("solve", "solve_triangular")
def solve(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The batches of both sides broadcast, also that of vmap."""
    A, (B,), *rest = args
    added = int(named(op, args).get("vector", False))
    rank = max(A.ndim, B.ndim + added)
    return perform(op, (pad_to_rank(level, A, rank), [pad_to_rank(level, B, rank - added)], *rest))


@rule("lstsq")
def lstsq(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Whether there are residuals may not depend on the rank of an example."""
    A, B, rtol, driver, _, vector = args
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lstsq: The input tensor A must have at least 2 dimensions, got shape {list(A.shape)}")
    made = perform(op, (physical(level, A), physical(level, B), rtol, driver, False, vector))
    empty = (False, driver == "gelsy" or A.shape[-2] <= A.shape[-1], driver == "gels", driver not in ("gelsd", "gelss"), False)
    return tuple(level.broadcast(each) if alone else each for each, alone in zip(made, empty, strict=True))
