"""What every test runs under: NumPy's floating errors raise, seeds are fixed, and global modes must come back as they were."""

from __future__ import annotations

import gc
import inspect
import random
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import gradlib
import gradlib.trajectory  # declares operations, which some tests ask for as all there are
from tests.device import NO_CUDA, cupy

pytest_plugins = ("gradlib.testing.hostcuda.plugin",)  # a test with a hazard fails

settings.register_profile("gradlib", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("gradlib")

TESTS = Path(__file__).parent
HOST_FOLDERS = ("cli", "cuda", "planning", "profiler")  # their subject is the host: commands, files, compilers; or they name a device


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs on both devices, except those about the host: in the folders above, in `tests` itself, or marked `host`."""
    folder = Path(metafunc.module.__file__ or "").parent
    host = folder == TESTS or folder.name in HOST_FOLDERS or metafunc.definition.get_closest_marker("host")
    asked = "device" in inspect.signature(metafunc.function).parameters
    devices = ["cpu"] if host and not asked else ["cpu", "cuda"]
    wanted = metafunc.config.getoption("--device", None)  # of tests/plan.py
    metafunc.parametrize("device", [wanted] if wanted in devices else devices, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No collection of garbage looks at what is imported and collected here, the most of all objects in a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        set_aside()


def set_aside() -> None:
    """What is alive now no later collection of garbage looks at: a test that asks for one looks at its own file's objects only."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A file may have imported a large library."""
    if nextitem is None or nextitem.path != item.path:
        set_aside()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests on "cuda", and those about it, are skipped where CuPy has nothing to run on."""
    here = getattr(item, "callspec", None)
    if NO_CUDA and (item.get_closest_marker("cuda") or (here and here.params.get("device") == "cuda")):
        pytest.skip(NO_CUDA)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """So are tests on the CPU that make something on "cuda" beside it."""
    try:
        return (yield)
    except RuntimeError as error:
        if NO_CUDA and re.search("CuPy|GPU", str(error)):  # what gradlib says where "cuda" is not there
            pytest.skip(NO_CUDA)
        raise


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the device that a test runs on, where new tensors are made by default; "cuda" is hostcuda where there is no GPU.

    Seeds are fixed and NumPy's floating errors raise, except in tests marked `nonfinite`; a test that leaves a global mode changed fails,
    and the next one starts clean. All this is one fixture, as pytest takes longer over a fixture than many a test runs.
    """
    gradlib.set_default_device(request.param)
    fix_seeds()
    before = modes(request.param)
    quiet = request.node.get_closest_marker("nonfinite")
    with np.errstate(all="ignore") if quiet else np.errstate(all="raise", under="ignore"):
        yield request.param
    seal_allocator()
    after = modes(request.param)
    gradlib.set_grad_enabled(True)
    gradlib.set_anomaly_enabled(False)
    gradlib.set_default_dtype(gradlib.float32)
    gradlib.set_default_device(None)
    leaked = [f"{name} was {before[name]}, is {after[name]}" for name in before if before[name] != after[name]]
    assert not leaked, "; ".join(leaked)


def fix_seeds() -> None:
    """Every global source of random numbers starts from the same place in every test."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (some library under test may draw from it)
    gradlib.manual_seed(0)


def modes(device: str) -> dict[str, object]:
    """What no test may leave changed."""
    return {
        "grad mode": gradlib.is_grad_enabled(),
        "inference mode": gradlib.is_inference_mode_enabled(),
        "anomaly mode": gradlib.is_anomaly_enabled(),
        "default dtype": gradlib.get_default_dtype(),
        "use of numba": gradlib.trajectory.compiled._use,
        "default device": gradlib.get_default_device(),
        "current device": cupy.cuda.runtime.getDevice() if device == "cuda" else None,
    }


def seal_allocator() -> None:
    """What notes the most memory in use, once a test asked for it, does not stay for the next, whose calls may be counted."""
    if gradlib.cuda.memory._installed:
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
        gradlib.cuda.memory._installed.clear()
        gradlib.cuda.memory._peaks.clear()


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's generator with a fixed seed."""
    return np.random.default_rng(20240229)
