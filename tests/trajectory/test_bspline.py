"""step_bspline: boundary states met exactly, samples of the curve, every gradient, options and errors."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory import JointState, bspline_host as bspline, step_bspline
from tests.trajectory.helpers import check_derivatives
from tests.values import host

B, K, D = 2, 3, 2


@pytest.mark.parametrize("layout", ["bhd", "bdh"])
@pytest.mark.parametrize("with_goal", [False, True])
@pytest.mark.parametrize("degree", [3, 4, 5])
def test_boundary_states_are_met_exactly(make, degree, with_goal, layout):
    turn = (lambda x: x.swapaxes(1, 2)) if layout == "bdh" else (lambda x: x)
    knots, start, goal = make(*turn(np.empty((B, K, D))).shape), [make(B, D) for _ in range(4)], [make(B, D) for _ in range(4)]
    made = step_bspline(
        knots, JointState(*start), make.times(B, 1), degree=degree, samples_per_knot=3, goal=goal if with_goal else None, layout=layout
    )
    horizon = (K + (degree if with_goal else 0)) * 3 + 1
    for k, x in enumerate(made):
        assert turn(host(x)).shape == (B, horizon, D)
        if k < 3 or degree > 3:
            np.testing.assert_allclose(turn(host(x))[:, 0], host(start[k]), rtol=1e-8, atol=1e-8)
            if with_goal:
                np.testing.assert_allclose(turn(host(x))[:, -1], host(goal[k]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_knots_are_the_control_points_after_those_of_the_start(make, degree):
    knots, dt = make(B, degree + 2, D), make.times(B, 1)
    made = step_bspline(knots, None, dt, degree=degree, samples_per_knot=2)
    curve = bspline.forward(host(knots), host(dt), degree, 2)
    for found, expected in zip(made, curve, strict=True):
        np.testing.assert_allclose(host(found)[:, degree * 2 :], expected, rtol=1e-8, atol=1e-8)


def test_a_fifth_degree_start_has_no_fourth_derivative(make):
    """Near the start the curve is the Taylor polynomial of the start state up to the fifth power."""
    knots, start = make(1, 2, 1), [make(1, 1) for _ in range(4)]
    ends = []
    for samples in (64, 128):
        made = step_bspline(knots, start, 1 / samples, degree=5, samples_per_knot=samples)
        t = 1 / samples
        p, v, a, j = (float(host(x)[0, 0]) for x in start)
        ends.append(float(host(made.position)[0, 1, 0]) - (p + v * t + a * t**2 / 2 + j * t**3 / 6))
    assert ends[0] / ends[1] == pytest.approx(32, rel=1e-2)


PRODUCT = [(3, goal, shape, layout) for goal in (False, True) for shape in ((), (B, 1)) for layout in ("bhd", "bdh")]
PAIRS = [case for degree in (4, 5) for case in ((degree, True, (), "bhd"), (degree, False, (B, 1), "bdh"))]


@pytest.mark.parametrize(("degree", "with_goal", "shape", "layout"), [*PRODUCT, *PAIRS], ids=str)
@pytest.mark.slow
def test_derivatives_by_every_input(make, degree, with_goal, shape, layout):
    """By knots, dt, and each part of start and goal."""

    def function(knots, dt, *states):
        return tuple(step_bspline(knots, states[:4], dt, degree=degree, samples_per_knot=2, goal=states[4:] or None, layout=layout))

    inputs = (make(*((B, D, K) if layout == "bdh" else (B, K, D))), make.times(*shape), *(make(B, D) for _ in range(8 if with_goal else 4)))
    check_derivatives(make.device, function, inputs)


def test_out_and_narrow_types(make):
    knots = make(B, K, D, dtype=np.float16)
    out = [make.put(np.zeros((B, K * 2 + 1, D), np.float16)) for _ in range(4)]
    made = step_bspline(knots, None, 0.5, samples_per_knot=2, out=out)
    wide = step_bspline(make.put(host(knots).astype(np.float32)), None, 0.5, samples_per_knot=2)
    for found, buffer, value in zip(made, out, wide, strict=True):
        assert found.dtype == np.float16
        assert found.data_ptr() == buffer.data_ptr()
        np.testing.assert_allclose(host(buffer).astype(np.float32), host(value), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"degree": 2}, ValueError, "3, 4 or 5, got 2"),
        ({"samples_per_knot": 0}, ValueError, "at least 1, got 0"),
        ({"samples_per_knot": 1.5}, ValueError, "whole number"),
        ({"knots": np.zeros((B, 0, D))}, ValueError, "at least 1 step,"),
        ({"dt": np.ones((B, 4))}, ValueError, "one step length for each trajectory"),
        ({"dt": -1.0}, ValueError, "positive"),
        ({"goal": np.zeros((3, D))}, ValueError, "goal position has shape"),
        ({"start": (None, np.zeros((B, 3)))}, ValueError, "start velocity has shape"),
        ({"out": [np.zeros((B, K, D)) for _ in range(4)]}, ValueError, "shape"),
    ],
)
def test_errors_say_what_was_received(change, kind, text):
    arguments = {"knots": np.zeros((B, K, D)), "start": None, "dt": 0.1, "samples_per_knot": 2, **change}
    with pytest.raises(kind, match=text):
        step_bspline(arguments.pop("knots"), arguments.pop("start"), arguments.pop("dt"), **arguments)
