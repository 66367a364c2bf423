"""The pieces of cupyx that gradlib uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from cupy import _memory
from cupy._array import ndarray
from cupy.linalg import _config

from cupyx import scipy as scipy


def scatter_add(a: ndarray, slices: Any, value: Any) -> None:
    a.scatter_add(slices, value)


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, _memory.alloc_pinned_memory(size), order=order)  # type: ignore[call-overload]


@contextlib.contextmanager
def errstate(*, divide: Any = None, over: Any = None, under: Any = None, invalid: Any = None, linalg: Any = None) -> Iterator[None]:
    if linalg not in (None, "ignore", "raise") or any(given is not None for given in (divide, over, under, invalid)):
        raise NotImplementedError
    before = _config.linalg
    _config.linalg = linalg or before
    try:
        yield
    finally:
        _config.linalg = before
