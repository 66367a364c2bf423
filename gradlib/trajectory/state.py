"""The state of a robot's joints and their motion over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(eq=False)
class JointState:
    """The state of joints: positions, velocities, accelerations and jerks; a part that is None counts as zero.

    Args:
        position: (S, D) or (D,), radians or metres.
        velocity, acceleration, jerk: its time derivatives, of the same shape.
    Example:
        >>> start = gradlib.trajectory.JointState(position=gradlib.zeros(1, 1), velocity=gradlib.ones(1, 1))
        >>> gradlib.trajectory.step_acceleration(gradlib.zeros(1, 3, 1), start, 0.5).position[0, :, 0]
        tensor([0.0000, 0.5000, 1.0000])
    """

    position: Any = None
    velocity: Any = None
    acceleration: Any = None
    jerk: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.position, self.velocity, self.acceleration, self.jerk))

    def __len__(self) -> int:
        return 4


class JointTrajectory(NamedTuple):
    """A motion over a horizon: what the integrators return, a named tuple.

    Attributes:
        position: (B, H, D), radians or metres; (B, D, H) with layout "bdh".
        velocity, acceleration, jerk: its time derivatives, of the same shape.
    Example:
        >>> position, velocity, acceleration, jerk = gradlib.trajectory.step_position(gradlib.ones(2, 5, 7), (), 0.1)
        >>> velocity.shape
        gradlib.Size([2, 5, 7])
    """

    position: Any
    velocity: Any
    acceleration: Any
    jerk: Any


class JointLimits(NamedTuple):
    """Bounds on each quantity of a motion; None where there is none.

    Args:
        position, velocity, acceleration, jerk: a bound m for -m .. m, or a pair (lower, upper), in numbers or (D,), SI units.
    Example:
        >>> limits = gradlib.trajectory.JointLimits(velocity=2.0, position=(-1.0, 3.0))
        >>> gradlib.trajectory.smoothness_cost(gradlib.full((1, 3, 1), 4.0), (), 1.0, (0.0, 0.0, 0.0), limits)
        tensor([6.])
    """

    position: Any = None
    velocity: Any = None
    acceleration: Any = None
    jerk: Any = None


class Plans(NamedTuple):
    """Motions from rest to rest for N problems: what `plan_many` returns for arrays.

    Attributes:
        position, velocity, acceleration, jerk: (N, H, D), radians or metres, and seconds; NaN where a problem is not solved.
        dt: (N,) seconds from one step to the next; 0 where start and goal are one.
        solved: (N,) bool.
        reason: (N,) texts that say why a problem is not solved, "" for those that are.
    Example:
        >>> plans = gradlib.trajectory.plan_many(([[0.0, 0, 0, -1, 0, 1, 0]], [[1.0, 0, 0, -1, 0, 1, 0]]), horizon=16)
        >>> plans.position.shape, bool(plans.solved[0])
        ((1, 16, 7), True)
    """

    position: Any
    velocity: Any
    acceleration: Any
    jerk: Any
    dt: Any
    solved: Any
    reason: Any
