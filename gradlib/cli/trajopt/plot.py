"""The picture of the results: every joint's position, velocity, acceleration and jerk against its limits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Panel:
    """One quantity of one joint: where it is drawn and what range of values it shows.

    Attributes:
        part: of the trajectories, such as "velocity"; joint: its column there.
        left, bottom, right, top: in the picture, whose width and height are 1.
        low, high: the values at the bottom and at the top; limits: those that are drawn; note: what is said of their use.
    """

    part: str
    joint: int
    left: float
    bottom: float
    right: float
    top: float
    low: float
    high: float
    limits: tuple[float, ...]
    note: str


def write_png(path: Path, motion: Trajectories, solved: np.ndarray, robot: Robot) -> None:
    """Draw blocks of up to 8 joints (the first 32 in all), a column for each, of rows of position, velocity, acceleration, jerk.

    The solved problems are drawn thin (the first 128) over time in seconds, the one of median duration thick, the limits dashed; each
    panel says how much of its limit is used at most. Where that is little of a jerk limit, which it often is, the panel shows what there
    is and says the limit.

    Panels are no Axes of matplotlib, 28 of which take a second by themselves: lines of one kind are one collection for all panels.

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
    good = np.flatnonzero(solved)
    rows = good[:LINES]
    typical = good[np.argsort(motion.dt[good])[len(good) // 2]] if len(good) else None
    made = panels(figure, motion, good, robot, blocks, across)
    ends = (motion.position.shape[1] - 1) * float(motion.dt[rows if typical is None else [*rows, typical]].max(initial=0)) or 1.0
    times = (-0.05 * ends, 1.05 * ends)
    _frames(figure, made, robot, times, across)
    alpha = float(np.clip(8 / max(len(rows), 1), 0.2, 0.6))
    for part, _, color in _ROWS:
        row = [panel for panel in made if panel.part == part]
        _lines(figure, _curves(row, motion, rows, times), colors=color, linewidths=0.6, alpha=alpha)
        if typical is not None:
            _lines(figure, _curves(row, motion, np.array([typical]), times), colors=color, linewidths=1.8, capstyle="round")
    figure.supxlabel("time in seconds", fontsize=9, y=0.12 / height)
    figure.suptitle(_title(robot, len(solved), len(good), shown, len(rows)), fontsize=11, y=1 - 0.2 / height, parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name of letters that the font lacks is drawn as boxes
        figure.savefig(path, format="png", pil_kwargs={"compress_level": 3})


def panels(figure: Any, motion: Trajectories, good: np.ndarray, robot: Robot, blocks: int, across: int) -> list[Panel]:
    """The panels of a picture, joint by joint, of so many blocks with so many joints across.

    Args:
        figure: the picture; motion: N trajectories; good: the numbers of those solved; robot: whose limits.
    """
    width, height = figure.get_size_inches()
    sides = {"left": 0.9 / width, "right": 1 - 0.2 / width, "bottom": 0.55 / height, "top": 1 - 0.8 / height}
    outer = figure.add_gridspec(blocks, 1, hspace=0.14, **sides)
    places = [outer[block].subgridspec(4, across, wspace=0.33, hspace=0.1).get_grid_positions(figure) for block in range(blocks)]
    made = []
    for joint in range(min(len(robot.joints), JOINTS)):
        block, column = divmod(joint, across)
        bottoms, tops, lefts, rights = (side.tolist() for side in places[block])
        for part, order, _ in _ROWS:
            box = (lefts[column], bottoms[order], rights[column], tops[order])
            made.append(Panel(part, joint, *box, *_range(robot, part, joint, getattr(motion, part)[good, :, joint])))
    return made


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


def _range(robot: Robot, part: str, joint: int, values: np.ndarray) -> tuple[float, float, tuple[float, ...], str]:
    """The lowest and highest value that a panel shows, the limits drawn in it, and how much of them is used."""
    if part == "position":
        low, high = float(robot.lower[joint]), float(robot.upper[joint])
    else:
        high = float(getattr(robot, part)[joint])
        low = -high
    if not np.isfinite(high - low):
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        margin = 0.05 * (high - low) or 1.0
        return low - margin, high + margin, (), "no limit"
    used = float(np.abs(values - (low + high) / 2).max() / ((high - low) / 2)) if values.size and high > low else 0.0
    note = f"{100 * used:.3g} %" if values.size and high > low else ""
    limits: tuple[float, ...] = (low, high)
    if part == "jerk" and 0 < used < 0.5:  # often far from its limit, at whose scale nothing would be seen
        note += f" of ±{high:g}"
        low, high, limits = -used * high, used * high, ()
    margin = 0.16 * (high - low) or 1.0
    return low - margin, high + margin, limits, note


def _frames(figure: Any, made: list[Panel], robot: Robot, times: tuple[float, float], across: int) -> None:
    """Draw what surrounds the curves of all panels: grids, frames, ticks with their numbers, limits, names and notes."""
    width, height = 72 * figure.get_size_inches()  # in points, of which the distances below are some
    grid, frames, ticks, limits = [], [], [], []
    seconds, numbers, _ = _numbers(*times, 5)
    for panel in made:
        order = next(order for part, order, _ in _ROWS if part == panel.part)
        left, bottom, right, top = panel.left, panel.bottom, panel.right, panel.top
        frames.append([(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)])
        limits += [[(left, y), (right, y)] for y in _heights(panel, np.array(panel.limits))]
        across_x = left + (right - left) * (seconds - times[0]) / (times[1] - times[0])
        grid += [[(x, bottom), (x, top)] for x in across_x]
        ticks += [[(x, bottom), (x, bottom - 2 / height)] for x in across_x]
        if panel.part == "jerk":
            for x, number in zip(across_x, numbers, strict=True):
                figure.text(x, bottom - 5.5 / height, number, ha="center", va="top", fontsize=7)
        values, texts, factor = _numbers(panel.low, panel.high, 8)
        heights = _heights(panel, values)
        grid += [[(left, y), (right, y)] for y in heights]
        ticks += [[(left, y), (left - 2 / width, y)] for y in heights]
        for y, number in zip(heights, texts, strict=True):
            figure.text(left - 5.5 / width, y, number, ha="right", va="center_baseline", fontsize=7)
        if factor:
            figure.text(left, top + 2 / height, factor, fontsize=7)
        figure.text(right - 4 / width, top - 3 / height, panel.note, ha="right", va="top", fontsize=7, color="#555555")
        column = panel.joint % across
        if order == 0:
            name, middle = _short(robot.joints[panel.joint]), (left + right) / 2
            figure.text(middle, top + 6 / height, name, ha="center", fontsize=9, color="#222222", parse_math=False)
        if column == 0 or (order == 0 and robot.units[panel.joint] != robot.units[panel.joint - 1]):
            unit = robot.units[panel.joint] + ("", "/s", "/s²", "/s³")[order]
            beside = left - (9 + 4.5 * max(map(len, texts), default=0)) / width  # a digit of 7 points is 4.5 wide
            label = f"{panel.part}\n{unit}" if column == 0 else unit
            figure.text(beside, (bottom + top) / 2, label, ha="right", va="center", ma="center", rotation=90, fontsize=9)
    _lines(figure, grid, colors="#eeeeee", linewidths=0.6)
    _lines(figure, frames, colors="#bbbbbb", linewidths=0.8, zorder=3)
    _lines(figure, ticks, colors="#999999", linewidths=0.8, zorder=3)
    _lines(figure, limits, colors=_LIMIT, linewidths=0.9, linestyles=[(0, (4, 3))], zorder=2)


def _curves(row: list[Panel], motion: Trajectories, rows: np.ndarray, times: tuple[float, float]) -> list[np.ndarray]:
    """A line in each panel of a row of them for each of these problems."""
    spent = (np.arange(motion.position.shape[1]) * motion.dt[rows, None] - times[0]) / (times[1] - times[0])
    lines: list[np.ndarray] = []
    for panel in row:
        across = panel.left + (panel.right - panel.left) * spent
        values = getattr(motion, panel.part)[rows, :, panel.joint].clip(panel.low, panel.high)  # a neighbour begins where a panel ends
        lines.extend(np.stack([across, _heights(panel, values)], axis=-1))
    return lines


def _heights(panel: Panel, values: np.ndarray) -> np.ndarray:
    """The heights of values in a panel."""
    return panel.bottom + (panel.top - panel.bottom) * ((values - panel.low) / (panel.high - panel.low))


def _numbers(low: float, high: float, most: int) -> tuple[np.ndarray, list[str], str]:
    """Round numbers within a range, as texts too, and a factor of them all that the texts leave out."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    found = np.asarray(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    found = found[(found >= low) & (found <= high)]
    writer = ScalarFormatter()
    writer.create_dummy_axis()
    axis: Any = writer.axis
    axis.set_view_interval(low, high)
    return found, writer.format_ticks(found.tolist()), writer.get_offset()


def _lines(figure: Any, lines: Sequence[Any], **look: Any) -> None:
    """Draw lines in the picture's coordinates, all of one look."""
    from matplotlib.collections import LineCollection

    figure.add_artist(LineCollection(lines, transform=figure.transFigure, **look))
