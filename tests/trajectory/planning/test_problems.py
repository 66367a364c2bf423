"""Problems: files, samples, and every way in which they can be bad."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory.planning import problems
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.robot import Joint, assemble
from tests.trajectory.planning.robots import PANDA, pairs

LIMITS = {"lower": -1.0, "upper": 2.0, "velocity": 1.0, "acceleration": 1.0, "jerk": 1.0}
PAIR = assemble("pair", [Joint("a", **LIMITS), Joint("b", **LIMITS)])


def csv(tmp_path, text):
    path = tmp_path / "p.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return problems.read(path, PAIR)


def npz(tmp_path, **arrays):
    path = tmp_path / "p.npz"
    np.savez(path, **arrays)
    return problems.read(path, PAIR)


def test_csv_columns_may_come_in_any_order(tmp_path):
    found = csv(tmp_path, "\ufeffgoal_b, start_a,start_b ,goal_a\n1,0.5,-1e-1,2\n\n0,0,0,1\n")
    np.testing.assert_array_equal(found.start, [[0.5, -0.1], [0, 0]])
    np.testing.assert_array_equal(found.goal, [[2, 1], [1, 0]])
    assert found.reasons == ("", "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty"),
        ("start_a,start_b,goal_a\n0,0,1", "misses 'goal_b'"),
        ("start_a,start_b,goal_a,goal_b,goal_c\n0,0,1,1,1", "unknown 'goal_c'"),
        ("start_a,start_b,goal_a,goal_b,goal_b\n0,0,1,1,1", "repeats 'goal_b'"),
        ("start_a,start_b,goal_a,\n0,0,1,1", "misses 'goal_b'; has an unknown ''"),
        ("0,0,1,1\n0,0,1,1", "misses"),
        ("start_a,start_b,goal_a,goal_b\n0,0,1", "row 2: has 3 cells, but the header has 4"),
        ("start_a,start_b,goal_a,goal_b\n0,0,1,1\n0,0,1,1,1", "row 3: has 5 cells"),
        ("start_a,start_b,goal_a,goal_b\n0,0,one,1", "row 2: goal_a must be a number, got 'one'"),
        ("start_a,start_b,goal_a,goal_b\n0,0,,1", "row 2: goal_a must be a number, got ''"),
        ("start_a,start_b,goal_a,goal_b\n", "holds no problem"),
        (b"\x89PNG\r\n\xff\xfe", "not a CSV file|misses"),
    ],
)
def test_csv_files_that_cannot_be_used(tmp_path, text, error):
    with pytest.raises(InputError, match=error):
        csv(tmp_path, text)


def test_npz_files_and_those_that_cannot_be_used(tmp_path):
    good = np.zeros((3, 2))
    assert npz(tmp_path, start=good, goal=good.astype(np.float32) + 1).reasons == ("",) * 3
    assert npz(tmp_path, start=np.zeros((1, 2), int), goal=np.ones((1, 2), int)).goal.dtype == np.float64
    for arrays, error in (
        ({"start": good}, "has no array goal; it has start"),
        ({"a": good}, "has no array start and no array goal"),
        ({"start": good, "goal": np.zeros((3, 3))}, r"goal must have shape \(N, 2\)"),
        ({"start": np.zeros(2), "goal": np.zeros(2)}, r"start must have shape \(N, 2\)"),
        ({"start": good, "goal": np.zeros((4, 2))}, "start has 3 rows and goal has 4"),
        ({"start": good, "goal": good.astype(complex)}, "real numbers, got dtype complex128"),
        ({"start": good, "goal": good.astype(str)}, "real numbers"),
        ({"start": good, "goal": good.astype(object)}, "not an NPZ file of numbers"),
        ({"start": good[:0], "goal": good[:0]}, "holds no problem"),
    ):
        with pytest.raises(InputError, match=error):
            npz(tmp_path, **arrays)


def test_files_of_another_kind(tmp_path):
    for name, content, error in (
        ("p.txt", b"", "takes a .csv, a .npz or a .parquet"),
        ("p.npz", b"nonsense", "not an NPZ file"),
        ("p.npz", b"", "not an NPZ file"),
        ("p.npz", b"PK\x03\x04broken", "not an NPZ file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=error):
            problems.read(tmp_path / name, PAIR)
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="a single array"):
        problems.read(tmp_path / "one.npz", PAIR)
    with pytest.raises(InputError, match="cannot read the problems"):
        problems.read(tmp_path / "missing.csv", PAIR)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="cannot read the problems"):
        problems.read(tmp_path / "folder.csv", PAIR)


def test_single_bad_problems_get_a_reason(tmp_path):
    nan, inf = float("nan"), float("inf")
    start = [[0, 0], [0, nan], [0, 0], [-1.5, 0], [0, 0], [0.5, 1], [2 + 1e-7, 0]]
    goal = [[1, 1], [1, 1], [inf, 1], [1, 1], [1, 2.001], [0.5, 1], [0, 0]]
    assert npz(tmp_path, start=np.array(start), goal=np.array(goal)).reasons == (
        "",
        "start of b is nan, not a finite number",
        "goal of a is inf, not a finite number",
        "start of a is -1.5, outside its limits [-1, 2]",
        "goal of b is 2.001, outside its limits [-1, 2]",
        "",  # a motion of no length
        "",  # files hold rounded numbers
    )


def test_nan_in_a_csv_marks_the_problem(tmp_path):
    assert csv(tmp_path, "start_a,start_b,goal_a,goal_b\n0,nan,1,1\n0,0,1,1").reasons == ("start of b is nan, not a finite number", "")


def test_samples_lie_within_the_limits_and_follow_the_seed():
    found = problems.sample(500, 3, PANDA)
    again, other = problems.sample(500, 3, PANDA), problems.sample(500, 4, PANDA)
    assert set(found.reasons) == {""}
    np.testing.assert_array_equal(found.start, again.start)
    assert not np.array_equal(found.start, other.start)
    for ends in (found.start, found.goal):
        assert (ends >= PANDA.lower).all()
        assert (ends <= PANDA.upper).all()
        np.testing.assert_allclose(ends.mean(axis=0), (PANDA.lower + PANDA.upper) / 2, atol=0.3)
    assert pairs(1)[0].shape == (1, 7)


def test_continuous_joints_are_sampled_within_one_turn():
    robot = assemble("wheel", [Joint("w", "continuous", velocity=1.0, acceleration=1.0, jerk=1.0)])
    found = problems.sample(200, 0, robot)
    assert np.abs(found.start).max() <= np.pi
    assert np.abs(found.start).max() > 3
