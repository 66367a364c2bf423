"""On the fast path the host never waits for the device: hostcuda counts every wait, over all operations and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import optim
from gradlib.testing import hostcuda
from gradlib.trajectory import (
    EnergyCost,
    TerminalCost,
    smoothness_cost,
    step_acceleration,
    step_bspline,
    step_jerk,
    step_position,
    step_velocity,
)
from tests.device import skip_module_without_hostcuda
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES

skip_module_without_hostcuda()

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

# Rows whose result's size, or a Python number, depends on values: torch waits for the device there as well. And what says so itself.
WAITS = {
    "allclose", "argwhere", "distinct", "equal", "masked_select", "masked_select-broadcast", "nonzero", "one_hot",
    "repeat_interleave-each", "unique", "unique-float", "unique-rows", "where-indices",
    "det-empty",  # backward: whether a matrix is singular to working precision chooses the formula, which one of up to 32 rows needs not
    "cholesky", "cholesky-upper",  # whether there is a factor: one that was only begun looks like any other
    "eig", "eig-pairs",  # backward: whether the loss depends on the phase of the eigenvectors
    "lstsq-residuals",  # whether there are residuals depends on the rank
}  # fmt: skip


def waits(run: Callable[[], Any]) -> dict[str, int]:
    """How often the host waits for the device in a call, by what makes it."""
    before = hostcuda.host_waits()
    run()
    return dict(hostcuda.host_waits() - before)


def forward_and_backward(case: Case, inputs: list[Any]) -> None:
    live = [y for y in results(case.call(*inputs)) if isinstance(y, gradlib.Tensor) and y.requires_grad]
    wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
    if live and wanted:
        gradlib.autograd.grad(live, wanted, [gradlib.ones_like(y) for y in live], allow_unused=True)


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_operations_wait_for_the_device_only_where_listed(case: Case) -> None:
    inputs = as_tensors(list(case.inputs(np.random.default_rng(0))), "float64", "cuda", requires_grad=case.differentiable)
    made = waits(lambda: forward_and_backward(case, inputs))
    assert bool(made) == (case.id in WAITS), made


@pytest.mark.parametrize("key", [([0, 2], slice(None), np.array([1, 0], np.uint8)), (np.eye(3, 4, dtype=bool), [1, 0, 1]), ([2, 0],)])
def test_all_arrays_of_the_host_in_an_index_are_one_copy(key: tuple[Any, ...]) -> None:
    x, expected = gradlib.zeros(3, 4, 2, device="cuda"), np.zeros((3, 4, 2))
    places = [None if type(each) is slice else each for each in key]
    for use in (lambda: x.__setitem__(key, 2), lambda: x[key], lambda: x.index_put_(places, 3)):
        before = hostcuda.copies_to_device()
        use()
        assert sum((hostcuda.copies_to_device() - before).values()) == 1
    expected[key] = 3
    assert x.tolist() == expected.tolist()
    assert x[key].tolist() == expected[key].tolist()


def weights() -> gradlib.Tensor:
    return gradlib.randn(4, 3, device="cuda").requires_grad_()


@pytest.mark.parametrize(
    "make",
    [
        lambda w: optim.SGD([w], 0.1),
        lambda w: optim.SGD([w], 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda w: optim.Adam([w], 0.1),
        lambda w: optim.Adam([w], 0.1, weight_decay=0.1, amsgrad=True),
    ],
)
def test_training_steps(make: Callable[[gradlib.Tensor], Any]) -> None:
    layer, data = weights(), gradlib.randn(5, 4, device="cuda")
    optimiser = make(layer)

    def step() -> None:
        optimiser.zero_grad()
        hidden = gradlib.nn.functional.dropout((data @ layer).relu(), 0.5)
        hidden.square().mean().backward()
        optimiser.step()

    assert not waits(lambda: [step() for _ in range(3)])


def test_random_numbers() -> None:
    p = gradlib.full((4, 3), 0.5, device="cuda")

    def draw() -> None:
        gradlib.rand(3, device="cuda")
        gradlib.randn(3, device="cuda")
        gradlib.randint(0, 5, (3,), device="cuda")
        gradlib.randperm(5, device="cuda")
        gradlib.bernoulli(p)
        gradlib.normal(p, p)
        gradlib.multinomial(p, 2)
        gradlib.empty(3, device="cuda").uniform_().exponential_().bernoulli_(0.3)

    assert not waits(draw)


@pytest.mark.parametrize(
    "step", [step_position, step_velocity, step_acceleration, step_jerk, step_bspline, "central", "rows", "cost", "sum"]
)
def test_trajectories_never_wait_for_the_device(step: Any) -> None:
    u = gradlib.randn(3, 8, 2, device="cuda").requires_grad_()
    start = [gradlib.randn(3, 2, device="cuda").requires_grad_() for _ in range(3)]
    dt = gradlib.full((3, 1), 0.1, device="cuda").requires_grad_()
    rows = gradlib.tensor([2, 0, 2], device="cuda")
    costs = EnergyCost(1.0, [0.5, 0.1]) + TerminalCost((start[0],))

    def run(dt: Any) -> None:
        if step == "cost":
            smoothness_cost(u, start, dt, (1.0, 1.0, 1.0)).sum().backward()
        elif step == "sum":
            costs(step_position(u, start, dt), dt).sum().backward()
        elif step == "rows":
            sum(x.square().sum() for x in step_position(u, start, dt, start_idx=rows)).backward()
        elif step == "central":
            sum(x.square().sum() for x in step_position(u, start, dt, scheme="central")).backward()
        elif step is step_bspline:
            sum(x.square().sum() for x in step(u, start, dt, samples_per_knot=2)).backward()
        else:
            sum(x.square().sum() for x in step(u, start, dt)).backward()

    run(dt)  # makes the tables
    assert not waits(lambda: run(dt))
    assert not waits(lambda: run(0.1))
    before = hostcuda.copies_to_device()
    run(dt)
    run(0.1)
    assert hostcuda.copies_to_device() == before  # nor the other way: a captured graph would copy again from where they lay


def test_transforms_and_hooks() -> None:
    u = weights()
    u.register_hook(lambda g: g * 2)

    def run() -> None:
        gradlib.func.vmap(gradlib.func.grad(lambda row: row.sin().sum()))(u.detach())
        gradlib.func.jvp(lambda x: x.exp(), (u.detach(),), (gradlib.ones_like(u.detach()),))
        (g,) = gradlib.autograd.grad((u**3).sum(), u, create_graph=True)
        g.sum().backward()

    assert not waits(run)


def test_a_size_that_is_known() -> None:
    u, repeats = weights(), gradlib.tensor([1, 0, 2, 1], device="cuda")
    assert not waits(lambda: gradlib.repeat_interleave(u, repeats, 0, output_size=4))


def test_saving_in_pinned_memory() -> None:
    u = weights()

    def run() -> None:
        with gradlib.autograd.graph.save_on_cpu(pin_memory=True):
            loss = (u * u).exp().sum()
        loss.backward()

    assert not waits(run)
