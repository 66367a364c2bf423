"""Scans and the softmax family: dtypes, precision, edges, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from gradlib.backend.array import running_fold
from gradlib.ops import scan
from tests.ops.case import t
from tests.values import host

NAN, INF = math.nan, math.inf


def slope(function: Any, values: Any) -> Any:
    x = t(values, gradlib.float64, True)
    return gradlib.autograd.grad(function(x), x)[0].tolist()


# ---- running sums and products ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("bool", "int64"), ("uint8", "int64"), ("int32", "int64"), ("float16", "float16"), ("bfloat16", "bfloat16"),
        ("float32", "float32"), ("complex64", "complex64"),
    ],
)  # fmt: skip
def test_dtypes_of_running_sums(dtype: str, result: str) -> None:
    for shape in ((2,), ()):
        x = gradlib.ones(shape, dtype=dtype)
        for function in (gradlib.cumsum, gradlib.cumprod):
            assert function(x, 0).dtype.name == result
            wider = "complex128" if dtype == "complex64" else "float64"
            assert function(x, 0, dtype=wider).dtype.name == wider
    with pytest.raises(NotImplementedError, match="dtype=bool"):
        gradlib.cumsum(x, 0, dtype=gradlib.bool)


def test_long_sums_of_small_numbers_lose_nothing() -> None:
    """One after the other in float32 the last would be off by 0.3 %."""
    assert gradlib.full((1_000_000,), 0.1).cumsum(0)[-1].item() == pytest.approx(100_000, rel=1e-6)
    assert gradlib.ones(4096, dtype=gradlib.float16).cumsum(0)[-1].item() == 4096


def test_in_place_forms() -> None:
    x = t([[1, 2], [3, 4]], "int32")
    assert x.cumsum_(0) is x
    assert (x.dtype, x.tolist()) == (gradlib.int32, [[1, 2], [4, 6]])
    assert t([2.0, 3.0]).cumprod_(0).tolist() == [2, 6]
    y = t([1.0, 2.0, 3.0], requires_grad=True)
    (y * 2).cumprod_(0).sum().backward()
    assert y.grad.tolist() == [2 * (1 + 4 + 24), 2 * (2 + 12), 2 * 8]


def test_gradients_at_zeros() -> None:
    assert slope(lambda x: x.cumprod(0)[-1], [2.0, 0.0, 3.0]) == [0, 6, 0]
    assert slope(lambda x: x.cumprod(0).sum(), [0.0, 2.0, 0.0, 4.0]) == [3, 0, 0, 0]


@given(n=st.integers(1, 40))
def test_a_recurrence_of_any_length(n: int) -> None:
    rng = np.random.default_rng(n)
    start, factor = rng.standard_normal((2, n)), rng.standard_normal((2, n - 1))
    expected = start.copy()
    for k in range(n - 2, -1, -1):
        expected[:, k] += factor[:, k] * expected[:, k + 1]
    np.testing.assert_allclose(scan.recur_from_end(start, factor), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp"])
def test_a_fold_by_doubling_is_accumulation(name: str) -> None:
    """The form that CuPy takes, on NumPy."""
    values = np.random.default_rng(0).standard_normal((3, 11))
    for axis in (0, 1):
        ufunc: Any = getattr(np, name)
        np.testing.assert_allclose(running_fold(ufunc, values, axis), ufunc.accumulate(values, axis), rtol=1e-13)


# ---- running extremes ---------------------------------------------------------------------------------------------------------


def test_the_latest_of_equal_elements_is_chosen() -> None:
    largest = t([1, 3, 3, 2, 5, 5]).cummax(0)
    assert largest._fields == ("values", "indices")
    assert (largest.values.tolist(), largest.indices.tolist()) == ([1, 3, 3, 3, 5, 5], [0, 1, 2, 2, 4, 5])
    assert slope(lambda x: x.cummin(0).values.sum(), [2.0, 1.0, 1.0, 4.0]) == [1, 1, 2, 0]


def test_nan_stays_once_met() -> None:
    for function in (gradlib.cummax, gradlib.cummin):
        values, indices = function(t([1.0, NAN, 3.0, NAN, 2.0]), 0)
        assert values.isnan().tolist() == [False, True, True, True, True]
        assert indices.tolist() == [0, 1, 1, 3, 3]


def test_complex_numbers_have_no_running_extreme() -> None:
    with pytest.raises(NotImplementedError, match="no order"):
        gradlib.cummax(t([1j]), 0)


# ---- differences and integrals ------------------------------------------------------------------------------------------------


def test_differences_of_any_order_and_dtype() -> None:
    x = t([1.0, 4.0, 9.0])
    assert gradlib.diff(x, 0).tolist() == x.tolist()
    assert gradlib.diff(x, 5).tolist() == []
    assert gradlib.diff(t([1, 0], "uint8")).tolist() == [255]
    assert gradlib.diff(t([True, False, False])).tolist() == [True, False]
    assert gradlib.diff(x, prepend=t([0.0], gradlib.float64)).dtype == gradlib.float64
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        gradlib.diff(t(1.0))
    with pytest.raises(RuntimeError, match="non-negative but got -1"):
        gradlib.diff(x, -1)
    with pytest.raises(RuntimeError, match="same dimension as input"):
        gradlib.diff(x, append=gradlib.ones(1, 1))


def test_integrals_by_the_trapezoidal_rule() -> None:
    assert gradlib.trapezoid(t([1, 2, 3])).item() == 4
    assert gradlib.trapz(t([1, 2, 3]), t([0, 1, 3])).item() == 6.5
    assert gradlib.trapezoid(gradlib.empty(2, 0)).tolist() == [0, 0]
    assert gradlib.trapezoid(gradlib.empty(2, 0, dtype=gradlib.int32), dx=0.5).dtype == gradlib.int32  # of no samples, as torch's
    with pytest.raises(RuntimeError, match="one `x` value for each sample"):
        gradlib.trapezoid(gradlib.ones(3), gradlib.ones(2))
    with pytest.raises(TypeError, match="x or dx"):
        gradlib.trapezoid(gradlib.ones(3), gradlib.ones(3), dx=1.0)
    with pytest.raises(RuntimeError, match="bool"):
        gradlib.trapezoid(t([True, True]))
    with pytest.raises(IndexError, match="no dimensions"):
        gradlib.trapezoid(t(1.0))


# ---- softmax and friends ------------------------------------------------------------------------------------------------------


def test_no_overflow_and_no_underflow_where_it_matters() -> None:
    x = t([1000.0, 0.0, -1000.0])
    assert x.softmax(0).tolist() == [1, 0, 0]
    assert x.log_softmax(0).tolist() == [0, -1000, -2000]
    assert x.logsumexp(0).item() == 1000
    assert x.logcumsumexp(0).tolist() == [1000] * 3


def test_masked_scores_get_nothing() -> None:
    x = [-INF, 1.0, 1.0]
    assert t(x).softmax(0).tolist() == [0, 0.5, 0.5]
    assert slope(lambda x: x.softmax(0)[1], x) == [0, 0.25, -0.25]
    assert slope(lambda x: x.logsumexp(0), x) == pytest.approx([0, 0.5, 0.5])


@pytest.mark.nonfinite
def test_a_prefix_without_weight_leaves_the_rest_finite() -> None:
    assert t([-INF, -INF, 1.0]).logcumsumexp(0).tolist() == [-INF, -INF, 1]
    share = 1 / (1 + math.e)
    assert slope(lambda x: x.logcumsumexp(0)[2:].sum(), [-INF, -INF, 1.0, 2.0])[2:] == pytest.approx([1 + share, 1 - share])
    assert t([-INF, -INF]).logsumexp(0).item() == -INF
    assert gradlib.logsumexp(gradlib.empty(0, 2), 0).tolist() == [-INF, -INF]


def test_dtypes_of_softmax() -> None:
    for function in (gradlib.softmax, gradlib.log_softmax):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            assert function(gradlib.ones(2, dtype=dtype), 0).dtype.name == dtype
        assert function(t([1, 2]), 0, dtype=gradlib.float64).dtype == gradlib.float64
        for dtype in ("int64", "bool", "complex64"):
            with pytest.raises(NotImplementedError, match="not implemented for"):
                function(gradlib.ones(2, dtype=dtype), 0)
        with pytest.raises(IndexError, match="Dimension out of range"):
            function(gradlib.ones(2), 1)
        assert function(t(3.0), -1).item() == (1 if function is gradlib.softmax else 0)
    assert t([1, 2]).logsumexp(0).dtype == gradlib.float32


def test_functional_softmax_chooses_a_dimension_with_a_warning() -> None:
    for shape, dim in (((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)):
        x = gradlib.ones(shape)
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            made = gradlib.nn.functional.softmax(x)
        np.testing.assert_allclose(host(made.sum(dim)), 1, rtol=1e-6)
    assert gradlib.nn.functional.log_softmax(x, -1, dtype=gradlib.float64).dtype == gradlib.float64


@pytest.mark.nonfinite
def test_trapezoid_sums_before_it_halves() -> None:
    """So that small integers do not overflow, and as torch does with what is infinite."""
    assert gradlib.trapezoid(gradlib.tensor([255, 255, 255], dtype="uint8")).item() == 638
    assert math.isnan(gradlib.trapezoid(gradlib.tensor([math.inf, 1.0])).item())


def test_a_single_complex_number_is_its_own_extreme(device: str) -> None:
    for function in (gradlib.cummax, gradlib.cummin):
        values, places = function(gradlib.tensor(1 + 1j, device=device), 0)
        assert (values.tolist(), places.tolist()) == (1 + 1j, 0)
        assert function(gradlib.zeros(2, 0, dtype=gradlib.complex64, device=device), 0)[1].shape == (2, 0)
        with pytest.raises(NotImplementedError, match="no order"):
            function(gradlib.zeros(1, dtype=gradlib.complex64, device=device), 0)


@pytest.mark.host
@pytest.mark.parametrize("shape", [(3, 30000), (130, 701), (1, 70000)])
def test_scans_of_large_arrays_are_those_of_their_lines(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype(np.float32)
    x[0, 5], x[-1, -7], x[-1, -5] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        for name in ("cumsum", "cumprod", "cummax", "cummin"):
            function = getattr(gradlib, name)
            whole, lines = function(gradlib.tensor(x), 1), [function(gradlib.tensor(line), 0) for line in x]
            if name.startswith("cumm"):
                assert np.array_equal(host(whole.indices), np.stack([host(line.indices) for line in lines]))
                whole, lines = whole.values, [line.values for line in lines]
            assert np.array_equal(host(whole), np.stack([host(line) for line in lines]), equal_nan=True)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_the_gradient_of_a_running_sum_is_contiguous(shape: tuple[int, ...], create_graph: bool) -> None:
    x = gradlib.ones(shape, requires_grad=True)
    (g,) = gradlib.autograd.grad(x.cumsum(-1).sum(), x, create_graph=create_graph)
    assert g.is_contiguous()
    assert g.as_strided((2,), (1,)).tolist() == [3, 2]
