"""Running sums over the steps of a block: exact on whole numbers, in float32 as good as a plain loop, and of each series alone."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import cache_blocks as blocks

pytestmark = pytest.mark.host  # arrays of NumPy alone

ROWS = 3


@pytest.fixture(params=["few", "many"], autouse=True)
def number_of_elements(request, monkeypatch):
    """Both ways of summing: of a small block in one call, of others by sums of neighbours and a recurrence."""
    monkeypatch.setattr(blocks, "_FEW", 1 << 40 if request.param == "few" else 0)


def running_sum(x, backward):
    """`Steps.accumulate` of (b, H, D)."""
    flat = x.reshape(-1).copy()
    blocks.Steps(np.ones((1, 1), x.dtype), x.shape).accumulate(flat, backward)
    return flat.reshape(x.shape)


def plain_sum(x, backward):
    return np.cumsum(x[:, ::-1], axis=1)[:, ::-1] if backward else np.cumsum(x, axis=1)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("joints", [1, 2, 3, 4, 7, 12, 13, 40])
def test_is_exact_on_whole_numbers(rng, joints, backward):
    for horizon in range(2, 42):  # below, at and above every number of steps that is taken at a time, with and without a rest
        x = rng.integers(-9, 10, (ROWS, horizon, joints)).astype(np.float32)
        np.testing.assert_array_equal(running_sum(x, backward), plain_sum(x, backward))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("joints", [1, 7])
def test_a_number_reaches_later_steps_of_its_own_series_only(joints, backward, value):
    for at in range(12):
        x = np.ones((ROWS, 12, joints))
        x[1, at, 0] = value
        np.testing.assert_array_equal(running_sum(x, backward), plain_sum(x, backward))


@pytest.mark.parametrize("kind", ["noise", "differences"])
@pytest.mark.parametrize("horizon", [32, 1024])
def test_float32_is_as_good_as_a_plain_loop(rng, horizon, kind):
    """Within twice its error: on noise, and on differences, whose sums stay small only if what cancels is added early."""
    x = rng.standard_normal((64, horizon, 7))
    x = (np.diff(x, axis=1, prepend=0) if kind == "differences" else x).astype(np.float32)
    exact = plain_sum(x.astype(np.float64), False)
    ours, plain = (np.abs(found - exact).mean() for found in (running_sum(x, False), plain_sum(x, False)))
    assert ours <= 2 * plain


def test_blocks_cover_all_trajectories_and_none_is_a_few_left_over():
    for trajectories in (0, 1, 1023, 1500, 8192, 16384):
        bounds = blocks.split(trajectories, 32 * 7)
        assert [row for low, high in bounds for row in range(low, high)] == list(range(trajectories))
        sizes = [high - low for low, high in bounds]
        assert not sizes or min(sizes) >= 0.9 * max(sizes), trajectories
