"""Derivative rules as one kernel: which are, that their bits are those of single steps, and what stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.core.device_rules import on_device
from gradlib.core.op import REGISTRY
from gradlib.core.symbols import MOST, Untold, in_one_launch, traced
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

NUMBERS = {"alpha": 1.5, "beta": 0.7, "threshold": 0.5, "value": -0.3, "eps": 1e-3, "divided": True, "min": -0.5, "max": 0.4}
TOLD = [(name, tensor) for name, op in REGISTRY.items() if op.value.__module__.startswith("gradlib.") for tensor in op.rules]


def given(name: str, tensor: str, dtype: Any) -> tuple[Any, ...]:
    """Arguments for a rule: arrays for what is one, and the declared or some other number for the rest."""
    op, rng, made = REGISTRY[name], np.random.default_rng(2), []
    for each in op.rule_params[tensor]:
        if each == "g" or each in op.tensors or each in op.outputs:
            made.append(cupy.asarray(rng.uniform(-0.9, 0.9, (3, 7)).astype(dtype)))
        else:
            made.append(NUMBERS.get(each, op.defaults.get(each)))
    return tuple(made)


def same(found: Any, expected: Any) -> bool:
    a, b = (each.astype("float64").get() for each in (found, expected))
    return (
        found.dtype == expected.dtype
        and np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_bits_are_those_of_single_steps(dtype):
    """Of floats also where the gradient is one number for all elements, and where operands broadcast."""
    told = set()
    for name, tensor in TOLD:
        args = given(name, tensor, as_dtype(dtype))
        try:
            made = traced(REGISTRY[name].rules[tensor], args)
        except Untold:
            continue
        if made is None:
            continue
        told.add(f"{name}.{tensor}")
        steps = on_device(REGISTRY[name])[tensor].__wrapped__
        with np.errstate(all="ignore"):
            assert same(made(*args), steps(*args)), (name, tensor)
            if dtype != "float32":  # how operands broadcast does not depend on the dtype, and is a kernel each to compile
                continue
            first, rest = args[0], args[1:]
            if len(told) % 2:  # nor on the rule: every other one meets operands of one row, the rest a gradient that is one number
                rest = tuple(each[:1] if isinstance(each, cupy.ndarray) else each for each in rest)
            else:
                first = cupy.broadcast_to(first[0, 0], first.shape)
            assert same(made(first, *rest), steps(cupy.ascontiguousarray(first), *rest)), (name, tensor)
    assert {"tanh.input", "div.other", "gelu.input", "sigmoid.input", "elu.input", "clamp.input", "silu.input", "hypot.other"} <= told
    assert not {"mul.input", "sum.input", "var.input", "softmax.input", "where.input", "cumsum.input"} & told
    assert len(told) > 60


@pytest.mark.parametrize("case", [gradlib.tanh, gradlib.nn.functional.gelu, lambda x: x / (x + 2), lambda x: gradlib.logaddexp(x, x * 2)])
def test_first_and_second_derivatives_are_those_of_the_host(case):
    results = []
    for device in ("cpu", "cuda"):
        x = gradlib.tensor([0.3, -0.8, 1.7], dtype=gradlib.float64, device=device, requires_grad=True)
        first = gradlib.autograd.grad(case(x).sum(), x)[0]
        (slope,) = gradlib.autograd.grad(case(x).sum(), x, create_graph=True)
        results.append([first.tolist(), slope.tolist(), gradlib.autograd.grad(slope.sum(), x)[0].tolist()])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-13)


def test_what_symbols_do_not_tell_stays_as_it_is():
    x = cupy.linspace(0.5, 2, 6).reshape(2, 3)
    rules = (
        lambda g, x: g * 2.5 + g.shape[0], lambda g, x: g * x.sum() + g, lambda g, x: g * x + g if x > 0 else g, lambda g, x: g,
        lambda g, x: g * x, lambda g, x: (g * x + g).astype("float64"), lambda g, x: g * float("inf") + g, lambda g, x: [g * x + g],
        lambda g, x: gradlib.sum(g * x + g), lambda g, x: g * True + g,
    )  # fmt: skip
    for rule in rules:
        with pytest.raises(Untold):
            traced(rule, (x, x))
        asked = []
        run = in_one_launch(rule, lambda g, x, asked=asked: asked.append(g))
        run(x, x), run(x, x)
        assert len(asked) == 2
    assert traced(lambda g, x: g * x + g, (x, x)) is not None
    for other in (x.astype("float32"), x.astype("int64"), x + 1j):
        assert traced(lambda g, x: g * x + g, (x, other)) is None


def test_a_rule_is_written_for_few_numbers_and_otherwise_runs_by_steps():
    x, asked = cupy.linspace(0.5, 2, 6), []

    def steps(g: Any, number: float) -> Any:
        asked.append(number)
        return g * number + g

    run = in_one_launch(lambda g, number: g * number + g, steps)
    for number in range(MOST + 3):
        assert np.array_equal(run(x, float(number)).get(), (x * number + x).get())
    assert asked == [float(MOST + each) for each in range(3)]
    assert run(x, 1.0).tolist() == (x + x).tolist()
    assert len(asked) == 3
    run(x, np.float64(2))  # a number of NumPy's is no part of what is written
    assert len(asked) == 4


def test_masks_and_bfloat16_are_as_single_steps_have_them():
    x = cupy.linspace(-1, 1, 8).astype("float32")
    rule: Any = lambda g, x: gradlib.where((x > 0) & ~(x > 0.5), g * 2, 0.0) * (x == x)  # noqa: E731
    made = traced(rule, (x, x))
    assert made is not None
    assert same(made(x, x), cupy.where((x > 0) & ~(x > 0.5), x * 2, cupy.float32(0)))
    brain = x.astype(as_dtype("bfloat16"))
    assert traced(lambda g, x: g * x + g, (brain, brain)) is not None
    with pytest.raises(Untold, match=r"the number 1\.5"):  # of which CuPy makes float32
        traced(lambda g, x: g * x + 1.5, (brain, brain))


def test_the_rule_of_a_quotient_is_one_launch(monkeypatch):
    x = gradlib.tensor([0.3, -0.8, 1.7], device="cuda", requires_grad=True)
    y = gradlib.tensor([1.0, 2.0, 4.0], device="cuda", requires_grad=True)
    gradlib.autograd.grad((x / y).sum(), (x, y))
    for name in ("multiply", "negative", "divide", "true_divide"):
        monkeypatch.setattr(cupy, name, None)
    assert gradlib.autograd.grad((x / y).sum(), (x, y))[1].tolist() == pytest.approx([-0.3, 0.2, -1.7 / 16])


def test_a_constant_that_is_minus_zero_is_no_zero() -> None:
    x, y = (gradlib.tensor([2.0, 3.0], device="cuda", requires_grad=True) for _ in range(2))
    signs = []
    for value in (0.0, -0.0):
        (slope,) = gradlib.autograd.grad(gradlib.addcmul(x, x, y, value=value).sum(), y)
        signs.append(gradlib.signbit(slope).tolist())
    assert signs == [[False, False], [True, True]]
