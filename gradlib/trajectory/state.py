"""The state of a robot's joints and their motion over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(eq=False)
class JointState:
    """Where joints are and how they move; a part that is None counts as zero.

    Args:
        position: (S, D) or (D,), radians or metres.
        velocity, acceleration, jerk: its time derivatives, of the same shape.
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
    """Positions, velocities, accelerations and jerks over a horizon, each (B, H, D), or (B, D, H) with layout "bdh"."""

    position: Any
    velocity: Any
    acceleration: Any
    jerk: Any


class JointLimits(NamedTuple):
    """Bounds on each quantity of a motion; None where there is none.

    Args:
        position, velocity, acceleration, jerk: a bound m for -m .. m, or a pair (lower, upper), in numbers or (D,), SI units.
    """

    position: Any = None
    velocity: Any = None
    acceleration: Any = None
    jerk: Any = None
