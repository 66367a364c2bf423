"""Products of many small matrices at once are those of one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.small_products import multiplied

pytestmark = pytest.mark.host

SIZES = [(3, 3, 1), (1, 3, 3), (3, 1, 3), (3, 3, 3), (2, 5, 2), (1, 1, 1), (4, 4, 1)]


def drawn(*shape: int, dtype: Any = "float64") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_are_numpys(sizes: tuple[int, int, int], dtype: str) -> None:
    rows, inner, columns = sizes
    for stack in ((5000,), (70, 41), (2048,)):
        a, b = drawn(*stack, rows, inner, dtype=dtype), drawn(*stack, inner, columns, dtype=dtype)
        exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
        bound = (np.abs(a.astype(np.longdouble)) @ np.abs(b.astype(np.longdouble))) * inner * np.finfo(dtype).eps
        for left in (a, drawn(*stack, inner, rows, dtype=dtype).swapaxes(-1, -2), np.broadcast_to(a[..., :1, :], a.shape)):
            made = multiplied(left, b)
            assert made is not None
            assert made.dtype == dtype
            assert made.shape == (*stack, rows, columns)
            if left is a:
                assert (np.abs(made - exact) <= bound).all()
            np.testing.assert_allclose(made, left @ b, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)


def test_few_large_and_other_products_are_left_to_numpy() -> None:
    a, b = drawn(5000, 3, 3), drawn(5000, 3, 1)
    for left, right in (
        (a[:2000], b[:2000]), (drawn(5000, 4, 4), drawn(5000, 4, 4)), (a[:1], b), (a, b[:1]), (a.astype("float32"), b),
        (a.astype(int), b.astype(int)), (a.astype(complex), b.astype(complex)), (drawn(5000, 3, 0), drawn(5000, 0, 3)),
    ):  # fmt: skip
        assert multiplied(left, right) is None
        if left.dtype == right.dtype:
            assert np.array_equal((gradlib.as_tensor(left) @ gradlib.as_tensor(right)).numpy(), left @ right)


@pytest.mark.nonfinite
def test_infinity_and_nan_are_numpys() -> None:
    a, b = drawn(5000, 3, 3), drawn(5000, 3, 3)
    a[7, 0, 1], a[8, 2, 2], b[9, 0] = np.inf, np.nan, -np.inf
    made = multiplied(a, b)
    assert made is not None
    np.testing.assert_allclose(made, a @ b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 3])
def test_gradients_are_products_too(columns: int) -> None:
    a, b, g = drawn(70, 50, 3, 3), drawn(70, 50, 3, columns), drawn(70, 50, 3, columns)[::-1].copy()
    x, y = gradlib.tensor(a).requires_grad_(), gradlib.tensor(b).requires_grad_()
    dx, dy = gradlib.autograd.grad(x @ y, [x, y], gradlib.tensor(g), create_graph=True)
    np.testing.assert_allclose(dx.numpy(force=True), g @ b.swapaxes(-1, -2), atol=1e-12)
    np.testing.assert_allclose(dy.numpy(force=True), a.swapaxes(-1, -2) @ g, atol=1e-12)
    (again,) = gradlib.autograd.grad(dx.sum(), y)
    wanted = np.broadcast_to(g.sum(-2, keepdims=True), b.shape)  # of the sum of g b^T, for each row of b
    np.testing.assert_allclose(again.numpy(), wanted, atol=1e-12)
