"""autograd.Function in forward mode: ``jvp``, what it may read, and what it must return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, forward_ad
from gradlib.autograd.function import FunctionMeta
from gradlib.core.tensor import Tensor
from tests.values import host, leaf, ones


def function(jvp: Callable[..., Any], forward: Callable[..., Any] | None = None) -> type[Function]:
    forward = forward or (lambda ctx, x: x * 2)
    methods = {"jvp": staticmethod(jvp), "forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: g)}
    return FunctionMeta("Custom", (Function,), methods)


def tangents(call: Callable[..., Any], *pairs: tuple[Any, Tensor | None]) -> list[Any]:
    """The tangents of a call's results, from values with a tangent or None."""
    with forward_ad.dual_level():
        made = call(*[v if t is None else forward_ad.make_dual(v, t) for v, t in pairs])
        found = [forward_ad.unpack_dual(m).tangent for m in (made if isinstance(made, tuple) else (made,))]
    return [t if t is None else t.tolist() for t in found]


def test_the_users_formula_is_used_and_not_forwards_operations() -> None:
    assert tangents(function(lambda ctx, t: t * 7).apply, (leaf(), ones(3))) == [[7, 7, 7]]


def test_forward_may_leave_for_numpy() -> None:
    made = function(lambda ctx, t: t * ctx.saved_tensors[0], lambda ctx, x: (ctx.save_for_forward(x.detach() * 2), _squared(x))[1])
    assert tangents(made.apply, (leaf(), ones(3))) == [[2, 4, 6]]


def _squared(x: Tensor) -> Tensor:
    return gradlib.tensor(host(x) ** 2)


def test_arguments_without_a_tangent() -> None:
    seen: list[Any] = []

    def jvp(ctx: Any, *given: Any) -> Any:
        seen.append([g if g is None else g.tolist() for g in given])
        return given[0]

    def sparing(ctx: Any, *args: Any) -> Any:
        ctx.set_materialize_grads(False)
        return args[0] * 2

    for forward in (lambda ctx, *args: args[0] * 2, sparing):
        tangents(function(jvp, forward).apply, (leaf(), ones(3)), (leaf(4.0), None), (5, None), (gradlib.tensor([1]), None))
    assert seen == [[[1, 1, 1], [0], None, None], [[1, 1, 1], None, None, None]]


def test_what_was_saved_for_each_direction() -> None:
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, None)
            ctx.factor = 3
            return x * 3

        @staticmethod
        def jvp(ctx: Any, t: Tensor) -> Tensor:
            seen.append(("jvp", len(ctx.saved_tensors)))
            return t * ctx.factor

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            seen.append(("backward", len(ctx.saved_tensors)))
            return g * ctx.factor

    x = leaf()
    with forward_ad.dual_level():
        y = Both.apply(forward_ad.make_dual(x, ones(3)))
        assert forward_ad.unpack_dual(y).tangent.tolist() == [3, 3, 3]
        y.sum().backward()
    assert seen == [("jvp", 2), ("backward", 1)]
    assert x.grad.tolist() == [3, 3, 3]


def test_with_setup_context_and_under_no_grad() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(x: Tensor, k: float) -> Tensor:
            return x * k

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.k = inputs[1]

        @staticmethod
        def jvp(ctx: Any, t: Tensor, _: None) -> Tensor:
            return t * ctx.k

    with gradlib.no_grad():
        assert tangents(Scaled.apply, (leaf(), ones(3)), (4.0, None)) == [[4, 4, 4]]


def test_the_tangent_is_differentiable() -> None:
    """Reverse over forward: the derivative of x squared in the direction of ones is 2 x, whose gradient is 2."""
    made = function(lambda ctx, t: t * 2 * ctx.saved_tensors[0], lambda ctx, x: (ctx.save_for_forward(x), x * x)[1])
    x = leaf()
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(made.apply(forward_ad.make_dual(x, ones(3)))).tangent
    (g,) = gradlib.autograd.grad(tangent.sum(), x)
    assert g.tolist() == [2, 2, 2]


def test_several_results() -> None:
    made = function(lambda ctx, t: (t * 2, None, None), lambda ctx, x: (x * 2, x.long(), "s"))
    with forward_ad.dual_level():
        first, second, third = made.apply(forward_ad.make_dual(leaf(), ones(3)))
        assert forward_ad.unpack_dual(first).tangent.tolist() == [2, 2, 2]
        assert forward_ad.unpack_dual(second).tangent is None
    assert third == "s"


def test_views_and_inputs_as_they_are() -> None:
    for forward in (lambda ctx, x: x, lambda ctx, x: x.view_as(x)):
        assert tangents(function(lambda ctx, t: t.view_as(t), forward).apply, (leaf(), ones(3))) == [[1, 1, 1]]
        with pytest.raises(RuntimeError, match="returning a view"):
            tangents(function(lambda ctx, t: t * 2, forward).apply, (leaf(), ones(3)))


def test_written_in_place() -> None:
    def double(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    assert tangents(function(lambda ctx, t: t.mul_(2), double).apply, (leaf() * 1, ones(3))) == [[2, 2, 2]]
    for wrong in (lambda ctx, t: t * 2, lambda ctx, t: t):  # another tensor, and the same as it was
        with pytest.raises(RuntimeError, match="must modify the gradient inplace and return it as-is"):
            tangents(function(wrong, double).apply, (leaf() * 1, ones(3)))


@pytest.mark.parametrize("make", [lambda a: gradlib.ones(2) + a, lambda a: a.clone(), lambda a: gradlib.zeros(2).copy_(a)])
def test_a_tangent_that_jvp_writes_is_no_other_tensors(make: Callable[[Tensor], Tensor]) -> None:
    """The sum with a constant has the tangent of its other term, as the same memory."""

    def double(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    custom = function(lambda ctx, t: t.mul_(2), double)
    with forward_ad.dual_level():
        a = forward_ad.make_dual(gradlib.ones(2), gradlib.tensor([3.0, 4.0]))
        made = make(a)
        part = made[:1]
        custom.apply(part)
        found = [forward_ad.unpack_dual(each).tangent.tolist() for each in (a, made, part)]
    assert found == [[3, 4], [6, 4], [6]]


def test_without_a_tangent_jvp_is_not_asked() -> None:
    class Backward(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

    assert tangents(Backward.apply, (leaf(), None)) == [None]
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        tangents(Backward.apply, (leaf(), ones(3)))


@pytest.mark.parametrize(
    ("jvp", "says"),
    [
        (lambda ctx, t: (t, t), r"Custom.jvp returned an invalid number of forward gradients \(expected 1 but got 2\)"),
        (lambda ctx, t: 5, "Custom.jvp returned int for output 0"),
        (lambda ctx, t: t[:2], r"Custom.jvp .* shape \[2\].*shape \[3\]"),
        (lambda ctx, t: t.float(), "Custom.jvp .* float32"),
    ],
)
def test_wrong_tangent_of_jvp_is_refused(jvp: Callable[..., Any], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        tangents(function(jvp).apply, (leaf(), ones(3)))


def test_a_tangent_for_what_carries_none() -> None:
    def constant(ctx: Any, x: Tensor) -> Tensor:
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y

    for forward in (constant, lambda ctx, x: x.long()):
        with pytest.raises(RuntimeError, match="not a differentiable Tensor; return None"):
            tangents(function(lambda ctx, t: t, forward).apply, (leaf(), ones(3)))


def test_agrees_with_backward() -> None:
    class Sine(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x.sin()

        @staticmethod
        def jvp(ctx: Any, t: Tensor) -> Tensor:
            return t * ctx.saved_tensors[0].cos()

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.saved_tensors[0].cos()

    (found,) = tangents(lambda x: Sine.apply(x * x).exp(), (leaf(), ones(3)))
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, np.exp(np.sin(x * x)) * np.cos(x * x) * 2 * x)


def test_a_saved_output_has_its_tangent_in_backward():
    class Exp(gradlib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0]

    one = gradlib.tensor(1.0)
    value, slope = gradlib.func.jvp(gradlib.func.grad(Exp.apply), (one,), (one,))
    assert value.item() == slope.item() == pytest.approx(np.exp(1), rel=1e-6)
