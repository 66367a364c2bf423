"""Places in row-major memory name the elements that the index names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradlib.backend.flat_index import flat_index, put_along_axis, take_along_axis

CUBE = np.arange(7 * 30 * 20).reshape(7, 30, 20)
RNG = np.random.default_rng(0)


def drawn(size: int, *shape: int) -> Any:
    return RNG.integers(-size, size, shape)


@pytest.mark.parametrize(
    "index",
    [
        (drawn(7, 5000), drawn(30, 5000), drawn(20, 5000)),
        (drawn(7, 50, 1), drawn(30, 40)),
        (drawn(7, 30).astype(np.int32),),
        (drawn(7, 205), drawn(30, 205)),
        (drawn(7, 300), drawn(30, 300)),
        (slice(None), drawn(30, 40)),
        (slice(None), drawn(30, 25, 1), drawn(20, 30)),
    ],
)
def test_places_are_those_that_numpy_takes(index: tuple[Any, ...]) -> None:
    places = flat_index(CUBE, index, each=True)
    assert places is not None
    np.testing.assert_array_equal(CUBE.reshape(-1)[places], CUBE[index])


def test_what_numpy_refuses_or_reads_otherwise_is_left_to_it() -> None:
    outside = ((drawn(7, 600), np.full(600, 30)), (np.full(600, -8),))
    for index in (*outside, (CUBE[:, :, 0] > 3,), (drawn(7, 600), slice(None), drawn(20, 600)), (drawn(7, 600), drawn(30, 599))):
        assert flat_index(CUBE, index) is None
    assert flat_index(CUBE.transpose(), (drawn(7, 600),)) is None


def test_few_places_are_left_to_numpy() -> None:
    assert flat_index(CUBE, (drawn(7, 600), drawn(30, 600), drawn(20, 600)), each=True) is None
    assert flat_index(CUBE, (slice(None), drawn(30, 40))) is None


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_taken_is_take_along_axis(dim: int) -> None:
    shape = [7, 30, 20]
    shape[dim] = 50
    index = RNG.integers(0, CUBE.shape[dim], shape)
    np.testing.assert_array_equal(take_along_axis(np, CUBE, index, dim), np.take_along_axis(CUBE, index, dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_put_is_put_along_axis(dim: int) -> None:
    index = RNG.random(CUBE.shape).argsort(dim)
    given, expected = np.zeros((2, *CUBE.shape))
    put_along_axis(given, index, CUBE, dim)
    np.put_along_axis(expected, index, CUBE, dim)
    np.testing.assert_array_equal(given, expected)
