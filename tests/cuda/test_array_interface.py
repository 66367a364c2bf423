"""Tensor.__cuda_array_interface__: CuPy takes a tensor's memory as it is."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from tests.device import cupy

pytestmark = pytest.mark.cuda


def test_cupy_shares_the_memory() -> None:
    tensor = gradlib.arange(6.0, device="cuda").reshape(2, 3)[:, 1:]
    array = cupy.asarray(tensor)
    assert (array.data.ptr, array.shape, array.strides, array.dtype) == (tensor.data_ptr(), (2, 2), (12, 4), np.float32)
    array += 1
    assert tensor.tolist() == [[2.0, 3.0], [5.0, 6.0]]


def test_a_tensor_on_the_host_has_none() -> None:
    assert not hasattr(gradlib.ones(2, device="cpu"), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"Use Tensor\.cuda\(\)"):
        _ = gradlib.ones(2, device="cpu").__cuda_array_interface__


def test_a_tensor_that_requires_grad_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)"):
        cupy.asarray(gradlib.ones(2, device="cuda", requires_grad=True))
