"""Whether the calling thread captures a CUDA graph, and what is done otherwise then: numbers that are drawn, and what CuPy refuses.

The kernels for it are those of ``gradlib.cuda``, which puts them here when it is imported: this package cannot name it.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Draw(Protocol):
    """Draws random numbers on the current device, one number of a stream after another: ``gradlib.cuda.philox.draw``."""

    def __call__(self, kind: str, shape: tuple[int, ...], dtype: Any, place: Any, seed: int, number: int) -> Any: ...


class Capture:
    """A capture under way.

    Attributes:
        drawn: for each generator that it drew from, where the graph finds its seed and the draws before, and how often it draws.
    """

    def __init__(self) -> None:
        self.drawn: dict[Any, tuple[Any, int]] = {}

    def draw(self, generator: Any, made: Any) -> tuple[Any, int]:
        """Where a draw finds the seed and the draws before the graph's, and its number within the graph. ``made`` makes that memory."""
        place, number = self.drawn.get(generator) or (made(), 0)
        self.drawn[generator] = place, number + 1
        return place, number


class Capturing(threading.local):
    """What the calling thread captures; None while it does not."""

    capture: Capture | None = None


class Kernels:
    """What ``gradlib.cuda`` offers to the packages below it."""

    draw: Draw
    product: Any  # of two CuPy arrays, as matmul


capturing = Capturing()
kernels = Kernels()


def begin() -> Capture:
    """The calling thread captures from now on."""
    capturing.capture = made = Capture()
    return made


def end() -> None:
    """The calling thread captures no more."""
    capturing.capture = None


def offer_draw(draw: Draw) -> None:
    """Say what draws random numbers on a GPU."""
    kernels.draw = draw


def offer_product(product: Any) -> None:
    """Say what multiplies CuPy arrays where cuBLAS cannot."""
    kernels.product = product
