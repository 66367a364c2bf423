"""Hooks on tensors, leaves and nodes: when they run, in what order, what they may change; what a node shows of itself."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.core.node import Node
from gradlib.core.tensor import Tensor
from tests.values import leaf


def square(x: Tensor) -> Tensor:
    return (x * x).sum()


class TestTensorHooks:
    def test_sees_the_gradient(self) -> None:
        seen: list[Tensor] = []
        x = leaf()
        x.register_hook(seen.append)
        (x * x + x * 3).sum().backward()
        assert [g.tolist() for g in seen] == [[5, 7, 9]]

    def test_replaces_it(self) -> None:
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: g * 10)
        square(y).backward()
        assert x.grad.tolist() == [80, 160, 240]

    def test_runs_in_order_of_registration(self) -> None:
        x = leaf()
        x.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: g + 1)
        x.sum().backward()
        assert x.grad.tolist() == [3, 3, 3]

    def test_is_removed(self) -> None:
        x = leaf()
        handle = x.register_hook(lambda g: g * 10)
        handle.remove()
        handle.remove()
        x.sum().backward()
        with x.register_hook(lambda g: g * 10):
            x.sum().backward()
        x.sum().backward()
        assert x.grad.tolist() == [12, 12, 12]

    def test_may_be_removed_and_added_inside_a_hook(self) -> None:
        calls: list[str] = []
        x = leaf()

        def first(g: Tensor) -> None:
            calls.append("first")
            handle.remove()
            x.register_hook(lambda g: calls.append("later"))

        handle = x.register_hook(first)
        x.register_hook(lambda g: calls.append("second"))
        x.sum().backward()
        x.sum().backward()
        assert calls == ["first", "second", "second", "later"]

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_records_only_with_create_graph(self, create_graph: bool) -> None:
        seen = []
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: seen.append((g.requires_grad, gradlib.is_grad_enabled())))
        grad(square(y), x, create_graph=create_graph)
        assert seen == [(create_graph, create_graph)]

    def test_is_differentiated_too(self) -> None:
        x = leaf()
        x.register_hook(lambda g: g * g)
        (g,) = grad(square(x), x, create_graph=True)
        assert grad(g.sum(), x)[0].tolist() == [64, 256, 576]  # (8 x) squared: the hook sees the second gradient as well

    def test_counts_for_grad_and_inputs(self) -> None:
        x = leaf()
        x.register_hook(lambda g: g * 10)
        assert grad(square(x), x)[0].tolist() == [20, 40, 60]
        square(x).backward(inputs=[x])
        assert x.grad.tolist() == [20, 40, 60]

    def test_speaks_of_the_values_at_registration(self) -> None:
        seen: list[Any] = []
        x = leaf()
        y = x * 2
        y.register_hook(lambda g: seen.append(("old", g.tolist())))
        y.mul_(3)
        y.register_hook(lambda g: seen.append(("new", g.tolist())))
        y.sum().backward()
        assert seen == [("new", [1, 1, 1]), ("old", [3, 3, 3])]

    def test_on_views_and_several_outputs(self) -> None:
        x = leaf()
        v = (x * 2)[:2]
        v.register_hook(lambda g: g * 10)
        v.sum().backward()
        assert x.grad.tolist() == [20, 20, 0]
        x = leaf()
        a, b = x.split([1, 2])
        b.register_hook(lambda g: g * 10)
        (a.sum() + b.sum()).backward()
        assert x.grad.tolist() == [1, 10, 10]

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_on_an_output_without_a_gradient_beside_one_that_has_it(self, create_graph: bool) -> None:
        """It gets None, which it cannot replace, as in torch."""
        x = gradlib.ones(2, 2, requires_grad=True)
        seen: list[Any] = []
        first, second = (x * 2).unbind(0)
        handle = second.register_hook(seen.append)
        gradlib.autograd.grad(first.sum(), x, retain_graph=True, create_graph=create_graph)
        assert seen == [None]
        gradlib.autograd.grad(second.sum(), x, retain_graph=True, create_graph=create_graph)
        assert seen[1].tolist() == [1, 1]
        assert len(seen) == 2
        handle.remove()
        second.register_hook(lambda g: gradlib.ones(2))
        with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
            gradlib.autograd.grad(first.sum(), x, create_graph=create_graph)

    @pytest.mark.parametrize("create_graph", [False, True])
    @pytest.mark.parametrize(
        ("hook", "error", "says"),
        [
            (lambda g: 5, TypeError, "returned int; return a Tensor"),
            (lambda g: g[:2], RuntimeError, r"shape from \[3\] to \[2\]"),
            (lambda g: g.float(), RuntimeError, "dtype from float64 to float32"),
            (lambda g: 1 / 0, ZeroDivisionError, "division"),
        ],
    )
    def test_wrong_answers(self, hook: Any, error: type[Exception], says: str, create_graph: bool) -> None:
        x = leaf()
        handle = x.register_hook(hook)
        with pytest.raises(error, match=says):
            square(x).backward(create_graph=create_graph)
        assert gradlib.is_grad_enabled()
        assert x.grad is None
        handle.remove()
        square(x).backward()
        assert x.grad.tolist() == [2, 4, 6]

    def test_wrong_registrations(self) -> None:
        with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
            gradlib.ones(2).register_hook(lambda g: g)
        with pytest.raises(TypeError, match="a hook is a function, got int"):
            leaf().register_hook(5)


class TestPostAccumulateHooks:
    def test_run_after_every_accumulation(self) -> None:
        seen = []
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
        square(x).backward()
        square(x).backward(create_graph=True)
        assert seen == [(True, [2, 4, 6]), (True, [4, 8, 12])]
        x.grad = None

    def test_run_after_tensor_hooks_in_the_order_of_registration(self) -> None:
        calls: list[str] = []
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: calls.append("post 1"))
        x.register_post_accumulate_grad_hook(lambda t: calls.append("post 2"))
        x.register_hook(lambda g: calls.append("tensor"))
        square(x).backward()
        square(x).backward(inputs=[x])
        assert calls == ["tensor", "post 1", "post 2"] * 2

    def test_may_take_the_gradient_away(self) -> None:
        x = leaf()

        def step(t: Tensor) -> None:
            with gradlib.no_grad():
                t.sub_(t.grad)
            t.grad = None

        handle = x.register_post_accumulate_grad_hook(step)
        square(x).backward()
        assert x.tolist() == [-1, -2, -3]
        assert x.grad is None
        handle.remove()
        square(x).backward()
        assert x.grad.tolist() == [-2, -4, -6]

    def test_not_for_grad(self) -> None:
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: 1 / 0)
        assert grad(square(x), x)[0].tolist() == [2, 4, 6]

    def test_non_leaves_and_constants_are_refused(self) -> None:
        with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
            (leaf() * 2).register_post_accumulate_grad_hook(lambda t: None)
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            gradlib.ones(2).register_post_accumulate_grad_hook(lambda t: None)
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t: 5)
        with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
            square(x).backward()

    def test_garbage_with_hooks_may_be_collected_at_any_moment_of_a_walk(self) -> None:
        others = [leaf() for _ in range(30)]  # memory for copies of few is kept, and begins no collection
        for each in others:
            each.register_post_accumulate_grad_hook(lambda t: None)
        threshold = gc.get_threshold()
        gc.disable()
        try:
            for objects in range(120):  # the collection begins when so many have been made
                dead = leaf()
                dead.register_post_accumulate_grad_hook(lambda t, dead=dead: None)
                del dead
                y = square(others[0])
                gc.set_threshold(gc.get_count()[0] + objects)
                gc.enable()
                y.backward()
                gc.disable()
        finally:
            gc.set_threshold(*threshold)
            gc.enable()

    def test_one_returns_nothing_or_the_leaf(self) -> None:
        x = leaf()
        handle = x.register_post_accumulate_grad_hook(lambda t: t)
        square(x).backward()
        assert x.grad.tolist() == [2, 4, 6]
        handle.remove()
        for answer in (lambda t: t.grad, lambda t: t * 2):
            with x.register_post_accumulate_grad_hook(answer), pytest.raises(RuntimeError, match="hooks should return None"):
                square(x).backward()


class Fails(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        raise ArithmeticError("as it should")


class TestAfterAnError:
    """torch serves a leaf as soon as nothing more can come to it; what is complete when a walk fails has been served."""

    PROGRAMS = (
        (lambda h, x, y, z: h * y, {"y": [2, 4, 6]}),
        (lambda h, x, y, z: h.detach().exp() * 0 + h * 3 + y, {"y": [1, 1, 1]}),
        (lambda h, x, y, z: h * y + z, {"y": [2, 4, 6], "z": [1, 1, 1]}),
        (lambda h, x, y, z: h * y + x, {"y": [2, 4, 6]}),  # more could have come to x
        (lambda h, x, y, z: h + y * 2, {"y": [2, 2, 2]}),
        (lambda h, x, y, z: Fails.apply(y * z) * y + z * 0, {}),
    )

    @pytest.mark.parametrize("create_graph", [False, True])
    @pytest.mark.parametrize("number", range(len(PROGRAMS)))
    def test_complete_leaves_have_their_gradients(self, number: int, create_graph: bool) -> None:
        program, expected = self.PROGRAMS[number]
        leaves = {name: leaf() for name in "xyz"}
        log: list[str] = []
        for name, each in leaves.items():
            each.register_hook(lambda g, name=name: log.append(name))
            each.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name * 2))
        out = program(Fails.apply(leaves["x"] * 2), *leaves.values())
        with pytest.raises(ArithmeticError):
            out.sum().backward(create_graph=create_graph)
        assert {name: each.grad.tolist() for name, each in leaves.items() if each.grad is not None} == expected
        assert sorted(log) == sorted([*expected, *(name * 2 for name in expected)])
        for each in leaves.values():
            each.grad = None

    def test_hooks_run_for_grad_too(self) -> None:
        x, y = leaf(), leaf()
        log: list[Tensor] = []
        y.register_hook(log.append)
        with pytest.raises(ArithmeticError):
            grad((Fails.apply(x) * y).sum(), [x, y])
        assert [g.tolist() for g in log] == [[1, 2, 3]]
        assert y.grad is None


WRITES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "the view": lambda base, view: view.mul_(2),
    "twice": lambda base, view: view.mul_(2).mul_(3),
    "a number": lambda base, view: view.__setitem__(0, 5.0),
    "the base": lambda base, view: base.mul_(2),
    "to nothing": lambda base, view: view.zero_(),
}


class TestHooksOnAViewThatIsWritten:
    @pytest.mark.parametrize("name", WRITES)
    def test_are_left_behind(self, name: str) -> None:
        """They spoke of values that nothing reads any more; those on the base are for what it was before, and stay."""
        seen: list[str] = []
        base = leaf() * 1
        view, other = base[:2], base[1:]
        base.register_hook(lambda g: seen.append("base"))
        for each in (view, other):
            each.register_hook(lambda g: seen.append("view"))
            each.grad_fn.register_hook(lambda d, g: seen.append("node"))
            each.grad_fn.register_prehook(lambda g: seen.append("node"))
        WRITES[name](base, view)
        view.register_hook(lambda g: seen.append("later"))
        (base.sum() + (view * 10).sum() + (other * 100).sum()).backward()
        assert seen == ["later", "base"]


class TestNodeHooks:
    def test_post_hook_sees_gradients_of_inputs_and_outputs(self) -> None:
        seen = []
        x, w = leaf(), leaf(4.0, 5.0, 6.0)
        y = x * w
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append([[g.tolist() for g in gs] for gs in (inputs, outputs)]))
        y.sum().backward()
        assert seen == [[[[4, 5, 6], [1, 2, 3]], [[1, 1, 1]]]]

    def test_post_hook_replaces(self) -> None:
        x, w = leaf(), leaf()
        y = x * w
        y.grad_fn.register_hook(lambda inputs, outputs: (None, inputs[1] * 100))
        y.sum().backward()
        assert x.grad is None
        assert w.grad.tolist() == [100, 200, 300]

    def test_pre_hook_replaces(self) -> None:
        x = leaf()
        y = x * x
        y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
        y.sum().backward()
        assert x.grad.tolist() == [20, 40, 60]

    def test_tensor_hooks_then_prehooks_then_hooks(self) -> None:
        calls: list[str] = []
        y = leaf() * 2
        y.grad_fn.register_hook(lambda inputs, outputs: calls.append("post"))
        y.grad_fn.register_prehook(lambda outputs: calls.append("pre"))
        y.register_hook(lambda g: calls.append("tensor"))
        y.sum().backward()
        assert calls == ["tensor", "pre", "post"]

    def test_on_the_node_of_a_leaf(self) -> None:
        seen = []
        x = leaf()
        node = (x * 1).grad_fn.next_functions[0][0]
        node.register_prehook(lambda outputs: (outputs[0] * 10,))
        node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].tolist(), x.grad.tolist())))
        x.sum().backward()
        grad(x.sum(), x, create_graph=True)
        x.grad = None
        x.sum().backward(create_graph=True)
        assert seen == [((), [10, 10, 10], [10, 10, 10])] * 2
        x.grad = None

    def test_not_where_the_walk_ends(self) -> None:
        """The gradient of y is wanted, so y's own node does not run; its tensor hook does."""
        calls: list[str] = []
        y = leaf() * 2
        y.grad_fn.register_prehook(lambda outputs: calls.append("pre"))
        y.grad_fn.register_hook(lambda inputs, outputs: calls.append("post"))
        y.register_hook(lambda g: calls.append("tensor"))
        grad(square(y), y)
        assert calls == ["tensor"]

    def test_of_several_outputs(self) -> None:
        seen = []
        x = leaf()
        a, b = x.split([1, 2])
        a.grad_fn.register_prehook(lambda outputs: seen.append([None if g is None else g.tolist() for g in outputs]))
        b.sum().backward()
        assert seen == [[None, [1, 1]]]

    def test_a_hook_that_was_removed_is_not_called(self) -> None:
        calls: list[str] = []
        y = leaf() * 2
        y.grad_fn.register_hook(lambda inputs, outputs: calls.append("removed")).remove()
        with y.grad_fn.register_prehook(lambda outputs: calls.append("left")):
            pass
        y.grad_fn.register_hook(lambda inputs, outputs: calls.append("kept"))
        y.sum().backward()
        assert calls == ["kept"]

    @pytest.mark.parametrize("create_graph", [False, True])
    @pytest.mark.parametrize(
        ("register", "hook", "error", "says"),
        [
            ("register_hook", lambda i, o: i[0], TypeError, "returned Tensor; return a tuple of 2 gradients"),
            ("register_hook", lambda i, o: i[:1], RuntimeError, r"incorrect number of gradients \(got 1, expected 2\)"),
            ("register_hook", lambda i, o: (5, None), TypeError, "a tuple with int"),
            ("register_prehook", lambda o: o[0], TypeError, "return a tuple of 1 gradients"),
            ("register_prehook", lambda o: o + o, RuntimeError, r"\(got 2, expected 1\)"),
            ("register_prehook", lambda o: (o[0][:1],), RuntimeError, "shape"),
        ],
    )
    def test_wrong_answers(self, register: str, hook: Any, error: type[Exception], says: str, create_graph: bool) -> None:
        y = leaf() * leaf()
        getattr(y.grad_fn, register)(hook)
        with pytest.raises(error, match=says):
            y.sum().backward(create_graph=create_graph)


class TestNodes:
    def test_names_and_neighbours(self) -> None:
        x, c = leaf(), gradlib.ones(3, dtype=gradlib.float64)
        y = (x * 2 + c).exp()
        assert y.grad_fn.name() == "ExpBackward0"
        ((add, number),) = y.grad_fn.next_functions
        assert (add.name(), number) == ("AddBackward0", 0)
        assert add.next_functions[1] == (None, 0)
        ((accumulate, _), *_) = add.next_functions[0][0].next_functions
        assert accumulate.name() == "AccumulateGrad"
        assert accumulate.variable is x
        assert accumulate is (x * 3).grad_fn.next_functions[0][0]
        assert isinstance(add, Node)

    def test_the_leaf_comes_back_after_it_was_let_go(self) -> None:
        x = leaf()
        y = x * x
        del x
        node = y.grad_fn.next_functions[0][0]
        y.sum().backward()
        assert node.variable.grad.tolist() == [2, 4, 6]
        assert node.variable is node.variable

    def test_several_outputs(self) -> None:
        a, b = leaf().split([1, 2])
        assert a.grad_fn is b.grad_fn
        assert (a.output_nr, b.output_nr) == (0, 1)
        assert (b * 2).grad_fn.next_functions[0] == (b.grad_fn, 1)

    def test_saved_values(self) -> None:
        x, w = leaf(), leaf()
        y = x * w
        assert y.grad_fn._saved_self is x
        assert y.grad_fn._saved_other is w
        e = x.exp()
        assert e.grad_fn._saved_result.grad_fn is e.grad_fn
        first = e.grad_fn._saved_result
        with gradlib.no_grad():
            e += 1
        assert e._version == first._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            e.grad_fn._saved_result  # noqa: B018
        with pytest.raises(AttributeError, match="_saved_nothing"):
            y.grad_fn._saved_nothing  # noqa: B018
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.grad_fn._saved_self  # noqa: B018

    def test_metadata_is_kept(self) -> None:
        y = leaf() * 2
        y.grad_fn.metadata["note"] = 5
        assert y.grad_fn.metadata == {"note": 5}

    def test_sequence_numbers_grow(self) -> None:
        x = leaf()
        y = x * 2
        assert (y * 2).grad_fn._sequence_nr() > y.grad_fn._sequence_nr()


class TestCalling:
    """A node called with gradients runs alone."""

    def test_gives_gradients(self) -> None:
        x, y = leaf(), leaf(4.0, 5.0, 6.0)
        assert [g.tolist() for g in (x * y).grad_fn(x.detach())] == [[4, 10, 18], [1, 4, 9]]
        assert (x * 2).grad_fn(x.detach())[1] is None
        assert x.sum().grad_fn(leaf(2.0).detach().sum()).tolist() == [2, 2, 2]
        assert x.exp().grad_fn(None) is None
        assert (x * y).grad_fn(None) == (None, None)

    def test_of_several_outputs(self) -> None:
        x = leaf()
        one = gradlib.ones((), dtype=gradlib.float64)
        assert x.max(0)[0].grad_fn(one).tolist() == [0, 0, 1]
        assert x.unbind(0)[1].grad_fn(None, one, None).tolist() == [0, 1, 0]

    def test_calling_a_node_records_where_gradients_are_enabled(self) -> None:
        x = leaf()
        d = x.exp().grad_fn(gradlib.ones_like(x))
        assert [g.tolist() for g in grad(d.sum(), x)] == [x.exp().tolist()]
        y = x * x
        with gradlib.no_grad():
            assert not y.grad_fn(gradlib.ones_like(x))[0].requires_grad

    def test_of_a_leaf_accumulates(self) -> None:
        x = leaf()
        node = (x * 2).grad_fn.next_functions[0][0]
        with gradlib.no_grad():
            assert node(gradlib.ones_like(x)) == node(gradlib.ones_like(x)) == node(None) == ()
        assert x.grad.tolist() == [2, 2, 2]

    def test_neither_hooks_nor_freeing(self) -> None:
        y = leaf().exp()
        y.grad_fn.register_hook(lambda *args: 1 / 0)
        y.grad_fn.register_prehook(lambda *args: 1 / 0)
        y.grad_fn(y.detach())
        y.grad_fn(y.detach())
        y = leaf().exp()
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.grad_fn(y.detach())

    def test_wrong_arguments(self) -> None:
        for node in (leaf().exp().grad_fn, (leaf() * 2).grad_fn.next_functions[0][0]):
            with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
                node(leaf(), leaf())
            with pytest.raises(TypeError, match="argument 0 is not a Variable"):
                node(3)


class TestBackwardInsideBackward:
    @pytest.mark.host
    def test_thousands_deep(self) -> None:
        """Each with the modes, the device and the handling of floating-point errors of its caller."""
        found = []

        class Deeper(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                with gradlib.enable_grad():
                    ctx.x = x.detach().requires_grad_() - 1
                return ctx.x.detach()

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                if ctx.x < 0:
                    found.append((gradlib.get_default_dtype(), gradlib.get_default_device().type, np.geterr()["over"]))
                    return g
                with gradlib.enable_grad():
                    Deeper.apply(ctx.x).sum().backward()
                return g * 2

        v = gradlib.tensor(2000.0, requires_grad=True)
        with np.errstate(over="ignore"):
            Deeper.apply(v).sum().backward()
        assert v.grad.item() == 2
        assert found == [(gradlib.float32, "cpu", "ignore")]

    @pytest.mark.host
    @pytest.mark.parametrize("kind", ["tensor", "post accumulate", "node", "before a node"])
    def test_hundreds_deep_in_hooks(self, kind: str) -> None:
        found = []

        @gradlib.enable_grad()
        def go(left: int) -> None:
            x = leaf(1.0)
            y = x * 2
            deeper = lambda *args: go(left - 1) if left else found.append(left)  # noqa: E731
            {
                "tensor": x.register_hook, "post accumulate": x.register_post_accumulate_grad_hook, "node": y.grad_fn.register_hook,
                "before a node": y.grad_fn.register_prehook,
            }[kind](deeper)  # fmt: skip
            y.sum().backward()

        go(300)
        assert found == [0]

    @pytest.mark.host
    def test_an_error_far_down(self) -> None:
        class Deeper(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.x = x.detach() - 1
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                if ctx.x < 0:
                    raise ArithmeticError("at the bottom")
                with gradlib.enable_grad():
                    Deeper.apply(ctx.x.requires_grad_()).sum().backward()
                return g

        with pytest.raises(ArithmeticError, match="at the bottom"):
            Deeper.apply(gradlib.tensor(500.0, requires_grad=True)).sum().backward()
        assert gradlib.is_grad_enabled()

    def test_in_a_tensor_hook(self) -> None:
        x = leaf()

        def hook(g: Tensor) -> Tensor:
            with gradlib.enable_grad():
                inner = x.detach().requires_grad_()
                square(inner).backward()
            return g * inner.grad

        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
        assert x.grad.tolist() == [4, 8, 12]

    def test_onto_the_same_leaf(self) -> None:
        x = leaf()

        def hook(g: Tensor) -> None:
            with gradlib.enable_grad():
                square(x).backward()

        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
        assert x.grad.tolist() == [4, 6, 8]

    @pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
    def test_nests_twenty_deep(self, register: str) -> None:
        depth = 0
        x = leaf(1.0)

        def hook(_: Tensor) -> None:
            nonlocal depth
            depth += 1
            if depth < 20:
                with gradlib.enable_grad():
                    (x * 3).sum().backward()

        getattr(x, register)(hook)
        (x * 3).sum().backward()
        assert (depth, x.grad.tolist()) == (20, [60])

    def test_the_same_graph_retained(self) -> None:
        x = leaf()
        y = x * x
        z = y.sum()
        calls: list[Callable[[], None]] = [lambda: z.backward(retain_graph=True)]
        y.register_hook(lambda g: calls.pop()() if calls else None)
        z.backward(retain_graph=True)
        assert x.grad.tolist() == [4, 8, 12]


def test_a_hook_of_accumulated_gradients_runs_before_the_rest_of_the_walk_and_once() -> None:
    early, late, free = (gradlib.ones(2, requires_grad=True) for _ in range(3))
    order: list[str] = []
    early.register_post_accumulate_grad_hook(lambda leaf: order.append("early"))
    late.register_post_accumulate_grad_hook(lambda leaf: order.append("late"))
    hidden = gradlib.tanh(late * early * free)  # the second use of `late` and of `early`
    hidden.register_hook(lambda g: order.append("hidden"))
    end = gradlib.ones(2, requires_grad=True)
    end.register_post_accumulate_grad_hook(lambda leaf: order.append("end"))
    for _ in range(2):
        (gradlib.tanh(hidden * late) * end).sum().backward(retain_graph=True)
    assert order == ["end", "hidden", "late", "early"] * 2  # torch's


def test_a_hook_of_accumulated_gradients_finds_those_that_came_before_it() -> None:
    """Of leaves without such hooks too: an optimiser may step all of them in the hook of the last."""
    first, last = (gradlib.ones(2, requires_grad=True) for _ in range(2))
    found: list[Any] = []
    last.register_post_accumulate_grad_hook(lambda leaf: found.append(first.grad.tolist()))
    (gradlib.tanh(last * 0) * first + first).sum().backward()
    assert found == [[1, 1]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_of_a_node_is_shown_gradients_as_its_inputs_get_them(create_graph: bool) -> None:
    x, y = gradlib.ones(3, requires_grad=True), gradlib.ones(2, 1, dtype=gradlib.float64, requires_grad=True)
    shown: list[Any] = []
    z = x * y
    z.grad_fn.register_hook(lambda grads, outputs: shown.extend((list(g.shape), g.dtype, g.tolist()) for g in grads))
    z.sum().backward(create_graph=create_graph)
    assert shown == [([3], gradlib.float32, [2, 2, 2]), ([2, 1], gradlib.float64, [[3], [3]])]


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_hooks_write_into_a_gradient_stays(shape: tuple[int, ...], dtype: str) -> None:
    """Also where NumPy computed it as a scalar."""

    def times(factor: float) -> Callable[..., None]:
        def hook(*given: Any) -> None:
            first = given[0][0] if isinstance(given[0], tuple) else given[0]
            first.mul_(factor)

        return hook

    x = gradlib.ones(shape, dtype=dtype, requires_grad=True)
    x.register_hook(times(2))
    y = x * gradlib.full(shape, 2.0, dtype=dtype)
    y.grad_fn.register_prehook(times(3))
    y.grad_fn.register_hook(times(5))
    y.backward(gradlib.ones(shape, dtype=dtype))
    assert x.grad.reshape(-1)[0].item() == 60
