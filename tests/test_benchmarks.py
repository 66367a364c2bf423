"""The README's performance table is made from the results that are kept, and nothing else."""

from __future__ import annotations

import json
import os
import runpy
import sys

import pytest

from benchmarks import floors, summary
from gradlib.cli.bench import machine

pytestmark = pytest.mark.host
README = (summary.ROOT / "README.md").read_text(encoding="utf-8")


def test_table_in_the_readme_is_made_from_the_newest_results():
    assert summary.written(README, summary.table(summary.newest())) == README


def test_results_of_a_gpu_are_not_in_the_table(monkeypatch, tmp_path):
    """ci/gpu.sh writes them beside those of CPUs, and before the benchmarks have run too."""
    for number in (1, 2):
        (tmp_path / f"cpu-{number}.json").write_text(json.dumps({"machine": {"date": f"2026-01-0{number}"}}))
    (tmp_path / "nvidia-h100.json").write_text(json.dumps({"gpu": "NVIDIA H100", "date": "2026-02-01"}))
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    assert summary.newest() == {"machine": {"date": "2026-01-02"}}


def test_every_row_of_the_table_is_measured():
    made = summary.table(summary.newest())
    for _, name, size in summary.ROWS:
        assert f"| {name}" + (f" ({size})" if size else "") + " |" in made


def test_changed_figure_shows():
    found = summary.newest()
    found["suites"]["overhead"][0]["seconds"]["gradlib"]["median"] *= 2
    assert summary.written(README, summary.table(found)) != README


def test_mean_over_rows_of_a_shape_is_named_by_it():
    found = summary.newest()
    found["suites"]["ops"] = [{"name": "sum(dim=1) forward", "size": "20000x3", "ratio": {"torch": 0.25}}]
    assert "| every operation forward, geometric mean | | torch 0.25 in shape 20000x3 |" in summary.table(found)


def test_page_of_slow_operations_is_made_from_the_newest_results():
    assert floors.PAGE.read_text(encoding="utf-8") == floors.page(summary.newest())


def test_reason_is_numpy_where_its_own_form_takes_as_long():
    row = {"size": "1e6", "seconds": {"gradlib": {"median": 1.0}, "torch": {"median": 0.1}, "numpy": {"median": 0.9}}}
    assert floors.reason(row, None) == "NumPy's own time"
    row["seconds"]["numpy"]["median"] = 0.5
    assert floors.reason(row, None) == "passes or calls around NumPy"


def test_the_module_is_the_command_also_where_it_begins_anew(monkeypatch):
    """As it does where the environment does not yet say how many threads linear algebra has."""
    for name in machine.THREADS:
        monkeypatch.delenv(name, raising=False)

    def begin(program, arguments, environment):
        raise SystemExit(arguments[1:])

    monkeypatch.setattr(os, "execve", begin)
    given = ["start", "--quick", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *given])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("benchmarks", run_name="__main__")
    assert ended.value.code == ["-m", "gradlib.cli", "bench", *given]
