"""The benchmark's arithmetic; its times are judged by no test."""

from __future__ import annotations

import numpy as np

from benchmarks.core import chain, chain_data, memory_row
from benchmarks.timing import Row, interleaved, median_ratio


def test_ratio_is_taken_within_each_round() -> None:
    times = {"a": [1.0, 10.0, 100.0], "b": [2.0, 10.0, 400.0]}
    assert median_ratio(times, "a", "b") == 0.5


def test_rounds_time_every_run_equally_often() -> None:
    calls = []
    times = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=4, seconds=0)
    assert calls == ["a", "a", "b", "b", "b", "a", "a", "b", "b", "a", "a", "b"]
    assert [len(t) for t in times.values()] == [4, 4]


def test_target_is_an_upper_bound() -> None:
    assert Row("", "", "", 0.6, 0.6).reached
    assert not Row("", "", "", 0.61, 0.6).reached
    assert Row("", "", "", 9.0).cells()[-1] == ""


def test_chain_stays_finite_and_single() -> None:
    y = chain(np, *chain_data(1000), blocks=100)
    assert y.dtype == np.float32
    assert np.all(np.isfinite(y))


def test_graph_keeps_only_what_the_rules_name() -> None:
    row = memory_row(blocks=4, size=200_000)
    assert 0.99 < row.ratio <= 1.01
