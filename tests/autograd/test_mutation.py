"""allow_mutation_on_saved_tensors: what was saved is copied when it is written. Expected values are torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.autograd.graph import allow_mutation_on_saved_tensors
from tests.values import host, leaf


class Exp(Function):
    """exp, saving its output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


def values() -> tuple[gradlib.Tensor, gradlib.Tensor]:
    """A leaf and a copy of it that may be written."""
    a = leaf(0.5, 1.0, 2.0)
    return a, a.clone()


def test_backward_uses_the_values_before_the_write() -> None:
    with allow_mutation_on_saved_tensors() as context:
        a, b = values()
        out = (b**2).sum()
        b.sin_()
        assert len(context.cloned) == 1
        out.backward()
    np.testing.assert_array_equal(host(a.grad), [1.0, 2.0, 4.0])


def test_without_a_write_nothing_is_copied() -> None:
    with allow_mutation_on_saved_tensors() as context:
        a, b = values()
        (b * b + b.exp()).sum().backward()
        b.zero_()
        assert not context.cloned
    np.testing.assert_allclose(host(a.grad), np.array([1.0, 2.0, 4.0]) + np.exp([0.5, 1.0, 2.0]))


def test_through_views_of_either() -> None:
    with allow_mutation_on_saved_tensors():
        a, b = values()
        v = b[1:]
        out = (v * v).sum()
        b[2] = 5.0
        b.zero_()
        (out + b.sum()).backward()
    np.testing.assert_array_equal(host(a.grad), [0.0, 2.0, 4.0])


def test_every_way_of_writing() -> None:
    for write in (
        lambda c: c.zero_(),
        lambda c: c.mul_(2.0),
        lambda c: c.copy_(gradlib.zeros(3)),
        lambda c: c.__setitem__(0, 9.0),
        lambda c: c.__setitem__(slice(None), 9.0),
        lambda c: c.fill_(4.0),
        lambda c: c.normal_(),
        lambda c: c.detach().add_(1),
        lambda c: gradlib.mul(gradlib.ones(3, dtype=gradlib.float64), 9.0, out=c),
        lambda c: c.view(3, 1).add_(1),
    ):
        with allow_mutation_on_saved_tensors():
            a = leaf(1.0, 1.0, 1.0)
            c = gradlib.tensor([2.0, 3.0, 4.0], dtype=gradlib.float64)
            out = (a * c).sum()
            write(c)
            out.backward()
        np.testing.assert_array_equal(host(a.grad), [2.0, 3.0, 4.0])


def test_optimisers_may_step_between() -> None:
    with allow_mutation_on_saved_tensors():
        a = leaf(1.0, 2.0)
        out = (a * a).sum()
        a.grad = gradlib.ones(2, dtype=gradlib.float64)
        gradlib.optim.SGD([a], lr=0.5).step()
        (g,) = grad(out, a)
    np.testing.assert_array_equal(host(g), [2.0, 4.0])
    np.testing.assert_array_equal(host(a), [0.5, 1.5])


def test_in_place_chains_and_higher_orders() -> None:
    with allow_mutation_on_saved_tensors():
        a, b = values()
        out = b**3
        b.mul_(2)
        (g,) = grad(out.sum(), a, create_graph=True)
        g.sum().backward()
    np.testing.assert_allclose(host(a.grad), [3.0, 6.0, 12.0])


def test_custom_functions() -> None:
    with allow_mutation_on_saved_tensors():
        a, b = values()
        y = Exp.apply(b)
        b.zero_()
        z = y * 1
        y.mul_(2)
        z.sum().backward()
    np.testing.assert_allclose(host(a.grad), np.exp([0.5, 1.0, 2.0]))


def test_nesting_and_use_outside_are_refused() -> None:
    with allow_mutation_on_saved_tensors():
        _, b = values()
        out = (b**2).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"), allow_mutation_on_saved_tensors():
            pass
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()
    c = b * b
    b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
