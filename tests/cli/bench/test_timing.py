"""How seconds are taken and put together."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.cli.bench import timing
from gradlib.cli.bench.case import Case, Row, made
from gradlib.cli.bench.peers import Run
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites import profiler, scaling
from gradlib.cli.bench.suites.memory import rows as memory_rows
from gradlib.cli.bench.suites.overhead import chain, chain_data
from gradlib.cli.bench.table import cells, summary

pytestmark = pytest.mark.host
CASE = Case("", "", lambda peer: None, limits={"other": 0.6})


def test_ratio_is_taken_within_each_round():
    row = made(CASE, {"gradlib": [1.0, 10.0, 100.0], "other": [2.0, 10.0, 400.0]})
    assert row.ratio == {"other": 0.5}
    assert row.seconds["gradlib"]["median"] == 10.0


def test_limit_is_an_upper_bound():
    assert made(CASE, {"gradlib": [0.6, 0.6], "other": [1.0, 1.0]}).missed == []
    assert made(CASE, {"gradlib": [0.61, 0.61], "other": [1.0, 1.0]}).missed == ["other"]


def test_summary_reads_for_libraries_and_for_other_ways_and_for_one_row():
    rows = [made(CASE, {"gradlib": [a, a], "torch": [1.0, 1.0]}) for a in (1.0, 4.0)]
    other = made(CASE, {"gradlib": [1.0, 1.0], "by gradlib's names": [1.0, 1.0]})
    said = "torch: 2.00 of the time over 2 rows (1 above 1.5); by gradlib's names: 1.00 of the time over 1 row (0 above 1.5)"
    assert summary([*rows, other]) == said


def test_row_is_noisy_where_the_spread_reaches_the_limit():
    assert made(CASE, {"gradlib": [0.4, 0.5, 0.7, 0.8], "other": [1.0] * 4}).noisy
    assert not made(CASE, {"gradlib": [0.4, 0.41, 0.42, 0.43], "other": [1.0] * 4}).noisy


def test_row_is_noisy_where_a_ratio_is_less_than_it_can_be():
    watched = Case("", "", lambda peer: None, least=1.0)
    assert made(watched, {"gradlib": [0.77, 0.77], "plain": [1.0, 1.0]}).noisy
    assert not made(watched, {"gradlib": [0.99, 0.99], "plain": [1.0, 1.0]}).noisy  # the same within what two runs differ by


def slopes(monkeypatch: pytest.MonkeyPatch, exponents: list[list[float]]) -> tuple[list[int], list[Row]]:
    """The rounds asked of each measurement, and the rows of `scaling`, where times grow with these exponents, one list a measurement."""
    asked: list[int] = []
    left = iter(exponents)

    def taken(runs: dict[str, Run], rounds: int, *_: object) -> dict[str, list[float]]:
        asked.append(rounds)
        given = next(left)
        return {size: [int(size) ** exponent for exponent in given] for size in runs}

    monkeypatch.setattr(timing, "interleaved", taken)
    return asked, list(scaling.rows(Runner((), rounds=4), "cpu", True))


def test_exponent_whose_spread_reaches_its_limit_is_measured_again_and_then_called_noisy(monkeypatch):
    wide, slow, good = [1.0, 1.1, 1.3, 1.4], [1.4, 1.41, 1.42, 1.43], [1.0, 1.01, 1.02, 1.03]
    asked, rows = slopes(monkeypatch, [wide, wide, wide, good, slow, good, good])
    assert asked == [4, 12, 4, 12, 4, 4, 4]
    assert [cells(row)[0][-1] for row in rows] == ["noisy", "reached", "MISSED", "reached", "reached"]
    assert rows[0].missed == ["gradlib"]  # the table says what counts


def test_watched_chain_that_seems_faster_than_plain_is_measured_again_and_then_called_noisy(monkeypatch):
    asked: list[int] = []

    def taken(runs: dict[str, Run], rounds: int, *_: object) -> dict[str, list[float]]:
        asked.append(rounds)
        return {name: [0.77 if name == "gradlib" else 1.0] * rounds for name in runs}

    monkeypatch.setattr(timing, "interleaved", taken)
    rows = list(profiler.rows(Runner((), rounds=4), "cpu", True))
    assert asked == [4, 12] * 3
    assert [cells(row)[0][-1] for row in rows] == ["noisy"] * 3


def test_loading_near_its_limit_is_measured_again(monkeypatch):
    seconds = iter([8.0, 13.0, *[5.0] * 6, 20.0, 20.1])
    monkeypatch.setattr(profiler, "timed", lambda run, times: next(seconds))
    rows = [profiler._loading(Runner((), rounds=10), 4) for _ in range(2)]
    assert [(row.seconds["gradlib"]["median"], cells(row)[0][-1]) for row in rows] == [(5.0, "reached"), (20.05, "MISSED")]


def test_rounds_time_every_run_equally_often_in_changing_order():
    calls: list[str] = []
    samples = timing.interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=20, seconds=0)
    assert [len(s) for s in samples.values()] == [20, 20]
    measured = [calls[k : k + 2] for k in range(4, len(calls), 2)]
    assert all(sorted(pair) == ["a", "b"] for pair in measured)
    assert {tuple(pair) for pair in measured} == {("a", "b"), ("b", "a")}


def test_slow_runs_have_fewer_rounds(monkeypatch):
    monkeypatch.setattr(timing, "timed", lambda run, times, wait=None: 10.0)
    assert len(timing.interleaved({"a": lambda: None}, rounds=100)["a"]) == 3


def test_queued_work_is_waited_for_within_the_time():
    said: list[str] = []
    timing.timed(lambda: said.append("run"), 2, lambda: said.append("wait"))
    assert said == ["run", "run", "wait"]


def test_chain_stays_finite_and_single():
    y = chain(np, *chain_data(1000), blocks=100)
    assert y.dtype == np.float32
    assert np.all(np.isfinite(y))


def test_graph_keeps_only_what_the_rules_name():
    """sin and cos keep their input, tanh and exp their result, quotients and products by constants the constants."""
    found = {row.name: row.seconds["gradlib"]["median"] for row in memory_rows(Runner(()), "cpu", False)}
    assert found["chain of 100 operations, bytes saved"] == (4 * 10 + 2) * 400_000
