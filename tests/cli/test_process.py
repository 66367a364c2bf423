"""The command as a process: signals at any moment, and standard streams of every kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradlib.cli import entry
from tests.profiler import files
from tests.trajectory.planning.robots import ARM

START = "import sys; from entry import main; sys.exit(main())"
"""What the installed script does, with the module as it is in this checkout."""

AT_EVENT = """
import os, signal, sys, threading

kind, nth = os.environ["EVENT"].split()
begun, count = False, 0

def watch(event, args):
    global begun, count
    if not begun:
        begun = event == "import" and args[0] == "gradlib"  # by the command's first lines
        return
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        event = "write"
    if event != kind:
        return
    count += 1
    if count == int(nth):
        number = int(os.environ["SIGNAL"])
        if os.environ["LATER"]:
            threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
        else:
            signal.raise_signal(number)  # to this thread: another one might be told of it only when all is over

sys.addaudithook(watch)
"""
"""Sends the process a signal at the n-th event of a kind (import, os.mkdir, write, ...) or a little later: moments that do not move."""

WHOLE = ["out", "out/new", "out/new/trajectories.csv", "out/new/trajectories.npz"]
SMALL = ("trajopt", "--samples", "1", "--horizon", "8", "--out", "out/new")


def start(
    folder: Path,
    *arguments: str,
    event: str = "",
    number: int = 0,
    later: bool = False,
    ignored: bool = False,
    shell: str = "",
    environment: dict[str, str] | None = None,
    stdout: Any = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; gives what it said, and its status as a shell has it.

    ``event``, ``number``, ``later``: when it gets which signal; ``ignored``: whether SIGINT is ignored; ``shell``: redirections.
    """
    site = folder / "site"
    site.mkdir()
    (site / "matplotlib.py").write_text("raise ImportError('hidden, since it takes long to import')")
    (site / "entry.py").write_text(Path(entry.__file__).read_text(encoding="utf-8"))
    if event:
        (site / "sitecustomize.py").write_text(AT_EVENT)
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    given |= {"EVENT": event, "SIGNAL": str(int(number or 0)), "LATER": "1" if later else "", **(environment or {})}
    given.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-c", START, *arguments]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    done = subprocess.run(
        command,
        cwd=folder,
        env=given,
        text=True,
        timeout=120,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: (
            signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),
            signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it is ignored, and would stay so
        ),
    )
    done.returncode = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return done


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "site" not in path.parts)


@pytest.mark.parametrize(
    ("event", "number", "later"),
    [
        ("import 1", signal.SIGINT, False),  # of the library
        ("import 60", signal.SIGTERM, False),
        ("os.mkdir 2", signal.SIGTERM, False),  # of the folder for the results, the outer one being there
        ("write 1", signal.SIGINT, False),  # whether it can be written
        ("os.mkdir 2", signal.SIGINT, True),  # while it plans
        ("write 6", signal.SIGINT, False),  # the results
        ("write 7", signal.SIGHUP, False),
        ("os.rename 1", signal.SIGINT, False),
        ("os.rename 2", signal.SIGTERM, False),
    ],
)
@pytest.mark.slow
def test_a_signal_at_any_moment_leaves_nothing_half_made(event: str, number: int, later: bool, tmp_path: Path) -> None:
    """Results that are just being put into place all get there."""
    more = ("--samples", "500", "--horizon", "64") if later else ()
    done = start(tmp_path, *SMALL, *more, event=event, number=number, later=later)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    assert left(tmp_path) == (WHOLE if "rename" in event else [])
    assert ("interrupted" in done.stderr) == (number == signal.SIGINT and "import" not in event)
    assert ("nothing was written" in done.stderr) == (number == signal.SIGINT and left(tmp_path) == [] and "import" not in event)


@pytest.mark.parametrize(("event", "number"), [("write 4", signal.SIGTERM), ("os.rename 1", signal.SIGINT)])
@pytest.mark.slow
def test_a_signal_leaves_the_results_before(event: str, number: int, tmp_path: Path) -> None:
    made = files.nsys(tmp_path / "run.sqlite")
    for name in ("t.json", "p.html"):
        (tmp_path / name).write_text("before")
    done = start(tmp_path, "profile", str(made), "--trace", "t.json", "--html", "p.html", event=event, number=number)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    assert left(tmp_path) == ["p.html", "run.sqlite", "t.json"]
    assert {(tmp_path / name).read_text() == "before" for name in ("t.json", "p.html")} == {event == "write 4"}


@pytest.mark.slow
def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As in a job that a script started in the background."""
    done = start(tmp_path, *SMALL, event="write 6", number=signal.SIGINT, ignored=True)
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == WHOLE


def test_importing_the_library_installs_no_handler() -> None:
    program = """
import signal
before = [signal.getsignal(each) for each in signal.valid_signals()]
import gradlib, gradlib.cli, gradlib.cli.entry, gradlib.cli.process
assert [signal.getsignal(each) for each in signal.valid_signals()] == before
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def test_the_way_in_is_light(tmp_path: Path) -> None:
    """Before signals have their default action nothing is imported that takes long."""
    (tmp_path / "entry.py").write_text(Path(entry.__file__).read_text(encoding="utf-8"))
    program = "import sys; before = set(sys.modules); sys.path.insert(0, '.'); import entry; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['entry']"


@pytest.mark.slow
def test_letters_that_the_output_lacks_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM.replace('robot name="arm"', 'robot name="bras épaule"'), encoding="utf-8")
    done = start(tmp_path, *SMALL, "--urdf", "arm.urdf", "--acceleration", "5", "--jerk", "50", environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "bras \\xe9paule: " in done.stdout


@pytest.mark.parametrize("shell", ["1>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.slow
def test_streams_that_are_closed(shell: str, tmp_path: Path) -> None:
    """The output cannot be written, which is said where it can be; the results are whole, and hold nothing of it."""
    done = start(tmp_path, *SMALL, shell=shell)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("Bad file descriptor" in done.stderr) == ("2" not in shell)
    assert left(tmp_path) == WHOLE
    assert (tmp_path / "out/new/trajectories.csv").read_text(encoding="utf-8").startswith("problem,step,solved,time,position_")
    with np.load(tmp_path / "out/new/trajectories.npz") as found:
        assert found["solved"].tolist() == [True]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_help_that_cannot_be_written(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = start(tmp_path, "trajopt", "--help", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "gradlib: [Errno 28] No space left on device\n"
