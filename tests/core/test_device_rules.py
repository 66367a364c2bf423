"""Derivative rules on a GPU: the declared ones, run by gradlib's own kernels."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core import device_rules
from gradlib.core.device_rules import function_on_device, on_device
from gradlib.core.dispatch import dispatch, slow_path
from gradlib.core.op import REGISTRY, CompiledOp
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

CHAINS = {
    "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "sub": lambda x, y: x - y, "square": lambda x, y: x**2 + y,
    "sin": lambda x, y: gradlib.sin(x) * y, "tanh": lambda x, y: gradlib.tanh(x + y), "exp": lambda x, y: gradlib.exp(-x) * y,
    "sigmoid": lambda x, y: gradlib.sigmoid(x) + y, "row": lambda x, y: x * y[0], "sum": lambda x, y: (x * x).sum(-1) * y[:, 0],
}  # fmt: skip


def gradients(case: Any, device: str) -> list[Any]:
    x, y = (gradlib.tensor(np.linspace(a, 2, 12).reshape(3, 4), device=device, requires_grad=True) for a in (-1, 0.5))
    case(x, y).sum().backward()
    return [x.grad.cpu().numpy(), y.grad.cpu().numpy()]


@pytest.mark.parametrize("name", CHAINS)
def test_gradients_are_those_of_the_host(name):
    for found, expected in zip(gradients(CHAINS[name], "cuda"), gradients(CHAINS[name], "cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_operators_of_rules_launch_own_kernels(monkeypatch):
    """The operators that CuPy's arrays have are asked for nothing."""
    asked = []
    theirs = {name: (name, lambda *args, name=name: asked.append(name)) for name, _ in device_rules._BINARY.values()}
    monkeypatch.setattr(device_rules, "_BINARY", {kind: theirs[name] for kind, (name, _) in device_rules._BINARY.items()})
    device_rules.operators.cache_clear()
    try:
        x = cupy.linspace(0.5, 2, 6).reshape(2, 3)
        rules = on_device(REGISTRY["div"])
        assert cupy.allclose(rules["other"](x, x + 1, x[:1]), -(x * (((x + 1) / x[:1]) / x[:1])))
        assert cupy.allclose(on_device(REGISTRY["tanh"])["input"](x, x), x * (1 - x * x))
        assert not asked
    finally:
        device_rules.operators.cache_clear()


def test_what_an_operation_overwrites_is_no_copy_in_another_order():
    """Whatever the argument is called that lets it do so."""
    given = []

    def grown(xp: Any, input: Any, amount: Any, reuse: bool = False) -> Any:
        made = input if reuse else input.copy()
        made += amount
        return made

    def kernel(input: Any, amount: Any, reuse: bool) -> None:
        given.append(input)

    options: dict[str, Any] = {"overwrites": "reuse", "kernels": {"out": kernel}}
    op = CompiledOp(grown, "linear", {"input": lambda g: g, "amount": lambda g: g}, **options)
    for operation in (op.call, op.value_on_device):
        x, y = cupy.ones((2, 3)).T, cupy.ones((3, 2))
        assert operation(x, y, True) is x
        assert (x == 2).all()
    assert [each.flags.c_contiguous for each in given] == [False, False]


SLOW = {
    "softmax": (-1, None), "sort": (-1, False), "argsort": (-1, False, False), "det": (), "triu": (1,), "max": (0, False),
    "argmax": (None, True), "prod": (0, False, None), "sum": (None, False, None), "lerp": (2.0, 0.5), "pow": (2,),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_the_slow_path_asks_the_declared_kernel(name, monkeypatch):
    """With the value gone: under hooks for saved tensors, which the fast path leaves to it, and of arrays alone."""

    def refuse(xp: Any, *args: Any) -> Any:
        raise AssertionError("the value is asked")

    def values(of: Any) -> list[Any]:
        return [each.tolist() for each in (of if isinstance(of, tuple) else (of,))]

    op, array = REGISTRY[name], cupy.asarray([[2.0, 1.0], [3.0, 5.0]])
    x = gradlib.as_tensor(array.copy()).requires_grad_()
    expected = values(dispatch(op, (x, *SLOW[name])))
    compiled = ("packing", "value_on_device")  # of the value, which is another for this test
    for each in compiled:
        monkeypatch.delitem(vars(op), each, raising=False)
    monkeypatch.setattr(op, "value", refuse)
    try:
        with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            assert values(dispatch(op, (x, *SLOW[name]))) == expected
        assert values(slow_path(op, (array, *SLOW[name]))) == expected
    finally:
        for each in compiled:
            vars(op).pop(each, None)


def of_lengths(x: Any, several: tuple[Any, ...]) -> Any:
    return x + x if len(several) == 2 and len(several) + 1 > x.ndim else x


def test_operators_beside_numbers_that_can_be_seen_stay_those_of_python():
    made = function_on_device(of_lengths)
    assert [name for name in made.__code__.co_names if name.startswith(device_rules._MARK)] == ["_on_device_array", "_on_device_add"]


def test_rules_that_cannot_be_read_stay_as_they_are(monkeypatch):
    op = REGISTRY["mul"]
    assert inspect.unwrap(on_device(op)["input"]).__code__ is not op.rules["input"].__code__
    monkeypatch.setattr(inspect, "getsource", lambda function: (_ for _ in ()).throw(OSError("no source")))
    assert {name: inspect.unwrap(rule) for name, rule in on_device(op).items()} == op.rules


def test_values_and_helpers_launch_own_kernels(monkeypatch):
    """Also what an operation calls in other modules, and what it writes in place."""
    x = gradlib.tensor(np.linspace(-2, 2, 12).reshape(3, 4), device="cuda", dtype=gradlib.float32)
    cases = [gradlib.sigmoid, lambda x: x.softmax(-1), lambda x: x.var(-1), lambda x: gradlib.nn.functional.gelu(x)]
    before = [case(x).tolist() for case in cases]
    for name in ("exp", "subtract", "multiply", "divide", "true_divide", "add", "negative", "reciprocal", "square"):
        monkeypatch.setattr(cupy, name, None)
    assert [case(x).tolist() for case in cases] == before


def test_a_function_of_another_module_sees_the_names_that_are_there_when_it_first_runs(monkeypatch):
    assert function_on_device(_plus_two)(cupy.ones(2)).tolist() == [3, 3]
    monkeypatch.setitem(globals(), "_ADDED", 5)
    assert function_on_device(_plus_added)(cupy.ones(2)).tolist() == [6, 6]


_ADDED = 2


def _plus_two(x: Any) -> Any:
    return x + 2


def _plus_added(x: Any) -> Any:
    x += _ADDED
    return x


def test_every_lambda_in_a_declaration_is_found():
    """Under the parameter whose rule it is, with that rule's parameters."""
    for op in (each for each in REGISTRY.values() if each.value.__module__.startswith("gradlib.")):
        for name, made in on_device(op).items():
            rule, declared = inspect.unwrap(made), op.rules[name]
            if getattr(declared, "__name__", "") == "<lambda>" and declared.__closure__ is None:
                assert rule.__code__.co_filename.endswith(", on a device"), (op, name)
                assert inspect.signature(rule) == inspect.signature(declared)


@pytest.mark.parametrize("operation", [gradlib.std, gradlib.var, gradlib.sum])
def test_a_scalar_of_numpy_is_no_array_of_a_device(operation: Any) -> None:
    """The gradient of what has no dimensions, of half precision on the CPU, where CuPy is loaded."""
    x = gradlib.tensor([1.0, 3.0], dtype=gradlib.float16, device="cpu", requires_grad=True)
    made = operation(x)
    (made + made * 2).backward()
    assert x.grad.device.type == "cpu"
