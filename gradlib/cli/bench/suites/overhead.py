"""The overhead of an operation beside its arithmetic: a chain of small ones, in every mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run

CHAIN = "chain of 100 operations"


def chain(m: Any, x: Any, w: Any, b: Any, blocks: int = 10) -> Any:
    """`blocks` times ten small operations; `m` is the module whose functions to use."""
    for _ in range(blocks):
        x = m.sin(x * w + b)
        x = m.tanh(x - b) / w
        x = m.exp(m.cos(x))
        x = -x * b
    return x


def chain_data(size: int = 10) -> list[np.ndarray]:
    """Point, weight and bias for `chain`, float32."""
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 1.5, size).astype(np.float32) for _ in range(3)]


def cases(device: str, quick: bool) -> Iterator[Case]:
    """The chain on 10 numbers."""
    everyone = ("torch", "autograd", "mygrad", "jax")
    goals = {"torch": 0.45, "autograd": 0.3, "mygrad": 0.22} if device == "cpu" else {}

    def case(name: str, build: Callable[[Peer], Run | None], peers: tuple[str, ...] = ("torch",), **more: Any) -> Case:
        return Case(name, "10", build, peers, device=device, **more)

    yield case(f"{CHAIN}, forward and backward", both_passes, everyone, limits=goals)
    plain = "numpy" if device == "cpu" else "cupy"
    yield case(f"{CHAIN}, forward under no_grad", _forward, (plain, "torch", "jax"), limits={"numpy": 1.6})
    yield case(f"{CHAIN}, forward recorded", _recorded)
    yield case(f"{CHAIN}, forward mode", forward_mode)
    yield case(f"{CHAIN}, both passes, a hook on each result", _hooked)
    yield case(f"{CHAIN}, both passes, saved-tensor hooks", _saved_hooks)
    yield case(f"{CHAIN}, both passes, vmap(grad) of 10 rows", _mapped)
    yield case("10 custom Functions, both passes", _functions)
    yield case("backward of one node", _one_node)
    names = "by gradlib's names"
    yield case("12 functions by NumPy's names", partial(_named, m=np), (), others={names: _named}, limits={names: 2.0})


def both_passes(peer: Peer) -> Run:
    """A run that gives the gradient of the chain's sum."""
    m = peer.m
    return peer.gradient(lambda x, w, b: chain(m, x, w, b).sum(), *chain_data())


def _forward(peer: Peer) -> Run:
    m = peer.m
    run = peer.value(lambda x, w, b: chain(m, x, w, b), *chain_data())

    def unrecorded() -> Any:
        with peer.no_grad():
            return run()

    return unrecorded


def _recorded(peer: Peer) -> Run:
    m, (x, *rest) = peer.m, chain_data()
    leaf, others = peer.tensor(x, requires_grad=True), [peer.tensor(a) for a in rest]
    return lambda: chain(m, leaf, *others)


def forward_mode(peer: Peer) -> Run:
    """A run that gives the tangent of the chain."""
    m, (x, w, b) = peer.m, [peer.tensor(a) for a in chain_data()]
    ahead, tangent = m.autograd.forward_ad, peer.tensor(np.ones(10, np.float32))

    def run() -> Any:
        with ahead.dual_level():
            return ahead.unpack_dual(chain(m, ahead.make_dual(x, tangent), w, b)).tangent

    return run


def _hooked(peer: Peer) -> Run:
    m = peer.m

    def function(x: Any, w: Any, b: Any) -> Any:
        for _ in range(10):
            x = chain(m, x, w, b, 1)
            x.register_hook(lambda g: None)
        return x.sum()

    return peer.gradient(function, *chain_data())


def _saved_hooks(peer: Peer) -> Run:
    m = peer.m

    def function(x: Any, w: Any, b: Any) -> Any:
        with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return chain(m, x, w, b).sum()

    return peer.gradient(function, *chain_data())


def _mapped(peer: Peer) -> Run:
    m, (w, b) = peer.m, [peer.tensor(a) for a in chain_data()[1:]]
    rows = peer.tensor(np.linspace(0.5, 1.5, 100, dtype=np.float32).reshape(10, 10))
    gradient = m.func.vmap(m.func.grad(lambda x: chain(m, x, w, b).sum()))
    return lambda: gradient(rows)


def _functions(peer: Peer) -> Run:
    m = peer.m

    class Scaled(m.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w = ctx.saved_tensors
            return g * w, g * x

    def function(x: Any, w: Any, b: Any) -> Any:
        for _ in range(10):
            x = Scaled.apply(x, w)
        return x.sum()

    return peer.gradient(function, *chain_data())


def _named(peer: Peer, m: Any = None) -> Run:
    """A run of functions that a module has by NumPy's names: NumPy itself, through its protocols, or gradlib."""
    m = peer.m if m is None else m
    x = peer.tensor(chain_data()[0], requires_grad=True)

    def run() -> Any:
        parts = [m.sin(x), m.add(x, x), m.maximum(x, x), m.where(x > 0, x, x), m.clip(x, 0.0, 1.0), m.cumsum(x, 0)]
        parts += [m.reshape(m.stack([x, x]), (-1,)), m.concatenate([x, x])]
        return m.sum(parts[0]) + m.mean(parts[-1]) + m.matmul(x, x)

    return run


def _one_node(peer: Peer) -> Run:
    x = peer.tensor(np.full((), 2.0, np.float32), requires_grad=True)
    y = x * 3.0

    def run() -> Any:
        x.grad = None
        y.backward(retain_graph=True)
        return x.grad

    return run
