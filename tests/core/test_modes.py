"""no_grad, enable_grad, set_grad_enabled and inference_mode: as contexts, as decorators, nested, and each thread its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import gradlib
from gradlib.core.modes import global_state
from tests.values import leaf

enabled = gradlib.is_grad_enabled
inferring = gradlib.is_inference_mode_enabled


@pytest.fixture(autouse=True)
def counters_return() -> Iterator[None]:
    """The counts that operations look at come back to nothing."""
    assert (global_state.no_grad, global_state.active) == ([], 0)
    yield
    assert (global_state.no_grad, global_state.active) == ([], 0)


class TestContexts:
    def test_no_grad(self) -> None:
        x = leaf()
        with gradlib.no_grad():
            assert not enabled()
            y = x * 2
        assert (y.requires_grad, y.is_leaf, enabled()) == (False, True, True)

    def test_nested_modes_restore_what_was_before(self) -> None:
        seen = []
        with gradlib.no_grad():
            with gradlib.enable_grad():
                seen.append(enabled())
                with gradlib.no_grad():
                    seen.append(enabled())
                seen.append((leaf() * 2).requires_grad)
            with gradlib.set_grad_enabled(True):
                seen.append(enabled())
            with gradlib.set_grad_enabled(False):
                seen.append(enabled())
            seen.append(enabled())
        assert seen == [True, False, True, True, False, False]

    def test_one_object_many_times(self) -> None:
        mode = gradlib.no_grad()
        for _ in range(2):
            with mode:
                with mode:
                    assert not enabled()
                assert not enabled()
            assert enabled()

    @pytest.mark.parametrize("mode", [gradlib.no_grad, gradlib.inference_mode, lambda: gradlib.set_grad_enabled(False)])
    def test_an_error_ends_it(self, mode: Any) -> None:
        with pytest.raises(ZeroDivisionError), mode():
            raise ZeroDivisionError
        assert enabled()
        assert not inferring()

    def test_set_grad_enabled_acts_at_once(self) -> None:
        gradlib.set_grad_enabled(False)
        assert not enabled()
        gradlib.set_grad_enabled(True)
        assert enabled()
        mode = gradlib.set_grad_enabled(False)
        with mode:
            assert not enabled()
        assert enabled()
        with pytest.raises(TypeError, match="must be bool, not int"):
            gradlib.set_grad_enabled(0)

    def test_leaves_made_inside(self) -> None:
        with gradlib.no_grad():
            x, y = leaf(), gradlib.ones(2).requires_grad_()
        assert x.requires_grad
        assert y.requires_grad
        (x * x).sum().backward()
        assert x.grad.tolist() == [2, 4, 6]

    def test_backward_inside(self) -> None:
        x = leaf()
        y = (x * x).sum()
        with gradlib.no_grad():
            y.backward()
        assert x.grad.tolist() == [2, 4, 6]

    def test_names_in_autograd(self) -> None:
        for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
            assert getattr(gradlib.autograd, name) is getattr(gradlib, name)


class TestDecorators:
    def test_with_and_without_parentheses(self) -> None:
        @gradlib.no_grad
        def bare() -> bool:
            return enabled()

        @gradlib.no_grad()
        def called(a: int, *, b: int) -> tuple[bool, int, int]:
            """Its text."""
            return enabled(), a, b

        @gradlib.enable_grad()
        def on() -> bool:
            return enabled()

        assert bare() is False
        assert called(1, b=2) == (False, 1, 2)
        assert (called.__name__, called.__doc__) == ("called", "Its text.")
        with gradlib.no_grad():
            assert on() is True
            assert not enabled()
        assert enabled()

    def test_set_grad_enabled_counts_inside_only(self) -> None:
        @gradlib.set_grad_enabled(False)
        def off() -> bool:
            return enabled()

        assert enabled()
        assert off() is False
        assert enabled()

    def test_recursion_methods_and_errors(self) -> None:
        class Thing:
            @gradlib.no_grad()
            def down(self, n: int) -> list[bool]:
                return [enabled(), *(self.down(n - 1) if n else [])]

            @gradlib.no_grad()
            def fail(self) -> None:
                raise ZeroDivisionError

        assert Thing().down(3) == [False] * 4
        with pytest.raises(ZeroDivisionError):
            Thing().fail()
        assert enabled()

    def test_classes_warn(self) -> None:
        with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

            @gradlib.no_grad()
            class Thing:
                def __init__(self) -> None:
                    self.mode = enabled()

        assert Thing().mode is False

    def test_generators_run_in_the_mode_and_their_users_do_not(self) -> None:
        seen: list[Any] = []

        @gradlib.no_grad()
        def numbers() -> Any:
            seen.append(enabled())
            received = yield 1
            seen.append((enabled(), received))
            try:
                yield 2
            except ValueError:
                seen.append(("caught", enabled()))
                yield 3
            return 7

        running = numbers()
        values = [next(running)]
        seen.append(enabled())
        values.append(running.send("sent"))
        seen.append(enabled())
        values.append(running.throw(ValueError()))
        with pytest.raises(StopIteration) as stop:
            next(running)
        assert (values, stop.value.value) == ([1, 2, 3], 7)
        assert seen == [False, True, (False, "sent"), True, ("caught", False)]

    def test_a_generator_closed_early(self) -> None:
        seen = []

        @gradlib.no_grad()
        def numbers() -> Any:
            try:
                yield 1
            finally:
                seen.append(enabled())

        running = numbers()
        next(running)
        running.close()
        assert seen == [False]
        assert enabled()

    def test_inference_mode(self) -> None:
        @gradlib.inference_mode
        def bare() -> bool:
            return inferring()

        @gradlib.inference_mode()
        def called() -> bool:
            return inferring()

        @gradlib.inference_mode(False)
        def off() -> tuple[bool, bool]:
            return inferring(), enabled()

        assert (bare(), called(), inferring()) == (True, True, False)
        with gradlib.inference_mode():
            assert off() == (False, True)


class TestThreads:
    def test_each_has_its_own(self) -> None:
        seen: dict[str, Any] = {}

        def look() -> None:
            seen["other"] = (enabled(), inferring(), (leaf() * 2).requires_grad)
            gradlib.set_grad_enabled(False)
            seen["after"] = (leaf() * 2).requires_grad
            gradlib.set_grad_enabled(True)

        for mode in (gradlib.no_grad, gradlib.inference_mode):
            with mode():
                thread = threading.Thread(target=look)
                thread.start()
                thread.join()
                assert not (leaf() * 2).requires_grad
            assert seen == {"other": (True, False, True), "after": False}

    def test_side_by_side(self) -> None:
        barrier = threading.Barrier(2)
        wrong: list[str] = []

        def run(name: str, mode: Any, expected: bool) -> None:
            x = leaf()
            for _ in range(200):
                with mode():
                    barrier.wait()
                    if (x * 2).requires_grad is not expected or x.exp().requires_grad is not expected:
                        wrong.append(name)

        threads = [threading.Thread(target=run, args=a) for a in (("off", gradlib.no_grad, False), ("on", gradlib.enable_grad, True))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong


class TestInference:
    def test_nothing_is_recorded(self) -> None:
        x = leaf()
        with gradlib.inference_mode():
            y = x * 2
            assert (inferring(), enabled()) == (True, False)
            with gradlib.enable_grad():
                z = x * 2
        assert (y.is_inference(), y.requires_grad, z.is_inference(), z.requires_grad) == (True, False, True, False)
        assert (x.is_inference(), inferring(), enabled()) == (False, False, True)

    def test_switched_off_inside(self) -> None:
        x = leaf()
        with gradlib.inference_mode():
            with gradlib.inference_mode(False):
                y = x * 2
                assert (inferring(), enabled()) == (False, True)
            assert inferring()
        assert (y.requires_grad, y.is_inference()) == (True, False)
        with gradlib.inference_mode(mode=False):
            assert (x * 2).requires_grad

    def test_what_was_made_inside_cannot_be_saved(self) -> None:
        x = leaf()
        with gradlib.inference_mode():
            c = gradlib.ones(3, dtype=gradlib.float64)
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            x * c
        (x + c).sum().backward()  # addition saves nothing
        (x * c.clone()).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]

    def test_inference_tensors_are_written_inside_only(self) -> None:
        with gradlib.inference_mode():
            c = gradlib.ones(3)
            c.add_(1)
        assert c.tolist() == [2, 2, 2]
        for mode in (gradlib.enable_grad, gradlib.no_grad):
            with mode(), pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
                c.add_(1)
        x, n = leaf(), gradlib.ones(3)
        with gradlib.inference_mode():
            x.add_(1)
            n.add_(1)
        assert (x.tolist(), n.tolist(), n.is_inference(), n._version) == ([2, 3, 4], [2, 2, 2], False, 1)

    def test_no_version_and_no_gradient_later(self) -> None:
        with gradlib.inference_mode():
            c = gradlib.ones(3)
            assert gradlib.ones(3).requires_grad_().requires_grad
        with pytest.raises(RuntimeError, match="do not track version counter"):
            c._version  # noqa: B018
        with pytest.raises(RuntimeError, match="requires_grad=True on inference tensor outside InferenceMode"):
            c.requires_grad_()

    def test_views_are_what_their_base_is(self) -> None:
        x = gradlib.ones(3)
        with gradlib.inference_mode():
            assert not x[:2].is_inference()
            assert not x.detach().is_inference()
            c = gradlib.ones(3)
        assert c[:2].is_inference()
        with gradlib.inference_mode():
            wanting = gradlib.ones(3, requires_grad=True)
        assert (wanting.view(3, 1).requires_grad, wanting.view(3, 1).is_leaf) == (False, True)
        assert c.detach().is_inference()
        assert not (c * 2).is_inference()

    def test_a_gradient_made_inside(self) -> None:
        x = leaf()
        y = (x * x).sum()
        with gradlib.inference_mode():
            y.backward()
        assert x.grad.tolist() == [2, 4, 6]
