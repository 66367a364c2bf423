"""smoothness_cost: equal to the composed form, every gradient to second order, options and errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib import func
from gradlib.autograd import grad, gradcheck
from gradlib.autograd.profiler import profile
from gradlib.trajectory import (
    BoundsCost,
    JointLimits,
    TimeCost,
    build_clique_matrix,
    build_int_matrix,
    chain_device,
    chain_host as chain,
    smoothness_cost,
    step_position,
    tiles,
)
from tests.trajectory.helpers import check_derivatives
from tests.values import host

B, H, D = 2, 5, 2
WEIGHTS = (1.0, np.array([0.5, 0.7]), 0.1)
LIMITS = [
    None,
    JointLimits(position=0.5, velocity=(-1.0, 2.0), jerk=np.array([3.0, 4.0])),
    JointLimits(acceleration=(np.array([-1.0, 0.0]), 1.0)),
]


def composed(u, start, dt, limits, limit_weight=1.0):
    """The sum of the definition, from the integrator and pointwise operations, in (B, H, D)."""
    states = step_position(u, start, dt)
    total = 0
    for weight, x in zip(WEIGHTS, states[1:], strict=True):
        total = total + (gradlib.tensor(weight, dtype=u.dtype, device=u.device) * x * x).sum((1, 2))
    for bound, x in zip(limits or (), states, strict=False):
        if bound is not None:
            lower, upper = bound if isinstance(bound, tuple) else (-bound, bound)
            lower, upper = (gradlib.tensor(np.broadcast_to(v, (D,)).copy(), dtype=u.dtype, device=u.device) for v in (lower, upper))
            total = total + limit_weight * ((x - upper).clamp(min=0) ** 2 + (lower - x).clamp(min=0) ** 2).sum((1, 2))
    return total


@pytest.mark.parametrize("layout", ["bhd", "bdh"])
@pytest.mark.parametrize("limits", LIMITS, ids=["none", "some", "acceleration"])
@pytest.mark.parametrize("shape", [(), (1, H), (B, 1), (B, H)], ids=str)
def test_equal_to_the_composed_form(make, shape, limits, layout):
    u, start, dt = make(B, H, D), [make(B, D) for _ in range(3)], make.times(*shape, grad=False)
    given = u.swapaxes(1, 2).contiguous() if layout == "bdh" else u
    cost = smoothness_cost(given, start, dt, WEIGHTS, limits, limit_weight=1.7, layout=layout)
    expected = composed(u, start, dt, limits, 1.7)
    assert cost.shape == (B,)
    np.testing.assert_allclose(host(cost), host(expected), rtol=1e-10)
    ways = make.put(np.array([1.0, -2.0]))
    for found, value in zip(grad((cost * ways).sum(), (u, *start)), grad((expected * ways).sum(), (u, *start)), strict=True):
        np.testing.assert_allclose(host(found), host(value), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("limits", LIMITS, ids=["none", "some", "acceleration"])
@pytest.mark.parametrize(("shape", "layout"), [((), "bdh"), ((1, H), "bhd"), ((B, 1), "bhd"), ((B, H), "bdh")], ids=str)
def test_derivatives_by_every_input(make, shape, limits, layout, timed):
    dt = make.times(*shape, grad=timed)

    def function(u, *rest):
        times, start = (rest[0], rest[1:]) if timed else (dt, rest)
        return smoothness_cost(u, start, times, WEIGHTS, limits, layout=layout)

    inputs = (make(*((B, D, H) if layout == "bdh" else (B, H, D))), *((dt,) if timed else ()), *(make(B, D) for _ in range(3)))
    check_derivatives(make.device, function, inputs)


@pytest.mark.parametrize("limits", LIMITS, ids=["none", "some", "acceleration"])
@pytest.mark.parametrize("shape", [(), (1, 9), (B, 1), (B, 9)], ids=str)
def test_the_fused_gradient_is_the_recorded_one(make, shape, limits):
    """First-order backward uses the gradients of the one pass, create_graph the chain's: the same numbers."""
    u, start, dt = make(B, 9, D), [make(B, D) for _ in range(3)], make.times(*shape)
    cost = smoothness_cost(u, start, dt, WEIGHTS, limits).sum()
    fused = grad(cost, (u, *start, dt), retain_graph=True)
    for found, expected in zip(fused, grad(cost, (u, *start, dt), create_graph=True), strict=True):
        np.testing.assert_allclose(host(found), host(expected), rtol=1e-10, atol=1e-10)


def test_one_pass_gives_every_gradient(make, monkeypatch):
    """First-order backward integrates nothing, whatever requires a gradient and whoever looks on."""

    def refused(*args):
        raise AssertionError("the chain was run")

    for module in (chain, chain_device):
        for name in ("forward", "adjoint"):
            monkeypatch.setattr(module, name, refused)
    u, dt = make(B, H, D), make.times(B, H)
    with profile():
        smoothness_cost(u, None, dt, WEIGHTS, LIMITS[1]).sum().backward()
    assert dt.grad.shape == (B, H)
    np.testing.assert_array_equal(host(dt.grad)[:, 0], 0)
    assert u.grad.shape == (B, H, D)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_types(make, dtype):
    u, start = make(B, H, D, dtype=dtype), make(B, D, dtype=dtype)
    cost = smoothness_cost(u, (start,), 0.9, (0.1, 0.1, 0.1), JointLimits(position=0.5))
    assert cost.dtype == dtype
    assert [g.dtype for g in grad(cost.sum(), (u, start))] == [dtype, dtype]


def test_more_joints_than_a_block_has_threads(make):
    u, dt = make(2, 4, 130), make.times(2, 4, grad=True)
    cost, expected = smoothness_cost(u, None, dt, (1.0, 0.5, 0.1)), 0
    for weight, x in zip((1.0, 0.5, 0.1), step_position(u, None, dt)[1:], strict=True):
        expected = expected + (weight * x * x).sum((1, 2))
    np.testing.assert_allclose(host(cost), host(expected), rtol=1e-10)
    for found, value in zip(grad(cost.sum(), (u, dt)), grad(expected.sum(), (u, dt)), strict=True):
        np.testing.assert_allclose(host(found), host(value), rtol=1e-9, atol=1e-9)


def test_start_idx_and_no_gradient(make):
    u, start = make(3, H, D), make(2, D)
    index = make.put(np.array([1, 1, 0]))
    assert gradcheck(lambda u, s: smoothness_cost(u, (s,), 0.5, (1.0, 1.0, 1.0), start_idx=index), (u, start))
    with gradlib.no_grad():
        cost = smoothness_cost(u, (start,), 0.5, (1.0, 1.0, 1.0), start_idx=index)
    assert not cost.requires_grad
    np.testing.assert_allclose(host(cost), host(smoothness_cost(u, (start,), 0.5, (1.0, 1.0, 1.0), start_idx=index)))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"weights": 1.0}, TypeError, "tuple"),
        ({"weights": (1.0, 2.0)}, TypeError, "tuple"),
        ({"weights": (1.0, 2.0, np.ones(3))}, ValueError, "weight of jerk"),
        ({"limits": [1.0]}, TypeError, "JointLimits"),
        ({"limits": JointLimits(velocity=(1.0, 2.0, 3.0))}, ValueError, "limit of velocity"),
        ({"limits": JointLimits(jerk=np.ones(3))}, ValueError, "limit of jerk"),
        ({"dt": 0.0}, ValueError, "positive"),
        ({"u": np.zeros((B, 0, D))}, ValueError, "at least 1 step, got"),
        ({"dt": "0.1"}, TypeError, "dt is seconds"),
        ({"dt": 1e-50, "u": np.zeros((B, H, D), np.float32)}, ValueError, "in float32"),
        ({"limits": JointLimits(velocity=float("nan"))}, ValueError, "limit of velocity is at most its upper one and neither is NaN"),
        ({"limits": JointLimits(jerk=np.array([1.0, np.nan]))}, ValueError, "limit of jerk"),
        ({"limits": JointLimits(acceleration=(None, 1.0))}, (TypeError, ValueError), "limit of acceleration"),
        ({"limits": JointLimits(position=(1.0, -1.0))}, ValueError, "lower limit of position is at most its upper one"),
        ({"limits": JointLimits(position=(np.zeros(D), np.array([1.0, -1.0])))}, ValueError, "lower limit of position"),
        ({"limits": JointLimits(velocity=-1.0)}, ValueError, "a single bound b stands for"),
        ({"limits": JointLimits(velocity=(np.inf, np.inf))}, ValueError, "lower limit of velocity"),
    ],
)
def test_errors_say_what_was_received(change, kind, text):
    arguments = {"u": np.zeros((B, H, D)), "start": None, "dt": 0.1, "weights": (1.0, 1.0, 1.0), **change}
    with pytest.raises(kind, match=text):
        smoothness_cost(**arguments)


def test_limits_on_a_device_are_checked_where_asked(make):
    """Where they lie on a GPU, the host would wait for their values."""
    u, limits = make(B, H, D), JointLimits(velocity=make.put(np.array([1.0, -1.0])))
    with pytest.raises(ValueError, match="lower limit of velocity"):
        smoothness_cost(u, None, 0.1, (1.0, 1.0, 1.0), limits, check=True)
    assert smoothness_cost(u, None, 0.1, (1.0, 1.0, 1.0), JointLimits(position=(0.0, 0.0), jerk=np.inf), check=True).shape == (B,)


@pytest.mark.parametrize("limits", LIMITS, ids=["none", "some", "acceleration"])
@pytest.mark.parametrize("shape", [(), (1, 1), (B, 1)], ids=str)
def test_a_horizon_of_one_costs_what_the_start_state_does(make, shape, limits):
    u, start, dt = make(B, 1, D), [make(B, D) for _ in range(3)], make.times(*shape, grad=True)
    made, expected = smoothness_cost(u, start, dt, WEIGHTS, limits), composed(u, start, dt, limits)
    np.testing.assert_allclose(host(made), host(expected), rtol=1e-12)
    inputs = (u, *start, dt)
    for found, value in zip(grad(made.sum(), inputs), grad(expected.sum(), inputs, allow_unused=True), strict=True):
        np.testing.assert_allclose(host(found), 0 if value is None else host(value), rtol=1e-12)


CONSTANTS = {
    "a weight": lambda u, x: smoothness_cost(u, None, 0.1, (x, 1.0, 1.0)),
    "a limit": lambda u, x: smoothness_cost(u, None, 0.1, (1.0, 1.0, 1.0), JointLimits(velocity=(-1.0, x))),
    "limit_weight": lambda u, x: smoothness_cost(u, None, 0.1, (1.0, 1.0, 1.0), JointLimits(velocity=1.0), limit_weight=x),
    "a weight of a sum": lambda u, x: BoundsCost(JointLimits(velocity=1.0), x)((u, u)),
    "a bound": lambda u, x: BoundsCost(JointLimits(velocity=(-1.0, x)))((u, u)),
    "the price of time": lambda u, x: TimeCost(x)(u, 0.1),
    "a step time of a matrix": lambda u, x: build_clique_matrix(3, x),
    "a weight of a matrix": lambda u, x: build_int_matrix(3, traj_dt=x),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_a_derivative_or_vmap_follows_are_refused(make, name):
    """It would be lost without a word: the numbers are read, of a batch those of its first row."""
    u, x = make(B, H, D, grad=False), make.put(np.array(1.5))
    run = lambda value: CONSTANTS[name](u, value).sum()  # noqa: E731
    expected = host(run(1.5))
    np.testing.assert_allclose(host(run(x)), expected, rtol=1e-6)
    for follow, kind in (
        (lambda: func.grad(run)(x), "requires grad; detach it"),
        (lambda: func.jvp(run, (x,), (x,)), "has a tangent; detach it"),
        (lambda: func.vmap(run)(gradlib.stack([x, x])), "vmap batches over"),
    ):
        with pytest.raises(ValueError, match=rf"is a constant, got a Tensor that {kind}"):
            follow()


@pytest.mark.parametrize("layout", ["bhd", "bdh"])
def test_constants_are_numbers_or_arrays_on_either_side(make, layout):
    u, start, dt = make(B, H, D), [make(B, D) for _ in range(3)], make.times(B, 1, grad=True)

    def outcome(put):
        weights, limits = [put(w) for w in (1.0, 0.5, 0.1)], JointLimits(velocity=put(0.5), jerk=(put(-1.0), 2.0))
        cost = smoothness_cost(u, start, dt, weights, limits, layout=layout)
        first = grad(cost.sum(), (u, dt), create_graph=True)
        return [cost, *first, *grad(sum((g * g).sum() for g in first), (u, dt))]

    if layout == "bdh":
        u = u.swapaxes(1, 2).contiguous()
    expected = outcome(float)
    for put in (lambda x: np.full(D, x), lambda x: make.put(np.full(D, x)), lambda x: make.put(np.array([x])), np.float32):
        for found, value in zip(outcome(put), expected, strict=True):
            np.testing.assert_allclose(host(found), host(value), rtol=1e-6 if put is np.float32 else 1e-12)


@pytest.mark.host  # on a GPU the cotangent's values are not looked at, which would wait for the device
def test_the_gradient_is_taken_over_without_a_copy(make):
    """What the pass computed becomes the leaf's gradient itself."""
    u = make(B, H, D)
    cost = smoothness_cost(u, None, 0.5, (1.0, 1.0, 1.0)).sum()
    place = tiles.address(cost.grad_fn.next_functions[0][0]._saved_by_u._array)
    cost.backward()
    assert tiles.address(u.grad._array) == place


@pytest.mark.nonfinite
def test_limits_do_not_hide_nan(make):
    """Also where the start state is all there is, of whose position only the limits know."""
    p = make.put(np.full((1, 1), np.nan), True)
    cost = smoothness_cost(make.put(np.zeros((1, 1, 1))), (p,), 1.0, (1.0, 1.0, 1.0), JointLimits(position=1.0))
    assert np.isnan(host(cost)).all()
    assert np.isnan(host(grad(cost.sum(), (p,))[0])).all()


@pytest.mark.nonfinite
@pytest.mark.parametrize("at", range(4))
def test_the_time_of_the_first_step_has_the_gradient_zero_beside_nan(make, at):
    values = np.arange(8.0).reshape(1, 4, 2) ** 2
    values[0, at, 1] = np.nan
    dt = make.put(np.full((1, 4), 0.1), True)
    (by_dt,) = grad(smoothness_cost(make.put(values), (), dt, (1.0, 0.5, 0.1)).sum(), (dt,))
    assert host(by_dt)[0, 0] == 0
