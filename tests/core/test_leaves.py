"""Leaves and their gradients: requires_grad, detach, .grad, the layout of gradients, what shares memory, retain_grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import grad
from gradlib.core.tensor import Tensor
from tests.values import leaf, ones


def test_its_data_cannot_be_deleted() -> None:
    x = leaf()
    with pytest.raises(RuntimeError, match=r"Deleting tensor data is not allowed. Delete tensor instead!"):
        del x.data


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
        with pytest.raises(RuntimeError, match=r"only change requires_grad flags of leaf variables\.$"):
            y.requires_grad = True

    @pytest.mark.parametrize("value", [1, None, "a", np.True_])
    def test_it_is_a_bool(self, value: Any) -> None:
        x = ones(3)
        with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
            x.requires_grad = value
        with pytest.raises(TypeError, match=r"requires_grad_\(\): argument 'requires_grad'.*must be bool, not"):
            x.requires_grad_(value)
        assert not x.requires_grad

    def test_is_leaf(self) -> None:
        x = leaf()
        assert x.is_leaf
        assert x.grad_fn is None
        assert ones(2).is_leaf
        assert not (x * 2).is_leaf
        assert (x * 2).detach().is_leaf
        with gradlib.no_grad():
            assert (x * 2).is_leaf

    def test_detach_shares_memory_and_version(self) -> None:
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
    def test_assigned_gradient_is_added_to(self) -> None:
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
    def test_wrong_gradient_is_refused(self, value: Any, error: type[Exception], says: str) -> None:
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
            (lambda b: b.permute(2, 0, 1), (1, 12, 4)),
            (lambda b: b[:, ::2], (8, 4, 1)),
            (lambda b: b[..., :2], (6, 2, 1)),
            (lambda b: b[:1].expand(2, 3, 4), (12, 4, 1)),
        ],
        ids=["row-major", "permuted", "spaced", "narrow", "expanded"],
    )
    @pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: x.sum()], ids=["square", "sum"])
    @pytest.mark.parametrize("create_graph", [False, True])
    def test_first_gradient_takes_its_leafs_layout(self, make: Any, strides: tuple[int, ...], function: Any, create_graph: bool) -> None:
        x = make(gradlib.arange(24.0, dtype=gradlib.float64).view(2, 3, 4)).detach().requires_grad_()
        function(x).backward(create_graph=create_graph)
        assert x.grad.stride() == strides
        x.grad = None

    def test_a_gradient_that_is_there_keeps_its_layout(self) -> None:
        x = gradlib.arange(6.0, dtype=gradlib.float64).view(2, 3).t().detach().requires_grad_()
        x.grad = gradlib.zeros(3, 2, dtype=gradlib.float64)
        (x * x).sum().backward()
        assert x.grad.stride() == (2, 1)


def assigned(x: Tensor) -> Tensor:
    """The same values, some of them written again."""
    y = x.clone()
    y[1:] = x[1:]
    return y


class TestAliasing:
    """No two gradients share memory, and none shares a user's array."""

    def test_two_leaves_of_a_sum(self) -> None:
        for create_graph in (False, True):
            x, y, g = leaf(), leaf(), ones(3)
            (x + y).backward(g, create_graph=create_graph)
            with gradlib.no_grad():
                x.grad.mul_(5)
            assert (y.grad.tolist(), g.tolist()) == ([1, 1, 1], [1, 1, 1])

    @pytest.mark.parametrize("through", [lambda x: x, lambda x: x + 0, lambda x: x.view(3, 1).view(3), lambda x: x.clone(), assigned])
    def test_a_given_cotangent_is_never_written(self, through: Callable[[Tensor], Tensor]) -> None:
        for g in (ones(3), ones(3)._array):
            x = leaf()
            through(x).backward(g)
            through(x).backward(g)
            x.grad.mul_(5)
            assert x.grad.tolist() == [10, 10, 10]
            assert g.tolist() == [1, 1, 1]

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


def test_data_that_is_replaced_brings_its_storage() -> None:
    x = gradlib.arange(4.0)
    view, later = x[1:], gradlib.tensor([7.0, 8.0, 9.0])
    rest = view[1:]
    view.data = later[1:]
    assert (view.storage_offset(), view.as_strided((2,), (1,), 0).tolist()) == (1, [7, 8])
    assert (rest.tolist(), x.tolist()) == ([2, 3], [0, 1, 2, 3])
    y = gradlib.arange(4.0).reshape(2, 2)
    y.data = y.data * 2
    assert (y.storage_offset(), y.as_strided((2,), (1,)).tolist()) == (0, [0, 2])
    x.data = x.data[1:]
    assert (x.storage_offset(), x.as_strided((2,), (1,), 0).tolist()) == (1, [0, 1])
