"""Reading input files, pipes included, of which none may be so large that memory runs out."""

from __future__ import annotations

from pathlib import Path

from gradlib.trajectory.planning.errors import InputError


def content(path: str | Path, most: int) -> bytes:
    """The bytes of a file.

    Args:
        path: the file, or a pipe; most: how many bytes may be in it.
    Raises: OSError where it cannot be read; InputError for one that is larger.
    """
    with open(path, "rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise InputError(f"{path} is larger than {most >> 20} MiB, which no such file needs to be; see whether it is the right one")
    return found
