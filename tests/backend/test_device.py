"""Devices: names, the default one, and the errors of a machine without CuPy or without a GPU."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import gradlib
from tests.device import cupy


def test_device_from_its_name() -> None:
    assert str(gradlib.device("cpu")) == "cpu"
    assert gradlib.device("cpu") == gradlib.device(gradlib.device("cpu"))
    assert repr(gradlib.device("cpu")) == "device(type='cpu')"
    for wrong in ("gpu", "cuda:x", "cpu:a", "cuda:", "cpu:", "cuda:01", "cuda:\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(RuntimeError, match="a device is"):
            gradlib.device(wrong)


def test_cuda_without_cupy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"needs CuPy.*pip install 'cupy-cuda12x\[ctk\]'"):
        gradlib.device("cuda")
    with pytest.raises(RuntimeError, match="needs CuPy"):
        gradlib.zeros(2, device="cuda")


def no_driver() -> int:
    raise cupy.cuda.runtime.CUDARuntimeError(35)


@pytest.mark.parametrize(
    ("count", "says"), [(no_driver, "but no usable GPU was found.*nvidia-smi"), (lambda: 0, "but this machine has no GPU")]
)
def test_cuda_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, count: Any, says: str) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", count)
    monkeypatch.setattr("gradlib.backend.device._named", gradlib.device)  # which remembers the devices that were found
    for call in (lambda: gradlib.device("cuda:0"), lambda: gradlib.ones(2, device="cuda"), lambda: gradlib.ones(2).cuda(0)):
        with pytest.raises(RuntimeError, match=f"CuPy is installed, {says}.*device\\(.cpu.\\)"):
            call()
    assert gradlib.ones(2, device="cpu").tolist() == [1, 1]


def test_a_number_beyond_the_last_gpu() -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(RuntimeError, match=rf"cuda:{count} was asked for, but this machine has {count} GPU\(s\), numbered from 0"):
        gradlib.device("cuda", count)


def test_the_default_place(device: str) -> None:
    other = {"cpu": "cuda", "cuda": "cpu"}[device]
    with gradlib.device(other):
        assert gradlib.ones(2).device.type == other
        with gradlib.device(device):
            assert gradlib.tensor([1.0]).device.type == device
        assert gradlib.get_default_device() == gradlib.device(other)
    assert gradlib.ones(2).device.type == device
    gradlib.set_default_device(other)
    assert gradlib.rand(2).device.type == other
    gradlib.set_default_device(device)


def test_cuda_means_the_current_device() -> None:
    assert str(gradlib.ones(2, device="cuda").device) == "cuda:0"
    with cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1) as last:
        assert gradlib.ones(2, device="cuda").device.index == last.id
        assert gradlib.ones(2, device="cuda:0").cuda().device.index == last.id


def test_a_mixture_of_devices_names_both() -> None:
    says = r"mul: expected all tensors to be on the same device.*cpu.*cuda:0.*\[3\] on cuda:0 \(CuPy\)"
    with pytest.raises(RuntimeError, match=says):
        gradlib.ones(3, device="cpu") * cupy.ones(3, "float32")
    with pytest.raises(RuntimeError, match="mul: expected all tensors to be on the same device"):
        gradlib.ones(3, device="cuda") * gradlib.ones(3, device="cpu")
