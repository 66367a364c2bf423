"""Python's functions that a call runs inside gradlib: what a small operation costs the host, and no clock is needed to see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradlib

_FOLDER = str(Path(gradlib.__file__).parent)
_OURS, _TESTING = (_FOLDER, "gradlib, written for"), os.path.join(_FOLDER, "testing")


def python_calls(function: Callable[[], Any]) -> list[str]:
    """The names of gradlib's functions that a call runs, generated ones too; what hostcuda does in CuPy's place does not count."""
    return [name for each in calls_from_outside(function) for name in each]


def calls_from_outside(function: Callable[[], Any]) -> list[list[str]]:
    """The same for each time that gradlib is called from outside of it, as by the operators of an expression."""
    made: list[list[str]] = []
    depth = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal depth
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(_OURS) or name.startswith(_TESTING):
            return
        if event == "return":
            depth -= 1
            return
        if not depth:
            made.append([])
        made[-1].append(frame.f_code.co_name)
        depth += 1

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return made
