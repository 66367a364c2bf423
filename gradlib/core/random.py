"""Random numbers for Tensors: generators, the default one of each device, and draws inside vmap."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.device import device as Device, resolve
from gradlib.backend.random import RandomStream, as_seed, system_seed
from gradlib.backend.thread import carried, kept_at_fork
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import VmapLevel
from gradlib.core.modes import global_state, thread_state
from gradlib.core.tensor import Tensor, wrap


class Generator(RandomStream):
    """A stream of random numbers on one device.

    Args:
        device: where the numbers are made; tensors drawn from it live there.
    Source: torch.Generator.
    Example:
        >>> draws = [gradlib.rand(2, generator=gradlib.Generator().manual_seed(7)) for _ in range(2)]
        >>> gradlib.equal(*draws)
        True
    """

    def get_state(self) -> Tensor:
        """The stream's position, as a uint8 tensor on the CPU for ``set_state``."""
        return wrap(np.frombuffer(self.state(), dtype=np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from where ``get_state`` was called.

        Raises: TypeError for what is no such state, RuntimeError for the state of another kind of device.
        """
        try:
            self.restore(new_state.numpy().tobytes())
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TypeError(f"expected a state from Generator.get_state(), got {type(new_state).__name__}") from None
        return self

    def clone_state(self) -> Generator:
        """A new generator at the same place of the same stream."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> Any:
        """Copies and pickles are other streams at the same place."""
        return _continued, (str(self.device), self.get_state())


def _continued(device: str, state: Tensor) -> Generator:
    return Generator(device).set_state(state)


# ---- the default stream of each device ------------------------------------------------------------------------------------------

_lock = kept_at_fork(threading.Lock())
_defaults: dict[int | None, Generator] = {}
_first_seed = system_seed()


def default_generator(index: int | None) -> Generator:
    """The stream that functions use on a device when no generator is given."""
    made = _defaults.get(index)
    if made is None:
        with _lock:
            made = _defaults.setdefault(
                index,
                Generator(Device("cpu") if index is None else Device("cuda", index))._begin(_first_seed),  # also during a capture
            )
    return made


def default_states() -> list[tuple[Generator, Any]]:
    """The default streams in use, the current device's among them, each with the state in which it is now."""
    default_generator(resolve(None))
    return [(made, made.get_state()) for made in tuple(_defaults.values())]


def manual_seed(seed: int) -> Generator:
    """Start the default streams of every device from this seed.

    Args:
        seed: a whole number.
    Returns: the CPU's generator.
    Source: torch.manual_seed.
    Example:
        >>> _ = gradlib.manual_seed(7)
        >>> a = gradlib.rand(2)
        >>> _ = gradlib.manual_seed(7)
        >>> gradlib.equal(a, gradlib.rand(2))
        True
    """
    global _first_seed
    with _lock:
        _first_seed = as_seed(seed)
        for made in _defaults.values():
            made.manual_seed(seed)
    return default_generator(None)


def seed() -> int:
    """Start the default streams from a seed that the operating system gives, and return it.

    Source: torch.seed.
    Example:
        >>> gradlib.seed() == gradlib.initial_seed()
        True
    """
    drawn = system_seed()
    manual_seed(drawn)
    return drawn


def initial_seed() -> int:
    """The seed with which the CPU's default stream began.

    Source: torch.initial_seed.
    Example:
        >>> gradlib.manual_seed(7).initial_seed()
        7
    """
    return default_generator(None).initial_seed()


def get_rng_state() -> Any:
    """The state of the CPU's default stream.

    Source: torch.get_rng_state.
    Example:
        >>> state = gradlib.get_rng_state()
        >>> a = gradlib.rand(2)
        >>> gradlib.set_rng_state(state)
        >>> gradlib.equal(a, gradlib.rand(2))
        True
    """
    return default_generator(None).get_state()


def set_rng_state(new_state: Any) -> None:
    """Continue the CPU's default stream from a saved place.

    Args:
        new_state: what ``get_rng_state`` gave.
    Source: torch.set_rng_state.
    Example:
        >>> state = gradlib.get_rng_state()
        >>> a = gradlib.rand(2)
        >>> gradlib.set_rng_state(state)
        >>> gradlib.equal(a, gradlib.rand(2))
        True
    """
    default_generator(None).set_state(new_state)


# ---- draws inside vmap ----------------------------------------------------------------------------------------------------------


class Drawing(threading.local):
    """The decisions of vmap's levels about the random draw that is under way."""

    decided: tuple[VmapLevel, ...] = ()
    batch: tuple[int, ...] = ()  # dimensions in front of what is drawn


drawing = carried(Drawing())


class draw_decided:
    """While entered, this level has decided about the draw, and is not asked again; ``batch`` are dimensions in front of what is drawn."""

    def __init__(self, level: VmapLevel, batch: tuple[int, ...] = ()) -> None:
        self.level = level
        self.batch = batch

    def __enter__(self) -> None:
        self.before = drawing.decided, drawing.batch
        drawing.decided = (*drawing.decided, self.level)
        drawing.batch = (*self.batch, *drawing.batch)

    def __exit__(self, *exc: object) -> None:
        drawing.decided, drawing.batch = self.before


def draws(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that draws random numbers; inside vmap each level says whether examples share them."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if global_state.active and thread_state.interpreters:
            for level in reversed(thread_state.interpreters):
                if isinstance(level, VmapLevel) and level not in drawing.decided:
                    return level.draw(call, args, named)
        try:
            return function(*args, **named)
        except Exception:
            refuse_wrong(function.__name__, call, *args, **named)
            raise

    return call
