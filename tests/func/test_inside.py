"""What a function may do while a transform runs it: graphs of its own, modes, custom Functions, writes."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import vmap
from gradlib.autograd import Function, forward_ad, functional, grad as gradient
from gradlib.core.tensor import Tensor
from gradlib.func import grad, grad_and_value, jacfwd, jacrev, jvp, linearize, vjp
from tests.values import host


def vector() -> Tensor:
    return gradlib.tensor([1.0, 2.0, 3.0])


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(vector()),
    "grad_and_value": lambda f: grad_and_value(f)(vector()),
    "vjp": lambda f: vjp(f, vector()),
    "jacrev": lambda f: jacrev(f)(vector()),
    "jvp": lambda f: jvp(f, (vector(),), (vector(),)),
    "jacfwd": lambda f: jacfwd(f)(vector()),
}


@pytest.fixture(params=TRANSFORMS)
def transform(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return TRANSFORMS[request.param]


def mapped(f: Callable[[Any], Any]) -> Any:
    return vmap(f)(vector().expand(2, 3))


class TestGraphsOfItsOwn:
    """A function cannot make its inputs, which are the transform's, leaves of a graph: the result would be silently zero."""

    @pytest.mark.parametrize(
        "own",
        [
            lambda x: x.requires_grad_(), lambda x: x.detach().requires_grad_(), lambda x: gradlib.ones(3).requires_grad_(False),
            lambda x: copy.deepcopy(gradlib.ones(3)), lambda x: functional.jacobian(lambda y: y**2, x), lambda x: functional.vjp(
                lambda y: (y**2).sum(), x), lambda x: functional.jvp(lambda y: y**2, x, x), lambda x: functional.hvp(
                lambda y: (y**3).sum(), x, x), lambda x: functional.hessian(lambda y: (y**3).sum(), x),
        ],
    )  # fmt: skip
    def test_outer_tensors_do_not_become_leaves_inside(self, transform: Callable[[Any], Any], own: Callable[[Tensor], Any]) -> None:
        def f(x: Tensor) -> Tensor:
            own(x)
            return x.sum()

        with pytest.raises(RuntimeError, match=r"attempting to call Tensor.requires_grad_\(\) .*inside of a function being transformed"):
            transform(f)
        assert gradlib.ones(3).requires_grad_().requires_grad  # outside it is as before

    def test_rows_of_vmap_are_the_callers(self) -> None:
        """That a row requires a gradient would be said of the caller's tensor."""
        x = gradlib.ones(2, 3)
        for own in (lambda r: r.requires_grad_(), lambda r: r.detach().requires_grad_(), lambda r: functional.jacobian(gradlib.sin, r)):
            with pytest.raises(RuntimeError, match=r"attempting to call Tensor.requires_grad_\(\) "):
                vmap(own)(x)

        def set_it(row: Tensor) -> Tensor:
            row.requires_grad = True
            return row

        with pytest.raises(RuntimeError, match="would be set of the caller's"):
            vmap(set_it)(x)
        assert not x.requires_grad

    def test_backward_and_retain_grad(self, transform: Callable[[Any], Any]) -> None:
        for each in (transform, mapped):
            with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
                each(lambda x: x.sum().backward())
        with pytest.raises(RuntimeError, match=r"attempting to call Tensor.retain_grad\(\)"):
            transform(lambda x: (x * 2).retain_grad())

    def test_derivatives_that_stay_in_the_graph(self) -> None:
        f = lambda x: functional.jacobian(lambda y: y**2, x, create_graph=True).sum()  # noqa: E731
        assert host(grad(f)(vector())).tolist() == [2, 2, 2]
        assert host(grad(lambda x: gradient((x**3).sum(), x, create_graph=True)[0].sum())(vector())).tolist() == [6, 12, 18]

    def test_leaves_made_inside_do_not_count(self) -> None:
        def f(x: Tensor) -> Tensor:
            return (x * gradlib.ones(3, requires_grad=True)).sum()

        found, value = grad_and_value(f)(vector())
        assert not found.requires_grad
        assert not value.requires_grad
        assert not any(each.requires_grad for each in jvp(f, (vector(),), (vector(),)))
        assert not vjp(f, vector())[0].requires_grad


class TestModes:
    def test_without_recording(self) -> None:
        x = vector().requires_grad_()
        with gradlib.no_grad():
            found, value = grad_and_value(lambda y: (y**3).sum())(x)
            shown, pull = vjp(lambda y: y**3, x)
        assert host(found).tolist() == [3, 12, 27]
        assert host(pull(gradlib.ones(3))[0]).tolist() == [3, 12, 27]
        assert not any(each.requires_grad for each in (found, value, shown))
        assert all(each.requires_grad for each in grad_and_value(lambda y: (y**3).sum())(x))

    def test_a_transform_without_recording_is_constant_to_the_one_around_it(self) -> None:
        def f(x: Tensor) -> Tensor:
            with gradlib.no_grad():
                found, value = grad_and_value(lambda y: (y**3).sum())(x)
            assert not found.requires_grad
            assert not value.requires_grad
            return (found * x).sum() + value

        assert host(grad(f)(vector())).tolist() == [3, 12, 27]


class Old(Function):
    """2 x, without setup_context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t * 2


class Doubling(Function):
    """Twice its input, in place."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t.mul_(2)


class TestFunctions:
    def test_those_without_setup_context_are_refused(self, transform: Callable[[Any], Any]) -> None:
        for f, run in itertools.product((lambda x: Old.apply(x).sum(), lambda x: (x * Old.apply(vector())).sum()), (transform, mapped)):
            with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
                run(f)

    def test_but_not_by_what_is_no_transform(self) -> None:
        x = vector()
        assert host(functional.jacobian(Old.apply, x, vectorize=True)).tolist() == np.diag([2.0, 2, 2]).tolist()
        assert host(functional.jacobian(Old.apply, x, vectorize=True, strategy="forward-mode")).tolist() == np.diag([2.0, 2, 2]).tolist()
        assert host(linearize(Old.apply, x)[1](x)).tolist() == [2, 4, 6]
        y = x.requires_grad_()
        (rows,) = gradient(Old.apply(y * 1), y, gradlib.eye(3), is_grads_batched=True)
        assert host(rows).tolist() == np.diag([2.0, 2, 2]).tolist()

    def test_one_called_in_a_backward_of_many_cotangents(self) -> None:
        class Outer(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return Old.apply(g)

        x = vector().requires_grad_()
        assert host(gradient(Outer.apply(x), x, gradlib.eye(3), is_grads_batched=True)[0]).tolist() == np.diag([2.0, 2, 2]).tolist()

    def test_in_place_on_duals(self) -> None:
        value, moved = jvp(lambda x: Doubling.apply(x * 1), (vector(),), (gradlib.ones(3),))
        assert (host(value).tolist(), host(moved).tolist()) == ([2, 4, 6], [2, 2, 2])
        with forward_ad.dual_level():
            for start in (lambda d: d, lambda d: d * 1, lambda d: (d * 1)[:2], lambda d: d[:2]):
                written = start(forward_ad.make_dual(vector(), gradlib.ones(3)))
                base = written if written._base is None else written._base
                made = Doubling.apply(written)
                assert made is written
                assert set(host(forward_ad.unpack_dual(made).tangent).tolist()) == {2.0}
                if base is not written and tuple(base.shape) != tuple(written.shape) and forward_ad.unpack_dual(base).tangent is not None:
                    assert host(forward_ad.unpack_dual(base).tangent).tolist() == [2, 2, 1]


def test_linearize_with_item_writes() -> None:
    def f(x: Tensor) -> Tensor:
        x[0] = x[1] * 2
        return x * 1

    x = vector()
    value, push = linearize(f, x)
    assert host(value).tolist() == [4, 2, 3]
    assert host(push(gradlib.ones(3))).tolist() == [2, 1, 1]
    assert host(x).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: x**2, [4, 2, 0]), (lambda x: x.square(), [4, 2, 0]), (lambda x: x**1, [1, 0]), (lambda x: x**3, [12, 12, 6, 0]),
        (lambda x: x**2.0, [4, 2, 0]), (lambda x: (x.reshape(1) ** 2).mean(), [4, 2, 0]),
    ],
)  # fmt: skip
def test_the_last_derivative_of_a_power_is_zero(f: Callable[[Tensor], Tensor], want: list[float]) -> None:
    """Each derivative before the last can be differentiated, as in torch, where the slope of a power is a power."""
    x = gradlib.tensor(2.0, requires_grad=True)
    y = f(x)
    for wanted in want:
        assert y.requires_grad
        (y,) = gradient(y, x, create_graph=True)
        assert y.item() == wanted
    assert not y.requires_grad


class TestWrites:
    """What a function that is differentiated found outside it must not write: the memory would outlive the graph. Its own it may."""

    @pytest.mark.parametrize(
        "write",
        [
            lambda y, x: y.mul_(x), lambda y, x: y.add_(1), lambda y, x: y.__setitem__(0, x[0]), lambda y, x: y.__setitem__(0, 5.0),
            lambda y, x: y.copy_(x), lambda y, x: y[:2].mul_(2), lambda y, x: y.view(3, 1).zero_(), lambda y, x: y.detach().mul_(2),
            lambda y, x: y.data.fill_(3.0), lambda y, x: y.unbind()[0].mul_(2), lambda y, x: y.unsqueeze_(0), lambda y, x: y.normal_(),
            lambda y, x: gradlib.no_grad()(lambda: y.add_(1))(), lambda y, x: y.index_add_(0, gradlib.tensor([0]), x[:1]),
            lambda y, x: y.contiguous().mul_(1), lambda y, x: vmap(lambda r: r * y.mul_(2).sum())(x),
        ],
    )  # fmt: skip
    def test_to_what_was_captured(self, transform: Callable[[Any], Any], write: Callable[[Tensor, Tensor], Any]) -> None:
        y = gradlib.ones(3)

        def f(x: Tensor) -> Tensor:
            write(y, x)
            return (x * y).sum()

        with pytest.raises(RuntimeError, match=r"that would mutate a captured Tensor|randomness error mode"):
            transform(f)
        assert host(y).tolist() == [1, 1, 1]
        assert y._version == 0
        assert not y.requires_grad
        assert tuple(y.add_(1).shape) == (3,)  # outside it is as before

    def test_to_what_an_outer_function_made(self) -> None:
        def outer(x: Tensor) -> Tensor:
            z = x * 1
            return grad(lambda u: u * z.mul_(2).sum())(x.sum())

        with pytest.raises(RuntimeError, match="that would mutate a captured Tensor"):
            grad(outer)(vector())

    @pytest.mark.parametrize(
        "make",
        [
            lambda x, y: gradlib.zeros(3), lambda x, y: y * 2, lambda x, y: y.clone(), lambda x, y: x * 1,
            lambda x, y: gradlib.zeros(2, 3)[1], lambda x, y: gradlib.zeros_like(y).detach(),
            lambda x, y: gradlib.tensor([1.0, 2.0, 3.0]), lambda x, y: y.sum().expand(3) + 0,
        ],
    )  # fmt: skip
    def test_to_what_it_made(self, transform: Callable[[Any], Any], make: Callable[[Tensor, Tensor], Tensor]) -> None:
        y = gradlib.ones(3)

        def f(x: Tensor) -> Tensor:
            made = make(x, y)
            made[0] = x[0] * 2
            made[1:].add_(x[1:])
            return (made * made).sum()

        transform(f)
        transform(lambda x: f(x) + grad(f)(x.detach() * 1).sum())
        assert host(y).tolist() == [1, 1, 1]

    def test_to_another_argument(self) -> None:
        def f(x: Tensor, w: Any) -> Tensor:
            w["a"].mul_(x.sum())
            return (x * w["a"]).sum()

        for run in (lambda w: grad(f)(vector(), w), lambda w: grad(f)(vector(), w=w), lambda w: jacrev(f)(vector(), w)):
            w = {"a": vector()}
            assert host(run(w)).tolist() == [20, 26, 32]
            assert host(w["a"]).tolist() == [6, 12, 18]
            assert not w["a"].requires_grad

    def test_linearize_refuses_writes_to_captured_tensors(self) -> None:
        y = gradlib.ones(3)
        with pytest.raises(RuntimeError, match="that would mutate a captured Tensor"):
            linearize(lambda x: y.mul_(x), vector())
        assert not y.requires_grad
