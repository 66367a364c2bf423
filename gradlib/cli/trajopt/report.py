"""The report at the end of a run: the table, and why problems are unsolved."""

from __future__ import annotations

import numpy as np

from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.parts import Summary
from gradlib.trajectory.planning.robot import Robot

_SHOWN = 8


def problems(count: int) -> str:
    """A number of problems, in words."""
    return f"{count} problem{'s' * (count != 1)}"


def table(motion: Trajectories, solved: np.ndarray, robot: Robot, seconds: float) -> str:
    """The short table: solved, mean duration, largest fraction of each limit, time taken.

    Args:
        motion: N trajectories; solved: (N,) bool; robot: whose limits; seconds: that the job took.
    Returns: the text, without a final newline.
    """
    reasons = ["" if each else "unsolved" for each in solved]
    return summary_table(Summary.of(motion, reasons, robot, 0), seconds)


def summary_table(summary: Summary, seconds: float) -> str:
    """The same, of a summary."""
    rows = [("solved", f"{summary.solved} of {summary.problems}")]
    if summary.solved:
        _, least, most = summary.duration
        rows.append(("mean duration", f"{summary.mean_duration:.3f} s  (from {least:.3f} to {most:.3f} s)"))
        rows.append(("largest fraction of the limit", "  ".join(f"{name} {value:.4f}" for name, value in summary.used.items())))
    rows.append(("time taken", f"{seconds:.1f} s"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def unsolved_of(summary: Summary) -> list[str]:
    """A line for each of the first problems that are not solved and of the chunks that failed, and how many more there are."""
    lines = [f"problem {i} is unsolved: {reason}" for i, reason in summary.unsolved]
    failed = sorted(summary.failed.items())[:_SHOWN]
    lines += [f"chunk {chunk} could not be planned, --resume tries it again: {why}" for chunk, why in failed]
    more = summary.problems - summary.solved - len(summary.unsolved)
    return lines + ([f"... {more} more are not solved; every reason is in the parts"] if more else [])


def unsolved(reasons: list[str]) -> str:
    """A line for each of the first problems that are not solved, and how many more there are; "" when there is none."""
    lines = [f"problem {i} is unsolved: {reason}" for i, reason in enumerate(reasons) if reason]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"... and {len(lines) - _SHOWN} more; every reason is in trajectories.npz"]
    return "\n".join(lines)
