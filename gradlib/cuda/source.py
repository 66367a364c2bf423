"""CUDA sources: gradlib's own files, which are read once, and users' texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def kernel_folder() -> Path:
    """The folder of the `.cu` and `.cuh` files: `gradlib/_kernels` in an installed wheel, `kernels/` in a checkout.

    Returns:
        An existing folder; it is also the include path for headers.

    Raises:
        FileNotFoundError: neither folder exists, so the installation is incomplete.
    """
    places = (_PACKAGE / "_kernels", _PACKAGE.parent / "kernels")
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(
        f"gradlib's CUDA sources are missing: looked in {places[0]} and {places[1]}. "
        "Install gradlib again from a wheel, or install a checkout with `pip install -e .`."
    )


@cache
def kernel_files() -> tuple[str, ...]:
    """The names of all CUDA sources and headers, sorted, relative to `kernel_folder()`."""
    folder = kernel_folder()
    return tuple(sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.suffix in (".cu", ".cuh")))


@cache
def read_source(name: str) -> str:
    """The text of one CUDA source; each file is read once in a process.

    Args:
        name: the file's name, such as `"trajectory.cu"`.

    Raises:
        FileNotFoundError: no such source; the message lists those that exist.
    """
    if name not in kernel_files():
        raise FileNotFoundError(f"no CUDA source named {name!r} in {kernel_folder()}; there are: {', '.join(kernel_files())}")
    return (kernel_folder() / name).read_text(encoding="utf-8")


def numbered_source(source: str | Source) -> str:
    """The text of a source after a #line directive, so that compilers and profilers show its file and lines. Raises: as `read_source`."""
    file, line = (source.file, source.line) if isinstance(source, Source) else (str(kernel_folder() / source), 1)
    path = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{path}"\n{text_of(source)}'


def _digest(text: str) -> str:
    import hashlib  # loaded when the first kernel is

    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def sources_digest() -> str:
    """A digest of all sources and headers, for the keys of caches."""
    return _digest("\0".join(name + "\0" + read_source(name) for name in kernel_files()))


@dataclass(frozen=True)
class Source:
    """A user's CUDA text.

    Attributes:
        text: what is compiled.
        file, line: the position of its first line, for the compiler's errors; file is a path, or a name in angle brackets.
        folder: the folder of its headers, None without any.
        flags: further flags for the compiler.
        headers: the texts of the headers that it includes, as they were when it was declared; digest: of them, for the keys of caches,
            empty without any.
        made: a kernel or module of CuPy's that is launched unchanged; text then only holds its declaration.
        launches: the name of the kernel that ``made`` is; empty for a module.
    """

    text: str
    file: str
    line: int = 1
    folder: str | None = None
    flags: tuple[str, ...] = ()
    made: Any = None
    launches: str = ""
    headers: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)
    digest: str = field(default="", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", _headers(self))
        object.__setattr__(self, "digest", _digest("\0".join(self.headers)) if self.headers else "")

    def __str__(self) -> str:
        return self.file if self.line == 1 else f"{self.file}, line {self.line}"


def text_of(source: str | Source) -> str:
    """The text of one of gradlib's sources, by its name, or of a user's. Raises: as `read_source`."""
    return source.text if isinstance(source, Source) else read_source(source)


class CompileError(RuntimeError):
    """The compiler refused a source. The text has the compiler's message and the source lines that it names.

    Example:
        >>> issubclass(gradlib.cuda.CompileError, RuntimeError)
        True
    """


def compile_error(source: Source, kernel: str, log: str) -> CompileError:
    """The error for a user's source, from the compiler's text."""
    lines, shown = source.text.splitlines(), list[str]()
    for number in dict.fromkeys(map(int, re.findall(rf"{re.escape(source.file)}[(:](\d+)", log))):
        if 0 <= number - source.line < len(lines):
            shown.append(f"  {source.file}:{number}: {lines[number - source.line].strip()}")
    return CompileError("\n".join([f"{kernel} does not compile:", *shown[:_SHOWN], log.strip()]))


@contextmanager
def showing_line(kernel: str, source: Source) -> Iterator[None]:
    """Within it an error of the compiler's becomes a CompileError, which shows the user's lines."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "CompileException":
            raise
        raise compile_error(source, kernel, str(error)) from None


_SHOWN = 4  # lines of the source that an error repeats


def _headers(source: Source) -> tuple[str, ...]:
    """The texts of the headers that a user's source includes, and that these include, from its folder and those of its options -I.

    CUDA's own are left out: they are many, and they belong to the compiler.
    """
    folders = [source.folder, *_included_folders(source.flags)]
    named = [Path(each) for each in folders if each is not None and not (Path(each) / "cuda_runtime.h").is_file()]
    found: dict[Path, str] = {}
    waiting = [(named[:1] if source.folder else [], source.text)]
    while waiting:
        beside, text = waiting.pop()
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.MULTILINE):
            path = next((each for each in ((folder / name).resolve() for folder in (*beside, *named)) if each.is_file()), None)
            if path is not None and path not in found:
                found[path] = path.read_text(encoding="utf-8", errors="replace")
                waiting.append(([path.parent], found[path]))
    return tuple(found[path] for path in sorted(found))


def _included_folders(flags: tuple[str, ...]) -> list[str]:
    """The folders of the options -I."""
    return [flag.removeprefix(way).strip() for flag in flags for way in ("-I", "--include-path=") if flag.startswith(way)]
