"""`gradlib profile FILE`: what a profiler's file says of each operation, forward and backward side by side."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradlib.autograd.profiler import EventList, load_nsys, load_nvprof
from gradlib.autograd.profiler.loading import files_of
from gradlib.files import replacing

REPORT = ".nsys-rep"


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `gradlib`."""
    parser = commands.add_parser(
        "profile",
        help="tables and pictures of a file of Nsight Systems or nvprof",
        description="Reads the SQLite export of Nsight Systems, or a file of nvprof, of a program that ran inside emit_nvtx(), and prints "
        "what each operation took in forward and in backward.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what `nsys export --type=sqlite` or `nvprof -o` wrote")
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="also write a trace for ui.perfetto.dev")
    parser.add_argument("--html", type=Path, metavar="OUT.html", help="also write a page with the table and a timeline")
    parser.add_argument("--rows", type=int, default=50, metavar="N", help="print at most N rows (default %(default)s; -1 for all)")
    parser.set_defaults(run=run)


def load(path: Path) -> EventList:
    """Read a file of either profiler.

    Raises: FileNotFoundError; ValueError for a file that is neither, saying what it lacks.
    """
    if path.suffix == REPORT:
        made = path.with_suffix(".sqlite")
        raise ValueError(f"{path} is a report of Nsight Systems; export it first: nsys export --type=sqlite -o {made} {path}")
    return load_nvprof(path) if _is_nvprof(path) else load_nsys(path)


def _is_nvprof(path: Path) -> bool:
    import sqlite3

    if not path.is_file():
        return False
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'StringTable'").fetchone())
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Have the error of a full disk, which knows no file, name the result that could not be written."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {target}: {error.strerror or error}; nothing was changed") from error


def run(args: argparse.Namespace) -> int:
    """Do what the command line says; returns the exit status."""
    from gradlib.autograd.profiler.html import write_page
    from gradlib.autograd.profiler.table import sides, sides_table, time_text
    from gradlib.autograd.profiler.trace import write_trace

    try:
        with replacing(files_of(args.file)) as results:  # which refuses a place before the work, not after it
            trace, page = (None if path is None else results.place(path) for path in (args.trace, args.html))
            events = load(args.file)
            if trace is not None:
                with _naming(args.trace):
                    write_trace(events, trace)
            if page is not None:
                with _naming(args.html):
                    write_page(events, page, args.file.name)
    except (ValueError, OSError) as error:
        print(f"gradlib profile: {error}", file=sys.stderr)
        return 2
    print(sides_table(sides(events), args.rows), end="")
    kernels = sum(len(event.kernels or ()) for event in events)
    print(f"{len(events)} ranges, {kernels} kernels, CUDA time {time_text(sum(e.self_device_time_total for e in events))}")
    if args.trace is not None:
        print(f"{args.trace}: open it at https://ui.perfetto.dev")
    if args.html is not None:
        print(f"{args.html}: open it in a browser")
    return 0
