"""torch.cuda's functions for devices: how many there are, which one is current, and their properties."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Any

from gradlib.backend.array import cupy, device_index
from gradlib.backend.device import device as Device, require_cuda
from gradlib.core.tensor import Tensor
from gradlib.cuda import driver


def device_count() -> int:
    """The number of GPUs that can be used; 0 without one, without its driver or without CuPy.

    Source: torch.cuda.device_count.
    Example:
        >>> gradlib.cuda.device_count() > 0 or not gradlib.cuda.is_available()
        True
    """
    library = sys.modules.get("cupy")
    if library is None:
        with contextlib.suppress(Exception):  # no driver, or a CuPy that is not there or broken in whatever way
            driver.library()  # before CuPy, whose import takes time and makes every operation ask for it
            library = cupy()
    try:
        return int(library.cuda.runtime.getDeviceCount()) if library is not None else 0
    except Exception:  # CUDARuntimeError without a GPU, ImportError without the driver's library
        return 0


def is_available() -> bool:
    """Whether tensors can live on a GPU here.

    Source: torch.cuda.is_available.
    Example:
        >>> device = "cuda" if gradlib.cuda.is_available() else "cpu"
        >>> gradlib.ones(2, device=device).sum().item()
        2.0
    """
    return device_count() > 0


def is_initialized() -> bool:
    """Whether CuPy is loaded, as the first use of a GPU does.

    Source: torch.cuda.is_initialized.
    Example:
        >>> gradlib.cuda.is_initialized() in (True, False)
        True
    """
    return "cupy" in sys.modules and is_available()


def init() -> None:
    """Load CuPy now and not at the first use of a GPU.

    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.init.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.init()
    """
    require_cuda(None)


def index_of(device: Any, optional: bool = True) -> int:
    """The index of a CUDA device that is given as a number, a name or a device; None for the current one.

    Raises: RuntimeError for a device that is not there, and where nothing is; ValueError for one that is no CUDA device.
    """
    if device is None and not optional:
        raise ValueError(f"Expected a device index, a name such as 'cuda:0' or a device, but got: {device}")
    if isinstance(device, str) and not device.startswith("cuda"):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    if isinstance(device, Device) and device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    chosen = device if device is None or isinstance(device, int) else Device(device).index
    require_cuda(chosen)
    return int(cupy().cuda.runtime.getDevice()) if chosen is None else int(chosen)


def current_device() -> int:
    """The number of the device on which work is queued and tensors are made when none is named.

    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.current_device.
    Example:
        >>> gradlib.cuda.current_device() if gradlib.cuda.is_available() else 0
        0
    """
    return index_of(None)


def set_device(device: Any) -> None:
    """Make a device this thread's current one. ``with gradlib.cuda.device(n):`` undoes it and is to be preferred.

    Args:
        device: a number, a name or a device; a negative number changes nothing.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.set_device.
    Example:
        >>> gradlib.cuda.set_device(-1)
    """
    if isinstance(device, int) and device < 0:
        return
    cupy().cuda.runtime.setDevice(index_of(device, optional=False))


class device:
    """A context in which a device is the current one.

    Args:
        device: a number, a name or a device; None or a negative number changes nothing.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.device.
    Example:
        >>> with gradlib.cuda.device(-1):
        ...     pass
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            runtime = cupy().cuda.runtime
            self.prev_idx = runtime.getDevice()
            runtime.setDevice(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx >= 0:
            cupy().cuda.runtime.setDevice(self.prev_idx)


class device_of(device):
    """A context in which the device of a tensor is the current one; a tensor on the CPU changes nothing.

    Args:
        obj: a Tensor.
    Source: torch.cuda.device_of.
    Example:
        >>> with gradlib.cuda.device_of(gradlib.ones(2)):
        ...     pass
    """

    def __init__(self, obj: Tensor) -> None:
        index = device_index(obj._array)
        super().__init__(-1 if index is None else index)


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a GPU, under torch's names; memory in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    memory_bus_width: int
    is_integrated: bool
    is_multi_gpu_board: bool
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int


_RUNTIME_NAMES = {
    "major": "major", "minor": "minor", "total_memory": "totalGlobalMem", "multi_processor_count": "multiProcessorCount",
    "warp_size": "warpSize", "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "regs_per_multiprocessor": "regsPerMultiprocessor", "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin", "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "L2_cache_size": "l2CacheSize", "memory_bus_width": "memoryBusWidth", "pci_bus_id": "pciBusID", "pci_device_id": "pciDeviceID",
    "pci_domain_id": "pciDomainID",
}  # fmt: skip


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a GPU: its name, compute capability, memory, multiprocessors and limits.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_device_properties.
    Example:
        >>> gradlib.cuda.get_device_properties().warp_size if gradlib.cuda.is_available() else 32
        32
    """
    found = cupy().cuda.runtime.getDeviceProperties(index_of(device))
    numbers = {name: int(found.get(known, 0)) for name, known in _RUNTIME_NAMES.items()}
    flags = {"is_integrated": bool(found["integrated"]), "is_multi_gpu_board": bool(found["isMultiGpuBoard"])}
    return DeviceProperties(name=found["name"].decode(), **numbers, **flags)  # type: ignore[arg-type]


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_device_name.
    Example:
        >>> isinstance(gradlib.cuda.get_device_name() if gradlib.cuda.is_available() else "", str)
        True
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Returns: major and minor, such as (9, 0).
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_device_capability.
    Example:
        >>> gradlib.cuda.get_device_capability() >= (5, 0) if gradlib.cuda.is_available() else True
        True
    """
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device reads the memory of another directly; copies between them go either way.

    Args:
        device, peer_device: numbers, names or devices.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.can_device_access_peer.
    Example:
        >>> gradlib.cuda.can_device_access_peer(0, 0) if gradlib.cuda.is_available() else False
        False
    """
    return bool(cupy().cuda.runtime.deviceCanAccessPeer(index_of(device), index_of(peer_device)))


def synchronize(device: Any = None) -> None:
    """Wait for all work that was queued on a device.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: RuntimeError for a device that is not there, and where nothing is.
    Source: torch.cuda.synchronize.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.synchronize()
    """
    with cupy().cuda.Device(index_of(device)):
        cupy().cuda.runtime.deviceSynchronize()
