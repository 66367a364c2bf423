"""Results in parts, made in one process: what they hold, and what becomes of them when a job ends early."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradlib import trajectory
from gradlib.cli import main
from gradlib.trajectory.planning import job, parts, solve
from gradlib.trajectory.planning.errors import InputError
from tests.trajectory.planning.files import contents, problems_file
from tests.trajectory.planning.robots import PANDA, pairs

pytest.importorskip("pyarrow")
QUICK = {"horizon": 8, "chunk": 10}


def read(folder: Path, form: str) -> dict[str, np.ndarray]:
    """All parts of a folder, put together."""
    found: list[dict[str, np.ndarray]] = []
    for path in sorted(folder.glob(f"*.{form}")):
        if form == "npz":
            with np.load(path) as file:
                found.append({name: file[name] for name in file.files if name not in ("joint_names", "facts")})
        else:
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            assert json.loads(table.schema.metadata[b"joint_names"]) == list(PANDA.joints)
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            found.append({k: c.to_numpy_ndarray() if hasattr(c, "to_numpy_ndarray") else c.to_numpy(False) for k, c in columns.items()})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


@pytest.mark.parametrize("form", ["parquet", "npz"])
def test_parts_hold_what_the_arrays_do(form: str, tmp_path: Path) -> None:
    start, goal = problems_file(tmp_path / "p.npz", 25)
    goal[7, 0] = 9.0
    np.savez(tmp_path / "p.npz", start=start, goal=goal)
    seen: list[tuple[float, int]] = []
    said = lambda fraction, count: seen.append((fraction, count))  # noqa: E731
    summary = trajectory.plan_many(tmp_path / "p.npz", out=tmp_path / "o", format=form, progress=said, **QUICK)
    plans = trajectory.plan_many((start, goal), horizon=8)
    found = read(tmp_path / "o", form)
    for name in plans._fields:
        np.testing.assert_array_equal(found[name], getattr(plans, name))
    assert found["problem"].tolist() == list(range(25))
    assert (summary.problems, summary.solved) == (25, 24)
    assert summary.unsolved == [(7, "goal of panda_joint1 is 9, outside its limits [-2.8973, 2.8973]")]
    assert summary.mean_duration == pytest.approx(plans.dt[plans.solved].mean() * 7)
    assert [count for _, count in seen] == [10, 20, 25]
    assert seen[-1][0] == 1
    known = json.loads((tmp_path / "o/manifest.json").read_text(encoding="utf-8"))
    assert known["complete"] is True
    assert known["summary"]["solved"] == 24
    assert known["job"]["chunk"] == 10


def test_the_chunk_changes_no_bit_of_a_result(tmp_path: Path) -> None:
    start, goal = pairs(12)
    one, other = (trajectory.plan_many((start, goal), horizon=8, chunk=chunk) for chunk in (5, 12))
    for name in one._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_problems_that_are_no_pair_are_refused() -> None:
    start, _ = pairs(3)
    for wrong, got in ((start, "ndarray of 3"), ((start,), "tuple of 1"), (None, "NoneType")):
        with pytest.raises(InputError, match=rf"problems must be a pair \(start, goal\) .*; got {got}$"):
            trajectory.plan_many(wrong, horizon=8)


def test_problems_for_which_the_planner_raises_are_recorded_and_stop_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    start, goal = pairs(5)
    plain, real = trajectory.plan_many((start, goal), horizon=8), solve.plan

    def plan(begin: np.ndarray, *rest: object) -> object:
        if (begin == start[2]).all(axis=1).any():
            raise ZeroDivisionError("planted")
        return real(begin, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "plan", plan)
    found = trajectory.plan_many((start, goal), horizon=8)
    assert found.reason.tolist() == ["", "", "the planner failed: ZeroDivisionError: planted", "", ""]
    np.testing.assert_array_equal(np.delete(found.position, 2, 0), np.delete(plain.position, 2, 0))
    assert np.isnan(found.position[2]).all()


def test_a_chunk_that_cannot_be_planned_at_all_is_named_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, goal = pairs(25)
    whole = trajectory.plan_many((start, goal), out=tmp_path / "whole", **QUICK)
    real = job.planned

    def broken(asked: object, *rest: object) -> object:
        if np.array_equal(asked.start, start[10:20]):  # type: ignore[attr-defined]
            raise RuntimeError("the device went away")
        return real(asked, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(job, "planned", broken)
        found = trajectory.plan_many((start, goal), out=tmp_path / "o", **QUICK)
    assert found.failed == {1: "RuntimeError: the device went away"}
    assert (found.problems, found.solved) == (25, 15)
    assert json.loads((tmp_path / "o/manifest.json").read_text(encoding="utf-8"))["complete"] is False
    assert trajectory.plan_many((start, goal), out=tmp_path / "o", resume=True, **QUICK) == whole
    assert contents(tmp_path / "o") == contents(tmp_path / "whole")


def test_a_full_disk_keeps_the_parts_before_and_it_goes_on_when_there_is_room(tmp_path: Path) -> None:
    start, goal = pairs(25)
    whole = trajectory.plan_many((start, goal), out=tmp_path / "whole", **QUICK)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "whole/trajectories-000000000.parquet").stat().st_size

    def fill(fraction: float, count: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, before[1]))  # what the system says of a file is what a full disk says

    try:
        with pytest.raises(InputError, match=r"cannot write into .*; the parts that are there stay, and --resume goes on"):
            trajectory.plan_many((start, goal), out=tmp_path / "o", progress=fill, **QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(contents(tmp_path / "o")) == ["manifest.json", "trajectories-000000000.parquet"]
    assert trajectory.plan_many((start, goal), out=tmp_path / "o", resume=True, **QUICK) == whole
    assert contents(tmp_path / "o") == contents(tmp_path / "whole")


KILLED = """
import os, signal, sys

count = 0

def watch(event, args):
    global count
    count += event == "os.rename"
    if event == "os.rename" and count == 3:  # the manifest and a part are in place, the next one is whole but has its temporary name
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
from gradlib.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["trajopt", "--samples", "25", "--horizon", "8", "--chunk", "10", "--out"]
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, *arguments, str(tmp_path / "o")]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=200)
    assert done.returncode == -9, done.stderr
    left = list(contents(tmp_path / "o"))
    assert len(left) == 3
    assert left[0].endswith(".tmp")
    assert main([*arguments, str(tmp_path / "o")]) == 2
    assert "--resume goes on with them" in capsys.readouterr().err
    assert main([*arguments[:-3], "--resume", "--out", str(tmp_path / "o")]) == 0, "the chunk is known from the manifest"
    assert contents(tmp_path / "o") == contents(tmp_path / "whole")
    assert "25 of 25" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"horizon": 9}, "another job, with horizon 8, not 9"),
        ({"dtype": "float32"}, "another job, with dtype 'float64', not 'float32'"),
        ({"chunk": 5}, "another job, with chunk 10, not 5"),
        ({"seed": 1}, "holds results of other problems"),
        ({"resume": False}, "holds results in parts already"),
    ],
)
def test_parts_of_another_job_are_not_mixed_in(change: dict, text: str, tmp_path: Path) -> None:
    trajectory.plan_many(pairs(12), out=tmp_path / "o", **QUICK)
    before = contents(tmp_path / "o")
    given = {**QUICK, "resume": True, **change}
    with pytest.raises(ValueError, match=text):
        trajectory.plan_many(pairs(12, given.pop("seed", 0)), out=tmp_path / "o", **given)
    after = contents(tmp_path / "o")
    assert {name: after[name] for name in before if name != "manifest.json"} == {k: v for k, v in before.items() if k != "manifest.json"}


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    trajectory.plan_many(pairs(12), out=tmp_path / "o", **QUICK)
    (tmp_path / "o" / parts.name(1, "parquet")).write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"000000001.parquet is no part of these results .*; remove it, and --resume makes it anew"):
        trajectory.plan_many(pairs(12), out=tmp_path / "o", resume=True, **QUICK)


def test_a_summary_does_not_depend_on_the_order_of_its_parts() -> None:
    made = [parts.Summary(2, 1, (parts.Fraction(0.1 * k), 0.1 * k, 0.1 * k), {"jerk": k / 7}, [(k, "no")], {}) for k in range(1, 6)]
    one, other = parts.Summary(), parts.Summary()
    for each in made:
        one.add(each)
    for each in reversed(made):
        other.add(each)
    assert one == other == parts.Summary.from_json(json.loads(json.dumps(one.to_json())))


@pytest.mark.parametrize(
    ("problems", "options", "text"),
    [
        ("p.npz", {}, "give it as out="),
        ((np.zeros((2, 3)), np.zeros((2, 3))), {}, r"must both be \(N, 7\)"),
        (pairs(2), {"horizon": 3}, "horizon must be at least 4"),
        (pairs(2), {"dtype": "float16"}, "dtype must be float32 or float64"),
        (pairs(2), {"chunk": 0}, "chunk must be at least 1"),
        (pairs(2), {"format": "zarr"}, "format must be one of parquet, npz"),
        (pairs(2), {"robot": "panda"}, "robot must be a"),
    ],
)
def test_arguments_that_cannot_be_used(problems: object, options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        trajectory.plan_many(problems, **options)
