"""Files that the package writes: each is whole or not there, never over what was read, and nothing half made stays behind.

A result is written under a temporary name beside its place and renamed into it at the end. A process that a signal ends has no such end:
its handler calls `abandon`, which removes what is unfinished. Nothing here installs a handler; the `gradlib` command does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

Name = str | os.PathLike[str]

_unfinished: dict[Path, Callable[[Path], None]] = {}  # what goes when the process is ended, and how it is removed
_renaming = 0  # how many threads bring results into place at this moment
_at_rest: Callable[[], None] | None = None  # what a signal wants done once they have
_placed = 0


def placed() -> int:
    """The number of results that this process has brought into place."""
    return _placed


def abandon(then: Callable[[], None]) -> None:
    """Remove every temporary file and every empty folder made for results, then do what is given; for handlers of signals.

    Where results are just being renamed into place, that is finished first, so that they belong together.

    Args:
        then: what ends the process.
    """
    global _at_rest
    if _renaming:
        _at_rest = then
        return
    for path in reversed(list(_unfinished)):
        with contextlib.suppress(OSError, KeyError):  # a folder with something in it stays
            _unfinished[path](path)
    then()


class Results:
    """The files of one piece of work, which come into place together.

    Args:
        inputs: the files that this work reads.
    """

    def __init__(self, inputs: Iterable[Name] = ()) -> None:
        self._inputs = [(Path(name), state) for name in inputs if (state := _state(name)) is not None]
        self._staged: dict[Path, Path] = {}
        self._outdated: list[Path] = []

    def place(self, target: Name) -> Path:
        """The path to write to now. A link is written through; a pipe or a device, which has no content to lose, is written itself.

        Args:
            target: where it belongs.
        Raises: ValueError when it is an input, where this process's own output goes, or another result's place; OSError when nothing
            can be written there.
        """
        state = self._state_at(target)
        if state is not None and not stat.S_ISREG(state.st_mode):
            return Path(target)
        path = Path(os.path.realpath(target))
        if path in self._staged:
            raise ValueError(f"two results would go to {target}, and one be lost; give each a path of its own")
        try:
            self._staged[path] = _temporary(path.parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error  # the name that the caller knows
        return self._staged[path]

    def remove(self, target: Path) -> None:
        """Have a file go when the others come into place, because it does not belong to them."""
        self._state_at(target)
        self._outdated.append(target)

    def _state_at(self, target: Name) -> os.stat_result | None:
        """The status of what stands at a result's path, None for nothing; refused where no result may be."""
        state = _state(target)
        if state is None:
            return None
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        if stat.S_ISREG(state.st_mode):
            for name, other in self._inputs:
                if os.path.samestat(state, other):
                    raise ValueError(f"{target} would overwrite {name}, which is read here; write to another path")
            for stream in (1, 2):
                with contextlib.suppress(OSError):  # it is closed
                    if os.path.samestat(state, os.fstat(stream)):
                        raise ValueError(f"{target} is where the output of this process goes already; write to another path")
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        return state

    def commit(self) -> None:
        """Bring all into place."""
        global _placed, _renaming
        for target, path in self._staged.items():
            state = _state(target)
            if state is not None:
                with contextlib.suppress(OSError):
                    path.chmod(stat.S_IMODE(state.st_mode))
            with path.open("rb") as file:
                os.fsync(file.fileno())  # some file systems tell only now that the disk is full
        _renaming += 1
        try:
            for target, path in self._staged.items():
                os.replace(path, target)
                _placed += 1
                _unfinished.pop(path, None)
            for path in self._outdated:
                path.unlink(missing_ok=True)
        finally:
            _renaming -= 1
            if not _renaming and _at_rest is not None:
                abandon(_at_rest)

    def discard(self) -> None:
        """Remove what has not come into place."""
        for path in self._staged.values():
            _forget(path)


@contextmanager
def replacing(inputs: Iterable[Name] = ()) -> Iterator[Results]:
    """A context for writing `Results`: on success all come into place together, and when its body raises nothing has changed.

    Args:
        inputs: the files that this work reads, over which it does not write.
    """
    results = Results(inputs)
    try:
        yield results
        results.commit()
    finally:
        results.discard()


@contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """A context in which a folder is there. Those made for it, parents too, go again when the body raises and they are empty.

    Raises: OSError when it cannot be made.
    """
    made: list[Path] = []
    try:
        for each in reversed([path, *path.parents]):
            if not each.is_dir():
                made.append(each)
                _unfinished[each] = Path.rmdir  # before it is made: a signal may come between
                each.mkdir(exist_ok=True)
        yield
    except BaseException:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # there is something in it, from elsewhere
                each.rmdir()
        raise
    finally:
        for each in made:
            _unfinished.pop(each, None)


def _temporary(folder: Path) -> Path:
    """A new empty file in a folder, of a name that nobody can have foreseen. It is gone when `discard` or `abandon` has run."""
    path = folder / f".gradlib-{os.urandom(8).hex()}.tmp"
    _unfinished[path] = Path.unlink
    try:
        path.touch(exist_ok=False)
    except BaseException:
        _forget(path)
        raise
    return path


def _forget(path: Path) -> None:
    if path in _unfinished:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        _unfinished.pop(path, None)


def _state(path: Name) -> os.stat_result | None:
    """The file's status, None where nothing is there. Raises: OSError where that cannot be found out."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
