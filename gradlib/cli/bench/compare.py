"""Compare two files of results: which rows became faster or slower."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEAST = 0.10
"""A smaller change is never called one."""


@dataclass(frozen=True)
class Change:
    """A row that moved beyond the noise.

    Attributes:
        row: its name; figure: what was compared, "ratio to torch" or "seconds"; old, new: what it was and is.
    """

    row: str
    figure: str
    old: float
    new: float

    @property
    def factor(self) -> float:
        return self.new / self.old


def read(path: Path) -> dict[str, Any]:
    """A file that `gradlib bench --json` wrote.

    Raises: ValueError when it is none; OSError when it cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        suites = found["suites"]
        for rows in suites.values():
            for row in rows:
                _key(row), row["seconds"], row["ratio"], row["noise"]
        dict(found["machine"]), dict(found["versions"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no file of `gradlib bench --json`: {type(error).__name__}: {error}") from error
    return found


def circumstances(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What else differs between two files, of machines and libraries, and may be why rows moved."""
    for part, known in (("machine", {"date", "speed"}), ("versions", {"gradlib"})):
        before, now = old[part], new[part]
        for name in dict.fromkeys([*before, *now]):
            if name not in known and before.get(name) != now.get(name):
                yield f"{name}: {before.get(name, 'none')} -> {now.get(name, 'none')}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float | None = None) -> Iterator[Change]:
    """The rows of both that differ by more than the noise of both and `LEAST`.

    Args:
        old, new: the suites of two files.
        tolerance: look at ratios alone, and for this factor in place of `LEAST`; times depend on who else uses the machine.

    Where both compared with the same library, the ratios are compared, which does not depend on how busy the machine was; else the figures.
    """
    for suite, rows in new.items():
        before = {_key(row): row for row in old.get(suite, [])}
        for row in rows:
            other = before.get(_key(row))
            if other is None or row["error"] or other.get("error"):
                continue
            shared = [name for name in row["ratio"] if name in other["ratio"]]
            if shared:
                peer = shared[0]
                figure, was, now = f"ratio to {peer}", other["ratio"][peer], row["ratio"][peer]
                noise = row["noise"].get(peer, 0) + other["noise"].get(peer, 0)
            elif tolerance is not None:
                continue
            else:
                figure, was, now = _unit(row), *(x["seconds"]["gradlib"]["median"] for x in (other, row))
                noise = sum(x["seconds"]["gradlib"]["spread"] for x in (other, row))
            if was > 0 and now > 0 and abs(now - was) / min(now, was) > max(LEAST if tolerance is None else tolerance - 1, noise):
                yield Change(" ".join((suite, *(part for part in _key(row) if part))), figure, was, now)


def _unit(row: Mapping[str, Any]) -> str:
    return {"s": "seconds"}.get(row["unit"], row["unit"])


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("name", "size", "dtype", "device"))
