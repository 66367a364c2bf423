"""The rules of conftest.py hold: a fault planted in each of them is caught."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.device import DEVICES

ROOT = Path(__file__).resolve().parent.parent


def run_pytest(folder: Path, body: str) -> str:
    """pytest's report on a small test file that runs under this folder's conftest.py."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_planted.py").write_text("import numpy as np, pytest, warnings, gradlib\n" + textwrap.dedent(body))
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_test_that_leaves_a_mode_changed_fails_and_the_next_one_starts_clean(tmp_path: Path) -> None:
    body = """
        def test_leaves_grad_mode():
            gradlib.set_grad_enabled(False)

        def test_starts_clean():
            assert gradlib.is_grad_enabled()

        def test_leaves_default_dtype():
            gradlib.set_default_dtype(gradlib.float64)

        def test_leaves_current_device(device):
            if device == "cuda" and gradlib.cuda.device_count() > 1:
                gradlib.cuda.set_device(1)

        def test_leaves_inference_mode():
            gradlib.inference_mode().__enter__()
        """
    report = run_pytest(tmp_path, body)
    said = ["grad mode was True, is False", "default dtype was", "inference mode was False, is True"]
    said += ["current device was 0, is 1"] if DEVICES > 1 else []
    assert [words for words in said if words not in report] == []
    assert f", {len(said)} errors in" in report
    assert "failed" not in report.splitlines()[-1]


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
