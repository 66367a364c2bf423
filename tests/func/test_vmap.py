"""vmap: where dimensions come from and go to, nesting, writes, random numbers, and what it refuses."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import vmap
from gradlib.func import grad
from tests.values import host

Pair = namedtuple("Pair", ["first", "second"])


def drawn(*shape: int, seed: int = 0) -> gradlib.Tensor:
    return gradlib.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(got: gradlib.Tensor, want: Any) -> None:
    np.testing.assert_allclose(host(got), host(want) if isinstance(want, gradlib.Tensor) else want, atol=1e-12)


class TestDimensions:
    def test_of_arguments(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        same(vmap(lambda r: r.sum())(x), x.sum(1))
        same(vmap(lambda r: r.sum(), 1)(x), x.sum(0))
        same(vmap(lambda r: r.sum(), -1)(x), x.sum(0))
        same(vmap(lambda r, s: r * s, (0, None))(x, y), x * y)
        same(vmap(lambda r, s: r * s, (1, 0))(x, y), (x * y).T)

    def test_of_results(self) -> None:
        x = drawn(4, 3)
        assert vmap(lambda r: r, out_dims=1)(x).shape == (3, 4)
        assert vmap(lambda r: r, out_dims=-1)(x).shape == (3, 4)
        first, second = vmap(lambda r: (r, r.sum()), out_dims=(1, 0))(x)
        assert first.shape == (3, 4)
        assert second.shape == (4,)

    def test_what_is_the_same_for_all_rows_is_spread(self) -> None:
        made = vmap(lambda r: gradlib.ones(2))(drawn(4, 3))
        assert made.shape == (4, 2)

    def test_none_keeps_a_result_as_it_is(self) -> None:
        shared = drawn(2)
        assert vmap(lambda r: shared, out_dims=None)(drawn(4, 3)) is shared
        first, number = vmap(lambda r: (r, 3), out_dims=(0, None))(drawn(4, 3))
        assert (first.shape, number) == ((4, 3), 3)

    def test_nests_of_arguments_and_results(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        made = vmap(lambda d, p: {"a": [d["x"] * p.first], "b": Pair(p.second, d["n"])}, ({"x": 0, "n": None}, (None, 0)))(
            {"x": x, "n": y}, Pair(y, x)
        )
        same(made["a"][0], x * y)
        assert isinstance(made["b"], Pair)
        assert made["b"].second.shape == (4, 3)
        ordered = vmap(lambda r: OrderedDict(b=r, a=r), out_dims={"a": 1, "b": 0})(x)
        assert list(ordered) == ["b", "a"]
        assert ordered["a"].shape == (3, 4)

    def test_keyword_arguments_are_given_whole(self) -> None:
        x = drawn(4, 3)
        same(vmap(lambda r, *, factor: (r * factor).sum())(x, factor=x), [(row * x).sum().item() for row in x])

    def test_a_batch_of_nothing(self) -> None:
        assert vmap(lambda r: (r.sin() @ r, r.reshape(-1, 1)))(drawn(0, 3))[1].shape == (0, 3, 1)
        assert vmap(lambda r: r.sum(), 1)(drawn(2, 0)).shape == (0,)

    def test_in_chunks(self) -> None:
        x = drawn(7, 3)
        sizes = []

        def f(r: gradlib.Tensor) -> Any:
            sizes.append(r)
            return r.sin(), r.sum()

        first, second = vmap(f, out_dims=(1, 0), chunk_size=3)(x)
        assert len(sizes) == 3
        same(first, x.sin().T)
        same(second, x.sum(1))
        for chunks in (1, 2, 3, 7, 9):
            same(gradlib.func.chunk_vmap(lambda r: r.sin(), chunks=chunks)(x), x.sin())

    def test_nested_vmap_over_other_dimensions(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        outer = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))
        same(outer(x[:, 0], y), x[:, :1] * y)
        same(vmap(vmap(lambda a: a.sin(), 0, 0), 1, 1)(x), x.sin())
        cube = drawn(2, 3, 4)
        same(vmap(vmap(lambda r: r.cumsum(0)), in_dims=1, out_dims=2)(cube), cube.cumsum(2).permute(0, 2, 1))
        same(vmap(lambda a: vmap(lambda b: (a * b).sum())(y.expand(2, 3)))(x), (x @ y)[:, None].expand(4, 2))


class TestRefused:
    def test_what_does_not_fit(self) -> None:
        x = drawn(4, 3)
        cases = [
            (lambda: vmap(lambda r: r)(), "got no inputs"),
            (lambda: vmap(lambda r: r, [0])(x), "expected `in_dims` to be int or a"),
            (lambda: vmap(lambda r, s: r, (0,))(x, x), "in_dims is not compatible with the structure of inputs"),
            (lambda: vmap(lambda r: r, (0.5,))(x), "must be either an integer dimension or None"),
            (lambda: vmap(lambda r: r)(3), "We cannot vmap over non-Tensor arguments"),
            (lambda: vmap(lambda r: r, 2)(x), "expected in_dim to satisfy -2 <= in_dim < 2"),
            (lambda: vmap(lambda r: r, (None,))(x), "Expected at least one Tensor to vmap over"),
            (lambda: vmap(lambda r, s: r)(x, drawn(3)), r"same size in the mapped dimension, got sizes \[4, 3\]"),
            (lambda: vmap(lambda r: r, out_dims=(0, 0))(x), "out_dims is not compatible with the structure of outputs"),
            (lambda: vmap(lambda r: r, out_dims="0")(x), "`out_dims` must be an int, None or a python collection"),
            (lambda: vmap(lambda r: 3)(x), "must only return Tensors, got type <class 'int'>"),
            (lambda: vmap(lambda r: r, out_dims=None)(x), "can not return a BatchedTensor when out_dim is None"),
            (lambda: vmap(lambda r: r, chunk_size=0), "chunk_size should be None or greater than 0"),
        ]
        for call, says in cases:
            with pytest.raises(ValueError, match=says):
                call()
        with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
            vmap(lambda r: r, randomness="any")

    def test_dimensions_of_numbers(self) -> None:
        """For a row of no dimensions the error is torch's RuntimeError, for others the IndexError that it is outside vmap."""
        assert vmap(lambda r: r.squeeze(-1))(drawn(4)).shape == (4,)
        for dim in (1, -2, (0, 5)):
            with pytest.raises(RuntimeError, match="Dimension is out of range"):
                vmap(lambda r, dim=dim: r.squeeze(dim))(drawn(4))
        with pytest.raises(IndexError, match="Dimension out of range"):
            vmap(lambda r: r.squeeze(5))(drawn(4, 1))

    def test_reading_values(self) -> None:
        x = drawn(4)
        for read, says in (
            (lambda r: r.item(), r"calling .item\(\) on a Tensor"),
            (lambda r: float(r), r"calling .item\(\) on a Tensor"),
            (lambda r: r if r > 0 else -r, "data-dependent control flow"),
            (lambda r: gradlib.tensor(np.asarray(r)), "numpy"),
            (lambda r: gradlib.tensor(r.tolist()), "tolist"),
            (lambda r: range(3)[r.long()], r"item\(\)"),
            (lambda r: r * (0.5 in r), "values of a Tensor"),
        ):
            with pytest.raises(RuntimeError, match=says):
                vmap(read)(x)

    def test_functions_of_numpy_work_on_rows(self) -> None:
        x = drawn(4)
        np.testing.assert_array_equal(host(vmap(lambda r: np.sin(r) * 2)(x)), host(x.sin() * 2))

    def test_reading_values_through_cupy(self) -> None:
        cupy = pytest.importorskip("cupy")
        with pytest.raises(RuntimeError, match="values of a Tensor"):
            vmap(lambda r: gradlib.as_tensor(cupy.asarray(r)))(drawn(4).cuda())

    def test_shapes_that_depend_on_values(self) -> None:
        with pytest.raises(RuntimeError, match="dynamic shape"):
            vmap(lambda r: r[r > 0])(drawn(4, 3))
        with pytest.raises(RuntimeError, match="dynamic shape"):
            vmap(lambda r: r.nonzero())(drawn(4, 3))

    def test_backward_inside(self) -> None:
        with pytest.raises(RuntimeError, match=r"backward\(\) called inside"):
            vmap(lambda r: r.sum().backward())(drawn(4, 3).requires_grad_())

    def test_a_tensor_that_escaped(self) -> None:
        kept = []
        vmap(lambda r: kept.append(r) or r)(drawn(4, 3))
        with pytest.raises(RuntimeError, match="batched over"):
            kept[0].sin()

    def test_nothing_stays_active_after_an_error(self) -> None:
        with pytest.raises(ZeroDivisionError):
            vmap(lambda r: 1 // 0)(drawn(4, 3))
        from gradlib.core.modes import global_state, thread_state

        assert thread_state.interpreters == ()
        assert global_state.active == 0

    def test_it_shows_itself(self) -> None:
        said = []
        vmap(lambda r: said.append(repr(r)) or r)(gradlib.ones(2))
        assert said[0].startswith("BatchedTensor(lvl=")


@pytest.mark.host  # the dtype is decided before the device
@pytest.mark.nonfinite
def test_dtypes_meet_as_those_of_rows() -> None:
    """A row of no dimensions weighs less than one with some, also when the batch gives both some."""
    values = {"bool": [True, False], "int32": [1, 2], "float32": [0.5, 1.5], "float64": [0.25, 2.0], "complex64": [1j, 1 + 1j]}
    tensors = {
        (name, rank): gradlib.tensor([v if rank == 0 else [v] * 3 for v in made], dtype=name)
        for name, made in values.items()
        for rank in (0, 1)
    }
    functions = [gradlib.add, gradlib.mul, gradlib.div, lambda a, b: gradlib.where(gradlib.tensor(True), a, b), gradlib.eq]
    for function in functions:
        for (left, a), (right, b) in itertools.product(tensors.items(), repeat=2):
            want = gradlib.stack([function(a[i], b[i]) for i in range(2)])
            got = vmap(function)(a, b)
            assert got.dtype == want.dtype, (function, left, right)
            same(got, want)
            assert vmap(function, (0, None))(a, b[0]).dtype == function(a[0], b[0]).dtype


class TestWrites:
    def test_rows_written_in_place(self) -> None:
        x, y = drawn(4, 3), drawn(3, seed=1)
        same(vmap(lambda r: r.clone().add_(y).mul_(2))(x), (x + y) * 2)
        same(vmap(lambda r: r.clone().zero_())(x), np.zeros((4, 3)))

        def assigned(r: gradlib.Tensor) -> gradlib.Tensor:
            r = r.clone()
            r[0] = r[1] * 2
            r[1:] = y[1:]
            r[gradlib.tensor([2, 0])] += 1
            return r

        same(vmap(assigned)(x), gradlib.stack([assigned(row) for row in x]))

    def test_new_memory_like_a_row_can_be_written_by_each(self) -> None:
        x = drawn(4, 3)
        for new in (
            gradlib.zeros_like, gradlib.empty_like, lambda r: gradlib.full_like(r, 2.0),
            lambda r: r.new_zeros(3), lambda r: r.new_empty((3,)), lambda r: r.new_full((3,), 5), lambda r: r.new_ones([3]),
        ):  # fmt: skip
            same(vmap(lambda r, new=new: new(r).copy_(r * 2))(x), x * 2)
        assert vmap(lambda r: r.new_full((2, 2), 7.0))(x).tolist() == [[[7.0, 7.0]] * 2] * 4

    def test_the_argument_itself(self) -> None:
        x = drawn(4, 3)
        want = x + 1
        vmap(lambda r: r.add_(1))(x)
        same(x, want)
        assert x._version == 1

    def test_a_mask_of_each_rows_own(self) -> None:
        x = drawn(4, 3)

        def clipped(r: gradlib.Tensor) -> gradlib.Tensor:
            r = r.clone()
            r[r < 0] = 0.0
            return r

        same(vmap(clipped)(x), x.clamp(min=0))
        same(vmap(grad(lambda r: (clipped(r * 1) ** 2).sum()))(x), 2 * x.clamp(min=0))

    def test_what_all_rows_share_cannot_be_written_by_each(self) -> None:
        x, shared = drawn(4, 3), drawn(3, seed=1)
        before = shared.clone()
        for write in (lambda r: shared.add_(r), lambda r: shared.__setitem__(0, r[0]), lambda r: shared.copy_(r)):
            with pytest.raises(RuntimeError, match="inplace arithmetic"):
                vmap(write)(x)
        same(shared, before)

    @pytest.mark.parametrize(
        ("turn", "shape", "want"),
        [
            (lambda r: r.squeeze_(), (4, 1, 3), (4, 3)), (lambda r: r.squeeze_(1), (4, 1, 3), (4, 1, 3)),
            (lambda r: r.squeeze_((0, 1)), (4, 1, 1), (4,)), (lambda r: r.unsqueeze_(-1), (4, 3), (4, 3, 1)),
            (lambda r: r.transpose_(0, 1), (4, 3, 2), (4, 2, 3)), (lambda r: r.t_(), (4, 3, 2), (4, 2, 3)),
            (lambda r: r.t_(), (4, 3), (4, 3)), (lambda r: r.swapaxes_(-1, 0), (4, 3, 2), (4, 2, 3)),
            (lambda r: r.unsqueeze_(0).squeeze_(0), (4,), (4,)),
        ],
    )  # fmt: skip
    def test_shapes_that_change_in_place(self, turn: Any, shape: Any, want: Any) -> None:
        x = drawn(*shape)

        def out_of_place(r: gradlib.Tensor) -> gradlib.Tensor:
            return turn(r.clone()) * 2

        def in_place(r: gradlib.Tensor) -> gradlib.Tensor:
            own = r.clone()
            assert turn(own) is own
            return own.mul_(2)

        for f in (out_of_place, in_place):
            made = vmap(f)(x)
            assert made.shape == want
            same(made, gradlib.stack([f(row) for row in x]))
            deep = vmap(vmap(f))(x.expand(2, *shape))
            same(deep[1], made)
        vmap(turn)(x)  # the argument itself
        assert x.shape == want

    def test_gradients_through_turned_rows(self) -> None:
        x = drawn(4, 3, 2)
        f = lambda r: ((r * 1).t_()[0] ** 2).sum()  # noqa: E731
        same(vmap(grad(f))(x), gradlib.stack([grad(f)(row) for row in x]))

    def test_gradients_through_written_views(self) -> None:
        x = drawn(4, 3)

        def f(r: gradlib.Tensor) -> gradlib.Tensor:
            made = gradlib.zeros(3, dtype=gradlib.float64) + r * 0
            made[1:].copy_(r[:2].sin())
            return (made * r).sum()

        same(vmap(grad(f))(x), gradlib.stack([grad(f)(row) for row in x]))


def test_a_row_is_contiguous_where_its_own_elements_are() -> None:
    assert vmap(vmap(lambda r: r if r.is_contiguous() else -r), in_dims=1)(gradlib.ones(3, 2, 5)).sum() == 30
    assert vmap(lambda r: r if r.is_contiguous() else -r, in_dims=1)(gradlib.ones(3, 2, 5)).sum() == -30


@pytest.mark.parametrize("choose", [gradlib.max, gradlib.min, gradlib.median])
def test_elements_that_are_nan_share_the_gradient_of_a_row_as_alone(choose: Any) -> None:
    x = gradlib.tensor([[[1.0, math.nan], [2.0, math.nan]], [[1.0, 2.0], [2.0, 1.0]]])
    each = gradlib.stack([grad(choose)(row) for row in x])
    np.testing.assert_array_equal(host(each[0]), [[0, 0.5], [0, 0.5]])
    np.testing.assert_array_equal(host(vmap(grad(choose))(x)), host(each))
    np.testing.assert_array_equal(host(gradlib.func.jvp(vmap(choose), (x,), (each,))[1]), [0.5, 0.5])
    np.testing.assert_array_equal(host(vmap(vmap(grad(choose)))(x)), [[[0, 1], [0, 1]], host(vmap(grad(choose))(x[1]))])


class TestStrides:
    """``as_strided`` of a row reads the row's own memory alone."""

    def test_within_a_row(self) -> None:
        x = drawn(4, 3)
        same(vmap(lambda r: r.as_strided((2,), (2,)))(x), x[:, ::2])
        same(vmap(lambda r: r.as_strided((2,), (1,), 1))(x), x[:, 1:])
        same(vmap(lambda r: r[1:].as_strided((2,), (1,)))(x), x[:, 1:])
        same(vmap(lambda r: r.as_strided((2,), (3,)), 1)(x), x.T[:, :2])
        same(vmap(lambda r: r.as_strided((2,), (1,)))(x[1:]), x[1:, :2])
        same(vmap(vmap(lambda r: r.as_strided((2,), (1,))))(x.expand(2, 4, 3).clone())[1], x[:, :2])

    @pytest.mark.parametrize(
        "take",
        [
            lambda r: r.as_strided((4,), (1,)), lambda r: r.as_strided((2,), (1,), 2), lambda r: r[1:].as_strided((2,), (1,), 0),
            lambda r: (r * 2).as_strided((4,), (1,)),
        ],
    )  # fmt: skip
    def test_not_the_next_rows(self, take: Any) -> None:
        for x in (drawn(4, 3), drawn(9, 3)[2:6]):
            with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
                vmap(take)(x)
        with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
            vmap(lambda r: r.as_strided((2,), (1,), 0))(drawn(5, 3)[1:])

    def test_derivatives_of_examples_that_share_one_memory(self) -> None:
        """What no batch dimension was given for is expanded over the batch; each example still gets its own gradient and tangent."""
        x, y, w = drawn(3, 2), drawn(4, seed=1), drawn(5, 3, 2, seed=2)

        def f(r: gradlib.Tensor, s: gradlib.Tensor) -> gradlib.Tensor:
            return (s.as_strided((2,), (2,), 1) * r).sum()

        each = gradlib.stack([gradlib.func.grad(f, 1)(r, y) for r in x])
        same(vmap(grad(f, 1), (0, None))(x, y), each)
        same(vmap(grad(f, 1))(x, y.expand(3, 4)), each)
        same(grad(lambda ys: vmap(f)(x, ys).sum())(y.expand(3, 4)), each)
        same(vmap(vmap(grad(f, 1), (0, None)), (0, None))(w, y)[2], vmap(grad(f, 1), (0, None))(w[2], y))
        same(vmap(vmap(grad(f, 1), (None, 0)), (0, None))(x, drawn(2, 4))[:, 1], each)
        tangents = drawn(3, 4, seed=3)
        same(gradlib.func.jvp(lambda ys: vmap(f)(x, ys), (y.expand(3, 4),), (tangents,))[1], (each * tangents).sum(1))

    def test_of_a_result_that_is_a_number(self) -> None:
        x = gradlib.eye(2).expand(3, 2, 2) * gradlib.tensor([1.0, 2.0, 3.0]).reshape(3, 1, 1)
        same(vmap(lambda m: gradlib.linalg.det(m).reshape(1).as_strided((1,), (1,)))(x), [[1], [4], [9]])


class TestRandom:
    def test_refused_unless_asked_for(self) -> None:
        for draw in (lambda r: gradlib.rand(2), gradlib.randn_like, gradlib.bernoulli, lambda r: r.clone().normal_()):
            with pytest.raises(RuntimeError, match="randomness error mode"):
                vmap(draw)(gradlib.full((3, 2), 0.5))

    @pytest.mark.parametrize(
        "draw",
        [
            lambda r: gradlib.rand(5),
            lambda r: gradlib.randn_like(r),
            lambda r: gradlib.randint(1000, (5,)),
            lambda r: gradlib.randperm(20),
            lambda r: gradlib.normal(0.0, 1.0, (5,)),
            lambda r: r.clone().uniform_(),
            lambda r: gradlib.multinomial(gradlib.ones(50), 5),
            lambda r: gradlib.nn.functional.dropout(gradlib.ones(40)),
        ],
    )
    def test_same_or_different(self, draw: Any) -> None:
        x = gradlib.zeros(3, 5)
        shared = host(vmap(draw, randomness="same")(x))
        own = host(vmap(draw, randomness="different")(x))
        one = draw(x[0])
        assert shared.shape == own.shape == (3, *one.shape)
        np.testing.assert_array_equal(shared[0], shared[1])
        assert not np.array_equal(own[0], own[1])
        nested = host(vmap(vmap(draw, randomness="same"), randomness="different")(gradlib.zeros(2, 3, 5)))
        np.testing.assert_array_equal(nested[0, 0], nested[0, 1])
        assert not np.array_equal(nested[0], nested[1])

    def test_one_tensor_cannot_take_what_is_drawn_for_each_row(self) -> None:
        out = gradlib.zeros(3)
        for randomness in ("same", "different"):
            with pytest.raises(RuntimeError, match="vmap: rand cannot draw for each example"):
                vmap(lambda row: gradlib.rand(3, out=out), randomness=randomness)(gradlib.zeros(2, 3))
        assert out.tolist() == [0, 0, 0]

    @pytest.mark.host
    @pytest.mark.parametrize("draw", [gradlib.randperm, gradlib.rand, gradlib.randn])
    def test_different_rows_are_what_one_draw_after_another_gives(self, draw: Any) -> None:
        gradlib.manual_seed(3)
        rows = host(vmap(vmap(lambda _: draw(10), randomness="different"), randomness="different")(gradlib.zeros(2, 2)))
        gradlib.manual_seed(3)
        np.testing.assert_array_equal(rows.reshape(4, 10), [host(draw(10)) for _ in range(4)])

    def test_the_same_in_every_chunk(self) -> None:
        x = gradlib.zeros(5, 3)
        for draw in (lambda r: r + gradlib.rand(3), lambda r: (r + 0).normal_()):
            rows = host(vmap(draw, randomness="same", chunk_size=2)(x))
            assert (rows == rows[0]).all()
            rows = host(vmap(draw, randomness="different", chunk_size=2)(x))
            assert len(np.unique(rows)) == 15

    def test_drawn_from_each_rows_own_parameters(self) -> None:
        p = gradlib.tensor([[0.0, 1.0], [1.0, 0.0]])
        same(vmap(gradlib.bernoulli, randomness="different")(p), p)
        same(vmap(lambda r: r.clone().bernoulli_(r), randomness="different")(p), p)
        same(vmap(lambda w: gradlib.multinomial(w, 1), randomness="different")(p), [[1], [0]])
        assert vmap(lambda m: gradlib.normal(m, 1e-9), randomness="different")(p).allclose(p, atol=1e-6)
        with pytest.raises(RuntimeError, match="use 'different'"):
            vmap(gradlib.bernoulli, randomness="same")(p)
        with pytest.raises(RuntimeError, match="use 'different'"):
            vmap(lambda r: r.clone().bernoulli_(r), randomness="same")(p)
        with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
            vmap(lambda r: p[0].normal_(), randomness="different")(p)


def test_an_operation_without_a_rule_runs_row_by_row_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlib.func.rules import RULES

    monkeypatch.delitem(RULES, "cumsum")
    x = drawn(4, 3)
    with pytest.warns(UserWarning, match="There is a performance drop because we have not yet implemented the batching rule for cumsum"):
        got = vmap(lambda r: r.cumsum(0))(x)
    same(got, x.cumsum(1))


def test_ties_share_the_gradient_as_they_do_for_one_row() -> None:
    x = gradlib.tensor([[1.0, 2.0, 2.0, 3.0, 2.0], [4.0, 4.0, 4.0, 0.0, 1.0]])
    for f in (gradlib.median, gradlib.max, gradlib.min, gradlib.amax, lambda r: r.maximum(r.flip(0)).sum()):
        same(vmap(f)(x), gradlib.stack([f(row) for row in x]))
        same(vmap(grad(f))(x), gradlib.stack([grad(f)(row) for row in x]))


def test_rows_of_a_graph_belong_to_it() -> None:
    x = drawn(4, 3).requires_grad_()
    w = drawn(3, seed=1).requires_grad_()
    vmap(lambda r: (r * w).sin().sum())(x).sum().backward()
    same(x.grad, (x * w).cos() * w)
    same(w.grad, ((x * w).cos() * x).sum(0))


def test_a_new_tensor_of_a_logical_one_has_its_rows() -> None:
    """And a list with one in it is refused: its array is that of the first row."""
    x = gradlib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    double = lambda v: gradlib.tensor(v, dtype=gradlib.float64)  # noqa: E731
    for make in (gradlib.tensor, gradlib.as_tensor, gradlib.Tensor, gradlib.ones(1).new_tensor, double):
        assert gradlib.func.vmap(lambda v, make=make: make(v) * 2)(x).tolist() == [2.0, 4.0, 6.0]
    assert not gradlib.func.vmap(gradlib.tensor)(x).requires_grad
    for make in (gradlib.tensor, gradlib.as_tensor, gradlib.ones(1).new_tensor):
        with pytest.raises(RuntimeError, match=r"vmap: .* in a list of numbers; join such Tensors with gradlib.stack"):
            gradlib.func.vmap(lambda v, make=make: make([v, v]))(x)


PLACES = {
    "x[i]": lambda x, i, j: x[i],
    "x[:, :, j]": lambda x, i, j: x[:, :, j],
    "x[i, :, j]": lambda x, i, j: x[i, :, j],
    "x[0, :, j]": lambda x, i, j: x[0, :, j],
    "x[..., j]": lambda x, i, j: x[..., j],
    "x[i, None, :, j]": lambda x, i, j: x[i, None, :, j],
    "x[i, [0, 2]]": lambda x, i, j: x[i, [0, 2]],
    "x[i, -1, j]": lambda x, i, j: x[i, -1, j],
    "x[i, 1:, j]": lambda x, i, j: x[i, 1:, j],
}


@pytest.mark.parametrize("name", PLACES)
def test_a_number_as_index_may_differ_from_row_to_row(name: str) -> None:
    """Values, gradients and writes, with the rest batched over or not, as one row after the other."""
    take = PLACES[name]
    i, j = gradlib.tensor([1, 0, 1]), gradlib.tensor([0, 2, 3])
    rows = drawn(3, 2, 3, 4)

    def loss(x: Any, *places: Any) -> Any:
        return (take(x, *places) ** 2).sum()

    def written(x: Any, *places: Any) -> Any:
        x = x.clone()
        x[places[0], 1:, places[1]] = take(x, *places).sum()
        return x

    for function in (take, grad(loss), written):
        same(vmap(function)(rows, i, j), gradlib.stack([function(rows[k], i[k], j[k]) for k in range(3)]))
    for function in (take, grad(loss)):
        same(vmap(function, in_dims=(None, 0, None))(rows[0], i, j[1]), gradlib.stack([function(rows[0], i[k], j[1]) for k in range(3)]))


@pytest.mark.parametrize("read", [lambda v: gradlib.ones(2)[v > 1], lambda v: gradlib.linalg.pinv(gradlib.eye(2), atol=v)])
def test_what_is_read_as_a_number_and_differs_from_row_to_row_is_refused(read: Any) -> None:
    """On a device too, whose arrays can be read."""
    with pytest.raises(RuntimeError, match="vmap: the values of a Tensor that is batched over were needed"):
        vmap(read)(gradlib.tensor([1.0, 2.0, 3.0]))


@pytest.mark.cuda
def test_what_a_row_has_in_memory_is_guarded_on_a_device() -> None:
    cupy = pytest.importorskip("cupy")
    rows = gradlib.arange(6.0, device="cuda").reshape(2, 3)
    seen: list[Any] = []

    def look(row: gradlib.Tensor) -> gradlib.Tensor:
        array = row.data._array
        seen.append((array.shape, array.dtype, array.ndim, len(array), array.reshape(3, 1).T.shape, array[1:].shape))
        reads = lambda: array.get(), lambda: array * 2, lambda: array.data.ptr, lambda: bool(array[0]), lambda: cupy.sqrt(array)
        for read in reads:
            with pytest.raises(RuntimeError, match="values of a Tensor"):
                read()
        return row * 2

    assert vmap(look)(rows).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert seen == [((3,), np.float32, 1, 3, (1, 3), (2,))]
