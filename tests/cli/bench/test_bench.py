"""`gradlib bench` from end to end: what it measures, refuses, writes and compares. No test looks at how long something took."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gradlib.cli import main
from gradlib.cli.bench import command, machine, peers, plot
from gradlib.cli.bench.case import Case, Row
from gradlib.cli.bench.machine import Speed
from gradlib.cli.bench.peers import Peer
from gradlib.cli.bench.runner import Runner, disagreement
from gradlib.cli.bench.suites import NAMES, ops, short_rows
from gradlib.cli.bench.suites.entry import label
from gradlib.trajectory import compiled

pytestmark = pytest.mark.host


def doubled(peer: Peer):
    x = peer.tensor(np.arange(3.0))
    return lambda: x + x


def spoilt(peer: Peer):
    """What another library gets wrong by 5 percent."""
    x = peer.tensor(np.arange(3.0))
    return lambda: (x + x) * (1.0 if peer.name == "gradlib" else 1.05)


DOUBLED = Case("doubled", "3", doubled, ("numpy",))


@pytest.fixture
def bench(monkeypatch, capsys):
    """Run `gradlib bench` over suites made of the given cases, with NumPy as the only other library."""

    def go(*arguments, cases=(DOUBLED,), suites=("overhead",)):
        suite = SimpleNamespace(__doc__="Made here.", cases=lambda device, quick: iter(cases))
        monkeypatch.setattr(command, "_suite", lambda name: suite)
        monkeypatch.setattr(machine, "speed", lambda device: Speed(1e9, 1e9))
        monkeypatch.setattr(peers, "NAMES", ("gradlib", "numpy"))
        for name in machine.THREADS:
            monkeypatch.setenv(name, "1")
        status = main(["bench", *suites, "--repeat", "3", *map(str, arguments)])
        text = capsys.readouterr()
        return status, text.out, text.err

    return go


def test_file_holds_machine_versions_and_rows(bench, tmp_path):
    path = tmp_path / "figures.json"
    status, out, _ = bench("--json", path)
    found = json.loads(path.read_text())
    assert status == 0
    assert set(found) == {"machine", "versions", "suites"}
    assert found["machine"]["threads"] == 1
    assert set(found["versions"]) == {"gradlib", "numpy", *(["numba"] if compiled.version() else [])}
    (row,) = found["suites"]["overhead"]
    assert json.dumps(row) in path.read_text().splitlines()
    assert (row["name"], row["size"], row["device"], row["error"]) == ("doubled", "3", "cpu", None)
    assert set(row["seconds"]) == {"gradlib", "numpy"}
    assert all(figures["median"] > 0 for figures in row["seconds"].values())
    assert row["ratio"]["numpy"] > 0
    assert "doubled" in out


def test_settings_that_choose_kernels_are_shown_and_recorded(bench, monkeypatch, tmp_path):
    path = tmp_path / "figures.json"
    for name in machine.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert "settings:" not in bench("--json", path)[1]
    assert "settings" not in json.loads(path.read_text())["machine"]
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert "settings: OPENBLAS_CORETYPE=Haswell\n" in bench("--json", path)[1]
    assert json.loads(path.read_text())["machine"]["settings"] == "OPENBLAS_CORETYPE=Haswell"


@pytest.mark.slow
def test_wrong_result_is_shown_with_both_values_and_not_timed(bench, tmp_path):
    path = tmp_path / "figures.json"
    cases = (Case("spoilt", "3", spoilt, ("numpy",)), DOUBLED)
    status, out, _ = bench("--json", path, cases=cases)
    wrong, right = json.loads(path.read_text())["suites"]["overhead"]
    assert status == 1
    assert wrong["error"] == "gradlib and numpy disagree at (1,): 2.0 and 2.1"
    assert not wrong["seconds"]
    assert right["error"] is None
    assert "2.0 and 2.1" in out.replace("\n", " ")


@pytest.mark.slow
def test_program_that_fails_stops_its_row_only(bench):
    def broken(peer):
        raise RuntimeError("no such thing")

    status, out, _ = bench(cases=(Case("broken", "", broken), Case("doubled", "3", doubled)))
    assert status == 1
    assert "RuntimeError: no such thing" in out
    assert "doubled" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--only", "zzz"], "--only zzz: no row of overhead matches"),
        (["--only", "("], "--only takes a regular expression"),
        (["--peers", "tensorflow"], "--peers: nothing is known of tensorflow"),
        (["--peers", "cupy"], "--peers: nothing is known of cupy"),
        (["--compare", "missing.json"], "missing.json"),
        (["--tolerance", "2"], "--tolerance is of --compare, which is missing"),
        (["--json", "missing/figures.json"], "missing"),
        (["--profile", "--json", "figures.json"], "--profile times nothing, so it has nothing for --json"),
        (["--profile", "--plot", "pictures"], "--profile times nothing, so it has nothing for --plot"),
    ],
)
def test_input_that_cannot_be_used_is_refused_before_anything_runs(bench, arguments, text):
    status, out, errors = bench(*arguments)
    assert status == 2
    assert text in errors
    assert "doubled" not in out


def test_a_gpu_that_is_not_there_is_refused(bench, monkeypatch):
    def none(place):
        raise RuntimeError("no usable GPU was found")

    monkeypatch.setattr(command, "resolve", none)
    for device in ("cuda", "all"):
        status, out, errors = bench("--device", device)
        assert (status, "doubled" in out) == (2, False)
        assert f"gradlib bench: --device {device}: no usable GPU was found" in errors


def test_unknown_suite_is_refused(bench):
    status, _, errors = bench(suites=("overhead", "nope"))
    assert status == 2
    assert "there is no suite nope; there are overhead" in errors


def test_library_that_is_asked_for_and_missing_is_an_error(bench, monkeypatch):
    monkeypatch.setattr(peers, "available", lambda name, device: "it is not installed (No module)")
    status, _, errors = bench("--peers", "numpy")
    assert status == 2
    assert "--peers numpy: it is not installed" in errors


def test_library_that_is_missing_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mygrad", None)
    assert "get it with: pip install " in str(peers.available("mygrad", "cpu"))


@pytest.mark.slow
def test_file_compared_with_is_not_overwritten(bench, tmp_path):
    path = tmp_path / "old.json"
    assert bench("--json", path)[0] == 0
    before = path.read_bytes()
    status, _, errors = bench("--json", path, "--compare", path)
    assert status == 2
    assert "would overwrite" in errors
    assert path.read_bytes() == before


@pytest.mark.slow
def test_what_got_slower_beyond_the_noise_ends_with_1(bench, tmp_path):
    path = tmp_path / "old.json"
    bench("--json", path)
    old = json.loads(path.read_text())
    (row,) = old["suites"]["overhead"]
    row["noise"]["numpy"] = 0.0
    for factor, status, text in ((1e6, 0, "faster"), (1e-6, 1, "slower")):
        row["ratio"]["numpy"] *= factor
        path.write_text(json.dumps(old))
        got, out, _ = bench("--compare", path)
        assert got == status
        assert f"{text}: overhead doubled 3 float32 cpu: ratio to numpy" in out
        assert bench("--compare", path, "--tolerance", "1e12")[0] == 0
        assert "measured otherwise" not in out
        row["ratio"]["numpy"] /= factor
    row["noise"]["numpy"] = 1e6
    path.write_text(json.dumps(old))
    status, out, _ = bench("--compare", path)
    assert status == 0
    assert "nothing moved beyond the noise" in out


@pytest.mark.slow
def test_what_else_differs_between_two_files_is_said(bench, tmp_path):
    path = tmp_path / "old.json"
    bench("--json", path)
    old = json.loads(path.read_text())
    old["machine"] |= {"threads": 8, "date": "2020-01-01"}
    old["versions"] |= {"gradlib": "0.0", "torch": "1.0"}
    path.write_text(json.dumps(old))
    lines = bench("--compare", path)[1].splitlines()
    said = [line.partition("measured otherwise: ")[2] for line in lines if "otherwise" in line]
    assert said == ["threads: 8 -> 1", "torch: 1.0 -> none"]


@pytest.mark.parametrize("text", ["", "[]", '{"suites": {"a": [{}]}}', '{"suites": 3}', "[" * 100_000])
def test_file_that_is_no_result_is_refused(bench, tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    status, _, errors = bench("--compare", path)
    assert status == 2
    assert "is no file of `gradlib bench --json`" in errors


@pytest.mark.slow
def test_pictures_are_drawn_of_bars_and_of_sizes(bench, tmp_path):
    pytest.importorskip("matplotlib")
    cases = [Case("step", f"B {n}, H 2", doubled, ("numpy",), moved=100) for n in (1, 2, 4)]
    status, _, _ = bench("--plot", tmp_path / "pictures", cases=cases)
    assert status == 0
    names = {"overhead.png", "overhead.svg", "overhead-size.png", "overhead-size.svg"}
    assert {p.name for p in (tmp_path / "pictures").iterdir()} == names
    assert (tmp_path / "pictures" / "overhead.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "pictures" / "overhead.svg").read_text()


def test_bars_of_many_libraries_have_room_for_their_numbers():
    pytest.importorskip("matplotlib")
    ratios = [{"torch": 0.4, "autograd": 0.25, "mygrad": 0.22, "jax": 5.0}, {"torch": 0.5}, {"numpy": 2.0, "torch": 0.5}]
    rows = [Row(f"row {k}", "10", "float32", "cpu", "s", {}, ratio) for k, ratio in enumerate(ratios)]
    (axes,) = plot.pictures("overhead", rows, None)["overhead"].axes
    bars = sorted((bar.get_y(), bar.get_height()) for bar in axes.patches)
    assert len(bars) == sum(map(len, ratios))
    assert all(low + height <= high for (low, height), (high, _) in itertools.pairwise(bars)), "no bar lies over another"
    pixels = axes.transData.transform([[1, 0], [1, bars[0][1]]])
    assert pixels[1][1] - pixels[0][1] > 7 * 110 / 72, "the height of a number"


@pytest.mark.slow
def test_interrupt_keeps_what_was_measured(bench, tmp_path):
    path = tmp_path / "figures.json"

    def interrupting(peer):
        signal.raise_signal(signal.SIGINT)
        return doubled(peer)

    cases = (Case("first", "", doubled), Case("second", "", interrupting), Case("third", "", doubled))
    status, out, errors = bench("--json", path, cases=cases)
    assert status == 130
    assert "what was measured is kept" in errors
    assert [line.split()[0] for line in out.splitlines() if line.split()[:1] in (["first"], ["second"], ["third"])] == ["first", "second"]
    assert [row["name"] for row in json.loads(path.read_text())["suites"]["overhead"]] == ["first", "second"]


def test_profile_prints_the_command_lines_and_runs_each_row_under_its_name(bench):
    status, out, _ = bench("--profile")
    assert status == 0
    assert "nsys profile" in out
    assert "ncu --nvtx --nvtx-include 'gradlib@ROW/' gradlib " in out
    assert out.splitlines()[-1] == "doubled 3 float32 cpu"


def test_profile_runs_gradlibs_side_of_a_row_that_compares_two_ways_of_its_own(bench):
    status, out, _ = bench("--profile", cases=(Case("doubled", "3", doubled, others={"by hand": spoilt}),))
    assert status == 0
    assert out.splitlines()[-1] == "doubled 3 float32 cpu"


@pytest.mark.slow
def test_table_is_printed_without_rich_too(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    status, out, _ = bench(cases=(Case("doubled", "3", doubled, ("numpy",), limits={"numpy": 1e9}),))
    assert status == 0
    line = next(line for line in out.splitlines() if line.startswith("doubled"))
    assert line.split()[-1] == "reached"


@pytest.mark.slow
def test_threads_of_the_linear_algebra_are_set_in_a_new_process():
    arguments = ["gradlib", "bench", "overhead", "--only", "one node", "--peers", "numpy", "--repeat", "3", "--threads", "2"]
    code = f"import sys; sys.argv = {arguments}; from gradlib.cli import main; sys.exit(main())"
    env = {name: value for name, value in os.environ.items() if name not in machine.THREADS}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "threads: 2" in done.stdout


def test_each_suite_says_what_it_is_for(capsys):
    assert main(["bench", "--list"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == list(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("ops", "memory", "scaling", "profiler")])
def test_cases_of_a_suite_have_names_of_their_own(name):
    cases = list(command._suite(name).cases("cpu", False))
    assert cases
    assert len({(c.name, c.size, c.dtype) for c in cases}) == len(cases)


def test_operations_have_names_of_their_own():
    names = [entry.name for entry in ops.rows()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("entry", list(ops.rows()), ids=lambda entry: entry.name)
def test_operation_gives_what_numpy_gives_and_has_a_gradient_where_it_says_so(entry):
    for case in ops.of(entry, "cpu", (10,), ("float64",)):
        row = Runner(("numpy",), rounds=1, seconds=0.0).row(case)
        assert row.error is None


def test_rows_of_short_rows_are_none_of_the_others():
    found = [(entry.name, label(size)) for entry in (*ops.rows(), *short_rows.entries()) for size in entry.sizes]
    assert sorted(found) == sorted(set(found))
    assert {label(size) for entry in short_rows.entries() for size in entry.sizes} == {"20000x3", "3x20000", "1000x64", "20000x4"}


@pytest.mark.parametrize("entry", list(short_rows.entries()), ids=lambda entry: entry.name)
def test_operation_on_short_rows_gives_what_numpy_gives_and_has_a_gradient_where_it_says_so(entry):
    shape = 7, entry.sizes[0][1]
    for case in ops.of(entry, "cpu", (shape,), ("float64",)):
        assert case.size == label(shape)
        row = Runner(("numpy",), rounds=1, seconds=0.0).row(case)
        assert row.error is None


@pytest.mark.cuda
def test_gpu_is_timed_by_its_own_events_too(monkeypatch):
    monkeypatch.setattr(peers, "_DELAY", 1000)
    case = next(c for c in command._suite("trajectory").cases("cuda", True) if c.name == "step_position forward")
    row = Runner((), rounds=2, seconds=0.0, speed={"cuda": Speed(1e9, 1e9)}).row(case)
    assert row.error is None
    assert row.seconds["gradlib"]["device"] > 0
    assert row.fraction["bandwidth"] > 0
    assert row.device == "cuda"


def test_programs_run_and_agree_with_those_of_numpy():
    for name in ("overhead", "models", "transforms"):
        for case in command._suite(name).cases("cpu", True):
            runs = Runner(("numpy",)).runs(case)
            assert disagreement(case, {name: run() for name, run in runs.items()}) is None, case.name


def test_trajectories_have_a_column_without_numba_where_it_is_in_use(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "_use", True)
    cases = list(command._suite("trajectory").cases("cpu", True))
    assert all(list(case.others) == ["numpy path"] for case in cases)
    for case in cases[:10:3]:
        runs = Runner(()).runs(case)
        assert disagreement(case, {name: run() for name, run in runs.items()}) is None, case.name
    assert not any(case.others for case in command._suite("trajectory").cases("cuda", True))
    monkeypatch.setattr(compiled, "_use", False)
    assert not any(case.others for case in command._suite("trajectory").cases("cpu", True))
