"""Joints out of a URDF file, as the URDF specification defines them.

Source: the joint element of the Unified Robot Description Format, http://wiki.ros.org/urdf/XML/joint.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from gradlib.cli.trajopt import reading
from gradlib.trajectory.planning.errors import InputError, shown
from gradlib.trajectory.planning.robot import Joint

_COORDINATE = ("revolute", "continuous", "prismatic")
_NO_COORDINATE = ("fixed", "floating", "planar")
_LARGEST = 64 << 20  # bytes of a file


def read(path: str | Path) -> tuple[str, list[Joint], list[str]]:
    """The robot's name, its joints of one coordinate in the file's order, and notes on what was left out.

    Fixed joints do not move. Continuous joints have no position limits, whatever the file says. Mimic joints keep their limits and say
    which joint they follow. Floating and planar joints are the robot's footing, not one coordinate each, and are left out with a note.
    A <limit> without lower or upper means 0, the specification's default.

    Args:
        path: a URDF file.
    Returns: (name, joints, notes); accelerations and jerks, which URDF does not know, are None.
    Raises: InputError for a file that cannot be read, is no URDF, or has a joint that breaks the specification.
    """
    root = _parse(Path(path))
    joints: dict[str, Joint] = {}
    other: dict[str, str] = {}
    for element in root.findall("joint"):
        name, kind = element.get("name", ""), element.get("type", "")
        if not name:
            raise InputError(f"{path}: a <joint> has no name, which the URDF specification requires")
        if name in joints or name in other:
            raise InputError(f"{path}: two joints are named {name}; names must be unique")
        if kind in _NO_COORDINATE:
            other[name] = kind
        elif kind in _COORDINATE:
            joints[name] = _joint(element, name, kind, path)
        else:
            wanted = ", ".join(_COORDINATE + _NO_COORDINATE)
            raise InputError(f"{path}: joint {name} is of type {shown(kind)}; the URDF specification knows {wanted}")
    for joint in joints.values():
        if joint.mimic is not None and joint.mimic[0] not in joints and other.get(joint.mimic[0]) != "fixed":
            raise InputError(f"{path}: joint {joint.name} mimics {joint.mimic[0]}, which is no joint of one coordinate in this file")
    if not joints:
        raise InputError(f"{path}: this robot has no joint that moves along one coordinate (revolute, continuous or prismatic)")
    notes = [f"joint {name} is {kind} and is left out" for name, kind in other.items() if kind != "fixed"]
    return root.get("name") or Path(path).stem, list(joints.values()), notes


def _parse(path: Path) -> ElementTree.Element:
    """The <robot> element of a file that is XML and declares no document type: entities could make a small file huge."""

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: a document type declaration (<!DOCTYPE>) has no place in a URDF; remove it")

    try:
        content = reading.content(path, _LARGEST)
    except OSError as error:
        raise InputError(f"cannot read the URDF {path}: {error.strerror}") from error
    scan = expat.ParserCreate()
    scan.StartDoctypeDeclHandler = refuse
    try:
        scan.Parse(content, True)
        root = ElementTree.fromstring(content)
    except (expat.ExpatError, ElementTree.ParseError, ValueError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no URDF: it is not well-formed XML ({error})") from error
    if root.tag != "robot":
        raise InputError(f"{path} is no URDF: its outermost element is <{root.tag}>, not <robot>")
    if any(str(element.tag).startswith("{http://www.ros.org/wiki/xacro}") or "xacro" in str(element.tag) for element in root.iter()):
        raise InputError(f"{path} is a xacro file, not yet a URDF; expand it first: xacro {path} > robot.urdf")
    return root


def _joint(element: ElementTree.Element, name: str, kind: str, path: str | Path) -> Joint:
    """One <joint> that moves along one coordinate."""
    limit, mimic = element.find("limit"), element.find("mimic")
    limits: dict[str, float | None] = {}
    if limit is not None:
        for key, default in (("velocity", None), *((("lower", "0"), ("upper", "0")) if kind != "continuous" else ())):
            text = limit.get(key, default)
            limits[key] = None if text is None else _number(text, f"{path}: joint {name}: {key} limit")
    follows = None
    if mimic is not None:
        leader = mimic.get("joint")
        if not leader:
            raise InputError(f"{path}: joint {name} has a <mimic> that names no joint, which the URDF specification requires")
        multiplier = _number(mimic.get("multiplier", "1"), f"{path}: joint {name}: mimic multiplier")
        offset = _number(mimic.get("offset", "0"), f"{path}: joint {name}: mimic offset")
        follows = (leader, multiplier, offset)
    return Joint(name, kind, mimic=follows, **limits)


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{what} must be a finite number, got {shown(text)}")
    return value
