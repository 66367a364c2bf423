"""Where compiled kernels are kept between runs of the tests."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder ``gradlib-shim-<user's number>`` in the temporary directory, which is this user's alone: programs in it are run.

    Raises: RuntimeError when somebody else made it, when it is a link, or when others may write into it.
    """
    folder = Path(tempfile.gettempdir()) / f"gradlib-shim-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    remedy = "remove it, or set TMPDIR to a directory of your own"
    if not stat.S_ISDIR(state.st_mode):
        raise RuntimeError(f"{folder}, where the tests keep compiled kernels, must be a folder and is none: {remedy}")
    if state.st_uid != os.getuid():
        raise RuntimeError(f"{folder}, where the tests keep compiled kernels, belongs to user {state.st_uid}: {remedy}")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RuntimeError(f"{folder}, where the tests keep compiled kernels, can be written by others: {remedy}")
    folder.chmod(0o700)
    return folder
