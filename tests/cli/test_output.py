"""Result files: whole or not there, and what they hold."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gradlib.cli.trajopt import output, plot, report
from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.robot import Joint, assemble
from tests.trajectory.planning.robots import PANDA, arm

JOINTS = ("a", "b")


def moves(n=3, h=6, d=2):
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((n, h, d)) for _ in range(4)]
    result = Trajectories(*parts, rng.random(n))
    for part in (*parts, result.dt):
        part[1] = np.nan
    return result


SOLVED = np.array([True, False, True])


def test_npz_holds_every_array(tmp_path):
    path, made = tmp_path / "x", moves()
    output.write_npz(path, made, SOLVED, ["", "because", ""], JOINTS)
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == {"position", "velocity", "acceleration", "jerk", "dt", "solved", "reason", "joint_names"}
        for name in ("position", "velocity", "acceleration", "jerk", "dt"):
            np.testing.assert_array_equal(file[name], getattr(made, name))
        assert file["solved"].tolist() == SOLVED.tolist()
        assert file["reason"].tolist() == ["", "because", ""]
        assert file["joint_names"].tolist() == list(JOINTS)


def test_csv_holds_a_line_for_each_step(tmp_path):
    path, made = tmp_path / "x", moves()
    output.write_csv(path, made, SOLVED, JOINTS)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    assert list(rows[0])[:6] == ["problem", "step", "solved", "time", "position_a", "position_b"]
    row = rows[2 * 6 + 4]
    assert (row["problem"], row["step"], row["solved"]) == ("2", "4", "1")
    assert float(row["time"]) == pytest.approx(4 * made.dt[2], rel=1e-11)
    assert float(row["jerk_b"]) == pytest.approx(made.jerk[2, 4, 1], rel=1e-11)
    assert rows[6]["solved"] == "0"
    assert rows[6]["velocity_a"] == "nan"


def test_a_failure_half_way_leaves_the_folder_as_it_was(tmp_path):
    (tmp_path / "trajectories.npz").write_text("before")

    def broken():
        with output.replacing(tmp_path) as place:
            place("trajectories.npz").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert [p.name for p in tmp_path.iterdir()] == ["trajectories.npz"]
    assert (tmp_path / "trajectories.npz").read_text() == "before"


def test_success_replaces_all_and_removes_what_is_not_of_this_run(tmp_path):
    for name in output.NAMES:
        (tmp_path / name).write_text("before")
    (tmp_path / "notes.txt").write_text("mine")
    with output.replacing(tmp_path) as place:
        place("trajectories.npz").write_text("now")
        place("trajectories.csv").write_text("now")
        assert (tmp_path / "trajectories.csv").read_text() == "before"
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "trajectories.npz": "now", "trajectories.csv": "now", "notes.txt": "mine",
    }  # fmt: skip


def test_folders_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nothing/here"):
        with pytest.raises(InputError, match="cannot write into the output folder"), output.prepared(bad):
            pass
    (tmp_path / "trajectories.csv").mkdir()
    with pytest.raises(InputError, match=r"trajectories.csv: a folder has that name"), output.prepared(tmp_path):
        pass


def test_folders_made_for_the_results_stay_or_go_with_them(tmp_path):
    with output.prepared(tmp_path / "new" / "deep") as folder:
        assert folder.is_dir()
    assert (tmp_path / "new" / "deep").is_dir()
    for made, left in ((tmp_path / "other" / "deep", tmp_path / "other"), (tmp_path / "new" / "deeper", tmp_path / "new" / "deeper")):
        with pytest.raises(KeyboardInterrupt), output.prepared(made):
            raise KeyboardInterrupt
        assert not left.exists()
    assert (tmp_path / "new" / "deep").is_dir(), "it was there before"
    with pytest.raises(FileNotFoundError), output.prepared(tmp_path / "mine") as folder:
        (folder / "notes.txt").write_text("mine") and (folder / "gone").unlink()
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine", "not for us to remove"


def test_a_folder_without_permission(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)  # the superuser, who may run this, can write anywhere
    with pytest.raises(InputError, match="Permission denied; choose another with --out DIR"), output.prepared(tmp_path):
        pass


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.slow
def test_the_picture_is_a_png_for_any_number_of_joints(tmp_path, columns):
    joints = [Joint(f"j{i}", "prismatic" if i % 3 else "continuous", -5.0, 5.0, 5.0, 5.0, 5.0) for i in range(columns)]
    robot = assemble("many", joints)
    plot.write_png(tmp_path / "x", moves(d=columns), SOLVED, robot)
    content = (tmp_path / "x").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(content) > 20_000


@pytest.mark.parametrize("name", ["a$b$", "$\\foo$", "$$", "\u5173\u8282", "two\nlines", "\udcff"])
@pytest.mark.slow
def test_the_picture_shows_names_as_they_are(tmp_path, name):
    joint = "j" if name == "\udcff" else name  # only the name of a file, and so of a robot, has bytes that are no letters
    robot = assemble(name, [Joint(joint, "revolute", -5.0, 5.0, 5.0, 5.0, 5.0)])
    plot.write_png(tmp_path / "x", moves(d=1), SOLVED, robot)
    assert (tmp_path / "x").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_the_picture_of_no_solved_problem_shows_the_limits(tmp_path):
    plot.write_png(tmp_path / "x", moves(d=1), np.zeros(3, bool), arm())
    assert (tmp_path / "x").stat().st_size > 10_000


def test_table_and_reasons():
    p = np.zeros((2, 5, 7)) + (PANDA.upper + PANDA.lower) / 2
    made = Trajectories(p, p * 0 + PANDA.velocity / 2, p * 0, p * 0, np.array([0.1, 0.3]))
    text = report.table(made, np.array([True, True]), PANDA, 1.25)
    assert "2 of 2" in text
    assert "0.800 s  (from 0.400 to 1.200 s)" in text
    assert "velocity 0.5000" in text
    assert "1.2 s" in text
    none = report.table(made, np.array([False, False]), PANDA, 1.0)
    assert "0 of 2" in none
    assert "mean" not in none
    lines = report.unsolved(["", *["bad"] * 20]).splitlines()
    assert lines[0] == "problem 1 is unsolved: bad"
    assert len(lines) == 9
    assert lines[-1] == "... and 12 more; every reason is in trajectories.npz"
    assert arm().joints == ("q",)


def test_a_folder_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="no name"), output.prepared(""):
        pass


def test_names_with_commas_are_quoted(tmp_path: Path) -> None:
    part = np.zeros((1, 4, 1))
    motion = Trajectories(part, part, part, part, np.ones(1))
    output.write_csv(tmp_path / "t.csv", motion, np.array([True]), ("a,b",))
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {8}
    assert rows[0][4] == "position_a,b"


@pytest.mark.slow
def test_many_joints_are_drawn_below_each_other_and_small_jerks_at_their_own_scale(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    joints = [Joint(f"a_long_name_of_the_joint_number_{i}", "revolute", -5.0, 5.0, 5.0, 5.0, 5e6 if i else 5.0) for i in range(40)]
    plot.write_png(tmp_path / "x", moves(d=40), SOLVED, assemble("many", joints))
    (figure,) = drawn
    made = plot.panels(figure, moves(d=40), np.flatnonzero(SOLVED), assemble("many", joints), 4, 8)
    assert len(made) == 4 * plot.JOINTS == 128
    assert len({(panel.left, panel.bottom) for panel in made}) == 128
    assert len({round(panel.left, 6) for panel in made}) == 8  # four blocks of eight
    texts = [text.get_text() for text in figure.texts]
    assert sum(text.endswith(f"_{i}") and len(text) <= plot.NAME for i in range(32) for text in texts) == plot.JOINTS
    assert sum("of ±5e+06" in text for text in texts) == plot.JOINTS - 1
    jerk = next(panel for panel in made if panel.part == "jerk" and panel.joint == 1)
    largest = np.abs(moves(d=40).jerk[SOLVED][:, :, 1]).max()
    assert largest <= jerk.high < 2 * largest


@pytest.mark.slow
def test_the_picture_has_few_artists_and_every_curve_within_its_panel(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    wheel = Joint("wheel", "continuous", -np.inf, np.inf, 5.0, 5.0, 5.0)
    robot = assemble("two", [wheel, Joint("arm", "revolute", -5.0, 5.0, 5.0, 5.0, 5.0)])
    motion = moves(d=2)
    plot.write_png(tmp_path / "x", motion, SOLVED, robot)
    (figure,) = drawn
    assert not figure.axes  # each costs some 40 ms
    assert len(figure.artists) == 12  # grids, frames, ticks, limits; for each of four quantities thin and thick curves
    made = plot.panels(figure, motion, np.flatnonzero(SOLVED), robot, 1, 2)
    thin = [np.array(lines.get_segments()) for lines in figure.artists if lines.get_linewidth() == 0.6][1:]
    for part, lines in zip(("position", "velocity", "acceleration", "jerk"), thin, strict=True):
        row = [panel for panel in made if panel.part == part]
        each = lines.reshape(len(row), -1, *lines.shape[1:])
        for panel, curves in zip(row, each, strict=True):
            x, y = curves[..., 0], curves[..., 1]
            assert panel.left < x.min() < x.max() < panel.right
            assert panel.bottom < y.min() <= y.max() < panel.top
            values = panel.low + (y - panel.bottom) / (panel.top - panel.bottom) * (panel.high - panel.low)
            np.testing.assert_allclose(values, getattr(motion, part)[SOLVED][:, :, panel.joint], rtol=1e-9, atol=1e-9)


def test_one_problem_is_no_problems():
    assert [report.problems(n) for n in (0, 1, 2)] == ["0 problems", "1 problem", "2 problems"]
