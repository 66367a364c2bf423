"""autograd.Function: both styles, the ctx as a node, arguments and results of every kind, undefined gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad, gradcheck, gradgradcheck
from gradlib.autograd.function import BackwardCFunction, FunctionCtx, FunctionMeta, InplaceFunction, NestedIOFunction
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


class ScaledProduct(Function):
    """The style with ``setup_context``."""

    @staticmethod
    def forward(x: Tensor, y: Tensor, factor: float = 2.0) -> Tensor:
        return x * y * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, ctx.factor = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        return g * y * ctx.factor, g * x * ctx.factor, None


class Nothing(Function):
    """Says that no gradient goes through it, although one is wanted."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


@pytest.mark.parametrize("create_graph", [False, True])
class TestNoneForAGradient:
    """What lies below is told: hooks and Functions are called with None (or zeros), operations pass it on, leaves stay as they are."""

    def test_operations_and_hooks(self, create_graph: bool) -> None:
        x, other = leaf(), leaf()
        seen: list[Any] = []
        h = x * 2
        for tensor in (h, x):
            tensor.register_hook(seen.append)
        h.grad_fn.register_prehook(lambda g: seen.append(("before", g)))
        h.grad_fn.register_hook(lambda d, g: seen.append(("after", d, g)))
        (Nothing.apply(h) + other).sum().backward(create_graph=create_graph)
        assert seen == [None, ("before", (None,)), ("after", (None, None), (None,)), None]
        assert x.grad is None
        assert other.grad.tolist() == [1, 1, 1]
        other.grad = None

    def test_a_function_gets_zeros(self, create_graph: bool) -> None:
        x = leaf()
        h = Cube.apply(x)
        assert grad(Nothing.apply(h).sum(), x, create_graph=create_graph)[0].tolist() == [0, 0, 0]
        h = Cube.apply(x)
        assert grad(Nothing.apply(h).sum(), h, create_graph=create_graph, allow_unused=True)[0] is None

    def test_beside_gradients(self, create_graph: bool) -> None:
        """Before and after one that is defined, in graphs of several branches and operations of several outputs."""
        for build in (
            lambda h: Nothing.apply(h) + h * 3,
            lambda h: h * 3 + Nothing.apply(h),
            lambda h: Nothing.apply(h) + Nothing.apply(h) + h + h * 2,
            lambda h: (h + Nothing.apply(h)).sort()[0] * 3,
            lambda h: gradlib.stack([Nothing.apply(h.sort()[0]), h * 3]).unbind(0)[1],
        ):
            x = leaf()
            build(Cube.apply(x)).sum().backward(create_graph=create_graph)
            np.testing.assert_allclose(host(x.grad), [9, 36, 81])
            held = x.grad
            build(x * 2).sum().backward(create_graph=create_graph)
            np.testing.assert_allclose(host(x.grad), [15, 42, 87])
            assert (x.grad is held) == (not create_graph)
            x.grad = None


class TestStyles:
    def test_forward_with_ctx(self) -> None:
        x = leaf()
        y = Cube.apply(x)
        y.sum().backward()
        np.testing.assert_allclose(host(y), [1, 8, 27])
        np.testing.assert_allclose(host(x.grad), [3, 12, 27])

    def test_forward_with_setup_context(self) -> None:
        x, y = leaf(1, 2), leaf(3, 4)
        ScaledProduct.apply(x, y, 5.0).sum().backward()
        np.testing.assert_allclose(host(x.grad), [15, 20])
        np.testing.assert_allclose(host(y.grad), [5, 10])

    def test_setup_context_sees_all_arguments_and_the_bare_result(self) -> None:
        seen = []

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append((inputs, output.requires_grad, gradlib.is_grad_enabled()))

        x = leaf()
        made = function(lambda x, k=2: x * k, lambda ctx, g: (g, None), setup_context=setup)
        made.apply(x)
        made.apply(x, k=3)
        assert [entry[0][1] for entry in seen] == [2, 3]
        assert all(entry[0][0] is x and entry[1:] == (False, False) for entry in seen)

    def test_vjp_is_backward_under_another_name(self) -> None:
        class Twice(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2

            @staticmethod
            def vjp(ctx: Any, g: Tensor) -> Tensor:
                return g * 2

        x = leaf()
        Twice.apply(x).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [2, 2, 2])

    def test_named_arguments_go_to_their_places(self) -> None:
        made = function(lambda ctx, x, y: x * y, lambda ctx, g: (g * 2, g * 3))
        x, y = leaf(), leaf()
        made.apply(y=y, x=x).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [2, 2, 2])
        np.testing.assert_array_equal(host(y.grad), [3, 3, 3])
        with pytest.raises(TypeError, match="'z'"):
            made.apply(x, y, z=1)
        with pytest.raises(TypeError, match="'k'"):
            function(lambda ctx, x, *, k=1: x, lambda ctx, g: g).apply(x, k=2)

    def test_a_subclass_inherits_forward(self) -> None:
        class Child(Cube):
            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g * 7

        x = leaf()
        y = Child.apply(x)
        assert y.grad_fn.name() == "ChildBackward"
        y.sum().backward()
        np.testing.assert_array_equal(host(x.grad), [7, 7, 7])

    def test_derivatives_of_both_orders(self) -> None:
        x, y = leaf(0.3, -1.2), leaf(2.0, 0.7)
        assert gradcheck(Cube.apply, (x,))
        assert gradgradcheck(Cube.apply, (x,))
        assert gradcheck(ScaledProduct.apply, (x, y, 3.0))
        assert gradgradcheck(ScaledProduct.apply, (x, y))

    def test_complex_values_and_gradients(self) -> None:
        square = function(lambda ctx, z: (ctx.save_for_backward(z), z * z)[1], lambda ctx, g: g * 2 * ctx.saved_tensors[0].conj())
        z = gradlib.tensor(np.array([1 + 2j, -0.5 + 1j]), requires_grad=True)
        assert gradcheck(square.apply, (z,))
        wrong = function(lambda ctx, z: (ctx.save_for_backward(z), z * z)[1], lambda ctx, g: g * 2 * ctx.saved_tensors[0])
        assert not gradcheck(wrong.apply, (z,), raise_exception=False)


class TestNode:
    def test_the_ctx_is_the_grad_fn(self) -> None:
        seen = []
        made = function(lambda ctx, x: (seen.append(ctx), x * 2)[1], lambda ctx, g: (seen.append(ctx), g)[1])
        y = made.apply(leaf())
        y.sum().backward()
        assert seen[0] is seen[1] is y.grad_fn
        assert type(y.grad_fn) is made._backward_cls
        assert made._backward_cls._forward_cls is made
        assert isinstance(y.grad_fn, BackwardCFunction)
        assert isinstance(y.grad_fn, FunctionCtx)

    def test_it_stays_the_same_object_while_held(self) -> None:
        y = Cube.apply(leaf())
        node = y.grad_fn
        assert y.grad_fn is node
        assert (y * 1).grad_fn.next_functions[0][0] is node

    def test_node_is_named_after_the_function(self) -> None:
        y = Cube.apply(leaf())
        assert y.grad_fn.name() == "CubeBackward" == Cube._backward_cls.__name__
        assert "grad_fn=<CubeBackward>" in repr(y)

    def test_next_functions_list_tensor_arguments(self) -> None:
        x, c = leaf(), gradlib.ones(3, dtype=gradlib.float64)
        made = function(lambda ctx, a, k, b: a * b, lambda ctx, g: (g, None, g))
        nodes = made.apply(x, 5, c).grad_fn.next_functions
        assert len(nodes) == 2
        assert nodes[0][0].variable is x
        assert nodes[1] == (None, 0)

    def test_the_users_attributes_are_only_the_users(self) -> None:
        """Names that the engine's own nodes use, too."""
        names = ["shape", "dtype", "seq", "edges", "saved", "_meta", "single", "run", "outputs", "inputs", "needs", "attributes"]

        def forward(ctx: Any, x: Tensor) -> Tensor:
            for name in names:
                setattr(ctx, name, f"my {name}")
            return x * 2

        def backward(ctx: Any, g: Tensor) -> Tensor:
            assert [getattr(ctx, name) for name in names] == [f"my {name}" for name in names]
            return g * 2

        x = leaf()
        y = function(forward, backward).apply(x * 1)
        assert set(y.grad_fn.__dict__) == set(names)
        (y * 1).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [2, 2, 2])

    def test_saved_data_is_a_map(self) -> None:
        def forward(ctx: Any, x: Tensor, k: int) -> Tensor:
            ctx.saved_data["k"] = k
            return x * k

        x = leaf()
        function(forward, lambda ctx, g: (g * ctx.saved_data["k"], None)).apply(x, 4).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [4, 4, 4])

    def test_needs_input_grad_tells_for_each_argument(self) -> None:
        seen = []
        made = function(
            lambda ctx, a, nested, k, b: (seen.append(ctx.needs_input_grad), a * b)[1],
            lambda ctx, g: (seen.append(ctx.needs_input_grad), (g, None, None, None))[1],
        )
        x, c = leaf(), gradlib.ones(3, dtype=gradlib.float64)
        y = made.apply(x, [x], 5, c)
        assert y.grad_fn.requires_grad
        y.sum().backward()
        with gradlib.no_grad():
            made.apply(x, [x], 5, c)
        made.apply(c, [x], 5, c)
        assert seen == [(True, False, False, False)] * 3 + [(False, False, False, False)]

    def test_hooks_of_the_node_run_in_order(self) -> None:
        calls: list[Any] = []
        x = leaf()
        y = Cube.apply(x)
        y.grad_fn.register_prehook(lambda outgoing: calls.append(("pre", len(outgoing))))
        handle = y.grad_fn.register_hook(lambda incoming, outgoing: calls.append("gone"))
        handle.remove()
        y.grad_fn.register_hook(lambda incoming, outgoing: (incoming[0] * 10,))
        y.sum().backward()
        assert calls == [("pre", 1)]
        np.testing.assert_allclose(host(x.grad), [30, 120, 270])

    def test_metadata_and_flags(self) -> None:
        y = Cube.apply(leaf())
        y.grad_fn.metadata["note"] = 1
        assert y.grad_fn.metadata == {"note": 1}
        assert Cube.is_traceable is False
        assert Cube.generate_vmap_rule is False
        assert y.grad_fn._sequence_nr() < Cube.apply(leaf()).grad_fn._sequence_nr()
        for name in ("metadata", "next_functions", "saved_tensors"):
            with pytest.raises(AttributeError):
                setattr(y.grad_fn, name, 3)

    def test_applying_the_node_runs_the_users_backward(self) -> None:
        y = Cube.apply(leaf())
        np.testing.assert_allclose(host(y.grad_fn.apply(gradlib.ones(3, dtype=gradlib.float64))), [3, 12, 27])


class TestResults:
    def test_several_outputs_and_their_numbers(self) -> None:
        made = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
        x = leaf()
        a, b = made.apply(x)
        assert (a.output_nr, b.output_nr) == (0, 1)
        (a.sum() + 10 * b.sum()).backward()
        np.testing.assert_array_equal(host(x.grad), [32, 32, 32])

    def test_what_is_no_tensor_passes_through(self) -> None:
        seen = []
        made = function(lambda ctx, x: (x * 2, None, 5, "s"), lambda ctx, *g: (seen.append(g), g[0])[1])
        y, *rest = made.apply(leaf())
        assert rest == [None, 5, "s"]
        y.sum().backward()
        assert seen[0][1:] == (None, None, None)

    @pytest.mark.parametrize("made", [None, 5, (), [1, 2]])
    def test_no_tensor_at_all(self, made: Any) -> None:
        assert function(lambda ctx, x: made, lambda ctx, *g: None).apply(leaf()) == made

    def test_lists_are_not_looked_into(self) -> None:
        results = function(lambda ctx, x: [x * 2], lambda ctx, *g: g).apply(leaf())
        assert not results[0].requires_grad

    def test_a_tuple_of_one_stays_a_tuple(self) -> None:
        (y,) = function(lambda ctx, x: (x * 2,), lambda ctx, g: g * 2).apply(leaf())
        assert y.requires_grad

    def test_integer_outputs_carry_no_gradient(self) -> None:
        seen = []
        made = function(lambda ctx, x: (x.long(), x * 2), lambda ctx, i, g: (seen.append(i), g)[1])
        index, y = made.apply(leaf())
        assert not index.requires_grad
        y.sum().backward()
        assert seen[0].dtype == gradlib.int64
        assert seen[0].tolist() == [0, 0, 0]

    def test_mark_non_differentiable(self) -> None:
        seen = []

        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            constant = x * 2
            ctx.mark_non_differentiable(constant)
            return constant, x * 3

        a, b = function(forward, lambda ctx, g, h: (seen.append(g), h * 3)[1]).apply(leaf())
        assert (a.requires_grad, a.grad_fn, b.requires_grad) == (False, None, True)
        b.sum().backward()
        assert seen[0].tolist() == [0, 0, 0]

    def test_marking_an_input_that_is_returned(self) -> None:
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_non_differentiable(x)
            return x

        x = leaf()
        y = function(forward, lambda ctx, g: g).apply(x)
        assert y is not x
        assert (y.requires_grad, x.requires_grad) == (False, True)

    def test_another_dtype_and_shape(self) -> None:
        x = gradlib.ones(3, requires_grad=True)
        function(lambda ctx, x: x.double().sum(), lambda ctx, g: g.float().expand(3)).apply(x).backward()
        assert x.grad.dtype == gradlib.float32

    def test_zero_size(self) -> None:
        x = gradlib.zeros((0, 3), requires_grad=True)
        y = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
        y.sum().backward()
        assert x.grad.shape == (0, 3)


class TestUndefinedGradients:
    def test_zeros_by_default(self) -> None:
        seen = []
        made = function(lambda ctx, x: (x * 2, x.sum()), lambda ctx, g, h: (seen.append(g), g + h)[1])
        made.apply(leaf())[1].backward()
        assert (seen[0].tolist(), seen[0].dtype) == ([0, 0, 0], gradlib.float64)

    def test_none_when_not_materialized(self) -> None:
        seen = []

        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        function(forward, lambda ctx, g, h: (seen.append(g), h)[1]).apply(leaf())[1].sum().backward()
        assert seen == [None]

    def test_with_create_graph(self) -> None:
        seen = []
        made = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: (seen.append((g, h)), g * 2 + h * 3)[1])
        x = leaf()
        grad(made.apply(x)[1].sum(), x, create_graph=True)
        assert seen[0][0].tolist() == [0, 0, 0]

    def test_a_gradient_of_none_leaves_the_leaf_alone(self) -> None:
        x, y = leaf(), leaf()
        function(lambda ctx, a, b: a * b, lambda ctx, g: (None, g)).apply(x, y).sum().backward()
        assert x.grad is None
        assert y.grad is not None
        z = function(lambda ctx, a: a * 1, lambda ctx, g: None).apply(x).sum()
        assert grad(z, x, allow_unused=True) == (None,)

    def test_a_gradient_for_what_needs_none_is_ignored(self) -> None:
        x, c = leaf(), gradlib.ones(3)
        function(lambda ctx, a, b: a * 1, lambda ctx, g: (g, g)).apply(x, c).sum().backward()
        assert c.grad is None


class TestOldNames:
    def test_inplace_function(self) -> None:
        class Double(InplaceFunction):
            @staticmethod
            def forward(ctx: Any, x: Tensor, inplace: bool = False) -> Tensor:
                if inplace:
                    ctx.mark_dirty(x)
                    return x.mul_(2)
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
                return g * 2, None

        x = leaf()
        y = x * 1
        assert Double.apply(y, True) is y
        (y + Double.apply(x)).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [4, 4, 4])
        with pytest.warns(DeprecationWarning, match="should not be instantiated"):
            assert Double(inplace=True).inplace

    def test_nested_io_function(self) -> None:
        class Nest(NestedIOFunction):
            def forward_extended(self, pair: Any, more: Any) -> Any:
                self.save_for_backward(pair)
                return pair[0] * pair[1], [more["c"] * 3]

            def backward_extended(self, g: Tensor, rest: list[Tensor]) -> Any:
                ((a, b),) = self.saved_tensors
                return (g * b, g * a), {"c": rest[0] * 3}

        a, b, c = leaf(1, 2), leaf(3, 4), leaf(5, 6)
        product, (tripled,) = Nest.apply((a, b), {"c": c})
        (product.sum() + tripled.sum()).backward()
        assert (a.grad.tolist(), b.grad.tolist(), c.grad.tolist()) == ([3, 4], [1, 2], [3, 3])
        with pytest.raises(ValueError, match="int"):
            Nest.apply((a, b), 5)

    def test_a_function_has_the_names_of_its_ctx(self) -> None:
        assert issubclass(Function, FunctionCtx)
        for made in (Function, NestedIOFunction):
            assert all(callable(getattr(made, name)) for name in ("save_for_backward", "mark_dirty", "mark_non_differentiable"))
        assert isinstance(NestedIOFunction.saved_tensors, property)

    def test_boxed_gradients(self) -> None:
        made = function(lambda ctx, x: x * 2, lambda ctx, grads: grads.pop() * 2, boxed_grads_call=True)
        x = leaf()
        made.apply(x).sum().backward()
        np.testing.assert_array_equal(host(x.grad), [2, 2, 2])
