"""Checks whether a finished trajectory is what was asked for. It uses NumPy only and shares no code with the planner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlib.trajectory.planning.robot import Robot

TOLERANCE = 1e-4
"""By how much, as a fraction, a limit may be passed."""


@dataclass(frozen=True)
class Trajectories:
    """N trajectories of H steps and D joints. Radians or metres, and seconds.

    Attributes:
        position, velocity, acceleration, jerk: (N, H, D).
        dt: (N,) seconds from one step to the next; 0 where start and goal are one and nothing moves.
    """

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    dt: np.ndarray

    def duration(self) -> np.ndarray:
        """(N,) seconds from the first step to the last."""
        return self.dt * (self.position.shape[1] - 1)


def fractions(motion: Trajectories, robot: Robot) -> dict[str, np.ndarray]:
    """The share of each limit that a trajectory uses: the largest over steps and joints, 1 at the limit.

    Args:
        motion: N trajectories; robot: whose limits.
    Returns: "position", "velocity", "acceleration" and "jerk", each (N,). A position is measured from the middle of its range; a joint
        without position limits uses none, and one whose range is a point uses all of it when it stays there.
    """
    half = (robot.upper - robot.lower) / 2
    middle = np.where(np.isfinite(half), robot.lower, 0.0) + np.where(np.isfinite(half), half, 0.0)
    away = np.abs(motion.position.astype(np.float64) - middle)
    rounding = 4 * np.finfo(motion.position.dtype).eps * np.maximum(1.0, np.abs(middle))
    used = np.where(np.isfinite(half), away / np.where(half > 0, half, 1.0), 0.0)
    used = np.where(half > 0, used, np.where(away <= rounding, 1.0, np.inf))
    result = {"position": used.max(axis=(1, 2))}
    for name, limit in zip(("velocity", "acceleration", "jerk"), robot.rates(), strict=True):
        result[name] = (np.abs(getattr(motion, name).astype(np.float64)) / limit).max(axis=(1, 2))
    return result


def faults(motion: Trajectories, start: np.ndarray, goal: np.ndarray, robot: Robot) -> list[str]:
    """The reason why each trajectory is not a solution, or "" for one that is.

    Solved means: finite, starts and ends where asked, at rest there, inside every limit within 1e-4 of it, and velocity, acceleration
    and jerk are the backward differences of the chain. A motion to where it starts may take no time.

    Args:
        motion: N trajectories; start, goal: (N, D); robot: whose limits.
    Returns: N texts.
    """
    eps = float(np.finfo(motion.position.dtype).eps)
    p, v, a, j = (getattr(motion, name).astype(np.float64) for name in ("position", "velocity", "acceleration", "jerk"))
    dt = motion.dt.astype(np.float64)
    tests: list[tuple[np.ndarray, str]] = [
        (np.isfinite(dt) & (dt >= 0) & np.isfinite(p + v + a + j).all(axis=(1, 2)), "is not finite"),
        ((dt != 0) | (p == p[:, :1]).all(axis=(1, 2)), "moves in no time"),
        (_near(p[:, 0], start, eps), "does not start where asked"),
        (_near(p[:, -1], goal, eps), "does not end where asked"),
        (_rests(v, a, 0, robot), "does not start at rest"),
        (_rests(v, a, -1, robot), "does not end at rest"),
    ]
    for name, used in fractions(motion, robot).items():
        tests.append((used <= 1 + TOLERANCE, f"passes a {name} limit"))
    for upper, lower, limit, name in zip((p, v, a), (v, a, j), robot.rates(), ("velocity", "acceleration", "jerk"), strict=True):
        tests.append((_differences(upper, lower, np.where(dt == 0, 1.0, dt), limit, eps), f"has a {name} that is not the chain's"))
    return [next((text for passed, text in tests if not passed[row]), "") for row in range(len(p))]


def _near(reached: np.ndarray, asked: np.ndarray, eps: float) -> np.ndarray:
    return (np.abs(reached - asked) <= 4 * eps * np.maximum(1.0, np.abs(asked))).all(axis=1)


def _rests(v: np.ndarray, a: np.ndarray, step: int, robot: Robot) -> np.ndarray:
    """Whether velocity and acceleration are zero at a step, to a millionth of their limits."""
    return ((np.abs(v[:, step]) <= 1e-6 * robot.velocity) & (np.abs(a[:, step]) <= 1e-6 * robot.acceleration)).all(axis=1)


def _differences(x: np.ndarray, rate: np.ndarray, dt: np.ndarray, limit: np.ndarray, eps: float) -> np.ndarray:
    """Whether rate_h = (x_h - x_{h-1}) / dt from step 1 on, up to the rounding of x and the tolerance on the rate's limit."""
    with np.errstate(all="ignore"):  # a trajectory that is not finite fails for that reason
        error = np.abs(rate[:, 1:] - np.diff(x, axis=1) / dt[:, None, None])
        allowed = TOLERANCE * limit + 4 * eps * np.abs(x).max(axis=1, keepdims=True) / dt[:, None, None]
        return (error <= allowed).all(axis=(1, 2))
