"""Planning by the workers of a real Dask cluster: the bytes of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradlib import trajectory
from gradlib.cli import main
from gradlib.cli.trajopt import many
from gradlib.trajectory.planning import job
from gradlib.trajectory.planning.errors import InputError
from tests.trajectory.planning.files import contents, problems_file
from tests.trajectory.planning.robots import pairs

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("dask"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of Dask and tornado
]
QUICK: dict[str, Any] = {"horizon": 8, "chunk": 10}


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    """A client of two worker processes, which all tests here share: they take seconds to start."""
    with many.cluster(2, "cpu") as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(shared: Any) -> Any:
    """That client, once both workers are there: the test before may have killed one."""
    pids(shared)
    return shared


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of 45 problems, of which one is outside the limits."""
    folder = tmp_path_factory.mktemp("one")
    problems_file(folder / "p.csv", 45)
    lines = (folder / "p.csv").read_text(encoding="utf-8").splitlines()
    lines[23] = "9" + lines[23]
    (folder / "p.csv").write_text("\n".join(lines), encoding="utf-8")
    trajectory.plan_many(folder / "p.csv", out=folder / "o", **QUICK)
    return folder


def pids(client: Any) -> list[int]:
    """The processes of both workers, once both answer: one that was killed stays among the workers until the scheduler has noticed."""
    until = time.monotonic() + 200
    while len(found := client.run(os.getpid, on_error="ignore")) < 2:
        assert time.monotonic() < until, f"only {found} answer"
        time.sleep(0.05)
    return sorted(found.values())


def test_workers_make_the_bytes_of_one_process_and_the_command_says_how_it_goes(
    client: Any, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = client.scheduler.address
    assert address.startswith("tcp://127.0.0.1:")
    options = ["--horizon", "8", "--chunk", "10", "--problems", str(whole / "p.csv"), "--out", str(tmp_path / "o")]
    assert main(["trajopt", "--scheduler", address, *options]) == 1, "one problem is not solved"
    text = capsys.readouterr()
    assert contents(tmp_path / "o") == contents(whole / "o")
    assert "44 of 45" in text.out
    assert "problem 22 is unsolved: " in text.out
    assert "5 parts" in text.out
    assert "Dask's dashboard: http://127.0.0.1:" in text.err
    assert "problems/s" in text.err


def test_a_worker_killed_at_any_moment_costs_no_result(client: Any, whole: Path, tmp_path: Path) -> None:
    rng = random.Random(os.getpid())
    at = rng.randrange(4)
    seen: list[int] = []

    def kill(fraction: float, count: int) -> None:
        seen.append(count)
        if len(seen) == at + 1:
            os.kill(rng.choice(pids(client)), signal.SIGKILL)

    before = pids(client)
    summary = trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", progress=kill, **QUICK)
    assert summary.problems == 45
    assert not summary.failed
    found = contents(tmp_path / "o")
    assert {name: content for name, content in found.items() if not name.endswith(".tmp")} == contents(whole / "o")
    assert len(set(pids(client)) & set(before)) == 1, "one was killed, and replaced"


def test_a_chunk_that_kills_its_workers_is_named_and_the_rest_goes_on(
    client: Any, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(work: Any, chunk: int, first: int, asked: Any) -> Any:  # a worker gets it by value, and with it the real one by name
        import os as system

        from gradlib.trajectory.planning import job as real

        if chunk == 1:
            system.kill(system.getpid(), 9)
        return real.plan_part(work, chunk, first, asked)

    scheduler = client.cluster.scheduler
    monkeypatch.setattr(scheduler, "allowed_failures", 0)
    with monkeypatch.context() as patch:
        patch.setattr(job, "plan_part", deadly)
        summary = trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", **QUICK)
    assert 1 in summary.failed
    assert summary.failed[1].startswith("KilledWorker: ")
    assert summary.problems == 45
    monkeypatch.undo()
    again = trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", resume=True, **QUICK)
    assert not again.failed
    assert contents(tmp_path / "o") == contents(whole / "o")


def test_a_disk_that_is_full_for_the_workers_stops_the_job_with_its_reason(client: Any, whole: Path, tmp_path: Path) -> None:
    client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    try:
        with pytest.raises(InputError, match=r"cannot write into .*(File too large|No space left)"):
            trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", **QUICK)
    finally:
        client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert list(contents(tmp_path / "o")) == ["manifest.json"]
    trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", resume=True, **QUICK)
    assert contents(tmp_path / "o") == contents(whole / "o")


def test_after_an_interrupt_no_worker_writes_any_more(client: Any, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, ended = (tmp_path / name for name in ("begun", "go-on", "ended"))

    def slow(work: Any, chunk: int, first: int, asked: Any) -> Any:
        import time

        from gradlib.trajectory.planning import job as real

        if chunk != 1:
            return real.plan_part(work, chunk, first, asked)
        begun.touch()
        while not go_on.exists():
            time.sleep(0.01)
        try:
            return real.plan_part(work, chunk, first, asked)
        finally:
            ended.touch()

    def interrupted(fraction: float, count: int) -> None:
        while not begun.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job, "plan_part", slow)
        with pytest.raises(KeyboardInterrupt):
            trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", progress=interrupted, **QUICK)
    left = contents(tmp_path / "o")
    go_on.touch()
    while not ended.exists():
        time.sleep(0.01)
    assert contents(tmp_path / "o") == left
    assert "trajectories-000000001.parquet" not in left
    trajectory.plan_many(whole / "p.csv", client=client, out=tmp_path / "o", resume=True, **QUICK)
    assert contents(tmp_path / "o") == contents(whole / "o")


def test_the_command_is_ended_with_its_workers_and_without_further_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gradlib.cli", "trajopt", "--workers", "1", "--samples", "100000", "--horizon", "8", "--chunk", "20"]
    command += ["--out", str(tmp_path / "o")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background of a script it is ignored, and would stay so
    )  # fmt: skip
    while not any(tmp_path.glob("o/*.parquet")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal: the workers get it too
    _, said = process.communicate(timeout=200)  # which ends when the workers have: stderr is theirs as well
    assert process.returncode == 130
    assert re.fullmatch(r"Dask's dashboard: \S+\s+interrupted\s+", said), said


def test_a_folder_that_the_workers_do_not_see_is_named(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.Folder, "begin", lambda *_: None)  # so there is no manifest to be seen
    with pytest.raises(InputError, match="a worker does not see this folder"):
        trajectory.plan_many(pairs(3), client=client, out=tmp_path / "o", **QUICK)


def test_arrays_of_numpy_dask_and_xarray_give_the_same(client: Any) -> None:
    da = pytest.importorskip("dask.array")
    xarray = pytest.importorskip("xarray")
    start, goal = pairs(9)
    goal[4, 2] = np.nan
    plain = trajectory.plan_many((start, goal), horizon=8)
    by_client = trajectory.plan_many((start, goal), horizon=8, chunk=4, client=client)
    lazy = trajectory.plan_many((da.from_array(start, chunks=(4, 3)), da.from_array(goal, chunks=5)), horizon=8)
    assert lazy.position.shape == (9, 8, 7)
    assert lazy.position.chunks[0] == (4, 4, 1)
    asked = xarray.Dataset({"start": (("problem", "joint"), start), "goal": (("problem", "joint"), goal)}, {"problem": np.arange(9) * 10})
    made = trajectory.plan_many(asked, horizon=8)
    assert made["position"].dims == ("problem", "step", "joint")
    assert made["problem"].values.tolist() == list(range(0, 90, 10))
    assert made["joint"].values[0] == "panda_joint1"
    computed = client.compute(list(lazy), sync=True)
    for i, name in enumerate(plain._fields):
        expected = getattr(plain, name)
        for found in (by_client[i], computed[i], made[name].values):
            np.testing.assert_array_equal(found, expected)


def test_a_scheduler_that_is_not_there_and_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "_CONNECT", "1s")
    for arguments, text in (
        (["--scheduler", "tcp://127.0.0.1:9"], "cannot reach the scheduler tcp://127.0.0.1:9"),
        (["--scheduler", "nonsense://x"], "cannot reach the scheduler"),
        (["--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], "leave one of them out"),
    ):
        assert main(["trajopt", *arguments, "--out", str(tmp_path / "o")]) == 2
        assert text in capsys.readouterr().err
        assert not (tmp_path / "o").exists()


def test_more_workers_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=None))
    monkeypatch.setattr(many, "device_count", lambda: 2)
    with pytest.raises(InputError, match=r"^--workers 3: .* this machine has 2; ask for at most that many$"), many.cluster(3, "cuda"):
        pass


def test_several_gpus_are_shared_out_by_dask_cuda() -> None:
    with pytest.raises(InputError, match="needs dask-cuda"), many.cluster(2, "cuda"):
        pass
