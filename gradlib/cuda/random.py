"""torch.cuda's names for the random streams of the devices. Without a GPU, seeding does nothing."""

from __future__ import annotations

from typing import Any

from gradlib.backend.random import as_seed, system_seed
from gradlib.core.random import Generator, default_generator
from gradlib.core.tensor import Tensor
from gradlib.cuda.devices import current_device, device_count, index_of, is_available


def default_generators() -> tuple[Generator, ...]:
    """The generator of each device's random stream; none without a GPU. ``gradlib.cuda.default_generators`` is this tuple."""
    return tuple(map(default_generator, range(device_count())))


def manual_seed(seed: int) -> None:
    """Start the current device's random stream from this seed.

    Args:
        seed: a whole number.
    Source: torch.cuda.manual_seed.
    Example:
        >>> gradlib.cuda.manual_seed(7)
    """
    seed = as_seed(seed)
    if is_available():
        default_generator(current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Start the random streams of all devices from this seed.

    Args:
        seed: a whole number.
    Source: torch.cuda.manual_seed_all.
    Example:
        >>> gradlib.cuda.manual_seed_all(7)
    """
    seed = as_seed(seed)
    for index in range(device_count()):
        default_generator(index).manual_seed(seed)


def seed() -> None:
    """Start the current device's random stream from a seed that the operating system gives.

    Source: torch.cuda.seed.
    Example:
        >>> gradlib.cuda.seed()
    """
    manual_seed(system_seed())


def seed_all() -> None:
    """Start the random streams of all devices from one seed that the operating system gives.

    Source: torch.cuda.seed_all.
    Example:
        >>> gradlib.cuda.seed_all()
    """
    manual_seed_all(system_seed())


def initial_seed() -> int:
    """The seed with which the current device's random stream began.

    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.initial_seed.
    Example:
        >>> gradlib.cuda.manual_seed(7)
        >>> gradlib.cuda.initial_seed() if gradlib.cuda.is_available() else 7
        7
    """
    return default_generator(current_device()).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The position of a device's random stream, as a uint8 tensor on the CPU.

    Args:
        device: a number, a name or a device.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.get_rng_state.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.set_rng_state(gradlib.cuda.get_rng_state())
    """
    return default_generator(index_of(device)).get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Continue the random stream of a device from a saved place.

    Args:
        new_state: what ``get_rng_state`` gave.
        device: a number, a name or a device.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.set_rng_state.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.set_rng_state(gradlib.cuda.get_rng_state())
    """
    default_generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The positions of all devices' random streams.

    Returns: a tensor for each; none without a GPU.
    Source: torch.cuda.get_rng_state_all.
    Example:
        >>> len(gradlib.cuda.get_rng_state_all()) == gradlib.cuda.device_count()
        True
    """
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Continue the random streams of all devices from saved places.

    Args:
        new_states: what ``get_rng_state_all`` gave.
    Raises: RuntimeError for a device that is not there.
    Source: torch.cuda.set_rng_state_all.
    Example:
        >>> gradlib.cuda.set_rng_state_all(gradlib.cuda.get_rng_state_all())
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
