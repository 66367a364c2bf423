"""``python -m tests.differential``: draw programs until the time is over, and print each kind of disagreement once, reduced."""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
from typing import Any

from tests.differential.compare import MODES, Disagreement, disagreements
from tests.differential.draw import Draw
from tests.differential.judged import judged
from tests.differential.program import Program, libraries
from tests.differential.reduce import reduced


def kind(program: Program, found: Disagreement) -> str:
    """What makes two disagreements the same one: the mode, what differs, and the operations of the reduced program."""
    called = re.findall(r"(\w+)\(|(\S?=)|\.(T|H|mT|mH|data|grad)\b", "\n".join(program.lines))
    error = re.search(r"(\w+Error): (.{40})", found.torch + found.gradlib)
    names = sorted({"".join(each) for each in called})
    return f"{found.mode} {found.what} {' '.join(names)} {error[1] if error else ''}"


def search(seconds: float, seed: int, programs: int | None, report: Any) -> tuple[int, collections.Counter[str]]:
    """Draw and compare.

    Args:
        seconds: how long.
        seed: the first program's seed; each next program takes the next.
        programs: at most so many, or None.
        report: called with (seed, program, disagreement) for the first of each kind that no judgement explains.
    Returns: how many programs were run, and how often each kind was met.
    """
    both = libraries()
    end, count, kinds = time.monotonic() + seconds, 0, collections.Counter[str]()
    while time.monotonic() < end and (programs is None or count < programs):
        program = Draw(seed + count, both[0]).program()
        count += 1
        for found in disagreements(both, program, tuple(MODES)):
            short, found = reduced(both, program, found)
            name = kind(short, found)
            if judged(short, found) is not None:
                kinds["judged"] += 1
            else:
                kinds[name] += 1
                if kinds[name] == 1:
                    report(seed + count - 1, short, found)
            break
    return count, kinds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=None)
    options = parser.parse_args()

    def report(seed: int, program: Program, found: Disagreement) -> None:
        print(f"---- seed {seed}\n{program.text()}\n{found}\n", flush=True)

    count, kinds = search(options.seconds, options.seed, options.programs, report)
    meant = kinds.pop("judged", 0)
    print(f"{count} programs, {sum(kinds.values())} disagreements of {len(kinds)} kinds, {meant} judged")
    for name, times in kinds.most_common():
        print(f"{times:6d}  {name}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
