"""`gradlib trajopt`, from its arguments to its exit status."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gradlib.cli import memory
from gradlib.cli.progress import Progress
from gradlib.cli.trajopt import limits, many, output, plot, report, urdf
from gradlib.trajectory.planning import job, motion, parts, problems, robot
from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.chunk import planned
from gradlib.trajectory.planning.errors import InputError

_DESCRIPTION = """\
Plan smooth, fast joint motions from rest to rest for many start and goal configurations at once, inside the limits of position,
velocity, acceleration and jerk, by differentiating through the robot's chain of motion. With no options: 256 problems sampled for the
Franka Emika Panda. Radians (metres for prismatic joints) and seconds throughout."""

_EPILOG = """\
Writes trajectories.npz, trajectories.csv and, with matplotlib, trajectories.png; in chunks, a file for each and manifest.json, which
stay when the command ends early, for --resume to go on with. Exit status: 0 when every problem is solved, 1 when
some are not (they are named, and hold NaN in the files), 2 when the input cannot be used (nothing is written), 130 or 143 when Ctrl-C or
SIGTERM ended it (the results are all there, or none). No result is written over a file that is read.

A file of limits holds lower, upper, velocity, acceleration and jerk, each one number for all joints, a list with one for each, or a
mapping by joint; and joints: joint by joint, which goes before one number for all. MoveIt's joint_limits.yaml is such a file. Example:

  acceleration: 10  # rad/s^2, or m/s^2 for a prismatic joint
  jerk: [5000, 5000, 6000, 6000, 6000, 7000, 7000]
  joints:
    panda_joint1: {velocity: 1.5, acceleration: 5}
"""


class _Paragraphs(argparse.HelpFormatter):
    """Wraps each paragraph to the terminal, and leaves an indented one as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else super(_Paragraphs, self)._fill_text(part, width, indent) for part in parts)


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add `trajopt` to the command line of `gradlib`."""
    parser = commands.add_parser(
        "trajopt", help="plan robot joint motions", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=_Paragraphs,
    )  # fmt: skip
    who = parser.add_argument_group("robot")
    who.add_argument("--urdf", metavar="FILE", help="the robot; position and velocity limits are in it (default: Franka Emika Panda)")
    who.add_argument("--acceleration", nargs="+", metavar="A", help="acceleration limit, one number or one per joint")
    who.add_argument("--jerk", nargs="+", metavar="J", help="jerk limit, one number or one per joint")
    who.add_argument("--limits", metavar="FILE.yaml", help="limits of any kind, over those of the robot; laid out as below (needs PyYAML)")
    what = parser.add_argument_group("problems")
    what.add_argument(
        "--problems", metavar="FILE", help="CSV or Parquet with columns start_<joint>, goal_<joint>; or NPZ with start, goal (N, D)"
    )
    what.add_argument("--samples", type=_whole(1), metavar="N", help="draw N problems within the limits (default: 256)")
    what.add_argument("--seed", type=_whole(0), metavar="S", help="seed of the draw (default: 0)")
    how = parser.add_argument_group("planning")
    how.add_argument("--horizon", type=_whole(motion.SHORTEST), default=64, metavar="H", help="steps of a motion (default: 64)")
    how.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    how.add_argument("--dtype", choices=("float32", "float64"), default="float64", help="(default: float64)")
    how.add_argument("--out", default="trajopt", metavar="DIR", help="folder for the results (default: trajopt)")
    cluster = parser.add_argument_group("many problems (any of these options plans in chunks and writes a part for each)")
    cluster.add_argument("--workers", type=_whole(1), metavar="N", help="plan by N processes on this machine (with cuda: N GPUs)")
    cluster.add_argument(
        "--scheduler", metavar="ADDRESS", help="plan by the workers of a running Dask cluster, such as tcp://127.0.0.1:8786"
    )
    cluster.add_argument("--chunk", type=_whole(1), metavar="N", help=f"problems in a part (default: {job.CHUNK})")
    cluster.add_argument("--resume", action="store_true", help="go on with the parts that are in DIR")
    cluster.add_argument("--format", choices=parts.FORMATS, help="of the parts (default: parquet)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do the job that the arguments describe.

    Args:
        args: as `add_parser` defines them.
    Returns: the exit status, as the help text says.
    """
    began = time.perf_counter()
    try:
        machine = _robot(args)
        if args.workers or args.scheduler or args.chunk or args.resume or args.format:
            most = _most(args.horizon, len(machine.joints), np.dtype(args.dtype))
            problems.check_count(args.chunk or 1, most, f"--chunk {args.chunk}")
            if not args.scheduler:
                _check_device(args.device)
            return many.run(args, machine, _inputs(args), began)
        asked = _problems(args, machine)
        _check_device(args.device)
        with output.prepared(args.out, _inputs(args)) as folder:
            moves, reasons = _plan(args, machine, asked)
            solved = np.array([not reason for reason in reasons])
            drawn = _write(args, folder, moves, solved, reasons, machine)
    except InputError as error:
        print(f"gradlib trajopt: {error}", file=sys.stderr)
        return 2
    print(f"{machine.name}: {len(machine.joints)} joints, horizon {args.horizon}, {args.dtype} on {args.device}")
    if not solved.all():
        print(report.unsolved(reasons))
    print(report.table(moves, solved, machine, time.perf_counter() - began))
    print("written: " + ", ".join(str(folder / name) for name in output.NAMES if drawn or not name.endswith(".png")))
    if not drawn:
        print("no trajectories.png: matplotlib is not installed; get it with: pip install matplotlib")
    return 0 if solved.all() else 1


def _robot(args: argparse.Namespace) -> robot.Robot:
    """The robot that the arguments describe, every limit known."""
    content = limits.read(args.limits) if args.limits else {}
    named = limits.joints_named(content)
    if args.urdf:
        name, joints, notes = urdf.read(args.urdf)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    else:
        name, joints = robot.panda()
        if named and not {joint.name for joint in joints}.intersection(named):
            name, joints = Path(args.limits).stem, [robot.Joint(joint) for joint in named]  # the file describes a robot by itself
    common, single = ([(str(args.limits), table)] for table in limits.tables(content, joints, args.limits))
    for quantity in ("acceleration", "jerk"):
        values = getattr(args, quantity)
        if values is not None:
            option = f"--{quantity}"
            numbers = _floats(values, option)
            (common if len(numbers) == 1 else single).append((option, limits.spread(quantity, numbers, joints, option)))
    return robot.assemble(name, limits.apply(joints, common, single))


def _problems(args: argparse.Namespace, machine: robot.Robot) -> problems.Problems:
    """The problems that the arguments describe."""
    most = _most(args.horizon, len(machine.joints), np.dtype(args.dtype))
    if args.problems is None:
        count = 256 if args.samples is None else args.samples
        problems.check_count(count, most, f"--samples {count}")
        return problems.sample(count, args.seed or 0, machine)
    if args.samples is not None or args.seed is not None:
        raise InputError("--problems gives the problems, so --samples and --seed have nothing to draw; leave them out")
    return problems.read(args.problems, machine, most)


def _most(horizon: int, joints: int, dtype: np.dtype) -> int | None:
    """The number of problems that fit into memory, about; None where the system does not say how much there is.

    Raises: InputError for a horizon of which not even one has.
    """
    limit = memory.limit()
    if limit is None:
        return None
    each = horizon * joints * (8 * dtype.itemsize + 64)  # four results, with their copies when they are put together, written and judged
    if each > limit:
        raise InputError(f"--horizon {horizon}: a motion of {joints} joints needs more memory than this machine has; shorten it")
    return limit // each


def _check_device(name: str) -> None:
    """Refuse a device that is not there, now."""
    import gradlib

    try:
        gradlib.zeros(1, device=name)
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"--device {name}: {error}") from error


def _plan(args: argparse.Namespace, machine: robot.Robot, asked: problems.Problems) -> tuple[Trajectories, list[str]]:
    """Trajectories for all problems, NaN for those that are not solved, and the reasons why they are not."""
    bar = Progress(f"planning {report.problems(asked.reasons.count(''))}")
    found = planned(asked, machine, args.horizon, np.dtype(args.dtype), args.device, bar)
    bar.finish()
    return found


def _inputs(args: argparse.Namespace) -> list[str]:
    """The files that are read."""
    return [path for path in (args.urdf, args.limits, args.problems) if path]


def _write(
    args: argparse.Namespace, folder: Path, moves: Trajectories, solved: np.ndarray, reasons: list[str], machine: robot.Robot
) -> bool:
    """Write all results, or none. Returns: whether the picture is among them."""
    drawn = plot.available()
    try:
        with output.replacing(folder, _inputs(args)) as place:
            output.write_npz(place("trajectories.npz"), moves, solved, reasons, machine.joints)
            output.write_csv(place("trajectories.csv"), moves, solved, machine.joints)
            if drawn:
                plot.write_png(place("trajectories.png"), moves, solved, machine)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}; no result there was changed") from error
    return drawn


def _floats(values: list[str], option: str) -> list[float]:
    """Numbers given as separate arguments or joined by commas."""
    try:
        return [float(text) for value in values for text in value.split(",") if text.strip()]
    except ValueError as error:
        raise InputError(f"{option} takes numbers, got {' '.join(values)}") from error


def _whole(least: int) -> Callable[[str], int]:
    """An argument type: a whole number no less than this."""

    def whole(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    whole.__name__ = "whole number"
    return whole
