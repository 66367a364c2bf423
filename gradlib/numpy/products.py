"""Products of matrices and tensors, with NumPy's arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import axes_of, axis_of, cast, first_tensor, promoted_arrays, tensor_of, value_of, written
from gradlib.numpy.registry import implements
from gradlib.ops import broadcast, complex as complex_ops, contract, join, product, slices
from gradlib.ops.linalg import products


def conjugate(x: Tensor) -> Tensor:
    """The conjugate of a complex Tensor; a real one as it is."""
    return complex_ops.conj(x) if x.dtype.kind == "c" else x


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Tensor:
    """Products summed over the last axis of a and the last but one of b."""
    x, y = promoted_arrays(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return written(x * y, out, "numpy.dot")
    if x.ndim <= 2 and y.ndim <= 2:
        return written(product.matmul(x, y), out, "numpy.dot")
    return written(tensordot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),))), out, "numpy.dot")


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Tensor:
    """The inner product of all elements; a conjugated."""
    x, y = promoted_arrays(a, b)
    return product.dot(conjugate(x.reshape((-1,))), y.reshape((-1,)))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Tensor:
    """Products summed over the last axes."""
    x, y = promoted_arrays(a, b)
    return x * y if x.ndim == 0 or y.ndim == 0 else tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    """The product of each element of a with each of b."""
    x, y = promoted_arrays(a, b)
    return written(x.reshape((-1, 1)) * y.reshape((1, -1)), out, "numpy.outer")


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Tensor:
    """The outer product of two vectors."""
    x, y = promoted_arrays(x1, x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}.")
    return outer(x, y)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Products summed over pairs of axes."""
    x, y = promoted_arrays(a, b)
    if isinstance(axes, (tuple, list, np.ndarray)):
        left, right = axes_of(_listed(axes[0]), x.ndim), axes_of(_listed(axes[1]), y.ndim)
    else:
        count = operator.index(axes)
        left, right = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if not 0 <= len(left) == len(right) or any(i < 0 for i in left) or any(j >= y.ndim for j in right):
        raise ValueError(f"shape-mismatch for sum: axes {axes!r} of shapes {tuple(x.shape)} and {tuple(y.shape)}")
    if any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)):  # gradlib's own would let a size of 1 broadcast
        raise ValueError(f"shape-mismatch for sum: axes {axes!r} of shapes {tuple(x.shape)} and {tuple(y.shape)}")
    return contract.tensordot(x, y, (list(left), list(right)))


def _listed(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list, np.ndarray)) else (operator.index(axes),)


@implements(np.linalg.tensordot)
def linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """Products summed over pairs of axes."""
    return tensordot(x1, x2, axes)


@implements(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The product of matrices."""
    return product.matmul(*promoted_arrays(x1, x2))


@implements(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Inner products along an axis; x1 conjugated."""
    x, y = promoted_arrays(x1, x2)
    return inner_along(x, y, axis, "numpy.linalg.vecdot")


def inner_along(x: Tensor, y: Tensor, axis: int, name: str) -> Tensor:
    """Inner products along an axis of one size; x conjugated. Raises: ValueError for sizes that differ, where one of 1 would broadcast."""
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(f"{name} takes operands of at least 1 dimension, got {x.ndim} and {y.ndim}")
    x, y = x.movedim(axis_of(axis, x.ndim), -1), y.movedim(axis_of(axis, y.ndim), -1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"{name} takes operands of one size along the axis, got {x.shape[-1]} and {y.shape[-1]}")
    made = conjugate(x) * y
    return cast(made.sum(-1), made.dtype)  # the sum of small integers and masks would be int64


@implements(np.kron)
def kron(a: Any, b: Any) -> Tensor:
    """Kronecker's product."""
    return contract.kron(*promoted_arrays(a, b))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tensor:
    """The vector product, of vectors of three components, or two."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted_arrays(a, b)
    x, y = x.movedim(axis_of(axisa, x.ndim), -1), y.movedim(axis_of(axisb, y.ndim), -1)
    sizes = (x.shape[-1], y.shape[-1])
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"incompatible dimensions for cross product (dimension must be 2 or 3), got {sizes}")
    if sizes == (2, 2):
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    x0, x1, x2 = _three(x)
    y0, y1, y2 = _three(y)
    parts = broadcast.broadcast_tensors(x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0)
    result = join.stack(list(parts), -1)
    return result.movedim(-1, axis_of(axisc, result.ndim))


def _three(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The components; the third of two is zero."""
    first, second = x[..., 0], x[..., 1]
    return first, second, x[..., 2] if x.shape[-1] == 3 else first.new_zeros(())


@implements(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The vector product of vectors of three components."""
    x, y = promoted_arrays(x1, x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        sizes = f"{x.shape[axis]} and {y.shape[axis]}"
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {sizes} dimensional instead.")
    return cross(x, y, axis=axis)


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    """The sum of the diagonal."""
    return written(cast(cast(slices.diagonal(tensor_of(a), offset, axis1, axis2), dtype).sum(-1), dtype), out, "numpy.trace")


@implements(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonal of matrices."""
    return trace(x, offset, -2, -1, dtype)


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return slices.diagonal(tensor_of(x), offset, -2, -1)


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, casting: Any = None, order: Any = None) -> Tensor:
    """A sum of products in Einstein's notation, as text or by lists of axes after each operand."""
    like = first_tensor(operands)
    if isinstance(operands[0], str):
        return written(contract.einsum(operands[0], *promoted_arrays(*operands[1:], like=like, dtype=dtype)), out, "numpy.einsum")
    pairs = operands[: len(operands) // 2 * 2]
    tensors = promoted_arrays(*pairs[::2], like=like, dtype=dtype)
    text = ",".join(map(_letters, pairs[1::2])) + (f"->{_letters(operands[-1])}" if len(operands) % 2 else "")
    return written(contract.einsum(text, *tensors), out, "numpy.einsum")


def _letters(axes: Any) -> str:
    """The subscripts for a list of axes."""
    return "".join("..." if i is Ellipsis else chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for i in axes)


@implements(np.einsum_path, exact=True)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """The order in which ``einsum`` would multiply; it asks the shapes alone."""
    shaped: list[Any] = [np.broadcast_to(np.zeros(()), x.shape) if isinstance(x, Tensor) else x for x in operands]
    return np.einsum_path(*shaped, optimize=optimize)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Tensor:
    """The product of several matrices, in the cheapest order."""
    return written(products.multi_dot(promoted_arrays(*arrays)), out, "numpy.linalg.multi_dot")


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Tensor:
    """A square matrix multiplied with itself."""
    x = tensor_of(a)
    return products.matrix_power(x if n >= 0 or x.dtype.kind in "fc" else x.to(np.float64), operator.index(value_of(n)))
