"""Products of matrices and vectors."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import is_array
from gradlib.core.op import op, publish

__all__ = ["matmul"]


def one_dtype(name: str, values: list[Any]) -> None:
    """Refuse what torch's products refuse: numbers, mixed dtypes and bools."""
    for value in values:
        if not is_array(value):
            raise TypeError(f"{name}: expected Tensors, got {type(value).__name__}")
    if any(value.dtype != values[0].dtype for value in values):
        found = " and ".join(value.dtype.name for value in values)
        raise RuntimeError(f"{name}: expected operands of the same dtype, but got {found}; convert one with .to()")
    if values[0].dtype.kind == "b":
        raise NotImplementedError(f"{name} is not implemented for bool; convert with .long() or .float()")


def _multipliable(values: list[Any]) -> list[Any]:
    """Check the operands of ``matmul`` as torch does: dtype, at least one dimension, inner sizes, batch sizes."""
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


def rows(x: Any) -> Any:
    """The same elements as one matrix: all but the last dimension become rows."""
    return x if x.ndim < 3 else x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _left(g: Any, other: Any, input_shape: tuple[int, ...]) -> Any:
    """The gradient of ``input @ other`` for input."""
    if len(input_shape) > 1:
        return g @ other.mT if other.ndim > 1 else g[..., None] * other
    return (other @ g[..., None])[..., 0] if other.ndim > 1 else g * other


def _right(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
    """The gradient of ``input @ other`` for other; one matrix that met a batch gets its gradient in one product."""
    if len(other_shape) == 1:
        return rows(input).mT @ g.reshape((-1,)) if input.ndim > 1 else g * input
    if input.ndim == 1:
        return input[:, None] * g[..., None, :]
    return rows(input).mT @ rows(g) if len(other_shape) == 2 else input.mT @ g


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
    """
    made = xp.matmul(input, other)
    return made if made.dtype is input.dtype else made.astype(input.dtype, copy=False)  # bfloat16 is multiplied into float32


def _matmul_reflected(input: Any, other: Any) -> Any:
    return matmul(other, input)


publish(_matmul_reflected, "__rmatmul__")
