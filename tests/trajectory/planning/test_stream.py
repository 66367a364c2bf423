"""Problems that are read a chunk at a time."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gradlib.trajectory.planning import problems
from gradlib.trajectory.planning.errors import InputError
from tests.trajectory.planning.files import problems_file
from tests.trajectory.planning.robots import PANDA


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_chunks_of_a_file_are_its_problems_in_turn(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"p.{ending}"
    start, goal = problems_file(path)
    for block, size in ((7, 20), (100, 20), (20, 50), (3, 1000)):
        source = problems.stream(path, PANDA, block)
        chunks = list(source.chunks(size))
        assert [len(chunk.start) for chunk in chunks] == [min(size, 50 - low) for low in range(0, 50, size)]
        np.testing.assert_array_equal(np.concatenate([chunk.start for chunk in chunks]), start)
        np.testing.assert_array_equal(np.concatenate([chunk.goal for chunk in chunks]), goal)
        assert source.share() == 1
    whole = problems.read(path, PANDA)
    np.testing.assert_array_equal(whole.start, start)


def test_rows_that_are_no_numbers_become_problems_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    problems_file(path, 6)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2], lines[5] = lines[2].replace(lines[2].split(",")[0], "much"), "1,2"
    path.write_text("\n".join(lines), encoding="utf-8")
    first, second = problems.stream(path, PANDA, 2).chunks(4)
    assert [bool(reason) for reason in first.reasons + second.reasons] == [False, True, False, False, True, False]
    assert "row 3: goal_panda_joint7 must be a number, got 'much'" in first.reasons[1]
    assert "row 6: has 2 cells" in second.reasons[0]


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_a_file_that_ends_early_is_named(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"p.{ending}"
    problems_file(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if ending != "csv" else content[:-5] + b"\xff")
    with pytest.raises(InputError, match=r"p\."):
        list(problems.stream(path, PANDA, 7).chunks(10))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_memory_does_not_grow_with_the_file(ending: str, tmp_path: Path) -> None:
    peaks = []
    for count in (1500, 6000):
        path = tmp_path / f"{count}.{ending}"
        problems_file(path, count)
        tracemalloc.start()
        for _ in problems.stream(path, PANDA, 100).chunks(100):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000, "the arrays of the larger one take 500,000 more"
