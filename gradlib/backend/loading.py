"""Keeps `import gradlib` quick, and says how to install what it is too quick to need."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Load modules with the garbage collector off: it would scan all of them several times and find nothing.

    What they made counts as old afterwards, or the next new object would start that scan, a third of the time of the import.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # else unfreeze would take in what somebody set apart
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


@contextlib.contextmanager
def needed_by(user: str, extra: str) -> Iterator[None]:
    """A context for the import of an optional package: where it is missing the error says who needs it, and what to install.

    Args:
        user: what the caller called; extra: gradlib's extra that brings the package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        said = f"{user} needs the package {package}, which is not installed: pip install 'gradlib[{extra}]'"
        raise ModuleNotFoundError(said, name=package) from error
