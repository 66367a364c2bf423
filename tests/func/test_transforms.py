"""The functional transforms: values, nesting of every pair, what they refuse, and how they meet graphs outside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad
from gradlib.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tests.values import host

Function = Callable[[Any], Any]


def drawn(*shape: int, seed: int = 0) -> gradlib.Tensor:
    return gradlib.tensor(np.asarray(np.random.default_rng(seed).standard_normal(shape)))


def same(got: gradlib.Tensor, want: Any, tolerance: float = 1e-10) -> None:
    want = host(want) if isinstance(want, gradlib.Tensor) else want
    np.testing.assert_allclose(host(got), want, rtol=tolerance, atol=tolerance)


linalg = gradlib.linalg
FORMULAS: dict[str, Callable[[gradlib.Tensor], Any]] = {
    "inv": lambda x: [linalg.inv(x)],
    "solve": lambda x: [linalg.solve(x, x.sin()), linalg.solve(x, x[0]), linalg.solve(x, x * x, left=False)],
    "solve_triangular": lambda x: [
        linalg.solve_triangular(x, x.cos(), upper=True),
        linalg.solve_triangular(x, x.cos(), upper=False, left=False, unitriangular=True),
    ],
    "det": lambda x: [linalg.det(x), linalg.slogdet(x).logabsdet],
    "cholesky": lambda x: [linalg.cholesky(x @ x.mT), linalg.cholesky(x @ x.mT, upper=True)],
    "eigh": lambda x: [linalg.eigvalsh(x), (lambda values, V: (V * values.sin()) @ V.mT)(*linalg.eigh(x))],
    "eig": lambda x: [linalg.eigvals(x).real, linalg.eig(x).eigenvectors.abs()],
    "svd": lambda x: [linalg.svdvals(x), (lambda U, S, Vh: U @ (S[:, None] ** 2 * Vh))(*linalg.svd(x, full_matrices=False))],
    "qr": lambda x: linalg.qr(x),
    "pinv": lambda x: [linalg.pinv(x)],
    "lstsq": lambda x: [linalg.lstsq(x, x.sin() + 1).solution, linalg.lstsq(x, x[:, 0] ** 2, driver="gels").residuals],
    "layer_norm": lambda x: [gradlib.nn.functional.layer_norm(x, x.shape[1:], x[0].sin(), x[0])],
    "order": lambda x: [gradlib.sort(x * x, 1).values, gradlib.topk(x.sin(), 2, 0).values, gradlib.cummax(x**3, 1).values],
    "losses": lambda x: [gradlib.nn.functional.huber_loss(x, x * x), gradlib.nn.functional.mse_loss(x, x.sin())],
}
SQUARE = ("inv", "solve", "solve_triangular", "det", "cholesky", "eigh", "eig")


class TestGrad:
    def test_value_and_arguments(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        f = lambda x, y: (x * y).sin().sum()  # noqa: E731
        by_x, by_y = (x * y).cos() * y, ((x * y).cos() * x).sum(0)
        same(grad(f)(x, y), by_x)
        same(grad(f, 1)(x, y), by_y)
        same(grad(f, -1)(x, y), by_y)
        both = grad(f, (1, 0))(x, y)
        assert isinstance(both, tuple)
        same(both[0], by_y)
        same(both[1], by_x)
        (alone,), value = grad_and_value(f, (0,))(x, y)
        same(alone, by_x)
        same(value, f(x, y))
        nested = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": [y]})
        same(nested["a"], y.expand(4, 3))
        same(nested["b"][0], x.sum(0))

    def test_aux_is_returned_detached(self) -> None:
        x = drawn(3)
        gradient, aux = grad(lambda x: (x.sum(), {"twice": x * 2}), has_aux=True)(x)
        same(gradient, np.ones(3))
        same(aux["twice"], x * 2)
        assert not aux["twice"].requires_grad
        _, (value, aux) = grad_and_value(lambda x: (x.sum(), x), has_aux=True)(x)
        assert not value.requires_grad
        assert not aux.requires_grad

    def test_what_does_not_depend_on_it_gets_zeros(self) -> None:
        same(grad(lambda x: gradlib.ones(()))(drawn(3)), np.zeros(3))
        both = grad(lambda x, y: x.sum(), (0, 1))(drawn(3), drawn(2))
        same(both[1], np.zeros(2))

    def test_results_that_are_no_scalar_tensors_are_refused(self) -> None:
        x = drawn(3)
        for call, says in (
            (lambda: grad(lambda x: x)(x), r"return a scalar Tensor, got tensor with 1 dims"),
            (lambda: grad(lambda x: 3.0)(x), "return a Tensor, got <class 'float'>"),
            (lambda: grad(lambda x: x.sum(), has_aux=True)(x), "should be a tuple"),
            (lambda: grad(lambda x: x.sum(), 1)(x), "only 1 positional inputs"),
            (lambda: grad(lambda x: x.sum(), (0, 0))(x), "argnums elements must be unique"),
            (lambda: grad(lambda x: x.sum())(gradlib.ones(2, dtype=gradlib.int64)), "floating point"),
            (lambda: grad(lambda x: x.add_(1).sum())(x), "leaf Variable that requires grad is being used in an in-place"),
        ):
            with pytest.raises(RuntimeError, match=says):
                call()
        with pytest.raises(ValueError, match="must be Tensor"):
            grad(lambda x: x * 2)(3.0)

    def test_in_place_inside(self) -> None:
        x = drawn(3)
        same(grad(lambda x: x.sin().mul_(x).add_(1).sum())(x), x.sin() + x * x.cos())
        same(x, drawn(3))

    def test_grad_modes(self) -> None:
        x = drawn(3)
        with gradlib.no_grad():
            same(grad(lambda x: (x**2).sum())(x), 2 * x)
        same(grad(lambda x: (x * gradlib.no_grad()(lambda: x * 1.0)()).sum())(x), x)
        w = drawn(3, seed=1).requires_grad_()
        with gradlib.no_grad():
            assert not grad(lambda x: (x**2 * w).sum())(x).requires_grad


class TestGraphsOutside:
    def test_result_without_a_graph(self) -> None:
        x = drawn(3)
        assert not grad(lambda x: (x**3).sum())(x).requires_grad
        assert not x.requires_grad
        value, pull = vjp(lambda x: x**3, x)
        assert not value.requires_grad
        assert not pull(x)[0].requires_grad

    def test_result_in_the_graph_of_what_it_used(self) -> None:
        x, w = drawn(3), drawn(3, seed=1).requires_grad_()
        made = grad(lambda x: (x**3 * w).sum())(x)
        made.sum().backward()
        same(w.grad, 3 * x**2)
        y = drawn(3, seed=2).requires_grad_()
        grad(lambda x: (x**3).sum())(y).sum().backward()
        same(y.grad, 6 * y)

    def test_a_leaf_of_a_transform_that_is_done_does_not_count(self) -> None:
        x = drawn()
        made = grad(lambda x: x * grad(lambda y: x * y * y)(drawn(seed=1)))(x)
        assert not made.requires_grad

    def test_vjp_can_be_called_again_and_differentiated(self) -> None:
        x, g = drawn(3), drawn(3, seed=1).requires_grad_()
        _, pull = vjp(lambda x: (x**2).sin(), x)
        first, second = pull(g)[0], pull(g)[0]
        same(first, second)
        first.sum().backward()
        same(g.grad, (x**2).cos() * 2 * x)


class TestNesting:
    def test_nothing_is_confused(self) -> None:
        """The inner derivative is taken at a place that happens to be the outer variable."""
        x, one = gradlib.tensor(1.5, dtype=gradlib.float64), gradlib.ones((), dtype=gradlib.float64)

        def ahead(f: Function) -> Function:
            return lambda x: jvp(f, (x,), (one,))[1]

        for outer, inner in itertools.product((grad, ahead, jacrev, jacfwd), repeat=2):
            assert outer(lambda x, inner=inner: x * inner(lambda y: x + y)(x))(x).item() == pytest.approx(1.0)
            assert outer(lambda x, inner=inner: x * inner(lambda y: x * y)(x))(x).item() == pytest.approx(3.0)
            assert outer(inner(lambda x: x**3))(x).item() == pytest.approx(9.0)

    def test_three_deep(self) -> None:
        x = drawn(4)
        same(vmap(grad(grad(grad(lambda x: x.sin()))))(x), -x.cos())
        same(vmap(jacfwd(jacrev(jacfwd(lambda x: x.sin()))))(x), -x.cos())

    def test_forward_over_forward_of_what_has_no_formula(self) -> None:
        x, t = drawn(3), drawn(3, seed=1)
        f = lambda x: x.cumprod(0).sum()  # noqa: E731
        second = jvp(lambda x: jvp(f, (x,), (t,))[1], (x,), (t,))[1]
        same(second, t @ hessian(f)(x) @ t)

    @pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)], ids=str)
    @pytest.mark.parametrize("name", FORMULAS)
    def test_formulas_for_tangents_at_the_second_order(self, name: str, shape: tuple[int, int]) -> None:
        x, w = drawn(*shape), drawn(64, seed=1)

        def f(x: gradlib.Tensor) -> gradlib.Tensor:
            if name in SQUARE:
                x = x @ x.mT + x[:, :1] + gradlib.arange(1.0, len(x) + 1).diag()
            parts = [y.reshape(-1) for y in FORMULAS[name](x)]
            return sum((w[: y.shape[0]] * y + 0.3 * y**2).sum() for y in parts)

        same(jacfwd(f)(x), jacrev(f)(x), 1e-7)
        want = host(jacrev(grad(f))(x))
        for made in (jacfwd(grad(f)), jacfwd(jacfwd(f))):
            np.testing.assert_allclose(host(made(x)), want, atol=1e-8 * max(1, np.abs(want).max()))

    def test_second_tangents_of_residuals_that_are_empty(self) -> None:
        x, w = drawn(4, 3), drawn(2, 4, 3, seed=1)
        residuals = lambda x: linalg.lstsq(x, x.sin()).residuals  # noqa: E731
        assert jvp(lambda x: jvp(residuals, (x,), (w[0],))[1], (x,), (w[1],))[1].shape == (0,)
        f = lambda x: linalg.lstsq(x, x.sin()).solution.square().sum()  # noqa: E731
        along = lambda w: jvp(grad(f), (x,), (w,))[1]  # noqa: E731
        same(vmap(along)(w), gradlib.stack([along(w[0]), along(w[1])]), 1e-9)

    def test_gradients_of_each_example(self) -> None:
        w, x = drawn(3, 2), drawn(4, 3, seed=1)
        f = lambda w, x: ((x @ w).tanh() ** 2).sum()  # noqa: E731
        want = gradlib.stack([grad(f)(w, row) for row in x])
        same(vmap(grad(f), (None, 0))(w, x), want)
        same(vmap(lambda row: grad(f)(w, row))(x), want)
        same(vmap(jacfwd(f), (None, 0))(w, x), want)

    def test_vmap_inside_and_outside(self) -> None:
        x = drawn(4, 3)
        f = lambda r: r.prod() * r  # noqa: E731
        each = vmap(jacrev(f))(x)
        same(vmap(jacfwd(f))(x), each)
        for whole in (jacrev(vmap(f))(x), jacfwd(vmap(f))(x)):
            same(gradlib.stack([whole[i, :, i] for i in range(4)]), each)
            assert whole[0, :, 1].abs().max().item() == 0

    @pytest.mark.parametrize("outer", [jacrev, jacfwd])
    @pytest.mark.parametrize("inner", [jacrev, jacfwd])
    def test_batched_hessians_equal_one_after_the_other(self, outer: Any, inner: Any) -> None:
        x = drawn(2, 3)
        f = lambda r: r.prod() * r.sin().sum() + r.max() * r.logsumexp(0)  # noqa: E731
        want = gradlib.stack([gradlib.autograd.functional.hessian(f, row) for row in x])
        same(vmap(outer(inner(f)))(x), want)
        same(outer(inner(f))(x[0]), want[0])

    def test_a_gradient_by_what_all_rows_share_is_not_their_sum(self) -> None:
        w, x = drawn(3).requires_grad_(), drawn(4, 3, seed=1)
        with pytest.raises(RuntimeError, match="would be the sum over the examples"):
            vmap(lambda r: gradlib.autograd.grad((r * w).sum(), w)[0])(x)

    def test_autograd_grad_of_a_graph_inside_vmap(self) -> None:
        x = drawn(3).requires_grad_()
        y = x.sin() * x.sum()
        rows = vmap(lambda g: gradlib.autograd.grad(y, x, g, retain_graph=True)[0])(gradlib.eye(3, dtype=gradlib.float64))
        same(rows, jacrev(lambda x: x.sin() * x.sum())(x.detach()))

    def test_dual_levels_and_vmap(self) -> None:
        x, t = drawn(4, 3), drawn(4, 3, seed=1)
        with forward_ad.dual_level():
            outside = forward_ad.unpack_dual(vmap(lambda r: r.prod() * r)(forward_ad.make_dual(x, t))).tangent

            def inside(r: gradlib.Tensor, s: gradlib.Tensor) -> gradlib.Tensor:
                dual = forward_ad.make_dual(r, s)
                return forward_ad.unpack_dual(dual.prod() * dual).tangent

            mapped = vmap(inside)(x, t)
        want = gradlib.stack([jacrev(lambda r: r.prod() * r)(r) @ s for r, s in zip(x, t, strict=True)])
        same(outside, want)
        same(mapped, want)


class TestProducts:
    def test_vjp_of_nested_results(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        value, pull = vjp(lambda x, y: {"a": x * y, "b": y.sum()}, x, y)
        assert set(value) == {"a", "b"}
        by_x, by_y = pull({"a": x, "b": gradlib.tensor(2.0, dtype=gradlib.float64)})
        same(by_x, x * y)
        same(by_y, (x * x).sum(0) + 2)
        *_, aux = vjp(lambda x: (x, x.sum()), x, has_aux=True)
        same(aux, x.sum())
        for call, says in (
            (lambda: pull(x), "Expected pytree structure of cotangents to be the same"),
            (lambda: vjp(lambda x: x, x)[1](y), "Mismatch in shape"),
            (lambda: vjp(lambda x: 3, x), "to return only tensors"),
            (lambda: vjp(lambda x: (), x), "non-empty output"),
            (lambda: vjp(lambda x: None, x), "non-empty output"),
        ):
            with pytest.raises(RuntimeError, match=says):
                call()

    def test_jvp_of_several_inputs_and_constants(self) -> None:
        x, t = drawn(3), drawn(3, seed=1)
        value, ahead = jvp(lambda x, y: (x * y, y.sum()), (x, x), (t, t))
        same(value[0], x * x)
        same(ahead[0], 2 * x * t)
        same(ahead[1], t.sum())
        assert jvp(lambda x: gradlib.ones(2), (x,), (t,))[1].tolist() == [0, 0]
        *_, aux = jvp(lambda x: (x, x.sum()), (x,), (t,), has_aux=True)
        same(aux, x.sum())
        for call, says in (
            (lambda: jvp(lambda x: x, x, (t,)), "Expected primals to be a tuple"),
            (lambda: jvp(lambda x: x, (x,), (t, t)), "same python structure"),
            (lambda: jvp(lambda x: x, (x,), (drawn(2),)), "a tangent has its primal's shape"),
            (lambda: jvp(lambda x: x, (), ()), "at least one Tensor"),
            (lambda: jvp(lambda x: gradlib.ones(2), (x,), (t,), strict=True), "independent of the primals"),
        ):
            with pytest.raises(RuntimeError, match=says):
                call()

    def test_jvp_of_rows_of_tangents(self) -> None:
        x, t = drawn(3), drawn(4, 3, seed=1)
        same(vmap(lambda s: jvp(lambda x: x.sin().cumprod(0), (x,), (s,))[1])(t), t @ jacrev(lambda x: x.sin().cumprod(0))(x).T)

    def test_jvp_can_be_differentiated(self) -> None:
        x, t = drawn(3).requires_grad_(), drawn(3, seed=1)
        jvp(lambda x: x**3, (x,), (t,))[1].sum().backward()
        same(x.grad, 6 * x * t)

    def test_linearize_runs_the_function_once(self) -> None:
        x, t = drawn(4, 3), drawn(4, 3, seed=1)
        calls = []

        def f(x: gradlib.Tensor, y: gradlib.Tensor) -> Any:
            calls.append(1)
            return (x.sin() * y).cumsum(0), y.sum()

        value, push = linearize(f, x, x)
        made = [push(t, t), push(t * 2, t * 2)]
        assert len(calls) == 1
        want = jvp(f, (x, x), (t, t))
        for k in range(2):
            same(value[k], want[0][k])
            same(made[0][k], want[1][k])
            same(made[1][k], want[1][k] * 2)
        assert not made[0][0].requires_grad
        with pytest.raises(RuntimeError, match="nested as the primals"):
            push(t)

    def test_a_linearization_depends_on_where_it_was_made(self) -> None:
        x, t = drawn(3), drawn(3, seed=1)
        y = x.clone().requires_grad_()

        def push(y: gradlib.Tensor) -> Any:
            return linearize(lambda y: (y**3).sum(), y)[1](t)

        (found,) = gradlib.autograd.grad(push(y), y)
        for each in (found, grad(push)(x), vmap(grad(push))(x[None])[0]):
            same(each, 6 * x * t)
        same(linearize(push, x)[1](t), (6 * x * t * t).sum())
        assert not push(x).requires_grad

    @pytest.mark.parametrize("switch", [gradlib.no_grad, lambda: gradlib.set_grad_enabled(False)])
    def test_linearize_is_forward_mode_which_no_grad_leaves_as_it_is(self, switch: Any) -> None:
        x, t = drawn(3), drawn(3, seed=1)

        def f(x: gradlib.Tensor) -> Any:
            with switch():
                c = x**2
            return (c * x).sum()

        for function in (f, grad(f)):
            same(linearize(function, x)[1](t), jvp(function, (x,), (t,))[1])
        same(linearize(f, x)[1](t), (3 * x**2 * t).sum())
        same(linearize(grad(f), x)[1](t), 2 * x * t)


class TestJacobians:
    @pytest.mark.parametrize("transform", [jacrev, jacfwd])
    def test_shapes_and_nests(self, transform: Any) -> None:
        x, y = drawn(2, 3), drawn(3, seed=1)
        jac = transform(lambda x, y: {"a": x * y, "b": (y.sum(),)}, (0, 1))(x, y)
        assert jac["a"][0].shape == (2, 3, 2, 3)
        assert jac["a"][1].shape == (2, 3, 3)
        assert jac["b"][0][0].shape == (2, 3)
        same(jac["b"][0][1], np.ones(3))
        same(transform(lambda x, y: x.sum() * y, 1)(x, y), gradlib.eye(3, dtype=gradlib.float64) * x.sum())
        nested = transform(lambda d: d["a"] * d["b"])({"a": y, "b": y})
        same(nested["a"], gradlib.diag(y))
        jac, aux = transform(lambda x: (x**2, x.sum()), has_aux=True)(y)
        same(jac, gradlib.diag(2 * y))
        same(aux, y.sum())
        same(transform(lambda y: gradlib.ones(2))(y), np.zeros((2, 3)))
        assert transform(lambda y: y[:0])(y).shape == (0, 3)

    def test_chunks_change_no_result(self) -> None:
        x = drawn(5)
        f = lambda x: x.sin() * x.sum()  # noqa: E731
        for size in (1, 2, 5, 9):
            same(jacrev(f, chunk_size=size)(x), jacrev(f)(x))
        with pytest.raises(ValueError, match="chunk_size"):
            jacrev(f, chunk_size=0)

    def test_one_row_at_a_time_needs_no_vmap(self) -> None:
        class Doubled(gradlib.autograd.Function):
            """A backward that reads values, which vmap refuses."""

            @staticmethod
            def forward(x: gradlib.Tensor) -> gradlib.Tensor:
                return x * 2

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def backward(ctx: Any, g: gradlib.Tensor) -> gradlib.Tensor:
                return g * 2 if g.sum().item() else g * 0

        x = drawn(3)
        same(jacrev(Doubled.apply, chunk_size=1)(x), 2 * gradlib.eye(3))
        with pytest.raises(RuntimeError, match="item"):
            jacrev(Doubled.apply)(x)

    def test_hessian_of_several(self) -> None:
        x, y = drawn(2), drawn(3, seed=1)
        blocks = hessian(lambda x, y: (x.sum() ** 2) * (y**3).sum(), (0, 1))(x, y)
        assert [[b.shape for b in row] for row in blocks] == [[(2, 2), (2, 3)], [(3, 2), (3, 3)]]
        same(blocks[1][1], gradlib.diag(6 * y) * x.sum() ** 2)
        same(blocks[0][1], blocks[1][0].T)

    def test_random_numbers(self) -> None:
        x = gradlib.zeros(3)
        with pytest.raises(RuntimeError, match="randomness error mode"):
            jacfwd(lambda x: x * gradlib.rand(3))(x)
        assert jacfwd(lambda x: x * gradlib.rand(3), randomness="same")(x).diagonal().min().item() > 0

    def test_in_place_writes_inside(self) -> None:
        x = drawn(3)

        def f(x: gradlib.Tensor) -> gradlib.Tensor:
            made = x.new_zeros(3)
            made[1:] = x[:2].sin()
            made[0] = x.sum()
            return made.mul_(x)

        same(jacfwd(f)(x), jacrev(f)(x))
        same(vmap(jacfwd(f))(x.expand(2, 3).clone())[1], jacrev(f)(x))


def test_a_graph_walked_by_others_passes_the_leaves_of_transforms() -> None:
    """The inner variable belongs to a transform that is done; backward goes through its place without keeping anything."""
    x = drawn(3).requires_grad_()
    made = grad(lambda y: (y**2 * x).sum())(drawn(3, seed=1))
    made.sum().backward()
    same(x.grad, 2 * drawn(3, seed=1))


class TestArguments:
    @pytest.mark.parametrize("transform", [grad, gradlib.func.grad_and_value, jacrev, jacfwd, hessian])
    def test_which_are_meant(self, transform: Any) -> None:
        x, y = drawn(3), drawn(3, seed=1)
        for argnums, says in (
            (0.0, "argnums must be int or Tuple"), ("0", "argnums must be int or Tuple"), ([0, 1], "argnums must be int or Tuple"),
            ((), "argnums must be non-empty"), ((0, 1.0), "argnum must be int, got"), ((0, (1,)), "argnum must be int, got"),
            (2, "only 2 positional inputs"), ((0, -2), "must be unique"),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match=says):
                transform(lambda x, y: (x * y).sum(), argnums)(x, y)

    def test_numbers_that_have_no_derivative(self) -> None:
        x = drawn(3)
        with pytest.raises(RuntimeError, match="All outputs of f must be floating-point or complex Tensors"):
            jacrev(lambda x: x.long())(x)
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            jacfwd(lambda x: x)(x.long())
        for transform, name in ((jacrev, "jacrev"), (jacfwd, "jacfwd")):
            with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real"):
                transform(lambda x: x * 1j)(x)
            with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
                transform(lambda x: x.abs())(x * 1j)
        with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
            jacfwd(lambda x: x, randomness="any")

    def test_none_at_all(self) -> None:
        value, pull = vjp(lambda: drawn(3))
        assert pull(value) == ()
