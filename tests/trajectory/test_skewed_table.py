"""Repeated running sums in a skewed table: what the sums in place give, whatever an earlier call left in the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gradlib.trajectory import cache_blocks as blocks, chain_host as chain, skewed_table
from tests.trajectory.helpers import check_float32

pytestmark = pytest.mark.host  # arrays of NumPy alone

SHAPE = (70, 9, 5)


@pytest.fixture(autouse=True)
def no_block_is_too_small(monkeypatch):
    monkeypatch.setattr(blocks, "_FEW", 0)
    monkeypatch.setattr(skewed_table, "_kept", {})
    monkeypatch.setattr(blocks, "_LONG", 0)


def in_place(monkeypatch, *args):
    with monkeypatch.context() as other:
        other.setattr(skewed_table, "LARGEST", 0)
        other.setattr(blocks.Steps, "suits_time_order", False)
        return chain.forward(*args)


@pytest.mark.parametrize("rows", [1, 70])
@pytest.mark.parametrize("horizon", [1, 2, 3, 9])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gives_what_the_sums_in_place_give(rng, monkeypatch, order, horizon, rows):
    u, dt = rng.standard_normal((70, horizon, 5)), rng.uniform(0.01, 0.1, (rows, 1))
    start = [rng.standard_normal((70, 5)), None, rng.standard_normal((70, 5))]
    for _ in range(2):  # in a new table, and in one that holds what was summed before
        states = chain.forward(u, start, dt, order)
        assert len(skewed_table._kept) == 1
        for found, expected in zip(states, in_place(monkeypatch, u, start, dt, order), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(found[:, 0], expected[:, 0])
        u = -2 * u


@pytest.mark.parametrize(("rows", "order", "tables"), [(4, 3, 0), (8, 3, 1), (8, 2, 0), (12, 2, 1), (16, 1, 0)])
def test_a_small_block_has_one_where_its_sums_take_longer_than_a_call_for_each_step(rng, monkeypatch, rows, order, tables):
    monkeypatch.undo()
    monkeypatch.setattr(skewed_table, "_kept", {})
    u, dt = rng.standard_normal((rows, 32, 7)).astype(np.float32), np.full((1, 1), 0.1, np.float32)
    chain.forward(u, [None] * 3, dt, order)
    assert len(skewed_table._kept) == tables


def test_a_number_reaches_later_steps_of_its_own_trajectory_and_no_later_call(rng):
    u = rng.standard_normal(SHAPE)
    args = [None] * 3, np.array([[0.1]]), 3
    plain = chain.forward(u, *args)[:3]
    spoilt = u.copy()
    spoilt[40, 3, 2] = np.nan
    for found, expected in zip(chain.forward(spoilt, *args)[:3], plain, strict=True):
        reached = np.isnan(found)
        assert reached.sum() == reached[40, 4:, 2].sum() == 5
        np.testing.assert_array_equal(found[~reached], expected[~reached])
    for found, expected in zip(chain.forward(u, *args)[:3], plain, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seconds", [1e-13, 1e13])
def test_a_step_time_whose_third_power_leaves_float32_gives_finite_states(rng, seconds):
    u, start = rng.standard_normal(SHAPE).astype(np.float32), list(rng.standard_normal((3, 70, 5)).astype(np.float32))
    u /= np.float32(seconds)
    for dt in (np.array([[seconds]], np.float32), np.full((70, 1), seconds, np.float32)):
        assert all(np.isfinite(x).all() for x in chain.forward(u, start, dt, 3))


def test_float32_is_as_good_as_one_loop_over_the_steps(rng):
    check_float32(rng)


def test_threads_do_not_share_a_table(rng):
    controls = rng.standard_normal((8, *SHAPE))
    args = [None] * 3, np.array([[0.1]]), 3
    expected = [chain.forward(u, *args)[0] for u in controls]
    with ThreadPoolExecutor(4) as pool:
        for found, value in zip(pool.map(lambda k: chain.forward(controls[k % 8], *args)[0], range(400)), expected * 50, strict=True):
            np.testing.assert_array_equal(found, value)


def test_few_tables_are_kept(rng):
    for horizon in range(2, 40):
        chain.forward(rng.standard_normal((30, horizon, 2)), [None] * 3, np.array([[0.1]]), 2)
        assert len(skewed_table._kept) <= skewed_table._KEPT
