"""Reads a user's kernel from a text, a file, or an object of CuPy's (RawKernel, RawModule, cupyx.jit)."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from types import FrameType
from typing import Any

from gradlib.cuda.signature import kernels_in
from gradlib.cuda.source import Source


def source_of(given: Any, name: str | None, parameters: str | None, options: tuple[str, ...], caller: FrameType) -> tuple[Source, str]:
    """The source and the kernel's name in it.

    Args:
        given, name, parameters, options: as for ``gradlib.cuda.kernel``.
        caller: the user's frame, in whose file the text was written.
    Raises:
        TypeError: ``given`` holds no kernel.
        ValueError: name or parameters are needed.
        FileNotFoundError: no such file.
    """
    if parameters is not None and isinstance(given, (str, Path)):
        raise ValueError("parameters declares an object of CuPy's; a text or a file is declared by itself: change its parameters")
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith((".cu", ".cuh"))):
        path = Path(given).resolve()
        source = Source(path.read_text(encoding="utf-8"), str(path), folder=str(path.parent), flags=options)
    elif isinstance(given, str):
        source = Source(given, *place_of(given, name, caller), flags=options)
    elif options:
        raise ValueError(f"options are for the compiler, and a {type(given).__name__} has its own; give them where it is made")
    else:
        return _made(given, name, parameters)
    return source, name or _only(source)


def _only(source: Source) -> str:
    names = kernels_in(source)
    if not names:
        raise ValueError(f'{source} has no kernel; write one as extern "C" __global__ void name(...) {{ ... }}')
    if len(names) != 1:
        raise ValueError(f"{source} has {len(names)} kernels ({', '.join(names)}); say which: kernel(source, name, ...)")
    return names[0]


def place_of(text: str, name: str | None, caller: FrameType) -> tuple[str, int]:
    """The file and line where a text was written, for the compiler's errors; the kernel's name and line 1 if they cannot be found.

    A short expression may stand in the file more than once: whole strings go before parts of others, then what is nearest to the call.
    """
    written = "".join(linecache.getlines(caller.f_code.co_filename, caller.f_globals))
    part = re.escape(text)
    found = [*re.finditer(rf"(?<=[\"']){part}(?=[\"'])", written)] or [*re.finditer(part, written)]
    if not found or not text:
        return f"<{name or 'kernel'}>", 1
    lines = [written.count("\n", 0, each.start()) + 1 for each in found]
    return caller.f_code.co_filename, min(lines, key=lambda line: abs(line - caller.f_lineno))


_OTHERS = {
    "ElementwiseKernel": "give its arguments to gradlib.cuda.elementwise",
    "ReductionKernel": "give its arguments to gradlib.cuda.reduction",
    "Fusion": "a function that is fused is called with Tensors without fuse, and with NumPy's functions in place of CuPy's",
}
"""What CuPy calls a kernel and this is not, with the advice of the error."""


def _made(given: Any, name: str | None, parameters: str | None) -> tuple[Source, str]:
    """An object of CuPy's, which is launched unchanged; its declaration is read from its source or from ``parameters``."""
    code = getattr(given, "code", None)
    called = name or getattr(given, "name", None) or getattr(given, "__name__", None)
    kind, is_cupy = type(given).__name__, type(given).__module__.partition(".")[0] in ("cupy", "cupyx")
    if kind in _OTHERS or not is_cupy or not (callable(given) or hasattr(given, "get_function")):
        raise TypeError(
            f"a kernel is CUDA text, a path that ends in .cu, or a RawKernel, RawModule or cupyx.jit kernel, got {kind}"
            + (f"; {_OTHERS[kind]}" if is_cupy and kind in _OTHERS else "")
        )
    called = called or getattr(getattr(given, "_func", None), "__name__", None)
    if called is None:
        raise ValueError("a RawModule holds several kernels; say which: kernel(module, name, ...)")
    base = called.partition("<")[0]
    check_instance(given, called)
    if parameters is None and isinstance(code, str) and base not in code:
        raise ValueError(f"{called} is not how the source names this kernel; say how: kernel(made, 'scale<float>', ...)")
    text = f"__global__ void {base}({parameters}) {{}}" if parameters is not None else code
    if not isinstance(text, str):
        raise ValueError(f'{called} has no source to read its declaration from; give parameters="const float* x, float* y, int n"')
    return Source(text, f"<{called}>", made=given, launches="" if hasattr(given, "get_function") else called), called


def check_instance(made: Any, name: str) -> None:
    """Check that a kernel's name is not that of a template, of which a RawModule has instances. Raises: ValueError that lists them."""
    base = name.partition("<")[0]
    instances = [each for each in getattr(made, "name_expressions", None) or () if each.partition("<")[0] == base]
    if instances and name not in instances:
        raise ValueError(f"{name} is no instance of a template in this RawModule; name one of its instances: {', '.join(instances)}")
