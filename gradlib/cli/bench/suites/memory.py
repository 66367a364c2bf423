"""Bytes: what a recorded program keeps for its backward, and the most that it needs at once."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Row
from gradlib.cli.bench.peers import Peer
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites.overhead import CHAIN, chain, chain_data

SIZE = 100_000


def rows(runner: Runner, device: str, quick: bool) -> Iterator[Row]:
    """Saved bytes against torch's; the peak of a chain, as `tracemalloc` sees NumPy's arrays, against those that use NumPy too."""
    programs: dict[str, Callable[[Peer], Any]] = {CHAIN: _chain, "layer_norm and softmax": _norm, "layer and loss": _layer}
    for name, program in programs.items():
        compared = [peer for peer in ("gradlib", "torch") if peer in ("gradlib", *runner.peers)]
        kept: dict[str, int] = {peer: _saved(Peer(peer, device), program) for peer in compared}
        yield _row(f"{name}, bytes saved", device, kept)
    if device == "cpu":
        others = [peer for peer in ("autograd", "mygrad") if peer in runner.peers]
        yield _row(f"{CHAIN}, peak", device, {peer: _peak(Peer(peer)) for peer in ("gradlib", *others)})


def _row(name: str, device: str, found: dict[str, int]) -> Row:
    figures = {peer: {"median": float(nbytes), "spread": 0.0} for peer, nbytes in found.items()}
    ratio = {peer: found["gradlib"] / nbytes for peer, nbytes in found.items() if peer != "gradlib"}
    limits = {"torch": 1.01} if "torch" in ratio else {}
    missed = [peer for peer, most in limits.items() if ratio[peer] > most]
    return Row(name, f"{SIZE:.0e}", "float32", device, "bytes", figures, ratio, limits=limits, missed=missed)


def _saved(peer: Peer, program: Callable[[Peer], Any]) -> int:
    """The bytes of the buffers that a program's nodes keep, each counted once, the program's own leaves too where they are kept."""
    kept: dict[int, Any] = {}

    def pack(t: Any) -> Any:
        kept[t.data_ptr()] = t
        return t

    with peer.m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = program(peer)
    total = sum(t.numel() * t.element_size() for t in kept.values())
    del result
    return total


def _peak(peer: Peer) -> int:
    """The most bytes at once over forward and backward of the chain."""
    run = peer.gradient(lambda x, w, b: chain(peer.m, x, w, b).sum(), *chain_data(SIZE))
    run()  # what is compiled at the first call is kept
    gc.collect()
    tracemalloc.start()
    run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def _chain(peer: Peer) -> Any:
    x, w, b = chain_data(SIZE)
    return chain(peer.m, peer.tensor(x, requires_grad=True), peer.tensor(w), peer.tensor(b))


def _matrix(peer: Peer, rows: int, columns: int) -> Any:
    return peer.tensor(np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32), requires_grad=True)


def _norm(peer: Peer) -> Any:
    f = peer.m.nn.functional
    return peer.m.softmax(f.layer_norm(_matrix(peer, 100, SIZE // 100), (SIZE // 100,)), 1)


def _layer(peer: Peer) -> Any:
    f, x, w = peer.m.nn.functional, _matrix(peer, 100, 100), _matrix(peer, SIZE // 100, 100)
    return f.cross_entropy(f.relu(f.linear(x, w)), peer.tensor(np.arange(100)))
