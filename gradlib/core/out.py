"""``out=``: a result written into Tensors that the caller gives, outside any graph."""

from __future__ import annotations

from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import device_index
from gradlib.core.batched import Batched
from gradlib.core.modes import thread_state
from gradlib.core.tensor import Tensor
from gradlib.core.writes import no_derivative, overwrite, refuse_out


def refuse_transformed(name: str, values: Any) -> None:
    """Refuse ``out=`` where an argument carries a tangent or is a row of a vmap, which the write would lose."""
    for value in values:
        if isinstance(value, (list, tuple)):
            refuse_transformed(name, value)
        elif type(value) is Batched:
            raise RuntimeError(
                f"Batching rule not implemented for {name} with out=: vmap cannot write the rows of a Tensor it batches over into another. "
                "Use the form without out=."
            )
        elif isinstance(value, Tensor) and any(level.tangent(value) is not None for level in thread_state.interpreters):
            raise NotImplementedError(
                f"Trying to use forward AD with {name}_out that does not support it because it is an out= function. Leave out= away."
            )


def write_out(name: str, out: Any, result: Any) -> Any:
    """Write a result into the tensors given as ``out=``, as torch does: outside any graph only, and all of them or none."""
    if not isinstance(result, tuple):
        _refuse(name, out, result)
        overwrite(out, result._array, f"{name}(out=)")
        return out
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        raise TypeError(f"{name}: out= takes a tuple of {len(result)} Tensors, got {type(out).__name__}")
    for each, part in zip(out, result, strict=True):
        _refuse(name, each, part)
    for each, part in zip(out, result, strict=True):
        overwrite(each, part._array, f"{name}(out=)")
    return tuple(out)


_OF_ONE_DTYPE = frozenset({
    "abs", "amax", "amin", "argmax", "argmin", "argsort", "bitwise_not", "ceil", "clamp", "clamp_max", "clamp_min", "det", "floor", "frac",
    "inv", "log_softmax", "logcumsumexp", "matmul", "nan_to_num", "neg", "round", "sgn", "sign", "signbit", "softmax", "tril", "triu",
    "trunc", "vector_norm", "where",
})  # fmt: skip
"""Operations that torch writes only where ``out=`` has the very dtype of the result; others bring it to that of ``out=``."""


def _takes(name: str, result: Any, out: Any) -> bool:
    """Whether a result of one dtype may be written as another."""
    if name in ("all", "any"):
        return out in (dtypes.bool_, dtypes.uint8)
    return result == out if name in _OF_ONE_DTYPE else dtypes.can_cast(result, out)


def _refuse(name: str, out: Any, result: Any) -> None:
    """Refuse what cannot take a result as ``out=``."""
    if not isinstance(out, Tensor) or not isinstance(result, Tensor):
        raise TypeError(f"{name}: out= takes a Tensor, got {type(out).__name__}")
    if result._node is not None:
        raise no_derivative(name)
    if out._array.shape != result._array.shape:
        raise RuntimeError(f"{name}: out= has shape {list(out._array.shape)}, the result {list(result._array.shape)}")
    if not _takes(name, result._array.dtype, out._array.dtype):
        raise RuntimeError(f"result type {result._array.dtype} can't be cast to the desired output type {out._array.dtype}")
    if device_index(out._array) != device_index(result._array):
        raise RuntimeError(f"{name}: out= is on {out.device}, the result on {result.device}")
    refuse_out(out, name)
