"""The README's performance table is made from the results that are kept, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks import floors, summary

pytestmark = pytest.mark.host
README = (summary.ROOT / "README.md").read_text(encoding="utf-8")


def test_table_in_the_readme_is_made_from_the_newest_results():
    assert summary.written(README, summary.table(summary.newest())) == README


def test_every_row_of_the_table_is_measured():
    made = summary.table(summary.newest())
    for _, name, size in summary.ROWS:
        assert f"| {name}" + (f" ({size})" if size else "") + " |" in made


def test_changed_figure_shows():
    found = summary.newest()
    found["suites"]["overhead"][0]["seconds"]["gradlib"]["median"] *= 2
    assert summary.written(README, summary.table(found)) != README


def test_page_of_slow_operations_is_made_from_the_newest_results():
    assert floors.PAGE.read_text(encoding="utf-8") == floors.page(summary.newest())


def test_reason_is_numpy_where_its_own_form_takes_as_long():
    row = {"size": "1e6", "seconds": {"gradlib": {"median": 1.0}, "torch": {"median": 0.1}, "numpy": {"median": 0.9}}}
    assert floors.reason(row, None) == "NumPy's own time"
    row["seconds"]["numpy"]["median"] = 0.5
    assert floors.reason(row, None) == "passes or calls around NumPy"
