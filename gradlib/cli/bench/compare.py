"""Compare two files of results: which rows became faster or slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradlib.cli.bench.record import row_key

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
        before = {row_key(row): row for row in old.get(suite, [])}
        for row in rows:
            other = before.get(row_key(row))
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
                yield Change(" ".join((suite, *(part for part in row_key(row) if part))), figure, was, now)


def _unit(row: Mapping[str, Any]) -> str:
    return {"s": "seconds"}.get(row["unit"], row["unit"])
