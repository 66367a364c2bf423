"""Seconds that runs take, measured so that a slow spell of the machine meets all of them."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

Run = Callable[[], Any]
SECONDS = 0.01
"""About how long a run is repeated within its turn."""
MOST = 20.0
"""About how many seconds all rounds of one case may take; of slow runs there are fewer rounds, at least 3."""


def interleaved(
    runs: Mapping[str, Run], rounds: int, seconds: float = SECONDS, waits: Mapping[str, Callable[[], None]] | None = None
) -> dict[str, list[float]]:
    """Seconds per call of each run, one figure a round.

    A run is called twice ahead, which compiles what is compiled and touches its memory. Then each round times every run once, in random
    order; within its turn a run is repeated for about ``seconds``. The garbage collector stays on, as users have it.

    Args:
        runs: what to time, by name; waits: for runs that only queue work, what waits until it is done, within the time taken.
    """
    waits = waits or {}
    repeats, once = {}, {}
    for name, run in runs.items():
        timed(run, 1, waits.get(name))
        once[name] = timed(run, 1, waits.get(name))
        repeats[name] = max(1, round(seconds / once[name]))
    rounds = max(3, min(rounds, round(MOST / sum(once[name] * repeats[name] for name in runs))))
    order, shuffle = list(runs), random.Random(0).shuffle
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            samples[name].append(timed(runs[name], repeats[name], waits.get(name)))
    return samples


def timed(run: Run, times: int, wait: Callable[[], None] | None = None) -> float:
    """Seconds per call of a run that is repeated so many times."""
    start = perf_counter()
    for _ in range(times):
        run()
    if wait is not None:
        wait()
    return max(perf_counter() - start, 1e-9) / times


class Events(Protocol):
    """The events by which a library asks its device for the time."""

    def record(self) -> Any:
        """An event at this point of the current stream."""

    def seconds(self, begin: Any, end: Any) -> float:
        """The device's time from one event to another; waits until it has reached the second."""

    def delay(self) -> None:
        """Queue work of about a millisecond."""


def on_device(run: Run, events: Events, repeats: int) -> float:
    """The median seconds that a run keeps the device busy.

    Work goes ahead of each, behind which the host queues the whole run: the events then tell the device's time and not how quickly Python
    launches.
    """
    samples = []
    for _ in range(repeats):
        for _ in range(4):
            events.delay()
        begin = events.record()
        run()
        end = events.record()
        samples.append(events.seconds(begin, end))
    return statistics.median(samples)
