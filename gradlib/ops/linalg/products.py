"""Products of matrices: powers, chains, products along a dimension; torch.linalg's own ``cross`` and ``diagonal``."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import namespace, on_device_of
from gradlib.core.op import composite
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.complex import conj
from gradlib.ops.copies import clone
from gradlib.ops.linalg.matrices import matrices
from gradlib.ops.linalg.solve import inv
from gradlib.ops.product import cross, matmul, one_dtype, vdot
from gradlib.ops.reduce import sum
from gradlib.ops.select import where_op
from gradlib.ops.slices import diagonal

__all__ = ["matrix_power"]


@composite
def matrix_power(A: Any, n: int) -> Any:
    """The product of n copies of a square matrix; of its inverse when n is negative.

    Args:
        A: (..., m, m).
        n: any integer; 0 gives identities.
    Raises: RuntimeError for other shapes, LinAlgError (on the CPU) when there is no inverse.
    Source: torch.linalg.matrix_power.
    Example:
        >>> gradlib.linalg.matrix_power(2 * gradlib.eye(2), 3)
        tensor([[8., 0.],
                [0., 8.]])
    """
    exponent = operator.index(n)
    _square([A])
    if exponent == 0:
        array, shape = raw(A), A.shape
        xp = namespace(array)
        with on_device_of(array):
            return where_op(xp.ones((), bool), xp.broadcast_to(xp.eye(shape[-1], dtype=A.dtype), shape), A)
    square = A if exponent > 0 else inv(A)
    left = exponent if exponent > 0 else -exponent
    result = None
    while left:
        if left & 1:
            result = square if result is None else matmul(result, square)
        left >>= 1
        if left:
            square = matmul(square, square)
    return clone(A) if exponent == 1 else result


@composite(method=False)
def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of several matrices in the order that takes the fewest multiplications.

    Args:
        tensors: at least two matrices of one dtype; the first may be a vector (a row), and so may the last (a column).
    Raises: RuntimeError for shapes that do not meet.
    Source: torch.linalg.multi_dot.
    Example:
        >>> gradlib.linalg.multi_dot([gradlib.ones(2, 3), gradlib.ones(3, 4), gradlib.ones(4, 1)])
        tensor([[12.],
                [12.]])
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    one_dtype("multi_dot", parts)
    for i in _plan(tuple([x._array.shape if type(x) is Tensor else tuple(raw(x).shape) for x in parts])):
        parts[i : i + 2] = [matmul(parts[i], parts[i + 1])]
    return parts[0]


_square = matrices("matrix_power", square=True, low_precision=True, integers=True)


@functools.lru_cache(maxsize=512)
def _plan(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The order of the products. Raises: as ``multi_dot``."""
    for i, shape in enumerate(shapes):
        if len(shape) != 2 and (len(shape) != 1 or 0 < i < len(shapes) - 1):
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D (or 1D at either end) but got {len(shape)}D, shape {list(shape)}")
        if i and shape[0] != shapes[i - 1][-1]:
            met = f"{list(shapes[i - 1])} and {list(shape)}"
            raise RuntimeError(f"multi_dot(): tensors {i - 1} and {i} with shapes {met} cannot be multiplied")
    first, last = shapes[0], shapes[-1]
    return _order((first[0] if len(first) == 2 else 1, *(shape[0] for shape in shapes[1:]), last[1] if len(last) == 2 else 1))


def _order(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The order in which to multiply neighbours: the place of the left one among what is left. Source: the textbook's dynamic programme.

    Args:
        sizes: the rows of the first matrix, then the columns of each.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            found = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(found, key=lambda k: found[k])
            cost[i, j] = found[split[i, j]]

    def within(i: int, j: int, place: int) -> list[int]:
        """The products that make one of the run i..j, of which i stands at that place."""
        if i == j:
            return []
        middle = split[i, j]
        return [*within(i, middle, place), *within(middle + 1, j, place + 1), place]

    return tuple(within(0, count - 1, 0))


@composite(method=False)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sum over one dimension of the products of elements, the first conjugated.

    Args:
        x, y: float or complex, of one dtype; they broadcast.
        dim: the dimension, of the same size in both.
    Raises: RuntimeError for other dtypes and sizes.
    Source: torch.linalg.vecdot.
    Example:
        >>> gradlib.linalg.vecdot(gradlib.tensor([[1.0, 2.0]]), gradlib.tensor([[3.0, 4.0]]))
        tensor([11.])
    """
    alike = type(x) is type(y) is Tensor and x._array.dtype is y._array.dtype
    if not alike or x._array.dtype.kind != "f":  # what is left is the common case
        one_dtype("linalg.vecdot", [x, y])
        if not dtypes.is_differentiable(x.dtype):
            raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if x.ndim == 1 and y.ndim == 1:
        return vdot(x, y)
    return sum((conj(x) if x.dtype.kind == "c" else x) * y, dim)


@composite(method=False)
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross products of vectors of three elements along ``dim``; other dimensions broadcast.

    Args:
        input, other: any shapes that broadcast together, of size 3 along dim.
        dim: the dimension.
    Source: torch.linalg.cross.
    Example:
        >>> gradlib.linalg.cross(gradlib.tensor([1.0, 0.0, 0.0]), gradlib.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    return cross(input, other, dim)


@composite(method=False)
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as a view; ``offset`` above the main one.

    Args:
        A: (..., m, n).
        offset, dim1, dim2: as in ``diagonal``.
    Source: torch.linalg.diagonal.
    Example:
        >>> gradlib.linalg.diagonal(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return diagonal(A, offset, dim1, dim2)
