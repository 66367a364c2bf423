"""The smoothness cost on the CPU, by NumPy and by numba: equal to the composed form, and its gradient to differences of it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gradlib.trajectory import cache_blocks as blocks, chain_host as chain, smoothness_host
from tests.trajectory import oracle
from tests.trajectory.helpers import each_form

pytestmark = pytest.mark.host  # arrays of NumPy alone

LIMIT_WEIGHT = 1.7
smoothness = each_form("smoothness")


def composed(u, start, dt, weights, limits):
    states = chain.forward(u, start, dt, 0)
    cost = sum((weights[k - 1] * states[k] ** 2).sum((1, 2)) for k in (1, 2, 3))
    if limits is not None:
        for k, x in enumerate(states):
            excess = np.maximum(x - limits[2 * k + 1], 0) + np.maximum(limits[2 * k] - x, 0)
            cost = cost + LIMIT_WEIGHT * (excess**2).sum((1, 2))
    return cost


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
@pytest.mark.parametrize("shape", [(3, 7, 2), (2, 2, 3), (2, 3, 1), (2, 1, 3), (5, 40, 2)])
def test_cost_and_gradient(smoothness, monkeypatch, rng, shape, kind, limited):
    monkeypatch.setattr(smoothness_host, "split", partial(blocks.split, block=3 * shape[1] * shape[2]))
    batch, horizon, joints = shape
    u, start = rng.standard_normal(shape), list(rng.standard_normal((3, batch, joints)))
    dt, weights = oracle.step_times(rng, kind, batch, horizon), rng.uniform(0.5, 1, (3, joints))
    limits = np.array([[-0.5], [0.4]] * 4) * rng.uniform(0.5, 1, (8, joints)) if limited else None
    cost, *grads = smoothness.cost_and_gradient(u, start, dt, weights, limits, LIMIT_WEIGHT, by_dt=True)
    np.testing.assert_allclose(cost, composed(u, start, dt, weights, limits), rtol=1e-10)
    whole = np.broadcast_to(dt, (batch, dt.shape[1]))  # the gradient by dt has a row for each trajectory
    for i, gradient in enumerate(grads):
        way = rng.standard_normal(gradient.shape)
        ends = []
        for sign in (1, -1):
            moved = [u, *start, whole]
            moved[i] = moved[i] + sign * 1e-6 * way
            ends.append(composed(moved[0], moved[1:4], moved[4], weights, limits).sum())
        np.testing.assert_allclose((gradient * way).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-4)


def test_without_gradient_and_missing_start(smoothness, rng):
    u, weights = rng.standard_normal((2, 6, 3)), np.ones((3, 3))
    for dt in (np.full((1, 1), 0.5), rng.uniform(0.5, 1, (1, 6))):
        cost, *grads = smoothness.cost_and_gradient(u, (None, None, None), dt, weights, None, 1.0, by_parts=False)
        assert grads == [None] * 5
        np.testing.assert_allclose(cost, composed(u, np.zeros((3, 2, 3)), dt, weights, None), rtol=1e-12)


def test_float16_is_float32_rounded(rng):
    u, weights = rng.standard_normal((2, 6, 3)).astype(np.float16), np.ones((3, 3))
    args = ((None, None, None), np.full((1, 1), 0.9), weights, None, 1.0, True, True)
    for found, expected in zip(
        smoothness_host.cost_and_gradient(u, *args), smoothness_host.cost_and_gradient(u.astype(np.float32), *args), strict=True
    ):
        assert expected.dtype == np.float32
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
