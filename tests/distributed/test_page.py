"""The page about processes, tried as a new user would: its commands as they stand there, and the figures of its model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import gradlib
from gradlib.distributed import cost, launch, mpi
from tests.distributed.test_mpi import MPIEXEC

PAGE = (Path(__file__).parents[2] / "gradlib/docs/distributed.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.host


@pytest.mark.slow
@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec: pip install mpi4py mpich")
def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    program, line, wanted = re.search(r"```py\n(.*?)```.*?```sh\n(.*?)```.*?```text\n(.*?)```", PAGE, re.DOTALL).groups()  # type: ignore[union-attr]
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    words = [sys.executable if word == "python" else word for word in shlex.split(line)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert (done.stdout, done.returncode) == (wanted, 0), done.stderr
    assert (tmp_path / "job.npz").stat().st_size > 100


def test_the_table_of_the_page_is_what_the_model_says() -> None:
    rows = []
    for ranks in (2, 8, 64, 512):
        step = cost.data_parallel_step(400e6, ranks, forward=0.1, backward=0.2, bandwidth=12.5e9, latency=5e-6)
        rows.append(f"| {ranks} | {step.communication * 1e3:.0f} ms | {step.exposed * 1e3:.0f} ms | {step.efficiency:.2f} |")
    assert "\n".join(rows) in PAGE


def test_the_model_in_its_limits() -> None:
    assert cost.all_reduce_seconds(1e9, 1, 1e9, 1e-6) == 0
    assert cost.all_reduce_seconds(1e9, 2, 1e9, 0) == 1.0  # half of it there and half of it back
    assert cost.all_reduce_seconds(1e9, 10_000, 1e9, 0) == pytest.approx(2.0, rel=1e-3)
    slow = cost.data_parallel_step(1e9, 8, forward=0, backward=1e-9, bandwidth=1e9, latency=0)
    assert slow.exposed == pytest.approx(slow.communication)  # nothing to hide behind
    assert cost.state_bytes(1000, 4) == (16_000, 10_000)


_MPICH = {"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "2"}
_SRUN = {"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NUM_TASKS": "2"}


@pytest.mark.parametrize("told", [_MPICH, _SRUN, {**_SRUN, "PMI_SIZE": "2"}])
def test_processes_that_were_started_together_and_are_no_world_are_an_error(told: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As under an srun that speaks another MPI's language: each would do the whole work."""
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(mpi, "library", lambda: SimpleNamespace(Get_library_version=lambda: "MPICH Version: 5\nand more"))
    with pytest.raises(RuntimeError, match=r"^2 processes were .* another MPI than MPICH Version: 5\. .* `srun --mpi=pmi2` for MPICH"):
        mpi.refuse_strangers(1)
    mpi.refuse_strangers(2)
    assert gradlib.distributed.get_node_local_rank() == 1


def test_a_process_that_nobody_started_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*_MPICH, *_SRUN, "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    mpi.refuse_strangers(1)
    with pytest.raises(RuntimeError, match="pass fallback_rank"):
        gradlib.distributed.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert gradlib.distributed.get_node_local_rank(fallback_rank=0) == 3


def test_launch_calls_mpiexec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mpiexec").write_text("#!/bin/sh\necho Open MPI\n", encoding="utf-8")
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = str(tmp_path / "mpiexec")
    assert launch.command(["-n", "2", "a.py", "-n", "3"]) == [found, "-n", "2", sys.executable, "a.py", "-n", "3"]
    assert launch.command(["-n", "2", "--hosts", "x,y", "a.py"])[3:5] == ["--host", "x,y"]
    (tmp_path / "mpiexec").write_text("#!/bin/sh\necho HYDRA build details\n", encoding="utf-8")
    assert launch.command(["-n", "2", "--hosts", "x,y", "a.py"])[3:5] == ["-hosts", "x,y"]
    monkeypatch.setattr(shutil, "which", lambda *args, **named: None)
    with pytest.raises(SystemExit):
        launch.command(["-n", "2", "a.py"])
    assert "pip install 'gradlib[mpi]' mpich" in capsys.readouterr().err
