"""The branch of each map that a CUDA array takes, run here: its own code and launches, which the shim executes on NumPy arrays."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gradlib.core.op import REGISTRY
from gradlib.trajectory import kernels
from tests import shim

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason="no g++")
B, H, D = 3, 9, 2


@pytest.fixture
def device(monkeypatch):
    """A namespace that is NumPy in all but identity, so that maps take the branch for devices."""
    monkeypatch.setattr(kernels, "launch", shim.execute)
    return SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("__")})


def same(device, name, *args):
    """The operation's value on the device branch and on the host's."""
    value = REGISTRY[name].value
    found, expected = value(device, *args), value(np, *args)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for left, right in pairs:
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("order", [0, 2])
def test_chain(device, rng, order, time_last):
    shape = (B, D, H) if time_last else (B, H, D)
    static = (order, False, shape, time_last)
    for dt in (0.3, rng.uniform(0.5, 1.5, H), rng.uniform(0.5, 1.5, (B, 1)), rng.uniform(0.5, 1.5, (B, H))):
        parts = [rng.standard_normal(shape), rng.standard_normal((B, D)), rng.standard_normal(D)]
        same(device, "trajectory_chain", dt, static, (0, 1, 3), None, parts)
        grads = list(rng.standard_normal((2, *shape)))
        same(device, "trajectory_chain_adjoint", dt, static, (0, 3), (0, 1, 2, 3), grads)
        same(device, "trajectory_chain_adjoint_timed", static, (0, 3), (0, 4, 5, 6), [np.asarray(dt), *grads])
    same(device, "trajectory_chain_timed", static, (4, 6), None, [np.float64(0.3).reshape(()), *rng.standard_normal((2, *shape))])


def test_chain_fills_buffers(device, rng):
    out = [np.full((B, H, D), np.nan) for _ in range(4)]
    made = REGISTRY["trajectory_chain"].value(device, 0.3, (1, False, (B, H, D), False), (0,), out, [rng.standard_normal((B, H, D))])
    assert all(x is y for x, y in zip(made, out, strict=True))
    assert not any(np.isnan(x).any() for x in out)


@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("with_goal", [False, True])
def test_central(device, rng, with_goal, time_last):
    shape = (B, D, H) if time_last else (B, H, D)
    static, dt = (with_goal, shape, time_last), rng.uniform(0.5, 1.5, (B, 1))
    parts = [rng.standard_normal(shape), rng.standard_normal((B, D)), rng.standard_normal(D)]
    same(device, "trajectory_central", dt, static, (0, 1, 4) if with_goal else (0, 1, 2), None, parts)
    same(device, "trajectory_central_adjoint", dt, static, (1, 2), (0, 1, 2, 3, 4), list(rng.standard_normal((2, *shape))))


@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("with_goal", [False, True])
def test_bspline(device, rng, with_goal, time_last):
    shape = (B, D, 4) if time_last else (B, 4, D)
    static, dt = (4, 2, with_goal, shape, time_last), rng.uniform(0.5, 1.5, (B, 1))
    parts = [rng.standard_normal(shape), rng.standard_normal((B, D)), rng.standard_normal(D)]
    same(device, "trajectory_bspline", dt, static, (0, 1, 6) if with_goal else (0, 1, 2), None, parts)
    horizon = (8 if with_goal else 4) * 2 + 1
    grads = list(rng.standard_normal((2, *((B, D, horizon) if time_last else (B, horizon, D)))))
    same(device, "trajectory_bspline_adjoint", dt, static, (0, 3), tuple(range(9)), grads)


def test_rows(device, rng):
    table, index = rng.standard_normal((4, D)), np.array([3, 0, 3])
    same(device, "trajectory_rows", table, index)
    same(device, "trajectory_rows_adjoint", rng.standard_normal((3, D)), index, 4)


@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_smoothness(device, rng, limited, time_last):
    shape = (B, D, H) if time_last else (B, H, D)
    weights, limits = rng.uniform(0.5, 1, (3, D)), np.array([[-0.5], [0.4]] * 4) * np.ones((8, D)) if limited else None
    parts = [rng.standard_normal(shape), rng.standard_normal((B, D)), rng.standard_normal(D)]
    for dt in (0.3, rng.uniform(0.5, 1.5, (B, H))):
        for wanted in ((True, False), (False, False), (True, True)):
            if wanted[1] and isinstance(dt, float):
                continue  # no gradient by a number
            inputs = [dt, *parts]
            same(device, "trajectory_smoothness", (0, 1, 3), weights, limits, 0.7, wanted, (shape, time_last), inputs)


def test_empty_batches_launch_nothing(device):
    same(device, "trajectory_chain", 0.3, (2, False, (0, H, D), False), (0,), None, [np.zeros((0, H, D))])
