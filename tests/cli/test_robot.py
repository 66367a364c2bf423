"""Limits: the Panda's, those of URDF files, of YAML files and of the command line, and what contradicts what."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gradlib.cli.trajopt import limits, urdf
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.robot import Joint, assemble, panda
from tests.trajectory.planning.robots import ARM

FULL = {"lower": -1.0, "upper": 1.0, "velocity": 1.0, "acceleration": 2.0, "jerk": 3.0}


def arm_from(tmp_path, text=ARM):
    path = tmp_path / "arm.urdf"
    path.write_text(text)
    return urdf.read(path)


def write(tmp_path, text, name="limits.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def table(tmp_path, text, joints):
    path = write(tmp_path, text)
    common, single = limits.tables(limits.read(path), joints, path)
    return {quantity: {**common.get(quantity, {}), **single.get(quantity, {})} for quantity in {**common, **single}}


def test_panda_has_the_published_limits():
    name, joints = panda()
    robot = assemble(name, joints)
    assert name == "Franka Emika Panda"
    assert robot.joints == tuple(f"panda_joint{i}" for i in range(1, 8))
    np.testing.assert_array_equal(robot.lower, [-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
    np.testing.assert_array_equal(robot.upper, [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
    np.testing.assert_array_equal(robot.velocity, [2.175] * 4 + [2.61] * 3)
    np.testing.assert_array_equal(robot.acceleration, [15, 7.5, 10, 12.5, 15, 20, 20])
    np.testing.assert_array_equal(robot.jerk, [7500, 3750, 5000, 6250, 7500, 10000, 10000])


# ---- URDF ------------------------------------------------------------------------------------------------------------------


def test_urdf_joints_are_what_the_specification_says(tmp_path):
    name, joints, notes = arm_from(tmp_path)
    assert name == "arm"
    assert notes == []
    assert joints == [
        Joint("shoulder", "revolute", -2.0, 1.5, 2.0),
        Joint("wrist", "continuous", None, None, 4.0),
        Joint("left_finger", "prismatic", 0.0, 0.04, 0.2),
        Joint("right_finger", "prismatic", -0.06, 0.01, 0.3, mimic=("left_finger", -2.0, 0.01)),
    ]


def test_continuous_joints_have_no_position_limits_and_mimic_joints_tighten_their_leader(tmp_path):
    name, joints, _ = arm_from(tmp_path)
    tables = [("a", limits.spread("acceleration", 5.0, joints, "a")), ("j", limits.spread("jerk", 50.0, joints, "j"))]
    robot = assemble(name, limits.apply(joints, tables, []))
    assert robot.joints == ("shoulder", "wrist", "left_finger")
    assert robot.units == ("rad", "rad", "m")
    # right = 0.01 - 2 left must stay within [-0.06, 0.01], so left within [0, 0.035]; it moves twice as fast
    np.testing.assert_allclose(robot.lower, [-2, -np.inf, 0])
    np.testing.assert_allclose(robot.upper, [1.5, np.inf, 0.035])
    np.testing.assert_allclose(robot.velocity, [2, 4, 0.15])
    np.testing.assert_allclose(robot.acceleration, [5, 5, 2.5])
    np.testing.assert_allclose(robot.jerk, [50, 50, 25])


def test_mimics_of_mimics_and_of_joints_that_do_not_move():
    leader = Joint("a", **FULL)
    middle = Joint("b", lower=-9.0, upper=9.0, velocity=9.0, mimic=("a", 2.0, 0.5))
    last = Joint("c", lower=-3.5, upper=9.0, velocity=4.0, mimic=("b", -2.0, 1.0))  # c = -4 a
    robot = assemble("r", [leader, middle, last])
    np.testing.assert_allclose([robot.lower[0], robot.upper[0], robot.velocity[0]], [-1.0, 0.875, 1.0])
    still = Joint("d", lower=-1.0, upper=1.0, velocity=1.0, mimic=("bolt", 3.0, 0.5))
    assert assemble("r", [leader, still]).joints == ("a",)
    with pytest.raises(InputError, match=r"mimic joint d always stands at 0.5, outside \[-1, 0\]"):
        assemble("r", [leader, Joint("d", lower=-1.0, upper=0.0, velocity=1.0, mimic=("bolt", 3.0, 0.5))])
    with pytest.raises(InputError, match="follows itself"):
        assemble("r", [leader, Joint("b", mimic=("c", 1.0, 0.0)), Joint("c", mimic=("b", 1.0, 0.0))])
    with pytest.raises(InputError, match="no position of joint a keeps both"):
        assemble("r", [leader, Joint("b", lower=5.0, upper=6.0, velocity=1.0, mimic=("a", 1.0, 0.0))])


def test_floating_and_planar_joints_are_left_out_with_a_note(tmp_path):
    text = ARM.replace("</robot>", '<joint name="base" type="floating"/><joint name="floor" type="planar"/></robot>')
    _, joints, notes = arm_from(tmp_path, text)
    assert "base" not in [joint.name for joint in joints]
    assert notes == ["joint base is floating and is left out", "joint floor is planar and is left out"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("<robot name", "<sdf name", r"not well-formed XML|mismatched"),
        ('type="revolute"', 'type="hinge"', "joint shoulder is of type 'hinge'"),
        ('name="wrist" type', 'name="shoulder" type', "two joints are named shoulder"),
        ('<joint name="wrist"', "<joint", "a <joint> has no name"),
        ('lower="-2"', 'lower="low"', "shoulder: lower limit must be a finite number, got 'low'"),
        ('upper="1.5"', 'upper="nan"', "shoulder: upper limit must be a finite number, got 'nan'"),
        ('joint="left_finger"', 'joint="thumb"', "right_finger mimics thumb, which is no joint"),
        ('<mimic joint="left_finger"', "<mimic", "names no joint"),
        ('multiplier="-2"', 'multiplier="two"', "mimic multiplier must be a finite number"),
        ('<?xml version="1.0"?>', '<!DOCTYPE r [<!ENTITY a "b">]>', "document type declaration"),
        ("<link name=", '<xacro:macro xmlns:xacro="http://www.ros.org/wiki/xacro"/><link name=', "xacro file"),
    ],
)
def test_what_breaks_the_urdf_specification_is_refused(tmp_path, old, new, text):
    with pytest.raises(InputError, match=text):
        arm_from(tmp_path, ARM.replace(old, new, 1))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not well-formed XML"),
        (b"just text", "not well-formed XML"),
        (b"\x00\xff\x13binary", "not well-formed XML"),
        (b"<html><body/></html>", "outermost element is <html>, not <robot>"),
        (b'<robot name="r"><link name="l"/></robot>', "no joint that moves"),
        (b'<?xml version="1.0" encoding="nonsense"?><robot name="r"/>', "not well-formed XML"),
    ],
)
def test_a_file_that_is_no_urdf(tmp_path, content, text):
    path = tmp_path / "file.urdf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=text):
        urdf.read(path)


def test_a_urdf_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(InputError, match="cannot read the URDF"):
        urdf.read(tmp_path / "missing.urdf")
    with pytest.raises(InputError, match="cannot read the URDF"):
        urdf.read(tmp_path)


def test_an_entity_bomb_does_not_go_off(tmp_path):
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    with pytest.raises(InputError, match="document type declaration"):
        arm_from(tmp_path, f'<!DOCTYPE robot [<!ENTITY e0 "x">{entities}]><robot name="&e11;"/>')


# ---- missing and contradictory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["lower", "upper", "velocity", "acceleration", "jerk"])
def test_a_missing_limit_says_how_to_give_it(quantity):
    with pytest.raises(InputError, match=f"joint q has no {quantity} limit; give it with .*--limits"):
        assemble("r", [Joint("q", **{**FULL, quantity: None})])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lower": 2.0}, "contradictory limits: joint q has lower limit 2 above upper limit 1"),
        ({"velocity": 0.0}, "velocity limit must be above zero, got 0"),
        ({"acceleration": -1.0}, "acceleration limit must be above zero, got -1"),
        ({"jerk": float("nan")}, "jerk limit must be a finite number, got nan"),
        ({"upper": float("inf")}, "upper limit must be a finite number, got inf"),
    ],
)
def test_contradictory_limits(change, text):
    with pytest.raises(InputError, match=text):
        assemble("r", [Joint("q", **{**FULL, **change})])


def test_a_robot_without_joints_to_plan_for():
    with pytest.raises(InputError, match="no joint to plan for"):
        assemble("r", [])


# ---- YAML files and the command line ---------------------------------------------------------------------------------------

MOVEIT = """
joint_limits:
  a:
    has_velocity_limits: true
    max_velocity: 2.0
    has_acceleration_limits: false
    max_acceleration: 0
    min_position: -3
default_velocity_scaling_factor: 0.1
"""
PAIR = [Joint("a"), Joint("b"), Joint("c", mimic=("a", 1.0, 0.0))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acceleration: 5", {"acceleration": {"a": 5.0, "b": 5.0, "c": 5.0}}),
        ("jerk: [1, 2.5]", {"jerk": {"a": 1.0, "b": 2.5}}),
        ("velocity: {b: 3}", {"velocity": {"b": 3.0}}),
        ("joints: {a: {lower: -1, upper: 1}, b: {jerk: 9}}", {"lower": {"a": -1.0}, "upper": {"a": 1.0}, "jerk": {"b": 9.0}}),
        (MOVEIT, {"velocity": {"a": 2.0}, "lower": {"a": -3.0}}),
        ('{"velocity": 1e1, "jerk": {"a": 2}}', {"velocity": {"a": 10.0, "b": 10.0, "c": 10.0}, "jerk": {"a": 2.0}}),
    ],
)
def test_what_a_limits_file_may_say(tmp_path, text, expected):
    assert table(tmp_path, text, PAIR) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("speed: 3", "unknown key 'speed'"),
        ("joints: {a: {speed: 3}}", "unknown limit 'speed'"),
        ("joints: {elbow: {jerk: 3}}", "joint elbow, which this robot does not have; it has a, b, c"),
        ("joints: [1, 2]", "must map each joint's name"),
        ("jerk: [1, 2, 3]", r"one for each of the 2 joints \(a, b\); got 3"),
        ("jerk: fast", "finite number, got 'fast'"),
        ("jerk: yes", "finite number, got True"),
        ("jerk: .nan", "finite number, got nan"),
        ("jerk: 1\njerk: 2", "contradictory limits: .* gives 'jerk' twice"),
        ("jerk: 1\nmax_jerk: 2", "contradictory limits: .* gives the jerk of joint a twice"),
        ("jerk: [1, 3]\njoints: {a: {jerk: 2}}", "contradictory limits: .* gives the jerk of joint a twice"),
        ("joints: {a: {jerk: 2, max_jerk: 2}}", "gives the jerk of joint a twice"),
        ("- 1", "must hold a mapping"),
        ("", "must hold a mapping"),
        ("a: [1", "not a YAML file"),
        ("? [1]\n: 2", "not a YAML file|unknown key"),
        ("!!python/object/apply:os.getcwd []", "not a YAML file"),
    ],
)
def test_what_a_limits_file_may_not_say(tmp_path, text, error):
    with pytest.raises(InputError, match=error):
        table(tmp_path, text, PAIR)


def test_a_limits_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="cannot read the limits"):
        limits.read(tmp_path / "missing.yaml")
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InputError, match="not a YAML file"):
        limits.read(binary)


def test_without_pyyaml_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InputError, match=r"pip install pyyaml"):
        limits.read(write(tmp_path, "jerk: 1"))


def test_later_limits_override_the_robots_but_not_each_other():
    joints = [Joint("a", velocity=1.0)]
    assert limits.apply(joints, [("file", {"velocity": {"a": 2.0}, "jerk": {"a": 3.0}})], [])[0].velocity == 2.0
    twice = [("file", {"jerk": {"a": 2.0}}), ("--jerk", {"jerk": {"a": 2.0}})]
    for given in ((twice, []), ([], twice)):
        with pytest.raises(InputError, match="both file and --jerk give the jerk of joint a; keep one"):
            limits.apply(joints, *given)


@pytest.mark.parametrize("text", ["jerk: 5\njoints: {b: {jerk: 2}}", "joints: {b: {max_jerk: 2}}\njerk: 5", "jerk: 5\nmax_jerk: {b: 2}"])
def test_what_is_said_of_one_joint_goes_before_one_number_for_all(tmp_path, text):
    assert table(tmp_path, text, PAIR)["jerk"] == {"a": 5, "b": 2, "c": 5}
    (a, b) = limits.apply([Joint("a"), Joint("b")], [("--jerk", {"jerk": {"a": 5.0, "b": 5.0}})], [("file", {"jerk": {"b": 2.0}})])
    assert (a.jerk, b.jerk) == (5, 2)
