"""`gradlib info`, from its arguments to its exit status."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict, replace
from typing import Any

from gradlib import __version__
from gradlib.cli.info import cuda, packages
from gradlib.cli.info.facts import Kernels, Machine
from gradlib.cli.info.text import kernels_text, text
from gradlib.cli.progress import Progress

_DESCRIPTION = """\
Say what this machine has: optional packages, NVIDIA driver, CuPy, CUDA runtime, GPUs, NVRTC; compile every kernel for the first GPU (for
compute capability 9.0 where there is none); and name the command that installs what is missing."""

_EPILOG = """\
Exit status: 0, also when something is missing; 1 when something that is installed does not work (CuPy that does not import, a driver
that is too old for it, a kernel that does not compile). Keys of the JSON object: gradlib, python and platform are texts; packages holds a
part for each name; driver (the newest CUDA that it runs), cupy, cuda_runtime and nvrtc are parts: version (null when it cannot be used),
purpose, problem, fix, broken, package; gpus is a list of index, name, compute_capability, total_memory and free_memory in bytes, problem;
kernels has architecture, problem, broken and files, a list of name, variants, failed, seconds, error; broken lists the names of what does
not work. Null means none or not known."""


def add_parser(commands: Any) -> None:
    """Add `info` to the command line of `gradlib`."""
    parser = commands.add_parser("info", help="what this machine has and lacks", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument("--no-compile", action="store_true", help="do not compile the kernels, which takes a while on few cores")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what the command line says; returns the exit status, as the help text says."""
    machine = gather()
    if not args.json:
        print(text(machine), flush=True)  # compiling takes minutes on few cores, and may be interrupted
    if args.no_compile:
        machine = replace(machine, kernels=Kernels(None, [], "not checked: --no-compile"))
    elif machine.nvrtc.version is not None:
        bar = None if args.json else Progress("compiling the kernels")
        machine = replace(machine, kernels=cuda.compile_kernels(machine.gpus, bar))
    broken = list(machine.broken())
    print(json.dumps({**asdict(machine), "broken": broken}, indent=2) if args.json else kernels_text(machine.kernels))
    return 1 if broken else 0


def gather() -> Machine:
    """Find out all of it but whether the kernels compile."""
    number = cuda.driver_version()
    cupy, library = cuda.cupy_part(number)
    runtime, gpus = cuda.runtime_part(library, number)
    return Machine(
        gradlib=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=packages.parts(),
        driver=cuda.driver_part(number),
        cupy=cupy,
        cuda_runtime=runtime,
        gpus=gpus,
        nvrtc=cuda.nvrtc_part(cupy, number),
        kernels=Kernels(None, [], "not checked: that needs NVRTC"),
    )
