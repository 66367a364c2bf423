"""Jobs of which one rank fails; each must end by itself, with an error.

Usage: ``mpiexec -n 2 python tests/distributed/faults.py NAME FOLDER``; each process writes what it says into a file of its own in FOLDER,
since mpiexec may mix lines of several, and lose the last ones.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import gradlib
import gradlib.distributed as dist
from gradlib.distributed.mpi import library


def raises() -> None:
    """One rank ends by an exception of its own; the other hears of it, and saves what it has."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    if dist.get_rank() == 1:
        raise ValueError("the data of rank 1 are damaged")
    try:
        dist.all_reduce(gradlib.ones(3))
    except dist.DistBackendError:
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
    library().COMM_WORLD.Barrier()  # so the time does not run while a rank is still being started
    dist.init_process_group("mpi", timeout=timedelta(seconds=3))
    if dist.get_rank() == 1:
        time.sleep(1000)
    dist.all_reduce(gradlib.ones(3))


if __name__ == "__main__":
    said = os.open(Path(sys.argv[2]) / str(os.getpid()), os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(said, stream)
    {"raises": raises, "killed": killed, "hangs": hangs}[sys.argv[1]]()
