"""Sums as products: of lines and columns, few and many, short and long; their digits, and what is not finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.sums import line_products, row_sums, sums
from tests.values import host

LINES = [((100, 40), 1), ((100, 400), 1), ((3, 100_001), 1), ((60, 7, 50), (2, 1)), ((4, 3, 500), (1, 2)), ((70_000,), None)]
LINES += [((40_000,), None), ((3, 20_000), 1)]
COLUMNS = [((300, 100), 0), ((9000, 40), 0), ((6, 7, 500), (0, 1)), ((2, 600), 0)]
COLUMNS += [((9000, 4), 0), ((400, 3), 0), ((50_000, 7), 0), ((60, 40, 5), (0, 1)), ((40, 31), 0), ((2000, 1), 0)]
LEFT = [((20, 100), 1), ((20, 30, 40), 1), ((20, 30, 40), (0, 2)), ((30_000,), None)]


@pytest.mark.parametrize(("shape", "dim"), LINES + COLUMNS + LEFT)
def test_sums_lose_no_more_digits_than_a_pairwise_sum(shape: Any, dim: Any) -> None:
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    assert (sums(x, dim) is None) == ((shape, dim) in LEFT)
    wanted = x.astype(np.float64).sum(dim)
    for keepdim in (False, True):
        made = host(gradlib.tensor(x).sum(dim, keepdim))
        assert made.shape == x.sum(dim, keepdims=keepdim).shape
        assert np.abs(made.reshape(wanted.shape) / wanted - 1).max() < 5 * 2.0**-24
    x.reshape(-1)[[10, 100, 1000]] = np.inf, np.nan, -np.inf
    assert np.array_equal(np.isfinite(host(gradlib.tensor(x).sum(dim))), np.isfinite(x.astype(np.float64).sum(dim)))


@pytest.mark.parametrize(("shape", "dim"), [((70_000,), None), ((3, 40_001), 1), ((3, 20_000), 1), ((9000, 40), 0), ((1000, 64), 0)])
def test_long_sums_of_float64_lose_no_more_digits_either(shape: Any, dim: Any) -> None:
    x = np.random.default_rng(0).random(shape)
    made = sums(x, dim)
    assert made is not None
    wanted = np.reshape([math.fsum(line) for line in (x.T if dim == 0 else np.atleast_2d(x))], made.shape)
    assert np.abs(made / wanted - 1).max() < 5 * 2.0**-53
    np.testing.assert_allclose(host(gradlib.tensor(x).sum(dim)), made, rtol=1e-15)  # on a device it has another order


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 8), (100, 8), (40, 3, 16), (2, 3, 0), (100, 200), (3, 1024), (0, 5)])
def test_products_of_lines_are_sums_of_products(shape: tuple[int, ...], dtype: str) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, *shape)).astype(dtype)
    made = line_products(a, b)
    assert made is not None
    assert made.dtype == dtype
    np.testing.assert_allclose(made, (a.astype(float) * b).sum(-1), atol=1e-4 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(row_sums(a), a.astype(float).sum(-1), atol=1e-4 if dtype == "float32" else 1e-12)


def test_lines_too_long_for_one_product_are_left_where_they_are_few_or_have_gaps() -> None:
    assert line_products(np.ones((2, 1025)), np.ones((2, 1025))) is None
    assert line_products(np.ones((40, 2050))[:, ::2], np.ones((40, 1025))) is None


@pytest.mark.parametrize("shape", [(3, 20_000), (2, 30, 1025), (40_000,), (20, 2048)])
def test_products_of_long_lines_lose_no_digits(shape: tuple[int, ...]) -> None:
    a, b = np.random.default_rng(0).random((2, *shape))
    for dtype in ("float32", "float64"):
        left, right = a.astype(dtype), b.astype(dtype)
        made = line_products(left, right)
        assert made is not None
        assert made.dtype == dtype
        wanted = np.reshape([math.fsum(line) for line in (left.astype(float) * right).reshape(-1, shape[-1])], shape[:-1])
        assert np.abs(made / wanted - 1).max() < 5 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_arrays_in_another_order(dtype: str) -> None:
    x = np.random.default_rng(0).random((3000, 6)).astype(dtype)
    for each in (x.T, x[:, :3], x[::-1], x.reshape(1500, 2, 6)[:, :, :2]):
        for dim in range(each.ndim):
            for keepdim in (False, True):
                made, wanted = host(gradlib.tensor(each).sum(dim, keepdim)), each.astype("float64").sum(dim, keepdims=keepdim)
                assert made.shape == wanted.shape
                np.testing.assert_allclose(made, wanted, rtol=2e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "beside"), [((5000, 3), (3,)), ((50, 60, 7), (7,)), ((5000, 3), (1, 3)), ((600, 5), (600, 1))])
def test_the_gradient_of_what_was_broadcast_is_such_a_sum(dtype: str, shape: tuple[int, ...], beside: tuple[int, ...]) -> None:
    g = np.random.default_rng(0).random(shape).astype(dtype)
    b = gradlib.zeros(beside, dtype=dtype, requires_grad=True)
    (gradlib.zeros(shape, dtype=dtype) + b).backward(gradlib.tensor(g))
    extra = len(shape) - len(beside)
    axes = tuple(d for d in range(len(shape)) if d < extra or beside[d - extra] == 1)
    wanted = g.astype("float64").sum(axes).reshape(beside)
    np.testing.assert_allclose(host(b.grad), wanted, rtol=5e-7 if dtype == "float32" else 1e-13)
