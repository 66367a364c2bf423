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
    seen: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_OURS) and not name.startswith(_TESTING):
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen
