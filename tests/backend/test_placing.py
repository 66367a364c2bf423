"""The kernels for places along a dimension give what NumPy gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.backend.dtype import as_dtype
from gradlib.backend.placing import named_of, picked, put, put_along, taken
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

WHOLE = slice(None)
KEYS = {
    "rows": (np.array([2, -1, 0]),),
    "columns": (WHOLE, np.array([3, -4, 1])),
    "last": (WHOLE, WHOLE, np.array([4, 0])),
    "rows of rows": (np.array([[2, 0], [-2, 1]], np.int32)[:, :1],),
    "elements": (np.array([2, -1, 0]), np.array([0, 1, -3])),
    "grid": (np.array([[2], [0]]), np.array([[1, 3, -4]])),
    "behind": (WHOLE, np.array([[1], [3]]), np.array([0, -1, 2])),
    "all": (np.array([2, 0]), np.array([1, 1]), np.array([-1, 0])),
}
UFUNCS = {"add": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def there(key):
    return [None if type(part) is slice else cupy.asarray(part) for part in key]


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "int64", "complex64"])
def test_values_come_to_and_from_the_places_that_arrays_name(name, dtype):
    key, expected = KEYS[name], np.zeros((3, 4, 5)).astype(as_dtype(dtype))
    target = cupy.asarray(expected)
    values = (np.arange(expected[key].size).reshape(expected[key].shape) % 9).astype(expected.dtype)
    wide = cupy.asarray(np.repeat(values, 2, -1))[..., ::2]
    for given in (values, values[(slice(1),) * values.ndim], *([values[:1], values[0]] if name in ("rows", "columns") else [])):
        expected[key] = given
        assert put(target, there(key), wide if given is values else cupy.asarray(given))
        assert target.get().tobytes() == expected.tobytes()
    number = 1 - 2.5j if dtype == "complex64" else 1
    expected[key] = number
    assert put(target, there(key), number)
    assert target.get().tobytes() == expected.tobytes()
    target[...] = cupy.asarray((np.arange(60).reshape(3, 4, 5) % 7).astype(expected.dtype))
    found = picked(target, there(key))
    assert found.shape == values.shape
    assert found.get().tobytes() == target.get()[key].tobytes()
    gaps = cupy.asarray(np.repeat(target.get(), 2, -1))[..., ::2]
    assert picked(gaps, there(key)).get().tobytes() == found.get().tobytes()


@pytest.mark.parametrize("how", UFUNCS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_values_that_meet_at_one_place_all_count(how, dtype):
    target = np.full((3, 4, 5), 2, dtype)
    for key in ((np.array([[2], [0], [2], [2]]), np.array([[1, 1, -4]])), (WHOLE, np.array([1, 1, 3, 1])), (np.array([0, 0, -3]),)):
        values = (np.arange(target[key].size).reshape(target[key].shape) % 7 - 3).astype(dtype)
        if dtype.startswith("float") and how in ("max", "min"):
            values.flat[0] = target[0, 0, 0] = np.nan
        made = cupy.asarray(target)
        UFUNCS[how].at(target, key, values)
        assert put(made, there(key), cupy.asarray(values), how)
        np.testing.assert_array_equal(made.get(), target)
    assert not put(made.astype("float16"), there(key), made[:3].astype("float16"), how)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_random_places_along_a_dimension(dtype):
    rng = np.random.default_rng(0)
    served = 0
    for _ in range(200):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
        axis = int(rng.integers(len(shape)))
        named = [int(rng.integers(1, 6)) if d == axis else int(rng.choice([n, n, rng.integers(1, n + 1)])) for d, n in enumerate(shape)]
        index = rng.integers(-shape[axis], shape[axis], named).astype(rng.choice(["int64", "longlong", "int32"]))
        grid = tuple(index if d == axis else part for d, part in enumerate(np.ogrid[tuple(map(slice, named))]))
        array, values = (rng.integers(-9, 9, each).astype(dtype) for each in (shape, [n + 1 for n in named]))
        values = values[tuple(map(slice, named))]  # with gaps
        on_device, at, given = cupy.asarray(array), cupy.asarray(index), cupy.asarray(values.base)[tuple(map(slice, named))]
        found = taken(on_device, axis, at, along=True)
        turned = taken(cupy.asarray(np.asfortranarray(array)), axis, at, along=True)
        assert turned is None or (turned.get() == array[grid]).all()
        if found is None:  # of more dimensions than the kernels' three that are cut short
            assert len(shape) > 2
            assert not put_along(on_device, axis, at, given)
            continue
        served += 1
        assert (found.get() == array[grid]).all()
        UFUNCS["add"].at(array, grid, values)
        assert put_along(on_device, axis, at, given if len(shape) < 3 else cupy.ascontiguousarray(given), "add")
        assert (on_device.get() == array).all()
        other = rng.integers(-9, 9, shape).astype(dtype)[grid]  # one value for each place, however often that is named
        array[grid] = other
        assert put_along(on_device, axis, at, cupy.asarray(other))
        assert (on_device.get() == array).all()
    assert served > 150


LAYOUTS = {
    "one for each line": lambda xp, i: xp.broadcast_to(i[:, :1], (4, 6)), "one line": lambda xp, i: xp.broadcast_to(i[0], (3, 6)),
    "backwards": lambda xp, i: i[::-2], "turned": lambda xp, i: i.T[:4, :4], "gaps": lambda xp, i: i[:, ::3],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_places_may_be_expanded_or_lie_apart(name, dtype):
    x, base = np.arange(24.0).reshape(4, 6), np.random.default_rng(3).integers(-4, 4, (4, 6)).astype(dtype)
    at, there = LAYOUTS[name](np, base), LAYOUTS[name](cupy, cupy.asarray(base))
    made, grid = cupy.asarray(x), (at, np.arange(at.shape[1]))
    assert (taken(made, 0, there, along=True).get() == x[grid]).all()
    values = x[: len(at), : at.shape[1]].copy()
    np.add.at(x, grid, values)
    assert put_along(made, 0, there, cupy.asarray(values), "add")
    assert (made.get() == x).all()
    assert (picked(made, (there[0],)).get() == x[at[0]]).all()


@pytest.mark.skipif(HAS_GPU, reason="hostcuda reports what a GPU lets wrap around")
@pytest.mark.parametrize("key", [([3, 0],), ([0, -4],), ([2, 0], [4, 1]), ([0], [0], [-6])])
def test_a_place_outside_is_reported_as_by_the_kernels_of_cupy(key):
    target, key = cupy.zeros((3, 4, 5), cupy.float32), tuple(map(cupy.asarray, key))
    rows = cupy.ones((*key[0].shape, *target.shape[len(key) :]), cupy.float32)
    for how in ("put", *UFUNCS):
        with hostcuda.expected(r"index -?\d is outside of an axis of \d, and wraps around"):
            put(target, key, rows, how)
    with hostcuda.expected(r"index -?\d is outside of an axis of \d, and wraps around"):
        picked(target, key)


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x, i = cupy.zeros((3, 4), cupy.float32), cupy.asarray([0, 2])
    for key, values in (
        ((i.astype("uint8"),), 1.0), ((i,), x[:2]), ((i,), cupy.ones((2, 4))), ((i, None), 1.0),
        ((i,), cupy.ones(3, cupy.float32)), ((i[:0],), x[:0].copy()), ((i, cupy.asarray([0, 1, 2])), 1.0), ((i, i, i), 1.0), ((), 1.0),
        ((i,), 1j), ((i,), cupy.ones((1, 2, 4), cupy.float32)),
    ):  # fmt: skip
        assert not put(x, key, values), key
    assert not put(x[:, ::2], (i,), 1.0)
    cube = cupy.zeros((2, 2, 2), int)
    for at in (cube.transpose(1, 0, 2), cupy.broadcast_to(cube[:1], (2, 2, 2))):
        assert taken(cupy.zeros((2, 2, 2)), 2, at, along=True) is None  # whose first two dimensions are no line of memory
    assert not any(put(x, (mask,), values) for mask, values in ((x > 0, x[0]), (x > 0, x[0, :1]), (x[:2] > 0, 1.0), (x > 0, 1j)))
    assert not put(x, (x > 0,), 1.0, "add")
    assert not put(i, (i,), 1)  # which would be written while it is read
    assert not put(x.astype("complex128"), (i,), cupy.ones((2, 4), "complex128"))
    assert picked(x.astype("complex128"), (i,)) is None
    assert named_of(cupy.zeros((3, 0)), (i, i)) is None
    assert picked(x.T, (i, i)) is None  # whose two dimensions are no line of memory
    assert taken(x, 1, cupy.zeros((3, 0), int), along=True) is None
    assert not x.any()
