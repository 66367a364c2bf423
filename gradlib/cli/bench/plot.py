"""Pictures of the rows: bars of the ratios to each library, and time against size beside what the memory's bandwidth allows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from gradlib.cli.bench.case import Row

# Okabe and Ito's colours, which people who see red and green alike can tell apart.
COLORS = {
    "gradlib": "#0072b2",
    "torch": "#d55e00",
    "numpy": "#555555",
    "autograd": "#009e73",
    "mygrad": "#cc79a7",
    "jax": "#e69f00",
    "cupy": "#56b4e9",
}
MOST = 40
"""More bars than this are not legible; the largest ratios are shown then."""


def pictures(suite: str, rows: Sequence[Row], bandwidth: float | None) -> dict[str, Any]:
    """The figures of a suite, by the name of their file without its ending; none for rows that there is nothing to draw of.

    Args:
        bandwidth: of a copy, in bytes a second, to draw as the limit; None where it is not known.
    """
    found = {}
    if any(row.ratio for row in rows):
        found[suite] = _bars(suite, [row for row in rows if row.ratio])
    lines = _sizes(rows)
    if lines:
        found[f"{suite}-size"] = _against_size(suite, lines, bandwidth)
    return found


def save(figure: Any, path: Path, form: str) -> None:
    """Write a figure as "png" or "svg"."""
    figure.savefig(path, format=form, bbox_inches="tight", facecolor="white", metadata={"Date": None} if form == "svg" else None)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110)
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _bars(suite: str, rows: Sequence[Row]) -> Any:
    """A bar for each row and library: how many times gradlib's figure is the library's."""
    shown = sorted(rows, key=lambda row: -next(iter(row.ratio.values())))[:MOST]
    left_out = len(rows) - len(shown)
    shown.reverse()
    peers = list(dict.fromkeys(name for row in reversed(shown) for name in row.ratio))
    ends = list(accumulate(len(row.ratio) + 0.5 for row in shown))  # in bars, which are all as thick, so that their numbers have room
    middles = [end - (len(row.ratio) + 0.5) / 2 for end, row in zip(ends, shown, strict=True)]
    figure, axes = _figure(9.0, 1.2 + 0.17 * ends[-1])
    for peer in peers:
        bars = [(middle, row.ratio) for middle, row in zip(middles, shown, strict=True) if peer in row.ratio]
        places = [middle + (len(ratio) - 1) / 2 - list(ratio).index(peer) for middle, ratio in bars]
        values = [ratio[peer] for _, ratio in bars]
        axes.barh(places, [v - 1 for v in values], 0.95, left=1.0, color=COLORS.get(peer, "#999999"), label=peer)
        for place, value in zip(places, values, strict=True):
            outwards = value >= 1
            axes.annotate(
                f"{value:.2f}", (value, place), (3 if outwards else -3, 0), textcoords="offset points", fontsize=7, va="center",
                ha="left" if outwards else "right",
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low, high = min(min(r.ratio.values()) for r in shown), max(max(r.ratio.values()) for r in shown)
    axes.set_xlim(min(low, 0.9) / 1.35, max(high, 1.1) * 1.35)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(middles, [" ".join(filter(None, (r.name, r.size, r.dtype))) for r in shown], fontsize=8)
    axes.set_ylim(-0.25, ends[-1] + 0.25)
    axes.set_xlabel("gradlib's figure over that of the other, by colour: left of 1 gradlib takes less")
    chosen = f": {MOST} of {len(rows)} rows, those of the largest ratios" if left_out else ""
    axes.set_title(f"{suite}{chosen}", loc="left", fontweight="bold")
    below = -0.55 / figure.get_size_inches()[1] - 0.02
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, below), ncols=len(peers), frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return figure


def _sizes(rows: Sequence[Row]) -> dict[str, list[tuple[int, Row]]]:
    """Rows of one name at several batches "B n, ...", float32, by name and what else the size says."""
    lines: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for row in rows:
        if row.dtype == "float32" and row.seconds and (found := re.match(r"B (\d+), (.*)", row.size)):
            lines[f"{row.name}, {found[2]}"].append((int(found[1]), row))
    first = next(iter(lines), "").rpartition("H ")[2]
    return {name: sorted(line, key=lambda pair: pair[0]) for name, line in lines.items() if len(line) > 2 and name.endswith(first)}


def _against_size(suite: str, lines: dict[str, list[tuple[int, Row]]], bandwidth: float | None) -> Any:
    """A panel for each name: seconds of each library against the batch, and the least that moving the bytes takes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(3, len(lines))
    down = -(-len(lines) // across)
    figure = Figure(figsize=(3.6 * across, 3.0 * down), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for k, (name, line) in enumerate(lines.items()):
        axes = figure.add_subplot(down, across, k + 1)
        for peer in dict.fromkeys(peer for _, row in line for peer in row.seconds):
            batches = [batch for batch, row in line if peer in row.seconds]
            seconds = [row.seconds[peer]["median"] for _, row in line if peer in row.seconds]
            axes.plot(batches, seconds, "o-", markersize=3, linewidth=1.5, color=COLORS.get(peer, "#999999"), label=peer)
        if bandwidth and all("bandwidth" in row.fraction for _, row in line):
            least = [row.fraction["bandwidth"] * row.seconds["gradlib"]["median"] for _, row in line]
            axes.plot([batch for batch, _ in line], least, "k--", linewidth=1, label="the bytes at copy speed")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(name, fontsize=8)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=7)
        if k >= len(lines) - across:
            axes.set_xlabel("batch", fontsize=8)
        if k % across == 0:
            axes.set_ylabel("seconds", fontsize=8)
        if k == 0:
            axes.legend(fontsize=7, frameon=False)
    figure.suptitle(suite, fontsize=10, fontweight="bold")
    return figure
