"""The problems: start and goal configurations out of a file or a generator, and what is wrong with single ones."""

from __future__ import annotations

import csv
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradlib.cli.trajopt.errors import InputError
from gradlib.cli.trajopt.robot import Robot

ROUNDING = 1e-6
"""A start or goal may pass a position limit by this fraction of its range: files hold rounded numbers."""


@dataclass(frozen=True)
class Problems:
    """N problems for a robot of D joints.

    Attributes:
        start, goal: (N, D) float64, radians or metres.
        reasons: for each problem why it cannot be planned for, or "".
    """

    start: np.ndarray
    goal: np.ndarray
    reasons: tuple[str, ...]


def read(path: str | Path, robot: Robot, dtype: np.dtype) -> Problems:
    """The problems in a CSV or NPZ file, told apart by the name's ending.

    A CSV file has a header with a column start_<joint> and a column goal_<joint> for each joint, in any order, and nothing else. An NPZ
    file has arrays start and goal of shape (N, D) whose columns are the robot's joints in order.

    Args:
        path: the file; robot: whose joints they are for; dtype: that they will be planned in.
    Returns: the Problems; NaN, a configuration outside the limits and equal start and goal give that problem a reason.
    Raises: InputError for a file that cannot be read or whose columns are not these.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"--problems takes a .csv or a .npz file, got {path}")
    try:
        start, goal = reader(path, robot)
    except OSError as error:
        raise InputError(f"cannot read the problems {path}: {error.strerror or error}") from error
    if len(start) == 0:
        raise InputError(f"{path} holds no problem; it needs at least one row")
    return _judged(start, goal, robot, dtype)


def sample(count: int, seed: int, robot: Robot, dtype: np.dtype) -> Problems:
    """Problems drawn evenly within the position limits, and within one turn for continuous joints.

    Args:
        count: how many; seed: the same seed gives the same problems; robot: whose limits; dtype: that they will be planned in.
    Returns: the Problems.
    """
    lower = np.where(np.isfinite(robot.lower), robot.lower, -np.pi)
    upper = np.where(np.isfinite(robot.upper), robot.upper, np.pi)
    ends = np.random.default_rng(seed).random((count, 2, len(robot.joints)))
    ends = lower + (upper - lower) * ends
    return _judged(ends[:, 0], ends[:, 1], robot, dtype)


def _read_csv(path: Path, robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    wanted = [f"{end}_{joint}" for end in ("start", "goal") for joint in robot.joints]
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            rows = [(line, row) for line, row in enumerate(csv.reader(file), start=1) if any(cell.strip() for cell in row)]
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a CSV file of text: {error}") from error
    if not rows:
        raise InputError(f"{path} is empty; its first row must name the columns {', '.join(wanted)}")
    header = [name.strip() for name in rows[0][1]]
    _check_header(header, wanted, path)
    values = np.array([_numbers(row, header, path, line) for line, row in rows[1:]], dtype=np.float64).reshape(-1, len(wanted))
    values = values[:, [header.index(name) for name in wanted]]
    return values[:, : len(robot.joints)], values[:, len(robot.joints) :]


def _check_header(header: list[str], wanted: list[str], path: Path) -> None:
    missing = [name for name in wanted if name not in header]
    extra = [name for name in header if name not in wanted]
    twice = sorted({name for name in header if header.count(name) > 1})
    faults = [
        f"{what} {', '.join(map(repr, names))}"
        for what, names in (("misses", missing), ("has an unknown", extra), ("repeats", twice))
        if names
    ]
    if faults:
        raise InputError(f"the header of {path} {'; '.join(faults)}. It needs exactly start_<joint> and goal_<joint> for {_listed(wanted)}")


def _listed(wanted: list[str]) -> str:
    return ", ".join(name.removeprefix("start_") for name in wanted[: len(wanted) // 2])


def _numbers(row: list[str], header: list[str], path: Path, line: int) -> list[float]:
    """A row's cells as numbers; "nan" is one, and makes the problem one that is not planned for."""
    if len(row) != len(header):
        raise InputError(f"{path}, row {line}: has {len(row)} cells, but the header has {len(header)}")
    result = []
    for name, cell in zip(header, row, strict=True):
        try:
            result.append(float(cell))
        except ValueError:
            raise InputError(f"{path}, row {line}: {name} must be a number, got {cell!r}") from None
    return result


def _read_npz(path: Path, robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    try:
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise InputError(f"{path} is not an NPZ file but a single array; save it with numpy.savez(path, start=..., goal=...)")
            missing = [name for name in ("start", "goal") if name not in file.files]
            if missing:
                raise InputError(f"{path} has no array {' and no array '.join(missing)}; it has {', '.join(file.files) or 'none'}")
            start, goal = file["start"], file["goal"]
    except InputError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is not an NPZ file of numbers; write one with numpy.savez(path, start=..., goal=...)") from error
    joints = len(robot.joints)
    for name, array in (("start", start), ("goal", goal)):
        if array.ndim != 2 or array.shape[1] != joints:
            raise InputError(
                f"{path}: {name} must have shape (N, {joints}), a column for each of {', '.join(robot.joints)}; got {array.shape}"
            )
        if array.dtype.kind not in "iuf":
            raise InputError(f"{path}: {name} must hold real numbers, got dtype {array.dtype}")
    if len(start) != len(goal):
        raise InputError(f"{path}: start has {len(start)} rows and goal has {len(goal)}; each problem needs both")
    return start.astype(np.float64), goal.astype(np.float64)


def _judged(start: np.ndarray, goal: np.ndarray, robot: Robot, dtype: np.dtype) -> Problems:
    reasons = tuple(_reason(s, g, robot, dtype) for s, g in zip(start, goal, strict=True))
    return Problems(start, goal, reasons)


def _reason(start: np.ndarray, goal: np.ndarray, robot: Robot, dtype: np.dtype) -> str:
    """Why this problem cannot be planned for, or ""."""
    for name, values in (("start", start), ("goal", goal)):
        for joint, value, lower, upper in zip(robot.joints, values, robot.lower, robot.upper, strict=True):
            if not np.isfinite(value):
                return f"{name} of {joint} is {value}, not a finite number"
            slack = ROUNDING * (upper - lower) if np.isfinite(upper - lower) else 0.0
            if not lower - slack <= value <= upper + slack:
                return f"{name} of {joint} is {value:g}, outside its limits [{lower:g}, {upper:g}]"
    if np.array_equal(start.astype(dtype), goal.astype(dtype)):
        return "start and goal are equal, so there is no motion to plan"
    return ""
