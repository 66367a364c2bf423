"""Whole programs: networks, second derivatives, optimisers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Each against torch."""
    builds = {
        "MLP step": ("3 layers of 256, batch 64", _mlp, {"torch": 0.85}),
        "logistic regression step": ("1000 by 20", _logistic, {}),
        "RNN, both passes": ("20 steps, width 32, batch 16", _rnn, {}),
        "LSTM, both passes": ("20 steps, width 32, batch 16", _lstm, {}),
        "attention, both passes": ("4 heads, length 32, width 64", _attention, {}),
        "PINN, u_xx and its gradient": ("2 layers of 32, 100 points", _pinn, {}),
        "autograd.functional.hessian": ("10 variables", _hessian, {}),
        "per-sample gradients by vmap": ("100 samples, 10 by 10", _per_sample, {}),
        "embedding, both passes": ("1000 words, width 32", _embedding, {}),
        "Adam, many small parameters": ("100 of 10", lambda p: _adam(p, 100, 10), {}),
        "Adam, one large parameter": ("1e6", lambda p: _adam(p, 1, 1_000_000), {}),
        "SGD with momentum, many small parameters": ("100 of 10", _sgd, {}),
        "Rosenbrock by L-BFGS": ("1000 variables, 20 iterations", _rosenbrock, {}),
    }
    for name, (size, build, limits) in builds.items():
        if not quick or name in ("MLP step", "LSTM, both passes", "autograd.functional.hessian", "Adam, many small parameters"):
            yield Case(name, size, build, device=device, limits=limits if device == "cpu" else {})


def _parameters(peer: Peer, *shapes: tuple[int, ...]) -> list[Any]:
    """Normal numbers over the root of the width, the same for every peer, that require grad."""
    rng = np.random.default_rng(0)
    return [peer.tensor((rng.standard_normal(s) / s[-1] ** 0.5).astype(np.float32), requires_grad=True) for s in shapes]


def _data(peer: Peer, *shape: int, seed: int = 1) -> Any:
    return peer.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _gradients(loss: Any, parameters: list[Any]) -> list[Any]:
    """The gradients of a loss, after a backward pass into fresh ones."""
    for p in parameters:
        p.grad = None
    loss.backward()
    return [p.grad for p in parameters]


def _mlp(peer: Peer) -> Run:
    m, f = peer.m, peer.m.nn.functional
    parameters = _parameters(peer, *[(256, 256)] * 3, *[(256,)] * 3)
    data, target = _data(peer, 64, 256), _data(peer, 64, 256, seed=2)

    def run() -> Any:
        x = data
        for k in range(2):
            x = f.relu(f.linear(x, parameters[k], parameters[3 + k]))
        loss = f.mse_loss(f.linear(x, parameters[2], parameters[5]), target)
        loss.backward()
        with m.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
                p.grad = None
        return loss

    return run


def _logistic(peer: Peer) -> Run:
    f, parameters, data = peer.m.nn.functional, _parameters(peer, (1, 20), (1,)), _data(peer, 1000, 20)
    target = peer.tensor((np.arange(1000) % 2).astype(np.float32)[:, None])
    return lambda: _gradients(f.binary_cross_entropy_with_logits(f.linear(data, *parameters), target), parameters)


def _rnn(peer: Peer) -> Run:
    m, parameters, data = peer.m, _parameters(peer, (32, 32), (32, 32), (32,)), _data(peer, 20, 16, 32)
    w, u, b = parameters

    def run() -> Any:
        h = m.zeros(16, 32, device=peer.device)
        for x in data:
            h = m.tanh(x @ w + h @ u + b)
        return _gradients(h.square().sum(), parameters)

    return run


def _lstm(peer: Peer) -> Run:
    m, f = peer.m, peer.m.nn.functional
    parameters, data = _parameters(peer, (128, 32), (128, 32), (128,)), _data(peer, 20, 16, 32)
    w, u, b = parameters

    def run() -> Any:
        h = c = m.zeros(16, 32, device=peer.device)
        for x in data:
            i, g, o, k = (f.linear(x, w, b) + f.linear(h, u)).chunk(4, 1)
            c = m.sigmoid(k) * c + m.sigmoid(i) * m.tanh(g)
            h = m.sigmoid(o) * m.tanh(c)
        return _gradients(h.square().sum(), parameters)

    return run


def _attention(peer: Peer) -> Run:
    m, parameters, data = peer.m, _parameters(peer, *[(64, 64)] * 4), _data(peer, 32, 64)
    query, key, value, out = parameters

    def run() -> Any:
        q, k, v = ((data @ w).reshape(32, 4, 16).transpose(0, 1) for w in (query, key, value))
        weights = m.softmax(q @ k.transpose(1, 2) / 4.0, -1)
        y = (weights @ v).transpose(0, 1).reshape(32, 64) @ out
        return _gradients(y.square().sum(), parameters)

    return run


def _pinn(peer: Peer) -> Run:
    m, parameters = peer.m, _parameters(peer, (1, 32), (32,), (32, 32), (32,), (32, 1))
    w0, b0, w1, b1, w2 = parameters
    points = peer.tensor(np.linspace(-1, 1, 100, dtype=np.float32)[:, None], requires_grad=True)
    grad = m.autograd.grad

    def run() -> Any:
        u = m.tanh(m.tanh(points @ w0 + b0) @ w1 + b1) @ w2
        u_x = grad(u.sum(), points, create_graph=True)[0]
        u_xx = grad(u_x.sum(), points, create_graph=True)[0]
        return grad((u_xx + u).square().mean(), parameters)

    return run


def _hessian(peer: Peer) -> Run:
    m, x = peer.m, peer.tensor(np.linspace(0.5, 1.5, 10, dtype=np.float32))
    return lambda: m.autograd.functional.hessian(lambda x: (m.sin(x) * x).sum() ** 2, x)


def _per_sample(peer: Peer) -> Run:
    m, x = peer.m, _data(peer, 100, 10)
    (w,) = (p.detach() for p in _parameters(peer, (10, 10)))
    gradient = m.func.vmap(m.func.grad(lambda w, x: m.tanh(x @ w).square().sum()), (None, 0))
    return lambda: gradient(w, x)


def _embedding(peer: Peer) -> Run:
    f, parameters = peer.m.nn.functional, _parameters(peer, (100, 32))
    words = peer.tensor(np.random.default_rng(1).integers(0, 100, 1000))
    return lambda: _gradients(f.embedding(words, parameters[0]).square().sum(), parameters)


def _adam(peer: Peer, count: int, size: int) -> Run:
    parameters = _parameters(peer, *[(size,)] * count)
    return _stepping(peer.m.optim.Adam(parameters, lr=1e-3), parameters)


def _sgd(peer: Peer) -> Run:
    parameters = _parameters(peer, *[(10,)] * 100)
    return _stepping(peer.m.optim.SGD(parameters, lr=1e-3, momentum=0.9), parameters)


def _stepping(optimizer: Any, parameters: list[Any]) -> Run:
    for p in parameters:
        p.grad = (p * 0.5).detach()

    def run() -> Any:
        optimizer.step()
        return parameters[0]

    return run


def _rosenbrock(peer: Peer) -> Run:
    m = peer.m

    def run() -> Any:
        x = peer.tensor(np.full(1000, -0.5, np.float64), requires_grad=True)
        optimizer = m.optim.LBFGS([x], max_iter=20, line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    return run
