"""The CUDA graph that the calling thread captures, and the kernels that are used meanwhile instead of cuRAND and cuBLAS.

The kernels belong to ``gradlib.cuda``, which this package may not import; it registers them here when it is imported.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from gradlib.backend.thread import carried, entered_there


class Draw(Protocol):
    """Draws random numbers on the current device, one number of a stream after another: ``gradlib.cuda.philox.draw``."""

    def __call__(
        self, kind: str, out: Any, place: Any, seed: int, number: int, numbers: tuple[Any, ...] = (), array: Any = None
    ) -> Any: ...


class Capture:
    """A capture under way.

    Attributes:
        device: the number of the device whose stream captures.
        around: gives the context, CuPy's allocator and CUDA's mode, in which a thread works for it.
        number: no other capture of the process has it.
        behind: what is to be called when the capture has ended.
        drawn: for each generator that it drew from, where the graph finds its seed and the draws before, and how often it draws.
    """

    _numbers = itertools.count(1)

    def __init__(self, device: int = -1, around: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.device = device
        self.around = around
        self.number = next(self._numbers)
        self.behind: list[Callable[[], None]] = []
        self.drawn: dict[Any, tuple[Any, int]] = {}

    def draw(self, generator: Any, made: Any) -> tuple[Any, int]:
        """The memory of a draw's seed and of the count of draws before the graph's, as ``made`` makes it; and its number in the graph.

        Raises: RuntimeError for a generator of another device, whose memory a replay does not write.
        """
        if generator.device.index != self.device:
            raise RuntimeError(DRAWN_ELSEWHERE)
        place, number = self.drawn.get(generator) or (made(), 0)
        self.drawn[generator] = place, number + 1
        return place, number

    def draws_of(self, generator: Any) -> int:
        """How often the graph has drawn from a generator so far."""
        return self.drawn[generator][1] if generator in self.drawn else 0

    def go_back(self, generator: Any, draws: int) -> None:
        """Draw again what a generator gave after so many draws of the graph, as a checkpoint does that runs a function twice."""
        if generator in self.drawn:
            self.drawn[generator] = self.drawn[generator][0], draws


class Capturing(threading.local):
    """The capture of the calling thread; None without one."""

    capture: Capture | None = None


class Kernels:
    """The kernels that ``gradlib.cuda`` registers for the packages below it."""

    draw: Draw
    product: Any  # of two CuPy arrays, as matmul


capturing = carried(Capturing())
entered_there(lambda: contextlib.nullcontext() if capturing.capture is None else capturing.capture.around())
kernels = Kernels()
under_way: set[Capture] = set()
"""The captures of all threads."""
DRAWN_ELSEWHERE = "random numbers are drawn on another device than that of the graph that is captured"


def begin(device: int, around: Callable[[], Any]) -> Capture:
    """Mark the calling thread as capturing on a stream of this device; ``around`` as for ``Capture``."""
    capturing.capture = made = Capture(device, around)
    under_way.add(made)
    return made


def end() -> None:
    """Mark the calling thread as not capturing."""
    over, capturing.capture = capturing.capture, None
    under_way.discard(over)
    for call in over.behind if over is not None else ():
        call()


def offer_draw(draw: Draw) -> None:
    """Register the function that draws random numbers on a GPU."""
    kernels.draw = draw


def offer_product(product: Any) -> None:
    """Register the function that multiplies CuPy arrays during captures, where cuBLAS cannot."""
    kernels.product = product
