"""What a person sees at the end: the table, and why problems are unsolved."""

from __future__ import annotations

import numpy as np

from gradlib.trajectory.planning.check import Trajectories, fractions
from gradlib.trajectory.planning.robot import Robot

_SHOWN = 8


def problems(count: int) -> str:
    """How many problems, in words."""
    return f"{count} problem{'s' * (count != 1)}"


def table(motion: Trajectories, solved: np.ndarray, robot: Robot, seconds: float) -> str:
    """The short table: solved, mean duration, largest fraction of each limit, time taken.

    Args:
        motion: N trajectories; solved: (N,) bool; robot: whose limits; seconds: that the job took.
    Returns: the text, without a final newline.
    """
    rows = [("solved", f"{int(solved.sum())} of {len(solved)}")]
    if solved.any():
        good = Trajectories(*(getattr(motion, name)[solved] for name in ("position", "velocity", "acceleration", "jerk", "dt")))
        duration = good.duration()
        rows.append(("mean duration", f"{duration.mean():.3f} s  (from {duration.min():.3f} to {duration.max():.3f} s)"))
        used = {name: values.max() for name, values in fractions(good, robot).items()}
        rows.append(("largest fraction of the limit", "  ".join(f"{name} {value:.4f}" for name, value in used.items())))
    rows.append(("time taken", f"{seconds:.1f} s"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def unsolved(reasons: list[str]) -> str:
    """A line for each of the first problems that are not solved, and how many more there are; "" when there is none."""
    lines = [f"problem {i} is unsolved: {reason}" for i, reason in enumerate(reasons) if reason]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"... and {len(lines) - _SHOWN} more; every reason is in trajectories.npz"]
    return "\n".join(lines)
