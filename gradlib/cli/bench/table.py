"""Rows as a table in the terminal: by rich where it is installed, in plain columns elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from gradlib.cli.bench.case import Row

_COLUMNS = ("what", "size", "dtype", "gradlib", "against", "ratio", "at most", "")


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a suite's rows and a line that sums them up."""
    lines = [line for row in rows for line in cells(row)]
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _plain(title, lines)
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 160
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for k, column in enumerate(_COLUMNS):
            table.add_column(column, justify="right" if 3 <= k <= 6 else "left", overflow="fold", no_wrap=1 < k < 7)
        for line in lines:
            style = {"MISSED": "red", "noisy": "yellow"}.get(line[-1]) or ("red" if line[-1].startswith("error") else None)
            table.add_row(*line, style=style)
        console.print(table)
    print(summary(rows))


def _plain(title: str, lines: Iterable[tuple[str, ...]]) -> None:
    whole = [_COLUMNS, *lines]
    widths = [max(len(line[k]) for line in whole) for k in range(len(_COLUMNS) - 1)]
    print(title)
    for line in whole:
        left = [cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(line[3:7], widths[3:], strict=True)]
        print("  ".join([*left, *right, line[7]]).rstrip())


def cells(row: Row) -> list[tuple[str, ...]]:
    """A line for each library that gradlib was compared with; one line where there is none."""
    if row.error:
        return [(row.name, row.size, row.dtype, "", "", "", "", f"error: {row.error}")]
    ours = figure(row.seconds["gradlib"]["median"], row.unit)
    first = (row.name, row.size, row.dtype, ours)
    if not row.ratio:
        limit = row.limits.get("gradlib")
        judged = ("", "") if limit is None else (figure(limit, row.unit), _verdict(row, "gradlib"))
        return [(*first, "", "", *judged)]
    made: list[tuple[str, ...]] = []
    for k, (peer, ratio) in enumerate(row.ratio.items()):
        limit = row.limits.get(peer)
        verdict = _verdict(row, peer)
        against = f"{peer} {figure(row.seconds[peer]['median'], row.unit)}"
        made.append((*(first if k == 0 else ("", "", "", "")), against, f"{ratio:.2f}", "" if limit is None else f"{limit:g}", verdict))
    return made


def _verdict(row: Row, name: str) -> str:
    if row.noisy and (name in row.limits or not row.limits):
        return "noisy"
    return "" if name not in row.limits else "MISSED" if name in row.missed else "reached"


def summary(rows: Sequence[Row]) -> str:
    """A summary against each library or other way: the geometric mean of the ratios, and how many are over 1.5."""
    parts = []
    for peer in dict.fromkeys(name for row in rows if row.unit == "s" for name in row.ratio):
        ratios = [row.ratio[peer] for row in rows if row.unit == "s" and peer in row.ratio]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        parts.append(f"{peer}: {mean:.2f} of the time over {counted(len(ratios))} ({sum(r > 1.5 for r in ratios)} above 1.5)")
    wrong = sum(row.error is not None for row in rows)
    return "; ".join(parts + ([f"{wrong} with an error"] if wrong else [])) or counted(len(rows))


def counted(rows: int) -> str:
    """A number of rows in words."""
    return f"{rows} row" if rows == 1 else f"{rows} rows"


def figure(value: float, unit: str) -> str:
    """A figure with its unit, of three digits."""
    if unit == "bytes":
        return _scaled(value, (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))
    if unit == "s":
        return _scaled(value, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)))
    return f"{value:.2f}"


def _scaled(value: float, units: Iterable[tuple[str, float]]) -> str:
    *larger, smallest = units
    name, scale = next((unit for unit in larger if value >= unit[1]), smallest)
    digits = value / scale
    return f"{digits:.0f} {name}" if digits >= 99.5 else f"{digits:.3g} {name}"


def facts(found: dict[str, Any]) -> str:
    """The machine in a few lines."""
    shown = {name: value for name, value in found.items() if name != "speed"}
    for device, speed in found["speed"].items():
        shown[f"{device} speed"] = (
            f"{speed['copy_bytes_per_second'] / 1e9:.3g} GB/s in a large copy, "
            f"{speed['product_flops'] / 1e9:.3g} GFLOP/s in a large product"
        )
    return "\n".join(f"{name}: {value}" for name, value in shown.items())
