"""Forward mode and memory: writes to dual tensors and to parts of them, views, siblings, ``out=``; and what carries no tangent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import func
from gradlib.autograd import forward_ad
from gradlib.autograd.forward_ad import make_dual, unpack_dual
from gradlib.core.tensor import Tensor
from tests.values import host


def vector(*values: float) -> Tensor:
    return gradlib.tensor([float(value) for value in values])


def tangent(value: Tensor) -> Any:
    found = unpack_dual(value).tangent
    return None if found is None else host(found).tolist()


@pytest.fixture
def level() -> Iterator[None]:
    """Every test that asks for it runs in a dual level."""
    with forward_ad.dual_level():
        yield


def dual(*tangents: float) -> Tensor:
    """1, 2, 3 with a tangent."""
    return make_dual(vector(1, 2, 3), vector(*(tangents or (1, 1, 1))))


@pytest.mark.usefixtures("level")
class TestWrites:
    def test_the_primal_and_the_tangent_that_were_given_stay_as_they_are(self) -> None:
        primal, given = vector(1, 2, 3), vector(1, 1, 1)
        d = make_dual(primal, given)
        d *= 2
        assert tangent(d) == [2, 2, 2]
        assert tangent(primal) is None
        assert tangent(primal * 3) is None
        assert host(primal).tolist() == [2, 4, 6]  # the memory is one
        assert host(given).tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("write", "want"),
        [
            (lambda d: d.__setitem__(0, d[1] * 2), [2, 1, 1]),
            (lambda d: d.__setitem__(1, 5.0), [1, 0, 1]),
            (lambda d: d.__setitem__(d > 1.5, 5.0), [1, 0, 0]),
            (lambda d: d[1:].mul_(3), [1, 3, 3]),
            (lambda d: d[1:][0].mul_(3), [1, 3, 1]),
            (lambda d: d.zero_(), [0, 0, 0]),
            (lambda d: d.copy_(vector(4, 5, 6)), [0, 0, 0]),
            (lambda d: d.mul_(d), [2, 4, 6]),
            (lambda d: d.__setitem__(slice(1, None), d[:-1] * 1), [1, 1, 1]),
            (lambda d: d.index_add_(0, gradlib.tensor([0, 0]), d[1:] * 2), [5, 1, 1]),
            (lambda d: d.detach().mul_(2), [1, 1, 1]),
            (lambda d: unpack_dual(d).primal.mul_(2), [1, 1, 1]),
            (lambda d: d.view(1, 3).t().mul_(2), [2, 2, 2]),
        ],
    )
    def test_a_write_to_a_part_leaves_the_rest(self, write: Callable[[Tensor], Any], want: list[float]) -> None:
        for d in (dual(), dual() * 1):
            write(d)
            assert tangent(d) == want
            assert tangent(d * 1) == want

    def test_two_duals_of_one_tensor_and_its_other_views(self) -> None:
        primal = vector(1, 2, 3)
        view = primal[1:]
        first, second = make_dual(primal, vector(1, 1, 1)), make_dual(primal, vector(5, 5, 5))
        part = first[1:]
        part.mul_(3)
        assert (tangent(first), tangent(part)) == ([1, 3, 3], [3, 3])
        assert tangent(second) == [5, 5, 5]
        assert tangent(view) is None
        assert tangent(primal) is None
        assert tangent(primal[1:]) is None

    def test_siblings_of_a_dual_that_is_gone(self) -> None:
        d = dual()
        left, right = d[0:2], d[1:3]
        del d
        left.mul_(2)
        assert (tangent(left), tangent(right)) == ([2, 2], [2, 1])

    def test_a_dual_written_into_a_view_of_a_plain_tensor(self) -> None:
        plain = vector(1, 2, 3)
        view = plain[1:]
        view.mul_(make_dual(vector(4, 5), vector(1, 1)))
        assert (tangent(plain), tangent(view), tangent(plain[0])) == ([0, 2, 3], [2, 3], 0)

    def test_a_dual_written_into_the_primal(self) -> None:
        primal = vector(1, 2, 3)
        d = make_dual(primal, vector(1, 1, 1))
        primal.mul_(make_dual(vector(1, 2, 3), vector(7, 7, 7)))
        assert (tangent(d), tangent(primal)) == ([1, 1, 1], [7, 14, 21])
        shown = unpack_dual(d).primal
        shown.mul_(make_dual(vector(1, 2, 3), vector(1, 1, 1)))
        assert (tangent(d), tangent(shown)) == ([1, 1, 1], [1, 4, 9])

    def test_a_dual_of_a_view(self) -> None:
        base = vector(1, 2, 3)
        d = make_dual(base[1:], vector(1, 1))
        d.mul_(2)
        assert (tangent(d), tangent(base)) == ([2, 2], None)
        base[0] = d[0]
        assert (tangent(d), tangent(base)) == ([2, 2], [2, 0, 0])

    def test_a_layout_of_another_order(self) -> None:
        primal = gradlib.tensor(np.arange(6.0).reshape(2, 3)).T
        d = make_dual(primal, gradlib.ones(3, 2, dtype=gradlib.float64))
        d[0] = 9.0
        assert tangent(d) == [[0, 0], [1, 1], [1, 1]]
        assert tangent(d.T.reshape(6)) == [0, 1, 1, 0, 1, 1]

    def test_a_window_on_another_layout(self) -> None:
        d = make_dual(gradlib.zeros(2, 3).T, gradlib.tensor(np.arange(6.0).reshape(3, 2)).float())
        window = d.as_strided((2,), (1,), 1)
        assert tangent(window) == [2, 4]
        d[0] = 9.0
        assert tangent(window) == [2, 4]
        assert tangent(d) == [[0, 0], [2, 3], [4, 5]]

    def test_a_window_beyond_a_view_is_refused(self) -> None:
        """The view's tangent ends with it; within, and beyond a dual tensor that is itself a part, nothing is unknown."""
        d = make_dual(gradlib.arange(6.0), gradlib.arange(6.0) * 10)
        part = d[2:4]
        assert tangent(part.as_strided((2,), (1,), 2)) == [20, 30]
        for window in (((3,), (1,), 0), ((4,), (1,), 2), ((2,), (3,), 2)):
            with pytest.raises(RuntimeError, match="reach beyond this view"):
                part.as_strided(*window)
            assert tangent(d.as_strided(*window)) == [10 * place for place in host(d.as_strided(*window)).tolist()]
        with pytest.raises(RuntimeError, match="reach beyond this view"):
            d[::2].as_strided((3,), (1,))
        whole = gradlib.arange(6.0)
        assert tangent(make_dual(whole[2:4], gradlib.ones(2)).as_strided((3,), (1,), 0)) == [0, 0, 1]
        assert unpack_dual(whole[2:4].as_strided((3,), (1,), 0)).tangent is None

    def test_shapes_that_change_in_place(self) -> None:
        d = dual()
        d.unsqueeze_(0)
        assert (tangent(d), tuple(d.shape)) == ([[1, 1, 1]], (1, 3))
        made = make_dual(gradlib.ones(2, 3), gradlib.ones(2, 3)) * 2
        row = made[1]
        made.t_()
        made[0] = 0.0
        assert tangent(made) == [[0, 0], [2, 2], [2, 2]]
        assert tangent(row) == [0, 2, 2]

    def test_without_recording(self) -> None:
        d = dual()
        with gradlib.no_grad():
            d[1:].mul_(3)
        assert tangent(d) == [1, 3, 3]

    def test_both_modes(self) -> None:
        p = gradlib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        d = make_dual(p, vector(1, 1, 1))
        y = d * d
        y[0] = y[1] * 3
        (g,) = gradlib.autograd.grad((y * y).sum(), p, create_graph=True)
        assert (tangent(y), tangent(g)) == ([12, 4, 6], [0, 480, 108])


class TestTransforms:
    def test_item_writes_to_an_input(self) -> None:
        def f(x: Tensor) -> Tensor:
            x[0] = x[1] * 2
            return x * 1

        assert host(func.jacfwd(f)(vector(1, 2, 3))).tolist() == [[0, 2, 0], [0, 1, 0], [0, 0, 1]]
        _, moved = func.jvp(f, (vector(1, 2, 3),), (vector(1, 2, 3),))
        assert host(moved).tolist() == [4, 2, 3]

    def test_item_writes_in_nested_levels(self) -> None:
        def f(x: Tensor) -> Tensor:
            x[0] = x[1] * x[2]
            return x * x

        def by_hand(x: Tensor) -> Tensor:
            return gradlib.stack([(x[1] * x[2]) ** 2, x[1] ** 2, x[2] ** 2])

        x = vector(1, 2, 3)
        want = host(func.jacfwd(func.jacrev(by_hand))(x))
        np.testing.assert_allclose(host(func.jacfwd(func.jacfwd(f))(x.clone())), want)
        many = func.vmap(func.jacfwd(f))(x.expand(2, 3).clone())
        np.testing.assert_allclose(host(many[1]), host(func.jacrev(by_hand)(x)))


@pytest.mark.usefixtures("level")
class TestNoTangent:
    @pytest.mark.parametrize(
        "take",
        [
            lambda d: d.long(), lambda d: d.bool(), lambda d: d.int().float(), lambda d: d.to(gradlib.int64), lambda d: d > 1,
            lambda d: d.argmax(), lambda d: d.sort()[1], lambda d: d.isnan(), lambda d: d.detach(),
        ],
    )  # fmt: skip
    def test_of_whole_numbers(self, take: Callable[[Tensor], Tensor]) -> None:
        assert tangent(take(dual())) is None
        assert tangent(take(make_dual(gradlib.tensor([1.0], requires_grad=True), vector(1)))) is None

    def test_detach_in_place(self) -> None:
        y = dual() * 2
        y.detach_()
        assert tangent(y) is None
        assert tangent(y * 2) is None

    def test_of_what_is_not_a_number(self) -> None:
        d = make_dual(vector(1, float("nan"), 3), vector(1, 10, 100))
        assert (tangent(d.nansum()), tangent(d.nansum(0)), tangent(gradlib.nanmean(d))) == (101, 101, 50.5)

    @pytest.mark.parametrize(
        "call",
        [
            lambda d, plain: gradlib.mul(d, 2, out=plain),
            lambda d, plain: gradlib.mul(plain, 2, out=d),
            lambda d, plain: gradlib.eq(d, d, out=plain.bool()),
            lambda d, plain: gradlib.sum(d, 0, out=plain[0]),
            lambda d, plain: gradlib.stack([d, plain], out=plain.expand(2, 3).clone()),
        ],
    )
    def test_out_is_refused(self, call: Callable[[Tensor, Tensor], Any]) -> None:
        d, plain = dual(), vector(7, 7, 7)
        with pytest.raises(NotImplementedError, match="because it is an out= function"):
            call(d, plain)
        assert host(plain).tolist() == [7, 7, 7]
        assert host(d).tolist() == [1, 2, 3]

    def test_a_tangent_or_a_primal_that_is_dual_itself(self) -> None:
        with pytest.raises(RuntimeError, match="Setting a forward grad that itself has a forward gradient at the same level 0"):
            make_dual(vector(1, 2, 3), dual())
        with pytest.raises(RuntimeError, match="based on a Tensor that already has a forward gradient at the same level 0"):
            make_dual(dual(), vector(1, 2, 3))

    def test_inference_mode(self) -> None:
        d = dual()
        with gradlib.inference_mode():
            assert tangent(d) is None
            y = d * 2
            assert tangent(y) is None
            assert y.is_inference()
            assert tangent(dual()) is None
            d.mul_(2)
            with gradlib.inference_mode(False):
                assert tangent(d * 2) == [2, 2, 2]
        assert tangent(y) is None
        assert tangent(d) == [1, 1, 1]


def test_transforms_and_inference_mode() -> None:
    x, t = vector(1, 2), vector(1, 1)
    with gradlib.inference_mode():
        value, moved = func.jvp(lambda x: x * x, (x,), (t,))
    assert host(moved).tolist() == [2, 4]
    assert value.is_inference()

    def inside(x: Tensor) -> Tensor:
        with gradlib.inference_mode():
            return x * x

    assert host(func.jvp(inside, (x,), (t,))[1]).tolist() == [0, 0]


def test_out_is_refused_inside_vmap() -> None:
    kept = vector(7, 7, 7)
    with pytest.raises(RuntimeError, match="Batching rule not implemented for mul with out="):
        func.vmap(lambda row: gradlib.mul(row, 2, out=kept))(gradlib.ones(2, 3))
    assert host(kept).tolist() == [7, 7, 7]


class TestLeavesThatLeft:
    @pytest.mark.parametrize("leave", [lambda x: x.detach_(), lambda x: x.requires_grad_(False)])
    @pytest.mark.parametrize("create_graph", [False, True])
    def test_backward_keeps_nothing_for_them(self, leave: Callable[[Tensor], Any], create_graph: bool) -> None:
        x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        leave(x)
        y.backward(create_graph=create_graph)
        assert x.grad is None
        assert not x.requires_grad

    def test_one_that_came_back(self) -> None:
        x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        x.detach_().requires_grad_()
        y.backward()
        assert host(x.grad).tolist() == [2, 4]


@pytest.mark.parametrize("call", [lambda x: x + 1j, lambda x: 1j - x, lambda x: x * 1j, lambda x: gradlib.where(x > 0, x, 1j)])
def test_a_complex_number_makes_the_tangent_complex(call: Callable[[gradlib.Tensor], gradlib.Tensor]) -> None:
    x, t = gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 5.0])
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(call(forward_ad.make_dual(x, t)))
    assert tangent.dtype == value.dtype == gradlib.complex64


@pytest.mark.parametrize("other", [lambda t: t.T.contiguous().T, lambda t: gradlib.stack([t, t], -1)[..., 0], lambda t: t[:1].expand(2, 2)])
def test_a_view_of_a_dual_whose_tangent_lies_otherwise_in_memory(other: Any) -> None:
    x, t = gradlib.arange(4.0).reshape(2, 2), other(gradlib.arange(4.0).reshape(2, 2))
    want = t.reshape(-1).tolist()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        assert forward_ad.unpack_dual(dual.view(-1)).tangent.tolist() == want
        pairs = gradlib.view_as_real(gradlib.view_as_complex(dual))
        assert forward_ad.unpack_dual(pairs.view(4)).tangent.tolist() == want
        copy = dual.clone()
        copy.view(-1).mul_(2)
        assert forward_ad.unpack_dual(copy.reshape(-1)).tangent.tolist() == [2 * each for each in want]


def test_a_tangent_that_was_spread_over_the_result_has_memory_of_its_own() -> None:
    with forward_ad.dual_level():
        row = make_dual(gradlib.ones(3), gradlib.arange(3.0))
        spread = unpack_dual(gradlib.zeros(2, 3) + row).tangent
        spread[0] = 5.0
        assert spread.tolist() == [[5, 5, 5], [0, 1, 2]]


def test_lists_of_which_some_have_a_tangent_and_parts_of_one() -> None:
    with forward_ad.dual_level():
        d, plain, doubles = dual(1, 2, 3), vector(7, 8), vector(1, 2).double()
        assert tangent(gradlib.cat([plain, d])) == [0, 0, 1, 2, 3]
        assert tangent(gradlib.stack([d, vector(0, 0, 0)])) == [[1, 2, 3], [0, 0, 0]]
        assert unpack_dual(gradlib.cat([doubles, d])).tangent.dtype == gradlib.float64
        assert [tangent(each) for each in (d * 2).split(2)] == [[2, 4], [6]]
        first, *_ = d.unbind()
        first.mul_(10)
        assert tangent(d) == [10, 2, 3]
        assert tangent(gradlib.where(vector(1, 0, 1) > 0, d, 4)) == [10, 0, 3]
        assert unpack_dual(gradlib.where(vector(1, 0, 1) > 0, d, doubles.new_ones(3))).tangent.dtype == gradlib.float64
        assert tangent(gradlib.cat([plain, plain])) is None
        assert tangent(d.masked_fill(vector(1, 0, 1) > 0, 2)) == [0, 2, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(2,), (2, 2)])
@pytest.mark.parametrize("name", ["nanmean", "mean", "nansum", "std", "logsumexp", "norm"])
def test_the_tangent_of_a_half_reduction_is_half(name: str, shape: tuple[int, ...], dtype: str) -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(gradlib.ones(shape, dtype=dtype), gradlib.ones(shape, dtype=dtype))
        made = gradlib.logsumexp(dual, 0) if name == "logsumexp" else getattr(gradlib, name)(dual)
        assert forward_ad.unpack_dual(made).tangent.dtype == made.dtype
