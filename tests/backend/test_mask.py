"""Choosing by a mask gives what `where` gives, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.backend.mask import masked


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
