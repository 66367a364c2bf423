"""On a GPU the planner's search is a CUDA graph: the same bits as without, one graph for all batches of a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradlib.cuda.graphs import CUDAGraph
from gradlib.trajectory.planning import lbfgs, problems, robot, solve
from tests.device import skip_module_without_cuda

skip_module_without_cuda()

pytestmark = pytest.mark.cuda


@pytest.mark.slow
def test_the_planner_on_a_gpu_replays_graphs_to_the_bits_of_the_eager_search(monkeypatch: pytest.MonkeyPatch) -> None:
    panda = robot.assemble(*robot.panda())
    asked = problems.sample(5, 3, panda)
    monkeypatch.setattr(solve, "ELEMENTS", 2 * 10 * 7)  # batches of 2, 2 and 1
    captures, replays, evaluations = [], [], []
    ends, runs, calls = CUDAGraph.capture_end, CUDAGraph.replay, solve._Objective.__call__

    def counted(seen: list[int], run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            seen.append(1)
            return run(*args)

        return call

    monkeypatch.setattr(CUDAGraph, "capture_end", counted(captures, ends))
    monkeypatch.setattr(CUDAGraph, "replay", counted(replays, runs))
    monkeypatch.setattr(solve._Objective, "__call__", counted(evaluations, calls))
    made = solve.plan(asked.start, asked.goal, panda, 10, np.float64, "cuda")
    assert len(captures) == 2 * len(solve.SHARPNESS)  # for each shape and stage
    assert len(replays) > 3 * len(captures)
    in_python = len(evaluations)

    def eager(self: Any, objective: Any, x: Any, most: int, progress: Any) -> Any:
        return lbfgs.minimise(objective, x, most, solve._TOLERANCE, progress)

    monkeypatch.setattr(solve._Batch, "searched", eager)
    expected = solve.plan(asked.start, asked.goal, panda, 10, np.float64, "cuda")
    assert len(evaluations) - in_python > in_python
    for name in ("position", "velocity", "acceleration", "jerk", "dt"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
