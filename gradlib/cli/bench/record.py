"""The file of a run: its machine, its versions, and the rows of each suite, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def record_text(record: Mapping[str, Any]) -> str:
    """What the file says, a row to a line, so that two versions of it differ in the lines of the rows that moved."""
    parts = [f"{json.dumps(name)}: {json.dumps(part, indent=1)}" for name, part in record.items() if name != "suites"]
    suites = [f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in record["suites"].items()]
    return "{\n" + ",\n".join([*parts, '"suites": {\n' + ",\n".join(suites) + "\n}"]) + "\n}\n"


def read_record(path: Path) -> dict[str, Any]:
    """A file that `gradlib bench --json` wrote.

    Raises: ValueError when it is none; OSError when it cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        suites = found["suites"]
        for rows in suites.values():
            for row in rows:
                row_key(row), row["seconds"], row["ratio"], row["noise"]
        dict(found["machine"]), dict(found["versions"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no file of `gradlib bench --json`: {type(error).__name__}: {error}") from error
    return found


def row_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a row from the others of its suite."""
    return tuple(str(row[name]) for name in ("name", "size", "dtype", "device"))
