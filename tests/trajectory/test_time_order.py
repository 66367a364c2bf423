"""Integration in time order and its transpose: what the sums in place give, for every form of dt, and of each trajectory alone."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import cache_blocks as blocks, chain_host as chain, skewed_table
from tests.trajectory.helpers import check_float32

pytestmark = pytest.mark.host  # arrays of NumPy alone

SHAPE = (70, 9, 5)
SHAPES = [SHAPE, (128, 9, 4)]  # of the second a step takes a power of two of bytes


@pytest.fixture(autouse=True)
def no_block_is_small(monkeypatch):
    monkeypatch.setattr(blocks, "_FEW", 0)
    monkeypatch.setattr(skewed_table, "LARGEST", 0)
    monkeypatch.setattr(blocks, "_LONG", 0)


def step_times(rng, shape, times):
    """One for all, for each step, for each trajectory or for both."""
    return rng.uniform(0.01, 0.1, (shape[0] if "trajectory" in times else 1, shape[1] if "step" in times else 1))


@pytest.mark.parametrize("times", ["one", "step", "trajectory", "trajectory and step"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gives_what_the_sums_in_place_give(rng, monkeypatch, order, shape, times):
    u, dt = rng.standard_normal(shape), step_times(rng, shape, times)
    start = [rng.standard_normal(shape[::2]), None, rng.standard_normal(shape[::2])]
    assert blocks.BlockSteps(dt, u.dtype).of(0, shape).suits_time_order
    states = chain.forward(u, start, dt, order)
    monkeypatch.setattr(blocks.Steps, "suits_time_order", False)
    for found, expected in zip(states, chain.forward(u, start, dt, order), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("times", ["one", "step", "trajectory", "trajectory and step"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("written_out", [None, 0, 1])
@pytest.mark.parametrize("order", [2, 3])
def test_its_transpose_gives_what_the_sums_in_place_give(rng, monkeypatch, order, written_out, shape, times):
    """Of gradients that are one number repeated, as a sum's are, none, or the lowest or the next state's written out."""
    dt, calls = step_times(rng, shape, times), []
    grads = [np.broadcast_to(1.0 + k, shape) for k in range(3)] + [None]
    if written_out is not None:
        grads[written_out] = rng.standard_normal(shape)
    inner = blocks.Steps.integrate_back
    monkeypatch.setattr(blocks.Steps, "integrate_back", lambda *args: calls.append(args) or inner(*args))
    made = chain.adjoint(grads, dt, shape, order)
    assert len(calls) == 1
    monkeypatch.setattr(blocks.Steps, "suits_time_order", False)
    for found, expected in zip(made, chain.adjoint(grads, dt, shape, order), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len(calls) == 1


@pytest.mark.parametrize("width", [64, 512, 513])
def test_steps_of_a_table_lie_in_different_sets_of_the_cache(width):
    table = blocks.time_table(9, width, np.dtype(np.float32))
    table[...] = 1
    assert table.shape == (9, width)
    assert table.strides[0] % 2048 != 0
    assert table.base.flags.c_contiguous
    assert table.base.sum() == 9 * width  # what lies between the steps is zero


def test_a_number_reaches_later_steps_of_its_own_trajectory_only(rng):
    u = rng.standard_normal(SHAPE)
    plain = chain.forward(u, [None] * 3, np.array([[0.1]]), 3)[:3]
    u[40, 3, 2] = np.nan
    for found, expected in zip(chain.forward(u, [None] * 3, np.array([[0.1]]), 3)[:3], plain, strict=True):
        reached = np.isnan(found)
        assert reached.sum() == reached[40, 4:, 2].sum() == 5
        np.testing.assert_array_equal(found[~reached], expected[~reached])


def test_float32_is_as_good_as_one_loop_over_the_steps(rng):
    check_float32(rng)
