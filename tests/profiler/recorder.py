"""Runs a program under the recording NVTX library and hands back what it emitted."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("nvtx_recorder.c")
PRELUDE = "import threading, numpy as np, gradlib\nfrom gradlib.autograd.profiler import emit_nvtx, record_function\n"


def headers() -> Path | None:
    """The folder of the NVTX headers in the wheel nvidia-nvtx-cu12."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations if spec and spec.submodule_search_locations else ():
        if (Path(place) / "nvtx" / "include" / "nvtx3" / "nvToolsExt.h").is_file():
            return Path(place) / "nvtx" / "include"
    return None


@functools.cache
def library() -> Path:
    """The recording library, compiled once; skips the test where it cannot be."""
    compiler, include = shutil.which("gcc") or shutil.which("cc"), headers()
    if sys.platform != "linux" or compiler is None or include is None:
        pytest.skip("the NVTX recorder needs Linux, gcc and the wheel nvidia-nvtx-cu12 (extra test)")
    made = Path(tempfile.mkdtemp()) / "nvtx_recorder.so"
    subprocess.run(
        [compiler, "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}", "-o", made, SOURCE, "-lpthread"], check=True, timeout=60
    )
    return made


@dataclass
class Range:
    """One range: its label, the ranges inside it, in order, and its thread."""

    label: str
    thread: str
    inside: list[Range] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.label.partition(",")[0]

    @property
    def seq(self) -> int | None:
        return number(r"(?<!stashed) seq = (\d+)", self.label)

    @property
    def stashed(self) -> int | None:
        return number(r"stashed seq = (\d+)", self.label)

    def all(self) -> list[Range]:
        """This range and those within it, outermost first."""
        return [self, *(deeper for each in self.inside for deeper in each.all())]


def number(pattern: str, label: str) -> int | None:
    found = re.search(pattern, label)
    return int(found[1]) if found else None


@dataclass
class Recording:
    """What a program emitted: the outermost ranges of each thread, the strings it registered, what it printed."""

    threads: dict[str, list[Range]]
    registered: list[str]
    printed: str

    @property
    def outermost(self) -> list[Range]:
        (only,) = self.threads.values()
        return only

    def all(self) -> list[Range]:
        return [deeper for thread in self.threads.values() for each in thread for deeper in each.all()]

    def shape(self) -> list[str]:
        """Names of a one-threaded program, indented by nesting."""

        def lines(ranges: list[Range], depth: int) -> list[str]:
            return [line for r in ranges for line in ("  " * depth + r.name, *lines(r.inside, depth + 1))]

        return lines(self.outermost, 0)


def record(program: str, tmp_path: Path, refuses: bool = False) -> Recording:
    """Run a program in a fresh Python with the recorder injected; every push must have its pop on the same thread.

    refuses: be a profiler that knows no extension of NVTX.
    """
    log = tmp_path / "nvtx.log"
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(library()), "NVTX_RECORD": str(log), "PYTHONPATH": str(ROOT)}
    if refuses:
        environment["NVTX_RECORD_REFUSES"] = "1"
    code = PRELUDE + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    outermost: dict[str, list[Range]] = {}
    open_ranges: dict[str, list[Range]] = {}
    registered = []
    for line in log.read_text(encoding="utf-8").splitlines():
        thread, what, domain, label = line.split("\t")
        assert domain == "gradlib"
        stack = open_ranges.setdefault(thread, [])
        if what == "register":
            registered.append(label)
        elif what == "push":
            made = Range(label, thread)
            (stack[-1].inside if stack else outermost.setdefault(thread, [])).append(made)
            stack.append(made)
        else:
            assert stack, f"a pop without a push on thread {thread}"
            stack.pop()
    assert not any(open_ranges.values()), f"never closed: {open_ranges}"
    return Recording(outermost, registered, done.stdout)
