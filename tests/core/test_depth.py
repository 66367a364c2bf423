"""Graphs that are deep or wide: no recursion forward, backward or on the way out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from gradlib.autograd import Function, grad
from gradlib.core.tensor import Tensor
from tests.values import leaf


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
            pytest.param(lambda y: y * 1.0, 30_000, False, id="operations"),
            pytest.param(lambda y: y * 1.0, 10_000, True, id="operations, recorded"),
            pytest.param(lambda y: y[:], 20_000, False, id="slices"),
            pytest.param(lambda y: y.view(2), 30_000, False, id="views"),
            pytest.param(lambda y: y.split([1, 1])[0].expand(2), 10_000, False, id="several outputs"),
            pytest.param(lambda y: (y * 1.0).add_(0.0), 10_000, False, id="in place"),
            pytest.param(lambda y: Pass.apply(y), 20_000, False, id="functions"),
        ],
    )
    @pytest.mark.slow
    def test_a_chain(self, step: Callable[[Tensor], Tensor], length: int, create_graph: bool, device: str) -> None:
        self.run(step, length if device == "cpu" else length // 10, create_graph)  # the graph is the same, its arrays take longer to make

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
