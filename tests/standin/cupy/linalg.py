"""Linear algebra with cuSOLVER's habits: matrices come back as views of column-major memory, and a failure fills NaN without a word."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from cupy import _door, _functions
from cupy._door import run


def _columns(value: Any) -> Any:
    """Matrices as cuSOLVER returns them: one that is not stacked lies in column-major memory."""
    parts = value if isinstance(value, tuple) else (value,)
    turned = [_functions.asarray(part, order="F") if part.ndim == 2 else part for part in parts]
    return tuple(turned) if isinstance(value, tuple) else turned[0]


class _Config(threading.local):
    linalg = "ignore"


_config = _Config()


def _or_nan(host: Any, *args: Any, **options: Any) -> Any:
    """CuPy does not look at cuSOLVER's status unless `cupyx.errstate(linalg="raise")` asks for it, which makes the host wait."""
    if _config.linalg == "raise":
        _door.to_host["linalg"] += 1
    try:
        made = run(lambda *given, **named: tuple(r) if isinstance(r := host(*given, **named), tuple) else r, *args, **options)
    except np.linalg.LinAlgError as error:
        if "singular" not in str(error).lower() and "positive definite" not in str(error) and "converge" not in str(error):
            raise
        if _config.linalg == "raise":
            raise np.linalg.LinAlgError(f"Error reported by {host.__name__} in cuSOLVER. devInfo = [1].") from error
        made = _functions.full_like(args[-1], np.nan)
    return _columns(made)


def cholesky(a: Any) -> Any:
    return _or_nan(np.linalg.cholesky, a)


def det(a: Any) -> Any:
    return run(np.linalg.det, a)


def inv(a: Any) -> Any:
    return _or_nan(np.linalg.inv, a)


def solve(a: Any, b: Any) -> Any:
    return _or_nan(np.linalg.solve, a, b)


def slogdet(a: Any) -> Any:
    return run(lambda x: tuple(np.linalg.slogdet(x)), a)


def qr(a: Any, mode: str = "reduced") -> Any:
    return _or_nan(np.linalg.qr, a, mode=mode)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return _or_nan(np.linalg.svd, a, full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(a: Any, UPLO: str = "L") -> Any:
    return _or_nan(np.linalg.eigh, a, UPLO=UPLO)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return run(np.linalg.eigvalsh, a, UPLO)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return run(np.linalg.norm, x, ord, axis, keepdims)


LinAlgError = np.linalg.LinAlgError
