"""How the first gradient of a leaf is kept: taken over where nothing else holds it, copied otherwise."""

from __future__ import annotations

import gradlib
import gradlib.nn.functional as F


def test_gradients_that_nothing_else_holds_are_taken_over() -> None:
    for biased in (True, False):
        leaves = [gradlib.ones(4, 3, requires_grad=True), gradlib.ones(4, requires_grad=True)][: 1 + biased]
        arrived: list[int] = []
        for leaf in leaves:
            leaf.register_hook(lambda g, arrived=arrived: arrived.append(g.data_ptr()))
        F.linear(gradlib.ones(5, 3), *leaves).sum().backward()
        assert {leaf.grad.data_ptr() for leaf in leaves} == set(arrived)


def test_further_gradients_of_a_number_are_added_in_place() -> None:
    x = gradlib.tensor(3.0, dtype=gradlib.float64, requires_grad=True)
    (x * x).backward()
    first = x.grad
    for _ in range(2):
        (x * x).backward()
    assert x.grad is first
    assert (first.item(), first.shape, first._version) == (18, (), 2)


def test_gradients_that_something_else_holds_are_copied() -> None:
    a, b = gradlib.ones(3, requires_grad=True), gradlib.ones(3, requires_grad=True)
    cotangent = gradlib.ones(3)
    (a + b).backward(cotangent)
    assert len({a.grad.data_ptr(), b.grad.data_ptr(), cotangent.data_ptr()}) == 3
    a.grad.add_(1)
    assert (b.grad.tolist(), cotangent.tolist()) == ([1, 1, 1], [1, 1, 1])
