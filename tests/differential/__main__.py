"""``python -m tests.differential``: draw programs until the time is over, and print each kind of disagreement once, reduced."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import re
import sys
import time

from tests.differential.compare import MODES, Disagreement, disagreements
from tests.differential.draw import Draw
from tests.differential.judged import judged
from tests.differential.program import Program, libraries
from tests.differential.reduce import reduced
from tests.differential.small import lower


def kind(program: Program, found: Disagreement) -> str:
    """What makes two disagreements the same one: the mode, what differs, and the operations of the reduced program."""
    called = re.findall(r"(\w+)\(|(\S?=)|\.(T|H|mT|mH|data|grad)\b", "\n".join(program.lines))
    error = re.search(r"(\w+Error): (.{40})", found.torch + found.gradlib)
    names = sorted({"".join(each) for each in called})
    return f"{found.mode} {found.what} {' '.join(names)} {error[1] if error else ''}"


CHUNK = 200


def search(first: int, programs: int, until: float) -> tuple[int, collections.Counter[str], dict[str, str]]:
    """Draw and compare, in a process of its own, since a program may end torch's.

    Args:
        first: the first program's seed; each next program takes the next.
        programs: how many; fewer where the clock (``time.monotonic``) reaches ``until``.
    Returns: how many programs were run, how often each kind of disagreement was met ("judged" among them), and one program for each.
    """
    both = libraries()
    kinds, shown = collections.Counter[str](), dict[str, str]()
    for count in range(programs):
        if time.monotonic() > until:
            return count, kinds, shown
        program = Draw(first + count, both[0]).program()
        for found in disagreements(both, program, tuple(MODES)):
            short, found = reduced(both, program, found)
            name = "judged" if judged(short, found) is not None else kind(short, found)
            kinds[name] += 1
            if name != "judged":
                shown.setdefault(name, f"---- seed {first + count}\n{short.text()}\n{found}\n")
            break
    return programs, kinds, shown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=None)
    parser.add_argument("--small", type=int, default=None, metavar="ELEMENTS", help="lower gradlib's thresholds of size to so many")
    options = parser.parse_args()
    libraries()
    if options.small is not None:
        lower(options.small)
    end, seed, count, crashes = time.monotonic() + options.seconds, options.seed, 0, 0
    kinds, seen = collections.Counter[str](), set[str]()
    while time.monotonic() < end and (options.programs is None or count < options.programs):
        size = CHUNK if options.programs is None else min(CHUNK, options.programs - count)
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            try:
                ran, met, shown = pool.submit(search, seed, size, end).result()
            except concurrent.futures.process.BrokenProcessPool:
                crashes += 1
                print(f"---- one of the seeds {seed} to {seed + size - 1} ended the process\n", flush=True)
                ran, met, shown = 0, collections.Counter(), {}
        count, seed = count + ran, seed + size
        kinds += met
        for name in shown.keys() - seen:
            print(shown[name], flush=True)
        seen |= shown.keys()
    meant = kinds.pop("judged", 0)
    print(f"{count} programs, {sum(kinds.values())} disagreements of {len(kinds)} kinds, {meant} judged, {crashes} chunks lost to a crash")
    for name, times in kinds.most_common():
        print(f"{times:6d}  {name}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
