"""Operations on rows where they lie: NumPy's iterator gathers rows that are shorter than its buffers before it computes with them.

That is so where rows do not follow each other without gaps, or meet one number each, and takes up to twice as long as the computation. With
buffers no longer than a row it does not. To say so takes some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_MANY = 1 << 16
"""The fewest elements for which it is worth the time."""
_ROW = 512
"""The fewest elements of a row: shorter ones NumPy gathers in no more time than it takes to go from row to row."""
_BUFFER = 512


def has_rows(array: Any) -> bool:
    """Whether an array is one of NumPy's, of rows that are to be left where they lie."""
    return type(array) is np.ndarray and array.size >= _MANY and array.ndim > 1 and array.shape[-1] >= _ROW


def makes_rows(column: Any, line: Any) -> bool:
    """Whether a number for each row and a row make such an array of NumPy's; these meet in less time from half as many elements on."""
    return line.size >= _ROW // 2 and type(line) is np.ndarray and column.size * line.size >= _MANY


def by_rows(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``, in which NumPy computes with rows where they lie."""
    before = np.setbufsize(_BUFFER)
    try:
        return function(*args)
    finally:
        np.setbufsize(before)
