"""Properties over drawn shapes: the recurrence, the transpose, linearity in what a trajectory is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradlib.trajectory import bspline_host as bspline, cache_blocks as blocks, central_host as central, chain_host as chain
from tests.trajectory import oracle

pytestmark = pytest.mark.host  # arrays of NumPy alone


@st.composite
def cases(draw, shortest=2):
    """(generator, batch, horizon, joints)."""
    return (
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.integers(1, 5)),
        draw(st.integers(shortest, 14)),
        draw(st.integers(1, 9)),
    )


@given(cases(), st.sampled_from(oracle.CHAINS), st.sampled_from(oracle.DT_SHAPES), st.booleans())
def test_chain_is_linear_and_its_adjoint_the_transpose(case, kind, dt_kind, with_sources):
    (rng, batch, horizon, joints), (order, exact) = case, kind
    shape = (batch, horizon, joints)
    dt = oracle.step_times(rng, dt_kind, batch, horizon)

    def linear(u, start, *sources):
        extra = list(sources[0]) if with_sources else None
        made = chain.forward(u, start, dt, order, exact, extra)
        for found, expected in zip(made, oracle.chain(u, start, dt, order, exact, extra), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(expected).max()))

        def adjoint(grads):
            by_u, *rest = chain.adjoint(grads, dt, shape, order, exact, with_sources)
            assert (by_u[:, -1] == 0).all()
            return by_u, np.stack(rest[:3]), *([np.stack(rest[3:])] if with_sources else [])

        return made, adjoint

    oracle.transposed(linear, [shape, (3, batch, joints), *([(3, *shape)] if with_sources else [])], rng)


@given(cases(shortest=6), st.booleans())
def test_central_differences_are_linear_and_their_adjoint_the_transpose(case, with_goal):
    rng, batch, horizon, joints = case
    dt = rng.uniform(0.5, 1.5, (batch, 1))

    def linear(u, start, goal):
        def adjoint(grads):
            by_u, p, v, a, by_goal = central.adjoint(grads, dt, u.shape, with_goal)
            return by_u, np.stack([p, v, a]), by_goal

        return central.forward(u, start, goal if with_goal else None, dt), adjoint

    oracle.transposed(linear, [(batch, horizon, joints), (3, batch, joints), (batch, joints)], rng)


@given(cases(), st.sampled_from(bspline.DEGREES), st.integers(1, 4))
def test_bspline_is_linear_and_its_adjoint_the_transpose(case, degree, samples):
    rng, batch, number, joints = case
    dt = rng.uniform(0.5, 1.5, (batch, 1))

    def linear(points):
        return bspline.forward(points, dt, degree, samples), lambda g: [bspline.adjoint(g, dt, points.shape, degree, samples)]

    oracle.transposed(linear, [(batch, number + degree, joints)], rng)


@given(cases())
def test_time_order_and_back(case):
    rng, batch, horizon, joints = case
    array = rng.standard_normal((batch, horizon, joints)).astype(np.float32)
    table, back = blocks.time_table(horizon, batch * joints, array.dtype), np.empty_like(array)
    blocks.to_time_order(array, table)
    np.testing.assert_array_equal(table.reshape(horizon, batch, joints), array.swapaxes(0, 1))
    blocks.from_time_order(table, back)
    np.testing.assert_array_equal(back, array)
