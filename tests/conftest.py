"""What every test runs under: NumPy's floating errors raise, seeds are fixed, and global modes must come back as they were."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

import gradlib

settings.register_profile("gradlib", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("gradlib")


def _has_gpu() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


HAS_GPU = _has_gpu()
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)] if HAS_GPU else ["cpu"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `cuda` skip where there is no GPU."""
    if not HAS_GPU:
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="no CUDA GPU with CuPy here"))


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """The name of the device to run on; a test that takes it runs once for each."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's generator with a fixed seed."""
    return np.random.default_rng(20240229)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Every global source of random numbers starts from the same place in every test."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (some library under test may draw from it)
    gradlib.manual_seed(0)


@pytest.fixture(autouse=True)
def floating_errors_raise(request: pytest.FixtureRequest) -> Iterator[None]:
    """Division by zero, overflow and invalid operations raise, except in tests marked `nonfinite`."""
    quiet = request.node.get_closest_marker("nonfinite")
    with np.errstate(all="ignore") if quiet else np.errstate(all="raise", under="ignore"):
        yield


def _modes() -> dict[str, object]:
    return {
        "grad mode": gradlib.is_grad_enabled(),
        "inference mode": gradlib.is_inference_mode_enabled(),
        "anomaly mode": gradlib.is_anomaly_enabled(),
        "default dtype": gradlib.get_default_dtype(),
        "default device": str(gradlib.zeros(0).device),
    }


@pytest.fixture(autouse=True)
def modes_sealed() -> Iterator[None]:
    """A test that leaves a global mode changed fails, and the next one starts clean."""
    before = _modes()
    yield
    after = _modes()
    gradlib.set_grad_enabled(True)
    gradlib.set_anomaly_enabled(False)
    gradlib.set_default_dtype(gradlib.float32)
    leaked = [f"{name} was {before[name]}, is {after[name]}" for name in before if before[name] != after[name]]
    assert not leaked, "; ".join(leaked)
