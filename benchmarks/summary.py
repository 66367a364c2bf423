"""Writes the README's performance table from the newest results: `python -m benchmarks.summary`.

Figures stand nowhere else, and none is typed: tests/test_benchmarks.py checks that the table is what this makes of benchmarks/results/.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- performance -->\n", "<!-- end of performance -->\n"

ROWS = (
    ("overhead", "chain of 100 operations, forward and backward", ""),
    ("overhead", "chain of 100 operations, forward under no_grad", ""),
    ("overhead", "10 custom Functions, both passes", ""),
    ("models", "MLP step", ""),
    ("models", "LSTM, both passes", ""),
    ("models", "PINN, u_xx and its gradient", ""),
    ("models", "Rosenbrock by L-BFGS", ""),
    ("trajectory", "step_acceleration with backward", "B 1, H 32, D 7"),
    ("trajectory", "step_acceleration with backward", "B 8192, H 32, D 7"),
    ("trajectory", "smoothness_cost with backward", "B 8192, H 32, D 7"),
)
"""The suite, name and start of the size of the rows that the README shows."""


def table(found: dict[str, Any]) -> str:
    """The README's section for one file of results."""
    machine, versions = found["machine"], found["versions"]
    where = machine.get("gpu") or machine["cpu"]
    threads = "one thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    others = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "gradlib")
    lines = [
        f"gradlib's time as a multiple of each library's, in one run on {where}, {threads}, {machine['date']}",
        f"({others}). Trajectories are compiled by numba; `numpy path` is gradlib without it." if "numba" in versions else f"({others}).",
        "",
        "| program | gradlib | ratios |",
        "| --- | --- | --- |",
    ]
    for suite, name, size in ROWS:
        for row in found["suites"].get(suite, []):
            if row["name"] == name and row["size"].startswith(size) and row["dtype"] in ("float32", "") and not row["error"]:
                ratios = ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in row["ratio"].items())
                shown = name + (f" ({row['size']})" if size else "")
                lines.append(f"| {shown} | {1e3 * row['seconds']['gradlib']['median']:.3g} ms | {ratios} |")
    rows = found["suites"].get("ops", [])
    for way in ("forward", "with backward"):
        means = []
        for size in dict.fromkeys(row["size"] for row in rows):
            over = [r["ratio"]["torch"] for r in rows if r["size"] == size and r["name"].endswith(way) and "torch" in r["ratio"]]
            if over:
                of_what = f"in shape {size}" if "x" in size else f"at {size} elements"
                means.append(f"{math.exp(sum(map(math.log, over)) / len(over)):.2f} {of_what}")
        if means:
            lines.append(f"| every operation {way}, geometric mean | | torch {', '.join(means)} |")
    return "\n".join(lines) + "\n"


def newest() -> dict[str, Any]:
    """The newest results of a CPU; those of GPUs, by ci/gpu.sh, may hold a part of the suites, or none."""
    found = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob("cpu-*.json")]
    return max(found, key=lambda of: (of[1]["machine"]["date"], of[0]))[1]


def written(readme: str, section: str) -> str:
    """The README with its section replaced."""
    return re.sub(f"(?s){re.escape(BEGIN)}.*{re.escape(END)}", lambda _: BEGIN + section + END, readme)


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(written(path.read_text(encoding="utf-8"), table(newest())), encoding="utf-8")
