"""Reads a user's kernel from a text, a file, or an object of CuPy's (RawKernel, RawModule, cupyx.jit)."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from typing import Any

from gradlib.cuda.source import Source


def source_of(given: Any, name: str | None, parameters: str | None, options: tuple[str, ...], depth: int) -> tuple[Source, str]:
    """The source and the kernel's name in it.

    Args:
        given, name, parameters, options: as for ``gradlib.cuda.kernel``.
        depth: how many frames above the caller of this function is the user's, where the text was written.
    Raises:
        TypeError: ``given`` holds no kernel.
        ValueError: name or parameters are needed.
        FileNotFoundError: no such file.
    """
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".cu")):
        path = Path(given).resolve()
        source = Source(path.read_text(encoding="utf-8"), str(path), folder=str(path.parent), flags=options)
    elif isinstance(given, str):
        source = Source(given, *place_of(given, name, depth + 1), flags=options)
    else:
        return _made(given, name, parameters)
    return source, name or _only(source)


def _only(source: Source) -> str:
    names = re.findall(r"__global__[^;{]*?\b(\w+)\s*\([^)]*\)\s*\{", source.text)
    if len(names) != 1:
        raise ValueError(f"{source} has {len(names)} kernels ({', '.join(names) or 'none'}); say which: kernel(source, name, ...)")
    return str(names[0])


def place_of(text: str, name: str | None, depth: int) -> tuple[str, int]:
    """The file and line where a text was written, for the compiler's errors; the kernel's name and line 1 if they cannot be found."""
    frame = sys._getframe(depth + 1)
    written = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    place = written.find(text)
    if place < 0 or not text:
        return f"<{name or 'kernel'}>", 1
    return frame.f_code.co_filename, written.count("\n", 0, place) + 1


def _made(given: Any, name: str | None, parameters: str | None) -> tuple[Source, str]:
    """An object of CuPy's, which is launched unchanged; its declaration is read from its source or from ``parameters``."""
    code = getattr(given, "code", None)
    called = name or getattr(given, "name", None) or getattr(given, "__name__", None)
    jit = type(given).__module__.partition(".")[0] == "cupyx"
    if not (callable(given) or hasattr(given, "get_function")) or not (jit or type(given).__module__.startswith("cupy")):
        raise TypeError(
            f"a kernel is CUDA text, a path that ends in .cu, or a RawKernel, RawModule or cupyx.jit kernel, got {type(given).__name__}"
        )
    called = called or getattr(getattr(given, "_func", None), "__name__", None)
    if called is None:
        raise ValueError("a RawModule holds several kernels; say which: kernel(module, name, ...)")
    text = f"__global__ void {called.partition('<')[0]}({parameters}) {{}}" if parameters is not None else code
    if not isinstance(text, str):
        raise ValueError(f'{called} has no source to read its declaration from; give parameters="const float* x, float* y, int n"')
    return Source(text, f"<{called}>", made=given), called
