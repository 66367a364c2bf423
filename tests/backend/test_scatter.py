"""Writing to places that are named more than once: every mention counts, in every dtype, on either library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradlib.backend.array import move
from gradlib.backend.device import resolve
from gradlib.backend.dtype import as_dtype
from gradlib.backend.scatter import fold_at, reduce_at, rows_into_zeros, scatter_add
from gradlib.ops.index import add_at
from tests.values import host

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@pytest.fixture
def there(device: str) -> Any:
    """Moves a NumPy array to the device of the test."""
    return lambda array: move(array, resolve(device))


def drawn(shape: Any, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, shape) / (1 if as_dtype(dtype).kind in "biu" else 2)
    return (values * (1 + 2j) if dtype.startswith("complex") else abs(values) if dtype == "uint8" else values).astype(as_dtype(dtype))


@pytest.mark.parametrize("rows", [2, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_adds_what_meets_at_one_place(rows: int, dtype: str, there: Any) -> None:
    """Few places, of which most are named often, and many, for which NumPy is asked in another way."""
    places = np.random.default_rng(1).integers(-rows, rows, 9)
    values = drawn((9, 4), dtype)
    want = np.ones((rows, 4), values.dtype)
    target = there(want.copy())
    for place, value in zip(places, values, strict=True):
        want[place] += value
    scatter_add(target, (there(places),), there(values))
    assert target.dtype == want.dtype
    np.testing.assert_array_equal(host(target), want)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (25, 1)])
def test_one_number_for_many_places_is_added_at_each(shape: tuple[int, ...], there: Any) -> None:
    target, places = there(np.zeros((30, 30))), there(np.zeros((25, 25), np.int64))
    scatter_add(target, (places, places), there(np.ones(shape)))
    assert target[0, 0] == 625


@pytest.mark.parametrize("rows", [6, 40])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16"])
def test_rows_added_into_zeros_are_those_added_one_by_one(rows: int, dtype: str) -> None:
    """Most of them named, and few; some more than once, from either end."""
    places, values = np.array([[5, -1, 2], [0, 5, 2], [3, 1, -6]]), drawn((3, 3, 300), dtype)
    want = np.zeros((rows, 300), values.dtype)
    for place, value in zip(places.reshape(-1), values.reshape(-1, 300), strict=True):
        want[place] += value
    made = rows_into_zeros(want.shape, places, values)
    assert made is not None
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_adding_a_number_to_a_transposed_array(dtype: str, there: Any) -> None:
    want = np.zeros((3, 4), as_dtype(dtype)).T
    target = there(np.zeros((3, 4), as_dtype(dtype))).T
    np.add.at(want, (slice(None), np.array([1, 1])), np.ones((), want.dtype))
    scatter_add(target, (slice(None), there(np.array([1, 1]))), 1)
    np.testing.assert_array_equal(host(target), want)


def test_adding_to_the_only_element_of_no_dimensions(there: Any) -> None:
    target = there(np.array(1.0))
    scatter_add(target, (), there(np.array(2.0)))
    assert host(target) == 3.0


def test_large_and_negative_integers(there: Any) -> None:
    target = there(np.array([2**62, -5]))
    scatter_add(target, (there(np.array([0, 1, 1])),), there(np.array([2**61, -(2**60), -1])))
    assert host(target).tolist() == [2**62 + 2**61, -(2**60) - 6]


def test_adding_under_a_mask(there: Any) -> None:
    target = there(np.zeros((4, 3)))
    add_at(target, [there(np.eye(4, 3, dtype=bool))], there(np.array([1.0, 2.0, 3.0])))
    assert np.diag(host(target)).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("name", ["multiply", "maximum", "minimum"])
def test_products_and_extremes(name: str, count: int, there: Any) -> None:
    rng = np.random.default_rng(count)
    index = (rng.integers(0, 3, count), rng.integers(0, 2, count))
    values = rng.choice([-3.0, -2.0, 2.0, 3.0], count)  # a zero would hide a factor that counts twice
    want = np.full((3, 2), 2.0)
    getattr(np, name).at(want, index, values)
    target, by_runs = there(np.full((3, 2), 2.0)), np.full((3, 2), 2.0)
    places = tuple(map(there, index))
    reduce_at({"multiply": "prod", "maximum": "max", "minimum": "min"}[name], target, places, there(values))
    np.testing.assert_array_equal(host(target), want)
    fold_at(getattr(np, name), by_runs, index, values)
    np.testing.assert_array_equal(by_runs, want)


@pytest.mark.nonfinite
@pytest.mark.parametrize("largest", [True, False])
def test_an_extreme_is_exact_and_keeps_nan(largest: bool, there: Any) -> None:
    """CuPy's own would go through single precision, and drop NaN."""
    close = 1 + 2.0**-40
    target = there(np.array([1.0, 1.0]))
    values = np.array([close if largest else 2 - close, np.nan, 0.5])
    reduce_at("max" if largest else "min", target, (there(np.array([0, 1, 1])),), there(values))
    assert host(target)[0] == values[0]
    assert np.isnan(host(target)[1])


@pytest.mark.host
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("width", [1, 3, 8, 9])
def test_short_rows_are_added_to_those_that_they_name(width: int, dtype: str) -> None:
    places = np.random.default_rng(1).integers(-500, 500, 3000)
    for values in (drawn((3000, width), dtype), drawn((width,), dtype), drawn((3000, 1), dtype)):
        target, wanted = np.ones((500, width), values.dtype), np.ones((500, width), values.dtype)
        scatter_add(target, (places,), values)
        np.add.at(wanted, places, values)
        np.testing.assert_allclose(target, wanted, rtol=1e-2 if dtype == "float16" else 1e-6)
        if not dtype.startswith("complex"):
            reduce_at("max", target, (places,), values)
            np.maximum.at(wanted, places, values)
            np.testing.assert_allclose(target, wanted, rtol=1e-2 if dtype == "float16" else 1e-6)
    with pytest.raises(IndexError):
        scatter_add(target, (np.full(3000, 500),), values)
