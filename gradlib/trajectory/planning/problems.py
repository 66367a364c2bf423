"""Problems: start and goal configurations from a file or a generator, and for each the reason why it cannot be planned for."""

from __future__ import annotations

import csv
import io
import os
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

import numpy as np

from gradlib.trajectory.planning.errors import InputError, listed, shown
from gradlib.trajectory.planning.robot import Robot

ROUNDING = 1e-6
"""A start or goal may pass a position limit by this fraction of its range: files hold rounded numbers."""
_LONGEST = 16 << 20  # letters of a line of a CSV file
_AT_ONCE = 1 << 14  # rows of a file that is read whole
Block = tuple[np.ndarray, dict[int, str]]
"""Starts and goals (n, 2 D), and why some rows hold none."""

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

    A CSV or Parquet file has a column start_<joint> and a column goal_<joint> for each joint, in any order, and a CSV file has nothing
    else. An NPZ file has arrays start and goal of shape (N, D) whose columns are the robot's joints in order.

    Args:
        path: the file; robot: whose joints they are for; most: how many there may be.
    Returns: the Problems; NaN and a configuration outside the limits give that problem a reason.
    Raises: InputError for a file that cannot be read, whose columns are not these, or that holds more problems than it may.
    """
    path = Path(path)
    blocks: list[Block] = []
    for rows, reasons in _blocks(path, robot, _AT_ONCE, [0.0], most):
        if reasons:
            raise InputError(next(iter(reasons.values())))
        blocks.append((rows, reasons))
    if not blocks:
        raise InputError(f"{path} holds no problem; it needs at least one row")
    return _of_rows(_joined(blocks)[0], robot)


class Stream:
    """The problems of a file or of arrays, a chunk at a time, so that memory holds no more than a few chunks.

    Rows of a CSV file that are no numbers become problems with a reason.

    Args:
        blocks: arrays (n, 2 D) of starts and goals, with reasons for some rows, of any sizes.
        robot: whose joints they are for.
        share: gives how much of the source has been read, from 0 to 1.
    """

    def __init__(self, blocks: Iterator[Block], robot: Robot, share: Callable[[], float]) -> None:
        self.blocks, self.robot, self.share = blocks, robot, share

    def chunks(self, size: int) -> Iterator[Problems]:
        """All problems in turn, ``size`` at a time; the last may be fewer.

        Raises: InputError where the source cannot be read any further.
        """
        held: list[Block] = []
        count = 0
        for block in self.blocks:
            held.append(block)
            count += len(block[0])
            while count >= size:
                rows, reasons = _joined(held)
                yield self._judged(rows[:size], {row: text for row, text in reasons.items() if row < size})
                held = [(rows[size:], {row - size: text for row, text in reasons.items() if row >= size})]
                count -= size
        if count:
            yield self._judged(*_joined(held))

    def _judged(self, rows: np.ndarray, reasons: dict[int, str]) -> Problems:
        found = _of_rows(rows, self.robot)
        return Problems(found.start, found.goal, tuple(reasons.get(row, text) for row, text in enumerate(found.reasons)))


def _of_rows(rows: np.ndarray, robot: Robot) -> Problems:
    """The problems that starts and goals side by side are."""
    d = len(robot.joints)
    return judged(np.ascontiguousarray(rows[:, :d]), np.ascontiguousarray(rows[:, d:]), robot)


def _joined(blocks: list[Block]) -> Block:
    """Several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    places = np.cumsum([0, *(len(rows) for rows, _ in blocks)]).tolist()
    texts = {place + row: text for place, (_, reasons) in zip(places, blocks, strict=False) for row, text in reasons.items()}
    return np.concatenate([rows for rows, _ in blocks]), texts


def stream(path: str | Path, robot: Robot, size: int) -> Stream:
    """The problems of a file of any length, laid out as for `read`.

    Args:
        path: the file; robot: whose joints they are for; size: rows that are read at a time.
    Raises: InputError, here or as it is read, for a file that cannot be used.
    """
    place = [0.0]
    return Stream(_blocks(Path(path), robot, size, place), robot, lambda: place[0])


def _blocks(path: Path, robot: Robot, size: int, place: list[float], most: int | None = None) -> Iterator[Block]:
    """The rows of a file, so many at a time, by the reader for its ending; ``place`` is told what part of it has been read."""
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise InputError(f"--problems takes a .csv, a .npz or a .parquet file, got {path}")
    return _readable(readers[path.suffix.lower()](path, robot, size, place, most), path)


def _readable(blocks: Iterator[Block], path: Path) -> Iterator[Block]:
    """The blocks, with errors of the system as those of input."""
    try:
        yield from blocks
    except OSError as error:
        raise InputError(f"cannot read the problems {path}: {error.strerror or error}") from error


def _read_csv(path: Path, robot: Robot, size: int, place: list[float], most: int | None) -> Iterator[Block]:
    wanted = [f"{end}_{joint}" for end in ("start", "goal") for joint in robot.joints]
    columns: list[int] = []
    with path.open("rb") as binary, io.TextIOWrapper(binary, newline="", encoding="utf-8-sig") as file:
        length = os.fstat(binary.fileno()).st_size
        values: list[list[float]] = []
        reasons: dict[int, str] = {}
        count = 0
        try:
            for line, row in enumerate(csv.reader(_lines(file, path)), start=1):
                if not any(cell.strip() for cell in row):
                    continue
                if not columns:
                    header = [name.strip() for name in row]
                    _check_header(header, wanted, path)
                    places = {name: place for place, name in enumerate(header)}
                    columns = [places[name] for name in wanted]
                    continue
                try:
                    values.append(_numbers(row, header, path, line))
                except InputError as error:
                    reasons[len(values)] = str(error)
                    values.append([np.nan] * len(wanted))
                count += 1
                check_count(count, most, str(path))
                if len(values) == size:
                    place[0] = binary.tell() / max(length, 1)
                    yield np.array(values, dtype=np.float64)[:, columns], reasons
                    values, reasons = [], {}
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a CSV file of text: {error}") from error
        if not columns:
            raise InputError(f"{path} is empty; its first row must name the columns {listed(wanted)}")
        place[0] = 1.0
        if values:
            yield np.array(values, dtype=np.float64)[:, columns], reasons


def _read_npz(path: Path, robot: Robot, size: int, place: list[float], most: int | None) -> Iterator[Block]:
    with _opened_npz(path) as archive:
        with _as_input_errors(path):
            ends = [_Rows(archive, name, path, robot, most) for name in ("start", "goal")]
        if ends[0].count != ends[1].count:
            raise InputError(f"{path}: start has {ends[0].count} rows and goal has {ends[1].count}; each problem needs both")
        for low in range(0, ends[0].count, size):
            with _as_input_errors(path):
                rows = [end.read(min(size, end.count - low)) for end in ends]
            place[0] = min(low + size, ends[0].count) / ends[0].count
            yield np.concatenate(rows, axis=1), {}


class _Rows:
    """The rows of an array in an NPZ file, read in turn; one in Fortran's order has a reader for each column."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: Path, robot: Robot, most: int | None) -> None:
        info, shape, fortran, self.dtype = _array_header(archive, name, path, robot, most)
        self.count, joints = shape
        apart = fortran and joints > 1 and self.count > 1
        self.streams = [archive.open(info) for _ in range(joints if apart else 1)]
        self.width = 1 if apart else joints
        for column, each in enumerate(self.streams):
            _past_header(each)
            left = column * self.count * self.dtype.itemsize
            if info.compress_type == zipfile.ZIP_STORED:
                each.seek(each.tell() + left)
            else:
                while left:  # seek would unpack 16 MiB at once
                    left -= len(_exactly(each, min(left, 1 << 16)))

    def read(self, count: int) -> np.ndarray:
        """The next rows, (count, D) float64."""
        size = count * self.width * self.dtype.itemsize
        parts = [np.frombuffer(_exactly(each, size), self.dtype).reshape(count, self.width) for each in self.streams]
        return np.concatenate(parts, axis=1).astype(np.float64)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise ValueError("the file ends before the array does")
    return found


def _read_parquet(path: Path, robot: Robot, size: int, place: list[float], most: int | None) -> Iterator[Block]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("--problems FILE.parquet needs pyarrow; install it with: pip install pyarrow") from error
    wanted = [f"{end}_{joint}" for end in ("start", "goal") for joint in robot.joints]
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:
            missing = [name for name in wanted if name not in file.schema_arrow.names]
            if missing:
                raise InputError(f"{path} has no column {listed(missing)}; it needs start_<joint> and goal_<joint> for {_listed(wanted)}")
            read = 0
            for batch in file.iter_batches(size, columns=wanted):
                rows = [batch.column(name).cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False) for name in wanted]
                read += len(batch)
                check_count(read, most, str(path))
                place[0] = read / max(file.metadata.num_rows, 1)
                yield np.stack(rows, axis=1), {}
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a Parquet file of numbers: {' '.join(str(error).split())[:200]}") from error


def sample(count: int, seed: int, robot: Robot) -> Problems:
    """Problems with uniformly distributed positions within the limits, and within one turn for continuous joints.

    Args:
        count: how many; seed: the same seed gives the same problems; robot: whose limits.
    Returns: the Problems.
    """
    return _of_rows(drawn(count, np.random.default_rng(seed), robot), robot)


def drawn(count: int, rng: np.random.Generator, robot: Robot) -> np.ndarray:
    """The next problems of a generator, (count, 2 D): starts and goals. The sequence does not depend on how many are drawn at a time."""
    lower = np.where(np.isfinite(robot.lower), robot.lower, -np.pi)
    upper = np.where(np.isfinite(robot.upper), robot.upper, np.pi)
    return (lower + (upper - lower) * rng.random((count, 2, len(robot.joints)))).reshape(count, -1)


def check_count(count: int, most: int | None, what: str) -> None:
    """Refuse more problems than fit into memory."""
    if most is not None and count > most:
        has = f"more memory than this machine has, which is enough for {most}"
        raise InputError(f"{what}: {count} problems need {has}; plan them in smaller parts, as with --chunk 1024")


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
    """A row's cells as numbers. "nan" is accepted: the problem is then not planned for, with a reason."""
    if len(row) != len(header):
        raise InputError(f"{path}, row {line}: has {len(row)} cells, but the header has {len(header)}")
    result = []
    for name, cell in zip(header, row, strict=True):
        try:
            result.append(float(cell))
        except ValueError:
            raise InputError(f"{path}, row {line}: {name} must be a number, got {shown(cell)}") from None
    return result


@contextmanager
def _opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """An NPZ file that has the arrays start and goal."""
    with path.open("rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise InputError(f"{path} is a pipe or a device; an NPZ file is read from its end, so it must be a file")
        if stream.read(len(_ARRAY)) == _ARRAY:
            raise InputError(f"{path} is not an NPZ file but a single array; save it with numpy.savez(path, start=..., goal=...)")
        with _as_input_errors(path):
            archive = zipfile.ZipFile(stream)
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        missing = [name for name in ("start", "goal") if name not in names]
        if missing:
            raise InputError(f"{path} has no array {' and no array '.join(missing)}; it has {listed(names) or 'none'}")
        with archive:
            yield archive


@contextmanager
def _as_input_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged file into InputError: zipfile, the decompressors and NumPy's header raise many types."""
    try:
        yield
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{path} is not an NPZ file of numbers; write one with numpy.savez(path, start=..., goal=...)") from error


def _past_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The shape, order and dtype of an array, whose numbers are next in the stream."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a header of another NumPy is read as it should be, or refused
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return header(stream)


def _array_header(
    archive: zipfile.ZipFile, name: str, path: Path, robot: Robot, most: int | None
) -> tuple[zipfile.ZipInfo, tuple[int, ...], bool, np.dtype]:
    """The place and the layout of an array in an NPZ file, when it is one of those wanted."""
    joints = len(robot.joints)
    info = archive.getinfo(name if name in archive.NameToInfo else f"{name}.npy")
    with archive.open(info) as stream:
        shape, fortran, dtype = _past_header(stream)
    if dtype.hasobject:
        raise ValueError("objects are no numbers")
    if len(shape) != 2 or shape[1] != joints:
        raise InputError(f"{path}: {name} must have shape (N, {joints}), a column for each of {listed(robot.joints)}; got {shown(shape)}")
    if dtype.kind not in "iuf":
        raise InputError(f"{path}: {name} must hold real numbers, got dtype {str(dtype)[:80]}")
    check_count(shape[0], most, f"{path}: {name}")
    if not 0 <= shape[0] * joints * dtype.itemsize <= info.file_size:
        raise ValueError("the file ends before the array does, or its size is none")
    return info, shape, fortran, dtype


def judged(start: np.ndarray, goal: np.ndarray, robot: Robot) -> Problems:
    """Problems (N, D), each with the reason why it cannot be planned for."""
    reasons = [""] * len(start)
    slack = np.where(np.isfinite(robot.upper - robot.lower), ROUNDING * (robot.upper - robot.lower), 0.0)
    ends = np.stack([start, goal], axis=1)
    fits = (np.isfinite(ends) & (ends >= robot.lower - slack) & (ends <= robot.upper + slack)).all(axis=(1, 2))
    for row in np.flatnonzero(~fits):
        reasons[row] = _reason(start[row], goal[row], robot)
    return Problems(start, goal, tuple(reasons))


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
