"""Products of matrices and vectors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, formulas, neighbours, small_products
from gradlib.backend.array import SMALL, cupy, device_array, is_array
from gradlib.backend.capture import capturing, kernels
from gradlib.backend.dtype import is_bfloat16
from gradlib.backend.rows import by_rows, makes_rows
from gradlib.core.compile import named
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.arithmetic import add_scaled, takes_factors
from gradlib.ops.complex import conj
from gradlib.ops.copies import fill
from gradlib.ops.dims import wrap_dim
from gradlib.ops.shape import expand, reshape

__all__ = ["addmm", "addmv", "baddbmm", "bmm", "cross", "dot", "matmul", "mm", "mv", "outer", "vdot"]


def one_dtype(name: str, values: list[Any]) -> None:
    """Refuse what torch's products refuse: mixed dtypes and bools."""
    first: Any = None
    for value in values:
        dtype = value.dtype
        first = dtype if first is None else first
        if dtype is not first and dtype != first:
            found = f"{first.name} and {dtype.name}"
            raise RuntimeError(f"{name}: expected operands of the same dtype, but got {found}; convert one with .to()")
    if first.kind == "b":
        raise NotImplementedError(f"{name} is not implemented for bool; convert with .long() or .float()")


def _multipliable(values: list[Any]) -> list[Any]:
    """Check the operands of ``matmul`` as torch does: dtype, at least one dimension, inner sizes, batch sizes."""
    input, other = values
    alike = type(input) is type(other) and (type(input) is np.ndarray or type(input) is device_array()) and input.dtype is other.dtype
    if alike and input.dtype.kind in "fV":
        left, right = input.shape, other.shape
        ndim = len(left)  # the common cases: two matrices, two vectors, two stacks of as many matrices
        if ndim == len(right) and (
            left[1] == right[0] if ndim == 2 else left == right if ndim == 1 else ndim == 3 and left[2] == right[1] and left[0] == right[0]
        ):
            return values
    one_dtype("matmul", values)
    left, right = (value.shape for value in values)
    if not left or not right:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {len(left)}D and {len(right)}D")
    if left[-1] != right[-2 if len(right) > 1 else -1]:
        raise RuntimeError(f"matmul: mat1 and mat2 shapes cannot be multiplied ({list(left)} and {list(right)}): the inner sizes differ")
    for a, b in zip(reversed(left[:-2]), reversed(right[:-2]), strict=False):
        if a != b and 1 not in (a, b):
            raise RuntimeError(f"matmul: the batch sizes of {list(left)} and {list(right)} do not broadcast ({a} against {b})")
    return values


def _multipliable_turned(values: list[Any]) -> list[Any]:
    _multipliable([values[0].T, values[1]])
    return values


def rows(x: Any) -> Any:
    """The same elements as one matrix: all but the last dimension become rows."""
    return x if x.ndim < 3 else x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def multiply_stacks(a: Any, b: Any) -> Any:
    """a @ b; by the operation where the operator of CuPy's arrays may not know their dtype, which is no built-in one, or is refused."""
    if type(a) is type(b) is np.ndarray and a.ndim > 2 and a.dtype.kind != "V":
        return multiplied(np, a, b)
    return matmul(a, b) if a.dtype.kind == "V" or capturing.capture is not None else a @ b


def _left(g: Any, other: Any, input_shape: tuple[int, ...]) -> Any:
    """The gradient of ``input @ other`` for input."""
    if len(input_shape) > 1:
        if other.ndim == 2 and type(g) is Tensor:
            return linear_unbiased(g, other)
        return multiply_stacks(g, other.mT) if other.ndim > 1 else g[..., None] * other
    return multiply_stacks(other, g[..., None])[..., 0] if other.ndim > 1 else g * other


def _right(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
    """The gradient of ``input @ other`` for other; one matrix that met a batch gets its gradient in one product."""
    if len(other_shape) == 1:
        return multiply_stacks(rows(input).mT, g.reshape((-1,))) if input.ndim > 1 else g * input
    if input.ndim == 1:
        return input[:, None] * g[..., None, :]
    return _turned(rows(input), rows(g)) if len(other_shape) == 2 else multiply_stacks(input.mT, g)


@op(
    "bilinear", promote=_multipliable, aliases=("__matmul__",),
    input=lambda g, other, input_shape: _left(g, other, input_shape),
    other=lambda g, input, other_shape: _right(g, input, other_shape),
)  # fmt: skip
def matmul(xp: Any, input: Any, other: Any) -> Any:
    """Matrix product of the last two dimensions; the others broadcast, and a vector is a row on the left, a column on the right.

    Args:
        input: (..., n, k) or (k,).
        other: (..., k, m) or (k,), of the same dtype.
    Returns: (..., n, m), without the dimension of a vector; a 0-d tensor for two vectors.
    Raises: RuntimeError for shapes that do not meet or dtypes that differ, NotImplementedError for bools.
    Source: torch.matmul.
    Example:
        >>> gradlib.matmul(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    return product(xp, input, other)


def product(xp: Any, input: Any, other: Any) -> Any:
    """``xp.matmul``, in the dtype of its operands. On a device the product of two vectors takes one launch."""
    if xp is not np:
        if input.ndim == 1 == other.ndim and input.dtype.kind in "fV" and (made := formulas.summed("product", input, other)) is not None:
            return made
        if input.dtype.kind == "f" and capturing.capture is None:
            return operator.matmul(input, other)  # CuPy's operator is quicker than its function, but does not know every dtype
    made = multiplied(xp, input, other)
    return made if made.dtype is input.dtype else made.astype(input.dtype, copy=False)  # bfloat16 is multiplied into float32


def multiplied(xp: Any, input: Any, other: Any) -> Any:
    """``xp.matmul``; of stacks of bfloat16, which CuPy does not multiply, in float32, to be rounded by the caller."""
    if xp is np:
        small = 0 < input.ndim < 3 and input.size <= SMALL and type(other) is np.ndarray and 0 < other.ndim < 3
        if small and input.dtype.char in "fdFD" and input.size != 1 != other.size:  # there a single 0 makes 0 of an infinity too
            return input.dot(other)  # the same product, of which the call takes half as long
        if type(input) is type(other) is np.ndarray and 2 < input.ndim == other.ndim and input.size >= small_products.LEAST:
            made = small_products.multiplied(input, other)
            if made is not None:
                return made
        return np.matmul(input, other)
    if capturing.capture is not None and input.dtype.kind in "fcV":
        return kernels.product(input, other)  # CuPy refuses cuBLAS within a capture
    if max(input.ndim, other.ndim) > 2 and is_bfloat16(input.dtype):
        input, other = input.astype(np.float32), other.astype(np.float32)
    return xp.matmul(input, other)


def _matmul_reflected(input: Any, other: Any) -> Any:
    return matmul(other, input)


publish(_matmul_reflected, "__rmatmul__")


# ---- with a transpose: the gradients of products of matrices, each recorded as one operation --------------------------------------


def mapped(values: list[Any]) -> list[Any]:
    """Check the operands of a linear map as torch does."""
    one_dtype("linear", values)
    input, weight = values[:2]
    if weight.ndim != 2:
        raise RuntimeError(f"linear: weight must be a matrix when there is a bias, got shape {list(weight.shape)}")
    if not input.ndim or input.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: input and weight shapes cannot be multiplied ({list(input.shape)} and {list(weight.shape)}): the last sizes differ"
        )
    return values


def weight_slope(g: Any, input: Any) -> Any:
    """The gradient of ``input @ weight.T`` for weight, in weight's layout."""
    return _turned(rows(g), rows(input)) if g.ndim > 1 else g[:, None] * input


@op(
    "bilinear", promote=mapped, label="linear", method=False,
    input=lambda g, weight: multiply_stacks(g, weight), weight=lambda g, input: weight_slope(g, input),
)  # fmt: skip
def linear_unbiased(xp: Any, input: Any, weight: Any) -> Any:
    """``input @ weight.T`` for a matrix."""
    return product(xp, input, weight.T)


def _turned(left: Any, right: Any) -> Any:
    """``left.mT @ right`` for matrices."""
    return left_transposed(left, right) if type(left) is Tensor else multiply_stacks(left.mT, right)


@op(
    "bilinear", promote=_multipliable_turned, label="matmul", method=False,
    input=lambda g, other: linear_unbiased(other, g), other=lambda g, input: multiply_stacks(input, g),
)  # fmt: skip
def left_transposed(xp: Any, input: Any, other: Any) -> Any:
    """``input.T @ other`` for matrices."""
    return product(xp, input.T, other)


# ---- of given ranks -----------------------------------------------------------------------------------------------------------------


def _ranks(name: str, **operands: tuple[Any, int]) -> None:
    """Refuse operands of another rank."""
    for each, (value, rank) in operands.items():
        if not isinstance(value, Tensor) and not is_array(value):
            raise TypeError(f"{name}: argument {each!r} must be a Tensor, got {type(value).__name__}")
        if value.ndim != rank:
            raise RuntimeError(f"{name}: {each} must have {rank} dimension{'s' * (rank > 1)}, got shape {list(value.shape)}")


def _have_ranks(input: Any, rank: int, other: Any, other_rank: int) -> bool:
    """Whether two operands are Tensors of these ranks, the common case."""
    return type(input) is Tensor and type(other) is Tensor and input._array.ndim == rank and other._array.ndim == other_rank


_mm, _bmm, _mv, _dot = (named(matmul, name) for name in ("mm", "bmm", "mv", "dot"))


@composite
def mm(input: Any, mat2: Any) -> Any:
    """Product of two matrices, without broadcasting: (n, k) by (k, m).

    Args:
        input: (n, m).
        mat2: (m, p), of the same dtype.
    Source: torch.mm.
    Example:
        >>> gradlib.mm(gradlib.tensor([[1.0, 2.0]]), gradlib.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    if not _have_ranks(input, 2, mat2, 2):
        _ranks("mm", input=(input, 2), mat2=(mat2, 2))
    return _mm(input, mat2)


@composite
def bmm(input: Any, mat2: Any) -> Any:
    """Products of two batches of matrices, without broadcasting: (b, n, k) by (b, k, m).

    Args:
        input: (B, n, m).
        mat2: (B, m, p), of the same dtype.
    Raises: RuntimeError for batches of different sizes, and for other shapes and dtypes.
    Source: torch.bmm.
    Example:
        >>> gradlib.bmm(gradlib.ones(2, 1, 3), gradlib.ones(2, 3, 1)).shape
        gradlib.Size([2, 1, 1])
    """
    if type(input) is type(mat2) is Tensor:  # the common case
        a, b = input._array, mat2._array
        if a.ndim == 3 == b.ndim and len(a) == len(b):
            return _bmm(input, mat2)
    _ranks("bmm", input=(input, 3), mat2=(mat2, 3))
    if raw(input).shape[0] != raw(mat2).shape[0]:
        raise RuntimeError(f"bmm: expected batches of the same size, got {list(input.shape)} and {list(mat2.shape)}")
    return _bmm(input, mat2)


@composite
def mv(input: Any, vec: Any) -> Any:
    """Product of a matrix (n, k) and a vector (k,).

    Args:
        input: (n, m).
        vec: (m,), of the same dtype.
    Source: torch.mv.
    Example:
        >>> gradlib.mv(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if not _have_ranks(input, 2, vec, 1):
        _ranks("mv", input=(input, 2), vec=(vec, 1))
    return _mv(input, vec)


@composite
def dot(input: Any, tensor: Any) -> Any:
    """Sum of the products of two vectors; complex ones are not conjugated.

    Args:
        input, tensor: (n,), any dtype, the same.
    Source: torch.dot.
    Example:
        >>> gradlib.dot(gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if not _have_ranks(input, 1, tensor, 1):
        _ranks("dot", input=(input, 1), tensor=(tensor, 1))
    return _dot(input, tensor)


@composite
def vdot(input: Any, other: Any) -> Any:
    """Sum of the products of two vectors, the first one conjugated.

    Args:
        input: (n,), any dtype.
        other: (n,), of the same dtype.
    Source: torch.vdot.
    Example:
        >>> gradlib.vdot(gradlib.tensor([1j, 2 + 0j]), gradlib.tensor([1j, 1 + 0j]))
        tensor(3.+0.j)
    """
    _ranks("vdot", input=(input, 1), other=(other, 1))
    return matmul(conj(input) if input.dtype.kind == "c" else input, other)


@composite
def outer(input: Any, vec2: Any) -> Any:
    """All products of an element of one vector (n,) with one of another (m,): (n, m).

    Args:
        input: (n,).
        vec2: (m,). Any dtype.
    Source: torch.outer.
    Example:
        >>> gradlib.outer(gradlib.tensor([1, 2]), gradlib.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    if not _have_ranks(input, 1, vec2, 1):
        _ranks("outer", input=(input, 1), vec2=(vec2, 1))
    column = reshape(input, (-1, 1))
    return by_rows(operator.mul, column, vec2) if makes_rows(raw(input), raw(vec2)) else column * vec2


# ---- added to something -------------------------------------------------------------------------------------------------------------


def _scaled(x: Any, factor: Any) -> Any:
    """``factor * x``; by zero also what is NaN or infinite, as in BLAS. Integers take the whole part of a factor."""
    if factor == 1:
        return x
    if factor == 0:
        return fill(x, 0)
    return x * dtypes.fitted(factor, dtypes.computed(x.dtype))


def _added(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """``beta * input + alpha * product``, where input broadcasts to the product."""
    if beta == 1 == alpha and type(input) is type(product) is Tensor:  # the common case
        a, b = input._array, product._array
        if a.shape == b.shape and a.dtype is b.dtype and a.dtype.kind in "fc":
            return input + product
    if alpha and takes_factors(input, product, alpha, beta) and _stretches(input._array.shape, product._array.shape):
        return input + product if beta == 1 == alpha else _ADD_SCALED(input, product, alpha, beta)
    if type(input) is not Tensor and not isinstance(input, Tensor) and not is_array(input):
        raise TypeError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    if input.dtype is not product.dtype or input.dtype.kind not in "fc":
        one_dtype(name, [input, product])
    shape = raw(product).shape
    if raw(input).shape != shape:
        input = expand(input, shape)
    return _scaled(input, beta) + _scaled(product, alpha)


def _stretches(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of a shape broadcasts to the wanted one."""
    if shape == wanted:
        return True
    more = len(wanted) - len(shape)
    for size, goal in zip(shape, wanted[more:], strict=False):
        if size != goal and size != 1:
            return False
    return more >= 0


_ADD_SCALED = named(add_scaled, "add")


def _into(rank: int, other_rank: int) -> Callable[..., bool]:
    """What adds a product of operands of these ranks to an array of a device in place, by one launch; it returns whether it did."""

    def written(input: Any, one: Any, two: Any, beta: Any = 1, alpha: Any = 1) -> bool:
        if not type(one) is type(two) is type(input) or one.ndim != rank or two.ndim != other_rank or one.shape[:-2] != two.shape[:-2]:
            return False
        if not (input.dtype is one.dtype is two.dtype) or input.dtype.char not in "fd" or not alpha:
            return False
        _multipliable([one, two])
        made = product(cupy(), one, two)
        return made.shape == input.shape and formulas.formula("add_scaled")(input, made, alpha, beta, out=input) is not None

    return written


@composite(inplace=True, device_into=_into(2, 2))
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)`` of matrices.

    Args:
        input: broadcasts to (n, m); not looked at when beta is 0.
        mat1: (n, k), of input's dtype.
        mat2: (k, m), of the same.
        beta, alpha: numbers.
    Source: torch.addmm.
    Example:
        >>> gradlib.addmm(gradlib.ones(2), gradlib.eye(2), gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), alpha=10)
        tensor([[11., 21.],
                [31., 41.]])
    """
    return _added("addmm", input, mm.__wrapped__(mat1, mat2), beta, alpha)  # which takes no out here


@composite(inplace=True, device_into=_into(2, 1))
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)``; input broadcasts to (n,), mat is (n, k), vec (k,).

    Args:
        input: broadcasts to (n,).
        mat: (n, m).
        vec: (m,). All of one dtype.
        beta, alpha: factors of input and of the product.
    Source: torch.addmv.
    Example:
        >>> gradlib.addmv(gradlib.ones(2), gradlib.eye(2), gradlib.tensor([3.0, 4.0]))
        tensor([4., 5.])
    """
    return _added("addmv", input, mv.__wrapped__(mat, vec), beta, alpha)


@composite(inplace=True, device_into=_into(3, 3))
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``addmm`` for batches of matrices.

    Args:
        input: broadcasts to (B, n, p).
        batch1: (B, n, m).
        batch2: (B, m, p). All of one dtype.
        beta, alpha: factors of input and of the product.
    Source: torch.baddbmm.
    Example:
        >>> gradlib.baddbmm(gradlib.ones(1, 1, 1), gradlib.ones(1, 1, 3), gradlib.ones(1, 3, 1))
        tensor([[[4.]]])
    """
    return _added("baddbmm", input, bmm.__wrapped__(batch1, batch2), beta, alpha)


# ---- in space -----------------------------------------------------------------------------------------------------------------------


def _threes(values: list[Any]) -> list[Any]:
    one_dtype("cross", values)
    return values


@op(
    "bilinear", promote=_threes, kernels={"out": neighbours.cross},
    input=lambda g, other, dim: cross_op(other, g, dim),
    other=lambda g, input, dim: cross_op(g, input, dim),
)  # fmt: skip
def cross_op(xp: Any, input: Any, other: Any, dim: int) -> Any:
    """The cross product along ``dim``, which has size 3."""
    if xp is not np or input.shape != other.shape:
        return xp.cross(input, other, axis=dim)
    made: Any
    if input.size <= SMALL:  # fewer calls, more passes
        made = input.take(_AFTER, dim) * other.take(_LAST, dim)
        made -= input.take(_LAST, dim) * other.take(_AFTER, dim)
        return made
    made = np.empty(input.shape, input.dtype)
    before = (slice(None),) * wrap_dim(dim, input.ndim)  # vmap counts it from the end
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        part = made[(*before, k, ...)]
        np.multiply(input[(*before, i)], other[(*before, j)], part)
        part -= input[(*before, j)] * other[(*before, i)]
    return made


_AFTER, _LAST = np.array((1, 2, 0)), np.array((2, 0, 1))


@composite
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The cross products of vectors of three elements.

    Args:
        input, other: of one dtype and rank; other dimensions broadcast.
        dim: where the three elements are; the first dimension of size 3 when None.
    Raises: RuntimeError for other sizes.
    Source: torch.cross; ``gradlib.linalg.cross`` looks at the last dimension.
    Example:
        >>> gradlib.cross(gradlib.tensor([1.0, 0.0, 0.0]), gradlib.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError(f"cross: inputs must have the same number of dimensions, got {list(input.shape)} and {list(other.shape)}")
    if dim is None:
        found = [d for d, size in enumerate(input.shape) if size == 3]
        if not found:
            raise RuntimeError(f"cross: no dimension of size 3 in input, which has shape {list(input.shape)}")
        dim = found[0]
    dim = wrap_dim(dim, input.ndim)
    if input.shape[dim : dim + 1] != (3,) or other.shape[dim : dim + 1] != (3,):
        raise RuntimeError(f"cross: dimension {dim} must have size 3 in both inputs, got {list(input.shape)} and {list(other.shape)}")
    return cross_op(input, other, dim)
