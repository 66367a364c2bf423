"""Functions whose Python is written by a program, as ``dataclasses`` writes ``__init__``, and compiled when they are first called.

``inspect``, tracebacks and the debugger show what was written.
"""

from __future__ import annotations

import functools
import linecache
import os
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

import numpy as np

from gradlib.backend.dtype import float32, float64
from gradlib.backend.number import beside, doubles, singles
from gradlib.core import modes
from gradlib.core.dispatch import dispatch, keywords, meet, narrowed, operate, slow_path, slow_path_on_device, wrap_several
from gradlib.core.meeting import meet_on_device
from gradlib.core.node import Version, check_outputs, freed, stale
from gradlib.core.saved import hidden_tensor, output_tensor
from gradlib.core.tensor import Tensor, as_array
from gradlib.core.views import View, mark_view, views_of
from gradlib.core.writes import has_begun

STRICT = os.environ.get("GRADLIB_STRICT_FAST_PATHS", "0") != "0"
"""Whether a fast path raises what it otherwise leaves to the slow path: for tests, in which a call by the slow path shows as no error."""


def left(error: Exception) -> None:
    """Called as a fast path catches an exception, on which the slow path runs the call again: to say what is wrong, or to succeed.

    A missing name is no fault of the call, but a mistake in the text, and is raised.
    """
    if STRICT or isinstance(error, NameError):
        raise error


NAMES = {
    "np": np,
    "ndarray": np.ndarray,
    "F32": float32,
    "F64": float64,
    "singles": singles,
    "doubles": doubles,
    "beside": beside,
    "Tensor": Tensor,
    "blank": functools.partial(object.__new__, Tensor),  # quicker than Tensor(), and than object.__new__(Tensor)
    "global_state": modes.global_state,
    "thread_state": modes.thread_state,
    "next_seq": modes.next_seq,
    "dispatch": dispatch,
    "slow_path": slow_path,
    "slow_path_on_device": slow_path_on_device,
    "operate": operate,
    "keywords": keywords,
    "meet": meet,
    "meet_on_device": meet_on_device,
    "narrowed": narrowed,
    "wrap_several": wrap_several,
    "mark_view": mark_view,
    "views_of": views_of,
    "View": View,
    "Version": Version,
    "ref": ref,
    "as_array": as_array,
    "asarray": np.asarray,
    "generic": np.generic,
    "freed": freed,
    "stale": stale,
    "check_outputs": check_outputs,
    "output_tensor": output_tensor,
    "hidden_tensor": hidden_tensor,
    "has_begun": has_begun,
    "left": left,
}
"""What every written text may name."""

WRITTEN = "gradlib, written for "
"""How the names of the files begin under which tools find the texts written here."""


def build(name: str, file: str, source: str, names: dict[str, Any]) -> Any:
    """The function of that name in a Python text, with what every written text may name and what this one needs besides.

    ``file``: the name under which tracebacks, the debugger and ``inspect`` find the text.
    """
    space = {**NAMES, **names}
    exec(_compiled(file, source), space)
    return space[name]


def _compiled(file: str, source: str) -> CodeType:
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return compile(source, file, "exec")


def written_when_called(
    name: str, file: str, head: str, call: str, write: Callable[[], str], defaults: Mapping[str, Any], names: Callable[[], dict[str, Any]]
) -> FunctionType:
    """A function whose text is written and compiled at its first call.

    Until then its body is one line. Then its code is exchanged, so that whoever holds the function has the written one.

    Args:
        name, file: as for ``build``.
        head: its parameters, with defaults named ``_default_NAME``. call: how it hands all of them on.
        write: gives the text. names: gives what it names, as for ``build``.
        defaults: the values of parameters left out.
    """
    space: dict[str, Any] = {f"_default_{each}": value for each, value in defaults.items()}
    exec(_unwritten(head, call), space)
    function: FunctionType = space.pop("unwritten")
    function.__code__ = function.__code__.replace(co_name=name, co_filename=file)
    function.__name__ = function.__qualname__ = name

    text = _Unwritten(function, file, write, names)
    linecache.cache[file] = (text.shown,)  # for tools that show the source before the first call
    space["_written"] = text
    return function


class _Unwritten:
    """What gives a function its text when it is first called; a class and no closures, since hundreds of them wait."""

    __slots__ = ("file", "function", "names", "write")

    def __init__(self, function: FunctionType, file: str, write: Callable[[], str], names: Callable[[], dict[str, Any]]) -> None:
        self.function = function
        self.file = file
        self.write = write
        self.names = names

    def __call__(self) -> FunctionType:
        """Write and compile the text. Returns: the function, which has it now."""
        self.function.__globals__.update(NAMES, **self.names())
        code = _compiled(self.file, self.write())
        self.function.__code__ = next(part for part in code.co_consts if isinstance(part, CodeType))
        return self.function

    def shown(self) -> str:
        """The text as a file has it."""
        return self.write() + "\n"


@functools.cache
def _unwritten(head: str, call: str) -> CodeType:
    """The definition of a function that has these parameters and waits for its text; many operations share one."""
    return compile(f"def unwritten({head}):\n    return _written()({call})\n", "<unwritten>", "exec")
