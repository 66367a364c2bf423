"""Places in row-major memory name the elements that the index names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.flat_index import flat_index, put_along_axis, take_along_axis, vector_along
from gradlib.backend.scatter import write_along

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


SHAPES = [((6000, 3), (6000, 3)), ((6000, 3), (5000, 2)), ((6000, 9), (5000, 9)), ((3, 6000), (3, 6000)), ((70, 40, 3), (70, 40, 3))]
SHAPES += [((6000, 3), (9000, 3)), ((3, 6000), (2, 7000)), ((70, 40, 3), (60, 90, 2))]


@pytest.mark.parametrize(("shape", "sizes"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_short_rows_are_read_and_written_by_an_index_for_each_element_or_by_a_repeated_vector(shape: Any, sizes: Any, dtype: str) -> None:
    given = RNG.standard_normal(shape)
    for dim in range(len(shape)):
        if any(n > m for d, (n, m) in enumerate(zip(sizes, shape, strict=True)) if d != dim):
            continue
        vector = RNG.integers(0, shape[dim], [n if d == dim else 1 for d, n in enumerate(sizes)]).astype(dtype)
        for index in (RNG.integers(0, shape[dim], sizes).astype(dtype), np.broadcast_to(vector, sizes)):
            found = vector_along(index, dim, shape[dim])
            assert (found is None) == (index.strides[dim] != 0 and index.flags.owndata)
            grid = tuple(index if d == dim else places for d, places in enumerate(np.indices(sizes, sparse=True)))
            made = take_along_axis(np, given, index, dim)
            assert made.flags.c_contiguous
            np.testing.assert_array_equal(made, given[grid])
            values = RNG.standard_normal(sizes)
            for how, ufunc in (("add", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)):
                wanted, target = given.copy(), given.copy()
                ufunc.at(wanted, grid, values)
                write_along(how, target, index, dim, values)
                np.testing.assert_allclose(target, wanted, rtol=1e-13)
            for value in (values, 2.5):
                wanted, target = given.copy(), given.copy()
                wanted[grid] = value
                write_along("put", target, index, dim, value)
                np.testing.assert_array_equal(target, wanted)


def test_places_outside_are_left_to_numpy_also_where_one_vector_is_repeated() -> None:
    given = RNG.standard_normal((6000, 3))
    for place in (-1, 6000):
        vector = np.full((6000, 1), place)
        index = np.broadcast_to(vector, (6000, 3))
        assert vector_along(index, 0, 6000) is None
    np.testing.assert_array_equal(take_along_axis(np, given, np.full((6000, 3), -1), 0), given[[-1] * 6000])
    with pytest.raises(IndexError):
        take_along_axis(np, given, index, 0)


@pytest.mark.host  # values are not looked at on a CUDA device
def test_an_expanded_index_is_checked() -> None:
    x = gradlib.tensor(RNG.standard_normal((6000, 3)))
    for place in (-1, 6000):
        index = gradlib.tensor([0] * 5999 + [place])[:, None].expand(6000, 3)
        for call in (lambda index=index: x.gather(0, index), lambda index=index: x.scatter_add(0, index, x)):
            with pytest.raises(RuntimeError, match=f"index {place} is out of bounds for a dimension of size 6000"):
                call()


def test_the_gradient_of_rows_read_by_an_expanded_index_is_added_up() -> None:
    for dim, shape in ((0, (6000, 3)), (1, (3, 6000))):
        x = gradlib.tensor(RNG.standard_normal(shape)).requires_grad_()
        vector = RNG.integers(0, 6000, 6000)
        index = gradlib.tensor(vector).reshape(tuple(-1 if d == dim else 1 for d in range(2))).expand(shape)
        g = RNG.standard_normal(shape)
        x.gather(dim, index).backward(gradlib.tensor(g))
        wanted = np.zeros(shape)
        np.add.at(wanted, (vector,) if dim == 0 else (slice(None), vector), g)
        np.testing.assert_allclose(x.grad.cpu().numpy(), wanted, rtol=1e-12)
