"""`gradlib.distributed` between real processes of ``mpiexec``: two of them run every check of checks.py in one go."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradlib
from gradlib.testing.hostcuda import loader

HERE = Path(__file__).parent


def _checks(name: str) -> list[str]:
    """The names of the checks in a file, which is not imported: that would begin MPI here."""
    body = ast.parse((HERE / name).read_text(encoding="utf-8")).body
    return [each.name for each in body if isinstance(each, ast.FunctionDef) and each.name.startswith("check_")]


MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))

pytestmark = [
    pytest.mark.host,
    pytest.mark.slow,
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec: pip install mpi4py mpich"),
]


Reports = list[dict[str, str | None]]


def _reports(tmp_path_factory: pytest.TempPathFactory, worker_id: str, name: str) -> Reports:
    """What each rank reports of each check of a file; xdist's workers share one run."""
    import fcntl  # where mpiexec is, so is this

    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "log").exists():
            command = [str(MPIEXEC), "-n", "2", sys.executable, str(HERE / name), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            (folder / "log").write_text(f"{done.returncode}\n{done.stdout}\n{done.stderr}", encoding="utf-8")
    log = (folder / "log").read_text(encoding="utf-8")
    missing = [rank for rank in range(2) if not (folder / f"{rank}.json").exists()]
    assert not missing, log
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Reports:
    return _reports(tmp_path_factory, worker_id, "checks.py")


@pytest.fixture(scope="session")
def cuda_reports(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Reports:
    if loader.has_gpu() and (gradlib.cuda.device_count() < 2 or not gradlib.distributed.is_nccl_available()):
        pytest.skip("NCCL wants a GPU for each rank: two of them, and pip install nvidia-nccl-cu12")
    return _reports(tmp_path_factory, worker_id, "checks_cuda.py")


@pytest.mark.parametrize("name", _checks("checks.py"))
def test_two_ranks(name: str, reports: Reports) -> None:
    assert [report[name] for report in reports] == [None, None], "\n".join(str(report[name]) for report in reports)


@pytest.mark.cuda
@pytest.mark.parametrize("name", _checks("checks_cuda.py"))
def test_two_ranks_with_cuda_tensors(name: str, cuda_reports: Reports) -> None:
    assert [report[name] for report in cuda_reports] == [None, None], "\n".join(str(report[name]) for report in cuda_reports)


def test_two_ranks_of_two_machines(tmp_path: Path) -> None:
    """MPICH takes them for two when they are two names; it starts the second as it would by ssh, by a fork. MPI complains of nothing."""
    if "HYDRA" not in subprocess.run([str(MPIEXEC), "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this mpiexec is not MPICH's")
    machines = ["-launcher", "fork", "-hosts", "127.0.0.1,127.0.0.2"]
    checks = ["check_gathering", "check_messages"]
    command = [str(MPIEXEC), *machines, "-n", "2", sys.executable, str(HERE / "checks.py"), str(tmp_path), *checks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]
    assert found == [dict.fromkeys(checks)] * 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "raises",
            [
                "ValueError: the data of rank 1 are damaged",
                "rank 0: all_reduce(SUM) #1 of float32 [3] in the group of ranks [0, 1]: rank 1 ended its program by ValueError: the data",
                "rank 0 has saved its state",
            ],
        ),
        ("killed", []),
        ("hangs", ["rank 0: all_reduce(SUM) #1 of float32 [3] in the group of ranks [0, 1]: the time is over"]),
    ],
)
def test_a_job_of_which_one_rank_fails_ends_with_an_error(fault: str, said: list[str], tmp_path: Path) -> None:
    command = [str(MPIEXEC), "-n", "2", sys.executable, str(HERE / "faults.py"), fault, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode != 0
    found = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert [line for line in said if line not in found] == [], f"{found}\n{done.stdout}\n{done.stderr}"
