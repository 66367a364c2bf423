"""Transforms against what one would write by hand: ``vmap(grad(f))`` against f on the whole batch, forward mode against plain forward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run
from gradlib.cli.bench.suites.overhead import CHAIN, chain, chain_data, forward_mode


def cases(device: str, quick: bool) -> Iterator[Case]:
    """gradlib against itself; the vmap rows against torch's too."""

    def case(name: str, size: str, build: Any, other: str, by_hand: Any, limit: float) -> Case:
        return Case(name, size, build, device=device, others={other: by_hand}, limits={other: limit})

    for rows, features in ((1000, 10), (1000, 3)):
        size = f"{rows} rows of {features}"
        mapped, by_hand = (partial(run, rows=rows, features=features) for run in (_row_gradients, _rows_by_hand))
        yield case("vmap(grad) of a small function", size, mapped, "by hand", by_hand, 3.0)
    yield case("vmap(grad) by the weights", "1000 examples, 10 x 10", _sample_gradients, "by hand", _samples_by_hand, 3.0)
    yield case(f"{CHAIN}, forward mode", "10", forward_mode, "plain forward", _plain_forward, 2.5)


def _energy(m: Any, x: Any) -> Any:
    """A small function of the last dimension."""
    return (m.sin(x) * x + m.exp(-x * x)).sum(-1)


def _layer(m: Any, w: Any, x: Any) -> Any:
    """A layer and a loss for one example."""
    return (m.tanh(x @ w) ** 2).sum(-1)


def _normal(peer: Peer, *shape: int) -> Any:
    return peer.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def _row_gradients(peer: Peer, rows: int, features: int) -> Run:
    m, x = peer.m, _normal(peer, rows, features)
    mapped = m.func.vmap(m.func.grad(lambda x: _energy(m, x)))
    return lambda: mapped(x)


def _rows_by_hand(peer: Peer, rows: int, features: int) -> Run:
    m, x = peer.m, _normal(peer, rows, features)

    def run() -> Any:
        whole = x.detach().requires_grad_()
        return m.autograd.grad(_energy(m, whole).sum(), whole)[0]

    return run


def _sample_gradients(peer: Peer) -> Run:
    m, x, w = peer.m, _normal(peer, 1000, 10), _normal(peer, 10, 10)
    mapped = m.func.vmap(m.func.grad(lambda w, x: _layer(m, w, x)), (None, 0))
    return lambda: mapped(w, x)


def _samples_by_hand(peer: Peer) -> Run:
    """The weights are repeated for each example."""
    m, x, w = peer.m, _normal(peer, 1000, 10), _normal(peer, 10, 10)

    def run() -> Any:
        whole = w.expand(1000, 10, 10).detach().requires_grad_()
        return m.autograd.grad(_layer(m, whole, x[:, None]).sum(), whole)[0]

    return run


def _plain_forward(peer: Peer) -> Run:
    """The same operations without a tangent; gives that of a forward pass by hand, so that the results can be compared."""
    m, (x, w, b) = peer.m, [peer.tensor(a) for a in chain_data()]
    tangent = forward_mode(peer)()

    def run() -> Any:
        chain(m, x, w, b)
        return tangent

    return run
