"""The motions that the planner searches: velocity profiles in a basis of sines, and the scale of each coefficient.

A motion of H steps from rest to rest is its velocities at steps 1 .. H-3; those at H-2 and H-1 are zero, so that velocity and
acceleration end at zero, and dividing by their sum makes the motion end at the goal. So every point of the search space meets the end
conditions exactly, and only the limits are left, which decide the step time in closed form (see solve.py).

The velocities are sums of the M = H-3 sines that vanish at steps 0 and H-2. Differences of such a sum are nearly diagonal: a difference
multiplies the k-th coefficient by w_k = 2 sin(pi k / 2(M+1)). So the curvature of the objective along coefficient k is close to

    (d / (V t))^2 + (d / (A t^2) / 2)^2 w_k^2 + (d / (J t^3) / 3)^2 w_k^4

for displacement d, step time t and limits V, A, J; dividing each coefficient by its square root makes the problem well conditioned
whichever limit binds, at any horizon. In plain velocities or positions L-BFGS stalls as the horizon grows (curvatures spread as H^6).
"""

from __future__ import annotations

import numpy as np

from gradlib.trajectory.planning.robot import Robot
from gradlib.trajectory.planning.sines import sine_transform

SHORTEST = 4
"""The fewest steps of a motion from rest to rest: one velocity, then two steps to come to rest in velocity and acceleration."""

_FLOOR = 1e-6  # of the largest curvature in the problem: a joint that hardly moves would otherwise get a huge scale


def smooth_start(horizon: int) -> np.ndarray:
    """The velocities (H,) that sum to one of the path 10 s^3 - 15 s^4 + 6 s^5, which starts and ends at rest, shifted by a step.

    Source: T. Flash and N. Hogan, The coordination of arm movements, Journal of Neuroscience 5 (1985), the minimum-jerk path.
    """
    m = horizon - 3
    s = np.arange(1, m + 1) / (m + 1)
    profile = np.zeros(horizon)
    profile[:m] = (s * (1 - s)) ** 2
    return profile / profile.sum()


def finer(profile: np.ndarray, horizon: int) -> np.ndarray:
    """A profile (B, h, D) at the steps of a longer horizon: the same sum of sines, so as smooth."""
    m = horizon - 3
    coefficients = sine_transform(profile[:, : profile.shape[1] - 3])
    made = np.zeros((len(profile), horizon, profile.shape[2]))
    made[:, : coefficients.shape[1]] = coefficients
    made[:, :m] = sine_transform(made[:, :m])
    return made / made.sum(axis=1, keepdims=True)


def needed_step(profile: np.ndarray, distance: np.ndarray, robot: Robot) -> np.ndarray:
    """The shortest step time (seconds) at which a path keeps every limit: the closed form.

    A path that is traversed with step time t has velocities, accelerations and jerks that shrink as 1/t, 1/t^2 and 1/t^3.

    Args:
        profile: (B, H, D) displacements step by step as fractions of the way, the h-th leading to step h+1.
        distance: (B, D) the way; robot: whose limits.
    Returns: (B,).
    """
    return needed_steps(profile, distance, robot).max(axis=1)


def needed_steps(profile: np.ndarray, distance: np.ndarray, robot: Robot) -> np.ndarray:
    """As `needed_step`, for each joint by itself: (B, D)."""
    first = profile * distance[:, None]
    second = np.diff(first, axis=1, prepend=0.0)
    third = np.diff(second, axis=1, prepend=0.0)
    rates = enumerate(zip((first, second, third), robot.rates(), strict=True), start=1)
    return np.maximum.reduce([(np.abs(x).max(axis=1) / limit) ** (1 / order) for order, (x, limit) in rates])


def smoothed(profile: np.ndarray, distance: np.ndarray, robot: Robot) -> np.ndarray:
    """The profile (B, H, D) with every joint that has time to spare drawn towards `smooth_start`, as far as the slowest one allows.

    Mixtures of two paths need no more time than the slower of them, so the best share is found by halving.
    """
    smooth = smooth_start(profile.shape[1])[:, None]
    dt = needed_step(profile, distance, robot)[:, None]
    low, high = np.zeros(distance.shape), np.ones(distance.shape)
    for _ in range(12):
        share = (low + high) / 2
        fits = needed_steps(profile + share[:, None] * (smooth - profile), distance, robot) <= dt
        low, high = np.where(fits, share, low), np.where(fits, high, share)
    return profile + low[:, None] * (smooth - profile)


def scales(horizon: int, distance: np.ndarray, dt: np.ndarray, robot: Robot) -> np.ndarray:
    """The scale of each coefficient, (B, M, D), with which the objective's curvature is about the same along all of them.

    Args:
        horizon: H; distance: (B, D); dt: (B,) seconds, the step time about which to look; robot: whose limits.
    """
    m = horizon - 3
    w = 2 * np.sin(np.pi * np.arange(1, m + 1) / (2 * (m + 1)))
    curvature = np.zeros((len(distance), m, distance.shape[1]))
    for order, limit in enumerate(robot.rates(), start=1):
        share = distance / (order * limit * dt[:, None] ** order)
        curvature += share[:, None] ** 2 * w[:, None] ** (2 * order - 2)
    largest = curvature.max(axis=(1, 2), keepdims=True)
    return 1 / np.sqrt(np.maximum(curvature, _FLOOR * largest))


def positions(profile: np.ndarray, start: np.ndarray, goal: np.ndarray, robot: Robot) -> np.ndarray:
    """The path (B, H, D) with this profile (B, H, D): start at step 0, goal exactly at the last three steps, inside the limits.

    A path that leaves the position limits on the way is replaced by its monotone version, which stays between start and goal.
    """
    path = _path(profile, start, goal)
    # start and goal may pass a limit by rounding; the path may not pass them further
    lower, upper = np.minimum(robot.lower, np.minimum(start, goal)), np.maximum(robot.upper, np.maximum(start, goal))
    outside = ((path < lower[:, None]) | (path > upper[:, None])).any(axis=1)
    if not outside.any():
        return path
    monotone = np.maximum(profile, 0.0)
    monotone = monotone / monotone.sum(axis=1, keepdims=True)
    return np.where(outside[:, None], _path(monotone, start, goal), path)


def _path(profile: np.ndarray, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Start plus the profile summed up, with both ends exact."""
    way = np.cumsum(profile, axis=1)
    path = np.empty_like(profile)
    path[:, 0] = start
    path[:, 1:] = start[:, None] + way[:, :-1] * (goal - start)[:, None]
    path[:, -3:] = goal[:, None]
    return path
