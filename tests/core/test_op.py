"""The declaration: what it refuses, what it keeps, what it names."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad, gradcheck, gradgradcheck
from gradlib.core import written
from gradlib.core.compile_node import node_name, on_arrays, rule_applied
from gradlib.core.compile_path import source_of, source_of_call
from gradlib.core.declaration import Joint, Op
from gradlib.core.op import REGISTRY, CompiledOp
from gradlib.core.variant import ON_DEVICE


def cubed(xp: Any, input: Any, scale: float = 1.0) -> Any:
    """input cubed, times scale."""
    return scale * input * input * input


def declare(**rules: Any) -> Op:
    return CompiledOp(cubed, "elementwise", rules)


def test_a_rule_that_names_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the rule for 'input' names \['weight'\]"):
        declare(input=lambda g, weight: g * weight)
    with pytest.raises(ValueError, match="the rule for 'other'"):
        declare(other=lambda g: g)
    with pytest.raises(ValueError, match="kind is one of"):
        Op(cubed, "wavy", {})
    with pytest.raises(TypeError, match="premote"):
        Op(cubed, "elementwise", {}, premote="same")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="overwrites names an argument that is False"):
        Op(cubed, "elementwise", {}, overwrites="scale")


def test_a_node_keeps_what_its_rule_names_and_nothing_else() -> None:
    op = declare(input=lambda g, input, scale: g * input * input * (3 * scale))
    x = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
    y = op.call(x, 2.0)
    assert y.grad_fn.name() == "CubedBackward0"
    assert y.grad_fn.saved_names == ("input", "scale")
    assert y.grad_fn._saved_input is x
    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_scale == 2.0
    with pytest.raises(AttributeError, match="no attribute '_saved_other'"):
        _ = y.grad_fn._saved_other
    assert gradcheck(lambda x: op.call(x, 2.0), [x])


def scaled(xp: Any, factor: Any, values: Any) -> Any:
    """Each of values times factor."""
    return tuple(factor * value for value in values)


def scaled_rule(g: Any, factor: Any, values: Any, first: Any) -> Any:
    """By factor where it wants a gradient, for which alone values and the first result are asked for, and by each value."""
    by_factor = None if first is None else sum(each * value for each, value in zip(g, values, strict=True) if each is not None)
    return [by_factor, *(None if each is None else each * factor for each in g)]


def joint(**given: Any) -> Op:
    rules = {"factor": Joint(needs=("values", "first")), "values": scaled_rule} | given
    return CompiledOp(scaled, "other", rules, sequence="values", outputs=("first", "second"), complex="none")


def test_a_joint_rule_gives_every_gradient_and_what_one_input_alone_needs_is_kept_for_it_alone() -> None:
    op = joint()
    x, y, factor = (gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True) for _ in range(3))
    node = op.call(factor.detach(), [x, y])[0].grad_fn
    assert node._saved_values is node._saved_first is None
    node = op.call(factor, [x.detach(), y])[0].grad_fn
    assert node._saved_values[1] is y
    assert (node._saved_first == x * factor).all()
    assert gradcheck(lambda f, x, y: op.call(f, [x, y]), [factor, x, y])
    assert gradcheck(lambda x, y: op.call(2.0, [x, y]), [x, y])
    assert gradgradcheck(lambda f, x, y: op.call(f, [x, y]), [factor, x, y])


@pytest.mark.parametrize("kind", ["linear", "other"])
def test_tangents_of_what_is_linear_but_in_a_joint_input(kind: str) -> None:
    op = CompiledOp(scaled, kind, joint().rules, sequence="values", outputs=("first", "second"), complex="none")
    x, y, factor, way = (gradlib.tensor(values) for values in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [0.5, 0.25]))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, way)
        tangents = [forward_ad.unpack_dual(each).tangent for each in op.call(factor, [dual, y])]
        assert (tangents[0] == way * factor).all()
        assert tangents[1] is None or (tangents[1] == 0).all()
        tangents = [forward_ad.unpack_dual(each).tangent for each in op.call(forward_ad.make_dual(factor, way), [dual, y])]
        assert (tangents[0] == way * factor + x * way).all()
        assert (tangents[1] == y * way).all()


def test_what_was_not_kept_may_be_written() -> None:
    op = joint()
    x, y, factor = (gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True) for _ in range(3))
    first, second = op.call(2.0, [x, y])
    first.mul_(3)
    (first + second).sum().backward()
    assert (x.grad == 6).all()
    first, second = op.call(factor, [x, y])
    first.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (first + second).sum().backward()


def test_a_node_of_a_joint_rule_that_holds_no_tensor_runs_again() -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    first, second = joint().call(2.0, [x, x])
    for _ in range(2):
        gradlib.autograd.backward([first, second], [gradlib.ones(2), gradlib.ones(2)])
    assert (x.grad == 8).all()
    first, second = joint().call(gradlib.tensor(2.0), [x, x])
    gradlib.autograd.backward(first, gradlib.ones(2))
    with pytest.raises(RuntimeError, match="a second time"):
        gradlib.autograd.backward(first, gradlib.ones(2))


def test_a_joint_without_a_rule_to_join_is_refused() -> None:
    with pytest.raises(ValueError, match="Joint stands for each tensor before the list"):
        Op(scaled, "other", {"factor": Joint()})
    with pytest.raises(ValueError, match="needs what the list's rule names"):
        joint(factor=Joint(needs=("second",)))


def test_an_input_is_kept_only_when_another_needs_it() -> None:
    a = gradlib.ones(3, requires_grad=True)
    b = gradlib.ones(3)
    node = (a * b).grad_fn
    assert node._saved_other is b
    assert node._saved_input is None
    assert (a + b).grad_fn.saved == ()


def test_shapes_and_dtypes_can_be_kept_without_the_array() -> None:
    op = declare(input=lambda g, input_shape, input_dtype: g * float(len(input_shape)))
    y = op.call(gradlib.ones(2, 3, requires_grad=True))
    assert y.grad_fn._saved_input_shape == (2, 3)
    assert y.grad_fn._saved_input_dtype == gradlib.float32


def test_names_of_the_written_texts_are_no_arguments() -> None:
    def scaled(xp: Any, self: Any) -> Any:
        """Twice self."""
        return self * 2

    with pytest.raises(ValueError, match=r"op scaled: an argument cannot be called \['self'\]"):
        Op(scaled, "linear", {"self": lambda g: g * 2})

    def turned(xp: Any, input: Any, left: bool) -> Any:
        """Of which the texts call a function by the name of the last argument."""
        return input

    with pytest.raises(ValueError, match=r"op turned: an argument cannot be called \['left'\]"):
        Op(turned, "linear", {"input": lambda g: g})


def test_every_operation_has_a_docstring_and_a_kind() -> None:
    assert not [name for name, op in REGISTRY.items() if not op.call.__doc__]
    assert all(op.kind != "none" for op in REGISTRY.values() if op.rules)


def test_node_names_are_torchs() -> None:
    assert node_name("mul") == "MulBackward0"
    assert node_name("log_softmax") == "LogSoftmaxBackward0"


def test_the_written_code_can_be_read() -> None:
    text = source_of_call(REGISTRY["mul"])
    assert text.startswith("def mul(input, other, *, out=None):")
    assert "_ufunc(a_input, a_other)" in text


def test_plain_rules_are_written_out() -> None:
    """Where they are called, and they mean the same there."""
    written = set()
    for op in REGISTRY.values():
        for tensor, rule in op.rules.items():
            text = rule_applied(op, tensor, "run") if tensor not in op.joint else "rule_"
            if not text.startswith("rule_"):
                values = {name: np.array([x]) for name, x in zip(op.rule_params[tensor], (3.0, 7.0, 11.0, 13.0), strict=False)}
                assert eval(text, {f"on_arrays_{tensor}": on_arrays(rule)}, values) == rule(**values)
                written.add((op.name, text))
    assert {("neg", "-g"), ("mul", "g * other"), ("div", "g / other"), ("add", "g"), ("exp", "g * out")} <= written
    assert {("sin", "g * on_arrays_input(input)"), ("cos", "-(g * on_arrays_input(input))")} <= written
    assert rule_applied(REGISTRY["rsqrt"], "input", "run").startswith("rule_input(")
    assert rule_applied(REGISTRY["sin"], "input", "run_recorded") == "rule_input(g, input)"


def test_tools_see_the_written_code() -> None:
    """``inspect``, tracebacks and the debugger, before and after the first call that compiles it."""
    for _ in range(2):
        assert inspect.getsource(gradlib.rsqrt).startswith("def rsqrt(input, *, out=None):")
        assert "_node.edges = (n_input, n_other,)" in inspect.getsource(gradlib.Tensor.__mul__)
        y = gradlib.rsqrt(gradlib.ones(2, requires_grad=True)).sum()
    y.backward()
    assert "rule_input" in inspect.getsource(type(y.grad_fn).run_and_free)
    assert str(inspect.signature(gradlib.sum)) == "(input, dim=None, keepdim=False, *, dtype=None, out=None, **aliases)"


@pytest.mark.parametrize("call", [lambda x: x @ x, lambda x: x * gradlib.ones(2), lambda x: gradlib.sum(x, 5), lambda x: gradlib.exp("a")])
def test_an_error_has_one_traceback(call: Callable[[Any], Any]) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError)) as raised:
        call(gradlib.ones(2, 3, requires_grad=True))
    text = "".join(traceback.format_exception(raised.type, raised.value, raised.tb))
    assert text.count("Traceback (most recent call last)") == 1


@pytest.mark.host
def test_nothing_is_compiled_before_it_is_called() -> None:
    code = "import linecache, gradlib; print(sum(len(e) > 1 for f, e in linecache.cache.items() if f.startswith('gradlib, written for')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 0


def test_errors_come_from_the_general_path() -> None:
    with pytest.raises(TypeError, match=r"mul\(\): argument 'other' \(position 2\) must be Tensor or number, not str"):
        gradlib.mul(gradlib.ones(2), "a")
    with pytest.raises(RuntimeError, match=r"mul: the shapes .* input \[2\], other \[3\]"):
        gradlib.ones(2) * gradlib.ones(3)


@pytest.mark.parametrize("kind", [NameError, AttributeError])
def test_what_fails_on_the_fast_path_alone_is_seen(kind: type[Exception], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing name always, any other error where tests ask for it: else the call succeeds on the slow path, if slowly."""
    runs: list[Any] = []

    def once_wrong(xp: Any, input: Any) -> Any:
        """input, but for the first run."""
        runs.append(input)
        if len(runs) == 1:
            raise kind("missing")
        return input

    x = gradlib.ones(2, device=device, requires_grad=True)
    for strict in (False, True):
        monkeypatch.setattr(written, "STRICT", strict)
        op = CompiledOp(once_wrong, "elementwise", {"input": lambda g: g})
        for call in (op.call, lambda x, op=op: forward_ad_of(op.call, x.detach()), lambda x, op=op: op.call(x._array)):
            runs.clear()
            if strict or kind is NameError:
                with pytest.raises(kind, match="missing"):
                    call(x)
                assert len(runs) == 1
            else:
                assert call(x).tolist() == [1, 1]


def forward_ad_of(function: Callable[[Any], Any], x: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, gradlib.ones_like(x)))).tangent


def test_out_receives_the_result_outside_any_graph() -> None:
    out = gradlib.empty(2)
    assert gradlib.mul(gradlib.ones(2), 3.0, out=out) is out
    assert out.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        gradlib.mul(gradlib.ones(2, requires_grad=True), 3.0, out=out)
    with pytest.raises(RuntimeError, match=r"shape \[2\]"):
        gradlib.mul(gradlib.ones(3), 3.0, out=out)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_out_of_integers_does_not_drop_a_gradient(name: str) -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    out = getattr(gradlib, name)(gradlib.tensor([1, 2]), 0)
    for named in ({}, {"dtype": gradlib.int64}):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            getattr(gradlib, name)(x, 0, out=gradlib.zeros_like(out), **named)
    with gradlib.no_grad():
        assert getattr(gradlib, name)(x, 0, out=gradlib.zeros_like(out)).tolist() == out.tolist()


@pytest.mark.host
def test_the_plain_path_on_a_device_asks_where_every_operand_lies() -> None:
    """CuPy itself may compute across devices, where these reach each other's memory."""
    texts = {op: source_of(op, ON_DEVICE) for op in REGISTRY.values()}
    plain = {op: text for op, text in texts.items() if "blank()" in text or "wrap_several" in text}
    assert len(plain) > 150
    for op, text in plain.items():
        arrays = ["_array" if name == op.sequence else f"a_{name}" for name in op.tensors]
        assert all(f"type({array}) is cupy_array and {array}.data.device_id == current_device()" in text for array in arrays), op.name


def test_numpys_argument_names() -> None:
    x = gradlib.arange(6.0).reshape(2, 3)
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.sum(axes=1)


def test_a_tensor_contains_its_values() -> None:
    x = gradlib.arange(6).reshape(3, 2)
    assert 5 in x
    assert gradlib.tensor(4) in x
    assert 6 not in x


def test_values_can_be_read_where_nothing_is_recorded(device: str) -> None:
    x = gradlib.ones(2, requires_grad=True)
    if device == "cuda":
        with pytest.raises(TypeError, match="can't convert cuda:0 tensor to numpy"):
            x.numpy()
    else:
        with pytest.raises(RuntimeError, match="requires grad"):
            x.numpy()
        with gradlib.no_grad():
            np.testing.assert_array_equal(x.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(x.numpy(force=True), [1.0, 1.0])


def test_backward_of_no_tensor_says_so() -> None:
    with pytest.raises(TypeError, match="must be a Tensor, got str"):
        gradlib.autograd.backward("a")


@pytest.mark.parametrize("values", [[65504.0, 1.0], [6e-8, 2.0], [np.inf, np.nan], [1.5]])
def test_half_types_are_printed_without_a_warning(values: list[float]) -> None:
    """NumPy compares a float16 with numbers that it cannot hold."""
    for dtype in ("float16", "bfloat16"):
        shown = repr(gradlib.tensor(values, dtype=dtype))
        assert shown.startswith("tensor([")
        assert dtype in shown
    assert repr(gradlib.tensor([1.5, 200.0], dtype="float16")).startswith("tensor([  1.5000, 200.0000]"), "as torch prints it"


@pytest.mark.parametrize("name", ["add", "maximum", "pow", "atan2", "fmod", "hypot", "lerp", "addcmul", "logaddexp", "eq"])
def test_none_is_no_operand_of_an_empty_tensor_either(name) -> None:
    x = gradlib.zeros(0)
    others = [x] * {"lerp": 1, "addcmul": 1}.get(name, 0)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument .* must be Tensor or number, not NoneType"):
        getattr(gradlib, name)(x, *others, None)
