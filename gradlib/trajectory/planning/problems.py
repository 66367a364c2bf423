"""The problems: start and goal configurations out of a file or a generator, and what is wrong with single ones."""

from __future__ import annotations

import csv
import os
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from gradlib.trajectory.planning.errors import InputError, listed, shown
from gradlib.trajectory.planning.robot import Robot

ROUNDING = 1e-6
"""A start or goal may pass a position limit by this fraction of its range: files hold rounded numbers."""
_LONGEST = 16 << 20  # letters of a line of a CSV file
_ARRAY = b"\x93NUMPY"  # what a file of a single array begins with


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


def read(path: str | Path, robot: Robot, most: int | None = None) -> Problems:
    """The problems in a CSV or NPZ file, told apart by the name's ending.

    A CSV file has a header with a column start_<joint> and a column goal_<joint> for each joint, in any order, and nothing else. An NPZ
    file has arrays start and goal of shape (N, D) whose columns are the robot's joints in order.

    Args:
        path: the file; robot: whose joints they are for; most: how many there may be.
    Returns: the Problems; NaN and a configuration outside the limits give that problem a reason.
    Raises: InputError for a file that cannot be read, whose columns are not these, or that holds more problems than it may.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"--problems takes a .csv or a .npz file, got {path}")
    try:
        start, goal = reader(path, robot, most)
    except OSError as error:
        raise InputError(f"cannot read the problems {path}: {error.strerror or error}") from error
    if len(start) == 0:
        raise InputError(f"{path} holds no problem; it needs at least one row")
    return _judged(start, goal, robot)


def sample(count: int, seed: int, robot: Robot) -> Problems:
    """Problems drawn evenly within the position limits, and within one turn for continuous joints.

    Args:
        count: how many; seed: the same seed gives the same problems; robot: whose limits.
    Returns: the Problems.
    """
    lower = np.where(np.isfinite(robot.lower), robot.lower, -np.pi)
    upper = np.where(np.isfinite(robot.upper), robot.upper, np.pi)
    ends = np.random.default_rng(seed).random((count, 2, len(robot.joints)))
    ends = lower + (upper - lower) * ends
    return _judged(ends[:, 0], ends[:, 1], robot)


def check_count(count: int, most: int | None, what: str) -> None:
    """Refuse more problems than memory has room for."""
    if most is not None and count > most:
        raise InputError(f"{what}: {count} problems need more memory than this machine has, which is enough for {most}; plan them in parts")


def _read_csv(path: Path, robot: Robot, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    wanted = [f"{end}_{joint}" for end in ("start", "goal") for joint in robot.joints]
    header: list[str] = []
    values: list[np.ndarray] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            for line, row in enumerate(csv.reader(_lines(file, path)), start=1):
                if not any(cell.strip() for cell in row):
                    continue
                if header:
                    values.append(np.array(_numbers(row, header, path, line), dtype=np.float64))
                    check_count(len(values), most, str(path))
                else:
                    header = [name.strip() for name in row]
                    _check_header(header, wanted, path)
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a CSV file of text: {error}") from error
    if not header:
        raise InputError(f"{path} is empty; its first row must name the columns {listed(wanted)}")
    place = {name: column for column, name in enumerate(header)}
    found = np.array(values, dtype=np.float64).reshape(-1, len(wanted))[:, [place[name] for name in wanted]]
    return found[:, : len(robot.joints)], found[:, len(robot.joints) :]


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file, none of which is so long that memory runs out."""
    while line := file.readline(_LONGEST + 1):
        if len(line) > _LONGEST:
            raise InputError(f"{path} is not a CSV file of text: it has a line of more than {_LONGEST >> 20} MiB")
        yield line


def _check_header(header: list[str], wanted: list[str], path: Path) -> None:
    count = Counter(header)
    known = set(wanted)
    missing = [name for name in wanted if name not in count]
    extra = [name for name in header if name not in known]
    twice = sorted(name for name, number in count.items() if number > 1)
    faults = [
        f"{what} {listed(map(shown, names))}"
        for what, names in (("misses", missing), ("has an unknown", extra), ("repeats", twice))
        if names
    ]
    if faults:
        raise InputError(f"the header of {path} {'; '.join(faults)}. It needs exactly start_<joint> and goal_<joint> for {_listed(wanted)}")


def _listed(wanted: list[str]) -> str:
    return listed(name.removeprefix("start_") for name in wanted[: len(wanted) // 2])


def _numbers(row: list[str], header: list[str], path: Path, line: int) -> list[float]:
    """A row's cells as numbers; "nan" is one, and makes the problem one that is not planned for."""
    if len(row) != len(header):
        raise InputError(f"{path}, row {line}: has {len(row)} cells, but the header has {len(header)}")
    result = []
    for name, cell in zip(header, row, strict=True):
        try:
            result.append(float(cell))
        except ValueError:
            raise InputError(f"{path}, row {line}: {name} must be a number, got {shown(cell)}") from None
    return result


def _read_npz(path: Path, robot: Robot, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    try:
        with path.open("rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InputError(f"{path} is a pipe or a device; an NPZ file is read from its end, so it must be a file")
            if stream.read(len(_ARRAY)) == _ARRAY:
                raise InputError(f"{path} is not an NPZ file but a single array; save it with numpy.savez(path, start=..., goal=...)")
            with zipfile.ZipFile(stream) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                missing = [name for name in ("start", "goal") if name not in names]
                if missing:
                    raise InputError(f"{path} has no array {' and no array '.join(missing)}; it has {listed(names) or 'none'}")
                start, goal = (_read_array(archive, name, path, robot, most) for name in ("start", "goal"))
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:  # what is damaged may fail anywhere: zipfile, the decompressors and NumPy's header have errors of many types
        raise InputError(f"{path} is not an NPZ file of numbers; write one with numpy.savez(path, start=..., goal=...)") from error
    if len(start) != len(goal):
        raise InputError(f"{path}: start has {len(start)} rows and goal has {len(goal)}; each problem needs both")
    return start.astype(np.float64), goal.astype(np.float64)


def _read_array(archive: zipfile.ZipFile, name: str, path: Path, robot: Robot, most: int | None) -> np.ndarray:
    """An array of an NPZ file, unpacked only when its header says that it is one of those wanted."""
    joints = len(robot.joints)
    info = archive.getinfo(name if name in archive.NameToInfo else f"{name}.npy")
    with archive.open(info) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a header of another NumPy is read as it should be, or refused
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise ValueError("objects are no numbers")
    if len(shape) != 2 or shape[1] != joints:
        raise InputError(f"{path}: {name} must have shape (N, {joints}), a column for each of {listed(robot.joints)}; got {shown(shape)}")
    if dtype.kind not in "iuf":
        raise InputError(f"{path}: {name} must hold real numbers, got dtype {str(dtype)[:80]}")
    check_count(shape[0], most, f"{path}: {name}")
    if shape[0] * joints * dtype.itemsize > info.file_size:
        raise ValueError("the file ends before the array does")
    with archive.open(info) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.lib.format.read_array(stream, allow_pickle=False)


def _judged(start: np.ndarray, goal: np.ndarray, robot: Robot) -> Problems:
    reasons = tuple(_reason(s, g, robot) for s, g in zip(start, goal, strict=True))
    return Problems(start, goal, reasons)


def _reason(start: np.ndarray, goal: np.ndarray, robot: Robot) -> str:
    """Why this problem cannot be planned for, or ""."""
    for name, values in (("start", start), ("goal", goal)):
        for joint, value, lower, upper in zip(robot.joints, values, robot.lower, robot.upper, strict=True):
            if not np.isfinite(value):
                return f"{name} of {joint} is {value}, not a finite number"
            slack = ROUNDING * (upper - lower) if np.isfinite(upper - lower) else 0.0
            if not lower - slack <= value <= upper + slack:
                return f"{name} of {joint} is {value:g}, outside its limits [{lower:g}, {upper:g}]"
    return ""
