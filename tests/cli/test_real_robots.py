"""Real robots' URDF files, where the packages that carry them are installed (pip install example-robot-data pybullet)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import pytest

from gradlib.cli import main
from gradlib.cli.trajopt import plot, urdf
from gradlib.trajectory.planning.errors import InputError


def urdfs(package: str) -> list[Path]:
    """The URDF files of an installed package."""
    try:
        return [Path(path.locate()) for path in files(package) or [] if path.suffix == ".urdf"]
    except PackageNotFoundError:
        return []


FILES = [*urdfs("example-robot-data"), *urdfs("pybullet")]
ROBOTS = {  # the end of the path, and how many joints there are to plan for
    "panda_description/urdf/panda.urdf": 8,
    "ur_description/urdf/ur5_robot.urdf": 6,
    "z1_description/urdf/z1.urdf": 7,
    "kinova_description/robots/kinova.urdf": 6,
    "baxter_description/urdf/baxter.urdf": 17,
    "talos_data/robots/talos_reduced.urdf": 32,
    "g1_description/urdf/g1_29dof_rev_1_0.urdf": 29,
    "pybullet_data/kuka_iiwa/model.urdf": 7,
    "pybullet_data/franka_panda/panda.urdf": 8,
    "pybullet_data/xarm/xarm6_robot.urdf": 6,
    "pybullet_data/laikago/laikago.urdf": 12,
}


def refusal(path: Path) -> str | None:
    """Why a file is refused, or None."""
    try:
        urdf.read(path)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("name", "joints"), ROBOTS.items())
@pytest.mark.slow
def test_robots_are_planned_for(name, joints, tmp_path, monkeypatch):
    path = next((path for path in FILES if path.as_posix().endswith(name)), None)
    if path is None:
        pytest.skip(f"no installed package has {name}")
    monkeypatch.setattr(plot, "available", lambda: False)
    options = ["--acceleration", "8", "--jerk", "80", "--samples", "6", "--horizon", "24", "--out", str(tmp_path)]
    assert main(["trajopt", "--urdf", str(path), *options]) == 0
    with np.load(tmp_path / "trajectories.npz") as data:
        assert data["solved"].all()
        assert len(data["joint_names"]) == joints


@pytest.mark.skipif(not FILES, reason="neither example-robot-data nor pybullet is installed")
def test_every_file_is_read_or_refused_by_name():
    refused = [(path, reason) for path in FILES if (reason := refusal(path))]
    assert all(str(path) in reason for path, reason in refused)
    assert len(refused) < len(FILES)
