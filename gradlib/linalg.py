"""Linear algebra, by torch.linalg's names. Source: torch.linalg."""

from gradlib.ops.linalg.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from gradlib.ops.linalg.determinant import det, slogdet
from gradlib.ops.linalg.matrices import LinAlgError
from gradlib.ops.linalg.norms import linalg_norm as norm, matrix_norm, vector_norm
from gradlib.ops.linalg.products import linalg_cross as cross, linalg_diagonal as diagonal, matrix_power, multi_dot, vecdot
from gradlib.ops.linalg.solve import inv, lstsq, pinv, solve, solve_triangular
from gradlib.ops.product import matmul

__all__ = [
    "LinAlgError", "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm",
    "matrix_power", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vecdot", "vector_norm",
]  # fmt: skip
