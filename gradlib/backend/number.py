"""Python numbers as arrays of no dimension, kept for later calls: beside a small array NumPy takes twice as long for the number itself.

Here are the numbers that users hand over, whatever they are; `array.zero_d` is for the constants of formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.dtype import float32, float64

_KEPT = 1000  # numbers of a dtype


class Numbers(dict[float, Any]):
    """By each number, what stands for it beside arrays of a dtype: a read-only array, or itself where the dtype does not hold it.

    Zeros are not asked for: 0.0 and -0.0 would be one key.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.largest = float(np.finfo(dtype).max)

    def __missing__(self, value: float) -> Any:
        if not 0 < abs(value) <= self.largest:  # of what overflows NumPy warns, at each call
            return value
        made = np.array(value, self.dtype)
        made.flags.writeable = False
        if len(self) >= _KEPT:
            self.clear()
        self[value] = made
        return made


singles, doubles = Numbers(float32), Numbers(float64)


def beside(value: Any, array: Any) -> Any:
    """What stands for a value beside an array of NumPy's: one of `Numbers` for a float or int, anything else as it is."""
    kind = type(value)
    if (kind is float or kind is int) and value and type(array) is np.ndarray:
        dtype = array.dtype
        return singles[value] if dtype is float32 else doubles[value] if dtype is float64 else value
    return value
