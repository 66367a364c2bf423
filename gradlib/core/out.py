"""``out=``: a result written into Tensors that the caller gives, outside any graph.

Every operation takes it. Of the functions that are written in terms of operations, and of those that make or draw tensors, the ones that
``FUNCTIONS`` names do, which are torch's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import namespace, on_device_of, on_one_device
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched, VmapLevel
from gradlib.core.modes import global_state, thread_state, writing
from gradlib.core.tensor import Tensor
from gradlib.core.writes import no_derivative, overwrite, refuse_out


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names("""
    addmm addmv aminmax baddbmm bmm bucketize column_stack conj_physical cross diag diff dot dstack gather gelu hstack index_add index_copy
    index_select inner inverse isin kron linear masked_select matrix_power mm mv nanmean nonzero norm outer scatter scatter_add
    scatter_reduce searchsorted slogdet take take_along_dim tensordot true_divide vdot vstack cholesky
    eig eigh eigvals eigvalsh linalg_cross linalg_norm lstsq matrix_norm multi_dot pinv qr solve solve_triangular svd svdvals vecdot
    fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftn
    arange bernoulli empty eye fftfreq full linspace logspace multinomial normal ones rand randint randn randperm rfftfreq zeros
""")
"""The functions that are no operations and take ``out=``."""

_RANDOM = _names("bernoulli multinomial normal rand randint randn randperm")

_COMPUTED_IN_OUT = _names("""
    sum prod cumsum cumprod
    arange empty eye fftfreq full linspace logspace normal ones rand randint randn randperm rfftfreq zeros
""")
"""What is computed in the dtype of ``out=`` unless another is named: an integer sum may be written as a bool."""

_OF_ONE_DTYPE = (FUNCTIONS - {"kron", "lstsq", "nanmean", "outer", "pinv", "true_divide"}) | _names("""
    abs amax amin argmax argmin argsort bitwise_not ceil clamp clamp_max clamp_min det floor frac inv log_softmax logcumsumexp matmul
    nan_to_num neg round sgn sign signbit softmax tril triu trunc vector_norm where
""")
"""What is written only where ``out=`` has the very dtype of the result; other results are brought to that of ``out=``."""


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes or draws tensors, with ``out=`` if it is one of ``FUNCTIONS``."""
    if function.__name__ not in FUNCTIONS:
        return function

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **named: Any) -> Any:
        try:
            return function(*args, **named) if out is None else call_into(function, out, *args, **named)
        except Exception:
            refuse_wrong(function.__name__, call, *args, **named)
            raise

    call.__signature__ = with_out(inspect.signature(function))  # type: ignore[attr-defined]
    return call


def with_out(signature: inspect.Signature) -> inspect.Signature:
    """A signature with ``out=None`` behind its other arguments."""
    given = list(signature.parameters.values())
    end = len(given) - (bool(given) and given[-1].kind is inspect.Parameter.VAR_KEYWORD)
    given.insert(end, inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    return signature.replace(parameters=given)


def call_into(function: Callable[..., Any], out: Any, /, *args: Any, **named: Any) -> Any:
    """Write the result of a function that is no operation into ``out=``."""
    name = function.__name__
    if global_state.active and thread_state.interpreters:
        refuse_transformed(name, (*args, *named.values(), out))
        if name in _RANDOM and any(isinstance(level, VmapLevel) for level in thread_state.interpreters):
            raise RuntimeError(f"vmap: {name} cannot draw for each example into the one Tensor given as out=. Use the form without out=.")
    wants = bool(named.pop("requires_grad", False))
    if name in _COMPUTED_IN_OUT and isinstance(out, Tensor):
        takes = inspect.signature(function).parameters
        named |= {key: getattr(out, key) for key in ("dtype", "device") if key in takes and named.get(key) is None}
    written = write_out(name, out, function(*args, **named))
    return written.requires_grad_() if wants else written


def dtype_for(name: str, dtype: Any, out: Any) -> Any:
    """The dtype in which an operation is to compute: ``dtype=``, or that of ``out=`` where torch takes it from there."""
    return out._array.dtype if dtype is None and name in _COMPUTED_IN_OUT and isinstance(out, Tensor) else dtype


def refuse_transformed(name: str, values: Any) -> None:
    """Refuse ``out=`` where an argument carries a tangent or is a logical tensor of a vmap, which the write would lose."""
    for value in values:
        if isinstance(value, (list, tuple)):
            refuse_transformed(name, value)
        elif type(value) is Batched:
            raise RuntimeError(
                f"Batching rule not implemented for {name} with out=: vmap cannot write a Tensor it batches over into another. "
                "Use the form without out=."
            )
        elif isinstance(value, Tensor) and any(level.tangent(value) is not None for level in thread_state.interpreters):
            raise NotImplementedError(
                f"Trying to use forward AD with {name}_out that does not support it because it is an out= function. Call it without out=."
            )


def write_out(name: str, out: Any, result: Any) -> Any:
    """Write a result into the tensors given as ``out=``, as torch does: outside any graph only, and all of them or none."""
    if not isinstance(result, tuple):
        _refuse(name, out, result)
        _put(name, out, result)
        return out
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        raise TypeError(f"{name}: out= takes a tuple of {len(result)} Tensors, got {type(out).__name__}")
    for each, part in zip(out, result, strict=True):
        _refuse(name, each, part)
    for each, part in zip(out, result, strict=True):
        _put(name, each, part)
    return result._make(out) if hasattr(result, "_make") else tuple(out)


def _put(name: str, out: Tensor, result: Tensor) -> None:
    """Write a result that fits; a tensor without elements grows for it."""
    if out._array.shape != result._array.shape:
        writing(out)
        with on_device_of(out._array):
            out._array = namespace(out._array).empty(result._array.shape, out._array.dtype)
    overwrite(out, result._array, f"{name}(out=)")


def _takes(name: str, result: Any, out: Any) -> bool:
    """Whether a result of one dtype may be written as another."""
    if name in ("all", "any"):
        return out in (dtypes.bool_, dtypes.uint8)
    if name == "nanmean":
        return result.kind == out.kind
    if (name == "mean" and (result.kind, out.kind) == ("c", "f")) or (name == "nansum" and result.kind in "iu"):
        return True  # the real part, a bool
    return result == out if name in _OF_ONE_DTYPE else dtypes.can_cast(result, out)


def _refuse(name: str, out: Any, result: Any) -> None:
    """Refuse an ``out=`` that cannot take a result."""
    if not isinstance(out, Tensor) or not isinstance(result, Tensor):
        raise TypeError(f"{name}: out= takes a Tensor, got {type(out).__name__}")
    if result._node is not None:
        raise no_derivative(name)
    array, made = out._array, result._array
    if array.shape != made.shape and (array.size or out._is_view()):
        raise RuntimeError(f"{name}: out= has shape {list(array.shape)}, the result {list(made.shape)}")
    if array.dtype is not made.dtype and not _takes(name, made.dtype, array.dtype):
        raise RuntimeError(f"result type {made.dtype} can't be cast to the desired output type {array.dtype}")
    if not (type(array) is type(made) is np.ndarray or on_one_device(array, made)):
        raise RuntimeError(f"{name}: out= is on {out.device}, the result on {result.device}")
    refuse_out(out, name)
