"""Whether the calling thread captures a CUDA graph, for what is done otherwise then: numbers that are drawn, and what CuPy refuses."""

from __future__ import annotations

import threading


class Capture:
    """A capture under way."""


class Capturing(threading.local):
    """What the calling thread captures; None while it does not."""

    capture: Capture | None = None


capturing = Capturing()
