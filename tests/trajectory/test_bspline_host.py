"""Uniform B-splines on the CPU, against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import bspline_host as bspline
from tests.trajectory import oracle

interpolate = pytest.importorskip("scipy.interpolate")


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
