"""The public integrators: values, every gradient to second order, options, buffers and errors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import python_calls
from gradlib.autograd import grad, gradcheck
from gradlib.trajectory import (
    CliqueTensorStepCoalesceKernel,
    JointState,
    JointTrajectory,
    smoothness_cost,
    step_acceleration,
    step_jerk,
    step_position,
    step_velocity,
)
from gradlib.trajectory.out_buffers import filling
from tests.trajectory import oracle
from tests.trajectory.helpers import check_derivatives
from tests.values import host

B, H, D = 2, 5, 2
STEPS = [
    (step_position, "backward", 0, False),
    (step_velocity, "backward", 1, False),
    (step_acceleration, "semi_implicit_euler", 2, False),
    (step_acceleration, "exact", 2, True),
    (step_jerk, "semi_implicit_euler", 3, False),
    (step_jerk, "exact", 3, True),
]
IDS = [f"{step.__name__}-{scheme}" for step, scheme, *_ in STEPS]
DTS = [(), (1,), (H,), (1, H), (B, 1), (B, H)]
every_step = pytest.mark.parametrize(("step", "scheme", "order", "exact"), STEPS, ids=IDS)


@every_step
@pytest.mark.parametrize("shape", DTS, ids=str)
@pytest.mark.parametrize("layout", ["bhd", "bdh"])
def test_values(make, step, scheme, order, exact, shape, layout):
    u, start, dt = make(B, H, D), [make(B, D) for _ in range(3)], make.times(*shape)
    turn = (lambda x: x.swapaxes(1, 2)) if layout == "bdh" else (lambda x: x)
    expected = oracle.chain(host(u), [host(x) for x in start], host(dt), order, exact)
    for given in (start, tuple(start), JointState(*start)):
        made = step(make.put(np.ascontiguousarray(turn(host(u)))), given, dt, scheme=scheme, layout=layout)
        assert isinstance(made, JointTrajectory)
        for found, value in zip(made, expected, strict=True):
            np.testing.assert_allclose(turn(host(found)), value, rtol=1e-9, atol=1e-9)


@every_step
@pytest.mark.parametrize("shape", [(), (1, 1), (B, 1)], ids=str)
@pytest.mark.parametrize("layout", ["bhd", "bdh"])
def test_a_horizon_of_one_is_the_start_state(make, step, scheme, order, exact, shape, layout):
    """Its gradients go to the start alone; what is above it in the chain is zero, as at step 0 of any motion."""
    u, start, dt = make(*((B, D, 1) if layout == "bdh" else (B, 1, D))), [make(B, D) for _ in range(3)], make.times(*shape, grad=True)
    made = step(u, start, dt, scheme=scheme, layout=layout)
    for found, value in zip(made, [*map(host, start), np.zeros((B, D))], strict=True):
        np.testing.assert_array_equal(host(found).reshape(B, D), value)
    weights = [gradlib.tensor(np.full(u.shape, 2.0 + k), dtype=u.dtype, device=u.device) for k in range(4)]
    grads = grad(list(made), (u, *start, dt), weights)
    for found, value in zip(grads, (0, 2, 3, 4, 0), strict=True):
        np.testing.assert_array_equal(host(found), value)


@every_step
@pytest.mark.parametrize(("shape", "layout"), [((), "bhd"), ((1, H), "bdh"), ((B, 1), "bdh"), ((B, H), "bhd")], ids=str)
@pytest.mark.slow
def test_first_and_second_derivatives(make, step, scheme, order, exact, shape, layout):
    """By u, each part of the start, and dt."""

    def function(u, dt, *start):
        return tuple(step(u, start, dt, scheme=scheme, layout=layout))

    inputs = (make(*((B, D, H) if layout == "bdh" else (B, H, D))), make.times(*shape), *(make(B, D) for _ in range(3)))
    check_derivatives(make.device, function, inputs)


@pytest.mark.parametrize("shape", [(), (B, 1)], ids=str)
@pytest.mark.parametrize("with_goal", [False, True])
@pytest.mark.parametrize("layout", ["bhd", "bdh"])
@pytest.mark.slow
def test_central_derivatives(make, shape, with_goal, layout):
    def function(u, dt, *states):
        return tuple(step_position(u, states[:3], dt, scheme="central", goal=states[3] if with_goal else None, layout=layout))

    inputs = (make(*((B, D, 7) if layout == "bdh" else (B, 7, D))), make.times(*shape), *(make(B, D) for _ in range(3 + with_goal)))
    check_derivatives(make.device, function, inputs)


def test_central_values(make):
    u, start, goal, dt = make(B, 8, D), [make(B, D) for _ in range(3)], make(B, D), make.times(B, 1)
    for end in (None, goal, JointState(goal)):
        expected = oracle.central(host(u), [host(x) for x in start], host(dt), None if end is None else host(goal))
        for found, value in zip(step_position(u, start, dt, scheme="central", goal=end), expected, strict=True):
            np.testing.assert_allclose(host(found), value, rtol=1e-9, atol=1e-9)


@every_step
def test_third_derivative_by_dt(make, step, scheme, order, exact):
    """The closed pair goes on: a third derivative is there, and right by differences of the second."""
    u, value = make(1, H, 1, grad=False), 0.7

    def second(t):
        dt = make.put(np.array(t), True)
        made = step(u, None, dt, scheme=scheme)
        (first,) = grad(sum((x * x).sum() for x in made), dt, create_graph=True)
        return dt, grad(first, dt, create_graph=True)[0]

    dt, found = second(value)
    (third,) = grad(found, dt)
    step_by = 1e-5
    expected = (float(host(second(value + step_by)[1])) - float(host(second(value - step_by)[1]))) / (2 * step_by)
    np.testing.assert_allclose(float(host(third)), expected, rtol=1e-6, atol=1e-6)


@every_step
@pytest.mark.slow
def test_start_idx_chooses_rows_and_scatters_their_gradient(make, step, scheme, order, exact):
    u, start = make(4, H, D), [make(3, D) for _ in range(3)]
    index = make.put(np.array([2, 0, 2, 2]))
    made = step(u, start, 0.5, scheme=scheme, start_idx=index)
    expected = oracle.chain(host(u), [host(x)[[2, 0, 2, 2]] for x in start], np.full((1, 1), 0.5), order, exact)
    for found, value in zip(made, expected, strict=True):
        np.testing.assert_allclose(host(found), value, rtol=1e-9, atol=1e-9)

    def function(u, *start):
        return tuple(step(u, start, 0.5, scheme=scheme, start_idx=index))

    check_derivatives(make.device, function, (u, *start))
    (by_row,) = grad(made.position.sum(), start[0])
    assert (host(by_row)[1] == 0).all()


def test_scatter_of_start_gradients_repeats_bit_for_bit(make):
    u, start, index = make(501, H, D, dtype=np.float32), make(3, D, dtype=np.float32), make.put(np.arange(501) % 3)
    results = [host(grad((step_jerk(u, (start,), 0.5, start_idx=index).position ** 2).sum(), start)[0]) for _ in range(3)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@every_step
def test_parts_that_are_missing_are_zero(make, step, scheme, order, exact):
    u, zero = make(B, H, D), make.put(np.zeros((B, D)))
    expected = step(u, (zero, zero, zero), 0.5, scheme=scheme)
    for start in (None, (), (None, zero), JointState(), JointState(velocity=zero), zero):
        for found, value in zip(step(u, start, 0.5, scheme=scheme), expected, strict=True):
            np.testing.assert_array_equal(host(found), host(value))


@every_step
def test_one_start_for_all_is_broadcast(make, step, scheme, order, exact):
    u, start = make(B, H, D), make(D)

    def function(u, start):
        return tuple(step(u, (start, start), 0.5, scheme=scheme))

    assert gradcheck(function, (u, start))


@every_step
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_types_keep_their_type(make, step, scheme, order, exact, dtype):
    u, start = make(B, H, D, dtype=dtype), make(B, D, dtype=dtype)
    dt = make.times(B, H)
    made = step(u, (start,), dt, scheme=scheme)
    assert all(x.dtype == dtype for x in made)
    grads = grad(sum(x.sum() for x in made), (u, start, dt))
    assert [g.dtype for g in grads] == [dtype, dtype, np.float64]


@every_step
@pytest.mark.parametrize("timed", [False, True])
def test_out_is_filled_and_shared(make, step, scheme, order, exact, timed):
    u, dt = make(B, H, D), make.times(B, H, grad=timed)
    out = [make.put(np.full((B, H, D), 7.0)) for _ in range(4)]
    made = step(u, None, dt, scheme=scheme, out=out)
    for found, buffer, value in zip(made, out, step(u, None, dt, scheme=scheme), strict=True):
        assert found.data_ptr() == buffer.data_ptr()
        assert found._version == buffer._version == 1
        np.testing.assert_array_equal(host(buffer), host(value))


def test_writing_a_buffer_that_backward_needs_is_refused(make):
    u, dt = make(B, H, D), make.times()
    out = [make.put(np.zeros((B, H, D))) for _ in range(4)]
    loss = sum(x.sum() for x in step_acceleration(u, None, dt, out=out))
    step_acceleration(u, None, dt, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def _in_inference_mode(make):
    with gradlib.inference_mode():
        return make.put(np.zeros((B, H, D)))


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (lambda make: make.put(np.zeros((B, H, D))).requires_grad_(), "automatic differentiation"),
        (lambda make: make.put(np.zeros((B, H, D))).requires_grad_() * 1, "automatic differentiation"),
        (lambda make: make.put(np.zeros((2 * B, H, D))).requires_grad_()[:B], "automatic differentiation"),
        (_in_inference_mode, "inference tensor outside InferenceMode"),
    ],
)
def test_buffers_that_are_no_plain_tensors_are_refused(make, buffer, text):
    u = make(B, H, D)
    for step in (
        lambda out: step_jerk(u, None, 0.1, out=out),
        lambda out: CliqueTensorStepCoalesceKernel.apply(u, None, None, None, *out, 0.1, None),
    ):
        out = [make.put(np.zeros((B, H, D))) for _ in range(4)]
        out[2] = buffer(make)
        with pytest.raises(RuntimeError, match=text):
            step(out)
        assert all((host(x) == 0).all() and x.version.count == 0 for x in out)


def test_a_leaf_as_buffer_while_nothing_is_recorded(make):
    out = [make.put(np.zeros((B, H, D))).requires_grad_() for _ in range(4)]
    with gradlib.no_grad():
        step_jerk(make(B, H, D), None, 0.1, out=out)
    assert all(x.is_leaf and x.requires_grad and x._version == 1 for x in out)


def test_buffers_that_overlap_are_refused(make):
    whole = make.put(np.zeros((B + 1, H, D)))
    u = make(B, H, D)
    apart = [make.put(np.zeros((B, H, D))) for _ in range(3)]
    with pytest.raises(ValueError, match="overlap"):
        step_jerk(u, None, 0.1, out=[whole[:-1], whole[1:], *apart[1:]])
    with pytest.raises(ValueError, match=r"apart from what is read, .* overlaps u, start"):
        step_jerk(whole[:-1], None, 0.1, out=[whole[1:], *apart])
    with pytest.raises(ValueError, match=r"or a clone\(\) of a start that is a view of earlier results"):
        step_jerk(u, (apart[0][:, 2],), 0.1, out=[whole[1:], *apart])
    ones = make.put(np.ones((B, H, D)))
    with pytest.raises(ValueError, match="apart from what is read"):
        step_jerk(u, None, ones[..., 0], out=[whole[1:], *apart[1:], ones])
    apart[0].copy_(u.detach())
    made = step_jerk(u, (apart[0][:, 2].clone(),), 0.1, out=[whole[1:], *apart])
    assert gradlib.equal(made.position[:, 0], u.detach()[:, 2])


def test_buffers_whose_filling_fails_half_way_are_counted():
    buffer = gradlib.zeros(B, H, D)
    for error, count in ((ValueError, 0), (FloatingPointError, 1), (KeyboardInterrupt, 2)):
        with pytest.raises(error), filling([buffer, np.zeros(1)]):
            raise error
        assert buffer._version == count


def test_raw_arrays_give_raw_arrays(rng):
    made = step_velocity(rng.standard_normal((B, H, D)), None, 0.5)
    assert all(type(x) is np.ndarray for x in made)


def test_an_empty_batch(make):
    made = step_jerk(make(0, H, D), None, 0.5)
    assert all(x.shape == (0, H, D) for x in made)


U = np.zeros((B, H, D))
REFUSED = [
    ({"u": [1.0, 2.0]}, TypeError, "u is a Tensor or array of a floating dtype"),
    ({"u": np.zeros((B, H, D), int)}, TypeError, "int64"),
    ({"u": np.zeros((H, D))}, ValueError, r"give a single trajectory as u\[None\]"),
    ({"u": np.zeros((B, 0, D))}, ValueError, "at least 1 step, got"),
    ({"u": np.zeros((B, H, 0))}, ValueError, "at least one joint"),
    ({"layout": "hbd"}, ValueError, '"bhd"'),
    ({"scheme": "central"}, ValueError, "'semi_implicit_euler' or 'exact', got 'central'"),
    ({"goal": np.zeros((B, D))}, ValueError, "takes a goal"),
    ({"dt": 0.0}, ValueError, "positive and finite"),
    ({"dt": -0.1}, ValueError, "positive and finite seconds at every step used, got float -0.1$"),
    ({"dt": float("nan")}, ValueError, "positive and finite"),
    ({"dt": float("inf")}, ValueError, "positive and finite"),
    ({"dt": 1e-50, "u": np.zeros((B, H, D), np.float32)}, ValueError, "in float32 are 0.0 to 0.0"),
    ({"dt": np.full(H, 1e50), "u": np.zeros((B, H, D), np.float16)}, ValueError, "in float32 are inf to inf"),
    ({"dt": "0.1"}, TypeError, "a number, a Tensor or an array, got str '0.1'"),
    ({"dt": ["0.1"]}, TypeError, "a number, a Tensor or an array, got list"),
    ({"dt": True}, TypeError, "a number, a Tensor or an array, got bool True"),
    ({"dt": None}, TypeError, "a number, a Tensor or an array, got NoneType None"),
    ({"dt": np.array([[1, 1, 1, 0, 1.0]])}, ValueError, "positive and finite"),
    ({"dt": np.array([1, 2])}, TypeError, "floating dtype"),
    ({"dt": np.ones(3)}, ValueError, r"broadcasts to \(2, 5\)"),
    ({"dt": np.ones(B)}, ValueError, r"broadcasts to \(2, 5\), .*; give one for each trajectory as dt\[:, None\]"),
    ({"dt": np.ones((B, H, D))}, ValueError, r"broadcasts to \(2, 5\)"),
    ({"start": np.zeros((3, D))}, ValueError, "start_idx"),
    ({"start": np.zeros((B, 3))}, ValueError, r"\(2, 2\)"),
    ({"start": np.zeros((B, D), np.float32)}, TypeError, "dtype of u"),
    ({"start": (None, [0.0])}, TypeError, "start velocity is a Tensor or array"),
    ({"start": (None, [np.zeros((B, D))])}, TypeError, r"start velocity is .*, got list of ndarray of shape \(2, 2\), float64, on cpu$"),
    ({"start": np.zeros((3, D)), "start_idx": np.array([0, 3])}, ValueError, "0 .. 2"),
    ({"start": np.zeros((3, D)), "start_idx": np.array([-1, 0])}, ValueError, "0 .. 2"),
    ({"start": np.zeros((3, D)), "start_idx": np.array([0.0, 1])}, TypeError, "integers"),
    ({"start": np.zeros((3, D)), "start_idx": np.array([0])}, ValueError, r"shape \(2,\)"),
    ({"start": (np.zeros((3, D)), np.zeros((2, D))), "start_idx": np.array([0, 1])}, ValueError, "one S"),
    ({"out": [np.zeros((B, H, D))] * 3}, TypeError, "four"),
    ({"out": [np.zeros((B, H, D))] * 4}, ValueError, "overlap"),
    ({"out": [U, *(np.zeros((B, H, D)) for _ in range(3))]}, ValueError, "apart from what is read.*overlaps u,"),
    ({"out": [np.zeros((B, H, D), np.float32) for _ in range(4)]}, ValueError, "float32"),
    ({"out": [np.zeros((B, D, H)).swapaxes(1, 2) for _ in range(4)]}, ValueError, "C-contiguous"),
    ({"out": [np.frombuffer(bytearray(161), np.uint8)[1:].view(float).reshape(B, H, D) for _ in range(4)]}, ValueError, "aligned"),
    ({"out": [np.broadcast_to(np.zeros((B, H, D)), (B, H, D)) for _ in range(4)]}, ValueError, "writable"),
]


@pytest.mark.parametrize(("change", "kind", "text"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_errors_say_what_was_received(change, kind, text):
    arguments = {"u": U, "start": None, "dt": 0.1, **change}
    with pytest.raises(kind, match=text) as caught:
        step_acceleration(arguments.pop("u"), arguments.pop("start"), arguments.pop("dt"), **arguments)
    assert str(caught.value).startswith("step_acceleration: ")


@pytest.mark.cuda
@pytest.mark.host
def test_parts_that_lie_elsewhere_are_refused():
    u = gradlib.zeros(B, H, D, device="cuda")
    with pytest.raises(ValueError, match=r"start position lives where u does, got Tensor .* on cpu and u Tensor .* on cuda:0"):
        step_velocity(u, gradlib.zeros(B, D, device="cpu"), 0.1)
    with pytest.raises(ValueError, match=r"dt lives where u does, got Tensor .* on cpu"):
        step_velocity(u, None, gradlib.ones(B, 1, device="cpu"))
    with pytest.raises(ValueError, match=r"out's position has u's shape, dtype and device, .* on cuda:0, got .* on cpu"):
        step_velocity(u, None, 0.1, out=[gradlib.zeros(B, H, D, device="cpu") for _ in range(4)])


def test_central_refuses_a_short_horizon_and_step_times():
    with pytest.raises(ValueError, match="at least 6 steps"):
        step_position(np.zeros((B, 5, D)), None, 0.1, scheme="central")
    with pytest.raises(ValueError, match="one step length for each trajectory"):
        step_position(np.zeros((B, 6, D)), None, np.ones((B, 6)), scheme="central")


def test_the_unused_first_step_time_may_be_anything():
    for unused in (np.nan, 7.0):
        made, expected = (step_acceleration(U, None, np.array([[first, 1, 1, 1, 1]])) for first in (unused, 1.0))
        for found, want in zip(made, expected, strict=True):
            np.testing.assert_array_equal(found, want)


@pytest.mark.slow
def test_importing_trajectories_imports_no_cupy():
    done = subprocess.run(
        [sys.executable, "-c", "import gradlib.trajectory, sys; assert 'cupy' not in sys.modules"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_gradcheck_catches_a_wrong_rule(monkeypatch, make, device):
    """The check these tests rest on fails when the transpose is off by 0.1 %."""
    from gradlib.trajectory import chain_device, chain_host, compiled

    module = compiled.form("chain", chain_host) if device == "cpu" else chain_device
    right = module.adjoint
    monkeypatch.setattr(module, "adjoint", lambda *args: tuple(None if x is None else 1.001 * x for x in right(*args)))
    with pytest.raises(gradlib.autograd.GradcheckError):
        gradcheck(lambda u: tuple(step_velocity(u, None, 0.5)), (make(B, H, D),))


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("step", [step_position, step_velocity, step_acceleration, step_jerk, smoothness_cost])
def test_a_step_is_few_calls(make, step, recorded):
    """Of functions of gradlib: what a step of one trajectory costs is Python's calls."""
    u, start = make(1, 32, 7, grad=recorded), [make(1, 7, grad=False) for _ in range(3)]
    given = (u, start, 0.02, (1.0, 1.0, 1.0)) if step is smoothness_cost else (u, start, 0.02)
    step(*given)  # what is written at the first call
    calls = python_calls(lambda: step(*given))
    assert step.__name__ in calls
    assert len(calls) <= 80, calls
