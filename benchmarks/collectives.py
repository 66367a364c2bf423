"""What all_reduce over NCCL takes, beside NCCL alone: `python -m gradlib.distributed.launch -n 2 benchmarks/collectives.py [FILE.json]`.

A rank for each GPU. A row for each size, of float32: the median microseconds of gradlib.distributed.all_reduce and of NCCL's own call on
the same memory, by events on the device; their ratio; and the bandwidth of a link by the usual reckoning, 2 (n - 1) / n times the bytes
over the time. Rank 0 prints, and writes FILE.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gradlib
import gradlib.distributed as dist
from gradlib import cuda

SIZES = (1_000, 100_000, 10_000_000, 100_000_000)
WARM, ROUNDS = 3, 21


def communicator() -> Any:
    """NCCL's own, between all ranks."""
    from cupy.cuda import nccl

    identifier = gradlib.tensor(list(nccl.get_unique_id()), dtype=gradlib.uint8, device="cuda")
    dist.broadcast(identifier, src=0)
    return nccl.NcclCommunicator(dist.get_world_size(), bytes(identifier.tolist()), dist.get_rank())


def microseconds(run: Callable[[], Any]) -> float:
    """The device's time for a run."""
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end)


def measured(size: int, alone: Any) -> dict[str, float]:
    """One row; rounds are interleaved."""
    from cupy.cuda import nccl

    x = gradlib.zeros(size, device="cuda")
    place = x.data_ptr()

    def by_nccl() -> None:
        alone.allReduce(place, place, size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, cuda.current_stream().cuda_stream)

    runs: dict[str, Callable[[], Any]] = {"gradlib": lambda: dist.all_reduce(x), "nccl": by_nccl}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(WARM + ROUNDS):
        for name, run in runs.items():
            found = microseconds(run)
            if k >= WARM:
                taken[name].append(found)
    made = {name: median(found) for name, found in taken.items()}
    ranks = dist.get_world_size()
    gigabytes = 2 * (ranks - 1) / ranks * 4e-3 * size / made["gradlib"] if made["gradlib"] else 0.0
    return {"size": size, **made, "ratio": made["gradlib"] / made["nccl"] if made["nccl"] else 0.0, "gigabytes_a_second": gigabytes}


def main() -> None:
    """Measure, and print a table."""
    dist.init_process_group("nccl")
    cuda.set_device(dist.get_rank() % cuda.device_count())
    alone = communicator()
    rows = [measured(size, alone) for size in SIZES]
    if dist.get_rank() == 0:
        print(f"{'float32':>12} {'gradlib us':>11} {'NCCL us':>9} {'ratio':>6} {'GB/s':>7}")
        for row in rows:
            print(f"{row['size']:12,} {row['gradlib']:11.1f} {row['nccl']:9.1f} {row['ratio']:6.2f} {row['gigabytes_a_second']:7.1f}")
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(json.dumps(rows), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
