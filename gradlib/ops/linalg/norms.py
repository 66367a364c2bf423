"""Norms of vectors and of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Namespace
from gradlib.backend.kernel_text import CTYPES
from gradlib.backend.line_slopes import slope
from gradlib.backend.reducing import extreme, folded
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.create import ones_like
from gradlib.ops.dims import wrap_dim
from gradlib.ops.elementwise import sgn
from gradlib.ops.linalg.decompositions import singular_values
from gradlib.ops.linalg.matrices import matrices
from gradlib.ops.minmax import amax, amin
from gradlib.ops.reduce import axes, back, count, kept, spread, sum, tangent, total, total_of_squares
from gradlib.ops.select import where_op
from gradlib.ops.shape import movedim

__all__ = ["norm"]


# ---- of vectors --------------------------------------------------------------------------------------------------------------


def norm_slope(g: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """The derivative of (sum |x|^p)^(1/p), zero at zero, whatever arrives there."""
    if ord == 2 and type(out) is np.ndarray and np.count_nonzero(out) == out.size:  # the common case
        if out.ndim and not keepdim:
            shape = kept(input.shape, dim)
            g, out = g.reshape(shape), out.reshape(shape)
        made = input / out
        made *= g
        return made
    if ord not in (0, 1) and abs(ord) != math.inf:
        g = where_op(out == 0, 0.0, g)
    g = spread(g, input.shape, dim, keepdim)
    if ord == 0:
        return g * 0
    if ord == 1:
        return g * sgn(input)
    if ord == 2:  # what is 0 is asked of the norm, not of each element
        return g * (input / spread(where_op(out == 0, 1.0, out), input.shape, dim, keepdim))
    whole = spread(out, input.shape, dim, keepdim)
    size = abs(input)
    if abs(ord) == math.inf:
        ties = (size == whole) | (size != size)
        return g * sgn(input) * ties / spread(sum(ties, dim, keepdim), input.shape, dim, keepdim)
    nothing = (size == 0) | (whole == 0)
    share = where_op(nothing, 1.0, size) / where_op(nothing, 1.0, whole)
    return g * where_op(nothing, 0.0, sgn(input) * share ** (ord - 1))


def _slope_on_device(g: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    if ord == 0 or (math.fabs(ord) >= _MOST and math.fabs(ord) != math.inf):
        return None
    axis = dim if dim is None or type(dim) is int else axes(input.ndim, dim)
    name = "norm" if ord == 2 else "norm_1" if ord == 1 else "norm_extreme" if math.fabs(ord) == math.inf else "norm_power"
    return slope(name, g, input.shape, axis, input, out, False, ord if name == "norm_power" else 0.0)


def _on_device(input: Any, ord: float, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        return None
    axis = dim if dim is None or type(dim) is int else axes(input.ndim, dim)
    if ord in _ORDERS:
        return folded(_ORDERS[ord], input, axis, keepdim)
    if math.fabs(ord) == math.inf:
        made = extreme("max_size" if ord > 0 else "min_size", input, axis, keepdim, False) if input.dtype.char in CTYPES else None
        return None if made is None else made[0]
    return folded("norm_power", input, axis, keepdim, power=float(ord)) if math.fabs(ord) < _MOST else None


_ORDERS: dict[float, str] = {0: "norm_0", 1: "norm_1", 2: "norm"}
_MOST = 1e6
"""Orders from here on are left to CuPy: in float32 their reciprocals have no power that differs from 1."""


@op(
    "other", keyword_only=("dtype",), complex="explicit", method=False, input=norm_slope,
    jvp=lambda t_input, input, out, ord, dim, keepdim: tangent(
        t_input, norm_slope(ones_like(out), input, out, ord, dim, keepdim), dim, keepdim
    ),
    kernels={"out": _on_device, "input": _slope_on_device},
)  # fmt: skip
def vector_norm(xp: Namespace, input: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The ``ord``-norm of the elements over ``dim``: (sum |x|^ord)^(1/ord), the largest or smallest |x| for ±inf, their number for 0.

    Args:
        input: any shape, float or complex dtype (the result is real).
        ord: any real number or ±inf.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers, and for a negative or infinite ord of nothing.
    Source: torch.linalg.vector_norm.
    Example:
        >>> gradlib.linalg.vector_norm(gradlib.tensor([3.0, -4.0]), ord=1)
        tensor(7.)
    """
    if input.dtype.kind in "biu":
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype}")
    if ord == 2 and dtype is None and input.dtype.char in "fd" and (input.size if dim is None else count(input.shape, dim)) != 1:
        return xp.sqrt(total_of_squares(xp, input, dim, keepdim))
    if dtype is not None:
        input = input.astype(_wider("vector_norm", input.dtype, dtypes.as_dtype(dtype)))
    real = dtypes.to_real(input.dtype)
    if input.dtype.kind == "V":
        input = input.astype(dtypes.float32)
    if abs(ord) == math.inf or ord < 0:
        _refuse_empty(input.shape, ord, dim)
    alone = count(input.shape, dim) == 1  # then no power may overflow
    if ord == 2 and not alone:
        if input.dtype.kind == "c":
            return back(xp.sqrt(total(xp, input.real**2 + input.imag**2, dim, keepdim)), real)
        return back(xp.sqrt(total_of_squares(xp, input.astype(_at_least_single(input.dtype), copy=False), dim, keepdim)), real)
    size = xp.abs(input)
    if ord == math.inf or (alone and ord != 0):
        return back(size.max(axis=axes(input.ndim, dim), keepdims=keepdim), real)
    if ord == -math.inf:
        return back(size.min(axis=axes(input.ndim, dim), keepdims=keepdim), real)
    if ord == 0:
        return total(xp, size != 0, dim, keepdim).astype(real)
    size = size.astype(_at_least_single(size.dtype), copy=False)
    return back(total(xp, size, dim, keepdim) if ord == 1 else total(xp, size**ord, dim, keepdim) ** (1 / ord), real)


def _wider(name: str, dtype: Any, wanted: Any) -> Any:
    """The dtype in which a norm was asked for. Raises: RuntimeError where that would lose something or be of another kind."""
    if dtypes.category(wanted) != dtypes.category(dtype) or dtypes.promote_types(dtype, wanted) != wanted:
        raise RuntimeError(f"linalg.{name}: the dtype of the input ({dtype}) should convert without narrowing to dtype={wanted}")
    return wanted


def _at_least_single(dtype: Any) -> Any:
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def _refuse_empty(shape: tuple[int, ...], ord: float, dim: Any) -> None:
    if count(shape, dim) == 0:
        where = "an empty tensor" if dim is None else f"dimension {dim}, which is empty,"
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on {where} because the operation "
            f"does not have an identity (shape {list(shape)})"
        )


# ---- of matrices -------------------------------------------------------------------------------------------------------------


def _cast(A: Any, dtype: Any) -> Any:
    if dtype is None:
        return A
    return A.to(dtype) if isinstance(A, Tensor) else A.astype(dtypes.as_dtype(dtype))


_IN_FULL, _IN_ANY = matrices("matrix_norm"), matrices("matrix_norm", low_precision=True)


@composite(method=False)
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A norm of matrices.

    Args:
        A: (..., m, n), float or complex.
        ord: "fro" (the root of the sum of squares), "nuc" (the sum of singular values), 2 and -2 (the largest and smallest of them), 1 and
            -1 (the largest and smallest sum of a column's absolute values), inf and -inf (of a row's).
        dim: the two dimensions of the matrices.
        keepdim: leave them with size 1.
        dtype: convert to this dtype first, which may lose nothing.
    Returns: real; at a zero matrix the gradient of "fro" is zero.
    Raises: RuntimeError for another ord and for other shapes and dtypes.
    Source: torch.linalg.matrix_norm.
    Example:
        >>> gradlib.linalg.matrix_norm(gradlib.tensor([[3.0, 0.0], [0.0, 4.0]]), ord=2)
        tensor(4.)
    """
    if ord not in ("fro", "nuc", 1, 2, math.inf, -1, -2, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported; there are 'fro', 'nuc', 1, 2, inf, -1, -2 and -inf")
    (_IN_FULL if ord in ("nuc", 2, -2) else _IN_ANY)([A])
    if not isinstance(dim, Sequence) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    row, column = (A.ndim - 2, A.ndim - 1) if dim == (-2, -1) else (wrap_dim(dim[0], A.ndim), wrap_dim(dim[1], A.ndim))
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {tuple(dim)}")
    if dtype is not None:
        A = _cast(A, _wider("matrix_norm", A.dtype, dtypes.as_dtype(dtype)))
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        S = singular_values(A if (row, column) == (A.ndim - 2, A.ndim - 1) else movedim(A, (row, column), (-2, -1)))
        found = S._array if type(S) is Tensor else raw(S)
        made = (sum if ord == "nuc" or (ord == 2 and not found.shape[-1]) else amax if ord == 2 else amin)(S, -1)
    else:
        summed, left = (row, column) if math.fabs(ord) == 1 else (column, row)
        on_host = type(A._array if type(A) is Tensor else raw(A)) is np.ndarray
        sums = sum(abs(A), summed, keepdim) if on_host else vector_norm(A, 1, summed, keepdim)  # which is one launch
        left -= not keepdim and summed < left
        found = sums._array if type(sums) is Tensor else raw(sums)
        return (sum if ord > 0 and not found.shape[left] else amax if ord > 0 else amin)(sums, left, keepdim)
    return made.reshape(tuple(1 if d in (row, column) else n for d, n in enumerate(A.shape))) if keepdim else made


# ---- of either ---------------------------------------------------------------------------------------------------------------


@composite(method=False)
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of vectors or matrices.

    Args:
        A: float or complex.
        ord: as for ``vector_norm`` where there is one dimension, as for ``matrix_norm`` where there are two; None is the root of the sum of
            squares.
        dim: one dimension or two; all when None, for which ord must be None or A a vector or a matrix.
        keepdim, dtype: as for both.
    Raises: RuntimeError for another number of dimensions.
    Source: torch.linalg.norm.
    Example:
        >>> gradlib.linalg.norm(gradlib.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if isinstance(dim, Sequence) and len(dim) > 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    count = A.ndim if dim is None else len(dim) if isinstance(dim, Sequence) else 1
    if isinstance(ord, str) or count == 2:
        return matrix_norm(A, ord, (0, 1) if dim is None and A.ndim == 2 else (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


@composite
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The p-norm of the elements, as one vector, over ``dim`` (a number, several, or all); zero has zero gradient.

    Args:
        input: any shape, float or complex dtype (the result is real).
        p: any real number or ±inf; "fro" and None mean 2; "nuc" is the sum of singular values of a matrix.
        dim, keepdim, dtype: as in ``sum``.
    Raises: RuntimeError for integers and for a p that is none of these.
    Source: torch.norm.
    Example:
        >>> gradlib.norm(gradlib.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f'norm: p is a number, inf, -inf, "fro" or "nuc", got {p!r}')
    return vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)
