"""On a GPU the planner's search is a CUDA graph: the same bits as without, one graph for all batches of a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradlib.cuda.graphs import CUDAGraph
from gradlib.trajectory.planning import lbfgs, lbfgs_device, problems, robot, solve
from tests.device import cupy, skip_module_without_cuda, skip_module_without_hostcuda
from tests.trajectory.test_start_rows import launches

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


def test_a_step_of_the_search_is_few_launches(rng: np.random.Generator) -> None:
    """All that follows an evaluation is one."""
    skip_module_without_hostcuda()
    x = cupy.asarray(rng.standard_normal((3, 70)))

    def evaluate(x: Any, rows: Any) -> tuple[Any, Any]:
        return (x * x).sum(axis=1), 2 * x

    search = lbfgs.Search(evaluate, x)
    for _ in range(lbfgs_device.HISTORY):
        search.advance(evaluate, np.arange(3))
    assert len(search.memory.pairs) == lbfgs_device.HISTORY
    assert launches(lambda: search.advance(evaluate, np.arange(3))) - launches(lambda: evaluate(x, None)) <= 3


def test_a_gpu_takes_the_same_steps(rng: np.random.Generator) -> None:
    """More of them than the memory holds, some refused."""
    begin, scale = rng.standard_normal((3, 70)), rng.uniform(0.1, 3, 70)

    def evaluate(x: Any, rows: Any) -> tuple[Any, Any]:
        weight = scale if isinstance(x, np.ndarray) else cupy.asarray(scale)
        return (weight * x**4).sum(axis=1), 4 * weight * x**3

    there, here = lbfgs.Search(evaluate, cupy.asarray(begin)), lbfgs.Search(evaluate, begin)
    for _ in range(2 * lbfgs_device.HISTORY):
        for search in (there, here):
            search.advance(evaluate, np.arange(3))
        np.testing.assert_allclose(lbfgs.on_host(there.x), here.x, rtol=1e-9, atol=1e-12)
