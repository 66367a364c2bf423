"""How seconds are taken and put together."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.cli.bench import timing
from gradlib.cli.bench.case import Case, made
from gradlib.cli.bench.runner import Runner
from gradlib.cli.bench.suites.memory import rows as memory_rows
from gradlib.cli.bench.suites.overhead import chain, chain_data

pytestmark = pytest.mark.host
CASE = Case("", "", lambda peer: None, limits={"other": 0.6})


def test_ratio_is_taken_within_each_round():
    row = made(CASE, {"gradlib": [1.0, 10.0, 100.0], "other": [2.0, 10.0, 400.0]})
    assert row.ratio == {"other": 0.5}
    assert row.seconds["gradlib"]["median"] == 10.0


def test_limit_is_an_upper_bound():
    assert made(CASE, {"gradlib": [0.6, 0.6], "other": [1.0, 1.0]}).missed == []
    assert made(CASE, {"gradlib": [0.61, 0.61], "other": [1.0, 1.0]}).missed == ["other"]


def test_row_is_noisy_where_the_spread_reaches_the_limit():
    assert made(CASE, {"gradlib": [0.4, 0.5, 0.7, 0.8], "other": [1.0] * 4}).noisy
    assert not made(CASE, {"gradlib": [0.4, 0.41, 0.42, 0.43], "other": [1.0] * 4}).noisy


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
