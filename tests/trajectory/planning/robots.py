"""Small robots and problems that the tests of the command share."""

from __future__ import annotations

import numpy as np

from gradlib.trajectory.planning import robot

PANDA = robot.assemble(*robot.panda())

ARM = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/><link name="e"/>
  <joint name="bolt" type="fixed"><parent link="base"/><child link="a"/></joint>
  <joint name="shoulder" type="revolute"><parent link="a"/><child link="b"/>
    <limit lower="-2" upper="1.5" velocity="2" effort="10"/></joint>
  <joint name="wrist" type="continuous"><parent link="b"/><child link="c"/><limit velocity="4" effort="1"/></joint>
  <joint name="left_finger" type="prismatic"><parent link="c"/><child link="d"/><limit upper="0.04" velocity="0.2" effort="1"/></joint>
  <joint name="right_finger" type="prismatic"><parent link="c"/><child link="e"/>
    <limit lower="-0.06" upper="0.01" velocity="0.3" effort="1"/><mimic joint="left_finger" multiplier="-2" offset="0.01"/></joint>
  <transmission name="t"><joint name="shoulder"/></transmission>
</robot>
"""


def arm(**limits) -> robot.Robot:
    """A robot of one revolute joint, with limits to override."""
    return robot.assemble(
        "test", [robot.Joint("q", **{"lower": -3.0, "upper": 3.0, "velocity": 1.0, "acceleration": 4.0, "jerk": 40.0, **limits})]
    )


def pairs(count: int, seed: int = 0, machine: robot.Robot = PANDA) -> tuple[np.ndarray, np.ndarray]:
    """Starts and goals within a robot's limits."""
    ends = np.random.default_rng(seed).random((2, count, len(machine.joints)))
    return tuple(machine.lower + (machine.upper - machine.lower) * ends)


def optimal(start: np.ndarray, goal: np.ndarray, machine: robot.Robot) -> np.ndarray:
    """The time-optimal durations, joints synchronised, as Ruckig computes them (L. Berscheid and T. Kroeger, RSS 2021)."""
    import ruckig

    d = len(machine.joints)
    result = []
    for p, q in zip(start, goal, strict=True):
        wanted = ruckig.InputParameter(d)
        wanted.current_position, wanted.target_position = p.tolist(), q.tolist()
        wanted.current_velocity = wanted.current_acceleration = wanted.target_velocity = wanted.target_acceleration = [0.0] * d
        wanted.max_velocity, wanted.max_acceleration, wanted.max_jerk = (limit.tolist() for limit in machine.rates())
        found = ruckig.Trajectory(d)
        assert ruckig.Ruckig(d).calculate(wanted, found) == ruckig.Result.Working
        result.append(found.duration)
    return np.array(result)


def assert_feasible(machine: robot.Robot, p, v, a, j, dt, start, goal) -> None:
    """Every promise about a solved row, worked out here from nothing but the arrays."""
    eps = np.finfo(p.dtype).eps
    p, v, a, j, dt = (np.asarray(x, np.float64) for x in (p, v, a, j, dt))
    t = dt[:, None, None]
    np.testing.assert_allclose(p[:, 0], start, atol=8 * eps)
    np.testing.assert_allclose(p[:, -1], goal, atol=8 * eps)
    for x in (v, a):
        assert not x[:, 0].any()
        assert not x[:, -1].any()
    assert not j[:, 0].any()
    slack = 1 + 1e-4
    middle, half = (machine.upper + machine.lower) / 2, (machine.upper - machine.lower) / 2
    assert (np.abs(p - middle) <= half * slack).all()
    for x, limit in zip((v, a, j), machine.rates(), strict=True):
        assert (np.abs(x) <= limit * slack).all()
    for upper, lower, limit in ((p, v, machine.velocity), (v, a, machine.acceleration), (a, j, machine.jerk)):
        assert (np.abs(lower[:, 1:] - np.diff(upper, axis=1) / t) <= 1e-4 * limit + 4 * eps * np.abs(upper).max() / t).all()
