"""Jobs of which one rank fails. Run by ``mpiexec -n 2 python tests/distributed/faults.py NAME``; each must end by itself, with an error."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import gradlib
import gradlib.distributed as dist


def raises() -> None:
    """One rank ends by an exception of its own; the other hears of it, and saves what it has."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    if dist.get_rank() == 1:
        raise ValueError("the data of rank 1 are damaged")
    try:
        dist.all_reduce(gradlib.ones(3))
    except dist.DistBackendError as error:
        print(error, flush=True)  # here alone: what both ranks write to stderr as they end, mpiexec may mix within a line
        time.sleep(0.3)  # a job that is ended at once would not come to the end of this
        print("rank 0 has saved its state", flush=True)
        raise


def killed() -> None:
    """One rank is killed from outside."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(gradlib.ones(3))


def hangs() -> None:
    """One rank never comes back, and the other's time is over."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=3))
    if dist.get_rank() == 1:
        time.sleep(1000)
    dist.all_reduce(gradlib.ones(3))


if __name__ == "__main__":
    {"raises": raises, "killed": killed, "hangs": hangs}[sys.argv[1]]()
