"""Limits from the command line and from YAML files, put over those that a robot already has."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradlib.cli.trajopt import reading
from gradlib.trajectory.planning.errors import InputError, listed, shown
from gradlib.trajectory.planning.robot import QUANTITIES, Joint

Table = dict[str, dict[str, float]]
"""quantity -> joint -> value"""

_NAMES = {**{q: q for q in QUANTITIES}, "min_position": "lower", "max_position": "upper"}
_NAMES |= {f"max_{q}": q for q in QUANTITIES[2:]}
_SWITCHES = {"has_position_limits": QUANTITIES[:2], **{f"has_{q}_limits": (q,) for q in QUANTITIES[2:]}}
_IGNORED = ("angle_wraparound", "default_velocity_scaling_factor", "default_acceleration_scaling_factor", "name", "source", "units")
_BLOCKS = ("joints", "joint_limits")
_HALF = re.compile("[\ud800-\udfff]")
_LARGEST = 4 << 20  # bytes of a file; with the next three, far more than any robot needs
_DEEPEST = 16
_NODES = 100_000
_LONGEST = 1000


def read(path: str | Path) -> dict[str, Any]:
    """Read a YAML (or JSON, which is YAML) file of limits, in which no key stands twice.

    The file holds ``lower``, ``upper``, ``velocity``, ``acceleration``, ``jerk``, each one number, a list with one per joint, or a
    mapping by joint name; or a block ``joints:`` that gives them joint by joint; or both: what is said of one joint goes before one number
    for all of them. MoveIt's ``joint_limits.yaml`` (its names
    ``max_velocity``, ``min_position``, ``has_jerk_limits``, ...) is such a file.

    Args:
        path: the file.
    Returns: its top-level mapping.
    Raises: InputError when PyYAML is missing, when the file cannot be read, or when it is no mapping.
    Source: MoveIt's joint_limits.yaml, such as https://github.com/moveit/moveit_resources/blob/ros2/panda_moveit_config/config/joint_limits.yaml.
    """
    try:
        import yaml
    except ImportError as error:
        raise InputError("--limits reads YAML, which needs PyYAML; install it with: pip install pyyaml") from error

    try:
        text = reading.content(path, _LARGEST).decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read the limits {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a YAML file: {error}") from error
    try:
        content = yaml.load(text, _loader(yaml.SafeLoader, path))
    except InputError:
        raise
    except Exception as error:  # PyYAML lets errors of many types pass that its constructors meet
        raise InputError(f"{path} is not a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a mapping such as 'acceleration: 10', got {type(content).__name__}")
    return content


def _loader(safe: Any, path: str | Path) -> Any:
    """PyYAML's SafeLoader for this file, which refuses a key given twice (PyYAML lets the last one win) and what only does harm."""

    class Loader(safe):  # type: ignore[misc]
        depth = nodes = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            self.nodes += 1
            self.depth += 1
            if self.depth > _DEEPEST or self.nodes > _NODES or len(getattr(event, "value", "")) > _LONGEST:
                most = f"more than {_DEEPEST} levels, {_NODES} entries or {_LONGEST} letters in one of them"
                raise InputError(f"{path} is no file of limits: near line {event.start_mark.line + 1} it has {most}")
            if _HALF.search(getattr(event, "value", "")):
                raise InputError(f"{path} is no file of limits: near line {event.start_mark.line + 1} it has half a letter (a surrogate)")
            made = super().compose_node(parent, index)
            self.depth -= 1
            return made

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key in [self.construct_object(key, deep=True) for key, _ in node.value]:
                if key in seen:
                    raise InputError(f"contradictory limits: {path} gives {shown(key)} twice, near line {node.start_mark.line + 1}")
                seen.add(key)
            return super().construct_mapping(node, deep)

    return Loader


def joints_named(content: Mapping[str, Any]) -> list[str]:
    """The joints that a file of limits gives joint by joint, in its order."""
    return [str(name) for block in _BLOCKS if isinstance(content.get(block), dict) for name in content[block]]


def tables(content: Mapping[str, Any], joints: list[Joint], path: str | Path) -> tuple[Table, Table]:
    """The limits that a file gives for all joints alike, and those that it gives single joints, by quantity and joint.

    Args:
        content: what `read` returned; joints: of the whole robot; path: for error texts.
    Returns: twice quantity -> joint -> value, for those that are given.
    Raises: InputError for an unknown key or joint, a value that is no number, a list of the wrong length, or a limit given twice.
    """
    common: Table = {}
    single: Table = {}
    known = dict.fromkeys(joint.name for joint in joints)
    for quantity, joint, value, alike in _entries(content, joints, path):
        result = common if alike else single
        if joint not in known:
            raise InputError(f"{path} names joint {joint}, which this robot does not have; it has {listed(known)}")
        if joint in result.setdefault(quantity, {}):
            raise InputError(f"contradictory limits: {path} gives the {quantity} of joint {joint} twice")
        result[quantity][joint] = value
    return common, single


def spread(quantity: str, values: float | list[float], joints: list[Joint], what: str) -> Table:
    """One number for every joint, or one for each joint that is planned for (mimic joints follow), as a table."""
    if not isinstance(values, list):
        return {quantity: {joint.name: _number(values, what) for joint in joints}}
    planned = [joint.name for joint in joints if joint.mimic is None]
    if len(values) == 1:
        return spread(quantity, values[0], joints, what)
    if len(values) != len(planned):
        raise InputError(f"{what}: give one number, or one for each of the {len(planned)} joints ({listed(planned)}); got {len(values)}")
    return {quantity: {name: _number(value, f"{what} of {name}") for name, value in zip(planned, values, strict=True)}}


def apply(joints: list[Joint], common: list[tuple[str, Table]], single: list[tuple[str, Table]]) -> list[Joint]:
    """The joints with tables of limits put over what they had.

    Args:
        joints: of the whole robot; common: (where it comes from, table) of limits for all joints alike, no two of which may give the same
            limit; single: the same of limits for single joints, which go before those.
    Returns: new joints.
    Raises: InputError when two tables of one kind give the same limit of the same joint.
    """
    return _put_over(_put_over(joints, common), single)


def _put_over(joints: list[Joint], tables: list[tuple[str, Table]]) -> list[Joint]:
    origin: dict[tuple[str, str], str] = {}
    given: dict[str, dict[str, float]] = {joint.name: {} for joint in joints}
    for source, entries in tables:
        for quantity, values in entries.items():
            for joint, value in values.items():
                before = origin.setdefault((quantity, joint), source)
                if before != source:
                    raise InputError(f"contradictory limits: both {before} and {source} give the {quantity} of joint {joint}; keep one")
                given[joint][quantity] = value
    return [replace(joint, **given[joint.name]) for joint in joints]  # type: ignore[arg-type]


def _entries(content: Mapping[str, Any], joints: list[Joint], path: str | Path) -> Iterator[tuple[str, str, float, bool]]:
    """(quantity, joint, value, whether it is that of all joints) for everything that a file gives."""
    for key, value in content.items():
        if key in _IGNORED:
            continue
        if key in _BLOCKS:
            yield from ((*entry, False) for entry in _by_joint(value, key, path))
        elif key not in _NAMES:
            raise InputError(f"{path}: unknown key {shown(key)}; the keys are {', '.join(QUANTITIES)} and joints")
        elif isinstance(value, dict):
            yield from ((_NAMES[key], str(joint), _number(number, f"{path}: {key} of {joint}"), False) for joint, number in value.items())
        else:
            for quantity, values in spread(_NAMES[key], value, joints, f"{path}: {key}").items():
                yield from ((quantity, joint, number, not isinstance(value, list)) for joint, number in values.items())


def _by_joint(block: Any, key: str, path: str | Path) -> Iterator[tuple[str, str, float]]:
    """(quantity, joint, value) for a block that gives limits joint by joint."""
    if not isinstance(block, dict) or not all(isinstance(entry, dict) for entry in block.values()):
        raise InputError(f"{path}: {key} must map each joint's name to a mapping of its limits, such as 'elbow: {{velocity: 2.0}}'")
    for joint, entry in block.items():
        off = {quantity for switch, quantities in _SWITCHES.items() if entry.get(switch) is False for quantity in quantities}
        for name, value in entry.items():
            if name in _SWITCHES or name in _IGNORED:
                continue
            if name not in _NAMES:
                raise InputError(f"{path}: joint {joint} has an unknown limit {shown(name)}; the limits are {', '.join(QUANTITIES)}")
            if _NAMES[name] not in off:
                yield _NAMES[name], str(joint), _number(value, f"{path}: {name} of {joint}")


def _number(value: Any, what: str) -> float:
    if isinstance(value, str):  # PyYAML follows YAML 1.1, where 1e4 is text; in YAML 1.2 and JSON it is a number
        with contextlib.suppress(ValueError):
            value = float(value)
    try:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{what} must be a finite number, got {value if isinstance(value, float) else shown(value)}")
    return number
