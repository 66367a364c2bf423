"""Trajectories on a device that is not current: values, first and second derivatives, also by the step times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradlib import Tensor, as_tensor, int32
from gradlib.autograd import grad
from gradlib.trajectory import (
    BoundsCost,
    EnergyCost,
    JointLimits,
    TrackingCost,
    smoothness_cost,
    step_acceleration,
    step_bspline,
    step_jerk,
    step_position,
    step_velocity,
    tensor_linspace,
)
from tests.device import cupy, two_devices
from tests.values import host

pytestmark = [pytest.mark.cuda, pytest.mark.host, two_devices]

B, H, D = 3, 6, 2
LIMITS = JointLimits(velocity=0.5, jerk=(np.array([-1.0, -2.0]), 3.0))

PROGRAMS: dict[str, Callable[..., Any]] = {
    "position": step_position,
    "central": lambda u, start, dt: step_position(u, start, dt, scheme="central", check=True),
    "velocity": step_velocity,
    "acceleration": lambda u, start, dt: step_acceleration(u, start, dt, scheme="exact", layout="bdh"),
    "jerk": lambda u, start, dt: step_jerk(u, start, dt, start_idx=as_tensor([2, 0, 2], dtype=int32, device=u.device), check=True),
    "rows numbered on the host": lambda u, start, dt: step_jerk(u, start, dt, start_idx=np.array([2, 0, 2])),
    "bspline": lambda u, start, dt: step_bspline(u, start, dt, samples_per_knot=2, goal=start, check=True),
    "cost": lambda u, start, dt: [smoothness_cost(u, start, dt, (1.0, 0.5, 0.1), LIMITS)],
    "costs": lambda u, start, dt: [
        (BoundsCost(LIMITS) + EnergyCost(1.0) + TrackingCost((start[0][:, None],)))(step_position(u, start, dt), dt)
    ],
    "interpolated": lambda u, start, dt: [tensor_linspace(start[0][..., None], start[1][..., None], 4)],
    "weighted cost": lambda u, start, dt: [smoothness_cost(u, start, dt, (1.0, np.ones(D), as_tensor([0.1, 0.2], device=u.device)))],
}


def outcome(name: str, device: str, timed: bool) -> list[Tensor]:
    rng = np.random.default_rng(0)
    shape = (B, D, H) if name == "acceleration" else (B, H, D)
    u, *start = (as_tensor(rng.normal(size=s), device=device).requires_grad_() for s in (shape, *[(B, D)] * 3))
    dt = as_tensor(rng.uniform(0.5, 1, (B, 1)), device=device).requires_grad_() if timed else 0.5
    made, wanted = PROGRAMS[name](u, start, dt), [x for x in (u, *start, dt) if isinstance(x, Tensor)]
    first = grad(sum((x * x).sum() for x in made), wanted, create_graph=True, materialize_grads=True)
    return [*made, *first, *grad(sum((g * g).sum() for g in first), wanted, materialize_grads=True)]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_passes(name: str, timed: bool) -> None:
    for found, expected in zip(outcome(name, "cuda:1", timed), outcome(name, "cpu", timed), strict=True):
        assert str(found.device) == "cuda:1"
        np.testing.assert_allclose(host(found), host(expected), rtol=1e-9, atol=1e-12)
    assert cupy.cuda.Device().id == 0
