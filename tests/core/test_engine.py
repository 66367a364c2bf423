"""backward and grad: arguments, what they return and leave, layouts of gradients, errors, deep graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, backward, grad
from gradlib.core.tensor import Tensor

FREED = "Trying to backward through the graph a second time"


def leaf(*values: float) -> Tensor:
    return gradlib.tensor(values or (1.0, 2.0, 3.0), dtype=gradlib.float64, requires_grad=True)


def ones(*shape: int) -> Tensor:
    return gradlib.ones(shape, dtype=gradlib.float64)


class TestCotangents:
    def test_a_scalar_needs_none(self) -> None:
        for x in (leaf(2.0), leaf(2.0).detach().reshape(()).requires_grad_()):
            (x * x).backward()
            np.testing.assert_array_equal(x.grad.numpy(), np.full(x.shape, 4.0))

    def test_a_leaf_itself(self) -> None:
        x = leaf(2.0)
        x.backward()
        assert x.grad.tolist() == [1]

    def test_given(self) -> None:
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
        (x * x).backward(np.ones(3))
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
    def test_wrong(self, make: Callable[[Tensor], Tensor], given: Any, error: type[Exception], says: str) -> None:
        x = leaf()
        with pytest.raises(error, match=says):
            make(x).backward(given)
        assert x.grad is None

    def test_complex(self) -> None:
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
        backward([])

    def test_wrong(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
            backward([x * x, x * 3], [ones(3)])
        with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
            backward([x.sum(), ones(1)])


class TestRetaining:
    def test_a_second_backward_is_refused(self) -> None:
        y = (leaf() * leaf()).sum()
        y.backward()
        with pytest.raises(RuntimeError, match=f"{FREED}.*SumBackward0.*retain_graph=True"):
            y.backward()

    def test_also_through_a_shared_part(self) -> None:
        x = leaf()
        h = x * x
        a, b = (h * h).sum(), (h * 2).sum()
        a.backward()
        with pytest.raises(RuntimeError, match=f"{FREED}.*MulBackward0"):
            b.backward()

    def test_retained(self) -> None:
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
            np.testing.assert_allclose(y.detach().numpy(), expected([0.5]))

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

    def test_wrong(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
            (x * x).sum().backward(inputs=[])
        with pytest.raises(RuntimeError, match="does not require grad"):
            (x * x).sum().backward(inputs=[ones(3)])
        with pytest.raises(TypeError, match="with respect to Tensors, got int"):
            (x * x).sum().backward(inputs=[5])


class TestGrad:
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

    def test_unused(self) -> None:
        x, y = leaf(), leaf()
        with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph. Set allow_unused=True.*index 1"):
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

    def test_wrong(self) -> None:
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


class TestLeaves:
    @pytest.mark.parametrize("dtype", [gradlib.int64, gradlib.int32, gradlib.uint8, np.bool_])
    def test_integers_cannot_require_gradients(self, dtype: Any) -> None:
        says = "only Tensors of floating point and complex dtype can require gradients"
        with pytest.raises(RuntimeError, match=says):
            gradlib.ones(3, dtype=dtype).requires_grad_()
        with pytest.raises(RuntimeError, match=says):
            gradlib.ones(3, dtype=dtype, requires_grad=True)
        x = gradlib.ones(3, dtype=dtype)
        with pytest.raises(RuntimeError, match=says):
            x.requires_grad = True
        x.requires_grad = False

    def test_switching_it(self) -> None:
        x = ones(3)
        assert x.requires_grad_() is x
        assert x.requires_grad
        (x * x).sum().backward()
        x.requires_grad = False
        assert x.grad.tolist() == [2, 2, 2]
        assert not (x * x).requires_grad
        y = leaf() * 2
        assert y.requires_grad_() is y
        for switch in (lambda: y.requires_grad_(False), lambda: setattr(y, "requires_grad", False)):
            with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
                switch()

    def test_is_leaf(self) -> None:
        x = leaf()
        assert x.is_leaf
        assert x.grad_fn is None
        assert ones(2).is_leaf
        assert not (x * 2).is_leaf
        assert (x * 2).detach().is_leaf
        with gradlib.no_grad():
            assert (x * 2).is_leaf

    def test_detach(self) -> None:
        x = leaf()
        y = x * x
        d = x.detach()
        assert (d.requires_grad, d.data_ptr() == x.data_ptr()) == (False, True)
        d.mul_(2)
        assert (x.tolist(), x._version, d._version) == ([2, 4, 6], 1, 1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    def test_data_is_not_watched(self) -> None:
        x = leaf()
        y = x * x
        x.data.mul_(2)
        assert x._version == 0
        y.sum().backward()
        assert x.grad.tolist() == [4, 8, 12]
        x.data = gradlib.zeros(4, dtype=gradlib.float64)
        x.grad = None
        (x * x).sum().backward()
        assert x.grad.shape == (4,)
        with pytest.raises(TypeError, match="data has to be a tensor"):
            x.data = 5

    def test_detach_in_place(self) -> None:
        y = leaf() * 2
        assert y.detach_() is y
        assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            (leaf() * 2)[:2].detach_()


class TestGradAttribute:
    def test_assigned(self) -> None:
        x = leaf()
        x.grad = ones(3)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [3, 3, 3]
        del x.grad
        assert x.grad is None

    @pytest.mark.parametrize(
        ("value", "error", "says"),
        [
            (ones(2), RuntimeError, r"shape \[2\]"),
            (gradlib.ones(3), RuntimeError, "float32"),
            (5, TypeError, "assigned grad expected to be a Tensor or None but got int"),
        ],
    )
    def test_wrong(self, value: Any, error: type[Exception], says: str) -> None:
        x = leaf()
        with pytest.raises(error, match=says):
            x.grad = value
        with pytest.raises(RuntimeError, match="own grad"):
            x.grad = x

    def test_of_an_intermediate_value_warns(self) -> None:
        y = leaf() * 2
        with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
            assert y.grad is None
        assert ones(2).grad is None

    def test_accumulates_in_place_or_is_replaced(self) -> None:
        x = leaf()
        (x * 2).sum().backward()
        first = x.grad
        (x * 2).sum().backward()
        assert x.grad is first
        assert first._version == 1
        (x * 2).sum().backward(create_graph=True)
        assert x.grad is not first
        assert (first.tolist(), x.grad.tolist()) == ([4, 4, 4], [6, 6, 6])

    def test_a_write_by_accumulation_is_noticed(self) -> None:
        x, w = leaf(), leaf()
        (x * 2).sum().backward()
        y = (w * x.grad).sum()
        (x * 2).sum().backward()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


class TestLayout:
    """torch's rules: a dense leaf's gradient has its strides, any other's is row-major."""

    @pytest.mark.parametrize(
        ("make", "strides"),
        [
            (lambda b: b, (12, 4, 1)),
            (lambda b: b.transpose(2, 0, 1), (1, 12, 4)),
            (lambda b: b[:, ::2], (8, 4, 1)),
            (lambda b: b[..., :2], (6, 2, 1)),
            (lambda b: np.broadcast_to(b[:1], (2, 3, 4)), (12, 4, 1)),
        ],
        ids=["row-major", "permuted", "spaced", "narrow", "expanded"],
    )
    @pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: x.sum()], ids=["square", "sum"])
    @pytest.mark.parametrize("create_graph", [False, True])
    def test_first(self, make: Any, strides: tuple[int, ...], function: Any, create_graph: bool) -> None:
        x = gradlib.from_numpy(make(np.arange(24.0).reshape(2, 3, 4))).requires_grad_()
        function(x).backward(create_graph=create_graph)
        assert x.grad.stride() == strides
        x.grad = None

    def test_a_gradient_that_is_there_keeps_its_layout(self) -> None:
        x = gradlib.from_numpy(np.arange(6.0).reshape(2, 3).T).requires_grad_()
        x.grad = gradlib.zeros(3, 2, dtype=gradlib.float64)
        (x * x).sum().backward()
        assert x.grad.stride() == (2, 1)


class TestAliasing:
    """No two gradients share memory, and none shares a user's array."""

    def test_two_leaves_of_a_sum(self) -> None:
        for create_graph in (False, True):
            x, y, g = leaf(), leaf(), ones(3)
            (x + y).backward(g, create_graph=create_graph)
            with gradlib.no_grad():
                x.grad.mul_(5)
            assert (y.grad.tolist(), g.tolist()) == ([1, 1, 1], [1, 1, 1])

    @pytest.mark.parametrize("through", [lambda x: x, lambda x: x + 0, lambda x: x.view(3, 1).view(3), lambda x: x.clone()])
    def test_a_given_cotangent_is_never_written(self, through: Callable[[Tensor], Tensor]) -> None:
        array = np.ones(3)
        for g in (ones(3), gradlib.from_numpy(array), array):
            x = leaf()
            through(x).backward(g)
            through(x).backward(g)
            x.grad.mul_(5)
            assert x.grad.tolist() == [10, 10, 10]
            assert np.asarray(g).tolist() == [1, 1, 1]

    def test_saved_values(self) -> None:
        x, c = leaf(), ones(3)
        (x * c).sum().backward()
        x.grad.mul_(5)
        assert c.tolist() == [1, 1, 1]

    def test_an_expanded_gradient_becomes_an_array_of_its_own(self) -> None:
        x = leaf()
        x.sum().backward()
        x.grad[0] = 5
        assert x.grad.tolist() == [5, 1, 1]

    def test_retained_gradients_and_those_of_inputs(self) -> None:
        x = leaf()
        y = x + 0
        y.retain_grad()
        y.sum().backward()
        y.grad.mul_(5)
        assert x.grad.tolist() == [1, 1, 1]
        x, g = leaf(), ones(3)
        y = x + 0
        (y + 0).backward(g, inputs=[y, x])
        y.grad.mul_(5)
        assert (x.grad.tolist(), g.tolist()) == ([1, 1, 1], [1, 1, 1])

    def test_what_a_hook_keeps(self) -> None:
        kept: list[Tensor] = []
        x = leaf()
        x.register_hook(kept.append)
        (x * x).sum().backward()
        x.grad.mul_(5)
        assert kept[0].tolist() == [2, 4, 6]


class TestRetainGrad:
    def test_keeps_and_accumulates(self) -> None:
        x = leaf()
        y = x * 2
        assert not y.retains_grad
        y.retain_grad()
        y.retain_grad()
        assert y.retains_grad
        (y * y).sum().backward(retain_graph=True)
        (y * y).sum().backward()
        assert y.grad.tolist() == [8, 16, 24]
        assert x.grad.tolist() == [16, 32, 48]

    def test_on_leaves_and_constants(self) -> None:
        x = leaf()
        x.retain_grad()
        assert not x.retains_grad
        with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
            ones(2).retain_grad()

    def test_after_hooks(self) -> None:
        for order in (0, 1):
            y = leaf() * 2
            steps = [lambda y=y: y.register_hook(lambda g: g * 10), y.retain_grad]
            for step in steps[:: -1 if order else 1]:
                step()
            y.sum().backward()
            assert y.grad.tolist() == [10, 10, 10]

    def test_follows_writes(self) -> None:
        x = leaf()
        y = x * 2
        y.retain_grad()
        y.mul_(3)
        (y * y).sum().backward()
        assert y.grad.tolist() == [12, 24, 36]
        y = x * 2
        y.retain_grad()
        y[:2].mul_(3)
        (y * y).sum().backward()
        assert y.grad.tolist() == [12, 24, 12]

    def test_with_create_graph_and_grad(self) -> None:
        x = leaf()
        y = x * 2
        y.retain_grad()
        grad((y * y).sum(), x, create_graph=True)
        assert y.grad.requires_grad
        y.grad = None

    def test_one_of_several_outputs(self) -> None:
        _, b = leaf().split([1, 2])
        b.retain_grad()
        (b * b).sum().backward()
        assert b.grad.tolist() == [4, 6]


class Pass(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0] * 0 + g


class TestDepth:
    """Long chains go forward, backward and away without recursion."""

    @pytest.mark.parametrize(
        ("step", "length", "create_graph"),
        [
            pytest.param(lambda y: y * 1.0, 100_000, False, id="operations"),
            pytest.param(lambda y: y * 1.0, 10_000, True, id="operations, recorded"),
            pytest.param(lambda y: y[:], 20_000, False, id="slices"),
            pytest.param(lambda y: y.view(2), 100_000, False, id="views"),
            pytest.param(lambda y: y.split([1, 1])[0].expand(2), 10_000, False, id="several outputs"),
            pytest.param(lambda y: (y * 1.0).add_(0.0), 10_000, False, id="in place"),
            pytest.param(lambda y: Pass.apply(y), 20_000, False, id="functions"),
        ],
    )
    def test_a_chain(self, step: Callable[[Tensor], Tensor], length: int, create_graph: bool) -> None:
        self.run(step, length, create_graph)

    @staticmethod
    def run(step: Callable[[Tensor], Tensor], length: int, create_graph: bool) -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(400)
        try:
            for differentiate in (True, False):
                x = y = leaf(1.0, 1.0)
                for _ in range(length):
                    y = step(y)
                if differentiate:
                    (g,) = grad(y.sum(), x, create_graph=create_graph)
                    assert g.shape == (2,)
                    del g
                del y
        finally:
            sys.setrecursionlimit(limit)

    def test_a_wide_graph(self) -> None:
        x = leaf(1.0)
        total = x * 0
        for _ in range(5000):
            total = total + x * x
        total.backward()
        assert x.grad.tolist() == [10_000]

    def test_paths_that_grow_exponentially(self) -> None:
        x = leaf(1.0)
        y = x
        for _ in range(60):
            y = y + y
        y.backward()
        assert x.grad.tolist() == [2.0**60]
