"""The limits of dtypes under torch's names, and of memory layouts what gradlib has of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes


class finfo:
    """The limits of a floating-point dtype; of a complex one those of its parts. All numbers are Python floats.

    Args:
        type: the dtype; defaults to the default dtype.
    Raises: TypeError for anything but a dtype, and for one that is not of floating-point numbers.
    Source: torch.finfo.
    Example:
        >>> gradlib.finfo(gradlib.float32).eps
        1.1920928955078125e-07
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        given = dtypes.get_default_dtype() if type is None else _dtype("finfo", type)
        if dtypes.category(given) < 2:
            raise TypeError(f"finfo() requires a floating point input type, got {given}. Use iinfo for integers.")
        part = dtypes.to_real(given) if dtypes.is_complex(given) else given
        limits: Any = np.finfo
        if dtypes.is_bfloat16(part):
            import ml_dtypes

            limits = ml_dtypes.finfo
        found = limits(part)
        self.bits = 8 * part.itemsize
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = float(f"1e-{found.precision}")
        self.dtype = part.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """The limits of an integer dtype, as Python ints.

    Args:
        type: the dtype.
    Raises: TypeError for other dtypes.
    Source: torch.iinfo.
    Example:
        >>> gradlib.iinfo(gradlib.int32).max
        2147483647
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any) -> None:
        given = _dtype("iinfo", type)
        if given.kind not in "iu":
            raise TypeError(f"iinfo() requires an integer input type, got {given}. Use finfo for floating-point numbers.")
        found = np.iinfo(given)
        self.bits, self.max, self.min = found.bits, int(found.max), int(found.min)
        self.dtype = given.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def _dtype(name: str, given: Any) -> np.dtype:
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        return np.dtype(given)
    raise TypeError(f"{name}(): argument 'type' must be a dtype, such as gradlib.float32, not {type(given).__name__}")


class layout:
    """The memory layout of a tensor; there is only ``strided``.

    Args:
        name: what it is called; the object itself says it as ``gradlib.strided``.
    Source: torch.layout.
    Example:
        >>> gradlib.ones(2).layout is gradlib.strided
        True
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"gradlib.{self._name}"

    def __reduce__(self) -> str:
        return self._name  # the name of the one object, which copies and pickles give too


class memory_format(layout):
    """The order of a tensor's dimensions in memory.

    Source: torch.memory_format.
    Example:
        >>> gradlib.ones(2, 3).is_contiguous(memory_format=gradlib.contiguous_format)
        True
    """


strided: layout = layout("strided")
contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")


def check_format(name: str, given: Any) -> None:
    """Refuse a memory format that gradlib does not make. Raises: TypeError for what is none, NotImplementedError for channels-last."""
    if given is None or given is contiguous_format or given is preserve_format:
        return
    if isinstance(given, memory_format):
        raise NotImplementedError(
            f"{name}: memory_format={given!r} is not supported; gradlib's tensors are made row-major. Leave it out, or order the "
            "dimensions with permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), which has the same strides."
        )
    raise TypeError(f"{name}: memory_format is gradlib.contiguous_format or gradlib.preserve_format, got {type(given).__name__}")
