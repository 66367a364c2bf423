"""Central differences on the CPU, by NumPy and by numba, against the specification's padded sequence."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import central_host
from tests.trajectory import oracle
from tests.trajectory.helpers import each_form

pytestmark = pytest.mark.host  # arrays of NumPy alone

SHAPES = [(3, 6, 2), (2, 7, 1), (4, 12, 3)]
central = each_form("central")


@pytest.mark.parametrize("with_goal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_is_the_stencil_on_the_padded_sequence(central, rng, shape, with_goal):
    u, start = rng.standard_normal(shape), rng.standard_normal((3, shape[0], shape[2]))
    goal = rng.standard_normal((shape[0], shape[2])) if with_goal else None
    for dt in (rng.uniform(0.5, 1.5, (shape[0], 1)), np.full((1, 1), 0.7)):
        for found, expected in zip(central.forward(u, start, goal, dt), oracle.central(u, start, dt, goal), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("with_goal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_adjoint_is_the_transpose(central, rng, shape, with_goal):
    dt = rng.uniform(0.5, 1.5, (shape[0], 1))

    def linear(u, start, goal):
        def adjoint(grads):
            by_u, p, v, a, by_goal = central.adjoint(grads, dt, shape, with_goal)
            return by_u, np.stack([p, v, a]), by_goal

        return central.forward(u, start, goal if with_goal else None, dt), adjoint

    oracle.transposed(linear, [shape, (3, shape[0], shape[2]), (shape[0], shape[2])], rng)


@pytest.mark.parametrize("with_goal", [False, True])
def test_unused_actions_have_gradient_zero(central, rng, with_goal):
    shape = (2, 9, 3)
    by_u = central.adjoint(list(rng.standard_normal((4, *shape))), np.full((1, 1), 0.3), shape, with_goal)[0]
    first = 9 - 5 if with_goal else 9 - 4
    assert (by_u[:, first:] == 0).all()
    assert (by_u[:, :first] != 0).all()


@pytest.mark.parametrize(("degree", "quantities"), [(4, (0, 1, 2, 3)), (5, (0, 2))])
def test_exact_on_polynomials(central, rng, degree, quantities):
    """v, a and j are exact on quartics away from the padding; on quintics only the even stencils p and a are."""
    h, t = 20, 0.3
    c = rng.standard_normal(degree + 1)
    x = np.polynomial.Polynomial(c)
    times = t * np.arange(1, h + 1)
    u = x(times)[None, :, None]
    start = [np.array([[x.deriv(k)(0.0) if k else x(0.0)]]) for k in range(3)]
    made = central.forward(u, start, None, np.full((1, 1), t))
    inside = slice(3, h - 6)
    centre = t * (np.arange(h) - 1)
    for k in range(4):
        expected = (x.deriv(k) if k else x)(centre)
        error = np.abs(made[k][0, inside, 0] - expected[inside]).max() / np.abs(expected[inside]).max()
        assert (error < 1e-9) == (k in quantities)


def test_taylor_padding_is_exact_on_quadratics(central, rng):
    """With a quadratic through the start state, the padded past continues it: exact from step 0 on."""
    h, t = 12, 0.2
    x = np.polynomial.Polynomial(rng.standard_normal(3))
    u = x(t * np.arange(1, h + 1))[None, :, None]
    start = [np.array([[(x.deriv(k) if k else x)(0.0)]]) for k in range(3)]
    made = central.forward(u, start, None, np.full((1, 1), t))
    for k in range(3):
        np.testing.assert_allclose(made[k][0, : h - 6, 0], (x.deriv(k) if k else x)(t * (np.arange(h - 6) - 1)), atol=1e-9)


@pytest.mark.parametrize("with_goal", [False, True])
def test_ends_at_rest(central, rng, with_goal):
    u, start, goal = rng.standard_normal((2, 10, 3)), rng.standard_normal((3, 2, 3)), rng.standard_normal((2, 3))
    p, v, a, j = central.forward(u, start, goal if with_goal else None, np.full((1, 1), 0.5))
    np.testing.assert_array_equal(p[:, -1], goal if with_goal else u[:, 5])
    for x in (v, a, j):
        np.testing.assert_allclose(x[:, -1], 0, atol=1e-12)


def test_narrow_types(rng):
    u, start = rng.standard_normal((2, 8, 2)).astype(np.float16), [x.astype(np.float16) for x in rng.standard_normal((3, 2, 2))]
    wide = central_host.forward(u.astype(np.float32), [x.astype(np.float32) for x in start], None, np.full((1, 1), 0.5))
    for found, expected in zip(central_host.forward(u, start, None, np.full((1, 1), 0.5)), wide, strict=True):
        np.testing.assert_array_equal(found, expected.astype(np.float16))


@pytest.mark.parametrize("with_goal", [False, True])
def test_numba_takes_any_gradients_and_a_missing_start(rng, with_goal):
    central_numba = pytest.importorskip("gradlib.trajectory.central_numba", exc_type=ImportError)
    shape = (3, 8, 7)
    full, repeated = rng.standard_normal((4, *shape)), np.broadcast_to(2.5, shape)
    strided = rng.standard_normal((*shape, 2))[..., 1]
    for grads in ([None, repeated, full[2], strided], [full[0], None, None, None], [strided, full[1], repeated, None]):
        results = [form.adjoint(grads, 0.5, shape, with_goal) for form in (central_host, central_numba)]
        for expected, found in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    goal = full[1, :, 0] if with_goal else None
    for start in ([None, full[0, :, 0], None], [full[0, :, 0], None, full[0, :, 1]]):
        results = [form.forward(strided, start, goal, 0.5) for form in (central_host, central_numba)]
        for expected, found in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
