"""The `gradlib` command and its subcommands."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from gradlib import __version__, files
from gradlib.backend.names import suggest_names
from gradlib.cli import bench, info, profile, trajopt

COMMANDS = (trajopt, profile, info, bench)


def parser() -> argparse.ArgumentParser:
    """The command line of `gradlib`: one subparser for each subcommand, whose function it leaves in ``run``."""
    result = argparse.ArgumentParser(prog="gradlib", description="Autograd on NumPy and CuPy arrays: its ready-made jobs.")
    result.add_argument("--version", action="version", version=f"gradlib {__version__}")
    commands = result.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `gradlib` command.

    Args:
        argv: the arguments after the program's name; None takes them from the process.
    Returns: the exit status: 0 for success, 1 when the job ran but not all of it succeeded, 2 for input that cannot be used,
        130 when it was interrupted.
    Example:
        >>> from gradlib import cli
        >>> cli.main(["profile", "missing.sqlite"])
        2
    """
    before = files.placed()
    try:
        try:
            known = parser()
            args = known.parse_args(argv)
            if "run" not in args:  # no command was named
                known.print_help(sys.stderr)
                return 2
            return args.run(args)
        finally:
            sys.stdout.flush()  # so that output which cannot be written fails here, not at exit
    except KeyboardInterrupt:
        _say(interrupted(before))
        return 130
    except MemoryError:
        _say("gradlib: there is not enough memory for this; ask for less at once")
        return 1
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader of the output went away, as `| head` does: nothing to say
            _say(f"gradlib: {error}")
        with contextlib.suppress(OSError, ValueError):  # it is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes at exit
        return 1


def interrupted(before: int = 0) -> str:
    """The message about a job that was interrupted, before which this process had so many results in place."""
    return "\ninterrupted" + ("" if files.placed() > before else "; nothing was written")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


suggest_names(__name__)
