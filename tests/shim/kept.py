"""Where compiled kernels are kept between runs of the tests."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from gradlib.cuda import nvrtc
from gradlib.cuda.launch import compile_options, compiled_text
from gradlib.cuda.signature import Options


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


def ptx_and_report(source: str, options: Options, architecture: int = 90) -> tuple[str, str]:
    """What NVRTC makes of a kernel file and what its assembler says of that, kept for as long as the sources stay as they are."""
    flags = (*compile_options(options, source), f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v")
    digest = hashlib.sha256("\0".join([source, *map(str, nvrtc.version()), *flags]).encode()).hexdigest()[:20]  # sources: among the flags
    kept = cache_folder() / f"{source}-{digest}.ptx"
    if not kept.exists():
        library = nvrtc._bindings()
        program = library.createProgram(compiled_text(source, options), source, (), ())
        library.compileProgram(program, flags)
        made = kept.with_suffix(f".{os.getpid()}")
        made.write_text(library.getPTX(program).decode() + "\0" + library.getProgramLog(program))
        made.replace(kept)
        library.destroyProgram(program)
    ptx, _, report = kept.read_text().partition("\0")
    return ptx, report
