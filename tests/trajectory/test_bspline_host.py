"""Uniform B-splines on the CPU: by NumPy against scipy, by numba against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradlib.trajectory import bspline_host as bspline
from tests.trajectory import oracle
from tests.trajectory.helpers import each_form

interpolate = pytest.importorskip("scipy.interpolate")
pytestmark = pytest.mark.host  # arrays of NumPy alone


@pytest.mark.parametrize("samples", [1, 3, 4])
@pytest.mark.parametrize("degree", bspline.DEGREES)
def test_forward_is_scipys_spline(rng, degree, samples):
    points, dt = rng.standard_normal((3, degree + 4, 2)), rng.uniform(0.5, 1.5, (3, 1))
    made = bspline.forward(points, dt, degree, samples)
    horizon = bspline.horizon_of(points.shape[1], degree, samples)
    assert horizon == 4 * samples + 1
    assert all(x.shape == (3, horizon, 2) for x in made)
    for b in range(3):
        spline = interpolate.BSpline(np.arange(-degree, points.shape[1] + 1), points[b], degree)
        x = np.arange(horizon) / samples
        for k in range(4):
            curve = spline.derivative(k) if k else spline
            expected = curve(np.minimum(x, points.shape[1] - degree - 1e-12 if k == degree else x)) / (samples * dt[b]) ** k
            np.testing.assert_allclose(made[k][b], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("degree", bspline.DEGREES)
def test_adjoint_is_the_transpose(rng, degree, samples):
    for dt in (rng.uniform(0.5, 1.5, (3, 1)), np.full((1, 1), 0.4)):

        def linear(points, dt=dt):
            return bspline.forward(points, dt, degree, samples), lambda grads: [bspline.adjoint(grads, dt, points.shape, degree, samples)]

        oracle.transposed(linear, [(3, degree + 3, 2)], rng)


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("degree", bspline.DEGREES)
def test_boundary_points_fix_every_derivative_there(rng, degree, end):
    weights = bspline.boundary_weights(degree, end)
    values = rng.standard_normal(degree)
    at = np.array([1.0 if end else 0.0])
    for k in range(degree):
        row = bspline.basis(degree, k, at)[0]
        found = (row[1:] if end else row[:-1]) @ (weights @ values)
        np.testing.assert_allclose(found, values[k], rtol=1e-9, atol=1e-9)
        assert (row[0] if end else row[-1]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("degree", bspline.DEGREES)
def test_basis_sums_to_one_and_derivatives_to_zero(degree):
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(bspline.basis(degree, 0, x).sum(axis=1), 1, rtol=1e-12)
    for k in (1, 2, 3):
        np.testing.assert_allclose(bspline.basis(degree, k, x).sum(axis=1), 0, atol=1e-12)


# ---- between boundary states --------------------------------------------------------------------------------------------------------


spline = each_form("bspline")


def motion_of(form: Any, knots: np.ndarray, ends: list[Any], dt: Any, degree: int, samples: int) -> list[np.ndarray]:
    """p, v, a, j by a form, from a start and, where there are eight parts, a goal."""
    batch, number, joints = knots.shape
    horizon = bspline.horizon_of(number + degree * len(ends) // 4, degree, samples)
    out = [np.full((batch, horizon, joints), np.nan, knots.dtype) for _ in range(4)]
    form.motion(knots, ends[:4], ends[4:] or None, dt, degree, samples, out)
    return out


@pytest.mark.parametrize(("degree", "samples"), list(product(bspline.DEGREES, [1, 4])))
def test_a_motion_meets_its_ends(spline, rng, degree, samples):
    ends, dt = list(rng.standard_normal((8, 3, 7))), rng.uniform(0.5, 1.5, (3, 1))
    made = motion_of(spline, rng.standard_normal((3, 2, 7)), ends, dt, degree, samples)
    for k in range(3 if degree == 3 else 4):
        np.testing.assert_allclose(made[k][:, 0], ends[k], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(made[k][:, -1], ends[4 + k], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("degree", "has_goal"), list(product(bspline.DEGREES, [False, True])))
def test_the_adjoint_of_a_motion_is_the_transpose(spline, rng, degree, has_goal):
    """Of degree 3 the jerk of an end counts nothing, whatever it is."""
    shape, parts = (3, 2, 5), 8 if has_goal else 4
    for dt in (rng.uniform(0.5, 1.5, (3, 1)), np.full((1, 1), 0.4)):

        def linear(knots, *ends, dt=dt):
            adjoint = lambda grads: spline.motion_adjoint(grads, dt, shape, has_goal, degree, 3)  # noqa: E731
            return motion_of(spline, knots, list(ends), dt, degree, 3), adjoint

        oracle.transposed(linear, [shape, *[(3, 5)] * parts], rng)
    jerks = spline.motion_adjoint([rng.standard_normal((3, 3 * (2 + degree * has_goal) + 1, 5))] * 4, dt, shape, has_goal, degree, 3)[4::4]
    assert [bool(x.any()) for x in jerks] == [degree > 3] * len(jerks)


@given(
    sizes=st.tuples(st.integers(0, 3), st.integers(1, 9), st.just(7)), degree=st.sampled_from(bspline.DEGREES),
    samples=st.integers(1, 4), has_goal=st.booleans(), each_dt=st.booleans(), there=st.tuples(*[st.booleans()] * 8),
    grads=st.tuples(*[st.sampled_from(["none", "repeated", "full", "strided"])] * 4),
)  # fmt: skip
def test_numba_gives_what_numpy_does_for_any_shape(sizes, degree, samples, has_goal, each_dt, there, grads):
    """Of other numbers of joints below: every number of lanes is a loop to compile."""
    bspline_numba = pytest.importorskip("gradlib.trajectory.bspline_numba", exc_type=ImportError)
    rng, (batch, number, joints) = np.random.default_rng(0), sizes
    knots = rng.standard_normal((number, joints, batch)).transpose(2, 0, 1)
    rows = rng.standard_normal((8, joints, batch)).swapaxes(1, 2)
    ends = [x if given else None for x, given in zip(rows, there, strict=True)][: 8 if has_goal else 4]
    dt = rng.uniform(0.5, 1.5, (batch if each_dt else 1, 1))
    results = [motion_of(form, knots, ends, dt, degree, samples) for form in (bspline_numba, bspline)]
    shape = results[0][0].shape
    made = {
        "none": None, "repeated": np.broadcast_to(rng.standard_normal(), shape), "full": rng.standard_normal(shape),
        "strided": rng.standard_normal((*shape[::-1], 2)).T[1],
    }  # fmt: skip
    each = [made[how] for how in grads] if set(grads) != {"none"} else [None, None, made["full"], None]
    results += [form.motion_adjoint(each, dt, sizes, has_goal, degree, samples) for form in (bspline_numba, bspline)]
    for found, expected in [*zip(*results[:2], strict=True), *zip(*results[2:], strict=True)]:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("joints", [1, 3, 7, 17])
def test_numba_covers_every_joint_and_writes_nothing_beside(rng, joints, dtype):
    """Lanes overlap where their number does not divide the joints', and end with the last joint of the last trajectory."""
    bspline_numba = pytest.importorskip("gradlib.trajectory.bspline_numba", exc_type=ImportError)
    knots, ends = rng.standard_normal((3, 2, joints)).astype(dtype), list(rng.standard_normal((8, 3, joints)).astype(dtype))
    around = np.full((4, 3 * 11 * joints + 2), np.nan, dtype)
    out = [row[1:-1].reshape(3, 11, joints) for row in around]
    bspline_numba.motion(knots, ends[:4], ends[4:], 0.5, 3, 2, out)
    wide = [x.astype(np.float64) for x in ends]
    for found, expected in zip(out, motion_of(bspline, knots.astype(np.float64), wide, 0.5, 3, 2), strict=True):
        np.testing.assert_allclose(found, expected, *([0.01, 0.1] if dtype is np.float16 else [1e-5, 1e-4]))
    made, grads = bspline_numba.motion_adjoint(out, 0.5, knots.shape, True, 3, 2), [x.astype(np.float64) for x in out]
    for found, expected in zip(made, bspline.motion_adjoint(grads, 0.5, knots.shape, True, 3, 2), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, *([0.01, 1.0] if dtype is np.float16 else [1e-4, 1e-3]))
    assert np.isnan(around[:, [0, -1]]).all()
