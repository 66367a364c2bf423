"""A compiler in NVRTC's place: CUDA sources are compiled with g++ behind a header that gives CUDA's names their meaning on the CPU.

CuPy's own code above it stays as it is: how it puts options together, what it keeps on the disk and under which key.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .build import HERE, BuildError, cache_folder, digest, gxx, gxx_version, run_compiler

INCLUDE = HERE / "include"
_SANITIZERS = {
    "address": (
        "-fsanitize=kernel-address", "--param=asan-instrumentation-with-call-threshold=0", "--param=asan-stack=0", "--param=asan-globals=0",
    ),
    "undefined": ("-fsanitize=undefined", "-fno-sanitize=vptr,pointer-overflow"),
}  # fmt: skip
"""What has no library of its own beneath: the driver answers each call (sanitize.cpp).

A look at each sum of a pointer, whether it wraps around, would be a fifth of the time to compile, and the access through it is seen.
"""


@cache
def sanitizers() -> tuple[str, ...]:
    """g++'s options for what $HOSTCUDA_SANITIZE asks for; CuPy's own kernels (named cupy_...) are compiled without.

    Raises: BuildError for another word in it than those above.
    """
    asked = [word for word in os.environ.get("HOSTCUDA_SANITIZE", "").split(",") if word]
    if unknown := set(asked) - set(_SANITIZERS):
        raise BuildError(f"HOSTCUDA_SANITIZE takes address, undefined or both with a comma between, not {', '.join(sorted(unknown))}")
    return tuple(option for word in asked for option in _SANITIZERS[word])


FLAGS = (
    "-std=c++17", "-Og", "-w", "-fpermissive", "-fPIC", "-shared", "-fno-strict-aliasing", "-fwrapv", "-fno-threadsafe-statics",
    "-fno-gnu-unique", "-ffp-contract=off", "-Wl,-Bsymbolic", "-fno-use-linker-plugin", "-nostdlib",
)  # fmt: skip
"""Quick to compile; types are punned and integers wrap as CUDA's do; a module's variables are its own.

Under the sanitizers -Og takes three quarters of the time of -O1. -O0 takes less, but then no access outside of a variable through a pointer
is seen.

The C and C++ libraries are not linked, which saves a fifth of the time: what a kernel calls of them is in the process already. Nor does
the linker load its plugin for link-time optimisation: a twentieth.
"""
_BEHIND = ("-lgcc",)  # what arithmetic on _Float16 and __int128 calls

_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+((?:__align__|alignas)\s*\(\s*\d+\s*\)\s+)?([\w:<>,\s]+?)\s+(\w+)\s*\[\s*\]\s*;")
_KERNEL = re.compile(r"\b__global__\b")
_BOUNDS = re.compile(r"(?:\s|\bvoid\b)*__launch_bounds__\s*\(")
_HEAD = re.compile(r"(?:\s|\bvoid\b|\bstatic\b|\binline\b)*(\w+)\s*\(")
_REPLACED = [(re.compile(pattern), text) for pattern, text in (
    # How CuPy writes its ufuncs: a wide shift has a meaning on the device.
    (r"\bout0 = in0 << in1\b", "out0 = hostcuda_shift_left(in0, in1)"),
    (r"\bout0 = in0 >> in1\b", "out0 = hostcuda_shift_right(in0, in1)"),
    # How its kernels let an index that lies outside wrap around.
    (r"= indices % (index_range|adim);", r"= hostcuda_place(indices, \1);"),
    (r"out \+= stride \* \(in0 - _floor_divide\(in0, in1\) \* in1\)", "out += stride * hostcuda_place(in0, in1)"),
)]  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ONLY_READ = {"cupy_scan_naive": "a"}
"""Parameters that kernels of CuPy only read, though they are declared as results: that of a cumulative sum its array."""


class Kernel(NamedTuple):
    """A kernel as its source declares it: which of its parameters it only reads, how many threads a block of it has at most."""

    name: str
    constant: str
    max_threads: str


def closing(text: str, start: int) -> int:
    """The position of the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place
    raise ValueError("a bracket is not closed")


def split_top(text: str) -> list[str]:
    """The parts of a parameter list, at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def kernels_of(source: str) -> Iterator[Kernel]:
    """The kernels that a source declares and that are no templates."""
    text = _COMMENT.sub(" ", source)
    for match in _KERNEL.finditer(text):
        template = re.search(r"template\s*<[^;{}()]*>\s*(?:static\s+|inline\s+)*$", text[: match.start()]) is not None
        place, bounds = match.end(), "1024"
        while limit := _BOUNDS.match(text, place):
            end = closing(text, limit.end() - 1)
            bounds = split_top(text[limit.end() : end])[0]
            place = end + 1
        head = _HEAD.match(text, place)
        if head is None:
            continue
        end = closing(text, head.end() - 1)
        only_read = _ONLY_READ.get(head.group(1))
        parts = split_top(text[head.end() : end])
        constant = "".join("1" if part.startswith("const ") or part.split()[-1] == only_read else "0" for part in parts)
        yield Kernel(("<" if template else "") + head.group(1), constant, bounds)


def program(source: str, name_expressions: Sequence[str] = ()) -> str:
    """The C++ that a CUDA source becomes: its own text, and a table of its kernels behind it."""
    declared = {kernel.name: kernel for kernel in kernels_of(source)}
    entries = [(name, name, kernel) for name, kernel in declared.items() if not name.startswith("<")]
    for number, expression in enumerate(name_expressions):
        base = base_name(expression)
        kernel = declared.get("<" + base) or declared.get(base)
        if kernel is not None:
            entries.append((lowered(number, expression), expression, kernel))
    text = _DYNAMIC.sub(r"\2* const \3 = reinterpret_cast<\2*>(hostcuda_dynamic_shared);", source)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    lines = [text, "", "static const hostcuda_kernel hostcuda_kernels[] = {"]
    lines += [f'    hostcuda::kernel<{call}>("{name}", "{k.constant}", {k.max_threads}),' for name, call, k in entries]
    lines += ["    {}};", 'extern "C" {']
    lines += [f'extern unsigned char __{e}_hostcuda_shared[] __attribute__((weak, visibility("hidden")));' for e in ("start", "stop")]
    lines += ["hostcuda_module_info hostcuda_module = {hostcuda_kernels, __start_hostcuda_shared, __stop_hostcuda_shared};", "}", ""]
    return "\n".join(lines)


def base_name(expression: str) -> str:
    """The kernel's own name in a name expression."""
    return re.sub(r"<.*", "", expression, flags=re.DOTALL).strip().rsplit("::", 1)[-1]


def lowered(number: int, expression: str) -> str:
    """The name that the kernel of a name expression has in the module, and in hazards; it holds the kernel's own, as a compiler's does."""
    base = base_name(expression)
    return f"_Z{len(base)}{base}_hostcuda_{number}"


@cache
def header_texts() -> str:
    """All that a kernel is compiled behind: a part of every key."""
    return "\0".join(path.read_text(encoding="utf-8") for path in [HERE / "kernels.h", *sorted(INCLUDE.iterdir())])


@cache
def precompiled(flags: tuple[str, ...], include: tuple[str, ...]) -> Path:
    """The header of all kernels, precompiled with these flags for these include folders: the path to include it by."""
    folder = cache_folder() / digest("header", *flags, *include, gxx_version(), header_texts())
    header = folder / "hostcuda_kernel.h"
    made = folder / "hostcuda_kernel.h.gch"
    if not made.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        header.write_text(f'#include "{INCLUDE}/hostcuda_kernel.h"\n', encoding="utf-8")
        of_headers = [flag for flag in flags if flag != "-shared" and not flag.startswith("-Wl")]
        run_compiler([gxx(), *of_headers, *include, "-x", "c++-header", str(INCLUDE / "hostcuda_kernel.h")], made)
    return header


def shared_object(source: str, options: Iterable[str], name_expressions: Sequence[str] = ()) -> Path:
    """Compile a CUDA source into a shared object that the driver loads; kept for each state of the text, the options and the headers.

    Raises:
        BuildError: g++ refuses; the text is its log.
    """
    text = program(source, name_expressions)
    given = list(options)
    defines = [option for option in given if option.startswith("-D")]
    include = [option for option in given if option.startswith("-I")]
    cupys = tuple(option for option in include if "/cupy/_core/include" in option)
    own = [option for option in include if option not in cupys]
    headers = [path for option in own for path in sorted(Path(option[2:]).glob("*.*h")) if Path(option[2:]) != INCLUDE]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in headers]
    flags = FLAGS if all(kernel.name.startswith("cupy_") for kernel in kernels_of(source)) else (*FLAGS, *sanitizers())
    key = digest("kernel", text, *flags, *_BEHIND, *map(_placeless, given), gxx_version(), header_texts(), *texts)
    folder = cache_folder() / "kernels"
    target = folder / f"{key}.so"
    if target.exists():
        return target
    folder.mkdir(mode=0o700, exist_ok=True)
    cupys_own = ("-DHOSTCUDA_CUPY",) if "<cupy/" in source else ()
    header = precompiled(flags, (*cupys_own, f"-I{INCLUDE}", *cupys))
    with tempfile.NamedTemporaryFile("w", suffix=".cpp", dir=folder, encoding="utf-8") as written:
        written.write(text)
        written.flush()
        jit = ["-include", "tuple"] if "-DCUPY_JIT_MODE" in defines else []  # what CuPy's header takes from the compiler's own there
        words = [*jit, "-include", str(header), *cupys_own, f"-I{INCLUDE}", *cupys, *own, *defines]
        run_compiler([gxx(), *flags, *words, written.name, *_BEHIND], target)
    return target


def _placeless(option: str) -> str:
    """An option as it counts for what is kept: a folder of headers by what is in it, not by where it lies.

    The texts of our headers and of a project's own are part of the key; CuPy's are known by its version.
    """
    if not option.startswith("-I"):
        return option
    root, of_cupy, inner = option[2:].partition("/cupy/_core/include")
    return f"{inner} of {(Path(root) / 'cupy' / '_version.py').read_text(encoding='utf-8')}" if of_cupy else "-I"


def program_class(compile_exception: type[Exception]) -> type:
    """The class that stands for an NVRTC program in `cupy.cuda.compiler`."""

    class Program:
        """One source; `compile` gives the image that the driver loads."""

        def __init__(
            self, src: str | bytes, name: str | bytes = "default_program", headers: Any = (), include_names: Any = (),
            name_expressions: Any = None, method: str = "ptx",
        ) -> None:  # fmt: skip
            self.src = src.decode() if isinstance(src, bytes) else src
            self.name = name.decode() if isinstance(name, bytes) else name
            self.name_expressions = list(name_expressions or ())

        def compile(self, options: tuple[str, ...] = (), log_stream: Any = None) -> tuple[bytes, dict[str, str] | None]:
            if not self.src:
                return b"// hostcuda " + digest(*FLAGS, *sanitizers(), gxx_version(), header_texts()).encode(), None
            try:
                made = shared_object(self.src, options, self.name_expressions)
            except BuildError as error:
                raise compile_exception(str(error), self.src, self.name, options, "hostcuda") from None
            mapping = {expression: lowered(number, expression) for number, expression in enumerate(self.name_expressions)} or None
            return b"hostcuda:" + bytes(made) + b"\0", mapping

    return Program
