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

HERE = Path(__file__).parent
CHECKS = [each.name for each in ast.parse((HERE / "checks.py").read_text(encoding="utf-8")).body if isinstance(each, ast.FunctionDef)]
CHECKS = [name for name in CHECKS if name.startswith("check_")]
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))

pytestmark = [pytest.mark.host, pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec: pip install mpi4py mpich")]


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> list[dict[str, str | None]]:
    """What each rank reports of each check; xdist's workers share one run."""
    import fcntl  # where mpiexec is, so is this

    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "mpi"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "log").exists():
            command = [str(MPIEXEC), "-n", "2", sys.executable, str(HERE / "checks.py"), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            (folder / "log").write_text(f"{done.returncode}\n{done.stdout}\n{done.stderr}", encoding="utf-8")
    log = (folder / "log").read_text(encoding="utf-8")
    missing = [rank for rank in range(2) if not (folder / f"{rank}.json").exists()]
    assert not missing, log
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]


@pytest.mark.parametrize("name", CHECKS)
def test_two_ranks(name: str, reports: list[dict[str, str | None]]) -> None:
    assert [report[name] for report in reports] == [None, None], "\n".join(str(report[name]) for report in reports)


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
def test_a_job_of_which_one_rank_fails_ends_with_an_error(fault: str, said: list[str]) -> None:
    command = [str(MPIEXEC), "-n", "2", sys.executable, str(HERE / "faults.py"), fault]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert [line for line in said if line not in done.stdout + done.stderr] == []
