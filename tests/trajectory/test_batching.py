"""vmap through every trajectory function: the same as one call for each row, without falling back to that."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradlib
import gradlib.func
from gradlib.core.batched import Batched
from gradlib.func.level import Level
from gradlib.trajectory import (
    JointLimits,
    smoothness_cost,
    smoothness_host as host_form,
    step_acceleration,
    step_bspline,
    step_jerk,
    step_position,
    step_velocity,
)
from gradlib.trajectory.compiled import form
from tests.values import host

V, B, H, D = 3, 2, 7, 2
STEPS = {
    "position": lambda u, t, *s: step_position(u, s, t),
    "velocity": lambda u, t, *s: step_velocity(u, s, t),
    "acceleration": lambda u, t, *s: step_acceleration(u, s, t, scheme="exact"),
    "jerk": lambda u, t, *s: step_jerk(u, s, t),
    "cost": lambda u, t, *s: (smoothness_cost(u, s, t, (1.0, 1.0, 0.1), JointLimits(position=0.5)),),
}
ONE_TIME = {
    "central": lambda u, t, s, g: step_position(u, (s,), t, scheme="central", goal=g),
    "bspline": lambda u, t, s, g: step_bspline(u, (s, s), t, samples_per_knot=2, goal=(g,)),
}


def rows_at_once(function, *args):
    """The function on the rows of the arguments marked True."""
    with Level(V) as level:
        given = [Batched(level, gradlib.tensor(x)) if batched else gradlib.tensor(x) for x, batched in args]
        return [host(y.value) for y in function(*given)]


def one_by_one(function, *args):
    made = [function(*(gradlib.tensor(x[i] if batched else x) for x, batched in args)) for i in range(V)]
    return [np.stack([host(row[k]) for row in made]) for k in range(len(made[0]))]


def same(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the fallback to one call for each row warns
        found = rows_at_once(function, *args)
    for value, expected in zip(found, one_by_one(function, *args), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("controls", [True, False])
@pytest.mark.parametrize("start", [((V, B, D), True), ((V, D), True), ((B, D), False)], ids=str)
@pytest.mark.parametrize("dt", [((), False), ((H,), False), ((B, H), False), ((V,), True), ((V, H), True), ((V, B, 1), True)], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_integrators_under_vmap_equal_one_after_the_other(rng, name, dt, start, controls):
    if not (controls or start[1] or dt[1]):
        pytest.skip("nothing is batched")
    u = rng.standard_normal((V, B, H, D) if controls else (B, H, D))
    same(STEPS[name], (u, controls), (rng.uniform(0.5, 1.5, dt[0]), dt[1]), (rng.standard_normal(start[0]), start[1]))


def test_one_row(rng):
    u, dt = gradlib.tensor(rng.standard_normal((1, B, H, D))), gradlib.tensor([0.7])
    for name, step in STEPS.items():
        for found, expected in zip(gradlib.func.vmap(step)(u, dt), step(u[0], dt[0]), strict=True):
            np.testing.assert_allclose(host(found)[0], host(expected), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ONE_TIME)
def test_maps_with_one_step_length(rng, name):
    u, dt = rng.standard_normal((V, B, H, D)), rng.uniform(0.5, 1.5, V)
    same(ONE_TIME[name], (u, True), (dt, True), (rng.standard_normal(D), False), (rng.standard_normal((V, D)), True))


@pytest.mark.parametrize("chosen", [True, False])
def test_chosen_rows(rng, chosen):
    index = rng.integers(0, 4, (V, B) if chosen else B)
    tables = (rng.standard_normal((V, 4, D)), True)
    same(lambda u, s, i: step_jerk(u, (s, s), 0.5, start_idx=i), (rng.standard_normal((V, B, H, D)), True), tables, (index, chosen))


@pytest.mark.parametrize("goal", [(B, D), (D,), (1, D)])
@pytest.mark.parametrize("size", [1, 2])
def test_a_goal_is_not_among_the_chosen_rows(rng, goal, size):
    index = gradlib.tensor([4, 1][:size])
    goal = (size, D) if goal == (B, D) else goal

    def step(u, s, g):
        return step_position(u, (s,), 0.5, scheme="central", goal=g, start_idx=index)

    u, s, g = (rng.standard_normal(shape) for shape in ((V, size, H, D), (5, D), goal))
    same(step, (u, True), (s, False), (g, False))
    same(step, (u, True), (np.stack([s, s + 1, s - 1]), True), (np.stack([g, g + 1, g - 1]), True))


def test_gradients_are_those_of_the_rows(rng):
    u, dt, start = rng.standard_normal((V, B, H, D)), rng.uniform(0.5, 1.5, (V, H)), rng.standard_normal((V, 4, D))
    index = gradlib.tensor([1, 1])

    def loss(*args):
        made = step_jerk(args[0], (args[2],), args[1], start_idx=index)
        return sum((x * x).sum() for x in made)

    whole = [gradlib.tensor(x, requires_grad=True) for x in (u, dt, start)]
    with Level(V) as level:
        total = loss(*(Batched(level, x) for x in whole)).value
    for found, expected in zip(
        gradlib.autograd.grad(total.sum(), whole), zip(*(_by_row(loss, u, dt, start, i) for i in range(V)), strict=True), strict=True
    ):
        np.testing.assert_allclose(host(found), np.stack(expected), rtol=1e-9, atol=1e-9)


def _by_row(loss, u, dt, start, i):
    leaves = [gradlib.tensor(x[i], requires_grad=True) for x in (u, dt, start)]
    return [host(g) for g in gradlib.autograd.grad(loss(*leaves), leaves)]


@pytest.mark.host  # counts calls of the CPU's form
@pytest.mark.parametrize("layout", ["bhd", "bdh"])
def test_the_cost_and_its_gradients_are_one_call(rng, monkeypatch, layout):
    calls = []
    used = form("smoothness", host_form)
    inner = used.cost_and_gradient
    monkeypatch.setattr(used, "cost_and_gradient", lambda *args: calls.append(args[0].shape) or inner(*args))
    u, dt, start = rng.standard_normal((V, B, H, D)), rng.uniform(0.5, 1.5, (V, H)), rng.standard_normal((V, D))
    u = np.ascontiguousarray(u.swapaxes(2, 3)) if layout == "bdh" else u

    def loss(u, dt, start):
        cost = smoothness_cost(u, (start,), dt, (1.0, 0.5, 0.1), JointLimits(velocity=1.0), layout=layout)
        return (cost * gradlib.tensor(np.array([1.0, -2.0]))).sum()

    whole = [gradlib.tensor(x, requires_grad=True) for x in (u, dt, start)]
    with Level(V) as level:
        total = loss(*(Batched(level, x) for x in whole)).value
    found = gradlib.autograd.grad(total.sum(), whole)
    assert calls == [(V * B, H, D)]
    for value, expected in zip(found, zip(*(_by_row(loss, u, dt, start, i) for i in range(V)), strict=True), strict=True):
        np.testing.assert_allclose(host(value), np.stack(expected), rtol=1e-9, atol=1e-9)


def test_transforms_of_the_cost(rng):
    """grad beneath vmap and above it, and second derivatives in every nesting: the same numbers."""
    u, dt = gradlib.tensor(rng.standard_normal((V, B, H, D))), gradlib.tensor(rng.uniform(0.5, 1.5, ()))
    func = gradlib.func

    def loss(x, t):
        return smoothness_cost(x, None, t, (1.0, 0.5, 0.1), JointLimits(position=0.5)).sum()

    for argnums in (0, 1):
        rows = func.vmap(func.grad(loss, argnums), in_dims=(0, None))(u, dt)
        for i in range(V):
            np.testing.assert_allclose(host(rows[i]), host(func.grad(loss, argnums)(u[i], dt)), rtol=1e-9, atol=1e-9)
        ways = [outer(inner(loss, argnums), argnums) for outer in (func.jacfwd, func.jacrev) for inner in (func.jacfwd, func.jacrev)]
        first, *others = (host(way(u[0], dt)) for way in ways)
        assert np.abs(first).max() > 1
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-8, atol=1e-8)


def test_out_is_refused(rng):
    out = [gradlib.empty((B, H, D), dtype="float64") for _ in range(4)]
    with Level(V) as level, pytest.raises(ValueError, match="out="):
        step_jerk(Batched(level, gradlib.tensor(rng.standard_normal((V, B, H, D)))), None, 0.5, out=out)


def test_by_its_public_name(rng):
    u = gradlib.tensor(rng.standard_normal((V, B, H, D)))
    made = gradlib.func.vmap(lambda x: tuple(step_velocity(x, None, 0.5)))(u)
    for found, expected in zip(made, step_velocity(u.reshape(V * B, H, D), None, 0.5), strict=True):
        np.testing.assert_array_equal(host(found), host(expected).reshape(V, B, H, D))
