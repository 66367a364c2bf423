"""Start a program on several ranks: ``python -m gradlib.distributed.launch -n 4 train.py``. It only calls ``mpiexec``.

Without ``--hosts`` all ranks run on this machine and speak through its memory. When one of them dies, mpiexec ends the others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def command(arguments: Sequence[str]) -> list[str]:
    """The call of ``mpiexec`` for these arguments.

    Args:
        arguments: as on the command line, without the program's own name.
    Returns: the words of the call.
    Raises: SystemExit with a line that says what is missing.
    """
    parser = argparse.ArgumentParser(prog="python -m gradlib.distributed.launch", description="Start several ranks by mpiexec.")
    parser.add_argument("-n", "--nproc-per-node", type=int, required=True, metavar="N", help="how many ranks, in all")
    parser.add_argument("--hosts", help="machines, by commas; without it, this one alone")
    parser.add_argument("program", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program gets")
    given = parser.parse_args(arguments)
    if given.nproc_per_node < 1:
        parser.error(f"-n is at least 1, got {given.nproc_per_node}")
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if mpiexec is None:
        parser.error("there is no mpiexec. Install one with: pip install 'gradlib[mpi]' mpich, or load your cluster's MPI")
    where = [] if given.hosts is None else [_hosts_option(mpiexec), given.hosts]
    return [mpiexec, "-n", str(given.nproc_per_node), *where, sys.executable, given.program, *given.arguments]


def _hosts_option(mpiexec: str) -> str:
    """The option that tells this mpiexec the machines: MPICH's, or Open MPI's."""
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    return "--host" if "Open MPI" in said or "PRTE" in said or "prte" in said else "-hosts"


def main() -> None:
    """Become ``mpiexec``, which so gets this process's signals and gives its exit status."""
    words = command(sys.argv[1:])
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
