"""`trajectory.plan_many`: problems and results as files or as arrays of NumPy, dask or xarray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradlib.trajectory.planning import job, motion, parts
from gradlib.trajectory.planning.chunk import PARTS, planned
from gradlib.trajectory.planning.errors import InputError, shown
from gradlib.trajectory.planning.problems import Block, Problems, Stream, judged, stream
from gradlib.trajectory.planning.robot import Robot, assemble, panda
from gradlib.trajectory.state import Plans


def plan(
    problems: Any, robot: Robot | None, horizon: int, dtype: Any, device: str, chunk: int, client: Any, out: Any, form: str,
    resume: bool, progress: job.Progress,
) -> Any:  # fmt: skip
    """As `trajectory.plan_many`, whose arguments these are."""
    machine = assemble(*panda()) if robot is None else robot
    _check(machine, horizon, dtype, chunk, form)
    folder = "" if out is None else str(Path(out).absolute())
    work = job.Work(machine, horizon, np.dtype(dtype).name, device, folder, form)
    if isinstance(problems, (str, os.PathLike)):
        if out is None:
            raise InputError("the results of a file of problems go into a folder: give it as out=")
        source = stream(os.fspath(problems), machine, chunk)
        return job.run(source, work, chunk, client, resume, [problems], progress)[0]  # type: ignore[list-item]
    if hasattr(problems, "data_vars"):
        return _dataset(problems, work, chunk, client, resume, progress)
    if not isinstance(problems, (tuple, list)) or len(problems) != 2:
        got = f"{type(problems).__name__} of {len(problems)}" if hasattr(problems, "__len__") else type(problems).__name__
        raise InputError(f"problems must be a pair (start, goal) of arrays (N, joints), the name of a file or an xarray.Dataset; got {got}")
    start, goal = problems
    if hasattr(start, "dask") or hasattr(goal, "dask"):
        if folder:
            raise InputError("results of dask arrays are dask arrays; leave out= away and store these, or give NumPy arrays or a file")
        return _lazy(start, goal, work)
    start, goal = (np.asarray(each, dtype=np.float64) for each in (start, goal))
    joints = len(machine.joints)
    if start.shape != goal.shape or start.ndim != 2 or start.shape[1] != joints:
        raise InputError(f"start and goal must both be (N, {joints}), a column for each joint; got {start.shape} and {goal.shape}")
    if folder:
        return job.run(_of_arrays(start, goal, machine, chunk), work, chunk, client, resume, (), progress)[0]
    return _in_memory(judged(start, goal, machine), work, chunk, client, progress)


def _check(machine: Any, horizon: int, dtype: Any, chunk: int, form: str) -> None:
    if not isinstance(machine, Robot):
        rule = "robot must be a Robot, which gradlib.trajectory.planning.robot.assemble makes of joints"
        raise InputError(f"{rule}, those of a URDF file by gradlib.cli.trajopt.urdf.read; got {type(machine).__name__}")
    if horizon < motion.SHORTEST:
        raise InputError(f"horizon must be at least {motion.SHORTEST}, got {horizon}")
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype must be float32 or float64, got {shown(str(dtype))}")
    if chunk < 1:
        raise InputError(f"chunk must be at least 1, got {chunk}")
    if form not in parts.FORMATS:
        raise InputError(f"format must be one of {', '.join(parts.FORMATS)}, got {shown(form)}")


def _of_arrays(start: np.ndarray, goal: np.ndarray, machine: Robot, size: int) -> Stream:
    place = [0.0]

    def blocks() -> Iterator[Block]:
        for low in range(0, len(start), size):
            place[0] = min(1.0, (low + size) / len(start))
            yield np.concatenate([start[low : low + size], goal[low : low + size]], axis=1), {}

    return Stream(blocks(), machine, lambda: place[0])


def plan_chunk(work: job.Work, asked: Problems) -> Plans:
    """The results of a chunk as arrays."""
    found, reasons = planned(asked, work.robot, work.horizon, np.dtype(work.dtype), work.device)
    solved = np.array([not reason for reason in reasons], dtype=bool)
    return Plans._make([*(getattr(found, name) for name in PARTS), solved, np.array(reasons, dtype=object)])


def _in_memory(asked: Problems, work: job.Work, size: int, client: Any, progress: job.Progress) -> Plans:
    cut = [Problems(asked.start[low : low + size], asked.goal[low : low + size], asked.reasons[low : low + size])
           for low in range(0, max(len(asked.start), 1), size)]  # fmt: skip
    done = 0
    found = []
    waiting = [] if client is None else [client.submit(plan_chunk, work, each, pure=False) for each in cut]
    try:
        for place, each in enumerate(cut):
            found.append(waiting[place].result() if waiting else plan_chunk(work, each))
            done += len(each.start)
            progress(done / max(len(asked.start), 1), done)
    except BaseException:
        if waiting:
            client.cancel(waiting)
        raise
    *whole, reason = (np.concatenate(each) for each in zip(*found, strict=True))
    return Plans._make([*whole, reason.astype(np.str_)])


def _plan_block(work: job.Work, start: np.ndarray, goal: np.ndarray) -> Plans:
    return plan_chunk(work, judged(np.asarray(start, np.float64), np.asarray(goal, np.float64), work.robot))


def _lazy(start: Any, goal: Any, work: job.Work) -> Plans:
    """Dask arrays of results, block by block."""
    import dask
    import dask.array as da

    start, goal = (da.asarray(each).rechunk({1: -1}) for each in (start, goal))
    d = len(work.robot.joints)
    if start.shape != goal.shape or start.ndim != 2 or start.shape[1] != d or np.isnan(start.shape[0]):
        raise InputError(f"start and goal must both be (N, {d}) with blocks of known sizes; got {start.shape} and {goal.shape}")
    goal = goal.rechunk(start.chunks)
    made = dask.delayed(_plan_block, pure=True)
    blocks = [made(work, s, g) for s, g in zip(start.to_delayed()[:, 0], goal.to_delayed()[:, 0], strict=True)]
    shapes = dict.fromkeys(PARTS[:-1], (work.horizon, d))
    kinds = {name: np.dtype(work.dtype) for name in PARTS} | {"solved": np.dtype(bool), "reason": np.dtype(object)}
    return Plans._make(
        da.concatenate([
            da.from_delayed(block[place], (rows, *shapes.get(name, ())), kinds[name])
            for block, rows in zip(blocks, start.chunks[0], strict=True)
        ])
        for place, name in enumerate(Plans._fields)
    )  # fmt: skip


def _dataset(given: Any, work: job.Work, chunk: int, client: Any, resume: bool, progress: job.Progress) -> Any:
    """An xarray.Dataset of results for one of problems, lazy where that is; the summary where there is a folder."""
    import xarray

    if not {"start", "goal"} <= set(given.data_vars) or given["start"].ndim != 2:
        names = shown(sorted(map(str, given.data_vars)))
        raise InputError(f"a Dataset of problems has variables start and goal of dimensions (problem, joint); got {names}")
    rows, joints = given["start"].dims
    start, goal = (given[name].transpose(rows, joints).data for name in ("start", "goal"))
    out = work.folder or None
    found = plan((start, goal), work.robot, work.horizon, work.dtype, work.device, chunk, client, out, work.format, resume, progress)
    if out:
        return found
    axes = dict.fromkeys(PARTS[:-1], (rows, "step", joints))
    coordinates = {name: given.coords[name] for name in (rows, joints) if name in given.coords}
    variables = {name: (axes.get(name, (rows,)), value) for name, value in found._asdict().items()}
    return xarray.Dataset(variables, coords={joints: list(work.robot.joints), **coordinates})
