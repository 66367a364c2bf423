"""Where the CUDA sources lie, and their text, read once."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

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


def numbered_source(name: str) -> str:
    """The text of a source behind a line that tells compilers, and so profilers, where its lines stand. Raises: as `read_source`."""
    path = str(kernel_folder() / name).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{path}"\n{read_source(name)}'


@cache
def sources_digest() -> str:
    """What changes when any source or header does."""
    return hashlib.sha256("\0".join(name + "\0" + read_source(name) for name in kernel_files()).encode()).hexdigest()[:16]
