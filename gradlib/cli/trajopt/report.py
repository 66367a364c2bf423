"""What a person sees: the progress bar and the table at the end."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import numpy as np

from gradlib.cli.trajopt.check import Trajectories, fractions
from gradlib.cli.trajopt.robot import Robot

_WIDTH = 32
_SHOWN = 8


class Progress:
    """A bar that fills up on one line of a terminal. Where the output is no terminal, only the finished bar is printed.

    Args:
        label: what is going on; stream: where to draw, standard error by default.
    """

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.fraction = 0.0
        self.drawn = -1.0
        self.began = time.perf_counter()

    def __call__(self, fraction: float) -> None:
        """Say how much of the work is done, from 0 to 1. The bar never goes back."""
        self.fraction = max(self.fraction, min(1.0, fraction))
        now = time.perf_counter()
        if self.live and now - self.drawn > 0.05:
            self.drawn = now
            self._draw("\r", "")

    def finish(self) -> None:
        """Draw the full bar and end its line."""
        self.fraction = 1.0
        self._draw("\r" if self.live else "", "\n")

    def _draw(self, before: str, after: str) -> None:
        filled = round(self.fraction * _WIDTH)
        bar = "#" * filled + "." * (_WIDTH - filled)
        spent = time.perf_counter() - self.began
        self.stream.write(f"{before}{self.label} [{bar}] {self.fraction:4.0%} {spent:5.1f} s{after}")
        self.stream.flush()


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
