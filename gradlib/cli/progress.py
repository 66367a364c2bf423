"""The progress bar of a job that takes a while.

A library's bar hides the cursor and draws from a thread; a process that a signal may end at any moment would leave the cursor hidden.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

_WIDTH = 32


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
        self.rate = ""
        self.drawn = -1.0
        self.began = time.perf_counter()

    def __call__(self, fraction: float, rate: str = "") -> None:
        """Say how much of the work is done, from 0 to 1, and how fast it goes. The bar never goes back."""
        self.rate = rate
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
        left = f", {spent / self.fraction - spent:4.0f} s left" if 0.02 < self.fraction < 1 else " " * 13
        rate = self.rate and f", {self.rate}"
        with contextlib.suppress(OSError):  # nobody looks; the job goes on
            self.stream.write(f"{before}{self.label} [{bar}] {self.fraction:4.0%} {spent:5.1f} s{rate}{left if self.live else ''}{after}")
            self.stream.flush()
