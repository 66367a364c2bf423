"""Reading and writing at places and masks beyond the table: in place, edges, dtypes, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from tests.values import host

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")


@pytest.fixture(autouse=True)
def operands(device: str) -> None:
    """What these tests read and write, on the device of each."""
    global PLACES, X
    PLACES = gradlib.tensor([[0, 1], [2, 0]])
    X = gradlib.tensor(np.arange(12.0).reshape(3, 4))


# ---- in place -------------------------------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "scatter": lambda: (0, PLACES, gradlib.tensor(np.full((2, 2), 7.0))),
    "scatter_add": lambda: (1, PLACES, gradlib.tensor(np.full((2, 2), 7.0))),
    "scatter_reduce": lambda: (0, PLACES, gradlib.tensor(np.full((2, 2), 7.0)), "amax"),
    "index_add": lambda: (0, gradlib.tensor([2, 2]), gradlib.tensor(np.ones((2, 4)))),
    "index_copy": lambda: (1, gradlib.tensor([2, 0]), gradlib.tensor(np.ones((3, 2)))),
    "index_fill": lambda: (0, gradlib.tensor([1]), -1.0),
    "index_put": lambda: ((gradlib.tensor([0, 1]), gradlib.tensor([2, 2])), gradlib.tensor(np.array([5.0, 6.0]))),
    "masked_fill": lambda: (X > 5, -1.0),
    "masked_scatter": lambda: (X > 5, gradlib.tensor(np.arange(50.0, 70.0))),
}


@pytest.mark.parametrize("name", WRITES)
def test_in_place(name: str) -> None:
    """The same values and gradients as on a copy, the tensor itself returned, a leaf refused."""
    arguments = WRITES[name]()
    a = X.clone().requires_grad_()
    want = getattr(a * 3, name)(*arguments)
    y = a * 3
    assert getattr(y, f"{name}_")(*arguments) is y
    assert y._version == 1
    np.testing.assert_array_equal(host(y), host(want))
    np.testing.assert_array_equal(host(y), host(getattr(gradlib, name)(X * 3, *arguments)))
    g = gradlib.tensor(np.arange(12.0).reshape(3, 4) ** 2)
    for made in (want, y):
        (found,) = gradlib.autograd.grad(made, a, g)
        (expected,) = gradlib.autograd.grad(want := getattr(a * 3, name)(*arguments), a, g)
        np.testing.assert_array_equal(host(found), host(expected))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        getattr(a, f"{name}_")(*arguments)


def test_in_place_through_a_view() -> None:
    a = gradlib.zeros(2, 3, requires_grad=True)
    v = gradlib.tensor([[5.0], [6.0]], requires_grad=True)
    y = a * 1
    y.mT.scatter_add_(0, gradlib.tensor([[2, 0]]), v.mT)
    assert y.tolist() == [[0.0, 0.0, 5.0], [6.0, 0.0, 0.0]]
    (y * gradlib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert v.grad.tolist() == [[3.0], [4.0]]
    assert a.grad.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_scatter_multiply_in_place_keeps_what_its_derivative_needs() -> None:
    a = gradlib.tensor([2.0, 3.0], requires_grad=True)
    y = a * 1
    y.scatter_(0, gradlib.tensor([0, 0]), gradlib.tensor([5.0, 7.0]), reduce="multiply")
    assert y.tolist() == [70.0, 3.0]
    y.sum().backward()
    assert a.grad.tolist() == [35.0, 1.0]


# ---- dtypes ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x, v: x.gather(0, PLACES),
        lambda x, v: x.index_select(0, gradlib.tensor([1, 1])),
        lambda x, v: x.take(PLACES),
        lambda x, v: x.scatter(0, PLACES, v),
        lambda x, v: x.scatter(0, PLACES, 1),
        lambda x, v: x.scatter_add(0, PLACES, v),
        lambda x, v: x.index_add(1, gradlib.tensor([0, 0]), v),
        lambda x, v: x.index_copy(1, gradlib.tensor([0, 1]), v),
        lambda x, v: x.index_fill(0, gradlib.tensor([0]), 1),
        lambda x, v: x.masked_fill(x != 0, 1.0),
        lambda x, v: x.masked_select(x != 0),
        lambda x, v: x.masked_scatter(x != 0, v),
    ],
)
def test_the_dtype_stays(call: Callable[..., Any]) -> None:
    for dtype in DTYPES:
        x = gradlib.tensor([[0, 1], [1, 0], [0, 0]]).to(dtype)
        v = gradlib.tensor([[1, 1], [0, 1], [1, 0]]).to(dtype)
        assert call(x, v).dtype.name == dtype


def test_values_of_another_dtype_are_refused() -> None:
    wrong = gradlib.zeros(2, 2, dtype="float32")
    for name in ("scatter", "scatter_add"):
        with pytest.raises(RuntimeError, match="float64, got float32"):
            getattr(X, name)(0, PLACES, wrong)
    with pytest.raises(RuntimeError, match="float64, got float32"):
        X.index_put((gradlib.tensor([0]),), gradlib.zeros(4))
    with pytest.raises(RuntimeError, match="same dtype, got float64 and float32"):
        X.masked_scatter(X > 1, gradlib.zeros(12))
    with pytest.raises(RuntimeError, match="complex number"):
        X.scatter(0, PLACES, 1j)
    with pytest.raises(RuntimeError, match="complex number"):
        X.masked_fill(X > 1, 1j)


# ---- places ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: X.gather(0, PLACES[0]), RuntimeError, "same number of dimensions"),
        (lambda: X.gather(1, gradlib.zeros(4, 1, dtype="int64")), RuntimeError, "no larger than input"),
        (lambda: X.gather(0, X), RuntimeError, "dtype int64, got float64"),
        (lambda: X.gather(0, [0]), TypeError, "'index'.* must be Tensor, not list of int"),
        (lambda: X.gather(2, PLACES), IndexError, "Dimension out of range"),
        (lambda: X.scatter(0, PLACES, X[:1, :1]), RuntimeError, "no larger than src"),
        (lambda: X.scatter(0, PLACES, X[0]), RuntimeError, "same number of dimensions as src"),
        (lambda: X.scatter(0, PLACES, 1.0, reduce="amax"), RuntimeError, "either add or multiply"),
        (lambda: X.scatter_add(0, PLACES, 1.0), TypeError, "'src'.* must be Tensor, not float"),
        (lambda: (X > 0).scatter_reduce(0, PLACES, X > 1, "mean"), NotImplementedError, "bools have no mean"),
        (lambda: (X * 1j).scatter_reduce(0, PLACES, X * 1j, "amin"), NotImplementedError, "complex numbers have no order, hence no amin"),
        (lambda: X.scatter_reduce(0, PLACES, X, "median"), RuntimeError, "sum, prod, mean, amax or amin, got median"),
        (lambda: X.index_select(0, PLACES), IndexError, "supposed to be a vector"),
        (lambda: X.index_add(0, gradlib.tensor([0]), X), RuntimeError, r"must have shape \[1, 4\]"),
        (lambda: X.index_copy(0, gradlib.tensor([0]), X[0]), IndexError, "source has 1 dimensions, input 2"),
        (lambda: X.index_fill(0, gradlib.tensor([0]), X[0]), RuntimeError, "0-dimensional value"),
        (lambda: X.index_put(PLACES, X), TypeError, "must be list or tuple of Tensors, not Tensor"),
        (lambda: X.take_along_dim(gradlib.tensor([5]), 0), RuntimeError, "same rank"),
        (lambda: X.masked_fill(X, 0.0), RuntimeError, "expected a mask of dtype bool, got float64"),
        (lambda: X.masked_fill(X > 1, X), RuntimeError, "0-dimensional value"),
        (lambda: X.masked_select(X[:, 0] > 1), RuntimeError, "does not broadcast"),
        (lambda: gradlib.searchsorted(X, X[0]), RuntimeError, "all dimensions but the last in common"),
        (lambda: gradlib.searchsorted(X[0], X, side="up"), RuntimeError, "'left' or 'right' but got up"),
        (lambda: gradlib.searchsorted(X[0], X, side="left", right=True), RuntimeError, "opposites"),
        (lambda: gradlib.searchsorted(X[0], X, sorter=PLACES), RuntimeError, "sorter must have"),
        (lambda: gradlib.bucketize(X, X), RuntimeError, "must be 1 dimension"),
        (lambda: gradlib.searchsorted(X[0] * 1j, X), NotImplementedError, "float64 in a sequence of complex128"),
        (lambda: gradlib.bucketize(1j, X[0]), NotImplementedError, "complex64 in a sequence of float64"),
        (lambda: gradlib.searchsorted(X[0] > 2, X > 2), NotImplementedError, "bool in a sequence of bool"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.host  # values are not looked at on a CUDA device
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: X.gather(0, PLACES - 1), RuntimeError, "index -1 is out of bounds for a dimension of size 3"),
        (lambda: X.gather(0, PLACES + 1), RuntimeError, "index 3 is out of bounds"),
        (lambda: X.index_select(0, gradlib.tensor([3])), IndexError, "index 3 is out of bounds"),
        (lambda: X.index_select(0, gradlib.tensor([-1])), IndexError, "index -1 is out of bounds"),
        (lambda: X.index_add(0, gradlib.tensor([0, 5]), X[:2]), RuntimeError, "index 5 is out of bounds"),
        (lambda: X.index_copy(0, gradlib.tensor([-1]), X[:1]), IndexError, "index -1 is out of bounds"),
        (lambda: X.index_fill(0, gradlib.tensor([9]), 0), IndexError, "index 9 is out of bounds"),
        (lambda: X.take(gradlib.tensor([12])), IndexError, "out of bounds"),
        (lambda: X.take_along_dim(gradlib.tensor([[4]]), 1), IndexError, "index 4 is out of bounds"),
        (lambda: X.masked_scatter(X > 1, X[0]), RuntimeError, "source has 4 elements, fewer than the mask's 10"),
    ],
)
def test_places_that_there_are_not(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_the_factor_of_bools_is_a_bool() -> None:
    """-1 is True, as everything but zero."""
    bools, places, ones = gradlib.tensor([True, False, False]), gradlib.tensor([0, 1, 1]), gradlib.ones(3, dtype=bool)
    for alpha in (-1, 2, 0.5, True):
        assert bools.index_add(0, places, ones, alpha=alpha).tolist() == [True, True, False]
    assert bools.index_add(0, places, ones, alpha=0).tolist() == [True, False, False]
    assert gradlib.tensor([1, 2]).index_add(0, gradlib.tensor([0]), gradlib.tensor([4]), alpha=1.5).tolist() == [5, 2]
    with pytest.raises(RuntimeError, match="without overflow"):
        gradlib.ones(3).index_add(0, places, gradlib.ones(3), alpha=1j)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
def test_a_factor_belongs_to_what_is_added(dtype: str) -> None:
    alpha = {"complex64": 2 - 1j}.get(dtype, -3 if dtype.startswith("int") else 0.5 if dtype != "uint8" else 3)
    x, s, i = np.arange(6).reshape(3, 2), np.arange(6).reshape(3, 2) + 1, gradlib.tensor([0, 2, 0])
    expected = x.astype(complex)
    np.add.at(expected, [0, 2, 0], alpha * s)
    x, s = (gradlib.tensor(each, dtype=dtype) for each in (x, s))
    np.testing.assert_array_equal(host(x.index_add(0, i, s, alpha=alpha)).astype(complex), expected)
    if x.is_floating_point() or x.is_complex():
        x.requires_grad_()
        s.requires_grad_()
        made = x.index_add(0, i, s, alpha=alpha)
        assert made.grad_fn is not None
        assert made.grad_fn.next_functions[1][0].variable is s
        g = gradlib.ones_like(made)
        got = gradlib.autograd.grad(made, [x, s], g)
        assert [host(each).astype(complex).tolist() for each in got] == [[[1, 1]] * 3, [[np.conj(alpha)] * 2] * 3]


def test_integers_that_are_added_wrap_around() -> None:
    x, i = gradlib.tensor([2**31 - 1, 1], dtype="int32"), gradlib.tensor([0, 1, 0])
    assert x.index_add(0, i, gradlib.tensor([2, 2**30, 3], dtype="int32"), alpha=4).tolist() == [-(2**31) + 19, 1]


def test_0d_and_empty() -> None:
    one, zero = gradlib.tensor(3.0), gradlib.tensor(0)
    assert one.gather(0, zero).shape == ()
    assert one.gather(0, gradlib.tensor([0, 0])).tolist() == [3.0, 3.0]
    assert one.index_select(0, zero).shape == ()
    assert one.take(zero) == 3
    assert one.scatter(0, zero, 5.0) == 5
    assert one.scatter_reduce(0, zero, gradlib.tensor(2.0), "prod") == 6
    assert one.index_add(0, zero, gradlib.tensor(2.0)) == 5
    assert one.index_fill(0, zero, 4) == 4
    assert one.masked_select(gradlib.tensor(True)).tolist() == [3.0]
    assert X.gather(1, gradlib.zeros(0, 9, dtype="int64")).shape == (0, 9)
    assert X.index_select(1, gradlib.zeros(0, dtype="int64")).shape == (3, 0)
    assert X.scatter_add(0, gradlib.zeros(0, 4, dtype="int64"), X).tolist() == X.tolist()
    assert X.masked_scatter(X > 99, X[:0]).tolist() == X.tolist()
    assert (X > 5).masked_scatter(X > 99, X[:0] > 5).dtype == gradlib.bool
    with pytest.raises(IndexError, match="no dimensions"):
        one.take_along_dim(zero, 0)


def test_nonzero_as_tuple_and_of_no_dimensions() -> None:
    assert [part.tolist() for part in (X > 9).nonzero(as_tuple=True)] == [[2, 2], [2, 3]]
    assert gradlib.tensor(3.0).nonzero().shape == (1, 0)
    assert gradlib.tensor(0.0).nonzero().shape == (0, 0)
    assert [part.tolist() for part in gradlib.tensor(3.0).nonzero(as_tuple=True)] == [[0]]
    assert X.nonzero().dtype == gradlib.int64


# ---- gradients at special points --------------------------------------------------------------------------------------------------------


def test_src_larger_than_index_gets_zeros_beyond_it() -> None:
    src = gradlib.ones(3, 4, dtype="float64").requires_grad_()
    X.scatter_add(0, PLACES, src).sum().backward()
    assert src.grad.tolist() == [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]


def test_a_filled_place_counts_once() -> None:
    value = gradlib.tensor(1.0, dtype="float64", requires_grad=True)
    X.index_fill(0, gradlib.tensor([1, 1, -2]), value).sum().backward()
    assert value.grad == 4


def test_the_nodes_are_called_as_those_of_torch() -> None:
    x, mask = X.clone().requires_grad_(), X > 5
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            made = x.scatter_reduce(0, PLACES, X, reduce, include_self=include_self)
            assert made.grad_fn.name() == "ScatterReduceBackward0"
    assert x.scatter_add(0, PLACES, X).grad_fn.name() == "ScatterAddBackward0"
    assert x.masked_scatter(mask, X).grad_fn.name() == "MaskedScatterBackward0"


def test_ties_share_the_gradient_of_an_extreme() -> None:
    x = gradlib.tensor([2.0, 1.0], requires_grad=True)
    src = gradlib.tensor([2.0, 2.0, 0.0], requires_grad=True)
    x.scatter_reduce(0, gradlib.tensor([0, 0, 1]), src, "amax").backward(gradlib.tensor([6.0, 5.0]))
    assert x.grad.tolist() == [2.0, 5.0]
    assert src.grad.tolist() == [2.0, 2.0, 0.0]


def test_an_extreme_of_others_gives_them_everything() -> None:
    x = gradlib.tensor([2.0, 1.0], requires_grad=True)
    src = gradlib.tensor([2.0], requires_grad=True)
    x.scatter_reduce(0, gradlib.tensor([0]), src, "amax", include_self=False).backward(gradlib.tensor([6.0, 5.0]))
    assert x.grad.tolist() == [0.0, 5.0]
    assert src.grad.tolist() == [6.0]


@pytest.mark.nonfinite
@pytest.mark.parametrize("reduce", ["amax", "amin", "prod"])
def test_what_meets_nan_has_a_slope_of_nan(reduce: str) -> None:
    """As in torch, whose rules divide: 0 / 0, and NaN / NaN."""
    for values, others in (([math.nan, 2.0, 1.0], [3.0, math.nan, 4.0]), ([5.0, math.nan, 1.0], [math.nan, math.nan, 1.0])):
        x, src = gradlib.tensor(values, requires_grad=True), gradlib.tensor(others, requires_grad=True)
        x.scatter_reduce(0, gradlib.tensor([0, 1, 1]), src, reduce).sum().backward()
        assert x.grad.isnan().tolist() == [True, True, False]
        assert src.grad.isnan().tolist() == [True, True, True]
        assert x.grad.tolist()[2] == 1
    x, src = gradlib.tensor([math.inf, 2.0], requires_grad=True), gradlib.tensor([3.0, math.inf], requires_grad=True)
    x.scatter_reduce(0, gradlib.tensor([0, 1]), src, reduce).sum().backward()
    nan, expected = reduce == "prod", {"amax": ([1, 0], [0, 1]), "amin": ([0, 1], [1, 0]), "prod": ([3, math.inf], [math.inf, 2])}[reduce]
    np.testing.assert_array_equal(host(x.grad), [math.nan if nan else expected[0][0], expected[0][1]])
    np.testing.assert_array_equal(host(src.grad), [expected[1][0], math.nan if nan else expected[1][1]])


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_an_extreme_of_others_that_is_infinite_is_theirs_alone(reduce: str) -> None:
    """Though the neutral element, with which none of them would be compared, equals it."""
    src = gradlib.full((2,), -math.inf if reduce == "amax" else math.inf, requires_grad=True)
    gradlib.ones(2).scatter_reduce(0, gradlib.tensor([0, 0]), src, reduce, include_self=False)[0].backward()
    assert src.grad.tolist() == [0.5, 0.5]


def test_one_element_where_a_mask_holds_is_written_in_any_dtype() -> None:
    for dtype in DTYPES:
        x, mask = gradlib.ones(3, 4).to(dtype), X > 5
        for value in (gradlib.zeros(()).to(dtype), gradlib.zeros(1).to(dtype)):
            made = x.index_put((mask,), value)
            x[mask] = value
            assert made.tolist() == x.tolist() == gradlib.ones(3, 4).masked_fill(mask, 0).to(dtype).tolist()
    y = gradlib.tensor(np.arange(12.0).reshape(3, 4))
    y[y[:, 0] > 3] = y[2, 3]  # a part of what is written
    assert y.tolist() == [[0, 1, 2, 3], [11] * 4, [11] * 4]


@pytest.mark.parametrize("include_self", [True, False])
def test_zeros_among_factors(include_self: bool) -> None:
    """One zero leaves its own derivative, the product of the others; two leave none."""
    x = gradlib.tensor([5.0, 5.0, 0.0], requires_grad=True)
    src = gradlib.tensor([2.0, 0.0, 0.0, 0.0, 3.0, 4.0], requires_grad=True)
    places = gradlib.tensor([0, 0, 1, 1, 2, 2])
    y = x.scatter_reduce(0, places, src, "prod", include_self=include_self)
    y.sum().backward()
    mine = 5.0 if include_self else 1.0
    assert y.tolist() == [0.0, 0.0, 0.0 if include_self else 12.0]
    assert src.grad.tolist() == [0.0, 2 * mine, 0.0, 0.0, 0.0 if include_self else 4.0, 0.0 if include_self else 3.0]
    assert x.grad.tolist() == ([0.0, 0.0, 12.0] if include_self else [0.0, 0.0, 0.0])


def test_two_zeros_among_factors_have_a_first_derivative_only() -> None:
    """In both modes; the second one, by two elements of src, is refused, as in torch."""
    x = gradlib.tensor([3.0], dtype=gradlib.float64, requires_grad=True)
    for zeros in ([0.0, 0.0], [0.0, 2.0, 0.0]):
        src = gradlib.tensor(zeros, dtype=gradlib.float64, requires_grad=True)
        places = gradlib.zeros(len(zeros), dtype=gradlib.int64)

        def met(x: gradlib.Tensor, src: gradlib.Tensor, places: gradlib.Tensor = places) -> gradlib.Tensor:
            return x.scatter_reduce(0, places, src, "prod")

        assert gradlib.autograd.gradcheck(met, (x, src), check_forward_ad=True, check_batched_grad=False)
        with pytest.raises(RuntimeError, match="Double backward is unsupported for src when >1 zeros"):
            gradlib.autograd.gradgradcheck(met, (x, src))
    src = gradlib.tensor([0.0, 2.0], dtype=gradlib.float64, requires_grad=True)
    assert gradlib.autograd.gradgradcheck(lambda x, src: x.scatter_reduce(0, gradlib.tensor([0, 0]), src, "prod"), (x, src))


def test_integer_means_round_down() -> None:
    x = gradlib.tensor([4, -4])
    src = gradlib.tensor([3, -3])
    assert x.scatter_reduce(0, gradlib.tensor([0, 1]), src, "mean").tolist() == [3, -4]
    assert x.scatter_reduce(0, gradlib.tensor([0, 0]), src, "amin", include_self=False).tolist() == [-3, -4]


@pytest.mark.nonfinite
def test_no_nan_from_what_is_masked() -> None:
    x = gradlib.tensor([0.0, 4.0], requires_grad=True)
    (1 / x).masked_fill(x == 0, 0.0).sum().backward()
    assert gradlib.isnan(x.grad).tolist() == [True, False]  # 0 * inf, as in torch: the mask comes after the division
    y = gradlib.tensor([0.0, 4.0], requires_grad=True)
    (1 / y.masked_fill(y == 0, 1.0)).sum().backward()
    assert y.grad.tolist() == [0.0, -1 / 16]


# ---- sorted numbers ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [False, True])
def test_rows_are_searched_as_vectors_are(right: bool) -> None:
    rng = np.random.default_rng(3)
    rows = np.sort(rng.integers(0, 6, (4, 7)), axis=1)
    values = rng.integers(-1, 8, (4, 5))
    found = gradlib.searchsorted(gradlib.tensor(rows), gradlib.tensor(values), right=right)
    want = [np.searchsorted(r, v, "right" if right else "left") for r, v in zip(rows, values, strict=True)]
    np.testing.assert_array_equal(host(found), want)
    shuffled = rng.permuted(rows, axis=1)
    sorter = np.argsort(shuffled, axis=1)
    again = gradlib.searchsorted(gradlib.tensor(shuffled), gradlib.tensor(values), right=right, sorter=gradlib.tensor(sorter))
    np.testing.assert_array_equal(host(again), want)


def test_nan_is_larger_than_every_number() -> None:
    nan = float("nan")
    rows = gradlib.tensor([[1.0, 2.0, nan]])
    assert gradlib.searchsorted(rows, gradlib.tensor([[2.5, nan]])).tolist() == [[2, 2]]
    assert gradlib.searchsorted(rows, gradlib.tensor([[2.5, nan]]), side="right").tolist() == [[2, 3]]
    assert gradlib.searchsorted(rows[0], gradlib.tensor([2.5, nan])).tolist() == [2, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.gather(0, gradlib.tensor(0)),
        lambda x: x.index_select(0, gradlib.tensor([0])),
        lambda x: x.index_add(0, gradlib.tensor([0]), gradlib.ones(1)),
        lambda x: x.index_copy(0, gradlib.tensor([0]), gradlib.ones(1)),
        lambda x: x.scatter(0, gradlib.tensor(0), 2.0),
        lambda x: x.scatter_add(0, gradlib.tensor(0), gradlib.ones(())),
        *(lambda x, way=way: x.scatter_reduce(0, gradlib.tensor(0), gradlib.ones(()), way) for way in ("sum", "prod", "mean", "amax")),
    ],
)
def test_a_result_of_no_dimensions_is_no_view(call: Any) -> None:
    """It may be written with history after it was made without any, which views refuse."""
    x, factor = gradlib.tensor(3.0), gradlib.tensor(2.0, requires_grad=True)
    with gradlib.no_grad():
        made = call(x)
    assert not made._is_view()
    was = made.item()
    made.mul_(factor)
    made.backward()
    assert factor.grad.item() == was
    assert x.item() == 3


def test_numbers_are_searched_too() -> None:
    edges = gradlib.tensor([1, 3, 5])
    assert gradlib.searchsorted(edges, 3) == 1
    assert gradlib.bucketize(3, edges, right=True) == 2
    assert gradlib.bucketize(gradlib.tensor([2.5]), edges, out_int32=True).dtype == gradlib.int32


def test_numbers_beyond_a_narrow_integer_wrap() -> None:
    x = gradlib.tensor([1, 2, 3], dtype="uint8")
    assert x.scatter(0, gradlib.tensor([0]), -1).tolist() == [255, 2, 3]
