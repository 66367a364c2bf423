"""Determinants of matrices, one or a batch."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from gradlib.backend import elimination
from gradlib.backend.array import namespace
from gradlib.core.op import composite, op
from gradlib.core.tensor import raw
from gradlib.ops.complex import conj
from gradlib.ops.create import ones_like, zeros_like
from gradlib.ops.join import cat
from gradlib.ops.linalg.decompositions import svd
from gradlib.ops.linalg.matrices import adjoint, diagonal_mask, matrices, nan_of, without_broken
from gradlib.ops.linalg.solve import inv
from gradlib.ops.rearrange import flip
from gradlib.ops.reduce import sum
from gradlib.ops.scan import cumprod
from gradlib.ops.select import where_op

__all__ = ["det", "slogdet"]

Slogdet = namedtuple("Slogdet", ["sign", "logabsdet"])


def _of_others(x: Any) -> Any:
    """The product of all other elements along the last dimension, for each element, without a division."""
    one = ones_like(x[..., :1])
    before = cumprod(cat([one, x[..., :-1]], -1), -1)
    behind = flip(cumprod(flip(cat([x[..., 1:], one], -1), (-1,)), -1), (-1,))
    return before * behind


def _turned(U: Any, inner: Any, Vh: Any) -> Any:
    """The cofactors, or their derivatives, of U diag(S) Vh from those of diag(S), which are ``inner``."""
    product = U.conj() @ inner @ Vh.conj() if U.dtype.kind == "c" else U @ inner @ Vh
    return (det(U) * det(Vh))[..., None, None] * product


def _cofactors_slope(g: Any, A: Any) -> Any:
    """The second derivative of the determinant: for a diagonal matrix all pairs i, j weighted with the product of the other elements."""
    array = raw(A)
    safe, broken = without_broken(namespace(array), array)
    U, S, Vh = svd(A if broken is None else where_op(broken[..., None, None], safe, A), False)
    mask = diagonal_mask(U)
    pairs = where_op(mask, 0.0, _of_others(where_op(mask, 1.0, S[..., None, :])))
    g = adjoint(U) @ g @ adjoint(Vh)
    on_diagonal = sum(pairs * where_op(mask, g, 0.0).sum(-1)[..., None, :], -1)
    made = _turned(U, where_op(mask, on_diagonal[..., None, :], -(pairs * g).mT), Vh)
    return made if broken is None else where_op(broken[..., None, None], math.nan, made)


@op("other", method=False, A=_cofactors_slope, kernels={"out": elimination.cofactors})
def cofactors(xp: Any, A: Any) -> Any:
    """The derivative of the determinant by each element, from the singular values: it exists for singular matrices too.

    Of small ones on a device it comes from an elimination, which the host need not wait for.
    """
    safe, broken = without_broken(xp, A)
    U, S, Vh = svd(safe, False)
    made = _turned(U, xp.eye(S.shape[-1], dtype=S.dtype) * _of_others(S)[..., None, :], Vh)
    return made if broken is None else xp.where(broken[..., None, None], nan_of(made.dtype), made)


def _norms(xp: Any, A: Any) -> Any:
    """The largest sum of absolute values in a row of each matrix, of small ones too in few long passes."""
    sizes = xp.abs(A)
    sums = sizes @ xp.ones(A.shape[-1], sizes.dtype)
    return sums.reshape(-1, A.shape[-1]).T.copy("C").max(0).reshape(A.shape[:-2])


def _det_slope(g: Any, A: Any, out: Any) -> Any:
    """g times the cofactors: det(A) A^-T, or for matrices that are singular to working precision from their singular values."""
    array, size = raw(A), A.shape[-1]
    if size == 1:
        return g[..., None, None]
    xp = namespace(array)
    identity = xp.eye(size, dtype=array.dtype)
    singular = ((raw(out) == 0) | (raw(out) != raw(out)))[..., None, None]  # of NaN: inv might refuse it, the cofactors are NaN
    safe = A if xp is np and not singular.any() else where_op(singular, identity, A)
    inverse = inv(safe)
    weight = (g * out)[..., None, None]
    if size:
        condition = _norms(xp, raw(safe)) * _norms(xp, raw(inverse))
        singular = singular | (condition * (10 * size * np.finfo(array.dtype).eps) > 1)[..., None, None]
    if not singular.any():
        return weight * inverse.mT
    distinct = xp.diag(xp.arange(1, size + 1).astype(array.dtype))
    inverse = inv(where_op(singular, identity, A))
    return where_op(singular, g[..., None, None] * cofactors(where_op(singular, A, distinct)), weight * inverse.mT)


def _det_slope_on_device(g: Any, A: Any, out: Any) -> Any:
    made = elimination.cofactors(A) if A.shape[-1] > 1 else None
    return None if made is None else g[..., None, None] * made


@op(
    "other", promote=matrices("det", square=True), A=_det_slope,
    jvp=lambda t_A, A, out: sum(t_A * _det_slope(ones_like(out), A, out), (-2, -1)),
    kernels={"out": elimination.determinants, "A": _det_slope_on_device},
)  # fmt: skip
def det(xp: Any, A: Any) -> Any:
    """The determinant of square matrices.

    Args:
        A: (..., n, n), float or complex.
    Returns: (...). Its derivative exists everywhere, at singular matrices too.
    Raises: RuntimeError for other shapes and dtypes.
    Source: torch.linalg.det.
    Example:
        >>> gradlib.linalg.det(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(-2.)
    """
    made = xp.linalg.det(A)
    return made if xp is not np or np.all(made) else xp.where((made == 0) & ~np.isfinite(A).all((-2, -1)), nan_of(made.dtype), made)


def _slogdet_slope(g: Any, A: Any, sign: Any) -> Any:
    """A^-H times the gradient by log|det|, and by the angle of a complex sign; cofactors over zero for singular matrices."""
    by_sign, by_size = g
    weight: Any = 0.0 if by_size is None else by_size
    if by_sign is not None and A.dtype.kind == "c":
        weight = (by_sign.conj() * sign).imag * -1j + weight  # in this order NumPy scalars stay NumPy scalars
    elif by_size is None:
        weight = by_sign * 0
    weight = weight[..., None, None]
    array = raw(A)
    singular = (raw(sign) == 0)[..., None, None]
    if namespace(array) is not np or not singular.any():
        return weight * adjoint(inv(A))
    identity = np.eye(array.shape[-1], dtype=array.dtype)
    distinct = np.diag(np.arange(1, array.shape[-1] + 1).astype(array.dtype))
    conjugated = conj(cofactors(where_op(singular, A, distinct)))
    return weight * where_op(singular, conjugated / 0.0, adjoint(inv(where_op(singular, identity, A))))


def _slogdet_tangent(t_A: Any, A: Any, sign: Any, logabsdet: Any) -> tuple[Any, Any]:
    """The trace of A^-1 t_A: its real part is the tangent of log|det|, its imaginary part that of a complex sign's angle."""
    trace = sum(t_A * conj(_slogdet_slope((None, ones_like(logabsdet)), A, sign)), (-2, -1))
    return (sign * (trace.imag * 1j), trace.real) if A.dtype.kind == "c" else (zeros_like(sign), trace)


def _slogdet_slope_on_device(g: Any, A: Any, sign: Any) -> Any:
    by_sign, by_size = g
    return elimination.logarithm_slope(by_size, A) if by_sign is None else None


@op("other", promote=matrices("slogdet", square=True), outputs=("sign", "logabsdet"), complex="explicit",
    A=_slogdet_slope, jvp=_slogdet_tangent, kernels={"out": elimination.signs_and_logarithms, "A": _slogdet_slope_on_device})  # fmt: skip
def slogdet_op(xp: Any, A: Any) -> Any:
    """Sign and logarithm of the size of the determinant."""
    sign, size = xp.linalg.slogdet(A)
    if xp is np and not np.all(np.isfinite(size)):  # LAPACK takes a pivot of NaN for a zero
        size = np.where((sign == 0) & ~np.isfinite(A).all((-2, -1)), size.dtype.type(math.nan), size)
        size = np.where(np.isnan(sign), size.dtype.type(math.nan), size)  # of a complex pivot that is infinite
        sign = np.where(size != size, nan_of(sign.dtype) if sign.dtype.kind == "c" else 0.0, sign)
    return sign, size


@composite
def slogdet(A: Any) -> Any:
    """The sign of the determinant of square matrices and the logarithm of its absolute value, which does not overflow.

    Args:
        A: (..., n, n), float or complex.
    Returns: the named tuple (sign, of modulus 1 or zero; logabsdet, real, -inf for a singular matrix, where there is no derivative).
    Raises: RuntimeError for other shapes and dtypes.
    Source: torch.linalg.slogdet.
    Example:
        >>> gradlib.linalg.slogdet(2 * gradlib.eye(2)).logabsdet
        tensor(1.3863)
    """
    return Slogdet(*slogdet_op(A))
