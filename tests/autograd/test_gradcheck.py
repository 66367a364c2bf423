"""gradcheck and gradgradcheck: right rules pass, and every kind of wrong rule fails, in both modes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, GradcheckError, gradcheck, gradgradcheck, numerical
from gradlib.autograd.function import FunctionMeta
from gradlib.core.tensor import Tensor

fast_or_not = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def real(*shape: int, seed: int = 1) -> Tensor:
    return gradlib.tensor(np.random.default_rng(seed).uniform(0.5, 2.0, shape), requires_grad=True)


def complex_(*shape: int) -> Tensor:
    rng = np.random.default_rng(2)
    return gradlib.tensor(rng.uniform(0.5, 2.0, shape) + 1j * rng.uniform(0.5, 2.0, shape), requires_grad=True)


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A Function on one input, saved; ``backward(x, g)`` gives its gradient."""

    def saving(ctx: Any, x: Tensor) -> Any:
        ctx.save_for_backward(x)
        return forward(x)

    def from_saved(ctx: Any, *g: Tensor) -> Any:
        return backward(ctx.saved_tensors[0], *g)

    made = FunctionMeta("Rule", (Function,), {"forward": staticmethod(saving), "backward": staticmethod(from_saved)})
    return made.apply


class TestRight:
    @fast_or_not
    def test_several_inputs(self, fast: bool) -> None:
        def call(x: Tensor, y: Tensor) -> Tensor:
            return (x * y).sin() + y * y

        assert gradcheck(call, (real(2, 3), real(3, seed=5)), fast_mode=fast)
        assert gradgradcheck(call, (real(2, 3), real(3, seed=5)), fast_mode=fast)

    @fast_or_not
    def test_tuples_constants_integers_and_further_arguments(self, fast: bool) -> None:
        index = gradlib.tensor([0, 2, 1])
        constant = gradlib.ones(3, dtype=gradlib.float64)

        def call(i: Tensor, x: Tensor, scale: float, c: Tensor) -> tuple[Tensor, ...]:
            return x.long(), x[i] * scale, c * 2, x * x * c

        assert gradcheck(call, (index, real(3), 3.0, constant), fast_mode=fast)
        assert gradgradcheck(call, (index, real(3), 3.0, constant), fast_mode=fast)

    @fast_or_not
    def test_complex_in_and_out(self, fast: bool) -> None:
        for call in (lambda z: z * z, lambda z: z.conj() * 2, lambda z: (z * z.conj()).real, lambda z: z.imag * z):
            assert gradcheck(call, complex_(2, 2), fast_mode=fast)
            assert gradgradcheck(call, complex_(2, 2), fast_mode=fast)
        assert gradcheck(lambda x: x * (1 + 2j), real(3), fast_mode=fast)

    @fast_or_not
    @pytest.mark.parametrize("layout", [lambda x: x.T, lambda x: x[::2], lambda x: x[:, 1], lambda x: x[1, 1]])
    def test_any_memory_layout(self, layout: Callable[[Tensor], Tensor], fast: bool) -> None:
        x = layout(real(4, 3).detach()).requires_grad_()
        before = x.tolist()
        assert gradcheck(lambda x: x * x, x, fast_mode=fast)
        assert x.tolist() == before

    @fast_or_not
    def test_zero_size_zero_dimensions_and_unused(self, fast: bool) -> None:
        assert gradcheck(lambda x: x * 2, gradlib.zeros((0, 3), dtype=gradlib.float64, requires_grad=True), fast_mode=fast)
        assert gradcheck(lambda x: x.exp(), real(), fast_mode=fast)
        assert gradcheck(lambda x, y: y * y, (real(2), real(2)), fast_mode=fast)
        assert gradcheck(lambda x: (x * 2)[:0], real(2), fast_mode=fast)

    def test_inputs_that_were_made_and_lists(self) -> None:
        assert gradcheck(lambda a, b: [a * b, a + b], [real(2) * 1, real(2)])

    def test_inputs_returned_as_they_are_and_writes(self) -> None:
        assert gradcheck(lambda x: x, real(3))
        assert gradcheck(lambda x: x.clone().mul_(x), real(3))
        assert gradcheck(lambda x: x.view(3, 1), real(3))

    def test_a_chosen_cotangent(self) -> None:
        cotangent = gradlib.ones(3, dtype=gradlib.float64, requires_grad=True)
        assert gradgradcheck(lambda x: x * x, real(3), cotangent)
        assert gradgradcheck(lambda x: (x * x, x.long()), real(3), (cotangent,))
        assert gradgradcheck(lambda x: x * x, real(3), cotangent.detach())

    def test_spaced_cotangents(self) -> None:
        seen = []
        call = function(lambda x: x * x, lambda x, g: (seen.append(g.is_contiguous()), g * 2 * x)[1])
        assert gradgradcheck(call, real(3), gen_non_contig_grad_outputs=True)
        assert False in seen

    def test_linear_functions_have_no_second_derivative(self) -> None:
        assert gradgradcheck(lambda x: x * 2, real(3))
        assert gradgradcheck(lambda x: x * 2, real(3), gradlib.ones(3, dtype=gradlib.float64))

    def test_lower_precision_with_wider_tolerances(self) -> None:
        with pytest.warns(UserWarning, match=r"Input #0 requires gradient and is not a double precision.*float32"):
            assert gradcheck(lambda x: x * x, real(3).detach().float().requires_grad_(), eps=1e-2, atol=1e-2, rtol=1e-2)

    def test_the_callers_mode_and_gradients_are_untouched(self) -> None:
        x = real(3)
        with gradlib.no_grad():
            assert gradcheck(lambda x: x * x, x)
            assert not gradlib.is_grad_enabled()
        assert x.grad is None

    def test_same_answer_every_time(self) -> None:
        """Its random numbers are its own: the caller's stream does not move."""
        gradlib.manual_seed(3)
        expected = gradlib.rand(2).tolist()
        gradlib.manual_seed(3)
        gradgradcheck(lambda x: x * x, real(2), fast_mode=True)
        assert gradlib.rand(2).tolist() == expected


WRONG = {
    "by 0.1 %": (lambda x: x * x, lambda x, g: g * 2 * x * 1.001, real),
    "by 0.1 % below": (lambda x: x * x, lambda x, g: g * 2 * x * 0.999, real),
    "by its sign": (lambda x: x.sin(), lambda x, g: -g * x.cos(), real),
    "zero": (lambda x: x * x, lambda x, g: g * 0, real),
    "None": (lambda x: x * x, lambda x, g: None, real),
    "not zero": (lambda x: x.floor(), lambda x, g: g, real),
    "at one place": (lambda x: x * x, lambda x, g: g * 2 * x * (1 + 0.01 * (x == x.max()).double()), real),
    "transposed": (lambda x: x.T * 1, lambda x, g: g.reshape(2, 3), real),
    "without g": (lambda x: x * x, lambda x, g: 2 * x, real),
    "NaN": (lambda x: x * x, lambda x, g: g * float("nan"), real),
    "conjugate": (lambda z: z * z, lambda z, g: g * 2 * z, complex_),
    "conjugate of g": (lambda z: z * 2j, lambda z, g: g.conj() * -2j, complex_),
    "imaginary half": (lambda z: z * 1, lambda z, g: g.real.to(gradlib.complex128), complex_),
}


class TestWrong:
    @fast_or_not
    @pytest.mark.parametrize("case", WRONG)
    def test_finds_a_wrong_rule(self, case: str, fast: bool) -> None:
        forward, backward, make = WRONG[case]
        call, x = function(forward, backward), make(2, 3)
        with pytest.raises(GradcheckError):
            gradcheck(call, x, fast_mode=fast)
        assert gradcheck(call, x, fast_mode=fast, raise_exception=False) is False

    @fast_or_not
    def test_only_one_input_wrong(self, fast: bool) -> None:
        class Product(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
                ctx.save_for_backward(x, y)
                return x * y

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
                x, y = ctx.saved_tensors
                return g * y, g * x * 1.01

        with pytest.raises(GradcheckError, match="output 0 with respect to input 2"):
            gradcheck(lambda x, k, y: Product.apply(x, y), (real(2), 5, real(2)), fast_mode=fast)

    @fast_or_not
    def test_finds_a_nondeterministic_backward(self, fast: bool) -> None:
        noise = itertools.count()
        call = function(lambda x: x * x, lambda x, g: g * 2 * x * (1 + 1e-9 * next(noise)))
        with pytest.raises(GradcheckError, match=r"not reentrant.*tolerance for nondeterminism was 0"):
            gradcheck(call, real(3), fast_mode=fast)
        assert gradcheck(call, real(3), fast_mode=fast, nondet_tol=1e-6)
        assert gradcheck(lambda x: (call(x), call(x)), real(3), fast_mode=fast, nondet_tol=1e-6)  # an unused output may differ as much

    @fast_or_not
    def test_wrong_shape_or_dtype(self, fast: bool) -> None:
        for backward in (lambda x, g: g[:1], lambda x, g: (g * 2).to(gradlib.complex128)):
            with pytest.raises(RuntimeError, match="RuleBackward returned an invalid gradient"):
                gradcheck(function(lambda x: x * 2, backward), real(3), fast_mode=fast)

    @fast_or_not
    def test_none_is_not_taken_for_zeros(self, fast: bool) -> None:
        """By a hook, by a hook further back, by the backward of a Function whose only output has no gradient."""

        def hooked(hook: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
            def call(x: Tensor) -> Tensor:
                y = x.clone()
                y.register_hook(hook)
                return y * 2

            return call

        class Plain(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.set_materialize_grads(False)
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Tensor | None) -> Tensor | None:
                return rules[-1](g)

        def fails(g: Any) -> None:
            if g is None:
                raise KeyError("undefined")

        x = real(3)
        with pytest.raises(GradcheckError, match="undefined output grads: with None as the gradient of output 0 it raised KeyError"):
            gradcheck(hooked(fails), x, fast_mode=fast)
        assert not gradcheck(hooked(fails), x, fast_mode=fast, raise_exception=False)
        assert gradcheck(hooked(fails), x, fast_mode=fast, check_undefined_grad=False)
        assert gradcheck(hooked(lambda g: None), x, fast_mode=fast)
        rules = [lambda g: None if g is None else g * 2, lambda g: gradlib.ones_like(x) if g is None else g * 2, lambda g: g * 2]
        for _ in rules[1:]:
            with pytest.raises(GradcheckError, match="handle undefined output grads"):
                gradcheck(Plain.apply, x, fast_mode=fast)
            rules.pop()
        assert gradcheck(Plain.apply, x, fast_mode=fast)
        assert gradcheck(lambda x: (Plain.apply(x), x.sort()[0]), x, fast_mode=fast)

    @fast_or_not
    def test_outputs_that_change_with_the_values(self, fast: bool) -> None:
        x = gradlib.ones(1, dtype=gradlib.float64, requires_grad=True)
        for what, other in (("shape", lambda x: gradlib.cat([x, x])), ("dtype", lambda x: x.float()), ("shape", lambda x: (x, x))):
            with pytest.raises(AssertionError, match=f"outputs with the same {what} when inputs are perturbed"):
                gradcheck(lambda x, other=other: other(x) if x >= 1 else x * 1, x, fast_mode=fast)

    @fast_or_not
    def test_unused_outputs(self, fast: bool) -> None:
        """A backward that takes None for what it is not."""

        class Two(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
                ctx.set_materialize_grads(False)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx: Any, g: Tensor | None, h: Tensor | None) -> Tensor | None:
                return None if g is None or h is None else g * 2 + h * 3

        with pytest.raises(GradcheckError, match="undefined output grads"):
            gradcheck(Two.apply, real(3), fast_mode=fast)
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            gradcheck(Two.apply, real(3), fast_mode=fast, check_undefined_grad=False)

    @fast_or_not
    def test_no_gradient_though_it_depends(self, fast: bool) -> None:
        with pytest.raises(GradcheckError, match="expected to be zero"):
            gradcheck(lambda x: x.detach() * 2, real(3), fast_mode=fast)
        assert gradcheck(lambda x: gradlib.ones(3), real(3), fast_mode=fast)

    @fast_or_not
    def test_a_second_derivative_alone(self, fast: bool) -> None:
        """The first derivative is right, but computed from a detached value."""
        call = function(lambda x: x * x * x, lambda x, g: g * 3 * (x * x).detach())
        assert gradcheck(call, real(3), fast_mode=fast)
        with pytest.raises(GradcheckError):
            gradgradcheck(call, real(3), fast_mode=fast)

    @fast_or_not
    def test_an_error_inside_is_not_swallowed(self, fast: bool) -> None:
        def fail(x: Tensor, g: Tensor) -> Tensor:
            raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine"):
            gradcheck(function(lambda x: x * 2, fail), real(3), raise_exception=False, fast_mode=fast)

    def test_input_memory_is_put_back_after_a_failure(self) -> None:
        x = real(3)
        before = x.tolist()
        calls = itertools.count()

        def call(x: Tensor) -> Tensor:
            if next(calls) == 3:
                raise ZeroDivisionError
            return x * 2

        with pytest.raises(ZeroDivisionError):
            gradcheck(call, x)
        assert x.tolist() == before


class TestForwardMode:
    @fast_or_not
    def test_accepts_right_tangents(self, fast: bool) -> None:
        def call(k: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            return (x * y).sin(), x.long(), x.sum(0) * k, y.exp()

        assert gradcheck(call, (2, real(2, 3), real(3, seed=5)), check_forward_ad=True, fast_mode=fast)
        assert gradcheck(call, (2, real(2, 3), real(3, seed=5)), check_forward_ad=True, check_backward_ad=False, fast_mode=fast)
        for holomorphic in (lambda z: z * z, lambda z: z.conj() * 2j, lambda z: (z * z.conj()).real):
            assert gradcheck(holomorphic, complex_(2, 2), check_forward_ad=True, fast_mode=fast)

    @fast_or_not
    def test_over_reverse(self, fast: bool) -> None:
        assert gradgradcheck(lambda x, y: (x * y).sin(), (real(2, 3), real(3)), check_fwd_over_rev=True, fast_mode=fast)
        assert gradgradcheck(lambda x: x.exp(), real(2), check_fwd_over_rev=True, check_rev_over_rev=False, fast_mode=fast)

    @fast_or_not
    @pytest.mark.parametrize("jvp", [lambda x, t: t * 2 * x * 1.001, lambda x, t: t * 0, lambda x, t: None, lambda x, t: t * 2 * x.conj()])
    def test_finds_a_wrong_jvp(self, jvp: Callable[..., Any], fast: bool) -> None:
        class Square(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.save_for_backward(x)
                ctx.save_for_forward(x)
                return x * x

            @staticmethod
            def jvp(ctx: Any, t: Tensor) -> Any:
                return jvp(ctx.saved_tensors[0], t)

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g * 2 * ctx.saved_tensors[0].conj()

        assert gradcheck(Square.apply, complex_(3), fast_mode=fast)
        with pytest.raises(GradcheckError, match="forward mode: Jacobian mismatch for output 0 with respect to input 0"):
            gradcheck(Square.apply, complex_(3), check_forward_ad=True, fast_mode=fast)


class TestText:
    def test_names_everything(self) -> None:
        x = gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=gradlib.float64, requires_grad=True)
        bump = gradlib.tensor([[0.0, 0.0], [0.5, 0.0]], dtype=gradlib.float64)
        call = function(lambda x: x * x, lambda x, g: g * (2 * x + bump))
        with pytest.raises(GradcheckError) as error:
            gradcheck(lambda k, x: (x * 1, call(x)), (5, x))
        text = str(error.value)
        assert "output 1 with respect to input 1" in text
        assert re.search(r"numerical: (6\.0000|5\.9999)", text)
        assert "analytical: 6.5" in text
        assert "element (1, 0) of the output and (1, 0) of the input" in text
        assert "the real part of the output along the real axis of the input" in text
        assert "1 of 16 entries are off" in text

    def test_complex_directions(self) -> None:
        z = complex_(2)
        for rule, says in ((lambda z, g: g + 0.5j, "the real part of the output along the imaginary axis"),):
            call = function(lambda z: z * 1, lambda z, g, rule=rule: rule(z, g) if g.real.sum() > 0.5 else g)
            with pytest.raises(GradcheckError, match=says):
                gradcheck(call, z, nondet_tol=10)

    def test_fast_mode_says_where(self) -> None:
        call = function(lambda x: x * x, lambda x, g: g * 2 * x * 1.1)
        with pytest.raises(GradcheckError, match=r"(?s)direction: random.*Element by element:.*at element \(\d,\) of the output"):
            gradcheck(call, real(3), fast_mode=True)
        with pytest.raises(GradcheckError, match="Run without fast_mode on smaller inputs"):
            gradcheck(call, real(200), fast_mode=True)


class TestArguments:
    def test_no_input_requires_a_gradient(self) -> None:
        for check in (gradcheck, gradgradcheck):
            with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
                check(lambda x: x * 2, gradlib.ones(3, dtype=gradlib.float64))

    def test_results_that_are_no_tensors(self) -> None:
        with pytest.raises(ValueError, match="return Tensors, got int"):
            gradcheck(lambda x: (x * 2, 5), real(3))

    def test_memory_that_overlaps(self) -> None:
        narrow = gradlib.ones(1, dtype=gradlib.float64)
        with pytest.raises(RuntimeError, match="0th input has a dimension with stride 0"):
            gradcheck(lambda x: x * 2, narrow.expand(3).requires_grad_())
        array = np.ones(6)
        assert numerical.overlaps(np.lib.stride_tricks.as_strided(array, (3, 3), (8, 8)))
        for fine in (array, array[::-2], array.reshape(2, 3).T, array[:0], np.lib.stride_tricks.as_strided(array, (2, 2), (16, 24))):
            assert not numerical.overlaps(fine)

    def test_batched_gradients(self) -> None:
        def rowwise(x: gradlib.Tensor) -> gradlib.Tensor:
            return x.sin().prod(1)

        assert gradcheck(rowwise, real(2, 3), check_batched_grad=True, check_forward_ad=True, check_batched_forward_grad=True)
        assert gradgradcheck(rowwise, real(2, 3), check_batched_grad=True)
        with pytest.raises(AssertionError, match="requires check_backward_ad"):
            gradcheck(rowwise, real(2, 3), check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
        with pytest.raises(AssertionError, match="requires check_forward_ad"):
            gradcheck(rowwise, real(2, 3), check_batched_forward_grad=True)

    def test_batched_gradients_that_are_wrong(self) -> None:
        class Reads(Function):
            @staticmethod
            def forward(ctx: Any, x: gradlib.Tensor) -> gradlib.Tensor:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: gradlib.Tensor) -> gradlib.Tensor:
                return g * 2 if float(g.sum()) != 0.5 else g

        assert gradcheck(Reads.apply, real(3))
        with pytest.raises(GradcheckError, match="While computing batched gradients for output 0, got: vmap: "):
            gradcheck(Reads.apply, real(3), check_batched_grad=True)
        assert not gradcheck(Reads.apply, real(3), check_batched_grad=True, raise_exception=False)

    def test_nothing_to_check(self) -> None:
        with pytest.raises(AssertionError, match="check_forward_ad or check_backward_ad"):
            gradcheck(lambda x: x * 2, real(3), check_backward_ad=False)
        with pytest.raises(AssertionError, match="check_rev_over_rev"):
            gradgradcheck(lambda x: x * 2, real(3), check_rev_over_rev=False)

    def test_tolerances_and_eps_are_heeded(self) -> None:
        call = function(lambda x: x * x, lambda x, g: g * 2 * x * 1.001)
        assert gradcheck(call, real(3), rtol=1e-2)
        assert gradcheck(call, real(3), atol=1e-1)
        assert gradcheck(lambda x: x * x * x, real(3), eps=1e-4)
        with pytest.raises(GradcheckError):
            gradcheck(lambda x: x * x * x, real(3), eps=1e-1)

    def test_masked_and_grad_dtypes_are_accepted(self) -> None:
        assert gradcheck(lambda x: x * x, real(3), masked=True, check_grad_dtypes=True)
