"""Random numbers: CuPy's older generator, which gives float32 and float64 only."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from cupy import _door
from cupy._array import ndarray


class RandomState:
    def __init__(self, seed: Any = None, method: int | None = None) -> None:
        self.method = method
        self.device_id = _door._order.here.device
        self._lock = threading.Lock()
        self.seed(seed)

    def seed(self, seed: Any = None) -> None:
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise TypeError("Seed must be an integer.")
        if seed is not None and not 0 <= seed < 1 << 64:
            raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
        self._host = np.random.Generator(np.random.Philox(seed))

    def _draw(self, method: str, size: Any, dtype: Any) -> ndarray:
        dtype = np.dtype(dtype)
        if dtype.char not in "fd":
            raise TypeError("cupy.random only supports float32 and float64")
        if self.device_id != _door._order.here.device:
            raise _door._order.Hazard("a generator of one device draws on another")
        with self._lock:
            return _door.fresh(np.asarray(getattr(self._host, method)(size, dtype)))

    def random_sample(self, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("random", size, dtype)

    def standard_normal(self, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("standard_normal", size, dtype)

    def standard_exponential(self, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("standard_exponential", size, dtype)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> ndarray:
        span = low if high is None else high - low
        if span & (span - 1):  # no power of two: what falls outside is counted on the host, and drawn again
            _door.to_host["randint"] += 1
        with self._lock:
            return _door.fresh(np.asarray(self._host.integers(low, high, size, dtype)))
