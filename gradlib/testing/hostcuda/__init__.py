"""A CUDA driver on the CPU, beneath the unmodified CuPy wheel: programs for GPUs are tested where there is none.

    pytest -p gradlib.testing.hostcuda          # every `import cupy` of the run is the real CuPy on it; a test with a hazard fails

    from gradlib.testing import hostcuda
    hostcuda.activate()                         # in a script, before CuPy is imported
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections import Counter
from collections.abc import Iterator

from gradlib.backend.names import suggest_names

from . import libraries, loader
from .loader import Unavailable, reason_against

__all__ = [
    "Hazard", "Unavailable", "activate", "checked", "copies_to_device", "expected", "forget_hazards", "hazards", "host_waits", "is_active",
    "late_faults", "reason_against", "refused_waits", "skipped_work",
]  # fmt: skip


pytest_plugins = ("gradlib.testing.hostcuda.plugin",)  # where the hooks are that `pytest -p gradlib.testing.hostcuda` takes


class Hazard(Exception):
    """A fault that a GPU would not report: a race, a use after free, a write out of bounds, threads that part at a barrier."""


def activate(*, peers: bool = False, nccl: bool = False) -> None:
    """Put the driver beneath CuPy, which must not have been imported yet.

    Args:
        peers: whether the two devices can reach each other's memory; without, CuPy refuses arrays of another device.
        nccl: whether NCCL is there too, between processes of this machine.

    Raises:
        Unavailable: no Linux on x86-64, no g++, no CuPy wheel, CuPy imported already, or a real GPU; the text says which.
    """
    if not is_active():
        libraries.offer_all()
        loader.load()
        libraries.replace_algorithms()
    loader.driver().hostcuda_set_peers(peers)
    if nccl:
        libraries.load_nccl()


def is_active() -> bool:
    """Whether CuPy runs on this driver."""
    return loader._driver is not None


def hazards() -> list[str]:
    """The hazards since `forget_hazards` was called last, in order, those that code caught and dropped too."""
    driver = loader.driver()
    return [driver.hostcuda_hazard(number).decode() for number in range(driver.hostcuda_hazards())]


def forget_hazards() -> None:
    """Begin a new list of hazards."""
    loader.driver().hostcuda_forget_hazards()


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """A block of work after which every hazard in it raises.

    Raises:
        Hazard: with the text of each, one a line.
    """
    forget_hazards()
    yield
    found = hazards()
    forget_hazards()
    if found:
        raise Hazard("\n".join(found))


@contextlib.contextmanager
def expected(match: str) -> Iterator[None]:
    """A block of work in which a hazard must show, for tests of that: the error that CuPy raises for it is taken.

    Args:
        match: a regular expression that the text of one of the hazards matches.

    Raises:
        AssertionError: none does.
    """
    forget_hazards()
    try:
        yield
    except Exception:
        if not hazards():
            raise
    found = hazards()
    forget_hazards()
    if not any(re.search(match, text) for text in found):
        raise AssertionError(f"no hazard matches {match!r}; there were: {found}")


def host_waits() -> Counter[str]:
    """How often the host has waited for a device so far, by what made it wait: a synchronisation, a copy into ordinary memory.

    Two of these subtract: ``host_waits() - before``. To learn where a program waits, run it under ``refused_waits()``.
    """
    return _counts(waits=True)


def copies_to_device() -> Counter[str]:
    """The number of copies from the host to a device so far, by their size. A captured graph repeats each from where it lay."""
    return _counts(waits=False)


def _counts(*, waits: bool) -> Counter[str]:
    driver, count, found = loader.driver(), ctypes.c_long(), Counter[str]()
    for number in range(driver.hostcuda_counts(waits)):
        name = driver.hostcuda_count(waits, number, ctypes.byref(count))
        found[name.decode()] = count.value
    return found


@contextlib.contextmanager
def refused_waits() -> Iterator[None]:
    """A block of work in which every wait of the host is a hazard, at the call that waits: its traceback tells who made it."""
    loader.driver().hostcuda_refuse_waits(1)
    try:
        yield
    finally:
        loader.driver().hostcuda_refuse_waits(0)


@contextlib.contextmanager
def late_faults() -> Iterator[None]:
    """A block of work in which what a kernel does wrong shows as late as on a GPU.

    Its launch succeeds, nothing runs after it, and each call that waits for the device fails with "an illegal memory access was
    encountered". ``hazards()`` has what it was, as ever. After the block the device works again, which a GPU does not.
    """
    loader.driver().hostcuda_late_faults(1)
    try:
        yield
    finally:
        loader.driver().hostcuda_late_faults(0)


@contextlib.contextmanager
def skipped_work() -> Iterator[None]:
    """A block of work in which launches, copies and fills do nothing, to measure what they cost the host before the driver.

    What is computed in it is never written, and nothing is watched: of memory taken or freed in it the driver knows nothing. A process
    that has measured so should not go on to anything else.
    """
    from cupy.cuda import memory_hook

    hooks = memory_hook.get_memory_hooks()
    watch = hooks.pop("hostcuda")
    loader.driver().hostcuda_skip_work(1)
    try:
        yield
    finally:
        loader.driver().hostcuda_skip_work(0)
        hooks["hostcuda"] = watch


suggest_names(__name__)
