"""The planner: feasible, near time-optimal, for any limits, horizon and dtype."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.trajectory.planning import check, motion, robot, solve
from tests.trajectory.planning.robots import PANDA, arm, assert_feasible, optimal, pairs

PARTS = ("position", "velocity", "acceleration", "jerk", "dt")


def planned(start, goal, machine, **options):
    found = solve.plan(start, goal, machine, **options)
    assert check.faults(found, start, goal, machine) == [""] * len(start)
    assert_feasible(machine, *(getattr(found, name) for name in PARTS), start, goal)
    return found


def scaled(velocity=1.0, acceleration=1.0, jerk=1.0):
    """The Panda with limits multiplied."""
    rates = {"velocity": PANDA.velocity * velocity, "acceleration": PANDA.acceleration * acceleration, "jerk": PANDA.jerk * jerk}
    return robot.Robot("scaled", PANDA.joints, PANDA.units, PANDA.lower, PANDA.upper, **rates)


def ratios(start, goal, machine, **options):
    return planned(start, goal, machine, **options).duration() / optimal(start, goal, machine)


@pytest.mark.slow
def test_panda_problems_near_the_time_optimum():
    found = ratios(*pairs(96, 1), PANDA)
    assert found.mean() < 1.03  # 1.15 is asked for
    assert found.max() < 1.05
    assert found.min() > 1 - 1e-6


@pytest.mark.parametrize(("horizon", "reach"), [(8, 1.4), (16, 1.11), (32, 1.05), (128, 1.02), (256, 1.02)])
@pytest.mark.slow
def test_longer_horizons_come_closer(horizon, reach):
    found = ratios(*pairs(12, 2), PANDA, horizon=horizon)
    assert found.mean() < reach
    assert found.max() < 1.25 * reach


@pytest.mark.parametrize(
    "limits",
    [{"jerk": 1e-2}, {"jerk": 1e-3}, {"acceleration": 0.1}, {"velocity": 10.0}, {"velocity": 10.0, "jerk": 1e-2}, {"velocity": 0.01}],
)
@pytest.mark.slow
def test_whichever_limit_binds(limits):
    machine = scaled(**limits)
    found = ratios(*pairs(24, 3), machine)
    assert found.mean() < 1.04
    assert found.max() < 1.1


@pytest.mark.parametrize("horizon", [4, 5, 6, 7])
def test_the_shortest_horizons_are_feasible(horizon):
    planned(*pairs(8, 4), PANDA, horizon=horizon)


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "jerk", "reach"), [(64, 1.0, 1.03), (256, 1e-3, 1.1)])  # third differences of rounded positions
def test_float32_finds_motions_within_the_limits(horizon, jerk, reach):
    start, goal = (x.astype(np.float32).astype(np.float64) for x in pairs(16, 5))
    found = planned(start, goal, scaled(jerk=jerk), horizon=horizon, dtype=np.float32)
    assert all(getattr(found, name).dtype == np.float32 for name in PARTS)
    assert (found.duration() / optimal(start, goal, scaled(jerk=jerk))).mean() < reach


def test_awkward_problems_do_not_spoil_their_neighbours():
    start, goal = pairs(48, 6)
    goal[:8] = start[:8] + (goal - start)[:8] * 1e-6  # hardly moves
    goal[8:16, 1:] = start[8:16, 1:]  # one joint only
    start[16:24], goal[16:24] = PANDA.lower, PANDA.upper  # from limit to limit
    goal[24:32] = start[24:32] + (goal - start)[24:32] * 10.0 ** -np.arange(7)  # every scale at once
    found = ratios(start, goal, PANDA)
    assert found[32:].max() < 1.04
    assert found.mean() < 1.06
    assert found.max() < 1.2


def test_one_joint_one_problem_and_no_problem():
    machine = arm()
    assert ratios(np.array([[-1.0]]), np.array([[2.0]]), machine)[0] < 1.03
    empty = solve.plan(np.empty((0, 1)), np.empty((0, 1)), machine, horizon=16)
    assert empty.position.shape == (0, 16, 1)


def test_position_limits_hold_where_start_and_goal_lie_on_them():
    machine = arm(lower=0.0, upper=1.0, jerk=4.0)
    found = planned(np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), machine, horizon=128)
    assert found.position.min() >= 0
    assert found.position.max() <= 1


def test_continuous_joints_may_turn_several_times():
    machine = robot.assemble("wheel", [robot.Joint("w", "continuous", velocity=2.0, acceleration=1.0, jerk=1.0)])
    found = solve.plan(np.array([[0.0]]), np.array([[20.0]]), machine)
    assert check.faults(found, np.array([[0.0]]), np.array([[20.0]]), machine) == [""]
    assert found.duration()[0] < 1.03 * optimal(np.array([[0.0]]), np.array([[20.0]]), machine)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "horizon", "dtype"), [(PANDA, 64, np.float64), (PANDA, 16, np.float32), (arm(), 120, np.float64)])
def test_a_problem_has_the_same_bits_whichever_others_share_its_batch(machine, horizon, dtype):
    start, goal = pairs(24, 7, machine)
    goal[3:6] = start[3:6] + (goal - start)[3:6] * 1e-4  # these need other numbers of steps
    whole = solve.plan(start, goal, machine, horizon, dtype)
    for low, high in ((0, 1), (4, 5), (2, 9), (10, 24)):
        part = solve.plan(start[low:high], goal[low:high], machine, horizon, dtype)
        for name in PARTS:
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[low:high])


def test_more_problems_than_a_batch_give_the_same_bits_and_progress(monkeypatch):
    start, goal = pairs(6, 7)
    first = solve.plan(start, goal, PANDA, horizon=16)
    monkeypatch.setattr(solve, "ELEMENTS", 4 * 16 * 7)
    done = []
    parts = solve.plan(start, goal, PANDA, horizon=16, progress=done.append)
    for name in PARTS:
        np.testing.assert_array_equal(getattr(first, name), getattr(parts, name))
    assert done == sorted(done)
    assert 0 <= done[0] < done[-1] <= 1


def objective_of(batch, sharpness):
    """The objective of a batch, and its value at coefficients."""
    made = solve._Objective(batch, sharpness)
    return made, lambda x, dt=1.0: made.smooth_maximum(x, made.constants[0], made.constants[1] / dt, made.constants[2] * dt)


def test_the_objective_is_the_log_of_the_needed_step_time():
    start, goal = pairs(5, 8)
    batch = solve._Batch(start, goal, PANDA, 32, np.dtype(np.float64), "cpu")
    made, value = objective_of(batch, (7, 6, 5))
    at = gradlib.from_numpy(made.coefficients())
    np.testing.assert_allclose(value(at).numpy(), 0, atol=0.06)
    np.testing.assert_allclose(value(at, 2.0).numpy(), -np.log(2), atol=0.06)  # relative to the dt at which the chain runs
    loose, tight = (objective_of(batch, (p, p, p))[1](at, 2.0).numpy() for p in (2, 5))
    assert (loose > tight).all()
    assert (tight > -np.log(2)).all()


def test_the_objectives_gradient_is_that_of_differences():
    start, goal = pairs(3, 9)
    batch = solve._Batch(start, goal, PANDA, 12, np.dtype(np.float64), "cpu")
    made, value = objective_of(batch, (4, 3, 2))
    at = made.coefficients()
    _, gradient = made(at.reshape(3, -1), np.arange(3))
    direction = np.random.default_rng(0).standard_normal(at.shape) * np.abs(at).max()
    values = [float(value(gradlib.from_numpy(at + step * direction)).sum()) for step in (1e-6, -1e-6)]
    assert (gradient * direction.reshape(3, -1)).sum() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6)


def test_every_stage_shortens_the_motions():
    start, goal = pairs(8, 10)
    batch = solve._Batch(start, goal, PANDA, 32, np.dtype(np.float64), "cpu")
    before = batch.needed
    for sharpness in solve.SHARPNESS:
        batch.descend(sharpness, 20, lambda fraction: None)
        assert batch.needed.sum() < before.sum()
        assert (batch.needed <= before).all()
        before = batch.needed
    np.testing.assert_allclose(motion.needed_step(batch.profile, batch.distance, PANDA), batch.needed)


def test_a_motion_to_where_it_starts_takes_no_time():
    start, goal = pairs(3, 4)
    goal[1] = start[1]
    found = solve.plan(start, goal, PANDA, horizon=16)
    assert check.faults(found, start, goal, PANDA) == [""] * 3
    assert found.dt[1] == 0
    assert (found.dt[[0, 2]] > 0).all()
    np.testing.assert_array_equal(found.position[1], np.broadcast_to(start[1], (16, 7)))
    for rate in (found.velocity, found.acceleration, found.jerk):
        assert not rate[1].any()
    found.position[1, 5] += 0.1
    assert check.faults(found, start, goal, PANDA)[1] == "moves in no time"


@pytest.mark.slow
def test_the_cost_of_a_long_horizon_grows_like_the_horizon(monkeypatch):
    """Numbers that pass through the objective, counted; planned first with fewer steps, which is where the search is done."""
    objective, counted = solve._Objective.__call__, []

    def count(self, x, rows):
        counted.append(x.shape[1] * len(rows))
        return objective(self, x, rows)

    monkeypatch.setattr(solve._Objective, "__call__", count)
    work = []
    for horizon in (256, 1024):
        counted.clear()
        assert ratios(*pairs(1, 5), PANDA, horizon=horizon).max() < 1.02
        work.append(sum(counted))
    assert work[1] < 5 * work[0]
