"""Linear algebra, by torch.linalg's names. Source: torch.linalg."""

from gradlib.ops.decompose import LinAlgError, cholesky, eigh, eigvalsh, qr, svd, svdvals
from gradlib.ops.equations import inv, lstsq, pinv, solve, solve_triangular
from gradlib.ops.linalg import (
    det,
    linalg_cross as cross,
    linalg_diagonal as diagonal,
    linalg_norm as norm,
    matrix_norm,
    matrix_power,
    multi_dot,
    slogdet,
    vecdot,
)
from gradlib.ops.moments import vector_norm
from gradlib.ops.product import matmul

__all__ = [
    "LinAlgError", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power",
    "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vecdot", "vector_norm",
]  # fmt: skip
