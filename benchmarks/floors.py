"""Writes FLOORS.md, the rows above 1.5 of torch's time and why, from the newest results: `python -m benchmarks.floors`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.summary import ROOT, newest

PAGE = ROOT / "benchmarks" / "FLOORS.md"
LIMIT = 1.5
NEAR = 0.75
"""From this part of gradlib's time on, NumPy's own is what takes it."""


def above(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of `ops` whose time is more than `LIMIT` times torch's; the largest ratio first."""
    rows = [row for row in found["suites"].get("ops", []) if row["ratio"].get("torch", 0) > LIMIT]
    yield from sorted(rows, key=lambda row: -row["ratio"]["torch"])


def reason(row: dict[str, Any], forward: dict[str, Any] | None) -> str:
    """What the time goes to, as far as the figures tell.

    Args:
        row: the row; forward: that of the same operation forward, for one with backward.
    """
    seconds = row["seconds"]
    if "numpy" in seconds:
        if seconds["numpy"]["median"] >= NEAR * seconds["gradlib"]["median"]:
            return "NumPy's own time"
        return "calls around NumPy" if row["size"] == "10" else "passes or calls around NumPy"
    if forward is not None and "numpy" in forward["seconds"] and reason(forward, None) == "NumPy's own time":
        return "NumPy's own time forward"
    return "calls" if row["size"] == "10" else "passes or calls; no form of NumPy's is timed beside"


def page(found: dict[str, Any]) -> str:
    """The page for one file of results."""
    rows = {(row["name"], row["size"], row["dtype"]): row for row in found["suites"].get("ops", [])}
    listed, machine = list(above(found)), found["machine"]
    lines = [
        "# Operations above 1.5 times torch's time",
        "",
        f"Of {len(rows)} rows of `gradlib bench ops` {len(listed)}, on {machine['cpu']}, {machine['date']}. Times in",
        "microseconds; the best form in NumPy or SciPy beside. Written by `python -m benchmarks.floors`.",
        "",
        "| operation | size | dtype | gradlib | torch | NumPy | ratio | what takes the time |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in listed:
        took = {name: f"{1e6 * figures['median']:.3g}" for name, figures in row["seconds"].items()}
        name, *kind = row["name"], row["size"], row["dtype"]
        forward = rows.get((name.replace("with backward", "forward"), *kind)) if name.endswith("with backward") else None
        ratio = f"{row['ratio']['torch']:.2f}"
        cells = (name, *kind, took["gradlib"], took["torch"], took.get("numpy", ""), ratio, reason(row, forward))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(newest()), encoding="utf-8")
