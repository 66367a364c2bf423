"""The README's performance table is made from the results that are kept, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks import summary

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
