"""Sorting and search: order of NaN and ties, gradients, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from tests.ops.case import t
from tests.values import host

NAN, INF = math.nan, math.inf


MIXED = [3.0, NAN, 1.0, 3.0, INF, -INF, NAN]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_larger_than_every_number(dtype: str) -> None:
    x = t(MIXED, dtype)
    up, down = x.sort(), x.sort(descending=True)
    assert up.indices.tolist() == x.argsort().tolist() == [5, 2, 0, 3, 4, 1, 6]
    assert down.indices.tolist() == x.argsort(descending=True).tolist() == [1, 6, 4, 0, 3, 2, 5]
    assert up.values[:5].tolist() == [-INF, 1, 3, 3, INF]
    assert up.values.dtype == x.dtype
    assert x.topk(3).indices.tolist() == [1, 6, 4]
    assert x.topk(3, largest=False).values.tolist() == [-INF, 1, 3]
    assert x.kthvalue(6).indices.item() == x.median(0).indices.item() == 1
    assert math.isnan(x.median().item())
    values, counts = x.unique(return_counts=True)
    assert (values[:4].tolist(), counts.tolist()) == ([-INF, 1, 3, INF], [1, 1, 2, 1, 1, 1])
    assert gradlib.searchsorted(up.values[:5], x).tolist() == [2, 5, 1, 2, 4, 0, 5]
    assert gradlib.isin(x.repeat(3), x.repeat(3)).tolist() == [True, False, True, True, True, True, False] * 3


def test_results_are_named() -> None:
    x = t([[2.0, 1.0], [3.0, 4.0]])
    for made in (x.sort(), x.topk(1), x.kthvalue(1), x.median(1)):
        assert made._fields == ("values", "indices")
        assert made.indices.dtype == gradlib.int64
        assert not made.indices.requires_grad
    assert gradlib.sort(x, axis=0, descending=True).values.tolist() == [[3, 4], [2, 1]]


@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=60), k=st.integers(0, 60), largest=st.booleans())
def test_the_top_k_are_the_first_of_the_sorted(values: list[int], k: int, largest: bool) -> None:
    k = min(k, len(values))
    found = gradlib.topk(t(values), k, largest=largest)
    assert found.values.tolist() == sorted(values, reverse=largest)[:k]
    assert [values[i] for i in found.indices.tolist()] == found.values.tolist()
    assert len(set(found.indices.tolist())) == k


@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=20), k=st.integers(1, 20))
def test_the_kth_value_and_the_median(values: list[int], k: int) -> None:
    x, k = t(values), min(k, len(values))
    assert gradlib.kthvalue(x, k).values.item() == sorted(values)[k - 1]
    assert values[gradlib.kthvalue(x, k).indices.item()] == sorted(values)[k - 1]
    assert gradlib.median(x).item() == gradlib.median(x, 0).values.item() == sorted(values)[(len(values) - 1) // 2]


def test_gradients_go_back_where_they_came_from() -> None:
    x = t([[3.0, 1.0, 2.0]], gradlib.float64, True)
    weights = t([[1.0, 10.0, 100.0]])
    for function, expected in (
        (lambda x: (x.sort().values * weights).sum(), [100, 1, 10]),
        (lambda x: (x.topk(2).values * weights[:, :2]).sum(), [1, 0, 10]),
        (lambda x: x.kthvalue(2, 1).values.sum(), [0, 0, 1]),
        (lambda x: x.median(1, keepdim=True).values.sum(), [0, 0, 1]),
        (lambda x: x.median() * 3, [0, 0, 3]),
    ):
        assert gradlib.autograd.grad(function(x), x)[0].tolist() == [expected]


def test_0d_and_empty() -> None:
    one = t(2.0, requires_grad=True)
    for made in (one.sort(), one.topk(1), one.kthvalue(1), one.median(0), one.max(0), one.cummax(0)):
        assert (made.values.item(), made.indices.item()) == (2, 0)
        assert gradlib.autograd.grad(made.values, one)[0].item() == 1
    assert one.argsort().item() == one.argmax().item() == 0
    none = gradlib.empty(0, 2)
    assert none.sort(0).values.shape == none.argsort(1).shape == none.topk(0, 0).values.shape == (0, 2)
    assert none.unique(return_inverse=True)[1].shape == (0, 2)
    assert none.unique(dim=0).shape == (0, 2)


@pytest.mark.parametrize("dtype", ["complex64", "bool"])
def test_what_has_no_order(dtype: str) -> None:
    x = gradlib.ones(3, dtype=dtype)
    for call in (lambda: x.topk(1), lambda: x.kthvalue(1), x.median, lambda: x.median(0)):
        with pytest.raises(NotImplementedError, match="is not implemented for"):
            call()
    if dtype == "bool":
        assert t([True, False]).sort().values.tolist() == [False, True]
        return
    for call in (x.sort, x.argsort, x.unique):
        with pytest.raises(NotImplementedError, match="not implemented for complex64"):
            call()


def test_counts_out_of_range_are_refused() -> None:
    x = gradlib.ones(2, 3)
    for k in (-1, 4):
        with pytest.raises(RuntimeError, match="k out of range"):
            x.topk(k)
    for k in (0, 4):
        with pytest.raises(RuntimeError, match="out of range for dimension 1"):
            x.kthvalue(k)
    for call in (lambda: gradlib.empty(2, 0).median(1), lambda: gradlib.empty(2, 0).kthvalue(1)):
        with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
            call()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sort(2)
    with pytest.raises(IndexError, match="no dimensions"):
        t(1.0).unique(dim=0)
    with pytest.raises(RuntimeError, match="nothing to compare"):
        gradlib.empty(3, 0).unique(dim=0)


def test_membership_of_values_of_another_dtype() -> None:
    x = t([[1, 2], [3, 4]])
    assert gradlib.isin(x, t([1.0, 4.0])).tolist() == [[True, False], [False, True]]
    assert gradlib.isin(2, x).item() is True
    assert gradlib.isin(x, t([], gradlib.float32)).any().item() is False
    assert gradlib.isin(t([NAN]), t([NAN])).tolist() == [False]
    with pytest.raises(TypeError, match="at least one argument must be a Tensor"):
        gradlib.isin(1, 2)
    with pytest.raises(RuntimeError, match="Unsupported input type"):
        gradlib.isin(t([1j]), t([1j]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool"])
@pytest.mark.parametrize("values", [[], [1], [3, 0, 1, 0, 3, 3]])
def test_distinct_values_are_the_same_with_their_places_and_without(dtype: str, values: list[int]) -> None:
    x = gradlib.tensor(values, dtype=dtype)
    alone, (values_too, inverse) = gradlib.unique(x), gradlib.unique(x, return_inverse=True)
    assert alone.dtype == x.dtype
    assert alone.tolist() == values_too.tolist()
    assert alone[inverse].tolist() == x.tolist()


def test_distinct_columns() -> None:
    x = t([[3, 1, 2, 1], [3, 1, 2, 1]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True, dim=-1)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([[1, 2, 3]] * 2, [2, 0, 1, 0], [2, 1, 1])
    np.testing.assert_array_equal(host(values[:, inverse]), host(x))


@pytest.mark.parametrize("largest", [True, False])
def test_the_few_best_of_many_are_the_first_in_order(largest: bool) -> None:
    x = np.random.default_rng(0).permutation(6000).reshape(20, 300).astype(np.float32)
    for odd in (0.5, math.inf, -math.inf, math.nan):
        x[3, 7:10] = odd
        values, indices = gradlib.topk(gradlib.tensor(x), 3, 1, largest)
        order = np.sort(x, 1)[:, ::-1] if largest else np.sort(x, 1)
        assert np.array_equal(host(values), order[:, :3], equal_nan=True)
        assert np.array_equal(np.take_along_axis(x, host(indices), 1), order[:, :3], equal_nan=True)
        assert all(len(set(line)) == 3 for line in host(indices).tolist())
