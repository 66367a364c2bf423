"""autograd.functional: values against plain derivatives, the shape of what is returned, strict mode and create_graph."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import functional
from gradlib.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from tests.values import host


def drawn(*shape: int, seed: int = 0, wants: bool = False) -> gradlib.Tensor:
    return gradlib.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=wants)


def same(got: gradlib.Tensor, want: Any) -> None:
    want = host(want) if isinstance(want, gradlib.Tensor) else want
    np.testing.assert_allclose(host(got), want, rtol=1e-10, atol=1e-10)


def cubes(x: gradlib.Tensor) -> gradlib.Tensor:
    return (x**3).sum()


class TestProducts:
    def test_products_equal_those_by_hand(self) -> None:
        x, v = drawn(3), drawn(3, seed=1)
        for product in (vhp, hvp):
            value, made = product(cubes, x, v)
            same(value, cubes(x))
            same(made, 6 * x * v)
        for product in (vjp, jvp):
            value, made = product(lambda x: x.sin(), x, v)
            same(value, x.sin())
            same(made, x.cos() * v)
            assert not made.requires_grad
        one = drawn(1)
        for product in (vjp, jvp):
            same(product(cubes, one)[1].reshape(()), 3 * one[0] ** 2)
        for product in (vhp, hvp):
            same(product(cubes, one)[1], 6 * one)

    def test_several_inputs_and_outputs(self) -> None:
        x, y = drawn(2, 3), drawn(3, seed=1)
        f = lambda x, y: (x * y, y.sum())  # noqa: E731
        (first, second), (by_x, by_y) = vjp(f, (x, y), (x, y.sum()))
        same(first, x * y)
        same(second, y.sum())
        same(by_x, x * y)
        same(by_y, (x * x).sum(0) + y.sum())
        _, (ahead, total) = jvp(f, (x, y), (x, y))
        same(ahead, 2 * x * y)
        same(total, y.sum())
        g = lambda x, y: (x * y).sum() ** 2  # noqa: E731
        for product in (vhp, hvp):
            _, (by_x, by_y) = product(g, (x, y), (x, y))
            same(by_x, (6 * (x * y).sum()) * y.expand(2, 3))
            assert by_y.shape == (3,)

    @pytest.mark.parametrize("product", [vjp, jvp, vhp, hvp])
    def test_create_graph(self, product: Any) -> None:
        x = drawn(3, wants=True)
        v = gradlib.ones((), dtype=gradlib.float64) if product is vjp else drawn(3, seed=1)
        value, made = product(cubes, x, v, create_graph=True)
        assert value.requires_grad
        made.sum().backward()
        weight = 1 if product is vjp else v
        same(x.grad, (6 * x if product in (vjp, jvp) else gradlib.full((3,), 6.0, dtype=gradlib.float64)) * weight)
        for made in product(cubes, x, v):
            assert not made.requires_grad

    def test_missing_or_wrong_vectors_are_refused(self) -> None:
        x = drawn(2)
        for call, says in (
            (lambda: vjp(lambda x: x, x), "v can only be None if the user-provided function returns a single Tensor with a single element"),
            (lambda: jvp(lambda x: x, x), "v can only be None if the input to the user-provided function is a single Tensor"),
            (lambda: hvp(cubes, x), "v can only be None if the input"),
            (lambda: vjp(lambda x: x, x, drawn(3)), r"v has invalid size: should be \[2\] but got \[3\]"),
            (lambda: jvp(lambda x, y: x, (x, x), (x, drawn(3))), r"Entry 1 in v has invalid size"),
            (lambda: vjp(lambda x: (x, x), x, x), "v is a tuple of invalid length: should be 2 but got 1"),
            (lambda: hvp(lambda x: (x.sum(), x), x, x), "given to hvp should return a single Tensor"),
            (lambda: vhp(lambda x: x, x, x), "given to vhp should contain a single element"),
        ):
            with pytest.raises(RuntimeError, match=says):
                call()
        with pytest.raises(TypeError, match="The inputs given to vjp must be either a Tensor or a tuple of Tensors"):
            vjp(cubes, [x])


class TestStrict:
    def test_zeros_unless_strict(self) -> None:
        x, v = drawn(3), drawn(3, seed=1)
        constant = lambda x: gradlib.ones((), dtype=gradlib.float64)  # noqa: E731
        linear = lambda x: x.sum()  # noqa: E731
        for product in (jvp, vhp, hvp):
            assert product(constant, x, v)[1].abs().sum().item() == 0
            with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
                product(constant, x, v, strict=True)
        for product in (vhp, hvp):
            assert product(linear, x, v)[1].abs().sum().item() == 0
            with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect to input 0 is independent"):
                product(linear, x, v, strict=True)
        with pytest.raises(RuntimeError, match=r"independent of input 0\. This is not allowed in strict mode when create_graph=True"):
            vjp(linear, x, create_graph=True, strict=True)
        with pytest.raises(RuntimeError, match="output of the user-provided function is independent of input 1"):
            vjp(lambda x, y: x.sum(), (x, x), strict=True)

    def test_jacobian_and_hessian(self) -> None:
        x = drawn(2)
        with pytest.raises(RuntimeError, match="Output 1 of the user-provided function is independent of input 0"):
            jacobian(lambda x, y: (x * y, y * 1), (x, x), strict=True)
        with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect to input 0 is independent"):
            hessian(lambda x: x.sum(), x, strict=True)
        with pytest.raises(RuntimeError, match=r"independent of input 0\. This is not allowed in strict mode when create_graph=True"):
            jacobian(lambda x: x.sum(), x, strict=True, create_graph=True)
        same(hessian(lambda x: x.sum(), x), np.zeros((2, 2)))


class TestMatrices:
    @pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
    def test_jacobian_equals_the_one_by_hand(self, options: dict[str, Any]) -> None:
        x, y = drawn(2, 3), drawn(3, seed=1)
        same(jacobian(lambda x: x.sin(), y, **options), gradlib.diag(y.cos()))
        (a, b), (c, d) = jacobian(lambda x, y: (x * y, x.sum()), (x, y), **options)
        assert [each.shape for each in (a, b, c, d)] == [(2, 3, 2, 3), (2, 3, 3), (2, 3), (3,)]
        same(b[1], gradlib.diag(x[1]))
        same(d, np.zeros(3))
        alone = jacobian(lambda x: (x * 2,), y, **options)
        assert isinstance(alone, tuple)
        same(alone[0], 2 * np.eye(3))
        assert jacobian(lambda y: y[:0], y, **options).shape == (0, 3)

    @pytest.mark.parametrize(("vectorize", "strategy"), [(False, "reverse-mode"), (True, "reverse-mode"), (True, "forward-mode")])
    def test_hessian_equals_the_one_by_hand(self, vectorize: bool, strategy: str) -> None:
        x, y = drawn(2), drawn(3, seed=1)
        made = hessian(cubes, y, vectorize=vectorize, outer_jacobian_strategy=strategy)
        same(made, gradlib.diag(6 * y))
        assert not made.requires_grad
        blocks = hessian(lambda x, y: x.sum() * (y**2).sum(), (x, y), vectorize=vectorize, outer_jacobian_strategy=strategy)
        same(blocks[0][1], (2 * y).expand(2, 3))
        same(blocks[1][1], 2 * x.sum() * gradlib.eye(3, dtype=gradlib.float64))

    @pytest.mark.parametrize("vectorize", [False, True])
    def test_create_graph(self, vectorize: bool) -> None:
        x = drawn(3, wants=True)
        jacobian(lambda x: x**3, x, create_graph=True, vectorize=vectorize).sum().backward()
        same(x.grad, 6 * x)
        x.grad = None
        hessian(cubes, x, create_graph=True, vectorize=vectorize).sum().backward()
        same(x.grad, np.full(3, 6.0))

    def test_choices_that_do_not_go_together(self) -> None:
        x = drawn(2)
        for options, error in (
            ({"strategy": "both"}, AssertionError),
            ({"strategy": "forward-mode"}, NotImplementedError),
            ({"strategy": "forward-mode", "create_graph": True}, NotImplementedError),
            ({"strategy": "forward-mode", "strict": True, "vectorize": True}, RuntimeError),
            ({"strict": True, "vectorize": True}, RuntimeError),
        ):
            with pytest.raises(error):
                jacobian(lambda x: x * 2, x, **options)
        with pytest.raises(AssertionError, match="Expected strategy"):
            hessian(cubes, x, outer_jacobian_strategy="both")
        with pytest.raises(RuntimeError, match="given to hessian should contain a single element"):
            hessian(lambda x: x, x)
        with pytest.raises(TypeError, match="outputs of the user-provided function given to jacobian"):
            jacobian(lambda x: 3, x)

    @pytest.mark.parametrize("count", [1, 3])
    def test_complex_outputs_are_refused(self, count: int) -> None:
        with pytest.raises(RuntimeError, match="only for real scalar outputs but got complex"):
            jacobian(lambda x: x * 1j, gradlib.ones(count))

    def test_hook_of_the_output_sees_each_row_once(self) -> None:
        seen = []

        def doubled(x: gradlib.Tensor) -> gradlib.Tensor:
            y = x * 2
            y.register_hook(lambda g: seen.append(g.tolist()))
            return y

        made = jacobian(doubled, gradlib.ones(2, 1))
        assert made.shape == (2, 1, 2, 1)
        assert seen == [[[1.0], [0.0]], [[0.0], [1.0]]]

    def test_inputs_are_left_alone(self) -> None:
        x = drawn(3)
        for name, create in itertools.product(("jacobian", "hessian"), (False, True)):
            getattr(functional, name)(cubes, x, create_graph=create)
            assert not x.requires_grad


class TestManyCotangents:
    def test_grad_of_batched_cotangents(self) -> None:
        x = drawn(3, wants=True)
        y = x.sin() * x.sum()
        eye = gradlib.eye(3, dtype=gradlib.float64)
        rows = gradlib.autograd.grad(y, x, eye, retain_graph=True, is_grads_batched=True)[0]
        same(rows, jacobian(lambda x: x.sin() * x.sum(), x))
        again = gradlib.autograd.grad(y, x, eye, create_graph=True, is_grads_batched=True)[0]
        again.sum().backward()
        assert x.grad is not None

    def test_unused_inputs_and_wrong_shapes(self) -> None:
        x, z = drawn(3, wants=True), drawn(2, wants=True)
        y = x * 2
        eye = gradlib.eye(3, dtype=gradlib.float64)
        assert gradlib.autograd.grad(y, (x, z), eye, retain_graph=True, allow_unused=True, is_grads_batched=True)[1] is None
        zeros = gradlib.autograd.grad(y, (x, z), eye, retain_graph=True, materialize_grads=True, is_grads_batched=True)[1]
        assert zeros.shape == (3, 2)
        with pytest.raises(RuntimeError, match="appears to not have been used"):
            gradlib.autograd.grad(y, (x, z), eye, retain_graph=True, is_grads_batched=True)
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            gradlib.autograd.grad(y, x, drawn(4, 2), retain_graph=True, is_grads_batched=True)
        with pytest.raises(RuntimeError, match="is_grads_batched=True needs grad_outputs"):
            gradlib.autograd.grad(y.sum(), x, is_grads_batched=True)
