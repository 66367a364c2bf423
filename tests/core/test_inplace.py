"""Views and in-place operations: shared memory and counters, histories that move, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import grad, gradcheck, gradgradcheck
from gradlib.core.tensor import Tensor
from tests.values import host, leaf

STALE = "modified by an inplace operation"


def matrix() -> Tensor:
    return gradlib.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)


class TestCounters:
    def test_a_write_counts_for_everything_that_shares_the_memory(self) -> None:
        x = gradlib.zeros(2, 3)
        views = [x[0], x.t(), x.view(6)[1:], x.detach()]
        assert [v._version for v in views] == [0] * 4
        views[2].add_(1)
        views[0].mul_(2)
        assert x._version == 2
        assert [v._version for v in views] == [2] * 4
        assert x.clone()._version == 0

    def test_base_of_a_view_is_the_whole(self) -> None:
        x = gradlib.zeros(2, 3)
        v = x[0][1:]
        assert v._is_view()
        assert v._base is x
        assert not x._is_view()
        assert (x * 1)._base is None

    @pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t.fill_(2.0), lambda t: t.copy_(t * 2)])
    def test_what_was_saved_before_is_stale(self, write: Callable[[Tensor], Any]) -> None:
        for pick in (lambda y: y, lambda y: y[1:], lambda y: y.detach()):
            y = leaf() * 1
            z = y * y
            write(pick(y))
            with pytest.raises(RuntimeError, match=f"{STALE}.*MulBackward0.*version 1"):
                z.sum().backward()

    def test_a_saved_result_too(self) -> None:
        y = leaf().exp()
        z = y + 0
        y.add_(1)
        with pytest.raises(RuntimeError, match=f"{STALE}.*ExpBackward0"):
            z.sum().backward()

    def test_what_is_not_saved_may_be_written(self) -> None:
        x = leaf()
        y = x * 1
        z = y + 1
        w = y.exp()
        y.mul_(3)
        (z + w + y).sum().backward()
        np.testing.assert_allclose(host(x.grad), 1 + np.exp([1, 2, 3]) + 3)

    def test_saved_after_the_write(self) -> None:
        x = leaf()
        y = (x * 1).mul_(2)
        (y * y).sum().backward()
        assert x.grad.tolist() == [8, 16, 24]

    def test_under_no_grad_it_counts_as_well(self) -> None:
        x = leaf()
        y = x * x
        with gradlib.no_grad():
            x.add_(1)
        assert (x._version, x.is_leaf, x.tolist()) == (1, True, [2, 3, 4])
        with pytest.raises(RuntimeError, match=STALE):
            y.sum().backward()


class TestHistory:
    def test_the_tensor_takes_the_new_node(self) -> None:
        x = leaf()
        y = x * 2
        assert y.mul_(3) is y
        assert y.grad_fn.name() == "MulBackward0"
        y.exp_()
        assert y.grad_fn.name() == "ExpBackward0"
        (g,) = grad(y.sum(), x)
        np.testing.assert_allclose(host(g), 6 * np.exp([6, 12, 18]))

    def test_a_constant_joins_the_graph(self) -> None:
        x = leaf()
        c = gradlib.ones(3, dtype=gradlib.float64)
        c.mul_(x)
        assert c.requires_grad
        assert not c.is_leaf
        c.sum().backward()
        assert x.grad.tolist() == [1, 1, 1]

    def test_writing_a_view_reaches_its_base_and_its_other_views(self) -> None:
        x = leaf()
        y = x * 1
        before, other = y[:2], y[1:]
        before.mul_(10)
        assert y.tolist() == [10, 20, 3]
        assert y.grad_fn.name() == "CopySlices"
        for tensor, expected in ((y, [10, 10, 1]), (before, [10, 10, 0]), (other, [0, 10, 1])):
            assert grad(tensor.sum(), x, retain_graph=True)[0].tolist() == expected

    def test_writing_the_base_reaches_its_views(self) -> None:
        x = leaf()
        y = x * 1
        v = y[1:]
        y.mul_(10)
        assert grad(v.sum(), x)[0].tolist() == [0, 10, 10]

    def test_a_written_part_leads_to_the_base_before_and_to_the_value(self) -> None:
        x, value = leaf(), leaf(5.0)
        y = x * 1
        before = y.grad_fn
        y[1:] = value
        assert y.grad_fn.name() == "CopySlices"
        assert [node for node, _ in y.grad_fn.next_functions] == [before, value._node]
        y[0] = 7.0
        assert y.grad_fn.next_functions[1] == (None, 0)
        assert [g.tolist() for g in grad((y * y).sum(), (x, value))] == [[0, 0, 0], [20]]

    @pytest.mark.parametrize("key", [..., slice(None), (), slice(0, 3)], ids=str)
    def test_an_index_that_leaves_nothing_out_writes_the_tensor_itself(self, key: Any) -> None:
        x, value = leaf(), leaf(5.0)
        y = x * 1
        before = y.grad_fn
        y[key] = value
        assert y.grad_fn.name() == "CopyBackward0"
        assert [node for node, _ in y.grad_fn.next_functions] == [before, value._node]
        assert [g.tolist() for g in grad((y * y).sum(), (x, value))] == [[0, 0, 0], [30]]
        with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad"):
            x[key] = 2.0

    def test_a_view_of_a_constant_takes_it_along(self) -> None:
        x = leaf(5.0)
        c = gradlib.zeros(3, dtype=gradlib.float64)
        v = c[:2]
        c[1:2].copy_(x)
        assert (c.requires_grad, v.requires_grad, c.tolist()) == (True, True, [0, 5, 0])
        (v * v).sum().backward()
        assert x.grad.tolist() == [10]

    def test_views_of_views_transposed(self) -> None:
        x = matrix()
        y = x * 1
        y.t()[1:, 0].mul_(x[1, :2])
        assert y.tolist() == [[1, 8, 15], [4, 5, 6]]
        y.sum().backward()
        assert x.grad.tolist() == [[1, 4, 5], [1 + 2, 1 + 3, 1]]

    def test_a_base_that_is_not_row_major(self) -> None:
        x = matrix()
        for create_graph in (False, True):
            y = (x * 1).t()
            base = y.clone()
            assert base.shape == (3, 2)
            base.view_as(base)[1].mul_(7)
            y[2].zero_()
            (g,) = grad((base + y).sum(), x, create_graph=create_graph)
            assert g.tolist() == [[2, 8, 1], [2, 8, 1]]

    def test_a_view_that_only_that_order_allows(self) -> None:
        x = matrix()
        y = x.t().clone()
        y.t().view(6)[1:3].mul_(7)
        (y * y).sum().backward()
        assert x.grad.tolist() == [[2, 2 * 2 * 49, 2 * 3 * 49], [8, 10, 12]]

    def test_filling_cuts_it(self) -> None:
        x = leaf()
        y = x * 2
        y[:1].zero_()
        y[1:2].fill_(5.0)
        assert y.tolist() == [0, 5, 6]
        assert grad(y.sum(), x)[0].tolist() == [0, 0, 2]
        y = x * 2
        y.zero_()
        assert grad(y.sum(), x)[0].tolist() == [0, 0, 0]

    def test_item_assignment(self) -> None:
        x, w = leaf(), leaf(10.0, 20.0)
        y = x * 1
        y[1] = w[0] * 2
        y[[0, 2]] = w
        assert y.tolist() == [10, 20, 20]
        y.sum().backward()
        assert x.grad.tolist() == [0, 0, 0]
        assert w.grad.tolist() == [3, 1]

    @pytest.mark.parametrize(
        "call",
        [
            lambda x, w: (x * 1).mul_(w).add_(x),
            lambda x, w: _written(x, lambda y: y[0].mul_(w[1])),
            lambda x, w: _written(x, lambda y: y.t()[1:].sub_(w.t()[1:] * 2)),
            lambda x, w: _written(x, lambda y: y[:, ::2].copy_(w[:, ::2] * x[:, :2])),
            lambda x, w: _written(x, lambda y: y.view(-1)[2:5].exp_()),
            lambda x, w: _written(x, lambda y: (y[0].mul_(w[0]), y[:, 1].add_(w[:, 2]), y.sin_())),
        ],
    )
    def test_derivatives_of_both_orders(self, call: Callable[[Tensor, Tensor], Tensor]) -> None:
        rng = np.random.default_rng(5)
        x, w = (gradlib.tensor(rng.uniform(0.5, 1.5, (2, 3)), requires_grad=True) for _ in range(2))
        assert gradcheck(call, (x, w))
        assert gradgradcheck(call, (x, w))


def _written(x: Tensor, write: Callable[[Tensor], Any]) -> Tensor:
    y = x * 1.5
    write(y)
    return y * y


class TestRefused:
    def test_leaves_that_require_a_gradient(self) -> None:
        x = leaf()
        for write in (lambda: x.add_(1), lambda: x.zero_(), lambda: x.__setitem__(0, 1.0), lambda: x.copy_(x * 2)):
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
                write()
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
            x[:2].add_(1)
        assert (x.tolist(), x._version) == ([1, 2, 3], 0)

    def test_leaves_that_are_views(self) -> None:
        """What their base becomes says nothing to such a leaf: it would get no gradient any more."""
        for write in (lambda x: x[0].mul_(2), lambda x: x.__setitem__(0, 1.0), lambda x: x.view(-1).__setitem__(0, x.sum())):
            x = gradlib.zeros(6).reshape(2, 3).requires_grad_()
            with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
                write(x)
            assert x.is_leaf
            x.sum().backward()
            assert x.grad is not None

    def test_one_of_several_views(self) -> None:
        a, _ = (leaf() * 1).split([1, 2])
        with pytest.raises(RuntimeError, match="several views"):
            a.add_(1)

    def test_a_view_made_under_no_grad(self) -> None:
        y = leaf() * 1
        with gradlib.no_grad():
            v = y[:2]
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            v.mul_(2)
        with gradlib.no_grad():
            v.mul_(2)
        assert y.tolist() == [2, 4, 3]

    def test_results_that_do_not_fit(self) -> None:
        x = gradlib.ones(3)
        with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
            x.add_(gradlib.ones(2, 3))
        i = gradlib.ones(3, dtype=gradlib.int64)
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            i.mul_(0.5)
        with pytest.raises(RuntimeError, match="single memory location"):
            gradlib.ones(1).expand(3).add_(1)
        assert (x.tolist(), i.tolist()) == ([1, 1, 1], [1, 1, 1])

    def test_some_results_are_written_in_their_own_dtype_only(self) -> None:
        """As in torch, whose kernels of these do not convert; a sum or a product is brought to the dtype of ``out=``."""
        x, wide = gradlib.tensor([-1.0, 2.0]), gradlib.zeros(2, dtype=gradlib.float64)
        for name in ("abs", "neg", "ceil", "sign", "trunc", "clamp_min"):
            more = (0,) if name == "clamp_min" else ()
            with pytest.raises(RuntimeError, match="can't be cast"):
                getattr(gradlib, name)(x, *more, out=wide)
        scalar = {name: gradlib.zeros((), dtype=name) for name in ("int32", "int64", "float64", "uint8", "bool")}
        for call, out in (
            (gradlib.argmax, "int32"), (lambda x, out: gradlib.amax(x, 0, out=out), "float64"), (gradlib.all, "int64"),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match="can't be cast"):
                call(x, out=scalar[out])
        with pytest.raises(RuntimeError, match="can't be cast"):
            gradlib.where(x > 0, x, x, out=wide)
        gradlib.argmax(x, out=scalar["int64"])
        gradlib.any(gradlib.tensor([0, 3], dtype=gradlib.uint8), out=scalar["bool"])
        gradlib.any(x, out=scalar["uint8"])
        gradlib.exp(gradlib.zeros(2), out=wide)
        assert [scalar[name].item() for name in ("int64", "bool", "uint8")] == [1, True, 1]
        assert wide.tolist() == [1, 1]

    @pytest.mark.parametrize("dtype", ["bool", "int64", "uint8"])
    def test_nothing_is_recorded_in_integers(self, dtype: str) -> None:
        writes: list[Callable[[Tensor, Tensor], Any]] = [
            lambda x, s: x.copy_(s), lambda x, s: x[:1].copy_(s[:1]), lambda x, s: x.__setitem__(0, s[0]), lambda x, s: x.fill_(s[0]),
        ]  # fmt: skip
        for source in (leaf(1.0, 2.0), leaf(1.0, 2.0).float() * 2):
            for write in writes:
                x = gradlib.zeros(2, dtype=dtype)
                write(x, source)
                assert not x.requires_grad
                assert x[0].item() == (True if dtype == "bool" else source[0].item())

    def test_lower_precision_is_kept(self) -> None:
        x = gradlib.ones(2, dtype=gradlib.float32)
        x.add_(gradlib.ones(2, dtype=gradlib.float64))
        assert x.dtype == gradlib.float32
        y = leaf(1.0, 2.0)
        z = gradlib.ones(2, dtype=gradlib.float32).mul_(y)
        z.sum().backward()
        assert (y.grad.dtype, y.grad.tolist()) == (gradlib.float64, [1, 1])


class TestDetachedInPlace:
    """What was saved of a tensor before ``detach_()`` has lost its place in the graph, and with it second derivatives."""

    DETACHED = r"saved tensor that has been detached in-place, i.e. with .detach_\(\)"

    def test_a_saved_input_is_refused(self) -> None:
        for create_graph in (False, True):
            x = leaf()
            y = x * 2
            z = y * y
            y.detach_()
            with pytest.raises(RuntimeError, match=f"{self.DETACHED}.*MulBackward0"):
                grad(z.sum(), x, create_graph=create_graph)

    def test_what_did_not_save_it_is_not(self) -> None:
        x = leaf()
        y = x * 2
        results = [y + 1, y.exp(), y.detach() * x, y[1:] * y[1:], y * gradlib.ones(3, dtype=gradlib.float64)]
        y.detach_()
        results.append(y * x)
        e = np.exp([2, 4, 6])
        for result, expected in zip(results, ([2] * 3, 2 * e, [2, 4, 6], [0, 16, 24], [2] * 3, [2, 4, 6]), strict=True):
            np.testing.assert_allclose(host(grad(result.sum(), x)[0]), expected, rtol=1e-12)

    def test_the_storage_still_counts_for_all(self) -> None:
        for pick in (lambda y, v: y, lambda y, v: v, lambda y, v: y[1:]):
            x = leaf()
            y = x * 2
            v = y.detach()
            y.detach_()
            z = y * x
            pick(y, v).mul_(2)
            assert (y._version, v._version) == (1, 1)
            with pytest.raises(RuntimeError, match=STALE):
                z.sum().backward()

    def test_it_may_join_a_graph_again(self) -> None:
        x = leaf()
        y = (x * 2).detach_()
        y.mul_(x)
        (y * y).sum().backward()
        assert x.grad.tolist() == [8, 64, 216]
        y = (x * 2).detach_().requires_grad_()
        (y * y).sum().backward()
        assert y.grad.tolist() == [4, 8, 12]

    def test_its_parts_are_views_of_it(self) -> None:
        x = leaf()
        y = (x * 2).detach_()
        for parts in (y.split(1), y.unbind()):
            y.mul_(x)
            assert all(part.requires_grad for part in parts)
            y.detach_()
        assert y.tolist() == [2, 16, 54]

    def test_a_write_cuts_the_views_of_before(self) -> None:
        for write in (lambda y: y.zero_(), lambda y: y[1:].zero_(), lambda y: y.mul_(3), lambda y: y.__setitem__(..., 1.0)):
            x = leaf()
            y = x * 2
            view, copied = y[:2], y.clone()
            y.detach_()
            assert view.requires_grad
            write(y)
            assert not view.requires_grad
            (view.sum() + copied.sum()).backward()
            assert x.grad.tolist() == [2, 2, 2]
            view.mul_(x[:2])  # of which y is the base again
            assert y.requires_grad
            assert view.requires_grad

    def test_saved_values_that_may_be_written(self) -> None:
        x = leaf()
        with gradlib.autograd.graph.allow_mutation_on_saved_tensors():
            y = x * 2
            z = y.detach() * x
            y.detach_()
            y.zero_()
            z.sum().backward()
        assert x.grad.tolist() == [2, 4, 6]


class TestComparisons:
    """Written in place they have a derivative, of zeros."""

    FORMS = (
        "eq_", "ne_", "lt_", "le_", "gt_", "ge_", "not_equal_", "less_", "less_equal_", "greater_", "greater_equal_",
        "logical_and_", "logical_or_", "logical_xor_",
    )  # fmt: skip

    @pytest.mark.parametrize("name", FORMS)
    def test_both_operands_have_gradients_of_zeros(self, name: str) -> None:
        x, other = leaf(), leaf(2.0, 2.0, 2.0)
        y = x * 2
        assert getattr(y, name)(other) is y
        assert type(y.grad_fn).__name__ not in ("MulBackward0", "CopySlices")
        y.sum().backward()
        np.testing.assert_array_equal(host(x.grad), [0, 0, 0])
        np.testing.assert_array_equal(host(other.grad), [0, 0, 0])

    @pytest.mark.parametrize("name", FORMS)
    def test_an_operand_that_wants_a_gradient_is_enough(self, name: str) -> None:
        other = leaf(2.0)
        y = gradlib.ones(3, dtype=gradlib.float64)
        assert getattr(y, name)(other).requires_grad
        assert not getattr(gradlib.ones(3, dtype=gradlib.int64), name)(other).requires_grad
        (gradient,) = grad(y.sum(), other, create_graph=True)
        assert gradient.tolist() == [0]
        assert not gradient.requires_grad

    def test_so_has_the_opposite(self) -> None:
        x = leaf()
        (x * 2).logical_not_().sum().backward()
        np.testing.assert_array_equal(host(x.grad), [0, 0, 0])

    def test_the_rest_of_the_base_keeps_its_history(self) -> None:
        x = leaf()
        y = x * 2
        y[1:].gt_(0)
        y.sum().backward()
        np.testing.assert_array_equal(host(x.grad), [2, 0, 0])

    def test_the_result_has_the_dtype_of_what_is_written(self) -> None:
        assert gradlib.tensor([1, 2]).gt_(1.5).tolist() == [0, 1]
        y = gradlib.tensor([1.0, 2.0], requires_grad=True) * 1
        assert y.le_(gradlib.tensor([1.0, 1.0], dtype=gradlib.float64)).dtype == gradlib.float32
        assert y.tolist() == [1, 0]
        z = (leaf() * (1 + 1j)).eq_(0)
        assert z.requires_grad
        assert z.dtype == gradlib.complex128


def test_a_written_view_of_what_has_no_dimensions() -> None:
    """Its gradient comes as NumPy's scalar."""
    x = leaf()
    y = x.sum()
    y.view(1).mul_(2)
    (y * 3 * y.detach()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [72, 72, 72]
