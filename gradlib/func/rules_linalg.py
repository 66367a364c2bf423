"""Batching rules of linear algebra. The operations take batches of matrices; the batch of vmap is one more batch dimension."""

from __future__ import annotations

from typing import Any

from gradlib.core.declaration import Op
from gradlib.func.level import Level
from gradlib.func.rules import perform, physical, rule


@rule("cholesky", "cofactors", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "pinv", "qr", "qr_complete", "slogdet", "svd", "svdvals")
def of_matrices(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    if args[0].ndim < 2:
        raise RuntimeError(f"linalg.{op.name}: The input tensor A must have at least 2 dimensions, got shape {list(args[0].shape)}")
    return perform(op, (args[0].value, *args[1:]))


@rule("solve", "solve_triangular")
def solve(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Unbatched matrices are decomposed once, and the right-hand sides of all examples become its columns."""
    A, (B,), *rest = args
    if level.holds(A) or A.ndim > 2:
        return perform(op, (physical(level, A), [physical(level, B)], *rest))
    if B.ndim == 1:
        return perform(op, (A, [B.value.mT], *rest)).mT
    size, columns = B.shape
    side_by_side = B.value.permute((1, 0, 2)).reshape((size, level.size * columns))
    made = perform(op, (A, [side_by_side], *rest))
    return made.reshape((size, level.size, columns)).permute((1, 0, 2))


@rule("lstsq")
def lstsq(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Whether there are residuals may not depend on the rank of an example."""
    A, B, rtol, driver, _ = args
    if A.ndim < 2:
        raise RuntimeError(f"linalg.lstsq: The input tensor A must have at least 2 dimensions, got shape {list(A.shape)}")
    made = perform(op, (physical(level, A), physical(level, B), rtol, driver, False))
    empty = (False, driver == "gelsy" or A.shape[-2] <= A.shape[-1], driver == "gels", driver not in ("gelsd", "gelss"), False)
    return tuple(level.broadcast(each) if alone else each for each, alone in zip(made, empty, strict=True))
