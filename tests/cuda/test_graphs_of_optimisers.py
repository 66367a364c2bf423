"""Optimisers with ``capturable=True``: a captured step changes parameters, counts and rates at each replay as an eager one does."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import cuda, optim
from gradlib.cuda.driver import node_count
from gradlib.optim.steps import STEPS
from tests.device import skip_module_without_cuda

skip_module_without_cuda()

pytestmark = pytest.mark.cuda

KINDS: list[tuple[Any, dict[str, Any]]] = [
    (optim.Adadelta, {"weight_decay": 0.1}),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    (optim.AdamW, {}),
    (optim.Adamax, {}),
    (optim.ASGD, {"t0": 1, "lambd": 0.1}),
    (optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    (optim.RAdam, {"betas": (0.6, 0.7)}),
    (optim.RMSprop, {"momentum": 0.5, "centered": True}),
    (optim.Rprop, {}),
    (optim.SGD, {"momentum": 0.9}),
]


def capturing(kind: Any, params: list[Any], **options: Any) -> Any:
    made = kind(params, **options, **({} if kind is optim.SGD else {"capturable": True}))
    made._warned_capturable_if_run_uncaptured = True
    return made


def loss_of(x: gradlib.Tensor, target: gradlib.Tensor) -> gradlib.Tensor:
    return (x - target).square().sum() + x.sin().sum()


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_captured_steps_are_the_eager_ones(kind: Any, options: dict[str, Any]) -> None:
    lr = gradlib.tensor(0.05, device="cuda")
    target = gradlib.randn(5, device="cuda")
    start = gradlib.randn(5, device="cuda")
    x, y, z = (start.clone().requires_grad_() for _ in range(3))
    captured, eager = capturing(kind, [x], lr=lr, **options), capturing(kind, [y], lr=lr.clone(), **options)
    host = kind([z], lr=0.05, **options)

    def step(optimizer: Any, value: gradlib.Tensor) -> None:
        optimizer.zero_grad()
        loss_of(value, target).backward()
        optimizer.step()

    for optimizer, value in ((captured, x), (eager, y), (host, z)):
        step(optimizer, value)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        step(captured, x)
    for at in range(6):
        if at == 3:  # as a scheduler does
            lr.fill_(0.01)
            eager.param_groups[0]["lr"].fill_(0.01)
            host.param_groups[0]["lr"] = 0.01
        g.replay()
        step(eager, y)
        step(host, z)
        assert gradlib.equal(x, y)
        np.testing.assert_allclose(x.detach().cpu().numpy(), z.detach().cpu().numpy(), rtol=3e-5, atol=1e-6)
    for name, item in captured.state[x].items():
        assert gradlib.equal(item, eager.state[y][name]), name


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_steps_of_several_parameters_count_each_once(kind: Any, options: dict[str, Any]) -> None:
    start = [gradlib.randn(4, device="cuda"), gradlib.randn(2, 3, device="cuda"), gradlib.randn((), device="cuda")]
    ours, eager = ([value.clone().requires_grad_() for value in start] for _ in range(2))
    captured, other = capturing(kind, ours, lr=0.05, **options), capturing(kind, eager, lr=0.05, **options)

    def step(optimizer: Any, values: list[gradlib.Tensor]) -> None:
        optimizer.zero_grad()
        sum((x.sin().sum() + x.square().sum() for x in values), gradlib.zeros((), device="cuda")).backward()
        optimizer.step()

    step(captured, ours)  # where parameters are stepped as one by default
    step(other, eager)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        step(captured, ours)
    for _ in range(5):
        g.replay()
        step(other, eager)
    for x, y in zip(ours, eager, strict=True):
        assert gradlib.equal(x, y)
        if "step" in captured.state[x]:
            assert captured.state[x]["step"].item() == other.state[y]["step"].item() == 6


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_a_graph_of_all_kinds_of_parameters_beside_another_optimiser(kind: Any, options: dict[str, Any]) -> None:
    """Two groups; a parameter of no elements, one without a gradient and one that is not contiguous; a rate that changes."""
    rng = np.random.default_rng(0)
    shapes = [(3, 2), (0, 2), (4,), (), (2, 3)]
    start, gradients = [[rng.normal(size=shape).astype("f") for shape in shapes] for _ in range(2)]

    def made() -> tuple[list[gradlib.Tensor], gradlib.Tensor, Any]:
        values = [gradlib.tensor(each, device="cuda") for each in start]
        values[4] = values[4].t()
        for k, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
            value.requires_grad_()
            if k != 2:
                value.grad = gradlib.tensor(gradient.T if k == 4 else gradient, device="cuda")
        lr = gradlib.tensor(0.05, device="cuda")
        first = capturing(kind, [{"params": values[:3], "lr": lr}, {"params": values[3:4], "maximize": True}], lr=0.1, **options)
        others = [capturing(kind, values[4:], lr=0.2, **options), capturing(optim.AdamW, [gradlib.ones(2, device="cuda").requires_grad_()])]
        others[1].param_groups[0]["params"][0].grad = gradlib.ones(2, device="cuda")
        return [*values, *others[1].param_groups[0]["params"]], lr, lambda: [each.step() for each in (first, *others)]

    (ours, our_rate, step), (theirs, their_rate, other_step) = made(), made()
    step()
    other_step()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        step()
    for rate in (0.05, 0.05, 0.01):
        our_rate.fill_(rate)
        their_rate.fill_(rate)
        for value, other in zip(ours, theirs, strict=True):
            if value.grad is not None:
                value.grad.mul_(-0.75)  # type: ignore[union-attr]
                other.grad.mul_(-0.75)  # type: ignore[union-attr]
        g.replay()
        other_step()
    for value, other, begun in zip(ours, theirs, start, strict=False):
        assert gradlib.equal(value, other)
        assert value.grad is None or not value.numel() or not np.array_equal(value.detach().cpu().numpy(), begun.reshape(value.shape))
    assert gradlib.equal(ours[5], theirs[5])


NODES = {
    "Adadelta": 1, "Adam": 2, "AdamW": 2, "Adamax": 2, "ASGD": 2, "NAdam": 2, "RAdam": 2, "RMSprop": 1, "Rprop": 1, "SGD": 1,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_a_step_of_ten_parameters_is_one_or_two_nodes(kind: Any, options: dict[str, Any]) -> None:
    values = [gradlib.ones(3, device="cuda", requires_grad=True) for _ in range(10)]
    for value in values:
        value.grad = gradlib.ones(3, device="cuda")
    for lr in (0.1, gradlib.tensor(0.1, device="cuda")):
        optimizer = capturing(kind, values, lr=lr, **options)
        optimizer.step()
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            optimizer.step()
        assert node_count(int(g._graph.graph)) == NODES[kind.__name__]


def test_a_graph_steps_more_parameters_than_one_launch_takes() -> None:
    count = STEPS["adam"].apart.most + 3
    ours, theirs = ([gradlib.full((2,), k / 8, device="cuda").requires_grad_() for k in range(count)] for _ in range(2))
    captured, eager = (capturing(optim.Adam, values, lr=0.1) for values in (ours, theirs))
    for value in (*ours, *theirs):
        value.grad = value.detach() - 3
    captured.step()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        captured.step()
    assert node_count(int(g._graph.graph)) == 4
    for _ in range(2):
        g.replay()
    for _ in range(3):
        eager.step()
    assert all(gradlib.equal(x, y) for x, y in zip(ours, theirs, strict=True))


def test_a_saved_state_goes_on_on_the_device_and_on_the_host() -> None:
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    host, device = optim.NAdam([x]), capturing(optim.NAdam, [x])
    x.grad = gradlib.ones(3, device="cuda")
    host.step()
    saved = copy.deepcopy(host.state_dict())
    saved["param_groups"][0]["capturable"] = True
    device.load_state_dict(saved)
    device.step()
    step = device.state[x]["step"]
    assert (step.item(), step.device.type, step.dtype) == (2, "cuda", gradlib.float32)
    assert device.state[x]["mu_product"].dtype == gradlib.float32
    again, saved = capturing(optim.NAdam, [x]), copy.deepcopy(device.state_dict())
    saved["state"][0]["mu_product"] = saved["state"][0]["mu_product"].double()  # as torch's of a parameter of float64, once loaded
    again.load_state_dict(saved)
    for name in ("step", "mu_product"):
        found, want = again.state[x][name], device.state[x][name]
        assert (found.item(), found.device, found.dtype) == (want.item(), want.device, want.dtype)
    saved = device.state_dict()
    saved["param_groups"][0]["capturable"] = False
    host.load_state_dict(saved)
    host.step()
    assert host.state[x]["step"] == 3


def test_what_cannot_be_captured_of_a_step_is_refused() -> None:
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    x.grad = gradlib.ones(3, device="cuda")
    plain = optim.Adam([x])
    with pytest.raises(RuntimeError, match="for an instance of Adam but param_groups' capturable is False"), cuda.graph(cuda.CUDAGraph()):
        plain.step()
    with pytest.raises(RuntimeError, match=r"Adagrad cannot be captured .* it has no option capturable"), cuda.graph(cuda.CUDAGraph()):
        optim.Adagrad([x]).step()
    with pytest.raises(RuntimeError, match="before its state exists"), cuda.graph(cuda.CUDAGraph()):
        capturing(optim.Adam, [x]).step()
    with pytest.raises(RuntimeError, match="before its state exists"), cuda.graph(cuda.CUDAGraph()):
        optim.SGD([x], momentum=0.9).step()
    assert x.tolist() == [1, 1, 1]


def test_capturable_warns_once_without_a_capture_and_is_for_gpus() -> None:
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    x.grad = gradlib.ones(3, device="cuda")
    made = optim.Adam([x], capturable=True)
    with pytest.warns(UserWarning, match="running without CUDA graph capture"):
        made.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.step()
    y = gradlib.ones(3, requires_grad=True)
    y.grad = gradlib.ones(3)
    with pytest.raises(AssertionError, match="must be on supported devices"):
        capturing(optim.Adam, [y]).step()
