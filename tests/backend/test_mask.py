"""Choosing by a mask gives what `where` gives, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradlib.backend.mask import chosen, extreme, masked, stepped


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 5000])
def test_masked_keeps_the_bits_of_what_it_keeps_and_zeroes_the_rest(dtype, count):
    rng = np.random.default_rng(0)
    array = rng.standard_normal(count).astype(dtype)
    array[::7], array[1::7], array[2::7] = np.inf, np.nan, -0.0
    mask = rng.random(count) < 0.5
    found = masked(np, mask, array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found.view(np.uint8), np.where(mask, array, array.dtype.type(0)).view(np.uint8))


def test_masked_takes_what_broadcasts_and_other_layouts():
    array = np.arange(10_000.0).reshape(100, 100)
    for mask, given in ((array[0] > 50, array), ((array > 50).T, array), (array.T > 50, array.T), (array > 50, np.asfortranarray(array))):
        np.testing.assert_array_equal(masked(np, mask, given), np.where(mask, given, 0))


def numbers(dtype: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100_001)).astype(dtype)
    a[::7], a[1::9], b[::5] = np.nan, -0.0, np.inf
    return rng.random(a.size) < 0.5, a, b


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pair", ["a b", "a 0", "0 b", "-0.0 b", "a 2.5", "nan b"])
def test_large_arrays_are_chosen_from_as_where_does(dtype: str, pair: str) -> None:
    mask, a, b = numbers(dtype)
    input, other = ({"a": a, "b": b}.get(word, word) for word in pair.split())
    input, other = (x if isinstance(x, np.ndarray) else float(x) for x in (input, other))
    made = chosen(np, mask, input, other)
    assert made.dtype == dtype
    assert made.tobytes() == np.where(mask, input, other).tobytes()


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_elements_of_each_size_are_chosen_from_as_where_does(dtype: str) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((300, 200)) < 0.5
    a, b = rng.integers(-100, 100, (2, *mask.shape)).astype(dtype)
    one = np.array(a[0, 0])
    numbers = [(one, b), (a, one), (a, 3), (0, b), (a, 2.5), (True, b)]
    for input, other in [(a, b), (a.T.copy().T, b), (a, b.real.astype("f8")), (a[:1], b), *numbers]:
        made, known = chosen(np, mask, input, other), np.where(mask, input, other)
        assert made.dtype == known.dtype
        assert made.tobytes() == known.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [3, 5000])
def test_two_numbers_are_chosen_from_as_where_does(dtype: str, size: int) -> None:
    mask = np.random.default_rng(0).random(size) < 0.5
    made = stepped(np, mask, 1.0, -0.01, np.dtype(dtype))
    assert made.dtype == dtype
    assert made.tobytes() == np.where(mask, np.dtype(dtype).type(1.0), np.dtype(dtype).type(-0.01)).tobytes()


def test_what_is_chosen_from_spread_numbers_owns_its_memory() -> None:
    mask = np.random.default_rng(0).random((100, 100)) < 0.5
    made = chosen(np, mask, np.broadcast_to(np.arange(100.0), mask.shape), 0)
    assert made.base is None
    np.testing.assert_array_equal(made, np.where(mask, np.arange(100.0), 0))


@pytest.mark.nonfinite
@pytest.mark.parametrize("number", [0, -0.0, 0.3, float("nan"), float("inf")])
@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum])
def test_extremes_of_large_arrays_and_a_number_are_those_of_numpy(ufunc: Any, number: float) -> None:
    _, a, _ = numbers("float32")
    np.testing.assert_array_equal(extreme(ufunc, a, number), ufunc(a, number))  # of two zeros either
