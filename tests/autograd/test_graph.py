"""autograd.graph: nodes as users see them, edges, hooks for several gradients, counted writes. Expected values are torch's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, backward, grad, graph
from gradlib.autograd.graph import GradientEdge, get_gradient_edge, increment_version, register_multi_grad_hook
from gradlib.core.modes import global_state
from tests.values import host, leaf


class Twice(Function):
    """2 x, as a custom Function."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class TestNode:
    def test_grad_fn_is_a_node(self) -> None:
        x = leaf(1.0, 2.0)
        assert isinstance((x * x).grad_fn, graph.Node)
        assert isinstance(Twice.apply(x).grad_fn, graph.Node)
        assert isinstance(get_gradient_edge(x).node, graph.Node)
        assert not isinstance(x, graph.Node)

    def test_names_of_nodes(self) -> None:
        x = leaf(1.0, 2.0)
        assert x.exp().grad_fn.name() == "ExpBackward0"
        assert Twice.apply(x).grad_fn.name() == "TwiceBackward"
        assert get_gradient_edge(x).node.name() == "AccumulateGrad"

    def test_next_functions_name_the_output_that_was_used(self) -> None:
        x = leaf(1.0, 2.0)
        a, b = x.exp().unbind()
        node = (b * gradlib.ones(()) + a).grad_fn
        (first, number), (second, other) = node.next_functions
        assert (first.name(), number, second.name(), other) == ("MulBackward0", 0, "UnbindBackward0", 0)
        assert first.next_functions == ((second, 1), (None, 0))
        ((exp, _),) = second.next_functions
        ((end, _),) = exp.next_functions
        assert end.variable is x

    def test_metadata_is_the_users(self) -> None:
        node = leaf(1.0).exp().grad_fn
        assert node.metadata == {}
        node.metadata["who"] = "me"
        assert node.metadata == {"who": "me"}

    def test_sequence_numbers_grow(self) -> None:
        y = leaf(1.0).exp()
        assert y.grad_fn._sequence_nr() < y.sin().grad_fn._sequence_nr()

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_hooks_replace_gradients(self, create_graph: bool) -> None:
        x = leaf(1.0, 2.0)
        y = x.exp()
        after = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10 + outputs[0],))
        before = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 3,))
        ones = gradlib.ones_like(y)
        (g,) = grad(y, x, ones, create_graph=create_graph, retain_graph=True)
        np.testing.assert_allclose(host(g), 30 * np.exp([1.0, 2.0]) + 3)
        assert g.requires_grad == create_graph
        after.remove()
        (g,) = grad(y, x, ones, retain_graph=True)
        np.testing.assert_allclose(host(g), 3 * np.exp([1.0, 2.0]))
        before.remove()
        (g,) = grad(y, x, ones)
        np.testing.assert_allclose(host(g), np.exp([1.0, 2.0]))

    def test_what_has_no_derivative_is_no_input(self) -> None:
        x, mask = leaf(1.0, 2.0), gradlib.tensor([True, False])
        several = [(gradlib.where(mask, x, x), 2), (x.gather(0, gradlib.tensor([1, 0])), 1), (x[mask], 1), (gradlib.cat([x, x]), 2)]
        for y, count in several:
            seen = []
            assert len(y.grad_fn.next_functions) == count
            y.grad_fn.register_hook(lambda inputs, outputs, seen=seen: seen.append(len(inputs)))
            made = y.grad_fn(gradlib.ones_like(y))
            assert (len(made) if isinstance(made, tuple) else 1) == count
            y.sum().backward()
            assert seen == [count]
        y = gradlib.where(mask, x, x)
        y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2, inputs[1] * 3))
        np.testing.assert_array_equal(host(grad(y.sum(), x)[0]), [2, 3])

    def test_what_has_no_derivative_is_no_output(self) -> None:
        x = leaf(2.0, 1.0)
        y = x.sort().values
        seen = []
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
        y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
        y.sum().backward()
        assert seen == [1]
        np.testing.assert_array_equal(host(x.grad), [2, 2])

    def test_saved_values_are_listed_and_read(self) -> None:
        x = leaf(1.0, 2.0)
        node = (x * x.detach()).grad_fn
        assert {"_saved_input", "_saved_other", "_raw_saved_other"} <= set(dir(node))
        assert node._saved_other is not None
        assert node._saved_self is None
        with pytest.raises(AttributeError, match="no attribute '_saved_weight'"):
            _ = node._saved_weight
        with pytest.raises(AttributeError, match="no attribute '_input_metadata'"):
            _ = node._input_metadata

    def test_saved_output_has_its_place_in_the_graph(self) -> None:
        y = leaf(1.0, 2.0).exp()
        again = y.grad_fn._saved_result
        assert again is not y
        assert again.grad_fn is y.grad_fn
        y.sum().backward()
        with pytest.raises(RuntimeError, match="were freed"):
            _ = y.grad_fn._saved_result

    def test_saved_value_that_was_written_is_refused(self) -> None:
        b = leaf(1.0, 2.0) * 1
        c = b * b
        b.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            _ = c.grad_fn._saved_self


class TestGradientEdge:
    def test_as_input_is_the_tensor(self) -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        c = x * y
        z = (c * c).sum()
        for place in (c, get_gradient_edge(c), [get_gradient_edge(c)]):
            (g,) = grad(z, place, retain_graph=True)
            np.testing.assert_array_equal(host(g), [6.0, 16.0])
        by_tensor, by_edge = grad(z, [x, get_gradient_edge(x)])
        np.testing.assert_array_equal(host(by_tensor), host(by_edge))

    def test_as_output_is_the_tensor(self) -> None:
        x = leaf(1.0, 2.0)
        c = x * x
        (g,) = grad(get_gradient_edge(c), x, gradlib.ones(2), retain_graph=True)
        np.testing.assert_array_equal(host(g), [2.0, 4.0])
        backward(get_gradient_edge(c.sum()))
        np.testing.assert_array_equal(host(x.grad), [2.0, 4.0])

    def test_keeps_the_graph_but_not_the_values(self) -> None:
        x = leaf(1.0, 2.0)
        c = Twice.apply(x * 3)
        edge, values = get_gradient_edge(c), weakref.ref(c)
        del c
        assert values() is None
        (g,) = grad(edge, x, gradlib.ones(2))
        np.testing.assert_array_equal(host(g), [6.0, 6.0])

    def test_of_one_of_several_outputs(self) -> None:
        x = gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        a, b = x.unbind()
        z = (a * b).sum()
        assert get_gradient_edge(b)[:2] == (b.grad_fn, 1)
        of_b, of_a = grad(z, [get_gradient_edge(b), GradientEdge(a.grad_fn, 0)], retain_graph=True)
        np.testing.assert_array_equal(host(of_b), host(a))
        np.testing.assert_array_equal(host(of_a), host(b))
        (g,) = grad(GradientEdge(a.grad_fn, 1), x, gradlib.ones(2))
        np.testing.assert_array_equal(host(g), [[0.0, 0.0], [1.0, 1.0]])
        with pytest.raises(IndexError, match="has 2 outputs"):
            grad(GradientEdge(a.grad_fn, 2), x, gradlib.ones(2))

    def test_differentiates_twice(self) -> None:
        x = leaf(1.0, 2.0)
        c = x * x
        (g,) = grad((c * c).sum(), get_gradient_edge(c), create_graph=True)
        (h,) = grad(g.sum(), x)
        np.testing.assert_array_equal(host(h), [4.0, 8.0])

    def test_in_backward_inputs(self) -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        backward((x * y).sum(), inputs=[get_gradient_edge(x)])
        np.testing.assert_array_equal(host(x.grad), [3.0, 4.0])
        assert y.grad is None

    def test_after_a_write_names_the_new_place(self) -> None:
        x = leaf(1.0, 2.0)
        c = x * 2
        before = get_gradient_edge(c)
        c.exp_()
        old, new = grad(c.sum(), [before, get_gradient_edge(c)])
        np.testing.assert_allclose(host(old), np.exp([2.0, 4.0]))
        np.testing.assert_array_equal(host(new), [1.0, 1.0])

    def test_of_a_view(self) -> None:
        x = leaf(1.0, 2.0, 3.0)
        c = x * 2
        v = c[1:]
        (g,) = grad((v * v).sum(), get_gradient_edge(v))
        np.testing.assert_array_equal(host(g), [8.0, 12.0])

    def test_wrong_calls_are_refused(self) -> None:
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match="does not require gradients"):
            get_gradient_edge(x.detach())
        with pytest.raises(RuntimeError, match="materialize_grads cannot be used"):
            grad(x.sum(), get_gradient_edge(leaf(1.0)), materialize_grads=True)
        assert grad(x.sum(), get_gradient_edge(x), materialize_grads=True)[0].tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            grad(get_gradient_edge(x * x), x)
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            grad(get_gradient_edge(x * x), x, gradlib.ones(3))
        with pytest.raises(TypeError, match="the node of a GradientEdge"):
            grad(x.sum(), GradientEdge("x", 0))
        assert grad(x.sum(), get_gradient_edge(leaf(1.0)), allow_unused=True) == (None,)


class TestMultiGradHook:
    def test_all_waits_for_those_that_come(self) -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        c, d = x * y, x * y
        seen: list[list[bool]] = []
        handle = register_multi_grad_hook((x, y, c, d), lambda grads: seen.append([g is not None for g in grads]))
        c.sum().backward(retain_graph=True)
        c.sum().backward(inputs=(x,), retain_graph=True)
        grad(c.sum(), y, retain_graph=True)
        (c + d).sum().backward(retain_graph=True)
        assert seen == [[True, True, True, False], [True, False, True, False], [False, True, True, False], [True] * 4]
        handle.remove()
        c.sum().backward()
        assert len(seen) == 4

    def test_all_gets_the_gradients(self) -> None:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        seen: list[Any] = []
        with register_multi_grad_hook([x, y], seen.extend):
            (x * y).sum().backward(create_graph=True)
        np.testing.assert_array_equal(host(seen[0]), [3.0, 4.0])
        np.testing.assert_array_equal(host(seen[1]), [1.0, 2.0])
        x.grad = y.grad = None

    def test_any_gets_the_first(self) -> None:
        x = leaf(1.0, 2.0)
        c, d = x * 2, x * 3
        seen: list[Any] = []
        handle = register_multi_grad_hook((x, gradlib.ones(2), c, d), seen.append, mode="any")
        (c * 5 + d).sum().backward(retain_graph=True)
        d.sum().backward(retain_graph=True)
        assert [g.tolist() for g in seen] == [[1.0, 1.0], [1.0, 1.0]]
        handle.remove()
        d.sum().backward()
        assert len(seen) == 2

    def test_backward_is_as_before_once_the_hook_is_gone(self) -> None:
        x = leaf()
        assert not global_state.walks
        handle = register_multi_grad_hook([x], lambda grads: None)
        assert global_state.walks
        handle.remove()
        assert not global_state.walks
        register_multi_grad_hook([x], lambda grad: None, mode="any")
        assert global_state.walks
        del x, handle
        assert not global_state.walks

    def test_walks_inside_walks_are_told_apart(self) -> None:
        x = leaf(1.0)
        c = x * 2
        seen: list[list[float]] = []
        register_multi_grad_hook((x, c), lambda grads: seen.append([g.item() for g in grads]))
        inner = (c * 10).sum()
        outer = c * 1
        outer.register_hook(lambda g: inner.backward(retain_graph=True))
        outer.sum().backward()
        assert seen == [[20.0, 10.0], [2.0, 1.0]]

    def test_one_of_several_outputs_is_not_waited_for(self) -> None:
        a, b = gradlib.ones(2, 2, requires_grad=True).unbind()
        seen: list[Any] = []
        register_multi_grad_hook((a, b), seen.append)
        a.sum().backward()
        assert [g is None for g in seen[0]] == [False, True]

    def test_wrong_calls_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got some"):
            register_multi_grad_hook((leaf(1.0),), print, mode="some")
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            register_multi_grad_hook((leaf(1.0), gradlib.ones(1)), print)

        def fails(grads: Any) -> None:
            raise KeyError("from the hook")

        x = leaf(1.0)
        register_multi_grad_hook((x,), fails)
        with pytest.raises(KeyError, match="from the hook"):
            (x * 2).sum().backward()

    def test_holds_no_walk(self) -> None:
        x = leaf(1.0)
        c = x * 2
        register_multi_grad_hook((x, c), lambda grads: None)
        gc.collect()
        gc.disable()
        try:
            c.sum().backward(retain_graph=True)
            node = weakref.ref(c.grad_fn)
            del c
            assert node() is None
        finally:
            gc.enable()


class TestIncrementVersion:
    def test_counts_and_makes_saved_values_stale(self) -> None:
        b = leaf(1.0, 2.0) * 2
        c = b * b
        view = b[0]
        increment_version(b)
        assert b._version == 1
        assert view._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            c.sum().backward()

    def test_takes_several(self) -> None:
        a, b = gradlib.ones(1), gradlib.ones(1)
        increment_version([a, b])
        increment_version(iter([b]))
        assert (a._version, b._version) == (1, 2)

    def test_leaves_inference_tensors_alone(self) -> None:
        with gradlib.inference_mode():
            x = gradlib.ones(2)
        increment_version(x)
        with pytest.raises(RuntimeError, match="do not track version"):
            _ = x._version

    def test_refuses_what_is_no_tensor(self) -> None:
        with pytest.raises(RuntimeError, match=r"expect a Iterable\[Tensor\]"):
            increment_version(3)
        with pytest.raises(RuntimeError, match="each element of the iterable to be a tensor"):
            increment_version([3])
