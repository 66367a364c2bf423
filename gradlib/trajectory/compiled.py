"""Whether numba compiles the loops of this package on the CPU, and the compiled loops.

A map whose stem is STEM has a NumPy form, STEM_host.py, which defines its results, and may have a compiled one, STEM_numba.py, with the
same functions; `form` says which of the two a call takes. numba is looked for at the first such call, never at import. A loop is compiled
at its first use for a kind of arguments, which takes a third of a second, and kept on disk, from where later processes load it in
milliseconds. The compiled forms need no other package, and no compiler.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradlib.backend.thread import kept_at_fork

_use = os.environ.get("GRADLIB_NUMBA", "1") != "0"
_forms: dict[str, Any] = {}  # by stem, the compiled form, or None where there is none
_loops: dict[tuple[Any, ...], Any] = {}  # by what `loop` is called with; None where compiling failed
_lock = kept_at_fork(threading.RLock())
_MISSING = object()


def use_numba(mode: bool) -> None:
    """Have the CPU's trajectory integrators and costs compiled by numba, or computed by NumPy.

    By default they are compiled where numba is installed, unless the environment says ``GRADLIB_NUMBA=0``. Both give the same results but
    for rounding. Holds for all threads, from the next call on.

    Args:
        mode: True for numba, False for NumPy.
    Raises: TypeError unless mode is a bool; ImportError where numba is asked for and cannot be imported.
    Example:
        >>> import numba
        >>> gradlib.trajectory.use_numba(False)  # NumPy computes from here on
        >>> gradlib.trajectory.use_numba(True)  # and from here on what numba compiled
    """
    global _use
    if not isinstance(mode, bool):
        raise TypeError(f"use_numba: mode is True or False, got {mode!r}")
    if mode:
        try:
            import_module("numba")
        except Exception as error:
            raise ImportError(
                f"use_numba: numba cannot be imported ({error}); install it by pip install 'gradlib[numba]', or leave the mode False"
            ) from error
        _forms.clear()
    _use = mode


def form(stem: str, host: ModuleType) -> Any:
    """The CPU form of a map: the compiled one where numba is in use, else ``host``."""
    return (_compiled(stem) or host) if _use else host


def version() -> str | None:
    """numba's version where it is in use."""
    return _numba().__version__ if _use and _compiled("chain") else None


def by_numpy(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same call computed by NumPy: while it runs numba is off, for all threads."""

    def plain() -> Any:
        global _use
        before, _use = _use, False
        try:
            return run()
        finally:
            _use = before

    return plain


def _compiled(stem: str) -> ModuleType | None:
    """The compiled form, None where there is none; looked for once."""
    found = _forms.get(stem, _MISSING)
    if found is _MISSING:
        found = _forms[stem] = _compiled_form(stem)
    return found


def _compiled_form(stem: str) -> ModuleType | None:
    """The compiled form, or None without numba, with a warning where it is installed and cannot be used."""
    try:
        return import_module(f"gradlib.trajectory.{stem}_numba")
    except Exception as error:  # of any kind: numba may be of a version that does not know this NumPy
        if not (isinstance(error, ModuleNotFoundError) and error.name == "numba"):
            _warn("numba is installed but cannot be used", error)
        return None


def loop(make: Callable[..., Any], dtype: np.dtype, *kind: Any) -> Any:
    """A compiled loop over arrays of a dtype, compiled at the first call with these arguments; None where there is none.

    Args:
        make: ``(real, *kind) -> (signature, function)``, real being numba's type of the numbers. What the function takes from around it
            are numbers, which are constants to the compiler.
        dtype: float32 or float64; the 16-bit types have no loops.
    """
    key = (make, dtype, *kind)
    found = _loops.get(key, _MISSING)
    if found is _MISSING:
        with _lock:
            if key not in _loops:
                _loops[key] = None if dtype.itemsize == 2 else _compile(*make(_numba().from_dtype(dtype), *kind))
            found = _loops[key]
    return found


def _compile(signature: Any, function: Callable[..., Any]) -> Any:
    """The function compiled for a signature, from the disk where it is there; None, with a warning, where numba fails."""
    function.__qualname__ += _of_the_lanes()  # by the name of the function, too, numba finds a loop on the disk
    options = {"nogil": True, "error_model": "numpy"}
    jit = _numba().njit
    try:
        return jit(signature, cache=True, **options)(function)
    except Exception:  # no folder can be written, or a file in it cannot be read
        try:
            return jit(signature, **options)(function)
        except Exception as error:
            _warn(f"numba cannot compile {function.__qualname__}", error)
            return None


@functools.cache
def _of_the_lanes() -> str:
    """Tells the text of lanes.py from others: numba compiles a loop anew where the loop's own file changes, not where lanes.py does."""
    try:
        return f"_{zlib.crc32(Path(__file__).with_name('lanes.py').read_bytes()):08x}"
    except OSError:  # there are no sources, hence nothing is kept
        return ""


def _numba() -> Any:
    return import_module("numba")


def _warn(what: str, error: Exception) -> None:
    warnings.warn(
        f"{what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}. NumPy computes instead; GRADLIB_NUMBA=0 in the environment, "
        "or gradlib.trajectory.use_numba(False), asks for that",
        RuntimeWarning,
        stacklevel=2,
    )
