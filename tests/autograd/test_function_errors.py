"""autograd.Function: every misuse is an error that names the Function, with torch's advice."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.autograd.function import FunctionCtx, FunctionMeta, once_differentiable
from gradlib.core.tensor import Tensor
from tests.values import leaf


def function(forward: Any, backward: Any, **more: Any) -> type[Function]:
    methods = {name: staticmethod(f) for name, f in more.items()}
    return FunctionMeta("Custom", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward), **methods})


def returning(make: Any, *arguments: Any) -> list[Any]:
    """Run backward of a Function whose backward returns ``make(g)``; the gradients of its arguments."""
    arguments = arguments or (leaf(),)
    y = function(lambda ctx, first, *rest: first * 2, lambda ctx, g: make(g)).apply(*arguments)
    y.backward(gradlib.ones_like(y))
    return [a.grad for a in arguments if isinstance(a, Tensor)]


class TestReturnedGradients:
    @pytest.mark.parametrize(
        ("make", "arguments", "says"),
        [
            (lambda g: (g, g), 1, "incorrect number of gradients (expected 1, got 2)"),
            (lambda g: g, 2, "incorrect number of gradients (expected 2, got 1)"),
            (lambda g: (g,), 2, "incorrect number of gradients (expected 2, got 1)"),
            (lambda g: [g, g], 2, "incorrect number of gradients (expected 2, got 1)"),
            (lambda g: g[:2], 1, "index 0 - got [2] but expected shape compatible with [3]"),
            (lambda g: g.sum(), 1, "index 0 - got [] but expected shape compatible with [3]"),
            (lambda g: (None, g[:, None]), 2, "index 1 - got [3, 1] but expected shape compatible with [3]"),
            (lambda g: g.to(gradlib.complex128), 1, "index 0 - expected dtype float64 but got complex128"),
            (lambda g: 3.0, 1, "expected Tensor or None (got float)"),
            (lambda g: [g], 1, "expected Tensor or None (got list)"),
            (lambda g: (g._array,), 1, "expected Tensor or None (got ndarray); gradlib.as_tensor makes one"),
        ],
    )
    @pytest.mark.parametrize("create_graph", [False, True])
    def test_wrong_gradient_is_refused_and_nothing_is_accumulated(self, make: Any, arguments: int, says: str, create_graph: bool) -> None:
        inputs = [leaf() for _ in range(arguments)]
        y = function(lambda ctx, first, *rest: first * 2, lambda ctx, g: make(g)).apply(*inputs)
        with pytest.raises(RuntimeError, match=re.escape(says)) as error:
            y.sum().backward(create_graph=create_graph)
        assert "CustomBackward" in str(error.value)
        assert all(x.grad is None for x in inputs)

    @pytest.mark.cuda
    def test_wrong_device(self) -> None:
        x = leaf().detach().cuda().requires_grad_()
        with pytest.raises(RuntimeError, match=r"CustomBackward.*expected device cuda:0 but got cpu"):
            returning(lambda g: g.cpu(), x)

    def test_for_what_is_no_tensor(self) -> None:
        with pytest.raises(RuntimeError, match=r"CustomBackward.*different than None at position 2"):
            returning(lambda g: (g, g), leaf(), 5)

    def test_further_nones_do_no_harm(self) -> None:
        assert returning(lambda g: (g, None, None))[0].tolist() == [1, 1, 1]

    def test_a_shape_that_was_broadcast_is_summed(self) -> None:
        assert returning(lambda g: g.expand(4, 3))[0].tolist() == [4, 4, 4]

    def test_a_real_gradient_for_a_complex_input(self) -> None:
        (g,) = returning(lambda g: g.real, gradlib.tensor([1 + 1j], dtype=gradlib.complex128, requires_grad=True))
        assert g.dtype == gradlib.complex128
        with pytest.raises(RuntimeError, match="expected dtype complex128 but got int64"):
            returning(lambda g: g.real.long(), gradlib.tensor([1 + 1j], dtype=gradlib.complex128, requires_grad=True))

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_another_dtype_is_cast(self, create_graph: bool) -> None:
        for dtype, want in itertools.product(("float16", "float32", "float64"), ("float32", "float64", "complex64", "complex128")):
            x = gradlib.ones(3, dtype=want, requires_grad=True)
            made = function(lambda ctx, x: x * 2, lambda ctx, g, dtype=dtype: g.real.to(dtype))
            (g,) = grad(made.apply(x), x, gradlib.ones_like(x), create_graph=create_graph)
            assert (g.dtype, g.tolist()) == (want, [1, 1, 1])
        for dtype in (gradlib.int64, gradlib.bool):
            (g,) = returning(lambda g, dtype=dtype: g.to(dtype))
            assert (g.dtype, g.tolist()) == (gradlib.float64, [1, 1, 1])
        assert returning(lambda g: g.float().expand(4, 3))[0].dtype == gradlib.float64


class TestReturnedFromForward:
    def test_a_raw_array(self) -> None:
        for forward, position in ((lambda ctx, x: x._array * 2, 0), (lambda ctx, x: (x * 2, x._array), 1)):
            made = function(forward, lambda ctx, *g: g[0])
            with pytest.raises(RuntimeError, match=f"CustomBackward returned ndarray at position {position} of its forward.*as_tensor"):
                made.apply(leaf())
            made.apply(leaf().detach())  # where there is no gradient, none is lost

    def test_numbers_and_the_like(self) -> None:
        made = function(lambda ctx, x: (x * 2, 3.0, None, "as they are"), lambda ctx, *g: g[0] * 2)
        x = leaf()
        y, *others = made.apply(x)
        y.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
        assert others == [3.0, None, "as they are"]


class TestSavingAndMarking:
    @pytest.mark.parametrize("what", [5, "s", [1], np.ones(3)])
    def test_saving_what_is_no_tensor(self, what: Any) -> None:
        made = function(lambda ctx, x: (ctx.save_for_backward(x, what), x * 2)[1], lambda ctx, g: g)
        with pytest.raises(TypeError, match=f"can only save variables, but argument 1 is of type {type(what).__name__}.*CustomBackward"):
            made.apply(leaf())

    def test_save_for_forward(self) -> None:
        with pytest.raises(AssertionError, match="save non-tensors as attributes on ctx"):
            FunctionCtx().save_for_forward(5)
        made = function(lambda ctx, x: (ctx.save_for_forward(x, None), x * 2)[1], lambda ctx, g: g)
        assert made.apply(leaf()).grad_fn.__dict__ == {}

    def test_marking_what_is_no_tensor(self) -> None:
        with pytest.raises(RuntimeError, match=r"mark_dirty can only accept variables, but argument 0 is of type list"):
            function(lambda ctx, x: (ctx.mark_dirty([x]), x)[1], lambda ctx, g: g).apply(leaf())
        with pytest.raises(RuntimeError, match=r"mark_non_differentiable only accepts variable arguments, but argument 1 is of type int"):
            function(lambda ctx, x: (ctx.mark_non_differentiable(x, 1), x)[1], lambda ctx, g: g).apply(leaf())

    def test_dirty_but_not_returned(self) -> None:
        for make in (lambda x: x * 2, lambda x: x.view_as(x)):
            made = function(lambda ctx, x, make=make: (ctx.mark_dirty(x), make(x))[1], lambda ctx, g: g)
            with pytest.raises(RuntimeError, match=r"marked as dirty.*CustomBackward were not returned as output"):
                made.apply(leaf() * 1)

    def test_dirty_but_no_input(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x * 2
            ctx.mark_dirty(y)
            return y

        with pytest.warns(UserWarning, match=r"Only input Tensors should be given to ctx.mark_dirty"):
            function(forward, lambda ctx, g: g).apply(leaf())

    def test_old_ways(self) -> None:
        made = function(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1], lambda ctx, g: g)
        x = leaf()
        with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
            assert made.apply(x).grad_fn.saved_variables[0] is x
        with pytest.warns(FutureWarning, match="`mark_shared_storage` is deprecated"):
            function(lambda ctx, x: (ctx.mark_shared_storage((x, x)), x * 2)[1], lambda ctx, g: g).apply(x)


class TestDefinition:
    def test_no_forward(self) -> None:
        with pytest.raises(NotImplementedError, match="must implement the forward function"):
            FunctionMeta("Empty", (Function,), {}).apply(leaf())

    def test_no_backward(self) -> None:
        class OnlyForward(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2

        y = OnlyForward.apply(leaf())
        with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
            y.sum().backward()

    def test_both_names_of_backward(self) -> None:
        made = function(lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            made.apply(leaf()).sum().backward()

    def test_not_there(self) -> None:
        with pytest.raises(NotImplementedError, match="jvp function"):
            Function.jvp(None)
        with pytest.raises(NotImplementedError, match="vmap"):
            Function.vmap(None, None)
        with pytest.raises(NotImplementedError, match="setup_context"):
            Function.setup_context(None, (), None)

    def test_instances_of_an_old_style_function_are_refused(self) -> None:
        class Old(Function):
            def forward(self, x: Tensor) -> Tensor:
                return x * 2

        with pytest.warns(DeprecationWarning, match="should not be instantiated. Methods on autograd functions are all static"):
            instance = Old()
        with pytest.raises(RuntimeError, match=r"Legacy autograd function with non-static forward method is deprecated.*Old.apply"):
            instance(leaf())

    def test_missing_argument(self) -> None:
        with pytest.raises(TypeError, match="missing"):
            function(lambda ctx, x: x, lambda ctx, g: g).apply()


class TestOnceDifferentiable:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Tensor) -> Tensor:
            assert not gradlib.is_grad_enabled()
            return g * 2 * ctx.saved_tensors[0]

    def test_differentiates_once(self) -> None:
        x = leaf()
        self.Square.apply(x).sum().backward()
        assert x.grad.tolist() == [2, 4, 6]

    def test_refuses_to_differentiate_twice(self) -> None:
        x = leaf()
        y = self.Square.apply(x)
        (g,) = grad((y * y).sum(), x, create_graph=True)
        assert g.requires_grad
        with pytest.raises(RuntimeError, match=r"differentiate twice.*@once_differentiable \(SquareBackward\)"):
            g.sum().backward()
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad(g.sum(), x)

    def test_with_a_constant_cotangent_the_gradient_is_a_constant(self) -> None:
        x = leaf()
        (g,) = grad(self.Square.apply(x).sum(), x, create_graph=True)
        assert not g.requires_grad

    def test_several_gradients(self) -> None:
        made = function(lambda ctx, a, k, b: a * b, once_differentiable(lambda ctx, g: (g, None, g)))
        a, b = leaf(), leaf()
        first, second = grad(made.apply(a, 1, b), (a, b), gradlib.ones(3, dtype=gradlib.float64, requires_grad=True), create_graph=True)
        for g in (first, second):
            with pytest.raises(RuntimeError, match="once_differentiable"):
                g.sum().backward()

    def test_it_keeps_the_name(self) -> None:
        assert self.Square.backward.__name__ == "backward"
