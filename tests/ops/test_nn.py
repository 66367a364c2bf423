"""Linear maps, look-ups, padding, normalisation: edges, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
import gradlib.nn.functional as F
from gradlib.autograd import gradgradcheck
from tests.ops.case import t
from tests.values import host

# ---- linear maps --------------------------------------------------------------------------------------------------------------


def test_biases_broadcast() -> None:
    x, w = gradlib.ones(2, 3), gradlib.ones(4, 3)
    assert F.linear(x, w, t(1.0)).tolist() == F.linear(x, w, t([1.0])).tolist() == [[4] * 4] * 2
    assert F.linear(x[0], w, gradlib.ones(2, 4)).shape == (2, 4)
    assert F.linear(x, w, gradlib.ones(4)).grad_fn is None


def test_linear_maps_that_do_not_fit() -> None:
    x, w, b = gradlib.ones(2, 3), gradlib.ones(4, 3), gradlib.ones(4)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(\[2, 3\] and \[4, 2\]\)"):
        F.linear(x, gradlib.ones(4, 2), b)
    with pytest.raises(RuntimeError, match="do not fit together"):
        F.linear(x, w, gradlib.ones(5))
    with pytest.raises(RuntimeError, match="weight must be a matrix"):
        F.linear(x, gradlib.ones(3), gradlib.ones(1))
    for operands in ((x, w.double(), b), (x, w, b.double()), (x, w.double())):
        with pytest.raises(RuntimeError, match="same dtype"):
            F.linear(*operands)


def test_half_types_are_multiplied_in_single_precision() -> None:
    for dtype in ("float16", "bfloat16"):
        made = F.linear(gradlib.ones(1, 4096, dtype=dtype), gradlib.ones(1, 4096, dtype=dtype), gradlib.zeros(1, dtype=dtype))
        assert (made.dtype.name, made.item()) == (dtype, 4096)


# ---- look-ups -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, [0, 2, 1, 0]), ({"padding_idx": 1}, [0, 0, 1, 0]), ({"padding_idx": -2}, [0, 2, 0, 0]),
        ({"scale_grad_by_freq": True}, [0, 1, 1, 0]), ({"scale_grad_by_freq": True, "padding_idx": 2}, [0, 1, 0, 0]),
    ],
)  # fmt: skip
def test_gradients_of_looked_up_rows(options: dict[str, Any], counts: list[int]) -> None:
    table, places = gradlib.randn(4, 2, dtype=gradlib.float64, requires_grad=True), t([1, 2, 1])
    F.embedding(places, table, **options).sum().backward()
    assert table.grad.tolist() == [[n, n] for n in counts]
    if not options:
        assert gradgradcheck(lambda w: F.embedding(places, w) ** 2, table)


def test_a_look_up_in_a_table_with_other_strides_does_not_copy_the_table(device: str) -> None:
    row = gradlib.tensor([[1.0, 2.0, 3.0]], device=device)
    rows = F.embedding(gradlib.tensor([0, 2**39], device=device), row.expand(2**40, 3))  # a copy would take 12 TB
    assert (rows.tolist(), rows.stride()) == ([[1, 2, 3]] * 2, (3, 1))
    assert F.embedding(gradlib.tensor([2, 0, 1, 2], device=device), row.T).tolist() == [[3], [1], [2], [3]]


def test_long_rows_are_shortened_in_place() -> None:
    table = t([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    version = table._version
    rows = F.embedding(t([0, 1, 0]), table, max_norm=1.0)
    np.testing.assert_allclose(host(rows), [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(host(table), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-6)
    assert table._version > version


@pytest.mark.host  # values are not looked at on a CUDA device
@pytest.mark.parametrize("place", [4, -1])
def test_places_that_there_are_not(place: int) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        F.embedding(t([place]), gradlib.ones(4, 2))


def test_places_that_do_not_fit() -> None:
    table = gradlib.ones(4, 2)
    for places in (t([1.0]), t([1], gradlib.int16)):
        with pytest.raises(RuntimeError, match="indices of dtype int64 or int32"):
            F.embedding(places, table)
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        F.embedding(t([0]), table[0])
    with pytest.raises(AssertionError, match="Padding_idx must be within"):
        F.embedding(t([0]), table, padding_idx=4)
    with pytest.raises(NotImplementedError, match="sparse"):
        F.embedding(t([0]), table, sparse=True)


def test_one_hot_refuses() -> None:
    assert F.one_hot(gradlib.empty(0, dtype=gradlib.int64), 3).shape == (0, 3)
    with pytest.raises(RuntimeError, match="type int64, got int32"):
        F.one_hot(t([1], gradlib.int32))
    with pytest.raises(RuntimeError, match="from empty tensor"):
        F.one_hot(gradlib.empty(0, dtype=gradlib.int64))


@pytest.mark.host  # values are not looked at on a CUDA device
@pytest.mark.parametrize(("classes", "count"), [([-1, 0], -1), ([0, 2], 2), ([0, 1], 0)])
def test_one_hot_refuses_classes_that_there_are_not(classes: list[int], count: int) -> None:
    with pytest.raises(RuntimeError, match="non-negative and smaller than num_classes"):
        F.one_hot(t(classes), count)


# ---- padding ------------------------------------------------------------------------------------------------------------------


@given(
    shape=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    amounts=st.lists(st.integers(-2, 2), min_size=0, max_size=6).filter(lambda a: len(a) % 2 == 0),
)
def test_padding_is_numpys_where_it_adds_and_slicing_where_it_cuts(shape: list[int], amounts: list[int]) -> None:
    amounts = amounts[: 2 * len(shape)]
    values = np.arange(np.prod(shape), dtype=float).reshape(shape) + 1
    x = gradlib.tensor(values, requires_grad=True)
    cut, wide = [slice(None)] * len(shape), [(0, 0)] * len(shape)
    possible = True
    for i, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = len(shape) - 1 - i
        possible &= shape[dim] + min(before, 0) + min(after, 0) >= 0
        cut[dim] = slice(max(-before, 0), shape[dim] + min(after, 0))
        wide[dim] = (max(before, 0), max(after, 0))
    if not possible:
        with pytest.raises(RuntimeError, match="cannot lose"):
            F.pad(x, amounts)
        return
    made = F.pad(x, amounts, value=-1.0)
    np.testing.assert_array_equal(host(made), np.pad(values[tuple(cut)], wide, constant_values=-1))
    made.sum().backward()
    kept = np.zeros(shape)
    kept[tuple(cut)] = 1
    np.testing.assert_array_equal(host(x.grad), kept)


def test_padding_keeps_the_dtype() -> None:
    assert F.pad(t([1, 2]), (1, 0), value=2.5).tolist() == [2, 1, 2]
    assert F.pad(t([True]), (0, 1)).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="divisible by 2"):
        F.pad(gradlib.ones(2), (1,))
    with pytest.raises(RuntimeError, match="two times the input dimension"):
        F.pad(gradlib.ones(2), (1, 1, 1, 1))
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode other"):
        F.pad(gradlib.ones(2), (1, 1), "other")


# ---- normalisation ------------------------------------------------------------------------------------------------------------


def test_rows_without_spread_stay_finite() -> None:
    x = gradlib.full((2, 3), 7.0, requires_grad=True)
    made = F.layer_norm(x, (3,))
    assert made.tolist() == [[0] * 3] * 2
    assert gradlib.autograd.grad(made[:, 0].sum(), x)[0].isfinite().all().item()


def test_layer_norm_of_nothing_and_of_half_types() -> None:
    assert F.layer_norm(gradlib.empty(0, 3), (3,)).shape == (0, 3)
    assert F.layer_norm(gradlib.empty(2, 0), (0,)).shape == (2, 0)
    x = gradlib.tensor([[1.0, 2.0, 3.0]], dtype=gradlib.float16)
    made = F.layer_norm(x, (3,), gradlib.ones(3), gradlib.zeros(3))
    assert made.dtype == gradlib.float16
    np.testing.assert_allclose(host(made.float()), [[-1.2247, 0, 1.2247]], atol=2e-3)


def test_what_layer_norm_gave_may_be_written() -> None:
    """Its rule keeps the input, as torch's does."""
    x = gradlib.randn(2, 4, dtype=gradlib.float64, requires_grad=True)
    made = F.layer_norm(x, (4,))
    (plain,) = gradlib.autograd.grad((made * made.detach()).sum(), x, retain_graph=True)
    weight = made.detach().clone()
    made.mul_(weight)
    (slope,) = gradlib.autograd.grad(made.sum(), x)
    np.testing.assert_allclose(host(slope), host(plain))


def test_the_deviation_and_the_mean_have_gradients_too() -> None:
    from gradlib.ops.nn import native_layer_norm

    x = gradlib.randn(2, 4, dtype=gradlib.float64, requires_grad=True)
    for pick in (0, 1, 2):
        assert gradgradcheck(lambda x, pick=pick: native_layer_norm(x, (1,), 0.1)[pick], x)


def test_layer_norms_that_do_not_fit() -> None:
    x = gradlib.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"expected input with shape \[\*, 2\]"):
        F.layer_norm(x, (2,))
    with pytest.raises(RuntimeError, match="at least 1-dimensional"):
        F.layer_norm(x, ())
    with pytest.raises(RuntimeError, match=r"weight to be of same shape .* \[2\]"):
        F.layer_norm(x, (3,), gradlib.ones(2))
    with pytest.raises(RuntimeError, match="mixed dtype: bias is float64"):
        F.layer_norm(x, (3,), None, gradlib.ones(3, dtype=gradlib.float64))
    with pytest.raises(NotImplementedError, match="int64"):
        F.layer_norm(t([[1, 2]]), (2,))
    with pytest.raises(TypeError):
        F.layer_norm(x, 3)
