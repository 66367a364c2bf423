"""``ci/test.sh``'s plan of a run: the estimate, the order of files, the quick choice; and what ``ci/versions.py`` finds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import plan

ROOT = Path(__file__).resolve().parent.parent


def item(name: str, marks: tuple[str, ...] = (), **values: Any) -> Any:
    """What the plan looks at of a test."""
    call = SimpleNamespace(params=values) if values else None
    shown = f"{name}[{'-'.join(map(str, values.values()))}]" if values else name
    return SimpleNamespace(nodeid=shown, callspec=call, get_closest_marker=lambda mark: mark in marks or None)


def names(items: Any) -> list[str]:
    return [each.nodeid for each in items]


def test_quick_takes_every_value_of_every_parameter_once() -> None:
    product = [item("f.py::t", device=device, case=case) for device in ("cpu", "cuda") for case in ("sin", "cos", "tan")]
    assert names(plan.quick(product)) == ["f.py::t[cpu-sin]", "f.py::t[cpu-cos]", "f.py::t[cpu-tan]", "f.py::t[cuda-sin]"]


def test_quick_takes_some_functions_of_a_file_on_cuda() -> None:
    both = [item(f"f.py::t{number}", device=device) for number in range(2 * plan.EVERY) for device in ("cpu", "cuda")]
    chosen = names(plan.quick(both))
    assert [name for name in chosen if "cuda" in name] == ["f.py::t0[cuda]", f"f.py::t{plan.EVERY}[cuda]"]
    assert len([name for name in chosen if "cpu" in name]) == 2 * plan.EVERY
    assert names(plan.quick([item("f.py::a"), item("f.py::b", device="cuda")])) == ["f.py::a", "f.py::b[cuda]"]


def test_quick_takes_some_rows_of_a_long_table() -> None:
    rows = [item("f.py::t", device=device, row=row) for device in ("cpu", "cuda") for row in range(1000)]
    chosen = names(plan.quick(rows))
    assert len(chosen) == plan.MOST + 1
    assert chosen[0] == "f.py::t[cpu-0]"
    assert chosen[-1] == "f.py::t[cuda-0]"
    assert any("cpu-8" in name for name in chosen)


def test_quick_keeps_tests_without_parameters_and_leaves_out_slow_ones() -> None:
    assert names(plan.quick([item("f.py::a"), item("f.py::b", marks=("slow",)), item("g.py::a")])) == ["f.py::a", "g.py::a"]


class Worker:
    """What xdist's scheduler asks of a worker."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_tests_of_a_group_go_to_one_worker_and_the_rest_is_shared() -> None:
    options = SimpleNamespace(getvalue=lambda name: ["popen", "popen"], getoption=lambda name: None)
    for first in range(40):
        names = [f"f.py::t[{i}]" + "@dask" * (first <= i < first + 9) for i in range(40)]
        scheduler, workers = plan.by_group(options, None), [Worker("gw0"), Worker("gw1")]
        for worker in workers:
            scheduler.add_node(worker)
            scheduler.add_node_collection(worker, names)
        scheduler.schedule()
        for turn in range(40):
            for worker in workers:
                for index in worker.sent[turn : turn + 1]:
                    scheduler.mark_test_complete(worker, index)
        assert sorted(workers[0].sent + workers[1].sent) == list(range(40)), first
        assert sum(any("@dask" in names[i] for i in worker.sent) for worker in workers) == 1, first
        assert min(len(worker.sent) for worker in workers) >= 12, first


def test_files_that_take_least_come_first() -> None:
    items = [item("long.py::a"), item("long.py::b"), item("short.py::c"), item("short.py::d")]
    assert names(plan.in_order(items, {"long.py::a": 9.0})) == ["short.py::c", "short.py::d", "long.py::a", "long.py::b"]
    assert plan.expected(names(items), {"long.py::a": 9.0}) == pytest.approx(9.0 + 3 * plan.UNKNOWN)


def test_a_worker_sends_one_report_of_a_test_that_passes_and_all_of_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Any] = []
    sent: list[Any] = []
    hook = SimpleNamespace(pytest_runtest_logreport=lambda report: sent.append(report), pytest_runtest_logfinish=lambda **_: None)
    ran: Any = SimpleNamespace(ihook=hook, nodeid="f.py::t", location=())
    monkeypatch.setattr(plan, "runtestprotocol", lambda item, log, nextitem: reports.copy())
    worker = plan.Plan(SimpleNamespace(workerinput={}))  # type: ignore[arg-type]
    for fails in (None, "setup", "call", "teardown"):
        sent.clear()
        phases = ("setup", "call", "teardown") if fails != "setup" else ("setup", "teardown")
        reports[:] = [SimpleNamespace(when=phase, passed=phase != fails, duration=1.0) for phase in phases]
        assert worker.pytest_runtest_protocol(ran, None)
        assert [report.when for report in sent] == (list(phases) if fails else ["call"])
        assert fails or sent[0].duration == 3
    assert plan.Plan(SimpleNamespace()).pytest_runtest_protocol(ran, None) is None  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_run_says_how_long_it_will_take(tmp_path: Path) -> None:
    """First from the count, then from what the last one took; in a process of its own, since a plan is for a whole run."""
    body = "import time, pytest\n\n@pytest.mark.parametrize('i', range(4))\ndef test_sleeps(i):\n    time.sleep(0.5)\n"
    (tmp_path / "test_planted.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "-p", "tests.plan", "-p", "no:xdist", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def said(*options: str) -> str:
        done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
        return next(line for line in done.stdout.splitlines() if "will take about" in line)

    assert said("-k", "0 or 1") == "2 tests on 1 at once will take about 0 s (2 of them run here for the first time)"
    wanted = r"4 tests on 1 at once will take about ([2-9]|\d\d) s \(from the last run\)"  # a busy machine may sleep longer
    assert re.fullmatch(wanted, said())
    assert said("-p", "no:cacheprovider").endswith("(4 of them run here for the first time)")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """ci/versions.py."""
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    import versions

    yield versions
    sys.modules.pop("versions", None)


def test_versions_that_are_supported_are_looked_for(versions: Any) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={versions.SUPPORTED[0]}"' in text
    assert set(versions.LEAST_NUMPY) == set(versions.SUPPORTED)


def test_an_interpreter_is_one_that_runs(versions: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command of that name which leads nowhere, as pyenv's do, is passed over."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    broken = tmp_path / f"python{here}"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert versions.interpreter(here) == sys.executable
    assert versions.interpreter("3.1") is None
