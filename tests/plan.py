"""What ``ci/test.sh`` adds to pytest: how long a run will take, short files first, groups that stay whole, fewer reports, and ``--quick``.

Durations of the last run are kept in pytest's cache, a mean for each test function. The quick choice is of each test function the first
parametrisations in which every value of every parameter has occurred: each dtype, but not each of one with each of another; of these at
most `MOST`, spread evenly, so of a long table every so many rows. What runs on both devices runs on "cuda" for every `EVERY`-th function of
a file only, with one row. Tests marked ``slow`` are left out.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

KEPT = "gradlib/seconds"  # in pytest's cache
MOST = 8  # parametrisations of one test function in a quick run
EVERY = 4  # functions of a file, of which one runs on "cuda" too in a quick run
UNKNOWN = 0.03  # seconds of a test that has not run here yet


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="a choice of the tests: some of each function")
    parser.addoption("--device", choices=("cpu", "cuda"), help="tests that run on both devices run on this one only")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Plan(config), "gradlib-plan")


class Plan:
    """The plan of one run: in xdist's controller it watches the clock, in the workers it orders the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.cache: pytest.Cache | None = getattr(config, "cache", None)  # -p no:cacheprovider leaves it out
        self.seconds: dict[str, float] = self.cache.get(KEPT, {}) if self.cache else {}
        self.spent: dict[str, list[float]] = defaultdict(list)
        self.said = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if config.getoption("--quick"):
            chosen = list(quick(items))
            left = set(items) - set(chosen)
            config.hook.pytest_deselected(items=[item for item in items if item in left])
            items[:] = chosen
        items[:] = in_order(items, self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        return by_group(config, log) if config.getoption("dist") == "loadgroup" else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if getattr(self.config.option, "dist", "no") == "no" and not hasattr(self.config, "workerinput"):
            self.say([item.nodeid for item in session.items], 1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        if not self.said:
            self.say(ids, len(self.config.option.tx))

    def say(self, ids: list[str], workers: int) -> None:
        """How many tests there are and how long they will take."""
        self.said = True
        known = sum(function(name) in self.seconds for name in ids)
        told = "from the last run" if known == len(ids) else f"{len(ids) - known} of them run here for the first time"
        line = f"{len(ids)} tests on {workers} at once will take about {spelled(expected(ids, self.seconds) / workers)} ({told})"
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Of a test that passes, a worker sends one report that holds its whole time, not three: they take as long as a small test."""
        if not hasattr(self.config, "workerinput"):
            return None
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if all(report.passed for report in reports):
            reports[1].duration = sum(report.duration for report in reports)
            del reports[0], reports[1:]
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self.spent[report.nodeid]
        spent.append(report.duration)

    def pytest_sessionfinish(self) -> None:
        if self.cache is None or hasattr(self.config, "workerinput") or not self.spent:
            return
        means: dict[str, list[float]] = defaultdict(list)
        for name, parts in self.spent.items():
            means[function(name)].append(sum(parts))
        self.cache.set(KEPT, {**self.seconds, **{name: round(sum(each) / len(each), 4) for name, each in means.items()}})


def by_group(config: pytest.Config, log: Any) -> Any:
    """xdist's ``--dist load``, by which neighbours mostly go to one worker, but for the tests of an ``xdist_group``: all go to one.

    xdist's own ``loadgroup`` hands out every other test alone, and counts all that it has handed out at each: minutes of 30,000 tests.
    """
    from xdist.scheduler import LoadScheduling

    class Grouped(LoadScheduling):
        def _send_tests(self, node: WorkerController, num: int) -> None:
            names = self.collection or []
            while 0 < num < len(self.pending) and group(names[self.pending[num - 1]]) == group(names[self.pending[num]]) != "":
                num += 1
            super()._send_tests(node, num)

    return Grouped(config, log)


def group(name: str) -> str:
    """The ``xdist_group`` of a test, which xdist puts behind its name."""
    return name.rpartition("]")[2].partition("@")[2]


def function(name: str) -> str:
    """A test's name without its parametrisation."""
    return name.partition("[")[0]


def expected(ids: Iterable[str], seconds: dict[str, float]) -> float:
    """The seconds that tests will take one after the other."""
    return sum(seconds.get(function(name), UNKNOWN) for name in ids)


def spelled(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def in_order(items: list[pytest.Item], seconds: dict[str, float]) -> list[pytest.Item]:
    """The files that take least first, each as it stands."""
    files = [list(group) for _, group in itertools.groupby(items, key=lambda item: item.nodeid.partition("::")[0])]
    return [item for file in sorted(files, key=lambda file: expected((item.nodeid for item in file), seconds)) for item in file]


def quick(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Some of each test function that is not slow."""
    for _, file in itertools.groupby(items, key=lambda item: item.nodeid.partition("::")[0]):
        for number, (_, rows) in enumerate(itertools.groupby(file, key=lambda item: function(item.nodeid))):
            yield from some_of(list(rows), number % EVERY == 0)


def some_of(group: list[pytest.Item], both: bool) -> list[pytest.Item]:
    """Of one function the parametrisations with a value that none before had, or `MOST` of them; with ``both`` one on "cuda" too."""
    seen: set[tuple[str, int]] = set()
    chosen: dict[str, list[pytest.Item]] = {"cpu": [], "cuda": []}
    for item in group:
        if item.get_closest_marker("slow"):
            continue
        call = getattr(item, "callspec", None)
        values = {(name, id(value)) for name, value in call.params.items() if name != "device"} if call else set()
        device = "cuda" if call and call.params.get("device") == "cuda" else "cpu"
        if not chosen[device] or not values <= seen:
            seen |= values
            chosen[device].append(item)
    on_cpu, on_cuda = chosen["cpu"], chosen["cuda"]
    taken = on_cpu[:: -(-len(on_cpu) // MOST) or 1]
    return taken + (on_cuda[:1] if both or not on_cpu else [])
