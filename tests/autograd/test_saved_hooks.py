"""Hooks for saved tensors: default ones, one node's own, saving on the CPU. Expected values are torch's."""

from __future__ import annotations

import contextlib
import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, forward_ad, grad
from gradlib.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from gradlib.core.modes import global_state, thread_state
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES
from tests.values import host, leaf


class Exp(Function):
    """exp, saving its input and its output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(x, y, None)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _, y, nothing = ctx.saved_tensors
        assert nothing is None
        return g * y


def to_numpy(tensor: gradlib.Tensor) -> np.ndarray:
    return host(tensor).copy()


def from_numpy(array: np.ndarray) -> gradlib.Tensor:
    """A tensor on the device that the test runs on."""
    return gradlib.as_tensor(array, device=gradlib.get_default_device())


def copied() -> saved_tensors_hooks:
    """Keeps copies outside gradlib."""
    return saved_tensors_hooks(to_numpy, from_numpy)


def as_is(tensor: Any) -> Any:
    return tensor


class TestDefaultHooks:
    def test_what_pack_is_given(self) -> None:
        a = leaf(1.0, 2.0)
        seen: list[Any] = []

        def pack(x: gradlib.Tensor) -> gradlib.Tensor:
            seen.append((x is a, x.grad_fn and x.grad_fn.name(), gradlib.is_grad_enabled()))
            return x.detach()

        with saved_tensors_hooks(pack, as_is):
            b = (a * 2).exp()
            _ = b * a
        assert seen == [(False, "ExpBackward0", False), (True, None, False), (False, "ExpBackward0", False)]

    def test_unpack_decides_what_backward_sees(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(lambda x: x.tolist(), lambda values: gradlib.tensor(values, dtype=gradlib.float64) * 10):
            y = a * a
        y.sum().backward()
        np.testing.assert_array_equal(host(a.grad), [20.0, 40.0])

    def test_unpacked_tensors_have_their_place_in_the_graph(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(lambda x: x.detach(), as_is):
            b = a.exp()
            c = a * b
        assert c.grad_fn._saved_other.grad_fn is b.grad_fn
        assert b.grad_fn._saved_result.grad_fn is b.grad_fn
        assert c.grad_fn._saved_self.is_leaf
        assert c.grad_fn._saved_self.requires_grad
        (g,) = grad(c.sum(), a, create_graph=True)
        (h,) = grad(g.sum(), a)
        np.testing.assert_allclose(host(h), (np.array([1.0, 2.0]) + 2) * np.exp([1.0, 2.0]))

    def test_unpack_runs_once_for_each_backward(self) -> None:
        a = leaf(1.0, 2.0)
        count = []
        with saved_tensors_hooks(as_is, lambda x: count.append(1) or x):
            y = a * a
        assert not count
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert len(count) == 4
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()

    def test_the_innermost_pair_counts(self) -> None:
        a = leaf(1.0)
        seen: list[str] = []
        with saved_tensors_hooks(lambda x: seen.append("outer") or x, as_is):
            with saved_tensors_hooks(lambda x: seen.append("inner") or x, as_is):
                a.exp()
            a.exp()
        a.exp()
        assert seen == ["inner", "outer"]

    def test_nothing_is_packed_where_nothing_is_recorded(self) -> None:
        packed: list[gradlib.Tensor] = []
        with saved_tensors_hooks(lambda x: packed.append(x) or x, as_is):
            gradlib.ones(2).exp()
            with gradlib.no_grad():
                leaf(1.0).exp()
            _ = leaf(1.0) > 0
            assert packed == []
            leaf(1.0).exp()
            assert len(packed) == 1

    def test_hooks_are_gone_after_an_exception(self) -> None:
        with contextlib.suppress(KeyError), saved_tensors_hooks(lambda x: pytest.fail("packed"), as_is):
            raise KeyError
        leaf(1.0).exp().sum().backward()

    def test_writes_are_left_to_whoever_packs(self) -> None:
        a = leaf(0.5, 1.0)
        with copied():
            b = a.clone()
            c = b * b
            b.exp_()
            d = b.tanh()
            d.mul_(2)
        (c + d).sum().backward()
        x = np.array([0.5, 1.0])
        np.testing.assert_allclose(host(a.grad), 2 * x + 2 * (1 - np.tanh(np.exp(x)) ** 2) * np.exp(x))

    def test_write_into_a_view_leaves_the_copies(self) -> None:
        a = leaf(1.0, 2.0, 3.0)
        with copied():
            b = a.clone()
            v = b[1:]
            w = v * v
            v.mul_(2)
            x = b * b
        (w.sum() + x.sum()).backward()
        np.testing.assert_array_equal(host(a.grad), [2.0, 20.0, 30.0])

    def test_lists_of_tensors_and_several_outputs(self) -> None:
        a = leaf(1.0, 2.0)
        shapes: list[tuple[int, ...]] = []
        with saved_tensors_hooks(lambda x: shapes.append(tuple(x.shape)) or x, as_is):
            values, _ = gradlib.stack([a, a * 3]).max(1)
            picked = gradlib.index_put(a, (gradlib.tensor([0]),), gradlib.tensor([5.0], dtype=gradlib.float64))
        assert shapes == [(2,), (1,)]
        (values.sum() + picked.sum()).backward()
        np.testing.assert_array_equal(host(a.grad), [0.0, 5.0])

    def test_in_custom_functions(self) -> None:
        a = leaf(1.0, 2.0)
        seen: list[Any] = []
        with saved_tensors_hooks(lambda x: seen.append(x.grad_fn and x.grad_fn.name()) or x.tolist(), gradlib.tensor):
            y = Exp.apply(a)
        assert seen == [None, "ExpBackward"]
        saved_input, saved_output, _ = y.grad_fn.saved_tensors
        assert saved_input.is_leaf
        assert saved_input.requires_grad
        assert saved_output.grad_fn is y.grad_fn
        y.sum().backward()
        np.testing.assert_allclose(host(a.grad), np.exp([1.0, 2.0]), rtol=1e-6)

    def test_under_forward_mode(self) -> None:
        a = leaf(1.0, 2.0)
        with forward_ad.dual_level():
            with copied():
                y = forward_ad.make_dual(a, gradlib.ones(2, dtype=gradlib.float64)).exp() * a
            (g,) = grad(y.sum(), a)
            tangent = forward_ad.unpack_dual(g).tangent
        np.testing.assert_allclose(host(tangent), (1 + np.array([1.0, 2.0])) * np.exp([1.0, 2.0]))

    def test_what_forward_mode_saves_along_the_way_is_not_packed(self) -> None:
        seen: list[str] = []
        with forward_ad.dual_level(), saved_tensors_hooks(lambda x: seen.append(x.grad_fn.name()) or x, as_is):
            dual = forward_ad.make_dual(leaf([1.0, 2.0], [0.0, 1.0]), gradlib.ones(2, 2, dtype=gradlib.float64))
            dual.cumprod(0)  # whose tangent has no formula of its own, but is the transpose of the gradient's
        assert seen == ["ViewBackward0", "CumprodBackward0"]

    def test_a_detaching_pack_leaves_no_cycle(self) -> None:
        a = leaf(1.0, 2.0)
        gc.collect()
        gc.disable()
        try:
            with saved_tensors_hooks(lambda x: x.detach(), as_is):
                y = (a.exp() * a).tanh()
            node = weakref.ref(y.grad_fn)
            del y
            assert node() is None
        finally:
            gc.enable()

    def test_unpacked_value_must_be_a_tensor_as_saved(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(as_is, lambda x: 3):
            y = a * a
        with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
            y.sum().backward()
        b = a * 1
        with pytest.raises(RuntimeError, match="is modifying its input in place"), saved_tensors_hooks(lambda x: x.mul_(2), as_is):
            _ = b * b
        with pytest.raises(TypeError, match="pack_hook is a function"), saved_tensors_hooks(1, as_is):  # type: ignore[arg-type]
            pass
        with pytest.raises(KeyError), saved_tensors_hooks(lambda x: {}["missing"], as_is):
            a.exp()


def _gradients(case: Case, device: str, hooks: Any, rng: np.random.Generator) -> list[Any]:
    """First derivatives on arrays and recorded, and second ones, of a row of the table whose forward ran under hooks."""
    inputs = as_tensors(list(case.inputs(rng)), "float64", device, requires_grad=True)
    gradlib.manual_seed(0)
    with hooks:
        outputs = results(case.call(*inputs))
    wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
    live = [y for y in outputs if y.requires_grad]
    if not live:
        return []
    ones = [gradlib.ones_like(y) for y in live]
    first = grad(live, wanted, ones, allow_unused=True, create_graph=True)
    again = [g for g in first if g is not None and g.requires_grad]
    second: Any = ()
    if again and case.second:
        sums = [(g * g.conj()).real.sum() if g.is_complex() else (g * g).sum() for g in again]
        second = grad(sums, wanted, allow_unused=True, retain_graph=True)
    return [None if g is None else to_numpy(g) for g in (*first, *second, *grad(live, wanted, ones, allow_unused=True))]


@pytest.mark.host  # what is saved does not depend on the device
@pytest.mark.nonfinite
@pytest.mark.slow
def test_every_operation_has_the_same_derivatives_under_hooks() -> None:
    differing = []
    for case in CASES:
        if not case.differentiable:
            continue
        plain = _gradients(case, "cpu", contextlib.nullcontext(), np.random.default_rng(3))
        packed = _gradients(case, "cpu", copied(), np.random.default_rng(3))
        for a, b in zip(plain, packed, strict=True):
            if (a is None) != (b is None) or (a is not None and not np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)):
                differing.append(case.id)
                break
    assert not differing


class TestRegisterHooks:
    def test_packs_at_once(self) -> None:
        a = leaf(1.0, 2.0)
        y = a * a
        seen: list[Any] = []
        y.grad_fn._raw_saved_self.register_hooks(lambda x: seen.append((x is a, x.requires_grad)) or x * 2, lambda x: x * 3)
        assert seen == [(False, False)]
        assert y.grad_fn._saved_self.tolist() == [6.0, 12.0]
        assert y.grad_fn._saved_other.tolist() == [1.0, 2.0]
        y.sum().backward()
        np.testing.assert_array_equal(host(a.grad), [7.0, 14.0])

    def test_of_an_output_and_in_higher_orders(self) -> None:
        a = leaf(1.0, 2.0)
        y = a.exp()
        y.grad_fn._raw_saved_result.register_hooks(to_numpy, from_numpy)
        with gradlib.no_grad():
            y.mul_(2)
        (g,) = grad(y.sum(), a, create_graph=True)
        (h,) = grad(g.sum(), a)
        np.testing.assert_allclose(host(h), np.exp([1.0, 2.0]))

    def test_writes_to_what_has_no_hooks_still_count(self) -> None:
        b, c = leaf(1.0, 2.0) * 1, leaf(1.0, 2.0) * 1
        y = b * c
        y.grad_fn._raw_saved_self.register_hooks(to_numpy, from_numpy)
        c.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    def test_of_lists_and_custom_functions(self) -> None:
        a = leaf(1.0, 2.0)
        y = gradlib.index_put(a, (gradlib.tensor([0]),), gradlib.tensor([5.0], dtype=gradlib.float64))
        (indices,) = y.grad_fn._raw_saved_indices
        indices.register_hooks(lambda x: x + 1, as_is)
        y.sum().backward()
        np.testing.assert_array_equal(host(a.grad), [1.0, 0.0])
        y = Exp.apply(a)
        raw_input, raw_output, nothing = y.grad_fn._raw_saved_tensors
        raw_output.register_hooks(lambda x: x * 0, lambda x: x + 4)
        assert raw_input.unpack() is a
        assert nothing.unpack() is None
        (g,) = grad(y.sum(), a)
        np.testing.assert_array_equal(host(g), [4.0, 4.0])

    def test_shows_what_is_kept(self) -> None:
        y = leaf(1.0, 2.0).exp()
        raw = y.grad_fn._raw_saved_result
        assert raw.unpack_hook is None
        assert raw.data.tolist() == y.tolist()
        raw.register_hooks(lambda x: "packed", lambda x: y.detach())
        assert raw.data == "packed"
        assert raw.unpack().grad_fn is y.grad_fn

    def test_hooks_are_set_once_and_on_saved_values_that_live(self) -> None:
        a = leaf(1.0, 2.0)
        y = a * a
        raw = y.grad_fn._raw_saved_self
        raw.register_hooks(as_is, as_is)
        with pytest.raises(RuntimeError, match="hooks have already been set"):
            raw.register_hooks(as_is, as_is)
        with saved_tensors_hooks(as_is, as_is):
            z = a * a
        with pytest.raises(RuntimeError, match="hooks have already been set"):
            z.grad_fn._raw_saved_self.register_hooks(as_is, as_is)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after it has been freed"):
            raw.register_hooks(as_is, as_is)
        with pytest.raises(RuntimeError, match="with value None is forbidden"):
            (a * gradlib.ones(2, dtype=gradlib.float64)).grad_fn._raw_saved_self.register_hooks(as_is, as_is)
        with pytest.raises(RuntimeError, match="modifying its input in place"):
            (a * a).grad_fn._raw_saved_self.register_hooks(lambda x: x.mul_(2), as_is)
        with pytest.raises(TypeError, match="unpack_hook is a function"):
            (a * a).grad_fn._raw_saved_self.register_hooks(as_is, None)
        with pytest.raises(AttributeError, match="no hook can pack"):
            _ = (a * 2.0).grad_fn._raw_saved_other


def test_hooks_that_an_unpack_hook_enters_end_with_it() -> None:
    context: Any = None

    def unpack(tensor: Any) -> Any:
        context.__enter__()
        return tensor

    context = saved_tensors_hooks(lambda tensor: tensor, unpack)
    x = gradlib.ones(2, requires_grad=True)
    with context:
        y = x.sin().cos().sum()
        y.backward()
        assert len(thread_state.saving) == 1
    assert thread_state.saving == ()
    assert global_state.active == 0


def test_hooks_that_are_left_too_often_leave_later_ones_alone() -> None:
    context = saved_tensors_hooks(lambda tensor: tensor, lambda tensor: (context.__exit__(), tensor)[1])
    with context:
        y = gradlib.ones(2, requires_grad=True).sin().cos().sum()
    y.backward()
    context.__exit__()
    assert global_state.active == 0
    packed = []
    with saved_tensors_hooks(lambda tensor: packed.append(tensor), lambda tensor: tensor):
        gradlib.ones(2, requires_grad=True).sin()
    assert len(packed) == 1


class TestSaveOnCpu:
    @pytest.mark.parametrize("pin_memory", [False, True])
    def test_gives_the_same_gradient(self, pin_memory: bool, device: str) -> None:
        x = gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=gradlib.float64, device=device, requires_grad=True)
        with save_on_cpu(pin_memory=pin_memory):
            y = (x.T.exp() * x).tanh()
        assert y.grad_fn._saved_result.device == x.device
        kept = y.grad_fn._raw_saved_result.data[1]
        assert isinstance(kept, np.ndarray)
        (g,) = grad(y.sum(), x)
        (h,) = grad((x.T.exp() * x).tanh().sum(), x)
        np.testing.assert_allclose(host(g), host(h))

    @pytest.mark.host
    def test_on_the_cpu_nothing_is_copied_unless_pinned(self) -> None:
        x = leaf(1.0, 2.0)
        with save_on_cpu():
            y = x.exp()
        assert np.shares_memory(y.grad_fn._raw_saved_result.data[1], y.numpy(force=True))
        with save_on_cpu(pin_memory=True):
            y = x.exp()
        assert not np.shares_memory(y.grad_fn._raw_saved_result.data[1], y.numpy(force=True))

    def test_refuses_another_kind_of_device(self) -> None:
        with pytest.raises(ValueError, match="device_type is 'cuda'"):
            save_on_cpu(device_type="xpu")


class TestDisable:
    def test_refuses_with_the_message_given(self) -> None:
        with disable_saved_tensors_hooks("first"):
            with disable_saved_tensors_hooks("second"), pytest.raises(RuntimeError, match="second"), copied():
                pass
            with pytest.raises(RuntimeError, match="first"), save_on_cpu():
                pass
        with copied():
            pass

    def test_refuses_at_once_where_hooks_are_active(self) -> None:
        with copied(), pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
            pass

    def test_leaves_one_nodes_own_hooks_alone(self) -> None:
        a = leaf(1.0)
        y = a.exp()
        with disable_saved_tensors_hooks("no"):
            y.grad_fn._raw_saved_result.register_hooks(lambda x: x * 3, as_is)
            y.backward()
        assert a.grad.item() == pytest.approx(3 * math.e)
