"""Parameters stepped as one: the same bits as one after the other, and a state that stays each parameter's own."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gradlib
from gradlib import optim
from gradlib.backend.several import Several
from gradlib.optim import foreach, optimizer
from gradlib.optim.steps import STEPS
from tests.values import host

OPTIONS = [
    ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"amsgrad": True}), ("AdamW", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}), ("Adagrad", {"lr_decay": 0.1}), ("Adadelta", {}), ("Adamax", {"maximize": True}),
    ("NAdam", {}), ("RAdam", {"decoupled_weight_decay": True}), ("Rprop", {}), ("ASGD", {"t0": 2.0}),
]  # fmt: skip
SHAPES = [
    ((3, 4), "float32"), ((), "float32"), ((5,), "float64"), ((2, 1), "float32"), ((0, 2), "float32"), ((2, 3), "complex64"),
    ((4,), "float64"), ((1, 2), "complex64"),
]  # fmt: skip


def drawn(seed):
    rng = np.random.default_rng(seed)
    made = [(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype) for shape, dtype in SHAPES]
    return [(z if dtype == "complex64" else z.real).astype(dtype) for z, dtype in made]


def parameters():
    made = [gradlib.tensor(values, requires_grad=True) for values in drawn(0)]
    made[0] = made[0].detach().t().requires_grad_()  # not contiguous
    return made


def stepped(name, options, steps, between=None, **more):
    values = parameters()
    optimizer = getattr(optim, name)(values, **options, **more)
    for step in range(steps):
        for value, g in zip(values, drawn(step + 1), strict=True):
            value.grad = gradlib.tensor(g.T if value is values[0] else g)
        optimizer.step()
        if between is not None:
            optimizer = between(optimizer, step) or optimizer
    return values, optimizer


def same(found, want):
    for a, b in zip(found[0], want[0], strict=True):
        np.testing.assert_array_equal(host(a.detach()), host(b.detach()))
        assert a.stride() == b.stride()
        states = found[1].state[a], want[1].state[b]
        assert states[0].keys() == states[1].keys()
        for name in states[0]:
            first, second = (host(each[name]) if isinstance(each[name], gradlib.Tensor) else each[name] for each in states)
            assert np.shape(first) == np.shape(second)
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_all_as_one_gives_the_bits_of_one_after_the_other(name, options):
    found, want = stepped(name, options, 4), stepped(name, options, 4, foreach=False)
    assert found[1]._joined
    assert not want[1]._joined
    same(found, want)


@pytest.mark.parametrize(("name", "options"), OPTIONS[:5])
def test_a_large_parameter_stepped_by_blocks_has_the_bits_of_one_stepped_whole(name, options, monkeypatch):
    want = stepped(name, options, 4, foreach=False)
    monkeypatch.setattr(optimizer, "_BLOCK", 2)
    given = []
    direction = optimizer.direction
    for module in (gradlib.optim.sgd, gradlib.optim.adam, gradlib.optim.rmsprop):
        monkeypatch.setattr(module, "direction", lambda p, g, group: given.append(p.size) or direction(p, g, group))
    found = stepped(name, options, 4, foreach=False)
    same(found, want)
    assert [value._version for value in found[0]] == [value._version for value in want[0]]
    assert (given.count(2) > 4 * 2) is isinstance(found[0][0]._array, np.ndarray)  # on a device each is stepped whole


def test_a_step_that_is_refused_leaves_no_momentum() -> None:
    x = gradlib.ones(1).expand(3).requires_grad_()
    x.grad = gradlib.ones(3)
    sgd = optim.SGD([x], lr=0.1, momentum=0.9)
    with pytest.raises(RuntimeError, match="single memory location"):
        sgd.step()
    assert not sgd.state[x]


def put_into_a_state(optimizer, step):
    if step == 1:
        value = optimizer.param_groups[0]["params"][3]
        optimizer.state[value]["exp_avg"] = gradlib.ones_like(value)
        optimizer.state[optimizer.param_groups[0]["params"][4]]["exp_avg_sq"].zero_()
        optimizer.state[optimizer.param_groups[0]["params"][1]]["exp_avg"].mul_(2)


def loaded(optimizer, step):
    if step == 1:
        optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))


def counted_apart(optimizer, step):
    if step == 1:
        optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] = 7


def in_other_memory(optimizer, step):
    value = optimizer.param_groups[0]["params"][2]
    value.data = value.data.clone()
    optimizer.param_groups[0]["lr"] *= 0.5


@pytest.mark.parametrize("between", [put_into_a_state, loaded, counted_apart, in_other_memory])
def test_a_state_may_be_changed_between_steps(between):
    same(stepped("Adam", {}, 4, between), stepped("Adam", {}, 4, between, foreach=False))


def test_parameters_without_a_gradient_are_passed_over():
    def walk(**more):
        values = parameters()
        optimizer = optim.Adam(values, **more)
        for step in range(5):
            for i, (value, g) in enumerate(zip(values, drawn(step), strict=True)):
                value.grad = None if (i + step) % 3 == 0 else gradlib.tensor(g.T if i == 0 else g)
            optimizer.step()
        return values, optimizer

    same(walk(), walk(foreach=False))


def test_a_copy_of_an_optimiser_is_independent():
    values = [gradlib.ones(3, requires_grad=True) for _ in range(4)]
    optimizer = optim.Adam(values, lr=0.1)
    for value in values:
        value.grad = gradlib.ones(3)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        theirs = other.param_groups[0]["params"]
        for value in theirs:
            value.grad = gradlib.full((3,), -1.0)
        other.step()
        assert other.state[theirs[0]]["step"] == 2
        assert optimizer.state[values[0]]["step"] == 1
        assert optimizer.state[values[0]]["exp_avg"].tolist() == pytest.approx([0.1] * 3)
        assert other.state[theirs[0]]["exp_avg"].tolist() == pytest.approx([-0.01] * 3)


def test_a_write_counts_for_each_parameter():
    values = [gradlib.ones(3, requires_grad=True) for _ in range(4)]
    squares = [value * value for value in values]
    for value in values:
        value.grad = gradlib.ones(3)
    optim.SGD(values, lr=0.1, foreach=True).step()
    for value, square in zip(values, squares, strict=True):
        assert value._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()


def test_large_parameters_are_joined_only_where_it_is_asked_for():
    values = [gradlib.zeros(foreach.SMALL + 1, requires_grad=True) for _ in range(2)]
    group = {"foreach": None, "params": values}
    assert not foreach.wanted(group, values)
    assert foreach.wanted({**group, "foreach": True}, values)
    assert not foreach.wanted({**group, "foreach": True}, values[:1])
    assert not foreach.wanted({**group, "foreach": True}, [values[0], values[0]])
    assert not foreach.wanted({"params": values}, values), "a rule that does not say so may look beyond elements"


def launched(monkeypatch):
    """The names of the kernels over several arrays that are launched from now on."""
    names, run = [], Several.launch
    monkeypatch.setattr(Several, "launch", lambda self, *args: names.append(self.name) or run(self, *args))
    return names


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("SGD", {"momentum": 0.9, "dampening": 0.3}),
        ("Adam", {"weight_decay": 0.1, "maximize": True}), ("AdamW", {"lr": 0.1, "weight_decay": 0.3}),
        ("RMSprop", {"weight_decay": 0.1, "maximize": True}), ("RMSprop", {"momentum": 0.9}), ("Adagrad", {"lr_decay": 0.1}),
        ("Adadelta", {"weight_decay": 0.1}), ("Adamax", {"weight_decay": 0.1}), ("NAdam", {"weight_decay": 0.1}),
        ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}), ("RAdam", {"weight_decay": 0.1}),
        ("RAdam", {"betas": (0.9, 0.7)}), ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("ASGD", {"weight_decay": 0.1}),
        ("ASGD", {"t0": 0.0, "lambd": 0.1, "maximize": True}), ("Rprop", {}), ("Rprop", {"lr": 40.0, "maximize": True}),
        ("Adam", {"amsgrad": True}), ("RMSprop", {"centered": True}), ("RMSprop", {"centered": True, "momentum": 0.5}),
    ],
)  # fmt: skip
def test_a_step_on_a_device_is_one_launch_with_the_same_bits(name, options, monkeypatch):
    """Of 128 parameters at most; and with the counts that a step writes."""
    steps = 8 if name == "RAdam" else 3  # which begins without the mean square
    launches, shapes = launched(monkeypatch), [(i % 4, 3) if i % 3 else (i % 5 + 1,) for i in range(130)]
    found = []
    for foreach_ in (False, True):
        rng = np.random.default_rng(0)
        values = [gradlib.tensor(rng.normal(size=shape), dtype=gradlib.float32, device="cuda", requires_grad=True) for shape in shapes]
        optimizer = getattr(optim, name)(values, foreach=foreach_, **options)
        for _ in range(steps):
            for value in values:
                value.grad = gradlib.tensor(rng.normal(size=value.shape), dtype=gradlib.float32, device="cuda")
            optimizer.step()
        found.append((values, optimizer))
    makes_state = name != "Adagrad" and (name != "SGD" or options)  # in the first step
    assert len(launches) == 2 * (steps - bool(makes_state))
    same(found[1], found[0])
    assert [value._version for value in found[1][0]] == [steps] * len(shapes)


COUNTED = [
    ("Adam", {"weight_decay": 0.1, "maximize": True}, "float32"), ("Adam", {"betas": (0.0, 0.5)}, "float64"),
    ("AdamW", {"lr": "float32", "weight_decay": 0.3}, "float32"), ("Adam", {"lr": "float64"}, "float64"),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.3}, "float32"), ("Adam", {"amsgrad": True, "lr": "float32"}, "float64"),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}, "float32"),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True, "lr": "float64"}, "float64"),
    ("RAdam", {"betas": (0.6, 0.7)}, "float32"), ("RAdam", {"betas": (0.9, 0.8), "lr": "float32"}, "float64"),
    ("RAdam", {"betas": (0.9, 0.3)}, "float32"), ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, "float32"),
    ("Adamax", {"weight_decay": 0.1}, "float32"), ("Adamax", {"lr": "float32", "maximize": True}, "float64"),
    ("Adadelta", {"weight_decay": 0.1, "lr": "float32"}, "float32"), ("Adadelta", {"rho": 0.5}, "float64"),
    ("RMSprop", {"weight_decay": 0.1, "lr": "float64"}, "float32"), ("RMSprop", {"momentum": 0.5}, "float64"),
    ("RMSprop", {"centered": True, "maximize": True}, "float32"), ("RMSprop", {"centered": True, "momentum": 0.5}, "float32"),
    ("ASGD", {"t0": 1.0, "lambd": 0.1, "weight_decay": 0.1}, "float32"), ("ASGD", {"t0": 2.0, "lr": "float32"}, "float64"),
    ("Rprop", {}, "float32"), ("Rprop", {"lr": "float32", "maximize": True}, "float64"),
]  # fmt: skip
"""With ``capturable``; the learning rate may be a tensor on the device."""
ALONE = ("Adadelta", "RMSprop", "Rprop")
"""Of which nothing depends on the count: they count in the launch that steps."""


def counting(name, options, dtype, shapes, steps, **more):
    """Parameters after steps, and their optimiser."""
    rng, lr = np.random.default_rng(0), options.get("lr")
    given = {"lr": gradlib.tensor(0.1, dtype=getattr(gradlib, lr), device="cuda")} if isinstance(lr, str) else {}
    drawn = lambda shape: gradlib.tensor(rng.normal(size=shape), dtype=getattr(gradlib, dtype), device="cuda")  # noqa: E731
    values = [drawn(shape).requires_grad_() for shape in shapes]
    optimizer = getattr(optim, name)(values, **options | given | more)
    optimizer._warned_capturable_if_run_uncaptured = True
    for _ in range(steps):
        for value in values:
            value.grad = drawn(value.shape)
        optimizer.step()
    return values, optimizer


def one_by_one(monkeypatch, *args, **more):
    """The same by the rule of each."""
    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "step_apart", lambda values, *args: values)
        return counting(*args, **more)


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize(("name", "options", "dtype"), COUNTED)
def test_a_step_that_counts_on_a_device_is_two_launches_with_the_same_bits(name, options, dtype, monkeypatch):
    """The first step makes the state."""
    launches, shapes, steps = launched(monkeypatch), [(2, 3), (), (0, 2), (5,)], 7 if name == "RAdam" else 4
    found = counting(name, options, dtype, shapes, steps, capturable=True)
    assert len(launches) == (steps - 1) * (1 if name in ALONE else 2)
    same(found, one_by_one(monkeypatch, name, options, dtype, shapes, steps, capturable=True))
    assert len(launches) == (steps - 1) * (1 if name in ALONE else 2)
    assert [value._version for value in found[0]] == [steps] * len(shapes)
    for value in found[0]:
        counts = [found[1].state[value][each] for each in ("step", "eta", "mu", "mu_product") if each in found[1].state[value]]
        assert [(count.dtype, count.device.type, count.shape) for count in counts] == [(gradlib.float32, "cuda", ())] * len(counts)
        assert counts[0].item() == steps


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_more_parameters_than_a_table_has_rows_take_further_launches(name, monkeypatch):
    launches, shapes = launched(monkeypatch), [(i % 4, 3) if i % 3 else (i % 5 + 1,) for i in range(STEPS[name.lower()].apart.most + 5)]
    found = counting(name, {}, "float32", shapes, 3, capturable=True)
    assert len(launches) == 2 * 2 * (1 if name in ALONE else 2)
    same(found, one_by_one(monkeypatch, name, {}, "float32", shapes, 3, capturable=True))


@pytest.mark.cuda
@pytest.mark.host
def test_counts_are_float64_where_that_is_the_default_dtype(monkeypatch):
    gradlib.set_default_dtype(gradlib.float64)
    try:
        found = counting("NAdam", {}, "float32", [(3,), (2,)], 3, capturable=True)
        same(found, one_by_one(monkeypatch, "NAdam", {}, "float32", [(3,), (2,)], 3, capturable=True))
    finally:
        gradlib.set_default_dtype(gradlib.float32)
    state = found[1].state[found[0][0]]
    assert [state[name].dtype for name in ("step", "mu_product", "exp_avg")] == [gradlib.float64, gradlib.float64, gradlib.float32]


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("AdamW", {"amsgrad": True}),
        ("Adagrad", {"lr_decay": 0.1}),
        ("RMSprop", {}), ("Adamax", {}), ("RAdam", {}), ("Adadelta", {}), ("Rprop", {}),
    ],
)  # fmt: skip
def test_a_rate_on_a_device_is_read_there_with_counts_on_the_host(name, options, monkeypatch):
    launches = launched(monkeypatch)
    shapes, options, alone = [(2, 3), (), (0, 2), (5,)], {**options, "lr": "float32"}, name in (*ALONE, "SGD")
    found = counting(name, options, "float32", shapes, 3, foreach=True)
    makes_state = name not in ("Adagrad", "SGD") or "momentum" in options
    assert len(launches) == (3 - makes_state) * (1 if alone else 2)
    same(found, counting(name, options, "float32", shapes, 3, foreach=False))


@pytest.mark.cuda
@pytest.mark.host
def test_gradients_on_a_device_are_zeroed_by_one_launch(monkeypatch):
    """Of all dtypes; those that share memory or do not fill words one by one."""
    launches = launched(monkeypatch)
    values = [gradlib.ones(3, dtype=dtype, device="cuda") for dtype in (gradlib.float32, gradlib.float64, gradlib.complex64)]
    values += [gradlib.ones(0, device="cuda"), gradlib.ones((), device="cuda"), gradlib.ones(4, dtype=gradlib.float16, device="cuda")]
    optimizer = optim.SGD([value.requires_grad_() for value in [*values, gradlib.ones(2, device="cuda")]])
    for value in values:
        value.grad = gradlib.full_like(value, 2)
    optimizer.zero_grad(set_to_none=False)
    assert launches == ["zero"]
    for value in values:
        assert gradlib.equal(value.grad, gradlib.zeros_like(value))
        assert value.grad._version == 1
    whole = gradlib.ones(6, dtype=gradlib.float16, device="cuda")
    for shared, words in ((values[0].grad[1], whole[:4]), (gradlib.ones((), device="cuda"), whole[1:5])):
        values[4].grad, values[5].grad = shared.fill_(1), words.fill_(1)
        optimizer.zero_grad(set_to_none=False)
        assert launches == ["zero"]
        assert not any(value.grad.count_nonzero() for value in values)


def test_gradients_that_are_zeroed_leave_their_graph():
    x, y = (gradlib.ones(3, requires_grad=True) for _ in range(2))
    x.grad, y.grad = x**2, gradlib.ones(3, requires_grad=True)
    held = x.grad, y.grad
    optim.SGD([x, y]).zero_grad(set_to_none=False)
    for value, gradient in zip((x, y), held, strict=True):
        assert value.grad is gradient
        assert not gradient.requires_grad
        assert gradient.grad_fn is None
        assert gradient.tolist() == [0, 0, 0]


@pytest.mark.cuda
@pytest.mark.host
def test_what_has_no_kernel_steps_one_by_one_beside_what_has(monkeypatch):
    """Each dtype has its launches; complex and half numbers, gaps, and memory that is written twice have none."""
    launches = launched(monkeypatch)
    zeros = lambda *shape, dtype=gradlib.float32: gradlib.zeros(*shape, dtype=dtype, device="cuda")  # noqa: E731
    values = [
        zeros(3),
        zeros(3, dtype=gradlib.float64),
        zeros(2, dtype=gradlib.complex64),
        zeros(3, dtype=gradlib.float16),
        zeros(3, 2).t(),
    ]
    values += [zeros(2, dtype=gradlib.float64)]
    optimizer = optim.Adam([value.requires_grad_() for value in values], lr=0.5, capturable=True)
    optimizer._warned_capturable_if_run_uncaptured = True
    for value in values:
        value.grad = gradlib.ones_like(value)
    for _ in range(2):
        optimizer.step()
    assert launches == ["adam_counting", "adam_apart"] * 2
    assert all(gradlib.allclose(value.detach(), gradlib.full_like(value, -1.0), atol=2e-3) for value in values)
    launches.clear()
    optimizer.state[values[1]]["step"] = optimizer.state[values[5]]["step"]
    optimizer.step()
    assert launches == ["adam_counting", "adam_apart"]
    assert [state["step"].item() for state in optimizer.state.values()] == [3, 4, 3, 3, 3, 4]


@pytest.mark.cuda
@pytest.mark.host
def test_a_subclass_that_steps_otherwise_has_no_kernel(monkeypatch):
    class Ascent(optim.SGD):
        def _update(self, value, gradient, group):
            super()._update(value, -gradient, group)

    launches = launched(monkeypatch)
    values = [gradlib.zeros(3, device="cuda", requires_grad=True) for _ in range(2)]
    for value in values:
        value.grad = gradlib.ones(3, device="cuda")
    Ascent(values, lr=0.5, foreach=True).step()
    assert not launches
    assert [value.tolist() for value in values] == [[0.5] * 3] * 2


def test_fused_is_foreach_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []
    step = foreach.step
    monkeypatch.setattr(foreach, "step", lambda *args: (joined.append(args), step(*args)))
    for name in ("SGD", "Adam", "AdamW", "Adagrad"):
        joined.clear()
        found = stepped(name, {}, 3, fused=True)
        assert len(joined) == 3
        same(found, stepped(name, {}, 3, foreach=False, fused=False))
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
            getattr(optim, name)(parameters(), fused=True, foreach=True)


@pytest.mark.parametrize("name", sorted({name for name, _ in OPTIONS}))
def test_a_step_that_is_to_be_differentiated_is_refused(name: str) -> None:
    assert getattr(optim, name)(parameters(), differentiable=False).param_groups[0]["differentiable"] is False
    with pytest.raises(NotImplementedError, match="differentiable=True is not supported"):
        getattr(optim, name)(parameters(), differentiable=True)
