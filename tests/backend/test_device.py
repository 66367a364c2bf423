"""Devices: names, the default one, and the errors of a machine without CuPy or without a GPU."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gradlib
from tests.conftest import HAS_GPU


def test_names() -> None:
    assert str(gradlib.device("cpu")) == "cpu"
    assert gradlib.device("cpu") == gradlib.device(gradlib.device("cpu"))
    assert repr(gradlib.device("cpu")) == "device(type='cpu')"
    for wrong in ("gpu", "cuda:x", "cpu:a"):
        with pytest.raises(RuntimeError, match="a device is"):
            gradlib.device(wrong)


def test_cuda_without_cupy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"needs CuPy.*pip install 'cupy-cuda12x\[ctk\]'"):
        gradlib.device("cuda")
    with pytest.raises(RuntimeError, match="needs CuPy"):
        gradlib.zeros(2, device="cuda")


@pytest.mark.skipif(HAS_GPU or importlib.util.find_spec("cupy") is None, reason="needs CuPy and no GPU")
def test_cuda_without_a_gpu_says_so() -> None:
    with pytest.raises(RuntimeError, match="CuPy is installed, but"):
        gradlib.device("cuda:0")


def test_a_device_as_context_is_the_default_place(device: str) -> None:
    with gradlib.device(device):
        assert gradlib.ones(2).device.type == device
    assert gradlib.ones(2).device.type == "cpu"


def test_a_mixture_of_devices_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an array class that only says where it is, since the error comes before anything is computed."""

    class OnCuda:
        dtype, shape, ndim, device = np.dtype("float32"), (3,), 1, SimpleNamespace(id=0)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=OnCuda))
    with pytest.raises(RuntimeError, match=r"mul: expected all tensors to be on the same device.*cpu.*cuda:0.*\[3\] on cuda:0 \(CuPy\)"):
        gradlib.ones(3) * OnCuda()
