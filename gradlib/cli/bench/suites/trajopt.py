"""The work of `gradlib trajopt`: whole solves, and writing their results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run
from gradlib.cli.trajopt import output, plot
from gradlib.trajectory.planning import problems, robot, solve


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Motions of a Franka Panda, as by default."""
    for count in (16,) if quick else (16, 256):
        yield Case("plan", f"{count} problems", partial(_plan, count=count), (), "float64", device)
    if not quick and device == "cpu":
        writers: dict[str, Callable[..., Any]] = {"npz": _npz, "csv": _csv} | ({"png": _png} if plot.available() else {})
        for ending, write in writers.items():
            yield Case(f"write {ending}", "256 problems", partial(_write, write=write, ending=ending), (), "float64")


def _asked(count: int) -> tuple[robot.Robot, problems.Problems]:
    machine = robot.assemble(*robot.panda())
    return machine, problems.sample(count, 0, machine)


def _plan(peer: Peer, count: int) -> Run:
    machine, asked = _asked(count)

    def run() -> None:
        solve.plan(asked.start, asked.goal, machine, device=peer.device)

    return run


def _write(peer: Peer, write: Callable[..., Any], ending: str) -> Run:
    machine, asked = _asked(256)
    found = solve.plan(asked.start, asked.goal, machine)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / f"trajectories.{ending}", found, np.ones(256, bool), machine)

    return run


def _npz(path: Path, found: Any, solved: np.ndarray, machine: robot.Robot) -> None:
    output.write_npz(path, found, solved, [""] * len(solved), machine.joints)


def _csv(path: Path, found: Any, solved: np.ndarray, machine: robot.Robot) -> None:
    output.write_csv(path, found, solved, machine.joints)


def _png(path: Path, found: Any, solved: np.ndarray, machine: robot.Robot) -> None:
    plot.write_png(path, found, solved, machine)
