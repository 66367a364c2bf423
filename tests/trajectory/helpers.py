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
    """First and second, element by element; on a device along random directions: test_kernels.py compares its elements with the host's."""
    assert gradcheck(function, inputs, fast_mode=device != "cpu")
    assert gradgradcheck(function, inputs, fast_mode=device != "cpu")


def host(tensor) -> np.ndarray:
    """The values of a Tensor, in host memory."""
    array = tensor.detach()._array if isinstance(tensor, gradlib.Tensor) else tensor
    return array if isinstance(array, np.ndarray) else array.get()
