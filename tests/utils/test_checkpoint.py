"""Activation checkpointing: same gradients, nothing kept, and what happens when the second call differs. Expected counts are torch's."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import func
from gradlib.autograd import Function, forward_ad, grad
from gradlib.backend.array import device_index
from gradlib.core.random import default_generator
from gradlib.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from tests.device import two_devices
from tests.values import host


class Exp(Function):
    """exp, saving its output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert ctx.saved_tensors[0] is not None
        return g * ctx.saved_tensors[1]


calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def block(x: gradlib.Tensor, w: gradlib.Tensor) -> gradlib.Tensor:
    calls.append("block")
    y = (x @ w).tanh()
    y = y * y.exp()
    return (y @ w).sin()


def inputs() -> tuple[gradlib.Tensor, gradlib.Tensor]:
    x = gradlib.linspace(0.1, 1, 4, dtype=gradlib.float64).requires_grad_()
    return x, gradlib.linspace(-1, 1, 16, dtype=gradlib.float64).reshape(4, 4).requires_grad_()


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(host(a), host(b), rtol=1e-12)


def test_same_value_and_gradients_from_one_more_call() -> None:
    x, w = inputs()
    y = checkpoint(block, x, w, use_reentrant=False)
    found = grad(y.sum(), [x, w])
    assert len(calls) == 2
    plain = block(x, w)
    same([y], [plain])
    same(found, grad(plain.sum(), [x, w]))


def test_keeps_only_the_inputs() -> None:
    x, w = inputs()
    kept: list[weakref.ref[Any]] = []

    def part(x: gradlib.Tensor, w: gradlib.Tensor) -> gradlib.Tensor:
        a = x @ w
        b = a.tanh()
        kept.extend([weakref.ref(a), weakref.ref(b)])
        return b.exp() * b

    gc.collect()
    gc.disable()
    try:
        y = checkpoint(part, x, w)
        assert [ref() for ref in kept] == [None, None]
        frame = weakref.ref(y.grad_fn.saved.values[0].unpack.__self__)
        y.sum().backward(retain_graph=True)
        assert not frame().walks
        del y
        assert frame() is None
    finally:
        gc.enable()


def test_each_backward_calls_again() -> None:
    x, w = inputs()
    y = checkpoint(block, x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_second_derivatives() -> None:
    x, w = inputs()

    def second(y: gradlib.Tensor) -> Any:
        (g,) = grad(y.square().sum(), x, create_graph=True)
        return grad(g.sin().sum(), [x, w])

    same(second(checkpoint(block, x, w)), second(block(x, w)))


def test_nested_checkpoints_run_again() -> None:
    x, w = inputs()

    def outer(x: gradlib.Tensor, w: gradlib.Tensor, inner: Any) -> gradlib.Tensor:
        calls.append("outer")
        return inner(block, x.cos(), w) * x.sin()

    found = grad(checkpoint(outer, x, w, checkpoint).sum(), [x, w])
    assert calls == ["outer", "block", "outer", "block", "block"]
    same(found, grad(outer(x, w, lambda f, *args: f(*args)).sum(), [x, w]))


@pytest.mark.parametrize("early_stop", [True, False])
def test_backward_inside(early_stop: bool) -> None:
    x, _ = inputs()

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        y = x.exp()
        z = y.sin()
        (d,) = grad(z.sum(), y, create_graph=True)
        return d * z

    with set_checkpoint_early_stop(early_stop):
        y = checkpoint(part, x)
    same(grad(y.sum(), x), grad(part(x).sum(), x))


def test_early_stop_ends_the_second_call() -> None:
    x, _ = inputs()

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        y = x.exp()
        calls.append("after")
        return y + 1

    checkpoint(part, x).sum().backward()
    assert len(calls) == 1
    checkpoint(part, x, early_stop=False).sum().backward()
    assert len(calls) == 3


def test_views_writes_and_custom_functions_inside() -> None:
    x, _ = inputs()

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        y = Exp.apply(x.sin()) * 2
        v = y[1:]
        w = v * 3
        y[0].mul_(3)
        y.tanh_()
        return (w * w).sum() + (v * v).sum()

    same(grad(checkpoint(part, x), x), grad(part(x), x))


def test_keyword_arguments_and_several_results() -> None:
    x, _ = inputs()
    a, b = checkpoint(lambda x, scale: (x.exp() * scale, x.sin()), x, scale=2.0)
    same(grad((a * b).sum(), x), grad((x.exp() * 2 * x.sin()).sum(), x))


def test_random_numbers_are_drawn_again() -> None:
    x, _ = inputs()

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        return x * gradlib.rand(4, dtype=gradlib.float64)

    stream = default_generator(device_index(x._array))
    y = checkpoint(part, x)
    following = stream.get_state().tolist()
    (g,) = grad(y.sum(), x)
    same([g], [y / x])
    assert stream.get_state().tolist() == following
    y = checkpoint(part, x, preserve_rng_state=False)
    (g,) = grad(y.sum(), x)
    assert not np.allclose(host(g), host(y / x))


@two_devices
def test_across_devices_with_random_numbers_on_each() -> None:
    x, _ = inputs()
    far = gradlib.linspace(1, 2, 4, dtype=gradlib.float64, device="cuda:1").requires_grad_()

    def part(x: gradlib.Tensor, far: gradlib.Tensor) -> gradlib.Tensor:
        there = far * gradlib.rand_like(far) * x.to(far.device)
        return there.to(x.device) * gradlib.rand(4, dtype=gradlib.float64)

    y = checkpoint(part, x, far)
    found = grad(y.sum(), [x, far])
    same(found, [y / x, y / far.to(x.device)])
    assert [g.device for g in found] == [x.device, far.device]


def test_contexts_stand_around_both_calls() -> None:
    x, _ = inputs()

    @contextlib.contextmanager
    def noting(text: str) -> Any:
        calls.append(text)
        yield

    checkpoint(gradlib.exp, x, context_fn=lambda: (noting("first"), noting("second"))).sum().backward()
    assert calls == ["first", "second"]


def test_without_recording_it_is_a_plain_call() -> None:
    x, w = inputs()
    with gradlib.no_grad():
        assert not checkpoint(block, x, w).requires_grad
    assert checkpoint(block, x.detach(), w.detach()).grad_fn is None


def test_reading_a_saved_tensor_outside_backward() -> None:
    x, _ = inputs()
    y = checkpoint(gradlib.exp, x)
    saved = y.grad_fn._saved_result
    assert saved.grad_fn is y.grad_fn
    same([saved], [y])


def test_within_forward_mode_and_func() -> None:
    x, w = inputs()
    x = x.detach()

    def plain(x: gradlib.Tensor) -> gradlib.Tensor:
        return (block(x, w.detach()).softmax(0) * x.exp()).cumprod(0).logsumexp(0)

    def kept_small(x: gradlib.Tensor) -> gradlib.Tensor:
        return checkpoint(plain, x)

    with forward_ad.dual_level():
        d = forward_ad.make_dual(x.clone().requires_grad_(), gradlib.ones_like(x))
        found, expected = (forward_ad.unpack_dual(grad(f(d), d)[0]).tangent for f in (kept_small, plain))
    same([found], [expected])
    same([func.hessian(kept_small)(x)], [func.hessian(plain)(x)])
    rows = gradlib.stack([x, x * 2])
    same([func.vmap(func.grad(kept_small))(rows)], [func.vmap(func.grad(plain))(rows)])


def test_arguments_that_were_written_are_refused() -> None:
    x, _ = inputs()
    b = x * 1
    y = checkpoint(gradlib.exp, b)
    with gradlib.no_grad():
        b.mul_(2)
    with pytest.raises(RuntimeError, match=r"an argument of checkpoint, of shape \[4\], was written"):
        y.sum().backward()


def test_what_was_saved_and_then_written_inside_is_refused_as_without_checkpoint() -> None:
    x, _ = inputs()

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        y = x.exp()
        z = y.sin()
        y.mul_(2)
        return z * y.tanh()

    for y in (part(x), checkpoint(part, x)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def first_and_then(first: Any, then: Any) -> Any:
    """A function that does one thing when it is first called and another afterwards."""

    def part(x: gradlib.Tensor) -> gradlib.Tensor:
        calls.append("part")
        return (first if len(calls) == 1 else then)(x)

    return part


def test_a_second_call_that_saves_fewer() -> None:
    x, _ = inputs()
    y = checkpoint(first_and_then(lambda x: x.exp().sin(), gradlib.exp), x)
    with pytest.raises(CheckpointError, match=r"A different number of tensors was saved .*\n.*forward: 2\n.*recomputation: 1"):
        y.sum().backward()


def test_a_second_call_that_saves_more() -> None:
    x, _ = inputs()
    y = checkpoint(first_and_then(gradlib.exp, lambda x: x.exp().sin()), x, early_stop=False)
    with pytest.raises(CheckpointError, match="save more tensors"):
        y.sum().backward()


def test_a_second_call_that_saves_others() -> None:
    x, _ = inputs()
    other = first_and_then(lambda x: x.exp().sum(), lambda x: x.reshape(2, 2).exp().sum())
    y = checkpoint(other, x)
    with pytest.raises(CheckpointError, match=rf"position 0: saved \[4\] float64 on {x.device}, recomputed \[2, 2\] float64 on {x.device}"):
        y.backward()
    calls.clear()
    y = checkpoint(first_and_then(gradlib.exp, lambda x: (x * 2).exp()), x, determinism_check="none")
    same(grad(y.sum(), x), [(x * 2).exp()])


@pytest.mark.parametrize("everywhere", [True, False])
def test_debug_lists_the_operations(everywhere: bool) -> None:
    x, _ = inputs()
    with set_checkpoint_debug_enabled(True if everywhere else None):
        y = checkpoint(first_and_then(lambda x: x.exp().sin(), gradlib.tanh), x, debug=not everywhere)
    with pytest.raises(CheckpointError, match="Operations of the first call: exp sin\nOperations of the second call: tanh"):
        y.sum().backward()


def test_wrong_arguments_are_refused() -> None:
    x, w = inputs()
    with pytest.raises(ValueError, match="use_reentrant=True is not offered"):
        checkpoint(block, x, w, use_reentrant=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(block, x, w, determinism_check="strict")
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        checkpoint(block, x, w, debug=True, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))
    with pytest.raises(TypeError):
        checkpoint(block, x)

    def raises(x: Any) -> Any:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        checkpoint(raises, x)
    with pytest.raises(RuntimeError, match="swallowed an exception"):
        checkpoint(raises, x, context_fn=lambda: (contextlib.suppress(KeyError), contextlib.nullcontext()))
    x.exp().sum().backward()  # no hooks are left behind


class TestSequential:
    def parts(self) -> list[Any]:
        def part(name: str) -> Any:
            def call(x: gradlib.Tensor) -> gradlib.Tensor:
                calls.append(name)
                return getattr(x, name)()

            return call

        return [part(name) for name in ("exp", "sin", "tanh", "cos", "sin")]

    def test_all_but_the_last_segment_are_called_again(self) -> None:
        x, _ = inputs()
        found = grad(checkpoint_sequential(self.parts(), 2, x).sum(), x)
        assert calls == ["exp", "sin", "tanh", "cos", "sin", "exp", "sin"]
        same(found, grad(x.exp().sin().tanh().cos().sin().sum(), x))

    def test_more_segments_than_functions(self) -> None:
        with pytest.raises(ValueError, match="5 functions cannot be cut into 6 segments"):
            checkpoint_sequential(self.parts(), 6, inputs()[0])
