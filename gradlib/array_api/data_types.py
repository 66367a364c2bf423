"""The standard's dtypes, and what it asks of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradlib.array_api.array import common_dtype, standard
from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import Tensor

__all__ = [
    "astype", "can_cast", "complex64", "complex128", "finfo", "float32", "float64", "iinfo", "int8", "int16", "int32", "int64", "isdtype",
    "result_type", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

bool_ = dtypes.bool_
int8, int16, int32, int64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
uint8, uint16, uint32, uint64 = dtypes.uint8, np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)
float32, float64 = dtypes.float32, dtypes.float64
complex64, complex128 = dtypes.complex64, dtypes.complex128


@standard
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array in another dtype; itself where it has it, with ``copy=False``."""
    if x.dtype.kind == "c" and dtypes.as_dtype(dtype) not in (complex64, complex128, bool_):
        raise TypeError(f"astype: {x.dtype} has no conversion to {dtype}; take real(x) or abs(x)")
    return x.to(dtype=dtype, device=device, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or an array's, promotes to another without another being needed."""
    return bool(np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype in which arrays, dtypes and Python's numbers meet."""
    return common_dtype(*arrays_and_dtypes)


KINDS = {
    "bool": (bool_,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
KINDS["integral"] = (*KINDS["signed integer"], *KINDS["unsigned integer"])
KINDS["numeric"] = (*KINDS["integral"], *KINDS["real floating"], *KINDS["complex floating"])


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, or of one of several.

    Args:
        dtype: a dtype.
        kind: a dtype, the name of a kind such as "real floating", or a tuple of these.
    Raises: ValueError for another name.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: a kind of dtype is one of {', '.join(KINDS)}, got {kind!r}")
        return dtype in KINDS[kind]
    return dtype == kind


class FloatInfo(NamedTuple):
    """The limits of a floating dtype; of a complex one those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or an array's; of a complex one those of its parts."""
    given = type.dtype if isinstance(type, Tensor) else dtypes.as_dtype(type)
    if given is None or not dtypes.is_differentiable(given):
        raise TypeError(f"finfo takes a floating-point dtype, got {given}; use iinfo for integers")
    found = np.finfo(given)
    return FloatInfo(
        found.bits, float(found.eps), float(found.max), float(found.min), float(found.smallest_normal), dtypes.as_dtype(found.dtype)
    )


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or an array's."""
    given = type.dtype if isinstance(type, Tensor) else dtypes.as_dtype(type)
    if given is None or given.kind not in "iu":
        raise TypeError(f"iinfo takes an integer dtype, got {given}; use finfo for floating-point numbers")
    found = np.iinfo(given)
    return IntegerInfo(found.bits, int(found.max), int(found.min), given)
