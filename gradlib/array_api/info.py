"""The standard's inspection functions: gradlib's devices, dtypes and capabilities."""

from __future__ import annotations

from typing import Any

from gradlib.array_api.data_types import KINDS, bool_
from gradlib.backend import device as devices, dtype as dtypes
from gradlib.backend.array import cupy


class Info:
    """The inspection functions. Source: array API standard, ``__array_namespace_info__``."""

    def capabilities(self) -> dict[str, Any]:
        """Whether masks and results whose shape depends on values are there, and how many dimensions an array may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> devices.device:
        """The device on which new arrays are made."""
        return devices.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of Python's numbers and of places; the floating ones follow ``gradlib.set_default_dtype``."""
        floating = dtypes.get_default_dtype()
        return {
            "real floating": floating,
            "complex floating": dtypes.to_complex(floating),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by their names: all, or those of a kind, as ``isdtype`` has them, or of several."""
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        if unknown := [each for each in kinds if each not in KINDS]:
            raise ValueError(f"dtypes: a kind is one of {', '.join(KINDS)}, got {unknown[0]!r}")
        return {("bool" if each == bool_ else each.name): each for name in kinds for each in KINDS[name]}

    def devices(self) -> list[devices.device]:
        """The host, and each CUDA device that CuPy finds."""
        try:
            count = cupy().cuda.runtime.getDeviceCount()
        except Exception:  # no CuPy, no driver, no GPU
            count = 0
        return [devices.device("cpu"), *(devices.device("cuda", index) for index in range(count))]


def __array_namespace_info__() -> Info:
    """The inspection functions: ``capabilities``, ``default_device``, ``default_dtypes``, ``devices``, ``dtypes``."""
    return Info()
