"""The picture of the results: every joint's position, velocity, acceleration and jerk against its limits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.cli.trajopt import report
from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.robot import Robot

ACROSS = 8  # joints beside each other; more go below, so that panels stay readable where a picture is fitted to a screen
JOINTS = 32  # more of them only make the picture large
NAME = 24  # letters of a joint's name over a panel
LINES = 128  # more lines than this only make the picture slow
_ROWS = (("position", 0, "#3b6fb6"), ("velocity", 1, "#2a9d8f"), ("acceleration", 2, "#c77d1f"), ("jerk", 3, "#8e5aa8"))
_LIMIT = "#b3261e"


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def write_png(path: Path, motion: Trajectories, solved: np.ndarray, robot: Robot) -> None:
    """Draw blocks of up to 8 joints (the first 32 in all), a column for each, of rows of position, velocity, acceleration, jerk.

    The solved problems are drawn thin (the first 128) over time in seconds, the one of median duration thick, the limits dashed; each
    panel says how much of its limit is used at most. Where that is little of a jerk limit, which it often is, the panel shows what there
    is and says the limit.

    Args:
        path: the file; motion: N trajectories; solved: (N,) bool; robot: whose limits.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = min(len(robot.joints), JOINTS)
    blocks = -(-shown // ACROSS)
    across = -(-shown // blocks)
    width, height = 2.2 * max(across, 3) + 1.0, 7.6 * blocks + 1.0
    figure = Figure(figsize=(width, height), dpi=110)
    FigureCanvasAgg(figure)
    sides = {"left": 0.9 / width, "right": 1 - 0.2 / width, "bottom": 0.55 / height, "top": 1 - 0.8 / height}
    outer = figure.add_gridspec(blocks, 1, hspace=0.14, **sides)
    grids = [outer[block].subgridspec(4, across, wspace=0.33, hspace=0.1) for block in range(blocks)]
    first = None
    good = np.flatnonzero(solved)
    rows = good[:LINES]
    typical = good[np.argsort(motion.dt[good])[len(good) // 2]] if len(good) else None
    for joint in range(shown):
        block, column = divmod(joint, across)
        for part, order, color in _ROWS:
            axes = figure.add_subplot(grids[block][order, column], sharex=first)
            first = first or axes
            _panel(axes, motion, part, rows, typical, joint, color)
            _limits(axes, robot, part, joint, motion, good)
            axes.tick_params(labelbottom=part == "jerk")
            if part == "position":
                axes.set_title(_short(robot.joints[joint]), fontsize=9, color="#222222", parse_math=False)
            if column == 0 or (order == 0 and robot.units[joint] != robot.units[joint - 1]):
                unit = robot.units[joint] + ("", "/s", "/s²", "/s³")[order]
                axes.set_ylabel(f"{part}\n{unit}" if column == 0 else unit, fontsize=9)
    figure.supxlabel("time in seconds", fontsize=9, y=0.12 / height)
    figure.suptitle(_title(robot, len(solved), len(good), shown, len(rows)), fontsize=11, y=1 - 0.2 / height, parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name of letters that the font lacks is drawn as boxes
        figure.savefig(path, format="png")


def _short(name: str) -> str:
    """A name that fits over a panel: its beginning and its end."""
    return name if len(name) <= NAME else f"{name[: NAME // 2 - 1]}…{name[-NAME // 2 :]}"


def _title(robot: Robot, problems: int, good: int, shown: int, drawn: int) -> str:
    text = f"{robot.name}: {good} of {report.problems(problems)} solved"
    if drawn < good:
        text += f", {drawn} drawn"
    if shown < len(robot.joints):
        text += f", the first {shown} of {len(robot.joints)} joints"
    return text + "; thick: median duration; dashed: limits"


def _panel(axes: Any, motion: Trajectories, part: str, rows: np.ndarray, typical: int | None, column: int, color: str) -> None:
    """The lines of one panel."""
    from matplotlib.collections import LineCollection

    values = getattr(motion, part)
    steps = np.arange(values.shape[1])
    lines = [np.column_stack([steps * float(motion.dt[row]), values[row, :, column]]) for row in rows]
    axes.add_collection(LineCollection(lines, colors=color, linewidths=0.6, alpha=float(np.clip(8 / max(len(rows), 1), 0.2, 0.6))))
    if typical is not None:
        axes.plot(steps * float(motion.dt[typical]), values[typical, :, column], color=color, linewidth=1.8)
    axes.tick_params(labelsize=7, length=2, color="#999999")
    axes.grid(True, color="#eeeeee", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_color("#bbbbbb")


def _limits(axes: Any, robot: Robot, part: str, column: int, motion: Trajectories, good: np.ndarray) -> None:
    """The limits of one panel, the range that shows them, and how much of them is used."""
    if part == "position":
        low, high = robot.lower[column], robot.upper[column]
    else:
        high = getattr(robot, part)[column]
        low = -high
    values = getattr(motion, part)[good, :, column]
    if not np.isfinite(high - low):
        axes.autoscale_view()
        axes.text(0.96, 0.95, "no limit", transform=axes.transAxes, ha="right", va="top", fontsize=7, color="#555555")
        return
    used = np.abs(values - (low + high) / 2).max() / ((high - low) / 2) if values.size and high > low else 0.0
    note = f"{100 * used:.3g} %" if values.size and high > low else ""
    if part == "jerk" and 0 < used < 0.5:  # often far from its limit, at whose scale nothing would be seen
        note += f" of ±{high:g}"
        low, high = -used * high, used * high
    else:
        for limit in (low, high):
            axes.axhline(limit, color=_LIMIT, linewidth=0.9, linestyle=(0, (4, 3)))
    margin = 0.16 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)
    axes.text(0.97, 0.975, note, transform=axes.transAxes, ha="right", va="top", fontsize=7, color="#555555")
