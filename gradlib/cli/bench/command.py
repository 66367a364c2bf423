"""`gradlib bench`: its arguments, and what is done with the rows."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlib.backend.device import resolve
from gradlib.cli.bench import compare, machine, peers, plot, table
from gradlib.cli.bench.case import Case, Row
from gradlib.cli.bench.record import read_record, record_text
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites import NAMES
from gradlib.cli.info.packages import install
from gradlib.cli.progress import Progress
from gradlib.files import Results, made_folder, replacing
from gradlib.trajectory import compiled

_DESCRIPTION = """\
Time gradlib against the libraries that are installed beside it. All compute the same from the same inputs, which is checked before anything
is timed, in one process, in turn; a ratio is gradlib's time over the other's within one round, and the table shows medians."""

_EPILOG = """\
A ratio below 1 means that gradlib is faster. MISSED: it is over the limit in the column before; noisy: the spread is too wide to say, or
the ratio less than it can be, also in a longer run. Exit status: 0; 1 when results disagree, or --compare finds something slower; 2 for
input that cannot be used; 130 when it was interrupted, where what was measured until then is kept. Keys of the JSON object: machine;
versions; suites, by name a list of rows with name, size, dtype, device, unit, seconds (median and spread of gradlib and of each other
library), ratio, noise, limits, missed, noisy, fraction (of the machine's own copy bandwidth and peak), error."""


class Interrupted(Exception):
    """Ctrl-C, between two rows."""


def add_parser(commands: Any) -> None:
    """Add `bench` to the command line of `gradlib`."""
    parser = commands.add_parser("bench", help="time gradlib against other libraries", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--device", choices=("cpu", "cuda", "all"), default="cpu", help="where to compute (cpu by default)")
    parser.add_argument("--peers", metavar="A,B", help=f"compare with these only, of {', '.join(peers.NAMES[1:])}")
    parser.add_argument("--threads", type=_positive, default=1, metavar="N", help="of the libraries' linear algebra (1 by default)")
    parser.add_argument("--repeat", type=_positive, default=11, metavar="N", help="rounds of each row (11 by default)")
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name, size, dtype and device match this regular expression")
    parser.add_argument("--quick", action="store_true", help="a choice of rows, in under a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write machine, versions and rows here")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="also draw them, as PNG and SVG, into this folder")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="say what moved since that file was written, beyond the noise")
    parser.add_argument("--tolerance", type=_factor, metavar="FACTOR", help="--compare looks at ratios alone, and only for this much")
    parser.add_argument("--profile", action="store_true", help="run each row once under an NVTX range, for nsys and ncu; nothing is timed")
    parser.add_argument("--list", action="store_true", help="say what each suite is for")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what the command line says; returns the exit status, as the help text says."""
    if args.list:
        for name in NAMES:
            print(f"{name:<11}{(_suite(name).__doc__ or '').partition(chr(10))[0]}")
        return 0
    try:
        job = _Job(args)
    except (ValueError, OSError) as error:
        print(f"gradlib bench: {error}", file=sys.stderr)
        return 2
    _with_threads(args.threads)
    return job.profile() if args.profile else job.run()


class _Job:
    """A run of the command, its arguments understood. Raises: ValueError for those that cannot be used."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.devices = ("cpu", "cuda") if args.device == "all" else (args.device,)
        self.suites = [name for name in NAMES if name in args.suites] if args.suites else list(NAMES)
        if unknown := sorted(set(args.suites) - set(NAMES)):
            raise ValueError(f"there is no suite {', '.join(unknown)}; there are {', '.join(NAMES)}")
        if "cuda" in self.devices:
            try:
                resolve("cuda")
            except RuntimeError as error:
                raise ValueError(f"--device {args.device}: {error}") from error
        asked = args.peers.split(",") if args.peers else None
        if asked is not None and (unknown := sorted(set(asked) - set(peers.NAMES[1:]))):
            raise ValueError(f"--peers: nothing is known of {', '.join(unknown)}; there are {', '.join(peers.NAMES[1:])}")
        self.peers = self._usable(asked)
        try:
            self.only = re.compile(args.only or "")
        except re.error as error:
            raise ValueError(f"--only takes a regular expression: {error}") from error
        if args.tolerance and not args.compare:
            raise ValueError("--tolerance is of --compare, which is missing")
        if args.profile and (needless := [name for name in ("json", "plot", "compare") if getattr(args, name)]):
            raise ValueError(f"--profile times nothing, so it has nothing for --{needless[0]}; leave one of them out")
        self.old = read_record(args.compare) if args.compare else None
        if args.plot and importlib.util.find_spec("matplotlib") is None:
            raise ValueError(f"--plot draws with matplotlib, which is not installed; get it with: {install('matplotlib')}")
        self.cases = {(suite, device): list(self._wanted(suite, device)) for suite in self.suites for device in self.devices}
        if not any(self.cases.values()):
            raise ValueError(f"--only {args.only}: no row of {', '.join(self.suites)} matches" if args.only else "there is nothing to run")
        self.inputs = [args.compare] if args.compare else []
        if args.json:  # asked now, since it is too late when everything has been measured
            results = Results(self.inputs)
            results.place(args.json)
            results.discard()

    def _usable(self, asked: Sequence[str] | None) -> tuple[str, ...]:
        """The libraries that can be compared with; those asked for must be there."""
        found = []
        for name in asked if asked is not None else peers.NAMES[1:]:
            reasons = [peers.available(name, device) for device in self.devices]
            if None in reasons:
                found.append(name)
            elif asked is not None:
                raise ValueError(f"--peers {name}: {reasons[0]}")
        return tuple(found)

    def _wanted(self, suite: str, device: str) -> Iterator[Case | str]:
        """The cases of a suite that match; the suite's name where it measures by itself and that matches."""
        module = _suite(suite)
        if not hasattr(module, "cases"):
            if self.only.search(suite):
                yield suite
            return
        for case in module.cases(device, self.args.quick):
            if self.only.search(f"{suite} {case.title}"):
                yield case

    def run(self) -> int:
        """Measure, show, compare and write."""
        for name in self.peers:
            peers.use_threads(name, self.args.threads)
        speed = {device: machine.speed(device) for device in self.devices}
        facts = machine.facts(self.args.threads, speed)
        compiler = ("numba",) if "cpu" in self.devices and compiled.version() else ()
        versions = machine.versions(("gradlib", "numpy", *compiler, *self.peers))
        print(table.facts(facts | versions))
        if missing := [name for name in peers.NAMES[1:] if name not in self.peers and "cpu" in self.devices and not self.args.peers]:
            print(f"not compared with: {', '.join(missing)}")
        runner = Runner(self.peers, 3 if self.args.quick else self.args.repeat, speed=speed)
        measured: dict[str, list[Row]] = {}
        interrupted = False
        try:
            with _interruptible() as check:
                for suite in self.suites:
                    rows = measured.setdefault(suite, [])
                    try:
                        self._measure(suite, runner, rows, check)
                    finally:  # when interrupted too
                        print()
                        table.show(suite, rows)
        except Interrupted:
            interrupted = True
        record = {"machine": facts, "versions": versions, "suites": {n: [r.as_dict() for r in rows] for n, rows in measured.items()}}
        self._write(record, measured, speed[self.devices[-1]].bytes)
        wrong = [row for rows in measured.values() for row in rows if row.error]
        slower = self._compared(record)
        if interrupted:
            print("\ninterrupted; what was measured is kept", file=sys.stderr)
            return 130
        return 1 if wrong or slower else 0

    def _measure(self, suite: str, runner: Runner, rows: list[Row], check: Callable[[], None]) -> None:
        wanted = [(device, each) for device in self.devices for each in self.cases[suite, device]]
        bar = Progress(f"{suite}, {table.counted(len(wanted))}" if wanted else suite)
        for k, (device, each) in enumerate(wanted):
            made = _suite(suite).rows(runner, device, self.args.quick) if isinstance(each, str) else [runner.row(each)]
            for row in made:
                rows.append(row)
                check()
            bar((k + 1) / len(wanted))
        bar.finish()

    def _write(self, record: dict[str, Any], measured: dict[str, list[Row]], bandwidth: float) -> None:
        """The file and the pictures, all or none."""
        if self.args.json:
            with replacing(self.inputs) as results:
                results.place(self.args.json).write_text(record_text(record), encoding="utf-8")
            print(f"written: {self.args.json}")
        if self.args.plot:
            with made_folder(self.args.plot), replacing([*self.inputs, *([self.args.json] if self.args.json else [])]) as results:
                names = []
                for suite, rows in measured.items():
                    for name, figure in plot.pictures(suite, [row for row in rows if not row.error], bandwidth).items():
                        for ending in ("png", "svg"):
                            target = self.args.plot / f"{name}.{ending}"
                            plot.save(figure, results.place(target), ending)
                            names.append(str(target))
            print(f"written: {', '.join(names)}" if names else "nothing is drawn: no row was compared with another library, nor over sizes")

    def _compared(self, record: dict[str, Any]) -> bool:
        """Say what moved; returns whether something got slower."""
        if self.old is None:
            return False
        found = sorted(compare.changes(self.old["suites"], record["suites"], self.args.tolerance), key=lambda change: -change.factor)
        print(f"\nsince {self.args.compare}: " + ("nothing moved beyond the noise" if not found else f"{table.counted(len(found))} moved"))
        for difference in compare.circumstances(self.old, record):
            print(f"  measured otherwise: {difference}")
        for change in found:
            word = "slower" if change.factor > 1 else "faster"
            print(f"  {word}: {change.row}: {change.figure} {change.old:.3g} -> {change.new:.3g} ({change.factor:.2f} times)")
        return any(change.factor > 1 for change in found)

    def profile(self) -> int:
        """Run gradlib's side of each row once warm and once under a range of its title."""
        from gradlib.autograd.profiler import emit_nvtx, record_function
        from gradlib.autograd.profiler.nvtx import DOMAIN

        shown = shlex.join(a for a in sys.argv[1:] if not a.startswith("--profile"))
        print(f"nsys profile --trace=cuda,nvtx --output=gradlib gradlib {shown} --profile")
        print(f"ncu --nvtx --nvtx-include '{DOMAIN}@ROW/' gradlib {shown} --profile")
        print("# ROW: one of the names below, with a backslash before each of @ , [ ] / * +")
        runner = Runner(())
        for (suite, device), cases in self.cases.items():
            for case in cases:
                if isinstance(case, str):
                    print(f"gradlib bench: --profile leaves {suite} out, whose rows are no single run", file=sys.stderr)
                    continue
                run = runner.runs(case)["gradlib"]
                run()
                peer = peers.Peer("gradlib", device)
                with emit_nvtx(), record_function(case.title):
                    run()
                    peer.synchronize()
                print(case.title)
        return 0


def _suite(name: str) -> ModuleType:
    return importlib.import_module(f"gradlib.cli.bench.suites.{name}")


def _with_threads(count: int) -> None:
    """Have linear algebra use so many threads. It asks the environment when it is loaded: where that differs, the process begins anew."""
    wanted = {name: str(count) for name in machine.THREADS}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "gradlib.cli", *sys.argv[1:]], {**os.environ, **wanted})


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """A context in which Ctrl-C is heeded between two rows, by the function that it gives; a second one ends the process at once."""
    hit = False

    def heed(number: int, frame: Any) -> None:
        nonlocal hit
        if hit:
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)
        hit = True
        with suppress(OSError):  # not by way of sys.stderr, which the signal may have found in the middle of a write
            os.write(2, b"\nstops after this row; Ctrl-C once more stops at once and keeps nothing\n")

    def check() -> None:
        if hit:
            raise Interrupted

    before = signal.signal(signal.SIGINT, heed)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


_positive.__name__ = "whole number"


def _factor(text: str) -> float:
    value = float(text)
    if not 1 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


_factor.__name__ = "number"
