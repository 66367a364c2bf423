"""Rows chosen by index and their transpose."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import gradlib
from gradlib.autograd import grad
from gradlib.trajectory import smoothness_cost, step_bspline, step_jerk, step_position
from gradlib.trajectory.start_rows import rows, rows_adjoint
from tests.device import skip_module_without_hostcuda
from tests.values import host


@pytest.mark.parametrize("index", [[0, 0, 3, 1], [2], [], [0, 3, 1] * 100], ids=len)
def test_gradient_of_rows_is_the_transpose(make, rng, index):
    values, chosen = make(4, 3), make.put(np.array(index, dtype=np.int64))
    np.testing.assert_array_equal(host(rows(values, chosen)), host(values)[index])
    grads = make(len(index), 3)
    expected = np.zeros((4, 3))
    np.add.at(expected, np.array(index, dtype=int), host(grads))
    np.testing.assert_allclose(host(rows_adjoint(grads, chosen, 4)), expected, rtol=1e-12)


def test_a_narrow_type_stays(make):
    assert rows_adjoint(make(3, 2, dtype=np.float16), make.put(np.array([0, 0, 1])), 2).dtype == np.float16


STEPS = {
    "jerk": step_jerk,
    "central": lambda u, start, dt, **k: step_position(u, start, dt, scheme="central", **k),
    "cost": lambda u, start, dt, **k: smoothness_cost(u, start, dt, (1.0, 1.0, 1.0), **k),
}


def results(step, u, start, dt, inputs, **options):
    """What a step gives, and its gradients by the inputs."""
    made = step(u, start, dt, **options)
    made = tuple(made) if isinstance(made, tuple) else (made,)
    return [host(x) for x in (*made, *grad(sum((x**2).sum() for x in made), inputs))]


@pytest.mark.parametrize("layout", ["bhd", "bdh"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_kernels_read_rows_where_they_are(make, step, layout):
    """Rows chosen by index, and one row for all, give the bits of rows gathered before; a gradient by dt has a path of its own."""
    index, batch = np.array([2, 0, 2, 1, 2]), 5
    u, table, one = make(batch, *((9, 3) if layout == "bhd" else (3, 9))), make(3, 3), make(3)
    for dt in (0.5, make.put(np.full((batch, 1), 0.5)).requires_grad_()):
        inputs = (u, dt) if isinstance(dt, gradlib.Tensor) else (u,)
        chosen = results(step, u, (table, None, table), dt, (*inputs, table), layout=layout, start_idx=index)
        gathered = results(step, u, (table[index], None, table[index]), dt, (*inputs, table), layout=layout)
        shared = results(step, u, (one, one), dt, (*inputs, one), layout=layout)
        spread = results(step, u, (one.expand(batch, 3),) * 2, dt, (*inputs, one), layout=layout)
        for made, right in ((chosen, gathered), (shared, spread)):
            for x, y in zip(made[:-1], right[:-1], strict=True):
                np.testing.assert_array_equal(x, y)
            np.testing.assert_allclose(made[-1], right[-1], rtol=1e-12)  # added up in another order


def launches(run):
    """How many kernels and copies a run queues."""
    from gradlib.testing.hostcuda import loader

    run()
    graph, count = gradlib.cuda.CUDAGraph(keep_graph=True), ctypes.c_size_t()
    with gradlib.cuda.graph(graph):
        run()
    loader.driver().cuGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    return count.value


@pytest.mark.cuda
@pytest.mark.parametrize("degree", [3, 5])
def test_a_spline_and_its_gradient_are_a_launch_each(rng, degree):
    """The kernel makes the control points that start and goal fix, and sums the gradients by their parts."""
    skip_module_without_hostcuda()
    knots, each, one, grads = (
        gradlib.tensor(rng.standard_normal(shape), device="cuda") for shape in ((5, 9, 3), (5, 3), (3,), (5, (9 + degree) * 4 + 1, 3))
    )
    knots.requires_grad_()

    def step():
        return step_bspline(knots, (each, one), 0.5, degree=degree, samples_per_knot=4, goal=(each,))

    assert launches(lambda: step()) == 1
    assert launches(lambda: grad(step(), knots, [grads] * 4)) == 2


@pytest.mark.cuda
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_start_rows_cost_no_launch_of_their_own(rng, step):
    skip_module_without_hostcuda()
    u, table, one, each = (gradlib.tensor(rng.standard_normal(shape), device="cuda") for shape in ((5, 9, 3), (3, 3), (3,), (5, 3)))
    index = gradlib.tensor([0, 2, 1, 2, 2], device="cuda")
    assert launches(lambda: step(u, (each, each, each), 0.5)) == 1
    assert launches(lambda: step(u, (one, one, one), 0.5)) == 1
    assert launches(lambda: step(u, (table, table, table), 0.5, start_idx=index)) == 1
