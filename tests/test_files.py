"""Files that the package writes: whole or not there, never over what was read, nothing half made left behind."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import gradlib
from gradlib import files
from gradlib.autograd.profiler import EventList, load_nsys, profile, trace as trace_module
from gradlib.cli import main
from tests.profiler import files as recordings

FULL = OSError(28, "No space left on device")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return recordings.nsys(tmp_path / "run.sqlite")


def other_names(recording: Path) -> list[Path]:
    """The recording under every name that leads to it."""
    soft, hard, chain = (recording.with_name(name) for name in ("soft", "hard", "chain"))
    soft.symlink_to(recording)
    hard.hardlink_to(recording)
    chain.symlink_to(soft)
    return [recording, soft, hard, chain, recording.parent / "." / ".." / recording.parent.name / recording.name]


@pytest.mark.parametrize("option", ["--trace", "--html"])
def test_no_command_writes_over_its_recording(option: str, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recording.read_bytes()
    names = other_names(recording)
    present = left(recording.parent)
    for name in names:
        assert main(["profile", str(recording), option, str(name)]) == 2
        assert "would overwrite" in capsys.readouterr().err
        assert main(["profile", str(name), option, str(recording)]) == 2
    assert recording.read_bytes() == before
    assert left(recording.parent) == present


def test_what_sqlite_keeps_beside_a_recording_is_a_part_of_it(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside = recording.with_name("run.sqlite-journal")
    beside.write_bytes(b"")
    assert main(["profile", str(recording), "--trace", str(beside)]) == 2
    assert "would overwrite" in capsys.readouterr().err


def test_no_export_writes_over_the_recording(recording: Path) -> None:
    events = load_nsys(recording)
    for found in (events, events.key_averages()):
        with pytest.raises(ValueError, match="would overwrite"):
            found.export_chrome_trace(recording)
        with pytest.raises(ValueError, match="would overwrite"):
            found.export_stacks(recording)
    assert len(load_nsys(recording)) == len(events)


def test_two_results_on_one_path_are_refused(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = recording.with_name("out")
    recording.with_name("link").symlink_to(place)
    for other in ("out", "link"):
        assert main(["profile", str(recording), "--trace", str(place), "--html", str(recording.with_name(other))]) == 2
        assert "two results would go to" in capsys.readouterr().err
    assert left(recording.parent) == ["link", "run.sqlite"]


@pytest.mark.parametrize("page", [False, True])
def test_a_disk_that_fills_up_leaves_what_was_there(
    recording: Path, page: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the trace, which is finished when the page fails."""
    trace, html = recording.with_name("t.json"), recording.with_name("p.html")
    for path in (trace, html):
        path.write_text("before")

    def half(events: EventList, path: Path, *title: str) -> None:
        path.write_text("half of it")
        raise FULL

    monkeypatch.setattr(*(("gradlib.autograd.profiler.html.write_page", half) if page else (trace_module, "write_trace", half)))
    assert main(["profile", str(recording), "--trace", str(trace), "--html", str(html)]) == 2
    assert f"cannot write {html if page else trace}: No space left" in capsys.readouterr().err
    assert trace.read_text() == html.read_text() == "before"
    assert left(recording.parent) == ["p.html", "run.sqlite", "t.json"]


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with profile(with_stack=True) as found:
        gradlib.ones(2).sum()
    (tmp_path / "t").write_text("before")

    def broken(*_: object) -> object:
        yield {"first": 1}
        raise FULL

    monkeypatch.setattr(trace_module, "trace_events", broken)
    with pytest.raises(OSError, match="No space"):
        found.export_chrome_trace(tmp_path / "t")
    assert (tmp_path / "t").read_text() == "before"
    assert left(tmp_path) == ["t"]
    found.export_stacks(tmp_path / "t")
    assert (tmp_path / "t").read_text() != "before"


def test_a_link_is_written_through_and_modes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    with files.replacing() as results:
        results.place(link).write_text("now")
        assert target.read_text() == "before"
    assert link.is_symlink()
    assert target.read_text() == "now"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for anyone but the superuser
    with pytest.raises(PermissionError), files.replacing() as results:
        results.place(target)


def test_a_pipe_is_written_itself(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    with files.replacing() as results:
        results.place(pipe).write_text("through it")
    reader.join(timeout=30)
    assert received == ["through it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_where_standard_output_goes_is_no_place_for_a_result(tmp_path: Path) -> None:
    kept = os.dup(1)
    try:
        with (tmp_path / "out").open("w") as out:
            os.dup2(out.fileno(), 1)
            with pytest.raises(ValueError, match="output of this process"), files.replacing() as results:
                results.place(tmp_path / "out")
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def test_folders_and_places_that_are_none(tmp_path: Path) -> None:
    for place, error in ((tmp_path, IsADirectoryError), (tmp_path / "none" / "x", FileNotFoundError)):
        with pytest.raises(error), files.replacing() as results:
            results.place(place)
    assert left(tmp_path) == []


def test_a_process_that_ends_takes_what_is_unfinished_with_it(tmp_path: Path) -> None:
    """Not the results that are in place, and not a folder with something in it."""
    ended = []
    with files.replacing() as finished:
        finished.place(tmp_path / "result").write_text("whole")
    with files.made_folder(tmp_path / "new" / "deep"), files.made_folder(tmp_path / "used"), files.replacing() as results:
        results.place(tmp_path / "new" / "deep" / "x").write_text("half")
        (tmp_path / "used" / "notes").write_text("mine")
        files.abandon(lambda: ended.append(left(tmp_path)))
        (tmp_path / "new" / "deep").mkdir(parents=True)  # the process would have ended
        results.place(tmp_path / "other").write_text("whole")
        results._staged.pop(tmp_path / "new" / "deep" / "x")
    assert ended == [["result", "used"]]


def test_results_that_are_being_put_into_place_all_get_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between the first and the second waits."""
    ended: list[list[str]] = []
    rename = os.replace

    def interrupted(source: Path, target: Path) -> None:
        rename(source, target)
        if target.name == "a":
            files.abandon(lambda: ended.append(left(tmp_path)))
            assert not ended

    monkeypatch.setattr(os, "replace", interrupted)
    monkeypatch.setattr(files, "_at_rest", None)
    with files.replacing() as results:
        for name in "ab":
            results.place(tmp_path / name).write_text("now")
    assert ended == [["a", "b"]]


@pytest.mark.parametrize("name", ["trajectories.csv", "trajectories.npz", "trajectories.png"])
@pytest.mark.parametrize("option", ["--problems", "--limits", "--urdf"])
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "linked"])
def test_trajopt_does_not_write_over_its_input(
    name: str, option: str, linked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlib.cli.trajopt import command

    monkeypatch.setattr(command, "_robot", lambda _: command.robot.assemble(*command.robot.panda()))  # whatever is in the file
    monkeypatch.setattr(command, "_problems", lambda *_: None)
    monkeypatch.setattr(command, "_plan", lambda *_: pytest.fail("it began to plan"))
    out = tmp_path / "out"
    out.mkdir()
    given = tmp_path / "given.csv" if linked else out / name
    given.write_text("content")
    if linked:
        (out / name).symlink_to(given)
    assert main(["trajopt", option, str(given), "--out", str(out)]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert given.read_text() == "content"
    assert left(out) == [name]


def test_trajopt_results_linked_to_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trajectories.csv").symlink_to(tmp_path / "trajectories.npz")
    assert main(["trajopt", "--samples", "1", "--horizon", "8", "--out", str(tmp_path)]) == 2
    assert "two results would go to" in capsys.readouterr().err
    assert left(tmp_path) == ["trajectories.csv"]
