"""``device("cpu")`` and ``device("cuda:0")``: where an array lives, and the default place for new ones."""

from __future__ import annotations

import os
import re
import sys
import threading
from functools import lru_cache
from typing import Any

from gradlib.backend.array import Array, cupy, device_index
from gradlib.backend.thread import carried


class _Default(threading.local):
    chosen: device | None = None
    stack: tuple[device, ...] = ()


_default = carried(_Default())
_LOADED_IN = os.getpid()


class device:
    """A place for arrays; as a context (``with device("cuda"):``) the default place for new ones.

    Args:
        type: "cpu", "cuda", "cuda:1", a device, or a CUDA device number.
        index: the CUDA device number, when type is "cuda".
    Raises: RuntimeError for a string that is no device; for "cuda" without CuPy or without a GPU, saying which is missing.
    Source: torch.device.
    Example:
        >>> with gradlib.device("cpu"):
        ...     print(gradlib.zeros(2).device)
        cpu
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | device = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        kind, colon, number = f"cuda:{type}".partition(":") if isinstance(type, int) else str(type).partition(":")
        if kind not in ("cpu", "cuda") or (colon and (index is not None or not re.fullmatch("0|[1-9][0-9]*", number))):
            raise RuntimeError(
                f'a device is "cpu", "cuda" or "cuda:N", got {type!r}' + (f" with index {index}" if index is not None else "")
            )
        self.type = kind
        self.index = int(number) if number else index
        if kind == "cuda":
            require_cuda(self.index)

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (str(self),)

    def __enter__(self) -> device:
        _default.stack += (self,)
        return self

    def __exit__(self, *exc: object) -> None:
        _default.stack = _default.stack[:-1]


def require_cuda(index: int | None) -> None:
    """Refuse a CUDA device that is not there, saying what is missing: CuPy, the GPU or that number."""
    runtime = cupy().cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except Exception as error:  # CuPy raises CUDARuntimeError, or ImportError when the driver library cannot be loaded
        if os.getpid() != _LOADED_IN:
            raise RuntimeError(
                f"CUDA does not work in this process ({error}), which was forked from another one: a process that has used a GPU cannot "
                'hand it on to a fork. Start processes by "spawn" of multiprocessing, or use the GPU after the fork only.'
            ) from error
        raise RuntimeError(
            f"CuPy is installed, but no usable GPU was found ({error}). Check that `nvidia-smi` lists a GPU and that its driver is "
            'new enough for this CuPy; use device("cpu") meanwhile.'
        ) from error
    if count == 0:
        raise RuntimeError('CuPy is installed, but this machine has no GPU (`nvidia-smi` lists none). Use device("cpu").')
    if index is not None and not 0 <= index < count:
        raise RuntimeError(f"cuda:{index} was asked for, but this machine has {count} GPU(s), numbered from 0")


def default_index() -> int | None:
    """The CUDA device number on which new arrays are made by default, or None for the host."""
    if not _default.stack and _default.chosen is None:
        return None
    return resolve(get_default_device())


def get_default_device() -> device:
    """The device on which this thread makes new tensors when no ``device=`` is given.

    Source: torch.get_default_device.
    Example:
        >>> gradlib.get_default_device()
        device(type='cpu')
    """
    return _default.stack[-1] if _default.stack else _default.chosen or _CPU


def set_default_device(device: Any) -> None:
    """Choose where this thread makes new tensors when no ``device=`` is given; None is the CPU.

    Args:
        device: a device or its name, such as "cuda" or "cuda:1".
    Source: torch.set_default_device.
    Example:
        >>> gradlib.set_default_device("cpu")
        >>> gradlib.zeros(1).device
        device(type='cpu')
        >>> gradlib.set_default_device(None)
    """
    _default.chosen = None if device is None else _device(device)


def resolve(place: Any) -> int | None:
    """The CUDA device number that a ``device=`` argument means, or None for the host; a ``place`` of None is the default."""
    if place is None:
        return default_index()
    chosen = place if isinstance(place, device) else _named(place) if type(place) is str else device(place)
    if chosen.type == "cpu":
        return None
    return chosen.index if chosen.index is not None else int(cupy().cuda.runtime.getDevice())


_device = device
_named = lru_cache(64)(device)  # a device that was found stays there
_CPU = device("cpu")


def device_of(array: Array) -> device:
    """The device that holds the array."""
    index = device_index(array)
    return _CPU if index is None else _named("cuda", index)


def synchronize() -> None:
    """Wait for all work on the current CUDA device, if this program uses one."""
    library = sys.modules.get("cupy")
    if library is not None and library.cuda.is_available():
        library.cuda.runtime.deviceSynchronize()
