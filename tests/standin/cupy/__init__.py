"""A strict stand-in for CuPy over NumPy, for machines without a GPU. See ../README.md."""

from typing import Any

import numpy as np
from numpy import (
    bool_ as bool_,
    can_cast as can_cast,
    complex64 as complex64,
    complex128 as complex128,
    dtype as dtype,
    e as e,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    intp as intp,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
    promote_types as promote_types,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)  # fmt: skip

from cupy import _environment as _environment, _functions as _functions, cuda as cuda, lib as lib, linalg as linalg, random as random
from cupy._array import ndarray as ndarray
from cupy._functions import *
from cupy._functions import abs as abs, all as all, any as any, max as max, min as min, sum as sum, ufunc as ufunc
from cupy._memory import get_default_memory_pool as get_default_memory_pool
from cupy._raw import RawKernel as RawKernel, RawModule as RawModule

__version__ = "14.2.0"


def get_array_module(*args: Any) -> Any:
    import cupy

    return cupy if [value for value in args if isinstance(value, ndarray)] else np


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return np.result_type(*(value._view if isinstance(value, ndarray) else value for value in arrays_and_dtypes))


def shares_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    return np.shares_memory(a._view, b._view)


def may_share_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    return np.may_share_memory(a._view, b._view)
