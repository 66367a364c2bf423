"""torch.cuda's functions for devices: how many there are, which one is current, and their properties."""

from __future__ import annotations

import contextlib
import operator
import sys
from dataclasses import dataclass
from types import SimpleNamespace
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


def _number(device: Any, optional: bool) -> int | None:
    """The number that a number, a name, a device or a ``gradlib.cuda.device`` means; None for the current device.

    Raises: ValueError for what is none of these, RuntimeError for a name that no device has.
    """
    place = device.idx if isinstance(device, _DeviceContext) else Device(device) if isinstance(device, str) else device
    if isinstance(place, Device):
        if place.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {place}")
        return place.index
    if place is None and optional:
        return None
    try:
        return operator.index(place)
    except TypeError:
        raise ValueError(f"Expected a device index, a name such as 'cuda:0' or a device, but got: {device}") from None


def index_of(device: Any, optional: bool = True) -> int:
    """The index of a CUDA device that is given as a number, a name or a device; None for the current one.

    Raises: RuntimeError for a device that is not there, and where nothing is; ValueError for one that is no CUDA device.
    """
    chosen = _number(device, optional)
    require_cuda(chosen)
    return int(cupy().cuda.runtime.getDevice()) if chosen is None else chosen


def index_or_current(device: Any) -> int:
    """As ``index_of``, where a negative number means the current device too."""
    chosen = _number(device, True)
    return index_of(None if chosen is not None and chosen < 0 else chosen)


def _valid_index(device: Any, what: str = "device") -> int:
    """As ``index_of``, with torch's AssertionError for a number that no device has."""
    chosen = _number(device, True)
    require_cuda(None)
    count = device_count()
    if chosen is not None and not 0 <= chosen < count:
        raise AssertionError(f"Invalid {what} id: {chosen} was asked for, but this machine has {count} GPU(s), numbered from 0")
    return index_of(chosen)


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
    chosen = _number(device, optional=False)
    if chosen is not None and chosen < 0:
        return
    cupy().cuda.runtime.setDevice(index_of(chosen))


class device:
    """A context in which a device is the current one.

    Args:
        device: a number, a name or a device; None or a negative number changes nothing.
    Attributes:
        idx: its number, negative where nothing changes.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.device.
    Example:
        >>> with gradlib.cuda.device(-1):
        ...     pass
    """

    def __init__(self, device: Any) -> None:
        chosen = _number(device, True)
        none = (device is None) or (chosen is not None and chosen < 0)
        self.idx = -1 if none else index_of(chosen)
        self._left: list[int] = []

    @property
    def prev_idx(self) -> int:
        """The device that was current when it was entered last; -1 outside."""
        return self._left[-1] if self._left else -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            runtime = cupy().cuda.runtime
            self._left.append(runtime.getDevice())
            runtime.setDevice(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx >= 0:
            cupy().cuda.runtime.setDevice(self._left.pop())


_DeviceContext = device


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
    """The properties of a GPU, under torch's names; memory in bytes, clocks in kHz (0 where CUDA says nothing)."""

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
    clock_rate: int
    memory_clock_rate: int
    uuid: str


_RUNTIME_NAMES = {
    "major": "major", "minor": "minor", "total_memory": "totalGlobalMem", "multi_processor_count": "multiProcessorCount",
    "warp_size": "warpSize", "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "regs_per_multiprocessor": "regsPerMultiprocessor", "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin", "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "L2_cache_size": "l2CacheSize", "memory_bus_width": "memoryBusWidth", "pci_bus_id": "pciBusID", "pci_device_id": "pciDeviceID",
    "pci_domain_id": "pciDomainID", "clock_rate": "clockRate", "memory_clock_rate": "memoryClockRate",
}  # fmt: skip


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a GPU: its name, compute capability, memory, multiprocessors and limits.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: AssertionError for a device that is not there, RuntimeError where nothing is.
    Source: torch.cuda.get_device_properties.
    Example:
        >>> gradlib.cuda.get_device_properties().warp_size if gradlib.cuda.is_available() else 32
        32
    """
    index = _valid_index(device)
    found = cupy().cuda.runtime.getDeviceProperties(index)
    numbers = {name: int(found.get(known, 0)) for name, known in _RUNTIME_NAMES.items()}
    flags = {"is_integrated": bool(found["integrated"]), "is_multi_gpu_board": bool(found["isMultiGpuBoard"])}
    return DeviceProperties(name=found["name"].decode(), uuid=driver.uuid_of(index), **numbers, **flags)  # type: ignore[arg-type]


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Args:
        device: a number, a name or a device; None for the current one.
    Raises: AssertionError for a device that is not there, RuntimeError where nothing is.
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
    Raises: AssertionError for a device that is not there, RuntimeError where nothing is.
    Source: torch.cuda.get_device_capability.
    Example:
        >>> gradlib.cuda.get_device_capability() >= (5, 0) if gradlib.cuda.is_available() else True
        True
    """
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The architectures that gradlib's kernels are compiled for, which happens when they are used: those of the GPUs here.

    Returns: names such as "sm_90"; none without a GPU.
    Source: torch.cuda.get_arch_list.
    Example:
        >>> all(name.startswith("sm_") for name in gradlib.cuda.get_arch_list())
        True
    """
    return sorted({f"sm_{major}{minor}" for major, minor in map(get_device_capability, range(device_count()))})


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors of the current device may be bfloat16; False without a GPU.

    Args:
        including_emulation: whether it counts where the device computes by way of float32, as it does below compute capability 8.0.
    Source: torch.cuda.is_bf16_supported.
    Example:
        >>> gradlib.cuda.is_bf16_supported() or not gradlib.cuda.is_available()
        True
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the current device has products of float32 matrices in TF32; False without a GPU.

    Source: torch.cuda.is_tf32_supported.
    Example:
        >>> gradlib.cuda.is_tf32_supported() in (True, False)
        True
    """
    return is_bf16_supported(including_emulation=False)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device reads the memory of another directly; copies between them go either way.

    Args:
        device, peer_device: numbers, names or devices.
    Raises: AssertionError for a device that is not there, RuntimeError where nothing is.
    Source: torch.cuda.can_device_access_peer.
    Example:
        >>> gradlib.cuda.can_device_access_peer(0, 0) if gradlib.cuda.is_available() else False
        False
    """
    return bool(cupy().cuda.runtime.deviceCanAccessPeer(_valid_index(device), _valid_index(peer_device, "peer device")))


def cudart() -> Any:
    """CUDA's own functions that say which part of a program a profiler records, as torch's programs call them.

    Returns: an object with ``cudaProfilerStart()`` and ``cudaProfilerStop()``, which return 0. More of CUDA is in ``cupy.cuda.runtime``.
    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.cudart.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     assert gradlib.cuda.cudart().cudaProfilerStart() == 0
    """
    require_cuda(None)
    runtime = cupy().cuda.runtime
    return SimpleNamespace(cudaProfilerStart=lambda: runtime.profilerStart() or 0, cudaProfilerStop=lambda: runtime.profilerStop() or 0)


def synchronize(device: Any = None) -> None:
    """Wait for all work that was queued on a device.

    Args:
        device: a number, a name or a device; None or a negative number for the current one.
    Raises: RuntimeError for a device that is not there, and where nothing is.
    Source: torch.cuda.synchronize.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.synchronize()
    """
    with cupy().cuda.Device(index_or_current(device)):
        cupy().cuda.runtime.deviceSynchronize()
