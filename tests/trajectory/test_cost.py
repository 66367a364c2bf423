"""Costs of motions: equal to the sums of their definitions, every derivative, one pass for a sum of them, options and errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad, grad
from gradlib.trajectory import (
    BoundsCost,
    EnergyCost,
    JointLimits,
    MotionCost,
    PathLengthCost,
    TerminalCost,
    TimeCost,
    TrackingCost,
    cost_device,
    cost_host,
    step_position,
)
from gradlib.trajectory.compiled import form
from tests.device import skip_module_without_hostcuda
from tests.trajectory.helpers import check_derivatives
from tests.trajectory.test_start_rows import launches
from tests.values import host

B, H, D = 2, 4, 2
STEPS = np.array([[0.3], [1.0], [0.5], [2.0]])
BOTH = STEPS * [1.0, 0.4]
LOWER, UPPER = np.array([-0.3, -0.1]), np.array([0.2, 0.4])


def beyond(x, low, high):
    return np.maximum(x - high, 0) + np.maximum(low - x, 0)


def energy(motion, t, references):
    return (t[:, 1:, None] * (0.5 * motion[1] ** 2 + BOTH * motion[2] ** 2)[:, 1:]).sum((1, 2))


def length(motion, t, references):
    return (STEPS[1:, 0] * np.sqrt((np.array([1.0, 2.0]) * np.diff(motion[0], axis=1) ** 2).sum(2))).sum(1)


def of_time(motion, t, references):
    t = t[:, 1:]
    return (1.5 * t + 2 * (t - 0.6) ** 2 + 3 * beyond(t, 0.6, 0.8) ** 2).sum(1)


COSTS = {
    "bounds": (
        lambda *r: BoundsCost(JointLimits(position=0.5, velocity=(LOWER, UPPER)), weights=(BOTH, 2.0)),
        lambda m, t, r: (BOTH * beyond(m[0], -0.5, 0.5) ** 2 + 2 * beyond(m[1], LOWER, UPPER) ** 2).sum((1, 2)),
    ),
    "hinge": (
        lambda *r: BoundsCost(JointLimits(acceleration=0.5, jerk=(-np.inf, 0.1 * BOTH)), power=1, weights=STEPS),
        lambda m, t, r: (STEPS * (beyond(m[2], -0.5, 0.5) + beyond(m[3], -np.inf, 0.1 * BOTH))).sum((1, 2)),
    ),
    "tracking": (
        lambda *r: TrackingCost((r[0], None, r[1]), weights=(BOTH, 0.0, 0.5)),
        lambda m, t, r: (BOTH * (m[0] - r[0]) ** 2 + 0.5 * (m[2] - r[1]) ** 2).sum((1, 2)),
    ),
    "tracking, distances": (lambda *r: TrackingCost((None, r[2]), 0.5, power=1), lambda m, t, r: (0.5 * abs(m[1] - r[2])).sum((1, 2))),
    "terminal": (
        lambda *r: TerminalCost((r[3], r[2]), weights=(np.array([1.0, 3.0]), 0.5)),
        lambda m, t, r: ([1.0, 3.0] * (m[0][:, -1] - r[3]) ** 2 + 0.5 * (m[1][:, -1] - r[2]) ** 2).sum(1),
    ),
    "path": (lambda *r: PathLengthCost(STEPS, np.array([1.0, 2.0])), length),
    "energy": (lambda *r: EnergyCost(0.5, BOTH), energy),
    "time": (lambda *r: TimeCost(1.5, square=2.0, nominal=0.6, bounds=(0.6, 0.8), bound_weight=3.0), of_time),
}
COSTS["all"] = (
    lambda *r: sum(make(*r) for name, (make, _) in COSTS.items() if name != "all"),
    lambda m, t, r: sum(value(m, t, r) for name, (_, value) in COSTS.items() if name != "all"),
)


def drawn(make, layout="bhd", dt=(B, H), dtype=np.float64, grad=True):
    """A motion, step times of which the first may be anything, and references: (B, H, D), (H, D), (D,) and a goal (B, D)."""
    rest = (D, H) if layout == "bdh" else (H, D)
    motion = [make(B, *rest, dtype=dtype, grad=grad) for _ in range(4)]
    references = [make(*shape, dtype=dtype, grad=grad) for shape in ((B, *rest), rest, (D,), (B, D))]
    return motion, make.times(*dt, grad=grad), references


@pytest.mark.parametrize("dt", [(), (B, 1), (1, H), (B, H)], ids=str)
@pytest.mark.parametrize("name", COSTS)
def test_equal_to_the_definition(make, name, dt):
    motion, times, references = drawn(make, dt=dt)
    cost, value = COSTS[name]
    arrays = [host(x) for x in motion], np.broadcast_to(host(times), (B, H)), [host(x) for x in references]
    np.testing.assert_allclose(host(cost(*references)(motion, times)), value(*arrays), rtol=1e-12)


@pytest.mark.parametrize(("name", "layout"), [*((name, "bhd") for name in COSTS), ("all", "bdh")])
def test_derivatives_to_second_order(make, name, layout):
    """By the motion, the step times, references and goals, to second order."""
    motion, times, references = drawn(make, layout)
    needed = [*(x for x in motion), times, *references]

    def function(*inputs):
        return COSTS[name][0](*inputs[5:])(inputs[:4], inputs[4], layout=layout)

    used = [g is not None for g in grad(function(*needed).sum(), needed, allow_unused=True)]
    fixed = [x if use else x.detach() for x, use in zip(needed, used, strict=True)]
    check_derivatives(make.device, function, fixed)
    kept = [x for x, use in zip(needed, used, strict=True) if use]
    ways, value = make(B, grad=False), function(*needed)
    once = grad((value * ways).sum(), kept, retain_graph=True)
    for found, expected in zip(once, grad((value * ways).sum(), kept, create_graph=True), strict=True):
        np.testing.assert_allclose(host(found), host(expected), rtol=1e-10, atol=1e-12)


def test_forward_mode(make):
    motion, times, references = drawn(make, grad=False)
    inputs = [*motion, times, *references]
    ways = [make(*x.shape, grad=False) for x in inputs]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, w) for x, w in zip(inputs, ways, strict=True)]
        tangent = host(forward_ad.unpack_dual(COSTS["all"][0](*duals[5:])(duals[:4], duals[4])).tangent)
    ends = []
    for sign in (1, -1):
        moved = [x + sign * 1e-6 * w for x, w in zip(inputs, ways, strict=True)]
        ends.append(host(COSTS["all"][0](*moved[5:])(moved[:4], moved[4])))
    np.testing.assert_allclose(tangent, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_a_sum_is_one_pass(make, monkeypatch):
    """Forward and first backward, whatever requires a gradient."""
    motion, times, references = drawn(make)
    calls = []
    for module, name in ((form("cost", cost_host), "cost_and_gradient"), (cost_device, "launch")):
        inner = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, inner=inner: calls.append(inner) or inner(*args))
    COSTS["all"][0](*references)(motion, times).sum().backward()
    assert len(calls) == 1
    assert times.grad.shape == (B, H)
    np.testing.assert_array_equal(host(times.grad)[:, 0], 0)


def test_of_an_integrated_motion(make):
    """Through the integrator to the positions and the step times, of which the first may be anything."""
    u, times, goal = make(B, H, D), make.times(B, H, grad=False), make(D, grad=False)
    times[:, 0] = float("nan")
    cost = EnergyCost(1.0, 0.5, 0.1) + TerminalCost((goal,), 10.0) + TimeCost(0.1)

    def function(u, rest):
        dt = gradlib.cat([times[:, :1], rest], 1)
        return cost(step_position(u, (), dt), dt)

    check_derivatives(make.device, function, (u, times[:, 1:].clone().requires_grad_()))


def test_rows_of_vmap(make):
    motion, times, references = drawn(make)
    rows = [gradlib.stack([x, 2 * x]) for x in motion]

    def one(*states):
        return COSTS["all"][0](*references)(states, times)

    for i, found in enumerate(gradlib.func.vmap(one)(*rows)):
        np.testing.assert_allclose(host(found), host(one(*(x[i] for x in rows))), rtol=1e-12)
    goals = gradlib.stack([references[3], references[3] + 1])
    seconds = gradlib.stack([times, 2 * times])

    def other(goal, t):
        return (TerminalCost((goal,)) + TimeCost(1.0))(motion, t)

    for i, found in enumerate(gradlib.func.vmap(other)(goals, seconds)):
        np.testing.assert_allclose(host(found), host(other(goals[i], seconds[i])), rtol=1e-12)


@pytest.mark.parametrize(("name", "number"), [*((name, 2) for name in COSTS), ("all", 1)])
def test_gradients_of_rows_of_vmap(make, name, number):
    """By the motion, the step times, references and goals, beneath vmap and above it, as one row after the other; also of one row."""
    motion, times, references = drawn(make, grad=False)
    inputs = (*motion, times, *references)
    rows = [gradlib.stack([x, 1.5 * x][:number]) for x in inputs]

    def cost(*given):
        return COSTS[name][0](*given[5:])(given[:4], given[4]).sum()

    places = tuple(range(len(inputs)))
    beneath = gradlib.func.vmap(gradlib.func.grad(cost, places))(*rows)
    above = gradlib.func.grad(lambda *given: gradlib.func.vmap(cost)(*given).sum(), places)(*rows)
    for i in range(number):
        alone = gradlib.func.grad(cost, places)(*(x[i] for x in rows))
        for found, other, expected in zip(beneath, above, alone, strict=True):
            np.testing.assert_allclose(host(found[i]), host(expected), rtol=1e-12)
            np.testing.assert_allclose(host(other[i]), host(expected), rtol=1e-12)
    by_one = gradlib.func.vmap(gradlib.func.grad(lambda state: cost(state, *inputs[1:])))(rows[0])
    np.testing.assert_allclose(host(by_one[0]), host(gradlib.func.grad(cost)(*inputs)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_types(make, dtype):
    motion, times, references = drawn(make, dtype=dtype)
    cost = COSTS["all"][0](*references)(motion, times)
    assert cost.dtype == dtype
    assert [g.dtype for g in grad(cost.sum(), motion)] == [dtype] * 4
    assert host(cost).shape == (B,)


def test_a_path_that_stands_still(make):
    """A step on which nothing moves has the gradient zero, to every order."""
    p = make.put(np.array([[[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]]), True)
    cost = PathLengthCost()((p,))
    np.testing.assert_allclose(host(cost), [5.0])
    first = grad(cost.sum(), (p,), create_graph=True)[0]
    np.testing.assert_allclose(host(first)[0], [[0, 0], [-0.6, -0.8], [0.6, 0.8]], rtol=1e-12)
    assert np.isfinite(host(grad((first * first).sum(), (p,))[0])).all()


def test_a_path_of_many_joints(make):
    p = make(B, 3, 40)
    np.testing.assert_allclose(host(PathLengthCost()((p,))), np.sqrt((np.diff(host(p), axis=1) ** 2).sum(2)).sum(1))


def test_a_horizon_of_one(make):
    p = make(B, 1, D)
    cost = (PathLengthCost() + TimeCost(1.0) + TerminalCost((make(D, grad=False) * 0,)))((p,), 0.1)
    np.testing.assert_allclose(host(cost), (host(p) ** 2).sum((1, 2)))
    for recorded in (False, True):
        np.testing.assert_allclose(host(grad(cost.sum(), (p,), retain_graph=True, create_graph=recorded)[0]), 2 * host(p))


def test_without_a_gradient(make):
    motion, times, references = drawn(make)
    cost = COSTS["all"][0](*references)
    with gradlib.no_grad():
        value = cost(motion, times)
    assert not value.requires_grad
    np.testing.assert_allclose(host(value), host(cost(motion, times)))


def test_nan_is_not_hidden(make):
    p, goal = make.put(np.full((1, 2, 1), np.nan), True), make(1)
    cost = (BoundsCost((1.0,), power=1) + BoundsCost((1.0,)) + TrackingCost((goal,), power=1))((p,))
    assert np.isnan(host(cost)).all()
    for recorded in (False, True):
        for found in grad(cost.sum(), (p, goal), create_graph=recorded, retain_graph=True):
            assert np.isnan(host(found)).all()


@pytest.mark.nonfinite
@pytest.mark.parametrize("recorded", [False, True])
def test_steps_that_do_not_count_may_be_anything(make, recorded):
    """The first one of energies, all but the last of terminal states: zero in every gradient, in that by a goal no NaN."""
    a, goal, p = make(B, H, D), make(D), make(B, H, D)
    cost = EnergyCost(acceleration=1.0) + EnergyCost(acceleration=2.0) + TerminalCost((goal,))
    states = make.put(np.where(np.arange(H)[:, None] == 0, np.nan, host(a)), True)
    places = make.put(np.where(np.arange(H)[:, None] < H - 1, np.inf, host(p)), True)
    value = cost((places, None, states), 0.5)
    away = host(p)[:, -1] - host(goal)
    np.testing.assert_allclose(host(value), 1.5 * (host(a)[:, 1:] ** 2).sum((1, 2)) + (away**2).sum(1))
    by_p, by_a, by_goal = (host(x) for x in grad(value.sum(), (places, states, goal), create_graph=recorded))
    np.testing.assert_array_equal(by_a[:, 0], 0)
    np.testing.assert_array_equal(by_p[:, :-1], 0)
    np.testing.assert_allclose(by_p[:, -1], 2 * away)
    np.testing.assert_allclose(by_goal, -2 * away.sum(0))


@pytest.mark.nonfinite
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("recorded", [False, True])
def test_infinite_bounds_bind_nothing(make, power, recorded):
    """Nor infinite states; those beyond a finite bound cost without end."""
    x = make.put(np.array([[[np.inf, -np.inf, np.inf]], [[-np.inf, np.inf, 1.0]]]), True)
    cost = BoundsCost(((np.array([-np.inf, -np.inf, 0.0]), np.array([np.inf, 0.0, np.inf])),), power=power)((x,))
    np.testing.assert_array_equal(host(cost), [0.0, np.inf])
    beyond_it = np.inf if power == 2 else 1
    found = host(grad(cost.sum(), (x,), create_graph=recorded)[0])
    np.testing.assert_array_equal(found, [[[0, 0, 0]], [[0, beyond_it, 0]]])


@pytest.mark.nonfinite
def test_a_weight_of_zero_prices_large_states_at_nothing(make):
    x = make.put(np.full((1, 8, 1), 3e38, np.float32), True)  # twice that is infinite, as its square is
    cost = EnergyCost(velocity=0.0)((None, x), 0.1)
    np.testing.assert_array_equal(host(cost), [0.0])
    np.testing.assert_array_equal(host(grad(cost.sum(), (x,))[0]), np.zeros((1, 8, 1)))


def test_a_motion_costs_the_same_bits_whichever_others_share_its_batch(rng, monkeypatch):
    motion, times = rng.standard_normal((4, 11, 8, 7)).astype(np.float32), rng.uniform(0.1, 1.0, (11, 8)).astype(np.float32)
    cost = BoundsCost((0.5,) * 4) + PathLengthCost() + EnergyCost(1.0, 0.1) + TimeCost(0.1)

    def gradients(part):
        needed = [gradlib.tensor(x[part], requires_grad=True) for x in (*motion, times)]
        value = cost(needed[:4], needed[4])
        return [host(x) for x in (value, *grad(value.sum(), needed))]

    together = gradients(slice(None))
    monkeypatch.setattr(cost_host, "_BLOCK", 3 * 8 * 7 * 4)
    for part in (slice(None), slice(3, 4)):
        for found, expected in zip(gradients(part), together, strict=True):
            np.testing.assert_array_equal(found, expected[part])


P = np.zeros((B, H, D))


@pytest.mark.parametrize(
    ("make_cost", "kind", "text"),
    [
        (lambda: BoundsCost([1.0]), TypeError, "JointLimits"),
        (lambda: BoundsCost((1.0,), power=3), ValueError, "power is 1 or 2"),
        (lambda: BoundsCost(((1.0, -1.0),)), ValueError, "lower limit of position"),
        (lambda: BoundsCost((-1.0,)), ValueError, "a single bound b stands for"),
        (lambda: BoundsCost(((1.0, 2.0, 3.0),)), ValueError, "got 3 values"),
        (lambda: BoundsCost((1.0,), weights=gradlib.ones(2, requires_grad=True)), ValueError, "constant"),
        (lambda: BoundsCost((1.0,), weights=(1.0,) * 5), ValueError, "up to four"),
        (lambda: BoundsCost((1.0,), weights="x"), TypeError, "a number or an array"),
        (lambda: BoundsCost((1.0,), weights=np.ones(3))((P,)), ValueError, "weight of position is a number or has shape"),
        (lambda: TrackingCost((None,)), TypeError, "not all None"),
        (lambda: TrackingCost((np.zeros(3),))((P,)), ValueError, "a reference broadcasts to"),
        (lambda: TerminalCost((np.zeros((H, D)),))((P,)), ValueError, "a goal is"),
        (lambda: TerminalCost((np.zeros(D, np.float32),))((P,)), TypeError, "dtype and device"),
        (lambda: PathLengthCost(1.0, -1.0), ValueError, "not negative"),
        (lambda: (PathLengthCost() + PathLengthCost())((P,)), ValueError, "one PathLengthCost"),
        (lambda: sum(TerminalCost((np.zeros(D),)) for _ in range(9))((P,)), ValueError, "at most eight"),
        (lambda: EnergyCost(), ValueError, "at least one"),
        (lambda: EnergyCost(1.0)((P, P)), TypeError, "depend on dt"),
        (lambda: EnergyCost(1.0)((P,), 0.1), ValueError, "asks for the velocity"),
        (lambda: TimeCost(), ValueError, "got none"),
        (lambda: TimeCost(1.0)((P,), 0.0), ValueError, "positive"),
        (lambda: MotionCost()((P,)), ValueError, "at least one term"),
        (lambda: BoundsCost((1.0, 1.0))((P, P[:1])), ValueError, "are alike"),
        (lambda: BoundsCost((1.0,)) + 1, TypeError, "unsupported operand"),
    ],
)
def test_errors_say_what_was_received(make_cost, kind, text):
    with pytest.raises(kind, match=text):
        make_cost()


@pytest.mark.cuda
def test_gradients_by_a_reference_and_by_the_time_of_each_step_are_captured(rng):
    """They come from operations, which copy nothing to the device either."""
    p, reference, dt = (
        gradlib.tensor(x, device="cuda", requires_grad=True) for x in (*rng.standard_normal((2, 2, 5, 3)), rng.random((2, 5)))
    )
    cost = TrackingCost((reference,)) + EnergyCost(velocity=1.0)

    def run():
        return grad(cost((p, p), dt).sum(), (p, reference, dt))

    expected, graph = run(), gradlib.cuda.CUDAGraph()
    with gradlib.cuda.graph(graph):
        made = run()
    graph.replay()
    for found, right in zip(made, expected, strict=True):
        np.testing.assert_array_equal(host(found), host(right))


def test_a_reference_is_read_as_each_layout_says(make):
    """Of a square one both have the same shape."""
    motion, reference = (make(B, D, D, grad=False) for _ in range(2))
    wide = make(1, 1, D, grad=False)
    cost, turned = TrackingCost((reference, wide)), TrackingCost((reference.mT, wide.mT))
    right = host(cost((motion, motion)))
    np.testing.assert_allclose(host(turned((motion.mT, motion.mT), layout="bdh")), right, rtol=1e-12)
    assert not np.allclose(host(turned((motion, motion))), right)
    np.testing.assert_allclose(host(turned((motion.mT, motion.mT), layout="bdh")), right, rtol=1e-12)
    assert not np.allclose(host(cost((motion.mT, motion.mT), layout="bdh")), right)


@pytest.mark.cuda
@pytest.mark.host
def test_what_a_cost_keeps_on_the_device_is_there_for_every_stream():
    """Tables of terms, and those that second derivatives take."""
    first, second = gradlib.cuda.Stream(), gradlib.cuda.Stream()
    cost, found = BoundsCost((0.1 * BOTH,), BOTH) + EnergyCost(STEPS), []
    for stream in (first, second):
        with gradlib.cuda.stream(stream):
            p, v = (gradlib.full((B, H, D), 0.5, device="cuda").requires_grad_() for _ in range(2))
            (slope,) = grad(cost((p, v), 0.5).sum(), p, create_graph=True)
            found.append(grad(slope.square().sum(), p)[0])
    gradlib.cuda.synchronize()
    assert gradlib.equal(*(x.cpu() for x in found))


@pytest.mark.cuda
def test_references_that_want_no_gradient_cost_backward_nothing(rng):
    skip_module_without_hostcuda()
    p, reference = (gradlib.tensor(x, device="cuda") for x in rng.standard_normal((2, 2, 5, 3)))
    p.requires_grad_()
    following, bounded = (lambda c=c: grad(c((p,)).sum(), p) for c in (TrackingCost((reference,)), BoundsCost((1.0,))))
    assert launches(following) == launches(bounded)
