"""The command from end to end: its options, its files, its errors and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradlib
from gradlib.cli import main
from gradlib.cli.trajopt import plot
from gradlib.trajectory.planning import solve
from tests.trajectory.planning.robots import ARM, PANDA, assert_feasible, optimal

PICTURE = plot.available
QUICK = ["--horizon", "16"]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run `gradlib trajopt` into tmp_path/out, without the picture, which takes longest; gives (exit status, output, errors)."""

    def go(*arguments, out=None, picture=False):
        monkeypatch.setattr(plot, "available", PICTURE if picture else lambda: False)
        status = main(["trajopt", "--out", str(out or tmp_path / "out"), *map(str, arguments)])
        text = capsys.readouterr()
        return status, text.out, text.err

    return go


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


def load(folder):
    with np.load(folder / "trajectories.npz", allow_pickle=False) as file:
        return dict(file)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.slow
def test_with_no_options_it_plans_256_panda_problems(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["trajopt"]) == 0
    text = capsys.readouterr()
    data = load(tmp_path / "trajopt")
    assert data["position"].shape == (256, 64, 7)
    assert data["dt"].shape == data["solved"].shape == (256,)
    assert data["solved"].all()
    assert data["joint_names"].tolist() == list(PANDA.joints)
    start, goal = data["position"][:, 0], data["position"][:, -1]
    assert_feasible(PANDA, *(data[k] for k in ("position", "velocity", "acceleration", "jerk", "dt")), start, goal)
    assert (data["dt"] * 63 / optimal(start, goal, PANDA)).mean() < 1.03
    for line in ("256 of 256", "mean duration", "largest fraction of the limit", "time taken", "trajectories.png"):
        assert line in text.out
    assert "100%" in text.err
    assert names(tmp_path / "trajopt") == ["trajectories.csv", "trajectories.npz", "trajectories.png"]


def test_csv_and_npz_problems_give_the_same_and_bad_rows_are_named(run, tmp_path):
    start = np.array([PANDA.lower + 0.5, PANDA.lower + 0.5, PANDA.upper - 0.1])
    goal = np.array([PANDA.upper - 0.5, PANDA.lower + 0.5, PANDA.upper + 0.1])
    np.savez(tmp_path / "p.npz", start=start, goal=goal)
    header = ",".join(f"{end}_{joint}" for joint in PANDA.joints for end in ("goal", "start"))
    rows = "\n".join(",".join(repr(float(x)) for pair in zip(g, s, strict=True) for x in pair) for s, g in zip(start, goal, strict=True))
    (tmp_path / "p.csv").write_text(f"{header}\n{rows}\n")
    status, out, _ = run("--problems", tmp_path / "p.npz", *QUICK)
    assert status == 1
    assert "2 of 3" in out
    assert "problem 2 is unsolved: goal of panda_joint1 is 2.9973, outside its limits [-2.8973, 2.8973]" in out
    first = load(tmp_path / "out")
    assert first["solved"].tolist() == [True, True, False]
    assert np.isnan(first["position"][2:]).all()
    assert np.isnan(first["dt"][2:]).all()
    assert first["reason"][:2].tolist() == ["", ""]
    assert (first["position"][1] == start[1]).all()  # a motion to where it starts takes no time
    assert first["dt"][1] == 0
    assert run("--problems", tmp_path / "p.csv", *QUICK, out=tmp_path / "two")[0] == 1
    np.testing.assert_array_equal(load(tmp_path / "two")["position"], first["position"])


def test_no_problem_at_all_can_be_solved(run, tmp_path):
    np.savez(tmp_path / "p.npz", start=np.zeros((2, 7)), goal=np.full((2, 7), np.nan))
    status, out, _ = run("--problems", tmp_path / "p.npz", *QUICK)
    assert status == 1
    assert "0 of 2" in out
    assert load(tmp_path / "out")["position"].shape == (2, 16, 7)


def test_a_urdf_with_limits_from_the_command_line_and_from_a_file(run, tmp_path, arm):
    status, out, _ = run("--urdf", arm, "--acceleration", "5", "--jerk", "50,60", "7", "--samples", "5", *QUICK)
    assert status == 0
    assert "arm: 3 joints" in out
    data = load(tmp_path / "out")
    assert data["joint_names"].tolist() == ["shoulder", "wrist", "left_finger"]
    assert np.abs(data["jerk"]).max(axis=(0, 1))[2] <= 7.001
    assert data["position"][:, :, 2].max() <= 0.035 * (1 + 1e-4)
    (tmp_path / "l.yaml").write_text(
        "acceleration: 5\njoints:\n  shoulder: {velocity: 0.5, jerk: 50}\n  wrist: {jerk: 60}\n  left_finger: {jerk: 7}\n"
    )
    assert run("--urdf", arm, "--limits", tmp_path / "l.yaml", "--samples", "5", *QUICK, out=tmp_path / "two")[0] == 0
    assert np.abs(load(tmp_path / "two")["velocity"]).max(axis=(0, 1))[0] <= 0.50005


def test_a_limits_file_alone_overrides_the_panda_or_describes_a_robot(run, tmp_path):
    path = tmp_path / "gantry.yaml"
    path.write_text("joints: {panda_joint1: {velocity: 0.1}}")
    assert run("--limits", path, "--samples", "4", *QUICK)[0] == 0
    assert np.abs(load(tmp_path / "out")["velocity"]).max(axis=(0, 1))[0] <= 0.10001
    path.write_text("joints: {x: {lower: 0, upper: 1}, y: {lower: 0, upper: 2}}\nvelocity: 1\nacceleration: 2\njerk: 1e1")
    status, out, _ = run("--limits", path, "--samples", "4", *QUICK)
    assert status == 0
    assert out.startswith("gantry: 2 joints")


def test_the_seed_decides_the_problems_and_the_result_is_reproducible(run, tmp_path):
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert run("--samples", 3, "--seed", seed, *QUICK, out=tmp_path / folder)[0] == 0
    a, b, c = (load(tmp_path / folder) for folder in "abc")
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
    assert (tmp_path / "a/trajectories.csv").read_bytes() == (tmp_path / "b/trajectories.csv").read_bytes()
    assert not np.array_equal(a["position"], c["position"])


def test_float32_results_are_float32(run, tmp_path):
    status, out, _ = run("--samples", 4, "--dtype", "float32", *QUICK)
    assert status == 0
    assert "float32 on cpu" in out
    assert {load(tmp_path / "out")[name].dtype for name in ("position", "velocity", "acceleration", "jerk", "dt")} == {np.dtype("float32")}


@pytest.mark.cuda
@pytest.mark.slow
def test_on_the_gpu_it_solves_as_well(run, tmp_path):
    assert run("--samples", 4, "--device", "cuda")[0] == 0
    data = load(tmp_path / "out")
    start, goal = data["position"][:, 0], data["position"][:, -1]
    assert (data["dt"] * 63 / optimal(start, goal, PANDA)).mean() < 1.03


@pytest.mark.slow
def test_without_matplotlib_the_other_files_are_written_and_a_line_says_how_to_get_it(run, tmp_path, monkeypatch):
    assert run("--samples", 2, *QUICK, picture=True)[0] == 0
    assert "trajectories.png" in names(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, _ = run("--samples", 3, *QUICK, picture=True)
    assert status == 0
    assert "pip install matplotlib" in out
    assert names(tmp_path / "out") == ["trajectories.csv", "trajectories.npz"]  # the picture of the run before is gone


def test_without_pyarrow_chunks_are_refused_and_the_other_format_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    status, _, errors = run("--samples", 3, "--chunk", 2, *QUICK)
    assert status == 2
    assert "needs pyarrow; install it with: pip install 'gradlib[dask]'; or choose --format npz" in errors
    assert run("--samples", 3, "--chunk", 2, "--format", "npz", *QUICK)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--urdf", "missing.urdf"], "cannot read the URDF missing.urdf"),
        (["--urdf", "{arm}"], "joint shoulder has no acceleration limit; give it with --acceleration"),
        (["--urdf", "{arm}", "--acceleration", "1"], "joint shoulder has no jerk limit; give it with --jerk"),
        (["--urdf", "{arm}", "--acceleration", "1", "2", "--jerk", "1"], "one for each of the 3 joints"),
        (["--acceleration", "-1"], "acceleration limit must be above zero, got -1"),
        (["--jerk", "0"], "jerk limit must be above zero"),
        (["--jerk", "nan"], "--jerk must be a finite number, got nan"),
        (["--jerk", "soft"], "--jerk takes numbers, got soft"),
        (["--limits", "{yaml}", "--jerk", "3"], "contradictory limits: both"),
        (["--limits", "missing.yaml"], "cannot read the limits"),
        (["--problems", "missing.csv"], "cannot read the problems"),
        (["--problems", "{yaml}"], "takes a .csv, a .npz or a .parquet file"),
        (["--problems", "x.csv", "--samples", "3"], "--samples and --seed have nothing to draw"),
        (["--problems", "x.csv", "--seed", "3"], "--samples and --seed have nothing to draw"),
        (["--device", "tpu"], "--device tpu"),
    ],
)
def test_input_that_cannot_be_used_writes_nothing(run, tmp_path, arm, arguments, text):
    (tmp_path / "l.yaml").write_text("jerk: 100")
    arguments = [argument.format(arm=arm, yaml=tmp_path / "l.yaml") for argument in arguments]
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert text in err
    assert err.startswith("gradlib trajopt: ")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(solve, "plan", lambda *_: pytest.fail("it began to plan"))
    status, _, err = run(out=tmp_path / "file")
    assert status == 2
    assert "cannot write into the output folder" in err


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_the_results_before(run, tmp_path, monkeypatch):
    assert run("--samples", 2, *QUICK, picture=True)[0] == 0
    before = {name: (tmp_path / "out" / name).read_bytes() for name in names(tmp_path / "out")}

    def full(path, *_):
        path.write_bytes(b"half of a pic")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plot, "write_png", full)
    status, _, err = run("--samples", 3, *QUICK, picture=True)
    assert status == 2
    assert "No space left on device; no result there was changed" in err
    assert {name: (tmp_path / "out" / name).read_bytes() for name in names(tmp_path / "out")} == before


def test_an_interrupt_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(solve, "plan", interrupted)
    status, _, err = run("--samples", 3)
    assert status == 130
    assert "nothing was written" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["--horizon", "3"], ["--samples", "0"], ["--seed", "-1"], ["--dtype", "float16"], ["--horizon", "long"]]
)
def test_options_out_of_range_are_usage_errors(run, arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_version_and_help(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for arguments, text in (
        (["--version"], f"gradlib {gradlib.__version__}"),
        (["--help"], "trajopt"),
        (["trajopt", "--help"], "--horizon"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        text_of = capsys.readouterr().out
        assert text in text_of
        assert max(map(len, text_of.splitlines())) <= 80  # a title of options is not wrapped
    assert main([]) == 2
    assert "plan robot joint motions" in capsys.readouterr().err


def in_a_process(tmp_path, stdout):
    """Start `python -m gradlib.cli trajopt` on two small problems."""
    command = [sys.executable, "-W", "error", "-m", "gradlib.cli", "trajopt", "--samples", "2", "--horizon", "8"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*command, "--out", tmp_path / "o"], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.slow
def test_output_that_cannot_be_written_is_said(tmp_path):
    with Path("/dev/full").open("w") as full:
        process = in_a_process(tmp_path, full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.splitlines()[1:] == ["gradlib: [Errno 28] No space left on device"], "after the bar"


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_fault(tmp_path):
    process = in_a_process(tmp_path, subprocess.PIPE)
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert len(err.splitlines()) == 1, "the bar alone"


@pytest.mark.slow
def test_as_a_module_in_a_process_of_its_own(tmp_path):
    process = in_a_process(tmp_path, subprocess.PIPE)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "2 of 2" in out
    assert names(tmp_path / "o") == ["trajectories.csv", "trajectories.npz", "trajectories.png"]
