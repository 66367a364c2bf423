"""ci/gpu_record.py: what a run on a GPU leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.device import HAS_GPU
from tests.scripts import script

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="40" time="1.0"><testcase name="a"/></testsuite></testsuites>
"""


@pytest.fixture
def recorder() -> ModuleType:
    return script("gpu_record")


def test_counts_and_figures(recorder: ModuleType, tmp_path: Path) -> None:
    """Of the parts that have run, whatever they were."""
    facts = {"date": "2026-11-23", "gpu": "NVIDIA H100 80GB HBM3"}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    assert recorder.record(tmp_path) == facts
    (tmp_path / "tests.xml").write_text(REPORT)
    (tmp_path / "racecheck.txt").write_text("failed (9)\n")
    made = recorder.record(tmp_path)
    assert made["tests"] == {"tests": 40, "failures": 2, "errors": 1, "skipped": 3}
    assert made["compute_sanitizer"] == {"racecheck": "failed (9)"}
    assert "core" not in made
    (tmp_path / "memcheck.txt").write_text("passed\n")
    (tmp_path / "figures.json").write_text(json.dumps({"machine": {"cpu": "x"}, "core": [{"ratio": 0.5}]}))
    (tmp_path / "collectives.json").write_text("[]")
    (tmp_path / "planning.txt").write_text("problems\n20")
    made = recorder.record(tmp_path)
    assert made["compute_sanitizer"] == {"memcheck": "passed", "racecheck": "failed (9)"}
    assert (made["collectives"], made["planning"]) == ([], ["problems", "20"])
    assert made["core"] == [{"ratio": 0.5}]
    assert recorder.file_name(made) == "nvidia-h100-80gb-hbm3-2026-11-23.json"


@pytest.mark.cuda
@pytest.mark.skipif(HAS_GPU, reason="asks hostcuda, and a driver made for the test")
def test_facts_of_a_machine(recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 580.65.06\necho 580.65.06\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    facts = recorder.facts()
    assert (facts["gpu"], facts["driver"], facts["cuda"]) == ("hostcuda 0 (H100's limits, on the CPU)", "580.65.06", 12090)
    assert len(facts["commit"].split()[0]) == 40


@pytest.mark.cuda
@pytest.mark.skipif(HAS_GPU, reason="asks hostcuda")
def test_a_machine_without_git_and_nvidia_smi_is_recorded(recorder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After hours of tests the record must not fail for a commit that nobody can tell."""
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = recorder.facts()
    assert (facts["driver"], facts["commit"]) == ("unknown", "unknown")
