"""Files of problems, in every form that is read, and results in parts, as the tests of them share them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tests.trajectory.planning.robots import PANDA, pairs


def problems_file(path: Path, count: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Write problems in the form of the name's ending. Returns: start and goal."""
    start, goal = pairs(count, seed)
    names = [f"{end}_{joint}" for end in ("start", "goal") for joint in PANDA.joints]
    rows = np.concatenate([start, goal], axis=1)
    if path.suffix == ".npz":
        np.savez_compressed(path, start=start, goal=np.asfortranarray(goal))
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([names[::-1], *([repr(float(x)) for x in row[::-1]] for row in rows)])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: rows[:, i] for i, name in enumerate(names)}), path, row_group_size=13)
    return start, goal


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
