"""autograd.Function: inputs returned as they are, views, and inputs written in place."""

from __future__ import annotations

from typing import Any

import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.autograd.function import FunctionMeta
from gradlib.core.tensor import Tensor
from tests.values import leaf

FORBIDDEN = "view that a custom Function returned"


def function(forward: Any, backward: Any) -> type[Function]:
    return FunctionMeta("Custom", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


Identity = function(lambda ctx, x: x, lambda ctx, g: g * 5)
FirstTwo = function(lambda ctx, x: x[:2], lambda ctx, g: gradlib.cat([g * 5, g[:1] * 0]))


class DoubleInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2


class ScaleInPlace(Function):
    """x *= y; the derivative by y is made up (3), to be told apart."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        return g * 2, g * 3


class TestReturnedAsIs:
    def test_is_a_view_with_the_custom_backward(self) -> None:
        x = leaf()
        y = Identity.apply(x)
        assert y is not x
        assert (y._base is x, y.grad_fn.name(), x.is_leaf) == (True, "CustomBackward", True)
        assert y.data_ptr() == x.data_ptr()
        y.sum().backward()
        assert x.grad.tolist() == [5, 5, 5]

    def test_without_a_gradient(self) -> None:
        x = leaf()
        with gradlib.no_grad():
            y = Identity.apply(x)
        assert (y is x, y.requires_grad) == (False, False)
        c = gradlib.ones(3)
        y = Identity.apply(c)
        assert (y is c, y._is_view(), y.requires_grad) == (False, True, False)

    def test_an_input_returned_twice_gives_two_results(self) -> None:
        made = function(lambda ctx, x: (x, x), lambda ctx, a, b: a * 2 + b * 3)
        x = leaf()
        a, b = made.apply(x)
        assert a is not b
        assert (a.output_nr, b.output_nr) == (0, 1)
        a.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]

    def test_written_in_forward_but_not_marked(self) -> None:
        y = leaf() * 1
        z = function(lambda ctx, x: x.add_(1), lambda ctx, g: g * 5).apply(y)
        assert (z is y, y.grad_fn.name(), z.grad_fn.name(), y._version) == (False, "MulBackward0", "CustomBackward", 1)

    def test_a_tensor_from_elsewhere_takes_the_history(self) -> None:
        other = leaf()
        y = function(lambda ctx, x: other, lambda ctx, g: g).apply(leaf())
        assert y is other
        assert y.grad_fn.name() == "CustomBackward"


class TestViews:
    def test_view_of_an_input_takes_the_gradient_of_backward(self) -> None:
        x = leaf()
        y = FirstTwo.apply(x)
        assert (y._is_view(), y._base is x) == (True, True)
        y.sum().backward()
        assert x.grad.tolist() == [5, 5, 0]

    @pytest.mark.parametrize("made", [Identity, FirstTwo])
    @pytest.mark.parametrize("base", [leaf, lambda: leaf() * 1], ids=["leaf", "made"])
    def test_writing_one_is_refused(self, made: Any, base: Any) -> None:
        y = made.apply(base())
        before = y.tolist()
        with pytest.raises(RuntimeError, match=FORBIDDEN):
            y.add_(1)
        with pytest.raises(RuntimeError, match=FORBIDDEN):
            y[:1].mul_(2)
        assert y.tolist() == before
        with gradlib.no_grad():
            y.add_(1)

    def test_writing_the_base_makes_the_view_unusable(self) -> None:
        x = leaf()
        base = x * 1
        y = FirstTwo.apply(base)
        base.mul_(2)
        with pytest.raises(RuntimeError, match=r"view that a custom Function returned.*modified inplace"):
            (y * 1).sum().backward()
        base.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]

    def test_write_into_one_of_several_views_is_refused(self) -> None:
        made = function(lambda ctx, x: (x[:2], x[2:]), lambda ctx, a, b: gradlib.cat([a, b]))
        a, _ = made.apply(leaf() * 1)
        with pytest.raises(RuntimeError, match="several views that one function returned"):
            a.add_(1)

    def test_fresh_outputs_may_be_written(self) -> None:
        x = leaf()
        a, b = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3).apply(x)
        a.mul_(10)
        (a + b).sum().backward()
        assert x.grad.tolist() == [23, 23, 23]

    def test_an_output_and_its_view(self) -> None:
        made = function(lambda ctx, x: (lambda y: (y, y[:2]))(x * 2), lambda ctx, a, b: a * 2)
        a, b = made.apply(leaf())
        assert (a._is_view(), b._base is a) == (False, True)
        with pytest.raises(RuntimeError, match="several views"):
            b.add_(1)


class TestDirty:
    def test_an_intermediate_value(self) -> None:
        x = leaf()
        y = x * 3
        z = DoubleInPlace.apply(y)
        assert z is y
        assert (y.grad_fn.name(), y._version, y.is_leaf) == ("DoubleInPlaceBackward", 2, False)
        y.sum().backward()
        assert y.tolist() == [6, 12, 18]
        assert x.grad.tolist() == [6, 6, 6]

    def test_what_was_saved_before_is_stale(self) -> None:
        y = leaf() * 1
        square = y * y
        DoubleInPlace.apply(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()

    def test_marked_though_unwritten(self) -> None:
        y = leaf() * 1
        function(lambda ctx, x: (ctx.mark_dirty(x), x)[1], lambda ctx, g: g).apply(y)
        assert y._version == 1

    def test_a_constant(self) -> None:
        c = gradlib.ones(3, dtype=gradlib.float64)
        assert DoubleInPlace.apply(c) is c
        assert (c._version, c.requires_grad) == (2, False)
        y = leaf()
        assert ScaleInPlace.apply(c, y) is c
        assert (c.requires_grad, c.is_leaf) == (True, False)
        c.sum().backward()
        assert y.grad.tolist() == [3, 3, 3]

    def test_a_leaf_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad has been used.*DoubleInPlaceBackward"):
            DoubleInPlace.apply(leaf())
        with pytest.raises(RuntimeError, match=r"view of a leaf Variable that requires grad is being used in an in-place operation"):
            DoubleInPlace.apply(leaf()[:2])

    def test_a_leaf_under_no_grad(self) -> None:
        x = leaf()
        with gradlib.no_grad():
            DoubleInPlace.apply(x)
        assert (x.tolist(), x.is_leaf, x.requires_grad, x._version) == ([2, 4, 6], True, True, 2)

    def test_a_view_moves_its_bases_history(self) -> None:
        x = leaf()
        base = x * 3
        view = base[:2]
        assert DoubleInPlace.apply(view) is view
        assert base.tolist() == [6, 12, 9]
        assert base.grad_fn.name() == "CopySlices"
        (g,) = grad(base.sum(), x, retain_graph=True)
        assert g.tolist() == [6, 6, 3]
        (g,) = grad(view.sum(), x)
        assert g.tolist() == [6, 6, 0]

    def test_a_view_of_a_constant(self) -> None:
        base, y = gradlib.ones(3, dtype=gradlib.float64), leaf(5.0, 6.0)
        ScaleInPlace.apply(base[:2], y)
        assert base.tolist() == [5, 6, 1]
        base.sum().backward()
        assert y.grad.tolist() == [3, 3]

    def test_a_view_that_a_function_returned(self) -> None:
        with pytest.raises(RuntimeError, match=r"DoubleInPlaceBackward.*view that a custom Function returned"):
            DoubleInPlace.apply(Identity.apply(leaf() * 1))

    def test_a_view_beside_another_output(self) -> None:
        made = function(lambda ctx, x: (ctx.mark_dirty(x), x, x * 1)[1:], lambda ctx, a, b: a)
        with pytest.raises(RuntimeError, match=r"CustomBackward.*view of another Tensor, it cannot return more than one"):
            made.apply((leaf() * 1)[:2])

    def test_several_dirty_inputs_keep_their_gradients(self) -> None:
        def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            ctx.mark_dirty(b, a)
            return a * 1, a.add_(1), b.mul_(2)

        x, y = leaf(), leaf()
        a, b = x * 1, y * 1
        results = function(forward, lambda ctx, g, h, k: (g + h, k * 2)).apply(a, b)
        assert (results[1] is a, results[2] is b, a.output_nr, b.output_nr) == (True, True, 1, 2)
        (results[0] + 10 * a + 100 * b).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([11] * 3, [200] * 3)

    def test_saved_after_writing(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            x.exp_()
            ctx.save_for_backward(x)
            return x

        x = leaf(0.0, 1.0)
        y = x * 1
        function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(y)
        assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn
        (g,) = grad(y.sum(), x)
        assert g.tolist() == y.tolist()

    def test_written_again_after_saving(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x.add_(1)

        made = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
        y = made.apply(leaf() * 1)
        z = y * 1
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()

    def test_the_gradient_is_retained_across_the_write(self) -> None:
        y = leaf() * 1
        y.retain_grad()
        DoubleInPlace.apply(y)
        (y * 7).sum().backward()
        assert y.grad.tolist() == [7, 7, 7]
