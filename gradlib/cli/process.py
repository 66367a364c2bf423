"""The `gradlib` command as a process of its own: its streams, and the signals that may end it at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradlib import files
from gradlib.cli import interrupted, main

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def run() -> int:
    """Run the command that the process was started for. Returns: its exit status."""
    _open_streams()
    with _ended_by_signals():
        return main()


def _open_streams() -> None:
    """Have standard streams that can be written, whatever the process was started with.

    A letter that the output's encoding lacks is written as its escape sequence. Where the output is closed, what is written to it fails
    as it does for other programs, and no file of results can get its number.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115  (it stays open until the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A context in which a signal that ends the process first removes what is unfinished; signals that are ignored stay so.

    The process ends in the handler: an exception there could come up anywhere, also where none is expected.
    """

    def end(number: int, frame: Any) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        files.abandon(lambda: _exit(number))

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    taken = [each for each, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)  # not Python's own, which would raise while the interpreter shuts down


def _exit(number: int) -> None:
    if number == signal.SIGINT:
        with contextlib.suppress(OSError):
            os.write(2, f"{interrupted()}\n".encode())  # not through sys.stderr, at work on which the signal may have come
    os._exit(128 + number)
