"""Tensors for the tests of the public functions."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import gradlib
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.trajectory import chain_host as chain


class Maker:
    """Makes random tensors on a device."""

    def __init__(self, rng: np.random.Generator, device: str) -> None:
        self.rng, self.device = rng, device

    def __call__(self, *shape: int, dtype=np.float64, grad: bool = True):
        return self.put(self.rng.standard_normal(shape).astype(dtype), grad)

    def times(self, *shape: int, grad: bool = True):
        return self.put(self.rng.uniform(0.5, 1.5, shape), grad)

    def put(self, array, grad: bool = False):
        return gradlib.tensor(array, device=self.device).requires_grad_(grad)


def check_derivatives(device, function, inputs) -> None:
    """First ones element by element, second ones along a random direction, on a device the first too: test_kernels.py compares elements."""
    together = as_one(function, inputs)
    assert gradcheck(function, inputs) if device == "cpu" else gradcheck(*together, fast_mode=True)
    assert gradgradcheck(*together, fast_mode=True)


def as_one(function, inputs):
    """The function from all inputs, and to all results, in one vector each, so that a direction moves everything at once; and its input."""

    def whole(x):
        parts = x.split([each.numel() for each in inputs])
        made = function(*(part.reshape(each.shape) for part, each in zip(parts, inputs, strict=True)))
        return gradlib.cat([y.reshape(-1) for y in (made if isinstance(made, tuple) else (made,))])

    return whole, (gradlib.cat([each.detach().reshape(-1) for each in inputs]).requires_grad_(),)


def each_form(name: str):
    """A fixture: what computes on the CPU by NumPy, and by numba, in turn."""

    @pytest.fixture(params=[f"{name}_host", f"{name}_numba"])
    def form(request):
        if request.param.endswith("numba"):
            pytest.importorskip("numba")
        return import_module(f"gradlib.trajectory.{request.param}")

    return form


def check_float32(rng) -> None:
    """Positions integrated in float32 are as near to those in float64 as one loop over the steps gives them."""
    u = rng.standard_normal((64, 32, 7))
    exact = chain.forward(u, [None] * 3, np.array([[0.1]]), 3)[0]
    found = chain.forward(u.astype(np.float32), [None] * 3, np.array([[0.1]]), 3)[0]
    t, loop = np.float32(0.1), np.zeros((64, 32, 7), np.float32)
    loop[:, 1:] = u[:, :-1]
    for _ in range(3):
        loop = np.cumsum(loop * t, axis=1, dtype=np.float32)
    assert np.abs(found - exact).mean() <= 2 * np.abs(loop - exact).mean()
