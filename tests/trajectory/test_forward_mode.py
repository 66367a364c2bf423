"""Forward mode through every trajectory function, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad
from gradlib.trajectory import JointLimits, smoothness_cost, step_acceleration, step_bspline, step_jerk, step_position, step_velocity
from tests.values import host

B, H, D = 2, 7, 2
INDEX = np.array([0, 2])
CASES = {
    "position": (lambda u, t, *s: step_position(u, s, t), (B, H), B),
    "position-central": (lambda u, t, *s: step_position(u, s, t, scheme="central"), (B, 1), B),
    "velocity": (lambda u, t, *s: step_velocity(u, s, t), (B, H), B),
    "acceleration": (lambda u, t, *s: step_acceleration(u, s, t), (1, H), B),
    "acceleration-exact": (lambda u, t, *s: step_acceleration(u, s, t, scheme="exact"), (B, 1), B),
    "jerk": (lambda u, t, *s: step_jerk(u, s, t), (B, H), B),
    "jerk-exact": (lambda u, t, *s: step_jerk(u, s, t, scheme="exact"), (B, H), B),
    "chosen-rows": (lambda u, t, *s: step_jerk(u, s, t, start_idx=gradlib.tensor(INDEX)), (B, H), 3),
    "bspline": (lambda u, t, *s: step_bspline(u, s, t, samples_per_knot=2, goal=s), (B, 1), B),
    "cost": (lambda u, t, *s: (smoothness_cost(u, s, t, (1.0, 1.0, 0.1), JointLimits(position=0.5)),), (B, H), B),
}


@pytest.mark.parametrize("fixed_dt", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_tangents_are_the_transpose_of_the_adjoint(rng, case, fixed_dt):
    function, shape, starts = CASES[case]
    inputs = [rng.standard_normal((B, H, D)), rng.uniform(0.5, 1.5, shape), *rng.standard_normal((3, starts, D))]
    ways = [rng.standard_normal(x.shape) for x in inputs]
    if fixed_dt:
        ways[1] = np.zeros_like(ways[1])
    with forward_ad.dual_level():
        given = [
            gradlib.tensor(x) if fixed_dt and i == 1 else forward_ad.make_dual(gradlib.tensor(x), gradlib.tensor(w))
            for i, (x, w) in enumerate(zip(inputs, ways, strict=True))
        ]
        tangents = [host(forward_ad.unpack_dual(y).tangent) for y in function(*given)]
    ends = [[host(y) for y in function(*(gradlib.tensor(x + e * w) for x, w in zip(inputs, ways, strict=True)))] for e in (1e-6, -1e-6)]
    for found, above, below in zip(tangents, *ends, strict=True):
        np.testing.assert_allclose(found, (above - below) / 2e-6, rtol=1e-6, atol=1e-6)
