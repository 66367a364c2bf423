"""The chain on the CPU, by NumPy and by numba: four control orders, both schemes, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import chain_host
from tests.trajectory import oracle
from tests.trajectory.helpers import each_form

pytestmark = pytest.mark.host  # arrays of NumPy alone

B, H, D = 3, 9, 2
chain = each_form("chain")


@pytest.fixture
def case(rng):
    return rng.standard_normal((B, H, D)), rng.standard_normal((3, B, D)), list(rng.standard_normal((3, B, H, D)))


@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_forward_is_the_recurrence(chain, rng, case, order, exact, kind):
    u, start, sources = case
    dt = oracle.step_times(rng, kind, B, H)
    for extra in (None, sources):
        for found, expected in zip(
            chain.forward(u, start, dt, order, exact, extra), oracle.chain(u, start, dt, order, exact, extra), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_adjoint_is_the_transpose(chain, rng, order, exact, kind):
    dt = oracle.step_times(rng, kind, B, H)

    def linear(u, start, sources):
        outputs = chain.forward(u, start, dt, order, exact, list(sources))

        def adjoint(grads):
            by_u, *rest = chain.adjoint(grads, dt, u.shape, order, exact, with_sources=True)
            return by_u, np.stack(rest[:3]), np.stack(rest[3:])

        return outputs, adjoint

    oracle.transposed(linear, [(B, H, D), (3, B, D), (3, B, H, D)], rng)


@pytest.mark.parametrize("missing", range(4))
@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_a_missing_gradient_is_zero(chain, rng, order, exact, missing):
    dt = oracle.step_times(rng, "both", B, H)
    grads = list(rng.standard_normal((4, B, H, D)))
    zeroed = [np.zeros_like(g) if i == missing else g for i, g in enumerate(grads)]
    grads[missing] = None
    for found, expected in zip(
        chain.adjoint(grads, dt, (B, H, D), order, exact, True), chain.adjoint(zeroed, dt, (B, H, D), order, exact, True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_a_gradient_of_one_number_repeated_counts_as_written_out(chain, rng, order, exact):
    dt = oracle.step_times(rng, "both", B, H)
    repeated = [np.broadcast_to(x, (B, H, D)) for x in rng.standard_normal(4)]
    written = [x.copy() for x in repeated]
    for found, expected in zip(
        chain.adjoint(repeated, dt, (B, H, D), order, exact, True), chain.adjoint(written, dt, (B, H, D), order, exact, True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_last_action_first_step_time_and_first_jerk_are_not_used(chain, rng, case, order, exact):
    u, start, _ = case
    dt = oracle.step_times(rng, "both", B, H)
    before = chain.forward(u, start, dt, order, exact)
    u[:, -1] = np.nan
    dt[:, 0] = np.nan
    for found, expected in zip(chain.forward(u, start, dt, order, exact), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    grads = list(rng.standard_normal((4, B, H, D)))
    by_u, *rest = chain.adjoint(grads, dt, u.shape, order, exact, True)
    assert (by_u[:, -1] == 0).all()
    assert all((x[:, 0] == 0).all() for x in rest[3:])
    grads[3][:, 0] = np.nan
    np.testing.assert_array_equal(chain.adjoint(grads, dt, u.shape, order, exact)[0], by_u)


@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_step_zero_is_the_start(chain, case, order, exact):
    u, start, _ = case
    p, v, a, j = chain.forward(u, start, np.full((1, 1), 0.1), order, exact)
    for found, expected in zip((p, v, a, j), (*start, np.zeros((B, D))), strict=True):
        np.testing.assert_array_equal(found[:, 0], expected)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_position_control_round_trips_through_every_other(chain, rng, case, order):
    u, start, _ = case
    dt = oracle.step_times(rng, "both", B, H)
    states = chain.forward(u, start, dt, 0)
    control = np.concatenate([states[order][:, 1:], np.zeros((B, 1, D))], axis=1)
    for found, expected in zip(chain.forward(control, start, dt, order), states, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("order", "degree"), [(2, 2), (3, 3)])
def test_exact_scheme_is_exact_on_polynomials(chain, rng, order, degree):
    """A constant acceleration or jerk gives the quadratic or cubic at every step, whatever the steps are."""
    dt = oracle.step_times(rng, "both", B, H)
    times = np.concatenate([np.zeros((B, 1)), np.cumsum(dt[:, 1:], axis=1)], axis=1)[:, :, None]
    c = rng.standard_normal((degree + 1, B, 1, D))
    falling = [sum(c[k] * times ** (k - n) * np.prod(np.arange(k, k - n, -1.0)) for k in range(n, degree + 1)) for n in range(order)]
    start = [x[:, 0] for x in falling] + [np.broadcast_to(2 * c[2], (B, 1, D))[:, 0]] * (3 - order)
    control = np.broadcast_to(c[degree] * np.prod(np.arange(1.0, degree + 1)), (B, H, D))
    made = chain.forward(np.ascontiguousarray(control), start[:3], dt, order, exact=True)
    for found, expected in zip(made, falling, strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_blocks_do_not_show(monkeypatch, rng, order, exact):
    u, start = rng.standard_normal((11, H, D)), rng.standard_normal((3, 11, D))
    dt = oracle.step_times(rng, "both", 11, H)
    grads = list(rng.standard_normal((4, 11, H, D)))
    whole = chain_host.forward(u, start, dt, order, exact), chain_host.adjoint(grads, dt, u.shape, order, exact, True)
    monkeypatch.setattr(chain_host, "block_of", lambda order, horizon: 3 * H * D)
    parts = chain_host.forward(u, start, dt, order, exact), chain_host.adjoint(grads, dt, u.shape, order, exact, True)
    for left, right in zip(whole, parts, strict=True):
        for found, expected in zip(right, left, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_narrow_types_compute_in_float32(rng, case, order, exact, dtype):
    """Results are the float32 ones, rounded once to the storage type."""
    u, start = case[0].astype(dtype), [x.astype(dtype) for x in case[1]]
    dt = oracle.step_times(rng, "both", B, H).astype(np.float32)
    wide = chain_host.forward(u.astype(np.float32), [x.astype(np.float32) for x in start], dt, order, exact)
    for found, expected in zip(chain_host.forward(u, start, dt, order, exact), wide, strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected.astype(dtype))
    by_u = chain_host.adjoint([x.astype(dtype) for x in wide], dt, u.shape, order, exact)
    assert all(x.dtype == dtype for x in by_u)


@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_bfloat16_rounds_once(rng, case, order, exact):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    u, start = case[0].astype(bfloat16), [x.astype(bfloat16) for x in case[1]]
    dt = np.full((1, 1), 0.5, np.float32)
    wide = chain_host.forward(u.astype(np.float32), [x.astype(np.float32) for x in start], dt, order, exact)
    for found, expected in zip(chain_host.forward(u, start, dt, order, exact), wide, strict=True):
        assert found.dtype == bfloat16
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(bfloat16).astype(np.float32))


def test_long_horizon_and_out(chain, rng):
    u, start = rng.standard_normal((2, 5000, 3)), np.zeros((3, 2, 3))
    out = [np.empty_like(u) for _ in range(4)]
    made = chain.forward(u, start, np.full((1, 1), 0.01), 2, out=out)
    assert all(x is y for x, y in zip(made, out, strict=True))
    np.testing.assert_allclose(out[1][:, 1:], np.cumsum(u[:, :-1], axis=1) * 0.01, rtol=1e-9, atol=1e-9)
