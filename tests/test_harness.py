"""The rules of conftest.py hold: a fault planted in each of them is caught."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


def run_pytest(folder: Path, body: str) -> str:
    """pytest's report on a small test file that runs under this folder's conftest.py."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_planted.py").write_text("import numpy as np, pytest, warnings, gradlib\n" + textwrap.dedent(body))
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("gradlib.set_grad_enabled(False)", "grad mode was True, is False"),
        ("gradlib.set_default_dtype(gradlib.float64)", "default dtype was"),
        ("gradlib.inference_mode().__enter__()", "inference mode was False, is True"),
    ],
)
@pytest.mark.slow
def test_leaked_mode_fails_the_test_that_leaks_it(tmp_path: Path, fault: str, name: str) -> None:
    report = run_pytest(tmp_path, f"def test_leak():\n    {fault}\n")
    assert name in report
    assert "1 error" in report


@pytest.mark.slow
def test_next_test_starts_clean_after_a_leak(tmp_path: Path) -> None:
    body = """
        def test_leak():
            gradlib.set_grad_enabled(False)

        def test_next():
            assert gradlib.is_grad_enabled()
        """
    assert "2 passed, 1 error" in run_pytest(tmp_path, body)


def test_floating_errors_raise() -> None:
    with pytest.raises(FloatingPointError):
        np.float32(1) / np.float32(0)
    with pytest.raises(FloatingPointError):
        np.sqrt(np.float64(-1))


@pytest.mark.nonfinite
def test_nonfinite_tests_may_reach_inf() -> None:
    assert np.isinf(np.float32(1) / np.float32(0))


def test_warnings_are_errors() -> None:
    with pytest.raises(UserWarning):
        warnings.warn("any", stacklevel=1)


@pytest.mark.slow
def test_unknown_marker_is_an_error(tmp_path: Path) -> None:
    assert "'cudda' not found in `markers`" in run_pytest(tmp_path, "@pytest.mark.cudda\ndef test_typo():\n    pass\n")


@pytest.mark.slow
def test_seeds_are_fixed(tmp_path: Path) -> None:
    body = """
        draws = []

        def test_first():
            draws.append((np.random.rand(), gradlib.rand(3).tolist()))

        def test_second():
            assert draws == [(np.random.rand(), gradlib.rand(3).tolist())]
        """
    assert "2 passed" in run_pytest(tmp_path, body)
