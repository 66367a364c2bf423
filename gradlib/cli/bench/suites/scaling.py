"""The growth of the time: the exponent of chain length, width, batch, horizon and joints, which are all about 1 once they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gradlib.cli.bench import timing
from gradlib.cli.bench.case import Row, limited
from gradlib.cli.bench.peers import Peer, Run
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites.overhead import chain, chain_data
from gradlib.cli.bench.suites.trajectory import DT
from gradlib.trajectory import step_acceleration

LIMIT = 1.15
"""A cost that is not linear shows more than this; caches that are left behind show up to about 0.1."""


def rows(runner: Runner, device: str, quick: bool) -> Iterator[Row]:
    """Each at three sizes, doubled twice from one where it is no longer the call that counts."""
    peer = Peer("gradlib", device)
    sweeps: dict[str, tuple[tuple[int, ...], Callable[[int], Run]]] = {
        "chain length": ((500, 1000, 2000), lambda n: _chained(peer, n // 10, 10)),
        "width": ((200_000, 400_000, 800_000), lambda n: _chained(peer, 1, n)),
        "batch": ((1024, 2048, 4096), lambda n: _step(peer, n, 32, 7)),
        "horizon": ((64, 128, 256), lambda n: _step(peer, 512, n, 7)),
        "joints": ((8, 16, 32), lambda n: _step(peer, 1024, 32, n)),
    }
    for name, (sizes, build) in sweeps.items():
        yield runner.repeated(partial(_exponent, name, {n: build(n) for n in sizes}, peer, runner.seconds))


def _exponent(name: str, runs: dict[int, Run], peer: Peer, seconds: float, rounds: int) -> Row:
    """The row of one sweep: in each round, the slope of the time over the size, both as logarithms."""
    waits = {str(n): peer.synchronize for n in runs} if peer.device == "cuda" else {}
    samples = timing.interleaved({str(n): run for n, run in runs.items()}, rounds, seconds, waits)
    slopes = [float(np.polyfit(np.log(list(runs)), np.log(taken), 1)[0]) for taken in zip(*samples.values(), strict=True)]
    return limited(f"exponent of the {name}", f"{min(runs)} to {max(runs)}", slopes, LIMIT, "exponent", "float32", peer.device)


def _chained(peer: Peer, blocks: int, size: int) -> Run:
    return peer.gradient(lambda x, w, b: chain(peer.m, x, w, b, blocks).sum(), *chain_data(size))


def _step(peer: Peer, batch: int, horizon: int, joints: int) -> Run:
    rng = np.random.default_rng(0)
    u: Any = peer.tensor(rng.standard_normal((batch, horizon, joints), np.float32))
    start = [peer.tensor(x) for x in rng.standard_normal((3, batch, joints), np.float32)]
    return lambda: step_acceleration(u, start, DT)
