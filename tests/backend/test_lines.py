"""Reductions and running folds of many lines at once give what NumPy gives of one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.lines import accumulated, reduced

pytestmark = pytest.mark.host

SHAPES = [(700, 3), (20_000, 2), (300, 10), (3000, 32), (600, 33), (40, 30, 5), (3, 900), (300, 4, 300), (257, 4)]
SHAPES += [(1, 600), (600, 1), (0, 5)]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.7
    return rng.integers(-9, 9, shape).astype(dtype) if dtype == "int64" else rng.uniform(0.5, 2, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_reductions_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, dtype)
    for ufunc in (np.logical_and, np.logical_or) if dtype == "bool" else (np.maximum, np.minimum):
        for axis in [k for k in range(x.ndim) if x.shape[k]]:
            for keepdims in (False, True):
                for each in (x, x[::-1], np.asfortranarray(x)):
                    wanted = ufunc.reduce(each, axis=axis, keepdims=keepdims)
                    made = reduced(ufunc, each, axis, keepdims)
                    assert made.dtype == wanted.dtype
                    assert made.shape == wanted.shape
                    assert np.array_equal(made, wanted)


def test_a_reduction_over_all_or_several_dimensions_is_numpys() -> None:
    x = drawn((40, 30, 5), "float32")
    for axis in (None, (0, 2), (1, 2)):
        assert np.array_equal(reduced(np.maximum, x, axis), x.max(axis))


@pytest.mark.nonfinite
def test_nan_is_the_extreme_of_its_line() -> None:
    x = drawn((700, 3), "float32")
    x[5, 1] = np.nan
    assert np.flatnonzero(np.isnan(reduced(np.maximum, x, 1))).tolist() == [5]
    assert np.flatnonzero(np.isnan(reduced(np.maximum, x, 0))).tolist() == [1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logaddexp])
def test_running_folds_have_numpys_bits(shape: tuple[int, ...], ufunc: Any) -> None:
    for dtype, wide in (("float32", None), ("float32", np.float64), ("float64", None)):
        x = drawn(shape, dtype)
        if ufunc is np.multiply:
            x = x**0.01
        for axis in range(x.ndim):
            for each in (x, x[::-1], np.asfortranarray(x)):
                wanted = ufunc.accumulate(each.astype(wide or dtype), axis).astype(dtype)
                assert accumulated(ufunc, each, axis, wide).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("shape", [(1000, 131), (70, 1000), (1, 70_001), (300, 20, 129)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_and_sums_of_long_rows(shape: tuple[int, ...], dtype: str) -> None:
    x = np.exp((drawn(shape, dtype) - 1.25) * 0.01)  # about as many below one as above
    rtol = 2e-5 if dtype == "float32" else 1e-12
    for keepdim in (False, True):
        made = gradlib.prod(gradlib.tensor(x), -1, keepdim).numpy()
        wanted = np.multiply.reduce(x.astype("float64"), axis=-1, keepdims=keepdim)
        assert made.dtype == dtype
        np.testing.assert_allclose(made, wanted, rtol=rtol, strict=dtype == "float64")
    np.testing.assert_allclose(gradlib.cumsum(gradlib.tensor(x), -1).numpy(), np.cumsum(x.astype("float64"), -1), rtol=1e-6)


def test_counts_and_outer_products_of_many_numbers() -> None:
    x = drawn((2000,), "float32")
    x[::3] = 0
    assert gradlib.count_nonzero(gradlib.tensor(x)).item() == np.count_nonzero(x)
    assert gradlib.count_nonzero(gradlib.tensor(x + 0j)).item() == np.count_nonzero(x)
    before = np.getbufsize()
    made = gradlib.outer(gradlib.tensor(x[:700]), gradlib.tensor(x))
    assert made.numpy().tobytes() == np.outer(x[:700], x).tobytes()
    assert np.getbufsize() == before
