"""backward and grad: arguments, what they return and leave, errors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, backward, grad
from gradlib.core.tensor import Tensor
from tests.values import host, leaf, ones

FREED = "Trying to backward through the graph a second time"


def places(*shape: int) -> Tensor:
    return gradlib.tensor([0, 2, 2]).reshape(shape or (3,))


class TestCotangents:
    def test_a_scalar_needs_none(self) -> None:
        for x in (leaf(2.0), leaf(2.0).detach().reshape(()).requires_grad_()):
            (x * x).backward()
            np.testing.assert_array_equal(host(x.grad), np.full(x.shape, 4.0))

    def test_a_leaf_itself(self) -> None:
        x = leaf(2.0)
        x.backward()
        assert x.grad.tolist() == [1]

    def test_given_cotangent_is_taken(self) -> None:
        x = leaf()
        (x * x).backward(gradlib.tensor([1.0, 10.0, 100.0], dtype=gradlib.float64))
        assert x.grad.tolist() == [2, 40, 600]

    def test_another_float_dtype_or_integers_are_converted(self) -> None:
        for dtype in (gradlib.float32, gradlib.int64):
            x = leaf()
            (x * x).backward(gradlib.ones(3, dtype=dtype))
            assert x.grad.tolist() == [2, 4, 6]
            assert x.grad.dtype == gradlib.float64

    def test_converted_and_differentiable(self) -> None:
        x, g = leaf(), gradlib.ones(3, requires_grad=True)
        (x * x).backward(g, create_graph=True)
        x.grad.sum().backward(inputs=[g])
        assert g.grad.tolist() == [2, 4, 6]

    def test_a_raw_array(self) -> None:
        x = leaf()
        (x * x).backward(ones(3)._array)
        assert x.grad.tolist() == [2, 4, 6]

    @pytest.mark.parametrize(
        ("make", "given", "error", "says"),
        [
            (lambda x: x * x, None, RuntimeError, "grad can be implicitly created only for scalar outputs"),
            (lambda x: (x * 1j).sum(), None, RuntimeError, "only for real scalar outputs but got complex128"),
            (lambda x: x * x, ones(2), RuntimeError, r"Mismatch in shape: grad_output\[0\] has a shape of \[2\].*\[3\]"),
            (lambda x: x * x, ones(1), RuntimeError, "Mismatch in shape"),
            (lambda x: x * x, gradlib.ones(3, dtype=gradlib.complex128), RuntimeError, "both grad_output and output .* same dtype"),
            (lambda x: x * 1j, ones(3), RuntimeError, "both grad_output and output .* same dtype"),
            (lambda x: x * x, [1.0, 1.0, 1.0], TypeError, "gradients can be either Tensors or None, but got float"),
            (lambda x: x.sum(), 2.0, TypeError, "gradients can be either Tensors or None, but got float"),
            (lambda x: x.detach(), None, RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn"),
        ],
    )
    def test_wrong_cotangent_is_refused(self, make: Callable[[Tensor], Tensor], given: Any, error: type[Exception], says: str) -> None:
        x = leaf()
        with pytest.raises(error, match=says):
            make(x).backward(given)
        assert x.grad is None

    def test_complex_cotangents(self) -> None:
        z = gradlib.tensor([1 + 2j], dtype=gradlib.complex128, requires_grad=True)
        (z * z).backward(gradlib.ones(1, dtype=gradlib.complex128))
        assert z.grad.tolist() == [2 - 4j]
        x = leaf(1.0, 2.0)
        w = x * (1 + 2j)
        (w * w.conj()).real.sum().backward()
        assert x.grad.tolist() == [10, 20]


class TestSeveralOutputs:
    def test_all_count(self) -> None:
        x = leaf()
        h = x * x
        backward([h.sum(), (h * h).sum(), x * 3], [None, None, ones(3)])
        assert x.grad.tolist() == [1 * (2 + 4) + 3, 4 + 32 + 3, 6 + 108 + 3]

    def test_the_same_twice(self) -> None:
        x = leaf()
        y = (x * x).sum()
        backward([y, y])
        assert x.grad.tolist() == [4, 8, 12]

    def test_none_at_all(self) -> None:
        x = leaf()
        backward([])
        assert x.grad is None

    def test_wrong_number_of_gradients_is_refused(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
            backward([x * x, x * 3], [ones(3)])
        with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
            backward([x.sum(), ones(1)])

    def test_all_gradients_of_an_output_add_up_and_the_callers_is_not_written(self) -> None:
        for hooked in (False, True):  # with a hook the output has a turn of its own in the walk
            x = gradlib.ones(6, requires_grad=True)
            first, second, _ = x.chunk(3)
            if hooked:
                first.register_hook(lambda g: None)
            g = gradlib.tensor([1.0, 2.0])
            (first + first + first + first + second).backward(g)
            assert host(x.grad).tolist() == [4, 8, 1, 2, 0, 0]
            assert host(g).tolist() == [1, 2]


class TestRetaining:
    def test_a_second_backward_is_refused(self) -> None:
        y = (leaf() * leaf()).sum()
        y.backward()
        with pytest.raises(RuntimeError, match=f"{FREED}.*MulBackward0.*retain_graph=True"):
            y.backward()

    def test_a_second_backward_where_no_tensor_was_saved(self) -> None:
        theta = leaf()
        for t in theta:
            (t**2).backward()
        assert theta.grad.tolist() == [2, 4, 6]
        x = leaf()
        h = x.reshape(3, 1)
        (h * h).sum().backward()
        (h.exp() * 0).sum().backward()
        assert x.grad.tolist() == [2, 4, 6]
        x = leaf()
        loss = x.mean()
        loss.backward()
        loss.backward()
        np.testing.assert_allclose(host(x.grad), 2 / 3)

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: -(x + 1 - x.T) + x.flip(0) + x.roll(1, 0) + x.tril(),
            lambda x: x[0] + x[:, 1] + x[..., None][:, 2, 0] + x.unbind(1)[0] + x.sum(0) + x.diagonal() + x.cumsum(1)[2],
            lambda x: x.expand(2, 3, 3) + x.repeat(2, 1, 1) + gradlib.stack([x, x]) + gradlib.cat([x, x]).reshape(2, 3, 3),
            lambda x: x.float().double().clone() + x.floor(),
            lambda x: x * 2 + 3 * x - x / 4,
            lambda x: x.remainder(2) + x.fmod(x.detach()) + x.lerp(x.T, 0.5) + gradlib.addcmul(x, x.detach(), x.detach()),
            lambda x: x.addcdiv(x.detach(), x.detach(), value=2) + gradlib.nn.functional.linear(x.detach(), x.detach(), x[0]),
            lambda x: x.index_add(0, places(), x.detach()) + x.clone().index_add_(1, places(), x.detach(), alpha=2),
            lambda x: x.scatter_add(0, places(3, 1), x.detach()) + x.index_put((places(), places()), x.detach()[0], accumulate=True),
        ],
    )
    def test_such_programs(self, program: Callable[[Tensor], Tensor]) -> None:
        x = gradlib.arange(1.0, 10.0, dtype=gradlib.float64).reshape(3, 3).requires_grad_()
        y = program(x)
        y.backward(gradlib.ones_like(y))
        once = host(x.grad).copy()
        y.backward(gradlib.ones_like(y))
        np.testing.assert_array_equal(host(x.grad), 2 * once)
        np.testing.assert_array_equal(host(grad(y, x, gradlib.ones_like(y), create_graph=True, retain_graph=False)[0]), once)
        y.backward(gradlib.ones_like(y))

    def test_a_function_that_saved_nothing(self) -> None:
        class Twice(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.factor = 2
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g * ctx.factor

        x = leaf()
        y = Twice.apply(x).sum()
        y.backward()
        y.backward()
        assert x.grad.tolist() == [4, 4, 4]

    def test_what_is_no_tensor_can_be_read_afterwards(self) -> None:
        y = leaf().sum(0)
        y.backward()
        assert y.grad_fn._saved_dim == 0

    def test_also_through_a_shared_part(self) -> None:
        x = leaf()
        h = x * x
        a, b = (h * h).sum(), (h * 2).sum()
        a.backward()
        with pytest.raises(RuntimeError, match=f"{FREED}.*MulBackward0"):
            b.backward()

    def test_retained_graph_runs_again_until_it_is_freed(self) -> None:
        x = leaf()
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [4, 8, 12]
        with pytest.raises(RuntimeError, match=FREED):
            y.backward()

    def test_create_graph_retains(self) -> None:
        x = leaf()
        y = (x * x).sum()
        grad(y, x, create_graph=True)
        grad(y, x, create_graph=True, retain_graph=False)
        with pytest.raises(RuntimeError, match=FREED):
            grad(y, x)

    def test_only_what_ran_is_freed(self) -> None:
        x = leaf()
        h = x * x
        y = (h * h).sum()
        grad(y, h)
        (g,) = grad(h.sum(), x)
        assert g.tolist() == [2, 4, 6]
        with pytest.raises(RuntimeError, match=FREED):
            grad(y, x)


class TestCreateGraph:
    def test_the_gradient_is_differentiable(self) -> None:
        x = leaf()
        (x * x * x).sum().backward(create_graph=True)
        first, x.grad = x.grad, None
        assert first.grad_fn is not None
        first.sum().backward()
        assert x.grad.tolist() == [6, 12, 18]

    def test_through_the_cotangent(self) -> None:
        x, g = leaf(), ones(3).requires_grad_()
        (d,) = grad(x * x, x, g, create_graph=True)
        first, second = grad(d.sum(), [x, g])
        assert (first.tolist(), second.tolist()) == ([2, 2, 2], [2, 4, 6])

    def test_third_order(self) -> None:
        x = leaf(0.5)
        y = x.sin()
        for expected in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)):
            (y,) = grad(y, x, ones(1), create_graph=True)
            np.testing.assert_allclose(host(y), expected([0.5]))

    def test_without_it_the_gradient_is_a_constant(self) -> None:
        x, g = leaf(), ones(3).requires_grad_()
        (d,) = grad(x * x, x, g)
        assert not d.requires_grad

    def test_under_no_grad(self) -> None:
        x = leaf()
        y = (x * x).sum()
        with gradlib.no_grad():
            y.backward(create_graph=True)
        assert x.grad.requires_grad
        assert gradlib.is_grad_enabled()


class TestInputs:
    def test_only_these(self) -> None:
        for wrap in (lambda x: x, lambda x: [x], lambda x: (x, x)):
            x, y = leaf(), leaf(4.0, 5.0, 6.0)
            (x * y).sum().backward(inputs=wrap(x))
            assert x.grad.tolist() == [4, 5, 6]
            assert y.grad is None

    def test_anything_that_holds_tensors(self) -> None:
        for inputs in (lambda x: {"x": x}, lambda x: {"x": x}.values(), lambda x: (each for each in [x]), lambda x: {x}):
            x = leaf()
            (x * x).sum().backward(inputs=inputs(x))
            backward((each for each in [x * x]), (ones(3) for _ in range(1)), inputs=inputs(x))
            assert x.grad.tolist() == [4, 8, 12]

    def test_a_retained_gradient_is_added_once(self) -> None:
        x = leaf()
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward(inputs=(h,))
        assert h.grad.tolist() == [4, 8, 12]
        h = x * 2
        (h * h).sum().backward(inputs=(h, h), create_graph=True)
        assert h.retains_grad
        assert h.grad.tolist() == [4, 8, 12]
        assert h.grad.requires_grad
        h.grad = None

    def test_nodes_of_intermediate_values_run(self) -> None:
        x, log = leaf(), []
        h = x.exp().sort()[0]
        for node in (h.grad_fn, h.grad_fn.next_functions[0][0]):
            node.register_prehook(lambda g, node=node: log.append(f"before {node.name()}"))
            node.register_hook(lambda d, g, node=node: log.append(f"after {node.name()}"))
        h.sum().backward(inputs=[h])
        assert log == ["before SortBackward0", "after SortBackward0"]
        with pytest.raises(RuntimeError, match=FREED):
            h.sum().backward()

    def test_an_edge_retains_nothing(self) -> None:
        x = leaf()
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward(inputs=gradlib.autograd.graph.get_gradient_edge(h))
        assert h.grad.tolist() == [4, 8, 12]
        (x * x).sum().backward(inputs=gradlib.autograd.graph.get_gradient_edge(x))
        assert x.grad.tolist() == [2, 4, 6]

    def test_intermediate_values(self) -> None:
        x = leaf()
        h = x * 2
        (h * h).sum().backward(inputs=[h, x])
        assert h.grad.tolist() == [4, 8, 12]
        assert x.grad.tolist() == [8, 16, 24]
        h = x * 2
        (h * h).sum().backward(inputs=[h])
        (h * 3).sum().backward(inputs=[h])
        assert h.grad.tolist() == [7, 11, 15]

    def test_the_output_itself(self) -> None:
        x = leaf(2.0)
        y = x * x
        y.backward(inputs=[y])
        assert y.grad.tolist() == [1]
        assert x.grad is None

    def test_one_that_was_not_used(self) -> None:
        x, y = leaf(), leaf()
        (x * x).sum().backward(inputs=[y])
        assert x.grad is y.grad is None

    def test_empty_or_constant_inputs_are_refused(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
            (x * x).sum().backward(inputs=[])
        with pytest.raises(RuntimeError, match="does not require grad"):
            (x * x).sum().backward(inputs=[ones(3)])
        with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got int"):
            (x * x).sum().backward(inputs=[5])
        with pytest.raises(TypeError, match="must be a dict, not OrderedDict"):
            (x * x).sum().backward(inputs=OrderedDict(x=x))
        with pytest.raises(TypeError, match="tensors is a Tensor or several, got None"):
            backward(None)


class TestGrad:
    def test_anything_that_holds_tensors(self) -> None:
        x = leaf()
        params = {"x": x, "y": leaf()}
        for inputs in (params.values(), (each for each in params.values()), set(params.values())):
            assert sorted(g.tolist() for g in grad((x * params["y"]).sum(), inputs)) == [[1, 2, 3], [1, 2, 3]]
        assert grad((each for each in [x * x, x * 3]), x, (ones(3) for _ in range(2)))[0].tolist() == [5, 7, 9]
        with pytest.raises(TypeError, match="is a Tensor, several or a dict of them, got None"):
            grad(x.sum(), None)
        with pytest.raises(TypeError, match="outputs is a Tensor or several, got None"):
            grad(None, x)

    def test_a_dict_for_a_dict(self) -> None:
        x, unused = leaf(), leaf(1.0)
        found = grad((x * x).sum(), {"x": x, "unused": unused}, materialize_grads=True)
        assert {name: g.tolist() for name, g in found.items()} == {"x": [2, 4, 6], "unused": [0]}
        found = grad(x * x, {"x": x}, gradlib.eye(3, dtype=gradlib.float64), is_grads_batched=True)
        assert found["x"].tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]

    def test_zeros_for_what_is_unused_can_be_differentiated(self) -> None:
        x, unused = leaf(), leaf(1.0)
        assert grad((x * x).sum(), unused, create_graph=True, materialize_grads=True)[0].requires_grad
        assert not grad((x * x).sum(), unused, materialize_grads=True)[0].requires_grad

    def test_returns_and_leaves_nothing(self) -> None:
        x, y = leaf(), leaf(4.0, 5.0, 6.0)
        found = grad((x * y).sum(), [x, y])
        assert isinstance(found, tuple)
        assert [g.tolist() for g in found] == [[4, 5, 6], [1, 2, 3]]
        assert x.grad is y.grad is None

    def test_of_intermediate_values_repeated_inputs_and_the_output(self) -> None:
        x = leaf(3.0)
        h = x * 2
        y = h * h
        found = grad(y, [h, x, x, y])
        assert [g.tolist() for g in found] == [[12], [24], [24], [1]]
        assert grad(x, x)[0].tolist() == [1]

    def test_several_outputs(self) -> None:
        x = leaf()
        assert grad([x * x, x * 3], x, [ones(3), ones(3)])[0].tolist() == [5, 7, 9]
        assert grad([(x * x).sum(), (x * 3).sum()], x)[0].tolist() == [5, 7, 9]

    def test_unused_input_is_refused_or_None(self) -> None:
        x, y = leaf(), leaf()
        with pytest.raises(RuntimeError, match=r"Tensor at index 1 appears to not have been used in the graph\. Set allow_unused=True"):
            grad((x * x).sum(), [x, y])
        assert grad((x * x).sum(), [x, y], allow_unused=True)[1] is None
        zeros = grad((x * x).sum(), [x, y], materialize_grads=True)[1]
        assert (zeros.tolist(), zeros.dtype) == ([0, 0, 0], gradlib.float64)
        with pytest.raises(ValueError, match="allow_unused to be True or not passed when materialize_grads=True"):
            grad((x * x).sum(), x, allow_unused=False, materialize_grads=True)

    def test_arguments_by_position(self) -> None:
        x = leaf()
        (g,) = grad(x * x, x, ones(3), True, True)
        assert g.requires_grad

    def test_empty_or_constant_inputs_are_refused(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
            grad(x.sum(), [])
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
            grad(x.sum(), ones(3), allow_unused=True)
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
            grad(ones(1), x)
        with pytest.raises(RuntimeError, match="appears to not have been used"):
            grad([], x)
        with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
            grad(x.sum(), x, only_inputs=False)


class TestOneOfTwoGradients:
    """A node of two inputs of which one wants a gradient hands on that one alone, but whoever looks sees both places."""

    @pytest.mark.parametrize("place", [0, 1])
    @pytest.mark.parametrize("operation", [gradlib.add, gradlib.sub, gradlib.mul, gradlib.div, gradlib.atan2, gradlib.matmul])
    def test_gives_what_it_gives_beside_the_other(self, operation, place):
        values = [gradlib.tensor(x, dtype=gradlib.float64) for x in ([[0.5, 2.0], [1.5, -1.0]], [[3.0, 1.0], [2.0, 0.5]])]
        both = [x.clone().requires_grad_() for x in values]
        expected = grad(operation(*both).sum(), both)[place]
        given = [x.clone().requires_grad_(k == place) for k, x in enumerate(values)]
        for retain in (True, False):
            out = operation(*given).sum()
            assert len(out.grad_fn.next_functions[0][0].next_functions) == 2
            given[place].grad = None
            out.backward(retain_graph=retain)
            np.testing.assert_array_equal(host(given[place].grad), host(expected))

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_hook_sees_both_places(self, place):
        given = [leaf(2.0).requires_grad_(k == place) for k in range(2)]
        seen: list[Any] = []
        made = given[0] * given[1]
        made.grad_fn.register_hook(lambda grads, outputs: seen.append([g is not None for g in grads]))
        made.backward()
        assert seen == [[k == place for k in range(2)]]

    def test_after_what_is_later_in_the_graph(self):
        """Its input's node is not the last that waits."""
        x, w = leaf(2.0), leaf(3.0).detach()
        early = x * w
        late = (x + w) * w
        (late.exp() * 0 + early * w + late).sum().backward()
        assert x.grad.tolist() == [12.0]

    @pytest.mark.parametrize("by_tensor", [False, True])
    def test_a_node_frees_what_it_saved_of_tensors(self, by_tensor):
        made = leaf(2.0) * (leaf(2.5).detach() if by_tensor else 2.5)
        made.backward()
        if by_tensor:
            with pytest.raises(RuntimeError, match=FREED):
                made.backward()
        else:
            made.backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "complex128"])
def test_more_than_two_gradients_of_one_number_add_up(dtype):
    """NumPy's results of no dimension are scalars, of one type for each dtype."""
    x = gradlib.tensor(2.0, dtype=getattr(gradlib, dtype), requires_grad=True)
    (x * 2 + x * 3 + x * 4).abs().backward()
    assert x.grad.tolist() == 9


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((), (2, 3)), ((2, 1), (1, 3))])
def test_a_gradient_summed_over_broadcast_dimensions_keeps_its_inputs_dtype(dtype, shapes):
    """Halves are summed in float32, which ends there."""
    x, y = (gradlib.ones(shape, dtype=getattr(gradlib, dtype), requires_grad=True) for shape in shapes)
    made = x * y
    for create_graph in (False, True):
        gradients = grad(made, (x, y), gradlib.ones_like(made), retain_graph=True, create_graph=create_graph)
        assert [(g.dtype, g.shape) for g in gradients] == [(x.dtype, x.shape), (y.dtype, y.shape)]
