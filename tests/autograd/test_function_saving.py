"""autograd.Function: what ctx saves, modes inside forward and backward, errors and threads."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad, gradgradcheck
from gradlib.autograd.function import FunctionMeta
from gradlib.core.tensor import Tensor
from tests.values import host, leaf


def function(forward: Any, backward: Any, **more: Any) -> type[Function]:
    """A Function from two plain functions."""
    methods = {name: staticmethod(f) if callable(f) else f for name, f in more.items()}
    return FunctionMeta("Custom", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward), **methods})


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class TestSaving:
    def test_inputs_come_back_themselves_and_outputs_with_their_node(self) -> None:
        seen = []

        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            between = x + y
            out = x * y
            ctx.save_for_backward(x, None, between, out)
            return out

        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
            saved = ctx.saved_tensors
            seen.append((saved, ctx))
            return g, None

        x, y = leaf(), leaf()
        z = function(forward, backward).apply(x, y)
        z.sum().backward(retain_graph=True)
        (saved, ctx) = seen[0]
        assert saved[0] is x
        assert saved[1] is None
        assert not saved[2].requires_grad
        assert saved[3].grad_fn is ctx is z.grad_fn
        assert saved[3].data_ptr() == z.data_ptr()
        assert [t if t is None else t.requires_grad for t in z.grad_fn.saved_tensors] == [True, None, False, True]

    def test_of_several_outputs(self) -> None:
        made = function(lambda ctx, x: (lambda a, b: (ctx.save_for_backward(b), (a, b))[1])(x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
        a, b = made.apply(leaf())
        (saved,) = b.grad_fn.saved_tensors
        assert (saved.output_nr, saved.grad_fn is a.grad_fn, a.grad_fn is b.grad_fn) == (1, True, True)

    def test_an_output_may_be_differentiated_again(self) -> None:
        exp = function(lambda ctx, x: (lambda y: (ctx.save_for_backward(y), y)[1])(x.exp()), lambda ctx, g: g * ctx.saved_tensors[0])
        assert gradgradcheck(exp.apply, (leaf(0.1, -0.4),))

    def test_freed_by_the_first_backward(self) -> None:
        y = Cube.apply(leaf())
        y.sum().backward()
        with pytest.raises(RuntimeError, match=r"second time.*CubeBackward"):
            y.grad_fn.saved_tensors  # noqa: B018
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()

    def test_retain_graph_keeps_them(self) -> None:
        x = leaf()
        y = Cube.apply(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        np.testing.assert_allclose(host(x.grad), [6, 24, 54])

    def test_without_saved_tensors_backward_runs_again(self) -> None:
        x = leaf()
        y = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
        assert y.grad_fn.saved_tensors == ()
        y.backward(gradlib.ones_like(y))
        y.backward(gradlib.ones_like(y))
        np.testing.assert_array_equal(host(x.grad), [4, 4, 4])

    def test_the_last_call_of_save_for_backward_counts(self) -> None:
        made = function(lambda ctx, x: (ctx.save_for_backward(x), ctx.save_for_backward(x, x), x * 2)[2], lambda ctx, g: g)
        y = made.apply(leaf())
        assert len(y.grad_fn.saved_tensors) == 2
        assert y.grad_fn.__dict__ == {}

    @pytest.mark.parametrize("which", ["input", "between", "output"])
    def test_written_since(self, which: str) -> None:
        kept: dict[str, Tensor] = {}

        def forward(ctx: Any, x: Tensor) -> Tensor:
            kept["input"], kept["between"] = x, x * 3
            out = kept["between"] * 1
            ctx.save_for_backward({**kept, "output": out}[which])
            return out

        y = function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf() * 1)
        below = y * 1
        kept["output"] = y
        kept[which].add_(1)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*CustomBackward"):
            below.sum().backward()

    def test_written_inside_forward_before_saving_is_fine(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x.clone()
            y.mul_(2)
            ctx.save_for_backward(y)
            return y.sum()

        x = leaf()
        function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x).backward()
        np.testing.assert_array_equal(host(x.grad), [2, 4, 6])

    def test_clear_saved_tensors_on_access(self) -> None:
        made = function(
            lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1],
            lambda ctx, g: (ctx.saved_tensors, ctx.saved_tensors, g)[2],
            clear_saved_tensors_on_access=True,
        )
        with pytest.raises(RuntimeError, match="only be accessed once"):
            made.apply(leaf()).sum().backward()

    def test_no_memory_is_held_after_backward(self) -> None:
        refs = []

        def forward(ctx: Any, x: Tensor) -> Tensor:
            between = x * 2
            refs.append(weakref.ref(between))
            ctx.save_for_backward(between)
            return x * 3

        y = function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf())
        assert refs[0]() is not None
        y.sum().backward()
        assert refs[0]() is None


class TestModes:
    def test_forward_records_nothing(self) -> None:
        seen = []
        made = function(lambda ctx, x: (seen.append((gradlib.is_grad_enabled(), (x * 2).requires_grad)), x * 2)[1], lambda ctx, g: g)
        made.apply(leaf())
        assert seen == [(False, False)]

    def test_recording_switched_on_inside_forward_does_not_count(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            with gradlib.enable_grad():
                return x * 2

        x = leaf()
        y = function(forward, lambda ctx, g: g * 7).apply(x)
        assert grad(y.sum(), x)[0].tolist() == [7, 7, 7]

    def test_under_no_grad(self) -> None:
        with gradlib.no_grad():
            y = Cube.apply(leaf())
        assert (y.requires_grad, y.grad_fn) == (False, None)

    def test_tensors_inside_containers_are_not_inputs(self) -> None:
        y = function(lambda ctx, items: items[0] * 2, lambda ctx, g: None).apply([leaf()])
        assert not y.requires_grad

    def test_inference_mode(self) -> None:
        with gradlib.inference_mode():
            constant = gradlib.ones(3, dtype=gradlib.float64)
            assert Cube.apply(leaf()).is_inference()
        made = function(lambda ctx, x, c: (ctx.save_for_backward(c), x * 2)[1], lambda ctx, g: (g, None))
        with pytest.raises(RuntimeError, match=r"Inference tensors cannot be saved for backward.*CustomBackward"):
            made.apply(leaf(), constant)

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_backward_records_only_under_create_graph(self, create_graph: bool) -> None:
        seen = []
        made = function(lambda ctx, x: x * 2, lambda ctx, g: (seen.append(gradlib.is_grad_enabled()), g * 2)[1])
        x = leaf()
        grad(made.apply(x).sum(), x, create_graph=create_graph)
        assert seen == [create_graph]

    def test_an_error_leaves_modes_as_they_were(self) -> None:
        def fail(*args: Any) -> Any:
            raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine"):
            function(fail, lambda ctx, g: g).apply(leaf())
        with pytest.raises(ZeroDivisionError, match="mine"):
            function(lambda x: x * 1, lambda ctx, g: g, setup_context=fail).apply(leaf())
        for create_graph in (False, True):
            with pytest.raises(ZeroDivisionError, match="mine"):
                function(lambda ctx, x: x * 1, fail).apply(leaf()).sum().backward(create_graph=create_graph)
        assert gradlib.is_grad_enabled()
        assert (leaf() * 2).requires_grad

    def test_backward_inside_backward(self) -> None:
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            with gradlib.enable_grad():
                inner = x.detach().requires_grad_()
                (inner * inner).sum().backward()
            return g * inner.grad

        x = leaf()
        function(lambda ctx, x: (ctx.save_for_backward(x), x * x)[1], backward).apply(x).sum().backward()
        np.testing.assert_allclose(host(x.grad), [2, 4, 6])

    def test_several_threads(self) -> None:
        x = leaf()
        threads = [threading.Thread(target=lambda: [Cube.apply(x).sum().backward() for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        np.testing.assert_allclose(host(x.grad), [600, 2400, 5400])
