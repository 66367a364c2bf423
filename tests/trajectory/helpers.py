"""Tensors for the tests of the public functions."""

from __future__ import annotations

import numpy as np

import gradlib
from gradlib.autograd import gradcheck, gradgradcheck


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


def host(tensor) -> np.ndarray:
    """The values of a Tensor, in host memory."""
    array = tensor.detach()._array if isinstance(tensor, gradlib.Tensor) else tensor
    return array if isinstance(array, np.ndarray) else array.get()
