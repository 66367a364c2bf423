"""Custom Functions under vmap: a rule of one's own, one made from the Function, and neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import vmap
from gradlib.autograd import Function
from gradlib.func import grad, hessian, jacfwd, jacrev, jvp
from tests.values import host


def drawn(*shape: int, seed: int = 0) -> gradlib.Tensor:
    return gradlib.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(got: gradlib.Tensor, want: gradlib.Tensor) -> None:
    np.testing.assert_allclose(host(got), host(want), rtol=1e-10, atol=1e-10)


class Weighted(Function):
    """x³ w for one row, with everything a rule can be made from."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any, power: int) -> Any:
        assert x.ndim == 1
        return x**power * w, x.sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, ctx.power = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Any, g_sum: Any) -> Any:
        x, w = ctx.saved_tensors
        assert x.ndim == 1
        return ctx.power * x ** (ctx.power - 1) * w * g + g_sum, x**ctx.power * g, None

    @staticmethod
    def jvp(ctx: Any, x_t: Any, w_t: Any, _: Any) -> Any:
        x, w = ctx.saved_tensors
        return ctx.power * x ** (ctx.power - 1) * w * x_t + x**ctx.power * w_t, x_t.sum()


def by_function(x: Any, w: Any) -> Any:
    value, total = Weighted.apply(x, w, 3)
    return (value * total).sum()


def by_operations(x: Any, w: Any) -> Any:
    return (x**3 * w * x.sum()).sum()


class TestMadeRule:
    @pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, None)])
    def test_value_and_gradients(self, dims: tuple[int | None, ...]) -> None:
        x = drawn(3, 3) if dims[0] is not None else drawn(3)
        w = drawn(3, 3, seed=1) if dims[1] is not None else drawn(3, seed=1)
        same(vmap(by_function, dims)(x, w), vmap(by_operations, dims)(x, w))
        for got, want in zip(vmap(grad(by_function, (0, 1)), dims)(x, w), vmap(grad(by_operations, (0, 1)), dims)(x, w), strict=True):
            same(got, want)

    def test_gradient_of_what_all_rows_share(self) -> None:
        x, w = drawn(4, 3).requires_grad_(), drawn(3, seed=1).requires_grad_()
        vmap(by_function, (0, None))(x, w).sum().backward()
        got = x.grad, w.grad
        x.grad = w.grad = None
        vmap(by_operations, (0, None))(x, w).sum().backward()
        same(got[0], x.grad)
        same(got[1], w.grad)

    def test_higher_order_and_forward(self) -> None:
        x, w = drawn(4, 3), drawn(3, seed=1)
        for transform in (hessian, lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))):
            same(vmap(transform(by_function), (0, None))(x, w), vmap(hessian(by_operations), (0, None))(x, w))
        ahead = [vmap(lambda r, f=f: jvp(lambda r: f(r, w), (r,), (r,))[1])(x) for f in (by_function, by_operations)]
        same(*ahead)

    def test_nested_vmap_equals_nested_vmap_of_the_operations(self) -> None:
        x, w = drawn(2, 4, 3), drawn(4, 3, seed=1)
        same(vmap(vmap(by_function), (0, None))(x, w), vmap(vmap(by_operations), (0, None))(x, w))


class TestOwnRule:
    def test_it_is_told_of_the_batch(self) -> None:
        told = []

        class Total(Function):
            @staticmethod
            def forward(x: Any, scale: float) -> Any:
                return x.sum() * scale

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any, scale: float) -> Any:
                told.append((info.batch_size, info.randomness, in_dims, x.shape))
                return x.movedim(in_dims[0], 0).sum(1) * scale, 0

        x = drawn(4, 3)
        same(vmap(lambda r: Total.apply(r, 2.0), 1, randomness="same")(x), x.sum(0) * 2)
        assert told == [(3, "same", (1, None), (4, 3))]
        same(vmap(lambda r: Total.apply(x[0], 2.0) * r)(x), x * x[0].sum() * 2)
        assert len(told) == 1

    def test_what_it_returns_is_checked(self) -> None:
        class Alone(Function):
            @staticmethod
            def forward(x: Any) -> Any:
                return x

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any) -> Any:
                return x

        with pytest.raises(RuntimeError, match="to return a tuple of two elements"):
            vmap(Alone.apply)(drawn(4, 3))


def test_function_with_no_rule_or_with_both_is_refused() -> None:
    class Neither(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    class Both(Weighted):
        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
            return args[0], 0

    class OldStyle(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    x = drawn(4, 3)
    with pytest.raises(RuntimeError, match="it does not have vmap support"):
        vmap(Neither.apply)(x)
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overriden vmap staticmethod"):
        vmap(lambda r: Both.apply(r, r, 3))(x)
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        vmap(OldStyle.apply)(x)
    same(vmap(lambda r: r * Neither.apply(x[0]))(x), x * x[0] * 2)
