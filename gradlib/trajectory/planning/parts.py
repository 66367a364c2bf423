"""Results in parts: a folder with one file for each chunk of problems, and `manifest.json`, which says what they are parts of.

A part is whole or not there: it is written under another name, brought to the disk, and renamed. It holds what it is a part of (its
chunk's number, a digest of its problems) and a summary of its own, so a job that goes on where another stopped needs to know nothing but
the folder. Parts are the same bytes whoever wrote them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gradlib import files
from gradlib.trajectory.planning.check import Trajectories, fractions
from gradlib.trajectory.planning.chunk import PARTS
from gradlib.trajectory.planning.errors import InputError, shown
from gradlib.trajectory.planning.problems import Problems
from gradlib.trajectory.planning.robot import Robot

MANIFEST = "manifest.json"
FORMATS = ("parquet", "npz")
_TEMPORARY = ".gradlib-*.tmp"  # what a killed process leaves behind
_SHOWN = 8


@dataclass
class Summary:
    """Counts of solved and unsolved problems and their durations; the order in which parts are added makes no difference.

    Attributes:
        problems, solved: how many.
        duration: (sum, least, most) of the solved ones, in seconds.
        used: the largest fraction of each limit.
        unsolved: (number, reason) of the first problems that are not solved.
        failed: chunk -> why none of its problems could be planned; their results are not there.
    """

    problems: int = 0
    solved: int = 0
    duration: tuple[Fraction, float, float] = (Fraction(), math.inf, -math.inf)
    used: dict[str, float] = field(default_factory=dict)
    unsolved: list[tuple[int, str]] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, motion: Trajectories, reasons: list[str], robot: Robot, first: int) -> Summary:
        """The summary of one chunk, whose first problem has this number."""
        solved = np.array([not reason for reason in reasons], dtype=bool)
        good = Trajectories(*(getattr(motion, name)[solved] for name in PARTS))
        unsolved = [(first + row, reason) for row, reason in enumerate(reasons) if reason][:_SHOWN]
        made = cls(len(reasons), len(good.dt), unsolved=unsolved)
        if made.solved:
            times = good.duration().astype(np.float64).tolist()
            made.duration = (sum(map(Fraction, times), Fraction()), min(times), max(times))
            made.used = {name: float(values.max()) for name, values in fractions(good, robot).items()}
        return made

    def add(self, other: Summary) -> None:
        """Add the summary of other problems."""
        self.problems += other.problems
        self.solved += other.solved
        (total, least, most), (its_total, its_least, its_most) = self.duration, other.duration
        self.duration = (total + its_total, min(least, its_least), max(most, its_most))
        self.used |= {name: max(self.used.get(name, 0.0), value) for name, value in other.used.items()}
        self.unsolved = sorted([*self.unsolved, *other.unsolved])[:_SHOWN]
        self.failed |= other.failed

    @property
    def mean_duration(self) -> float:
        """The mean duration of the solved problems in seconds; NaN where there is none."""
        return float(self.duration[0] / self.solved) if self.solved else math.nan

    def to_json(self) -> dict[str, Any]:
        total, least, most = self.duration
        found = dataclasses.asdict(self) | {"duration": [str(total), least, most] if self.solved else None}
        return found | {"mean_duration": self.mean_duration if self.solved else None}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Summary:
        given = {each.name: found[each.name] for each in dataclasses.fields(cls)}
        total, least, most = given["duration"] or ("0", math.inf, -math.inf)
        given |= {"duration": (Fraction(total), least, most), "unsolved": [(number, text) for number, text in given["unsolved"]]}
        return cls(**given | {"failed": {int(chunk): text for chunk, text in given["failed"].items()}})


def digest(asked: Problems) -> str:
    """A digest of problems, by which a part is known to be theirs."""
    made = hashlib.sha256()
    for array in (asked.start, asked.goal):
        made.update(np.ascontiguousarray(array).tobytes())
    made.update("\0".join(asked.reasons).encode())
    return made.hexdigest()[:32]


def name(chunk: int, form: str) -> str:
    """The file of a chunk."""
    return f"trajectories-{chunk:09d}.{form}"


def write(path: Path, motion: Trajectories, reasons: list[str], robot: Robot, first: int, facts: dict[str, Any]) -> None:
    """Write a part, whole or not at all.

    Args:
        path: its place, whose ending is the format; motion, reasons: the results; robot: whose joints; first: the number of the first
            problem; facts: what `read_facts` shall give.
    """
    numbers = np.arange(first, first + len(reasons))
    solved = np.array([not reason for reason in reasons], dtype=bool)
    text = json.dumps(facts)
    with files.replacing() as results:
        place = results.place(path)
        if path.suffix == ".npz":
            arrays = {part: getattr(motion, part) for part in PARTS}
            with place.open("wb") as file:  # a name would get ".npz" appended
                np.savez(
                    file, **arrays, problem=numbers, solved=solved, reason=np.array(reasons, dtype=np.str_),
                    joint_names=np.array(robot.joints), facts=np.array(text),
                )  # fmt: skip
        else:
            _write_parquet(place, motion, numbers, solved, reasons, robot, text)


def _write_parquet(
    place: Path, motion: Trajectories, numbers: np.ndarray, solved: np.ndarray, reasons: list[str], robot: Robot, facts: str
) -> None:
    """A row for each problem; position, velocity, acceleration and jerk are tensors (H, D)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"problem": pa.array(numbers), "solved": pa.array(solved), "reason": pa.array(reasons, pa.string())}
    columns["dt"] = pa.array(motion.dt)
    for part in PARTS[:-1]:
        columns[part] = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(getattr(motion, part)), ["step", "joint"])
    table = pa.table(columns).replace_schema_metadata({"gradlib": facts, "joint_names": json.dumps(robot.joints)})
    pq.write_table(table, place, compression="zstd", compression_level=1, use_dictionary=False, write_statistics=False)


def read_facts(path: Path) -> dict[str, Any] | None:
    """The facts that a part was written with; None for a file that is no part."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return json.loads(str(file["facts"]))
        import pyarrow.parquet as pq

        return json.loads(pq.read_metadata(path).metadata[b"gradlib"])
    except FileNotFoundError:
        return None
    except Exception as error:  # what is damaged may fail anywhere
        raise InputError(f"{path} is no part of these results ({shown(str(error))}); remove it, and --resume makes it anew") from error


class Folder:
    """The folder of a job's results.

    Args:
        path: where; job: what decides the results, kept in the manifest.
    """

    def __init__(self, path: Path, job: dict[str, Any]) -> None:
        self.path, self.job = path, job

    def begin(self, resume: bool, inputs: Iterable[str | Path]) -> None:
        """Create the folder, or check that the parts in it belong to this job.

        Raises: InputError where it holds parts and ``resume`` is not asked for, or those of another job, or cannot be written.
        """
        known = manifest(self.path)
        if known is not None and not resume:
            raise InputError(f"{self.path} holds results in parts already; --resume goes on with them, --out DIR chooses another place")
        if known is not None:
            differs = sorted(key for key in {*known["job"], *self.job} if known["job"].get(key) != self.job.get(key))
            if differs:
                told = ", ".join(f"{key} {shown(known['job'].get(key))}, not {shown(self.job.get(key))}" for key in differs)
                raise InputError(f"{self.path} holds parts of another job, with {told}; ask for the same, or choose another --out DIR")
            for left in self.path.glob(_TEMPORARY):
                with contextlib.suppress(OSError):
                    left.unlink()
        elif any(self.path.glob("trajectories-*")):
            raise InputError(f"{self.path} holds parts, but no {MANIFEST} that says of what; choose another place with --out DIR")
        self._write(None, inputs)

    def end(self, summary: Summary) -> None:
        """Write the summary into the manifest."""
        self._write(summary, ())

    def done(self, chunk: int, asked: Problems) -> Summary | None:
        """The summary of a part that is there; None for one that is not.

        Raises: InputError where it is a part of other problems.
        """
        path = self.path / name(chunk, self.job["format"])
        facts = read_facts(path)
        if facts is None:
            return None
        if facts["digest"] != digest(asked):
            raise InputError(f"{path} holds results of other problems; the input has changed: choose another place with --out DIR")
        return Summary.from_json(facts["summary"])

    def _write(self, summary: Summary | None, inputs: Iterable[str | Path]) -> None:
        complete = summary is not None and not summary.failed
        text = json.dumps({"job": self.job, "complete": complete, "summary": summary and summary.to_json()}, indent=1)
        try:
            with files.replacing(inputs) as results:
                results.place(self.path / MANIFEST).write_text(text + "\n", encoding="utf-8")
        except ValueError as error:
            raise InputError(f"{error}, with --out DIR") from error


def manifest(folder: Path) -> dict[str, Any] | None:
    """The content of a folder's manifest; None where there is none.

    Raises: InputError for one that is not of this kind.
    """
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["job"], dict):
            return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise InputError(f"{path} is not a manifest of results in parts; choose another place with --out DIR")
