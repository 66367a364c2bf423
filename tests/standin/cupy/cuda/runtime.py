"""The CUDA runtime's functions that gradlib and its tests call."""

from __future__ import annotations

from typing import Any

from cupy import _memory, _order


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cudaError {status}")


def getDeviceCount() -> int:
    return _order.DEVICES


def getDevice() -> int:
    return _order.here.device


def setDevice(device: int) -> None:
    _memory.Device(device).use()


def deviceSynchronize() -> None:
    _memory.Device().synchronize()


def streamSynchronize(stream: int) -> None:
    for other in _order.streams_of(getDevice()):
        if other.ptr == stream:
            other.synchronize()


def getDeviceProperties(device: int) -> dict[str, Any]:
    _memory.Device(device)
    return {"name": b"NumPy stand-in", "major": 9, "minor": 0, "totalGlobalMem": 1 << 34, "multiProcessorCount": 2}


def runtimeGetVersion() -> int:
    return 12090


def driverGetVersion() -> int:
    return 12090


def memGetInfo() -> tuple[int, int]:
    return _memory.Device().mem_info
