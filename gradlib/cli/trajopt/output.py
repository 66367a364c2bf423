"""The result files of `gradlib trajopt`."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gradlib import files
from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.errors import InputError

NAMES = ("trajectories.npz", "trajectories.csv", "trajectories.png")
_PARTS = ("position", "velocity", "acceleration", "jerk")


@contextmanager
def prepared(folder: str | Path, inputs: Iterable[str | Path] = ()) -> Iterator[Path]:
    """A context with the output folder, made if need be, into which files can be written: that is seen now, before any work.

    Folders that were made for it go again when the body raises.

    Args:
        folder: the path; inputs: files that are read, which no result may overwrite.
    Returns: it, as a Path.
    Raises: InputError when it is no folder, or cannot be made or written, or a result would overwrite an input.
    """
    if not str(folder):
        raise InputError("the output folder has no name; choose one with --out DIR")
    path = Path(folder)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.made_folder(path))
            _try_places(path, inputs)
        except OSError as error:
            raise InputError(f"cannot write into the output folder {path}: {error.strerror}; choose another with --out DIR") from error
        yield path


def _try_places(folder: Path, inputs: Iterable[str | Path]) -> None:
    """See whether every result can be written, without writing any."""
    results = files.Results(inputs)
    try:
        for name in NAMES:
            if (folder / name).is_dir():
                raise InputError(f"cannot write {folder / name}: a folder has that name; choose another place with --out DIR")
            results.place(folder / name)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{error}, with --out DIR") from error
    finally:
        results.discard()


@contextmanager
def replacing(folder: Path, inputs: Iterable[str | Path] = ()) -> Iterator[Callable[[str], Path]]:
    """A context that gives ``place(name)``, a temporary path for each result; on success all are renamed into place together.

    A result of an earlier run that this one does not write is removed, so that the files in the folder always belong together. When the
    body raises, nothing in the folder has changed.

    Args:
        folder: where the results belong; inputs: files that are read, which no result may overwrite.
    """
    with files.replacing(inputs) as results:
        written = set()

        def place(name: str) -> Path:
            written.add(name)
            return results.place(folder / name)

        yield place
        for name in NAMES:
            if name not in written:
                results.remove(folder / name)


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
