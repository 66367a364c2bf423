"""Views by strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from cupy._array import ndarray
from cupy._door import run


def as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    return run(np.lib.stride_tricks.as_strided, x, shape, strides)


def sliding_window_view(x: ndarray, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> ndarray:
    return run(lambda view: np.lib.stride_tricks.sliding_window_view(view, window_shape, axis), x)
