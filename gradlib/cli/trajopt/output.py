"""Result files that are either whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gradlib.cli.trajopt.check import Trajectories
from gradlib.cli.trajopt.errors import InputError

NAMES = ("trajectories.npz", "trajectories.csv", "trajectories.png")
_PARTS = ("position", "velocity", "acceleration", "jerk")


@contextmanager
def prepared(folder: str | Path) -> Iterator[Path]:
    """A context with the output folder, made if need be, into which files can be written: that is seen now, before any work.

    Folders that were made for it go again when the body raises.

    Args:
        folder: the path.
    Returns: it, as a Path.
    Raises: InputError when it is no folder, or cannot be made or written.
    """
    if not str(folder):
        raise InputError("the output folder has no name; choose one with --out DIR")
    path = Path(folder)
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        _check_writable(path)
        yield path
    except BaseException:
        with contextlib.suppress(OSError):  # there is something in it, from elsewhere
            for each in made:
                each.rmdir()
        raise


def _check_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = _temporary(path, "probe")
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write into the output folder {path}: {error.strerror}; choose another with --out DIR") from error
    for name in NAMES:
        if (path / name).is_dir():
            raise InputError(f"cannot write {path / name}: a folder has that name; choose another place with --out DIR")


@contextmanager
def replacing(folder: Path) -> Iterator[Callable[[str], Path]]:
    """A context that gives ``place(name)``, a temporary path for each result; on success all are renamed into place together.

    A result of an earlier run that this one does not write is removed, so that the files in the folder always belong together. When the
    body raises, nothing in the folder has changed.
    """
    staged: dict[str, Path] = {}

    def place(name: str) -> Path:
        return staged.setdefault(name, _temporary(folder, name))

    try:
        yield place
        for name, path in staged.items():
            os.replace(path, folder / name)
        for name in NAMES:
            if name not in staged:
                (folder / name).unlink(missing_ok=True)
    finally:
        for path in staged.values():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def write_npz(path: Path, motion: Trajectories, solved: np.ndarray, reasons: list[str], joints: tuple[str, ...]) -> None:
    """Write position, velocity, acceleration, jerk (N, H, D), dt (N,), solved (N,), reason (N,) and joint_names (D,)."""
    arrays = {name: getattr(motion, name) for name in _PARTS}
    with path.open("wb") as file:  # a name would get ".npz" appended
        np.savez(file, **arrays, dt=motion.dt, solved=solved, reason=np.array(reasons, dtype=np.str_), joint_names=np.array(joints))


def write_csv(path: Path, motion: Trajectories, solved: np.ndarray, joints: tuple[str, ...]) -> None:
    """Write one line for each step of each problem: problem, step, solved, time, then every joint's position, velocity, ..."""
    n, horizon, _ = motion.position.shape
    header = ["problem", "step", "solved", "time", *(f"{part}_{joint}" for part in _PARTS for joint in joints)]
    line = ",".join(["%d", "%d", "%d", *["%.12g"] * (len(header) - 3)]) + "\n"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(header)  # which quotes the names that need it
        for i in range(n):
            values = np.concatenate([getattr(motion, part)[i] for part in _PARTS], axis=1)
            times = np.arange(horizon) * float(motion.dt[i])
            file.writelines(line % (i, h, solved[i], times[h], *values[h].tolist()) for h in range(horizon))


def _temporary(folder: Path, name: str) -> Path:
    return folder / f".{name}.{os.getpid()}.tmp"
