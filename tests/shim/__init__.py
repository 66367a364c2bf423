"""Compiles the CUDA sources with g++ and runs their launches on the CPU, a thread for each thread, under the thread sanitizer.

`execute(call)` does what `gradlib.cuda.launch.launch` does on a GPU, with NumPy arrays: the same `Call`, the same check of its
arguments, the real source. hostcuda runs one thread at a time, so a missing barrier may pass there; here it is a race.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from gradlib.cuda.launch import Call, checked_args
from gradlib.cuda.signature import Options, parameters
from gradlib.cuda.source import kernel_files, kernel_folder, read_source
from tests.shim.kept import cache_folder

HERE = Path(__file__).resolve().parent
COMPILER = shutil.which("g++")


def kernel_names(source: str) -> list[str]:
    """The kernels that a source declares."""
    return re.findall(r'extern "C" __global__ void[^;{]*?\b(\w+)\(const', read_source(source))


def variant_name(options: Options) -> str:
    return "_".join(re.sub(r"\W", "", value) for _, value in options)


def program_text(source: str, variants: Iterable[Options]) -> str:
    """A program that holds a source once for each set of options, each in a namespace of its own."""
    lines = ['#include "runner.h"', *(f'#include "{name}"' for name in kernel_files() if name.endswith(".cuh"))]
    kernels = kernel_names(source)
    for number, options in enumerate(variants):
        names = {**dict(options), **{kernel: f"{kernel}_{number}" for kernel in kernels}}
        lines += [f"namespace v{number} {{", "alignas(16) unsigned char shared_bytes[SHARED_LIMIT];"]
        lines += [f"#define {name} {value}" for name, value in names.items()]
        lines += [f'#include "{source}"']
        for place, kernel in enumerate(kernels):
            lines.append(f'const bool added_{place} = add("{variant_name(options)}", "k{place}", {kernel}, shared_bytes);')
        lines += [f"#undef {name}" for name in names]
        lines += ["}"]
    return "\n".join([*lines, "int main(int, char** argv) { return run_file(argv[1], argv[2]); }"])


@cache
def build(source: str, variants: tuple[Options, ...]) -> Path:
    """The program for a source, compiled once for each state of the sources and kept between runs."""
    text = program_text(source, variants)
    headers = [p.read_text() for p in sorted(HERE.glob("*.h"))] + [read_source(name) for name in kernel_files() if name.endswith(".cuh")]
    digest = hashlib.sha256("\0".join([text, read_source(source), *headers]).encode()).hexdigest()[:20]
    folder = cache_folder()
    program = folder / f"{Path(source).stem}-{digest}"
    if not program.exists():
        main = folder / f"{program.name}-{os.getpid()}.cpp"
        main.write_text(text)
        made = main.with_suffix(".out")
        flags = ["-std=c++20", "-Og", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-pthread", "-fno-sanitize-recover=all"]
        command = [COMPILER, *flags, "-fsanitize=thread", f"-I{HERE}", f"-I{kernel_folder()}", str(main), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.replace(program)
        main.unlink()
    return program


def execute(call: Call) -> None:
    """Run a launch on NumPy arrays, in place."""
    if 0 in call.grid:
        return
    program = build(call.source, (call.options,))
    declared = parameters(call.source, call.kernel, call.options)
    args = checked_args(call)
    number = kernel_names(call.source).index(call.kernel)
    block = call.block if isinstance(call.block, tuple) else (call.block,)
    sizes = [n for size in (call.grid, block) for n in (*size, 1, 1)[:3]]
    parts = [f"{variant_name(call.options)}\0k{number}\0".encode(), struct.pack("8q", *sizes, call.shared, len(args))]
    for parameter, value in zip(declared, args, strict=True):
        data = None if parameter.pointer and np.ndim(value) == 0 and not isinstance(value, np.ndarray) else value.tobytes()
        parts.append(
            f"{'*' if parameter.pointer else ''}{parameter.ctype}\0".encode() + struct.pack("q", -1 if data is None else len(data))
        )
        parts.append(data or b"")
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "launch", Path(folder) / "results"
        given.write_bytes(b"".join(parts))
        done = subprocess.run([program, given, made], capture_output=True, text=True)
        assert done.returncode == 0, f"{call} failed:\n{done.stderr[-6000:]}"
        results = made.read_bytes()
    position = 0
    for parameter, value in zip(declared, args, strict=True):
        if parameter.pointer and isinstance(value, np.ndarray):
            data = results[position : position + value.nbytes]
            position += value.nbytes
            if parameter.written:
                value[...] = np.frombuffer(data, value.dtype).reshape(value.shape)
            else:
                assert data == value.tobytes(), f"{call.kernel} wrote into {parameter.name}, which it declares const"
    assert position == len(results)
