"""`gradlib trajopt` on many problems: in chunks, by the workers of a Dask cluster or by this process, into a folder of parts."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.cli.progress import Progress
from gradlib.cli.trajopt import report
from gradlib.cuda import device_count
from gradlib.trajectory.planning import job, parts, problems
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.problems import Block, Stream
from gradlib.trajectory.planning.robot import Robot


def run(args: argparse.Namespace, machine: Robot, inputs: list[str], began: float) -> int:
    """Plan in chunks, as the arguments say.

    Args:
        args: as of the command; machine: the robot; inputs: files that are read; began: when the command did, of ``time.perf_counter``.
    Returns: the exit status.
    Raises: InputError for what cannot be used.
    """
    folder = Path(args.out).absolute()
    known = parts.manifest(folder) if args.resume else None
    size = args.chunk or (known or {"job": {}})["job"].get("chunk") or job.CHUNK
    form = args.format or (known or {"job": {}})["job"].get("format") or "parquet"
    if form == "parquet":
        _needs("pyarrow", "a chunk's results as a Parquet file", "; or choose --format npz, which needs nothing")
    if args.scheduler and args.workers:
        raise InputError("--scheduler has workers of its own, so --workers has nothing to start; leave one of them out")
    work = job.Work(machine, args.horizon, args.dtype, args.device, str(folder), form)
    source = _source(args, machine, size)
    bar = Progress("planning")
    with _client(args) as client:
        said = lambda fraction, count: bar(fraction, _rate(count, bar))  # noqa: E731
        summary, _ = job.run(source, work, size, client, args.resume, inputs, said)
    bar.finish()
    print(f"{machine.name}: {len(machine.joints)} joints, horizon {args.horizon}, {args.dtype} on {args.device}, chunks of {size}")
    for line in report.unsolved_of(summary):
        print(line)
    print(report.summary_table(summary, time.perf_counter() - began))
    print(f"written: {folder / parts.MANIFEST} and {-(-summary.problems // size) - len(summary.failed)} parts")
    return 0 if summary.solved == summary.problems else 1


def _rate(count: int, bar: Progress) -> str:
    return f"{count / max(time.perf_counter() - bar.began, 1e-9):.0f} problems/s"


def _source(args: argparse.Namespace, machine: Robot, size: int) -> Stream:
    """The problems that the arguments describe, a chunk at a time."""
    if args.problems is not None:
        if args.samples is not None or args.seed is not None:
            raise InputError("--problems gives the problems, so --samples and --seed have nothing to draw; leave them out")
        return problems.stream(args.problems, machine, size)
    return sampled(256 if args.samples is None else args.samples, args.seed or 0, machine)


def sampled(count: int, seed: int, machine: Robot) -> Stream:
    """The problems of `problems.sample`, drawn a few at a time."""
    place = [0.0]

    def blocks() -> Iterator[Block]:
        rng = np.random.default_rng(seed)
        for low in range(0, count, 1024):
            drawn = problems.drawn(min(1024, count - low), rng, machine)
            place[0] = min(1.0, (low + 1024) / count)
            yield drawn, {}

    return Stream(blocks(), machine, lambda: place[0])


@contextmanager
def _client(args: argparse.Namespace) -> Iterator[Any]:
    """A client of the cluster that the arguments name, or of one started for them; None where there is none."""
    if not (args.scheduler or args.workers):
        yield None
        return
    _needs("distributed", "--scheduler" if args.scheduler else "--workers")
    from distributed import Client

    with contextlib.ExitStack() as stack:
        try:
            place = args.scheduler or stack.enter_context(cluster(args.workers, args.device))
            client = stack.enter_context(Client(place, timeout=_CONNECT, set_as_default=False))
        except (OSError, ValueError) as error:
            where = f"the scheduler {args.scheduler}" if args.scheduler else "the workers"
            raise InputError(f"cannot reach {where}: {' '.join(str(error).split())[:300]}") from error
        print(f"Dask's dashboard: {client.dashboard_link}", file=sys.stderr)
        yield client


_CONNECT = "20s"  # that a scheduler may take to answer
_KEEP_FREED = {
    "MALLOC_TRIM_THRESHOLD_": 64 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1,
}  # fmt: skip
"""The environment of workers. Dask's own lets glibc give all freed memory back, which costs a page fault for each page of each result."""
_DASK = {
    "distributed.nanny.pre-spawn-environ": _KEEP_FREED,
    "distributed.deploy.lost-worker-timeout": "1h",  # a worker that starts again on a busy machine may take longer than Dask's 15 s
}


@contextmanager
def cluster(workers: int, device: str) -> Iterator[Any]:
    """A cluster of processes on this machine, which nobody reaches from another one."""
    where = {"n_workers": workers, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    if device.startswith("cuda") and workers > 1:
        try:
            from dask_cuda import LocalCUDACluster as Cluster
        except ImportError as error:
            raise InputError(
                "--workers on several GPUs needs dask-cuda, which gives each its own; install it with: pip install 'dask-cuda[cu12]' "
                f"(cu13 for CUDA 13). What failed: {error}"
            ) from error
        if workers > (there := device_count()):
            raise InputError(f"--workers {workers}: each takes a GPU of its own, and this machine has {there}; ask for at most that many")
    else:
        from distributed import LocalCluster as Cluster

        where |= {"memory_limit": None}
    import dask

    _end_quietly()
    with dask.config.set(_DASK), Cluster(**where) as made:
        yield made


def _end_quietly() -> None:
    """Have the process that removes semaphores when this one is ended by a signal do so without a warning that they had to be."""
    from multiprocessing import resource_tracker

    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    quiet = f"ignore::UserWarning:{resource_tracker.__name__}"
    os.environ[name] = f"{before},{quiet}" if before else quiet  # which it reads as it starts
    try:
        resource_tracker.ensure_running()
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _needs(package: str, user: str, instead: str = "") -> None:
    try:
        __import__(package)
    except ImportError as error:
        raise InputError(f"{user} needs {package}; install it with: pip install 'gradlib[dask]'{instead}") from error
