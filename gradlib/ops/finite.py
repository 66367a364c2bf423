"""NaN and infinity: tests for them, and numbers in their place."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import all_finite
from gradlib.backend.copying import copy
from gradlib.backend.formulas import formula
from gradlib.core.op import op
from gradlib.ops.select import where_op

__all__ = ["isfinite", "isinf", "isnan", "nan_to_num"]


@op("none", also=("input",))
def isnan(xp: Any, input: Any) -> Any:
    """Whether each element is not a number; for a complex one, whether either part is.

    Args:
        input: any shape and dtype.
    Source: torch.isnan.
    Example:
        >>> gradlib.isnan(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([False, False,  True])
    """
    return xp.isnan(input)


@op("none", also=("input",))
def isinf(xp: Any, input: Any) -> Any:
    """Whether each element is infinite; for a complex one, whether either part is.

    Args:
        input: any shape and dtype.
    Source: torch.isinf.
    Example:
        >>> gradlib.isinf(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([False,  True, False])
    """
    return xp.isinf(input)


@op("none", also=("input",))
def isfinite(xp: Any, input: Any) -> Any:
    """Whether each element is neither infinite nor NaN.

    Args:
        input: any shape and dtype.
    Source: torch.isfinite.
    Example:
        >>> gradlib.isfinite(gradlib.tensor([1.0, gradlib.inf, gradlib.nan]))
        tensor([ True, False, False])
    """
    return xp.isfinite(input)


@functools.cache
def _extremes(dtype: Any) -> tuple[Any, Any]:
    """The largest and the smallest finite number of a real float dtype, of that type."""
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else 255 * 2.0**120  # bfloat16
    return dtype.type(largest), dtype.type(-largest)


def _finite_on_device(input: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """``nan_to_num`` of CuPy arrays, of complex ones as of their parts."""
    dtype = dtypes.to_real(input.dtype)
    if dtype.kind in "biu":
        return None
    parts = input if dtype is input.dtype else input.reshape(-1).view(dtype)  # which copies what is not contiguous
    high, low = _extremes(dtype)
    instead = 0.0 if nan is None else nan
    made = formula("nan_to_num")(parts, instead, high if posinf is None else posinf, low if neginf is None else neginf)
    return made if parts is input or made is None else made.view(input.dtype).reshape(input.shape)


@op(
    "elementwise", inplace=True, complex="explicit", input=lambda g, input: where_op(isfinite(input), g, 0),
    kernels={"out": _finite_on_device},
)  # fmt: skip
def nan_to_num(xp: Any, input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Each element, NaN and infinities replaced (each part of a complex one).

    Args:
        nan: in place of NaN, 0 when left out.
        posinf, neginf: in place of the infinities; the largest and the smallest finite number when left out.
    Source: torch.nan_to_num.
    Example:
        >>> gradlib.nan_to_num(gradlib.tensor([1.0, gradlib.nan]), nan=0.0)
        tensor([1., 0.])
    """
    nan = None if nan is None else float(nan)
    posinf = None if posinf is None else float(posinf)
    neginf = None if neginf is None else float(neginf)
    if input.dtype.kind in "biu":
        return input.copy()
    if input.dtype.kind == "c":
        result = xp.empty_like(input)
        result.real = nan_to_num.op.value(xp, input.real, nan, posinf, neginf)  # type: ignore[attr-defined]
        result.imag = nan_to_num.op.value(xp, input.imag, nan, posinf, neginf)  # type: ignore[attr-defined]
        return result
    if xp is np and all_finite(input):
        return copy(input)
    high, low = _extremes(input.dtype)
    high, low = high if posinf is None else posinf, low if neginf is None else neginf
    result = copy(input)
    with np.errstate(over="ignore"):
        for found, value in ((xp.isnan(input), 0.0 if nan is None else nan), (input == math.inf, high), (input == -math.inf, low)):
            xp.copyto(result, result.dtype.type(value), where=found)  # not by a mask, whose size a CUDA device must report to the host
    return result
