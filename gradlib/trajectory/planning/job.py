"""Many problems, a chunk at a time, in this process or by the workers of a Dask cluster, into a folder of parts.

Dask schedules, moves and repeats; here is only what a chunk is and that no more chunks are under way than keep the workers busy.

What it takes, measured on one core of an AMD EPYC (Panda, H = 64, float64):

- a problem: 5.5 ms of a core; 112 bytes in, by way of the scheduler; 12.1 KB out, from the worker to the folder.
- a chunk of 1024 problems: a task of 5.6 s, 0.09 s of it for writing; a file of 12.4 MB.
- reading, a second of the client: 49,000 problems of a CSV file, 100,000 of a Parquet file, 400,000 of a compressed NPZ file.

What follows by counting, not measured:

- the client holds the chunks under way, two for each thread of the workers: 115 KB each, whatever the number of problems.
- the scheduler takes about 1 ms for a task (Dask's documentation), so chunks of the default size keep it busy at some 5,000 cores; reading
  CSV does so to the client at 270 cores, NPZ at 2,200.
- 1e9 problems are 5.5e6 seconds of a core, an hour and a half of 1,000 cores; 12 TB; 980,000 files with chunks of 1024, or 61,000 of 198 MB
  with --chunk 16384.

It assumes problems as hard as sampled ones, and a file system that takes 2.2 MB/s for each core.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from gradlib import files
from gradlib.trajectory.planning import parts
from gradlib.trajectory.planning.chunk import planned
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.parts import Folder, Summary
from gradlib.trajectory.planning.problems import Problems, Stream
from gradlib.trajectory.planning.robot import Robot

CHUNK = 1024
Progress = Callable[[float, int], None]
_RETRIES = 2  # of a chunk whose planning raised; those of workers that died are counted by Dask
_TELL = 30.0  # seconds for workers to finish what they are just writing, when a job has raised


@dataclass(frozen=True)
class Work:
    """The instructions for each chunk: all that a worker has to know.

    Attributes:
        robot, horizon, device: as for `solve.plan`; dtype: its name.
        folder: where the parts go, as the workers see it; format: "parquet" or "npz".
        call: which call of `run` this is for; "" for none.
    """

    robot: Robot
    horizon: int
    dtype: str
    device: str
    folder: str
    format: str
    call: str = ""

    def job(self, size: int) -> dict[str, Any]:
        """The settings on which the results depend, in JSON's types."""
        robot = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(self.robot).items()}
        robot = {key: list(value) if isinstance(value, tuple) else value for key, value in robot.items()}
        kind = self.device.partition(":")[0]
        robot = {key: str(value) if key in ("lower", "upper") else value for key, value in robot.items()}  # infinity is not in JSON
        return {"robot": robot, "horizon": self.horizon, "dtype": self.dtype, "device": kind, "chunk": size, "format": self.format}


def plan_part(work: Work, chunk: int, first: int, asked: Problems) -> tuple[Summary, float]:
    """Plan a chunk and write its part.

    Args:
        work: what to do; chunk: its number; first: the number of its first problem; asked: its problems.
    Returns: its summary, and the seconds of processor time that it took.
    Raises: InterruptedError where the call of `run` that it is for is over by then; nothing is written.
    """
    began = time.process_time()
    folder = Path(work.folder)
    if not (folder / parts.MANIFEST).is_file():
        raise FileNotFoundError(errno.ENOENT, "a worker does not see this folder; it must be one that all of them share", str(folder))
    motion, reasons = planned(asked, work.robot, work.horizon, np.dtype(work.dtype), work.device)
    summary = Summary.of(motion, reasons, work.robot, first)
    facts = {"chunk": chunk, "digest": parts.digest(asked), "summary": summary.to_json()}
    with _writing_for(work.call):
        parts.write(folder / parts.name(chunk, work.format), motion, reasons, work.robot, first, facts)
    return summary, time.process_time() - began


_over: set[str] = set()  # the calls of `run` that raised, for which this worker has nothing to write any more
_writers: Counter[str] = Counter()  # the call of `run` -> how many threads of this worker write for it just now
_lock = threading.Lock()


@contextmanager
def _writing_for(call: str) -> Iterator[None]:
    with _lock:
        if call in _over:
            raise InterruptedError(errno.EINTR, "the job that this chunk belongs to is over")
        _writers[call] += 1
    try:
        yield
    finally:
        with _lock:
            _writers[call] -= 1


async def _give_up(call: str) -> None:
    """Have this worker write no more for a call of `run`, and wait until it does not."""
    with _lock:
        _over.add(call)
    while _writers[call]:
        await asyncio.sleep(0.01)


@contextmanager
def _under_way(client: Any, call: str) -> Iterator[dict[Any, Chunk]]:
    """A dict for the futures that run and their chunks. When the body raises they are cancelled, and no worker writes for it afterwards."""
    noted: dict[Any, Chunk] = {}
    try:
        yield noted
    except BaseException:
        # Dask does not stop what a worker has begun, so the workers are told. They, or the scheduler, may just be dying.
        if client is not None:
            with contextlib.suppress(Exception):
                client.sync(client.cancel, list(noted), callback_timeout=_TELL)
            with contextlib.suppress(Exception):
                client.sync(client.run, _give_up, call, on_error="ignore", callback_timeout=_TELL)
        raise


def run(
    source: Stream, work: Work, size: int = CHUNK, client: Any = None, resume: bool = False, inputs: Iterable[str | Path] = (),
    progress: Progress = lambda fraction, count: None,
) -> tuple[Summary, float]:  # fmt: skip
    """Plan all problems of a source into a folder of parts.

    Args:
        source: the problems; work: what to do with them; size: how many make a chunk.
        client: a ``distributed.Client``, whose workers do it; None for this process.
        resume: go on with the parts that are there; inputs: files that are read, over which nothing is written.
        progress: called with the fraction done and the number of problems planned by now, without those that were there.
    Returns: the summary of all, and the seconds of processor time that the chunks took.
    Raises: InputError where the source or the folder cannot be used; the parts that are there stay. Whatever it raises, Ctrl-C included,
        no worker writes into the folder afterwards; workers finish planning the chunks that they are at, for nothing.
    """
    folder = Folder(Path(work.folder), work.job(size))
    work = replace(work, call=os.urandom(8).hex())
    summary, seconds = Summary(), 0.0
    meter = _Meter(source, progress)
    try:
        with files.made_folder(folder.path):
            chunks = source.chunks(size)
            first = next(chunks, None)
            if first is None:
                raise InputError("there is no problem to plan; the source needs at least one row")
            folder.begin(resume, inputs)
        missing = _missing(folder, _again(first, chunks), size, summary, meter)
        with _under_way(client, work.call) as under_way:
            for chunk, asked, result in _here(work, missing) if client is None else _by_workers(client, work, missing, under_way):
                if isinstance(result, Exception):
                    told = f"{type(result).__name__}: {' '.join(str(result).split())[:300]}"
                    summary.add(Summary(len(asked.reasons), failed={chunk: told}))
                else:
                    summary.add(result[0])
                    seconds += result[1]
                meter.planned(len(asked.reasons))
        folder.end(summary)
    except OSError as error:
        raise InputError(
            f"cannot write into {folder.path}: {error.strerror or error}; the parts that are there stay, and --resume goes on with them"
        ) from error
    return summary, seconds


class _Meter:
    """The progress of a job, as it is reported."""

    def __init__(self, source: Stream, progress: Progress) -> None:
        self.source, self.progress = source, progress
        self.read = self.done = self.new = 0

    def planned(self, problems: int, before: bool = False) -> None:
        self.done += problems
        self.new += 0 if before else problems
        if self.read:
            self.progress(self.done / self.read * self.source.share(), self.new)


def _again(first: Problems, rest: Iterator[Problems]) -> Iterator[Problems]:
    yield first
    yield from rest


Chunk = tuple[int, int, Problems]
"""The number of a chunk, that of its first problem, and its problems."""


def _missing(folder: Folder, chunks: Iterator[Problems], size: int, summary: Summary, meter: _Meter) -> Iterator[Chunk]:
    """The chunks that have no part yet; the parts of the others are added to the summary."""
    for chunk, asked in zip(count(), chunks):
        meter.read += len(asked.reasons)
        known = folder.done(chunk, asked)
        if known is None:
            yield chunk, chunk * size, asked
        else:
            summary.add(known)
            meter.planned(len(asked.reasons), before=True)


Finished = tuple[int, Problems, tuple[Summary, float] | Exception]


def _here(work: Work, chunks: Iterator[Chunk]) -> Iterator[Finished]:
    """Plan chunks in this process, one after another."""
    for chunk, first, asked in chunks:
        try:
            yield chunk, asked, plan_part(work, chunk, first, asked)
        except (OSError, InputError):
            raise
        except Exception as error:
            yield chunk, asked, error


def _by_workers(client: Any, work: Work, chunks: Iterator[Chunk], under_way: dict[Any, Chunk]) -> Iterator[Finished]:
    """Plan chunks by the workers of a Dask cluster, as they become free."""
    from distributed import as_completed

    finished = as_completed(loop=client.loop)
    while True:
        most = 2 * sum(client.nthreads().values()) + 2
        while len(under_way) < most and (each := next(chunks, None)) is not None:
            future = client.submit(plan_part, work, *each, retries=_RETRIES, pure=False)
            under_way[future] = each
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        chunk, _, asked = under_way.pop(future)
        if future.cancelled():
            raise InputError("the scheduler is gone, or gave the job up; the parts that are there stay, and --resume goes on with them")
        error = future.exception()
        if isinstance(error, (OSError, InputError)):
            raise error
        yield chunk, asked, future.result() if error is None else error
