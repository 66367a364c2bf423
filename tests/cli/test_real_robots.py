"""Real robots' URDF files, where the packages that carry them are installed (pip install example-robot-data pybullet)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import pytest

from gradlib.cli import main
from gradlib.cli.trajopt import plot, urdf
from gradlib.cli.trajopt.errors import InputError


def urdfs(package: str) -> dict[str, Path]:
    """The URDF files of an installed package by their names."""
    try:
        return {path.name: Path(path.locate()) for path in files(package) or [] if path.suffix == ".urdf"}
    except PackageNotFoundError:
        return {}


EXAMPLES, BULLET = urdfs("example-robot-data"), urdfs("pybullet")
needs_examples = pytest.mark.skipif(not EXAMPLES, reason="example-robot-data is not installed")
needs_bullet = pytest.mark.skipif(not BULLET, reason="pybullet is not installed")


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(plot, "available", lambda: False)


def plan(path, tmp_path, *options):
    status = main(["trajopt", "--urdf", str(path), "--acceleration", "8", "--jerk", "80", "--samples", "6", "--horizon", "24",
                   "--out", str(tmp_path), *options])  # fmt: skip
    with np.load(tmp_path / "trajectories.npz") as data:
        return status, data["joint_names"].tolist(), data["solved"]


@needs_examples
@pytest.mark.parametrize(
    ("name", "joints"),
    [
        ("panda.urdf", 8),
        ("ur5_robot.urdf", 6),
        ("z1.urdf", 7),
        ("kinova.urdf", 6),
        ("baxter.urdf", 17),
        ("talos_reduced.urdf", 32),
        ("g1_29dof_rev_1_0.urdf", 29),
    ],
)
def test_robots_of_example_robot_data(name, joints, tmp_path):
    status, names, solved = plan(EXAMPLES[name], tmp_path)
    assert status == 0
    assert len(names) == joints
    assert solved.all()


@needs_bullet
@pytest.mark.parametrize(("name", "joints"), [("model.urdf", None), ("xarm6_robot.urdf", 6), ("laikago.urdf", 12)])
def test_robots_of_pybullet(name, joints, tmp_path):
    if name not in BULLET:
        pytest.skip(f"this version of pybullet has no {name}")
    try:
        _, found, _ = urdf.read(BULLET[name])
    except InputError as error:
        assert "no joint that moves" in str(error)
        return
    status, names, solved = plan(BULLET[name], tmp_path)
    assert status == 0
    assert joints in (None, len(names))
    assert len(names) == sum(joint.mimic is None for joint in found)
    assert solved.all()


@pytest.mark.skipif(not EXAMPLES and not BULLET, reason="neither example-robot-data nor pybullet is installed")
def test_every_file_is_read_or_refused_with_a_reason():
    for path in {**EXAMPLES, **BULLET}.values():
        try:
            _, joints, _ = urdf.read(path)
        except InputError as error:
            assert str(path) in str(error)
        else:
            assert joints
