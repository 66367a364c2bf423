"""The judge must pass what is right and name what is wrong, however slightly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradlib.trajectory.planning.check import Trajectories, faults, fractions
from tests.trajectory.planning.robots import arm

ROBOT = arm(lower=0.0, upper=2.0, velocity=1.0, acceleration=2.0, jerk=20.0)
START, GOAL = np.array([[0.5]]), np.array([[1.5]])


def chain(profile, dt, dtype=np.float64):
    """A trajectory from 0.5 to 1.5 whose steps have these shares of the way."""
    p = np.array([0.5, *(0.5 + np.cumsum(profile) / np.sum(profile))], dtype)
    v, a, j = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    v[1:] = np.diff(p) / dtype(dt)
    a[1:] = np.diff(v) / dtype(dt)
    j[1:] = np.diff(a) / dtype(dt)
    return Trajectories(*(x[None, :, None] for x in (p, v, a, j)), np.array([dt], dtype))


GOOD = chain([1, 2, 3, 3, 2, 1, 0, 0], 0.4)


def fault(moves, start=START, goal=GOAL, machine=ROBOT):
    (text,) = faults(moves, start, goal, machine)
    return text


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_good_trajectory_passes(dtype):
    assert fault(chain([1, 2, 3, 3, 2, 1, 0, 0], 0.4, dtype)) == ""


def changed(name, step, by):
    array = getattr(GOOD, name).copy()
    array[0, step] += by
    return replace(GOOD, **{name: array})


@pytest.mark.parametrize(
    ("moves", "text"),
    [
        (changed("velocity", 3, np.nan), "not finite"),
        (replace(GOOD, dt=np.array([np.inf])), "not finite"),
        (replace(GOOD, dt=np.array([-0.4])), "not finite"),
        (changed("position", 0, 1e-6), "does not start where asked"),
        (changed("position", -1, 1e-6), "does not end where asked"),
        (changed("velocity", 0, 1e-5), "does not start at rest"),
        (chain([1, 2, 3, 3, 2, 1, 0, 1e-4], 0.4), "does not end at rest"),
        (chain([1, 2, 3, 3, 2, 1, 0], 0.4), "does not end at rest"),
        (chain([1, 1, 0, 0], 0.4), "passes a velocity limit"),
        (chain([1, 2, 3, 3, 2, 1, 0, 0], 0.2), "passes a velocity limit"),
        (changed("velocity", 3, 0.001), "velocity that is not the chain's"),
        (changed("acceleration", 3, 0.002), "acceleration that is not the chain's"),
        (changed("jerk", 3, 0.01), "jerk that is not the chain's"),
        (changed("jerk", 1, 0.01), "jerk that is not the chain's"),
    ],
)
def test_each_fault_is_named(moves, text):
    assert text in fault(moves)


@pytest.mark.parametrize("name", ["velocity", "acceleration", "jerk"])
def test_a_limit_holds_to_one_part_in_ten_thousand(name):
    largest = np.abs(getattr(GOOD, name)).max()
    assert fault(GOOD, machine=replace(ROBOT, **{name: np.array([largest / (1 + 0.9e-4)])})) == ""
    assert fault(GOOD, machine=replace(ROBOT, **{name: np.array([largest / (1 + 1.1e-4)])})) == f"passes a {name} limit"


def test_position_limits_and_joints_that_cannot_move():
    assert fault(GOOD, machine=replace(ROBOT, upper=np.array([1.499]))) == "passes a position limit"
    assert fault(GOOD, machine=replace(ROBOT, upper=np.array([np.inf]), lower=np.array([-np.inf]))) == ""
    still = Trajectories(*(np.full((1, 4, 1), x) for x in (0.7, 0.0, 0.0, 0.0)), np.array([0.1]))
    locked = replace(ROBOT, lower=np.array([0.7]), upper=np.array([0.7]))
    assert fault(still, np.array([[0.7]]), np.array([[0.7]]), locked) == ""
    assert fault(still, np.array([[0.7]]), np.array([[0.7]]), replace(locked, lower=np.array([0.6]), upper=np.array([0.6]))) != ""


def test_fractions_are_one_at_the_limit():
    found = fractions(GOOD, replace(ROBOT, velocity=np.abs(GOOD.velocity).max(axis=(0, 1))))
    assert found["velocity"][0] == pytest.approx(1)
    assert found["position"][0] == pytest.approx(0.5)
    assert set(found) == {"position", "velocity", "acceleration", "jerk"}
