"""Plans one chunk of problems and checks the results: each problem without a solution gets a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradlib.trajectory.planning import solve
from gradlib.trajectory.planning.check import Trajectories, faults
from gradlib.trajectory.planning.problems import Problems
from gradlib.trajectory.planning.robot import Robot

PARTS = ("position", "velocity", "acceleration", "jerk", "dt")


def planned(
    asked: Problems, robot: Robot, horizon: int, dtype: np.dtype, device: str, progress: Callable[[float], None] = lambda fraction: None
) -> tuple[Trajectories, list[str]]:
    """Trajectories for all problems of a chunk.

    Args:
        asked: N problems; robot, horizon, dtype, device, progress: as for `solve.plan`.
    Returns: N trajectories, NaN for those that are not solved, and the reasons why they are not, "" for the others.
    Raises: what the planner raises, where it does so for every problem: then the fault is not a problem's.
    """
    reasons = np.array(asked.reasons, dtype=object)
    rows = np.flatnonzero(reasons == "")
    found, broken = _one_by_one(asked.start[rows], asked.goal[rows], robot, horizon, dtype, device, progress)
    judged = faults(found, asked.start[rows], asked.goal[rows], robot)
    reasons[rows] = [fault or (text and f"the trajectory found {text}") for fault, text in zip(broken, judged, strict=True)]
    whole = []
    for name in PARTS:
        part = getattr(found, name)
        full = np.full((len(reasons), *part.shape[1:]), np.nan, part.dtype)
        full[rows] = part
        full[reasons != ""] = np.nan
        whole.append(full)
    return Trajectories(*whole), reasons.tolist()


def _one_by_one(
    start: np.ndarray, goal: np.ndarray, robot: Robot, horizon: int, dtype: np.dtype, device: str, progress: Callable[[float], None]
) -> tuple[Trajectories, list[str]]:
    """`solve.plan`; where it raises, for each problem by itself, which gives the others the same bits. Also what it raised for which."""
    try:
        return solve.plan(start, goal, robot, horizon, dtype, device, progress), [""] * len(start)
    except Exception:
        if len(start) == 1:
            raise
    empty = solve.plan(start[:0], goal[:0], robot, horizon, dtype, device)
    made = Trajectories(*(np.full((len(start), *getattr(empty, name).shape[1:]), np.nan, dtype) for name in PARTS))
    broken = [""] * len(start)
    for row in range(len(start)):
        try:
            found = solve.plan(start[row : row + 1], goal[row : row + 1], robot, horizon, dtype, device)
        except Exception as error:
            broken[row] = f"the planner failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            if all(broken):
                raise
            continue
        for name in PARTS:
            getattr(made, name)[row] = getattr(found, name)[0]
    return made, broken
