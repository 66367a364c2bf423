"""Planning for many problems at once, from arrays or files, in this process or by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def plan_many(
    problems: Any, robot: Any = None, *, horizon: int = 64, dtype: Any = "float64", device: str = "cpu", chunk: int = 1024,
    client: Any = None, out: str | Path | None = None, format: str = "parquet", resume: bool = False,
    progress: Callable[[float, int], None] | None = None,
) -> Any:  # fmt: skip
    """Smooth, fast motions from rest to rest inside a robot's limits, for any number of problems.

    Each problem is planned for itself: its result is the same bits on the CPU whatever the chunk, the number of workers, and the others.

    Args:
        problems: a pair (start, goal) of arrays (N, D) of NumPy or dask, radians or metres; or an ``xarray.Dataset`` with variables start
            and goal of dimensions (problem, joint); or the path of a .npz, .csv or .parquet file as for ``gradlib trajopt --problems``.
        robot: a ``gradlib.trajectory.planning.robot.Robot``, which ``assemble`` beside it makes of joints and their limits; by default the
            Franka Emika Panda.
        horizon: H, at least 4 steps.
        dtype: "float32" or "float64".
        device: "cpu" or "cuda".
        chunk: how many problems make a piece of work, and a part of the results. Blocks of dask arrays stay what they are.
        client: a ``distributed.Client``, whose workers plan; by default this process does. Dask arrays are planned by who computes them.
        out: a folder, which all workers must see, for results in parts; by default they are returned. Needed for a file.
        format: of the parts, "parquet" or "npz".
        resume: go on with the parts in ``out``.
        progress: called with the fraction done and how many problems have been planned.
    Returns: `Plans` of NumPy arrays, or of dask arrays for these, computed when asked; an ``xarray.Dataset`` for one; with ``out`` the
        summary of all: its ``problems``, ``solved``, ``mean_duration``, ``used`` fractions of the limits, ``unsolved`` and ``failed``.
    Raises: ValueError for problems, a robot or a folder that cannot be used.
    Example:
        >>> import numpy
        >>> start = numpy.array([[0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0]])
        >>> plans = gradlib.trajectory.plan_many((start, start + 0.5), horizon=32)
        >>> round(float(plans.dt[0] * 31), 2)  # seconds
        0.53
    """
    from gradlib.trajectory.planning import arrays

    told = progress or (lambda fraction, count: None)
    return arrays.plan(problems, robot, horizon, dtype, device, chunk, client, out, format, resume, told)
