"""Shared by the functions of matrices: which inputs they take, failures of LAPACK, and small helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import all_finite, cupy, namespace, on_device_of
from gradlib.backend.matrices import finite_or_identity, spoil
from gradlib.core.modes import global_state, thread_state
from gradlib.core.tensor import Tensor, raw

__all__: list[str] = []  # gradlib.linalg names LinAlgError


class LinAlgError(np.linalg.LinAlgError, RuntimeError):
    """A matrix for which the problem has no solution, such as the inverse of a singular one.

    Source: torch.linalg.LinAlgError.
    Example:
        >>> try:
        ...     gradlib.linalg.inv(gradlib.zeros(2, 2))
        ... except gradlib.linalg.LinAlgError as error:
        ...     print(error)
        linalg.inv: Singular matrix. Use linalg.pinv for matrices that have no inverse.
    """


def attempt(name: str, advice: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function of ``numpy.linalg`` or ``cupy.linalg``; a failure names the operation and what to do.

    CuPy reports none, so that the host need not wait for it: the result is then not finite, except where ``failures_seen``.
    """
    try:
        return function(*args, **named)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.{name}: {error}. {advice}") from None


def without_broken(xp: Any, A: Any, part: str | None = None) -> tuple[Any, Any]:
    """The matrices, but the identity in the place of those that hold inf or NaN, on which LAPACK's iterations may never end.

    Args:
        part: the triangle, "L" or "U", that is asked and may be all that is given back; all of them when None.
    Returns: the matrices; where the others were, (...) of bool, or None for nowhere, which only the host asks.
    """
    if xp is np and all_finite(A):
        return A, None
    made = None if xp is np else finite_or_identity(A, part)
    if made is not None:
        return made
    seen = A if part is None or A.ndim < 2 else xp.tril(A) if part == "L" else xp.triu(A)
    if xp is np and seen is not A and all_finite(seen):
        return A, None
    broken = ~xp.isfinite(seen).all((-2, -1))
    return xp.where(broken[..., None, None], xp.eye(A.shape[-2], A.shape[-1], dtype=A.dtype), seen), broken


def iterate(name: str, function: Callable[..., Any], A: Any, *args: Any, part: str | None = None, **named: Any) -> tuple[Any, Any]:
    """The results of an iterative decomposition, with the identity in place of matrices that are not finite; and which those were.

    Args:
        name, function, args, named: as for ``attempt``.
        part: the triangle of A that the function looks at, as for ``without_broken``.
    Raises: LinAlgError (on the CPU) for NaN, as torch does; a matrix of inf has values that are NaN.
    """
    xp = np if isinstance(A, np.ndarray) else cupy()
    safe, broken = without_broken(xp, A, part)
    if xp is np and broken is not None and np.isnan(A if part is None else np.tril(A) if part == "L" else np.triu(A)).any():
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix contained non-finite values. A must be finite."
        )
    return attempt(name, "A must be finite.", function, safe, *args, **named), broken


def nan_of(dtype: np.dtype) -> Any:
    """NaN in this dtype, in both parts of a complex one."""
    return dtype.type(complex(np.nan, np.nan) if dtype.kind == "c" else np.nan)


def nan_where(broken: Any, *results: Any) -> Any:
    """Each result (..., k) or (..., m, k), NaN for the matrices that were not finite, so that their derivatives are as well.

    On a GPU it is written over the results, which must be nobody else's.
    """
    if broken is not None and (isinstance(broken, (np.ndarray, np.generic)) or not spoil(broken, *results)):
        xp, added = namespace(broken), broken.ndim
        results = tuple(xp.where(broken.reshape(broken.shape + (1,) * (x.ndim - added)), nan_of(x.dtype), x) for x in results)
    return results if len(results) > 1 else results[0]


def matrices(
    name: str, square: bool = False, low_precision: bool = False, integers: bool = False, vectors: bool = False
) -> Callable[[list[Any]], list[Any]]:
    """A promotion rule for ``op(promote=...)``: refuses operands that are no float or complex matrices of one dtype, or no square ones.

    Args:
        square: whether the last must be. low_precision, integers: take these dtypes too. vectors: all but the first may be vectors.
    """

    def check(values: list[Any]) -> list[Any]:
        dtype = None
        for value in values:
            array = value._array if isinstance(value, Tensor) else value
            if array.ndim < 2 and not (vectors and dtype is not None):
                raise RuntimeError(f"linalg.{name}: The input tensor must have at least 2 dimensions, got shape {list(array.shape)}")
            if dtype is not None:
                if array.dtype != dtype:
                    raise RuntimeError(f"linalg.{name}: expected tensors of the same dtype, got {dtype} and {array.dtype}")
                continue
            dtype, shape = array.dtype, array.shape
            if dtype.char in "fdFD":  # the common case
                continue
            if not integers and not dtypes.is_differentiable(dtype):
                raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {dtype}; use .float()")
            if not low_precision and dtype.itemsize < 4 and dtypes.is_floating_point(dtype):
                raise RuntimeError(f"linalg.{name}: Low precision dtypes not supported. Got {dtype}; use .float()")
        if square and shape[-1] != shape[-2]:
            raise RuntimeError(f"linalg.{name}: A must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} matrices")
        return values

    return check


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return (x.conj() if x.dtype.kind == "c" else x).mT


def diagonal_mask(x: Any) -> Any:
    """Bool, for matrices like x: where the diagonal is."""
    array = raw(x)
    with on_device_of(array):
        return namespace(array).eye(array.shape[-2], array.shape[-1], dtype=bool)


def records(x: Any) -> bool:
    """Whether derivatives of x may be asked for."""
    if not isinstance(x, Tensor):
        return False
    return bool(global_state.active) or (x._node is not None and (thread_state.grad_enabled or not global_state.no_grad))
