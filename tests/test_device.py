"""Where CuPy has nothing to run on, the tests on "cuda" are skipped with one line that says why, and the others run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradlib.testing import hostcuda
from tests.device import HAS_GPU, NO_CUDA

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/backend/test_device.py"

NO_WHEEL = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "cupy_backends" else find(name, package)
import sys
sys.modules["cupy"] = sys.modules["cupy_backends"] = None
"""
GPU = """
from gradlib.testing.hostcuda import loader
loader.has_gpu = lambda: True
"""
ARM = """
import platform
platform.machine = lambda: "aarch64"
"""


def run(before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest over a file of tests on both devices, in a process of its own that is another machine."""
    code = f"{before}\nimport pytest, sys\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {TESTS!r}]))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.mark.skipif(HAS_GPU or NO_CUDA is not None, reason="asks a machine on which hostcuda runs to be another one")
@pytest.mark.parametrize(
    ("before", "environment", "reason"),
    [
        ("", {"PATH": "/nowhere"}, "hostcuda compiles with g++, and there is none"),
        (NO_WHEEL, {}, "hostcuda runs beneath CuPy's wheel, which is not installed"),
        (ARM, {}, "hostcuda runs on Linux on x86-64, this is linux on aarch64"),
    ],
    ids=["no compiler", "no wheel", "another processor"],
)
@pytest.mark.slow
def test_the_tests_on_cuda_are_skipped_with_a_reason(before: str, environment: dict[str, str], reason: str) -> None:
    done = run(before, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skipped
    assert all(reason in line for line in skipped), skipped
    assert " passed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("before", "reason"),
    [(GPU, "this machine has a GPU"), ("import sys, types\nsys.modules['cupy'] = types.ModuleType('cupy')", "CuPy is imported already")],
)
@pytest.mark.slow
def test_hostcuda_refuses_beside_a_gpu_and_behind_cupy(before: str, reason: str) -> None:
    code = f"{before}\nfrom gradlib.testing import hostcuda\nprint(hostcuda.reason_against())\nhostcuda.activate()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if NO_CUDA is None and not HAS_GPU:
        assert reason in done.stdout
    assert done.returncode == 1
    assert "Unavailable: " in done.stderr


def test_hostcuda_is_active_or_says_why_not() -> None:
    assert hostcuda.is_active() == (NO_CUDA is None and not HAS_GPU)
