"""Compiles C++ with g++ into a cache that only its user can write, safely beside other processes that do the same."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECK_FLAGS = ("-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread")
"""How the driver and the libraries are compiled; kernels have flags of their own (compiler.py)."""


class BuildError(RuntimeError):
    """Sources that g++ refuses; the text is its log."""


@cache
def gxx() -> str:
    """The path of g++. Raises: BuildError where there is none."""
    found = os.environ.get("HOSTCUDA_CXX") or shutil.which("g++")
    if not found:
        raise BuildError("hostcuda compiles with g++, and there is none; install it, or name another compiler in HOSTCUDA_CXX")
    return found


@cache
def gxx_version() -> str:
    """g++'s own version text: a part of every cache key."""
    return subprocess.run([gxx(), "--version"], capture_output=True, text=True, check=True).stdout


@cache
def cache_folder() -> Path:
    """The folder that keeps everything compiled: $HOSTCUDA_CACHE, or hostcuda in the user's cache folder.

    Raises:
        BuildError: the folder belongs to somebody else, or others can write into it: they could put code there.
    """
    named = os.environ.get("HOSTCUDA_CACHE")
    folder = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hostcuda"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(f"{folder} must be yours and writable by nobody else: chmod 700 it, or name another in HOSTCUDA_CACHE")
    return folder


def run_compiler(command: Sequence[str], target: Path) -> None:
    """Run a compiler that makes one file, unless it is there: it appears whole or not at all, and two processes do not both make it.

    Raises:
        BuildError: the compiler refuses; the text is its log.
    """
    with _lock_of(target):
        if target.exists():
            return
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=target.suffix, delete=False) as part:
            made = Path(part.name)
        try:
            done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
            if done.returncode:
                raise BuildError(done.stderr)
            made.chmod(0o700)
            made.replace(target)
        finally:
            made.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock_of(target: Path) -> Iterator[None]:
    """Held by one process, or thread, at a time. There are 256 locks for all files: few files in the cache, and few wait for another's."""
    import fcntl  # not on Windows, where hostcuda says that it does not run

    folder = cache_folder() / "locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / digest(str(target))[:2]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


def digest(*parts: str) -> str:
    """A name for what these texts say together."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def shared_object(name: str, sources: Iterable[str | Path], flags: Iterable[str] = ()) -> Path:
    """A shared object from C++ sources, compiled at its first use and kept for each state of the sources, headers and compiler.

    The sources are compiled side by side, also by several processes that want it at the same time.

    Args:
        name: the file's name and soname, such as "libcublas.so.12".
        sources: C++ files, relative to this folder; every header of this folder counts as a part of each.
        flags: further options for g++, such as libraries to link.

    Returns:
        The path of the file, in a folder named after the digest of what it was made from.

    Raises:
        BuildError: g++ refuses; the cache folder is not safe.
    """
    paths = [HERE / source for source in sources]
    texts = [path.read_text(encoding="utf-8") for path in [*paths, *sorted(HERE.glob("*.h"))]]
    after = list(flags)  # libraries stand behind what needs them
    folder = cache_folder() / digest(name, *CHECK_FLAGS, *after, gxx_version(), *texts)
    target = folder / name
    if not target.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        objects = [folder / f"{path.stem}.o" for path in paths]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda path, made: run_compiler([gxx(), *CHECK_FLAGS, f"-I{HERE}", "-c", str(path)], made), paths, objects))
        run_compiler([gxx(), *CHECK_FLAGS, *map(str, objects), f"-Wl,-soname,{name}", *after], target)
    return target
