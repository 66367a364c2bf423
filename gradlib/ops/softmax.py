"""Softmax, its logarithm, and the logarithm of a sum of exponentials, none of which overflows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import SMALL, Namespace
from gradlib.backend.copying import converted, row_major
from gradlib.backend.line_slopes import slope
from gradlib.backend.reducing import exponentials, largest
from gradlib.backend.rows import by_rows, has_rows
from gradlib.backend.sums import SHORT, row_sums
from gradlib.core.op import op
from gradlib.ops.dims import wrap_dim
from gradlib.ops.elementwise import exp
from gradlib.ops.reduce import axes, kept, spread, sum, sum_of_products, total

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _ready(name: str, input: Any, dim: int, dtype: Any) -> tuple[Any, int]:
    """The input in the dtype to compute in (float32 for half types), at least 1-d, and the dimension."""
    if dtype is None and type(dim) is int and 0 <= dim < input.ndim and input.dtype.char in "fd":  # the common case
        return input, dim
    if dtype is not None:
        input = input.astype(dtypes.as_dtype(dtype))
    if not dtypes.is_floating_point(input.dtype):
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}; convert it first, for example with dtype=gradlib.float32")
    dim = wrap_dim(dim, input.ndim)
    if input.dtype.itemsize == 2:
        input = input.astype(dtypes.float32)
    return input if input.ndim else input.reshape((1,)), dim


def _below_largest(xp: Namespace, x: Any, dim: int) -> Any:
    """Each element less the largest of its line, in row-major order."""
    top = largest(x, dim)
    return x - top if x.flags.c_contiguous else xp.subtract(x, top, xp.empty(x.shape, x.dtype))


def sum_of_lines(xp: Namespace, x: Any, dim: Any) -> Any:
    """The sum of each line (over a dimension, several or all), with the dimensions kept."""
    if xp is np and dim == x.ndim - 1 and (x.size <= SMALL or x.shape[-1] <= SHORT) and x.dtype.kind == "f":
        return row_sums(x)[..., None]
    return total(xp, x, dim, True)


def _is_moderate(xp: Namespace, x: Any) -> bool:
    """Whether these are many numbers whose exponentials, and the sums of these, are in the range of float32 as they are."""
    if xp is not np or x.dtype.char != "f" or x.size < _MANY or not x.flags.c_contiguous:
        return False
    return bool(x.item(x.argmax()) < _MODERATE and x.item(x.argmin()) > -_MODERATE)


_MANY, _MODERATE = 1024, 40.0


def _result(made: Any, input: Any, dtype: Any) -> Any:
    """The computed array in the result's shape and dtype."""
    wanted = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    if made.dtype is not wanted:
        made = made.astype(wanted, copy=False)
    return made if input.ndim else made.reshape(())


def _on_device(name: str) -> Any:
    """The kernel of ``softmax`` or ``log_softmax``."""

    def run(input: Any, dim: int, dtype: Any) -> Any:
        if dtype is not None:
            if input.dtype.kind == "c":
                return None
            input = converted(input, dtypes.as_dtype(dtype))
        return exponentials(name, input, dim if type(dim) is int else wrap_dim(dim, input.ndim))

    return run


@op(
    "other", complex="explicit", input=lambda g, out, dim: _softmax_rule(g, out, dim),
    jvp=lambda t_input, out, dim: _softmax_rule(t_input, out, dim),  # the Jacobian is symmetric
    kernels={"out": _on_device("softmax"), "input": lambda g, out, dim: slope("softmax", g, out.shape, dim, out)},
)  # fmt: skip
def softmax(xp: Namespace, input: Any, dim: int, dtype: Any = None) -> Any:
    """exp(x) divided by its sum along ``dim``: positive numbers that sum to one.

    Args:
        input: any shape, real float dtype.
        dim: the dimension along which they sum to one.
        dtype: convert the input to this dtype first.
    Raises: NotImplementedError for other dtypes.
    Source: torch.softmax.
    Example:
        >>> gradlib.softmax(gradlib.tensor([0.0, 0.0, 1.0]), dim=0)
        tensor([0.2119, 0.2119, 0.5761])
    """
    x, dim = _ready("softmax", input, dim, dtype)
    if not x.size:
        return _result(x, input, dtype)
    return _result(by_rows(_softmax, xp, x, dim) if has_rows(x) else _softmax(xp, x, dim), input, dtype)


def _softmax(xp: Namespace, x: Any, dim: int) -> Any:
    made = x if _is_moderate(xp, x) else _below_largest(xp, x, dim)
    made = xp.exp(made, None if made is x else made)
    made /= sum_of_lines(xp, made, dim)
    return made


def _softmax_rule(g: Any, out: Any, dim: int) -> Any:
    return by_rows(_softmax_slope, g, out, dim) if has_rows(out) else _softmax_slope(g, out, dim)


def _softmax_slope(g: Any, out: Any, dim: int) -> Any:
    return out * (g - sum_of_products(g, out, dim))


def _log_softmax_rule(g: Any, out: Any, dim: int) -> Any:
    return by_rows(_log_softmax_slope, g, out, dim) if has_rows(out) else _log_softmax_slope(g, out, dim)


def _log_softmax_slope(g: Any, out: Any, dim: int) -> Any:
    return g - exp(out) * (sum_of_lines(np, g, wrap_dim(dim, g.ndim)) if type(g) is np.ndarray else sum(g, dim, True))


@op(
    "other", complex="explicit", input=_log_softmax_rule,
    jvp=lambda t_input, out, dim: t_input - sum_of_products(t_input, exp(out), dim),
    kernels={"out": _on_device("log_softmax"), "input": lambda g, out, dim: slope("log_softmax", g, out.shape, dim, out)},
)  # fmt: skip
def log_softmax(xp: Namespace, input: Any, dim: int, dtype: Any = None) -> Any:
    """Logarithm of ``softmax``, accurate also where that is tiny.

    Args:
        input, dim, dtype: as for ``softmax``.
    Source: torch.log_softmax.
    Example:
        >>> gradlib.log_softmax(gradlib.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    x, dim = _ready("log_softmax", input, dim, dtype)
    if not x.size:
        return _result(x, input, dtype)
    return _result(by_rows(_log_softmax, xp, x, dim) if has_rows(x) else _log_softmax(xp, x, dim), input, dtype)


def _log_softmax(xp: Namespace, x: Any, dim: int) -> Any:
    made = _below_largest(xp, x, dim)
    made -= xp.log(sum_of_lines(xp, xp.exp(made), dim))
    return made


@op(
    "other", promote="float", input=lambda g, input, out, dim, keepdim: _logsumexp_rule(g, input, out, dim, keepdim),
    jvp=lambda t_input, input, out, dim, keepdim: sum(t_input * exp(input - spread(out, input.shape, dim, keepdim)), dim, keepdim),
    kernels={
        "out": lambda input, dim, keepdim: exponentials("logsumexp", input, axes(input.ndim, dim), keepdim),
        "input": lambda g, input, out, dim, keepdim: slope("logsumexp", g, input.shape, axes(input.ndim, dim), input, out),
    },
)  # fmt: skip
def logsumexp(xp: Namespace, input: Any, dim: Any, keepdim: bool = False) -> Any:
    """Logarithm of the sum of exponentials over ``dim`` (a number or several).

    Args:
        input: any shape; integers become the default float dtype.
        dim, keepdim: as in ``sum``.
    Source: torch.logsumexp.
    Example:
        >>> gradlib.logsumexp(gradlib.tensor([0.0, 0.0]), dim=0)
        tensor(0.6931)
    """
    dtype = dtypes.get_default_dtype() if input.dtype.kind in "biu" else input.dtype
    x = input.astype(dtypes.float32 if dtype.itemsize == 2 else dtype, copy=False)
    chosen = axes(x.ndim, dim)
    if x.size:
        real = x.real if dtype.kind == "c" else x
        top = largest(real, chosen) if xp is np else real.max(axis=chosen, keepdims=True)
        top = xp.where(xp.isfinite(top), top, xp.zeros((), top.dtype))
        made = x - top
        made = xp.exp(made, made) if made.ndim else xp.exp(made)  # NumPy makes no array of 0-d ones
        made = xp.log(sum_of_lines(xp, made, chosen)) + top
    else:
        made = xp.full(kept(x.shape, dim), -xp.inf, x.dtype)
    made = row_major(made.astype(dtype, copy=False))
    return made if keepdim else made.reshape(()) if chosen is None else made.squeeze(chosen)


def _logsumexp_rule(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    return spread(g, input.shape, dim, keepdim) * exp(input - spread(out, input.shape, dim, keepdim))
