"""Transforms against what one would write by hand: ``vmap(grad(f))`` against f on the whole batch, forward mode against plain forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from benchmarks.core import chain, chain_data
from benchmarks.timing import Row, compare, interleaved
from gradlib.autograd import forward_ad
from gradlib.func import grad, vmap

Run = Callable[[], Any]


def energy(x: Any) -> Any:
    """A small function of the last dimension."""
    return (x.sin() * x + (-x * x).exp()).sum(-1)


def one_layer(w: Any, x: Any) -> Any:
    """A layer and a loss for one example."""
    return ((x @ w).tanh() ** 2).sum(-1)


def row_gradients(rows: int, features: int) -> dict[str, Run]:
    """The gradient of ``energy`` for each row: mapped, and by hand."""
    x = gradlib.tensor(np.random.default_rng(0).standard_normal((rows, features)), dtype=gradlib.float32)
    mapped = vmap(grad(energy))

    def by_hand() -> Any:
        whole = x.detach().requires_grad_()
        return gradlib.autograd.grad(energy(whole).sum(), whole)[0]

    return {"vmap(grad(f))": lambda: mapped(x), "by hand": by_hand}


def sample_gradients(rows: int, features: int) -> dict[str, Run]:
    """The gradient of ``one_layer`` by its weights, for each example: mapped, and by hand on weights repeated for each."""
    rng = np.random.default_rng(0)
    x = gradlib.tensor(rng.standard_normal((rows, features)), dtype=gradlib.float32)
    w = gradlib.tensor(rng.standard_normal((features, features)), dtype=gradlib.float32)
    mapped = vmap(grad(one_layer), (None, 0))

    def by_hand() -> Any:
        whole = w.expand(rows, features, features).detach().requires_grad_()
        return gradlib.autograd.grad(one_layer(whole, x[:, None]).sum(), whole)[0]

    return {"vmap(grad(f))": lambda: mapped(w, x), "by hand": by_hand}


def forward_chain() -> dict[str, Run]:
    """A tangent through 100 small operations, and the operations alone."""
    x, w, b = (gradlib.tensor(a) for a in chain_data(10))
    t = gradlib.ones(10)

    def ahead() -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(chain(gradlib, forward_ad.make_dual(x, t), w, b)).tangent

    return {"forward mode": ahead, "plain forward": lambda: chain(gradlib, x, w, b)}


def rows() -> list[Row]:
    """The table; each figure is the median over the rounds of one run."""
    tables = {
        "gradient of a small function, 1000 rows of 10": (row_gradients(1000, 10), 3.0),
        "gradient of a small function, 1000 rows of 3": (row_gradients(1000, 3), 3.0),
        "gradient by the weights, 1000 examples, 10 x 10": (sample_gradients(1000, 10), 3.0),
        "chain of 100 small operations": (forward_chain(), 2.5),
    }
    return [compare(what, interleaved(runs), *runs, target) for what, (runs, target) in tables.items()]
