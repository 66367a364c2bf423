"""A robot: its joints as they were read, and the limits of those that can be planned for."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from gradlib.trajectory.planning.errors import InputError

Lead = tuple[str | None, float, float]
"""(joint, multiplier, offset): stands at multiplier * joint + offset; no joint where it stands still"""

QUANTITIES = ("lower", "upper", "velocity", "acceleration", "jerk")
_HINT = {
    "lower": "--limits FILE.yaml",
    "upper": "--limits FILE.yaml",
    "velocity": "--limits FILE.yaml",
    "acceleration": "--acceleration or --limits FILE.yaml",
    "jerk": "--jerk or --limits FILE.yaml",
}


@dataclass(frozen=True)
class Joint:
    """One joint that moves along one coordinate, with what is known of its limits (None: nothing).

    Attributes:
        name: as the robot's description has it.
        kind: "revolute", "continuous" (turns without end) or "prismatic".
        lower, upper: position limits; velocity, acceleration, jerk: largest magnitudes. Radians or metres, and seconds.
        mimic: None, or (joint, multiplier, offset): this joint stands at multiplier * joint + offset.
    """

    name: str
    kind: str = "revolute"
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    acceleration: float | None = None
    jerk: float | None = None
    mimic: tuple[str, float, float] | None = None


@dataclass(frozen=True)
class Robot:
    """The joints to plan for and their limits, mimic joints folded into those they follow.

    Attributes:
        name: for people to read.
        joints: names of the D joints.
        units: "rad" or "m" for each.
        lower, upper: (D,) float64 position limits, infinite for a continuous joint.
        velocity, acceleration, jerk: (D,) float64 largest magnitudes.
    """

    name: str
    joints: tuple[str, ...]
    units: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray

    def rates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The limits of velocity, acceleration and jerk."""
        return self.velocity, self.acceleration, self.jerk


def panda() -> tuple[str, list[Joint]]:
    """The Franka Emika Panda's seven joints with the limits its maker publishes.

    Returns: (name, joints).
    Source: Franka Control Interface documentation, "Limits for Panda" (https://frankaemika.github.io/docs/control_parameters.html).
    """
    data = json.loads(resources.files(__package__).joinpath("panda.json").read_text(encoding="utf-8"))
    return data["name"], [Joint(name, "revolute", **limits) for name, limits in data["joints"].items()]


def assemble(name: str, joints: list[Joint]) -> Robot:
    """The robot to plan for, out of joints whose limits are all known.

    A mimic joint is no coordinate of its own: its limits tighten those of the joint that it follows.

    Args:
        name: for people to read.
        joints: of the whole robot, mimic joints too, in the order that problems and results use.
    Returns: the Robot.
    Raises: InputError for a limit that is missing, not a usable number, or contradicts another.
    """
    leaders = _leaders(joints)
    planned = {joint.name: _checked(joint) for joint in joints if joint.mimic is None}
    for joint in joints:
        if joint.mimic is not None:
            _fold(joint, leaders[joint.name], planned)
    for joint in planned.values():
        if joint.lower > joint.upper:  # type: ignore[operator]
            raise InputError(f"contradictory limits: joint {joint.name} may not go below {joint.lower:g} nor above {joint.upper:g}")
    if not planned:
        raise InputError(f"{name} has no joint to plan for: every one is fixed or mimics another")
    columns = {q: np.array([getattr(joint, q) for joint in planned.values()], dtype=np.float64) for q in QUANTITIES}
    units = tuple("m" if joint.kind == "prismatic" else "rad" for joint in planned.values())
    name = name.encode(errors="backslashreplace").decode()  # the name of a file may have bytes that are no letters
    return Robot(name, tuple(planned), units, **columns)


def _checked(joint: Joint) -> Joint:
    """The joint when every limit is there and makes sense; a continuous one gets infinite position limits."""
    if joint.kind == "continuous":
        joint = replace(joint, lower=-math.inf, upper=math.inf)
    for quantity in QUANTITIES:
        value = getattr(joint, quantity)
        if value is None:
            raise InputError(f"joint {joint.name} has no {quantity} limit; give it with {_HINT[quantity]}")
        _usable(joint, quantity, value)
    if joint.lower > joint.upper:  # type: ignore[operator]
        raise InputError(
            f"contradictory limits: joint {joint.name} has lower limit {joint.lower:g} above upper limit {joint.upper:g}; "
            "mend the file, or override both with --limits FILE.yaml"
        )
    return joint


def _usable(joint: Joint, quantity: str, value: float) -> None:
    unbounded = joint.kind == "continuous" and quantity in ("lower", "upper")
    if not math.isfinite(value) and not unbounded:
        raise InputError(f"joint {joint.name}: the {quantity} limit must be a finite number, got {value}; give it with {_HINT[quantity]}")
    if quantity not in ("lower", "upper") and value <= 0:
        raise InputError(f"joint {joint.name}: the {quantity} limit must be above zero, got {value:g}; give it with {_HINT[quantity]}")


def _fold(joint: Joint, lead: Lead, planned: dict[str, Joint]) -> None:
    """Tighten the limits of the joint that a mimic joint follows, so that the mimic joint keeps its own."""
    leader, multiplier, offset = lead
    for quantity in QUANTITIES:
        value = getattr(joint, quantity)
        if value is not None and not (joint.kind == "continuous" and quantity in ("lower", "upper")):
            _usable(joint, quantity, value)
    lower = joint.lower if joint.lower is not None and joint.kind != "continuous" else -math.inf
    upper = joint.upper if joint.upper is not None and joint.kind != "continuous" else math.inf
    if leader is None or multiplier == 0:
        if not lower <= offset <= upper:
            raise InputError(f"contradictory limits: mimic joint {joint.name} always stands at {offset:g}, outside [{lower:g}, {upper:g}]")
        return
    ends = sorted(((lower - offset) / multiplier, (upper - offset) / multiplier))
    of = planned[leader]
    tighter = {q: min(getattr(of, q), getattr(joint, q) / abs(multiplier)) for q in QUANTITIES[2:] if getattr(joint, q) is not None}
    of = replace(of, lower=max(of.lower, ends[0]), upper=min(of.upper, ends[1]), **tighter)  # type: ignore[type-var]
    if of.lower > of.upper:  # type: ignore[operator]
        raise InputError(
            f"contradictory limits: no position of joint {leader} keeps both its own limits and those of {joint.name}, its mimic"
        )
    planned[leader] = of


def _leaders(joints: list[Joint]) -> dict[str, Lead]:
    """The planned joint that each joint follows, with multiplier and offset; the planned joint is None where it never moves."""
    known = {joint.name: joint for joint in joints}
    found: dict[str, Lead] = {joint.name: (joint.name, 1.0, 0.0) for joint in joints if joint.mimic is None}
    for joint in joints:
        way: dict[str, tuple[str, float, float]] = {}
        at = joint.name
        while at in known and at not in found:
            if at in way:
                raise InputError(f"mimic joint {joint.name} follows itself, by way of {at}; the URDF must be mended")
            way[at] = known[at].mimic  # type: ignore[assignment]  # those without are found
            at = way[at][0]
        for name in reversed(way):
            target, factor, shift = way[name]
            leader, multiplier, offset = found.get(target, (None, 0.0, 0.0))
            found[name] = (leader, factor * multiplier, factor * offset + shift)
            if not all(map(math.isfinite, found[name][1:])):
                raise InputError(f"mimic joint {name} follows {target} with numbers that are too large; the URDF must be mended")
    return found
