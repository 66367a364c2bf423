"""What planning by a Dask cluster on this machine takes: `python -m benchmarks.planning`, whose `--help` says what can be chosen.

A row for each number of problems and of workers:

- problems/s as time passes; "times one worker" compares rows of as many problems.
- overhead: the processor's time of client, scheduler and workers beyond that within the chunks, as a share of the latter. The processor's
  time of importing gradlib in the workers is left out: they have planned a chunk before.
- client MB: the most memory that this process, in which the scheduler runs too, has held so far. It must not grow with the problems.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from gradlib.cli.trajopt import many
from gradlib.trajectory.planning import job
from gradlib.trajectory.planning.robot import assemble, panda

HORIZON = 64


class Row(NamedTuple):
    """What one run took.

    Attributes:
        seconds: as they passed; inside: the processor's seconds within the chunks; outside: all others; peak: of the client, in MB.
    """

    problems: int
    workers: int
    seconds: float
    inside: float
    outside: float
    peak: float


def measured(problems: int, workers: int, chunk: int, device: str) -> Row:
    """Plan sampled motions of the Panda into a folder that is removed."""
    from distributed import Client

    machine = assemble(*panda())
    with tempfile.TemporaryDirectory() as place, many.cluster(workers, device) as cluster, Client(cluster, set_as_default=False) as client:

        def planned(count: int, size: int, name: str) -> float:
            work = job.Work(machine, HORIZON, "float64", device, str(Path(place) / name), "parquet")
            return job.run(many.sampled(count, 0, machine), work, size, client)[1]

        planned(4 * workers, 1, "first")
        before, begin = _processor(client), time.perf_counter()
        inside = planned(problems, chunk, "timed")
        seconds = time.perf_counter() - begin
        outside = _processor(client) - before - inside
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Row(problems, workers, seconds, inside, outside, peak)


def _processor(client: Any) -> float:
    """Seconds of this process and of the workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, nargs="+", default=[2000, 20_000], help="how many (default: 2000 20000)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="how many processes (default: 1 2)")
    parser.add_argument("--chunk", type=int, default=job.CHUNK, help=f"problems of a chunk (default: {job.CHUNK})")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, where dask-cuda gives each of several workers a GPU (default: cpu)")
    asked = parser.parse_args()
    print(f"{'problems':>10} {'workers':>8} {'seconds':>9} {'problems/s':>11} {'times one worker':>17} {'overhead':>9} {'client MB':>10}")
    for problems in asked.problems:
        alone = None
        for workers in asked.workers:
            row = measured(problems, workers, asked.chunk, asked.device)
            alone = row.seconds if workers == 1 else alone
            times = "" if alone is None else f"{alone / row.seconds:.2f}"
            share = f"{100 * row.outside / row.inside:.1f} %"
            print(
                f"{problems:10,} {workers:8} {row.seconds:9.1f} {problems / row.seconds:11.0f} {times:>17} {share:>9} {row.peak:10.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
