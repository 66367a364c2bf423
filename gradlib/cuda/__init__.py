"""CUDA: torch.cuda's names for devices, streams and memory; a user's own kernels as operations; how gradlib's are launched."""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from gradlib.backend.names import missing as _missing
from gradlib.cuda import (  # noqa: F401  (effects)
    memory as memory,
    nvtx as nvtx,
    philox as _philox,
    products as _products,
    profiler as profiler,
    random as random,
    tensors as _tensors,
)
from gradlib.cuda.devices import (
    can_device_access_peer as can_device_access_peer,
    cudart as cudart,
    current_device as current_device,
    device as device,
    device_count as device_count,
    device_of as device_of,
    get_arch_list as get_arch_list,
    get_device_capability as get_device_capability,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    init as init,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    is_initialized as is_initialized,
    is_tf32_supported as is_tf32_supported,
    set_device as set_device,
    synchronize as synchronize,
)
from gradlib.cuda.graph_pools import graph_pool_handle as graph_pool_handle
from gradlib.cuda.memory import (
    OutOfMemoryError as OutOfMemoryError,
    empty_cache as empty_cache,
    get_per_process_memory_fraction as get_per_process_memory_fraction,
    ipc_collect as ipc_collect,
    max_memory_allocated as max_memory_allocated,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    memory_summary as memory_summary,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_per_process_memory_fraction as set_per_process_memory_fraction,
)
from gradlib.cuda.random import (
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from gradlib.cuda.source import CompileError as CompileError
from gradlib.cuda.streams import (
    Event as Event,
    ExternalStream as ExternalStream,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    get_stream_from_external as get_stream_from_external,
    is_current_stream_capturing as is_current_stream_capturing,
    set_stream as set_stream,
    stream as stream,
)

if TYPE_CHECKING:
    from gradlib.core.random import Generator as _Generator
    from gradlib.cuda.expressions import elementwise as elementwise, reduction as reduction
    from gradlib.cuda.graph_cache import graphed as graphed
    from gradlib.cuda.graphed_callables import make_graphed_callables as make_graphed_callables
    from gradlib.cuda.graphs import CUDAGraph as CUDAGraph, graph as graph
    from gradlib.cuda.user_kernel import Kernel as Kernel, kernel as kernel

    default_generators: tuple[_Generator, ...]

__all__ = [
    "CUDAGraph", "CompileError", "Event", "ExternalStream", "Kernel", "OutOfMemoryError", "Stream", "StreamContext",
    "can_device_access_peer", "cudart", "current_device", "current_stream", "default_generators", "default_stream", "device",
    "device_count", "device_of", "elementwise", "empty_cache", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all", "get_stream_from_external",
    "graph", "graph_pool_handle", "graphed", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "kernel", "make_graphed_callables", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory", "memory_allocated", "memory_reserved",
    "memory_stats", "memory_summary", "nvtx", "profiler", "random", "reduction", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

_LATER = {
    "elementwise": "expressions", "reduction": "expressions", "graphed": "graph_cache", "make_graphed_callables": "graphed_callables",
    "CUDAGraph": "graphs", "graph": "graphs", "Kernel": "user_kernel", "kernel": "user_kernel",
}  # fmt: skip
"""Graphs and a user's own kernels, half of the package's files, which nothing else here uses: each name and the file that it is loaded from
when it is asked for."""


def __getattr__(name: str) -> object:
    if name == "default_generators":
        return random.default_generators()
    if name not in _LATER:
        return _missing(_sys.modules[__name__], name)
    found = globals()[name] = getattr(_import_module(f"{__name__}.{_LATER[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "default_generators"})
