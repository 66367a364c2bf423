"""Reductions and running folds of many lines at once give what NumPy gives of one after the other."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import lines
from gradlib.backend.lines import accumulated, counted, first_extremes, has_short_lines, reduced

pytestmark = pytest.mark.host

SHAPES = [(700, 3), (20_000, 2), (300, 10), (3000, 32), (600, 33), (40, 30, 5), (3, 900), (300, 4, 300), (257, 4)]
SHAPES += [(1, 600), (600, 1), (0, 5), (500, 64), (110, 900), (90, 64)]


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


@pytest.mark.parametrize("shape", [*SHAPES, (20_000, 32), (30, 700, 3)], ids=str)
def test_counts_are_numpys(shape: tuple[int, ...]) -> None:
    for mask in (drawn(shape, "bool"), np.ones(shape, bool)):
        for axis in range(mask.ndim):
            for each in (mask, mask[::-1], np.asfortranarray(mask)):
                made = counted(each, axis)
                assert made.dtype == np.int64
                assert np.array_equal(made, each.sum(axis))


@pytest.mark.parametrize("shape", [(5000, 3), (20_000, 2), (4096, 8), (3, 2000, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_places_of_extremes_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, "int64").astype(dtype)  # with ties
    assert has_short_lines(x, x.ndim - 1)
    for name, ufunc in (("max", np.maximum), ("min", np.minimum)):
        found = first_extremes(ufunc, x)
        assert found is not None
        assert np.array_equal(found[0], getattr(x, name)(-1))
        assert np.array_equal(found[1], getattr(x, f"arg{name}")(-1))
        assert found[0].dtype == x.dtype
        assert found[1].dtype == np.int64
        values, places = getattr(gradlib, name)(gradlib.as_tensor(x), -1, keepdim=True)
        assert np.array_equal(values.numpy(), found[0][..., None])
        assert np.array_equal(places.numpy(), found[1][..., None])
        assert np.array_equal(getattr(gradlib, f"arg{name}")(gradlib.as_tensor(x), -1).numpy(), found[1])


def test_lines_that_are_long_few_or_have_gaps_are_not_placed() -> None:
    for x in (drawn((5000, 9), "float32"), drawn((4095, 3), "float32"), drawn((5000, 1), "float32"), drawn((3, 5000), "float32").T):
        assert not has_short_lines(x, x.ndim - 1)
    assert not has_short_lines(drawn((5000, 3), "float32"), 0)


@pytest.mark.nonfinite
def test_first_nan_and_the_sign_of_the_first_zero_are_found() -> None:
    x = drawn((5000, 3), "float32")
    x[7] = [1.0, np.nan, np.nan]
    values, places = gradlib.max(gradlib.as_tensor(x), 1)
    assert np.isnan(values.numpy()[7])
    assert places.numpy()[7] == 1
    assert np.array_equal(places.numpy(), x.argmax(1))
    for zeros in ([-0.0, 0.0, -0.0], [0.0, -0.0, 0.0], [-0.0, -0.0, 0.0]):
        for name, sign in (("max", 1), ("min", -1)):
            x = sign * -drawn((5000, 3), "float64")
            x[7] = zeros
            values, places = getattr(gradlib, name)(gradlib.as_tensor(x), 1)
            assert places.numpy()[7] == 0
            assert np.signbit(values.numpy()[7]) == np.signbit(zeros[0])


@pytest.mark.parametrize("shape", [(1000, 64), (200, 300), (2, 500, 40), (90, 900)], ids=str)
def test_extremes_of_many_lines_of_some_length_are_numpys(shape: tuple[int, ...]) -> None:
    for dtype in ("float32", "float64", "int64"):
        x = drawn(shape, dtype)
        for name in ("max", "min"):
            for keepdim in (False, True):
                made = getattr(gradlib, f"a{name}")(gradlib.as_tensor(x), -1, keepdim)
                assert np.array_equal(made.numpy(), getattr(x, name)(-1, keepdims=keepdim))


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
                made = accumulated(ufunc, each, axis, wide)
                if ufunc is np.add and x.size >= lines._BLOCKS and shape[axis] > lines.STEPS:  # sums of blocks: no worse, but others
                    exact = np.add.accumulate(each.astype(np.longdouble), axis)
                    assert np.abs(made - exact).max() <= np.abs(wanted - exact).max()
                else:
                    assert made.tobytes() == wanted.tobytes()
                back = accumulated(ufunc, np.flip(each, axis), axis, wide, from_end=True)
                assert np.array_equal(back, np.flip(made, axis))


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


LONG = [((20_000, 3), 0), ((1000, 64), 0), ((3, 20_000), 1), ((64, 1000), 1), ((2, 30, 700), 2), ((40_000, 1), 0), ((16_411, 5), 0)]


@pytest.mark.parametrize(("shape", "axis"), LONG, ids=str)
@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.minimum])
def test_running_folds_by_blocks_are_right(shape: tuple[int, ...], axis: int, ufunc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape)  # whose sums are exact in every order
    for at_once in (lines._AT_ONCE, 5000):
        monkeypatch.setattr(lines, "_AT_ONCE", at_once)
        for dtype, wide in (("float32", np.float64), ("float64", None), ("int64", None)):
            for each in (x.astype(dtype), np.asfortranarray(x.astype(dtype)), np.flip(x, axis).astype(dtype)):
                for from_end in (False, True):
                    made = lines._in_blocks(ufunc, each, axis, wide, from_end)
                    assert made is not None
                    assert made.dtype == dtype
                    wanted = ufunc.accumulate(np.flip(each, axis) if from_end else each, axis)
                    assert np.array_equal(made, np.flip(wanted, axis) if from_end else wanted)


@pytest.mark.nonfinite
@pytest.mark.parametrize(("shape", "axis"), LONG, ids=str)
def test_running_sums_that_are_not_finite_are_numpys(shape: tuple[int, ...], axis: int) -> None:
    near = np.zeros(shape)
    line = np.moveaxis(near, axis, 0)
    line[5], line[9:11] = -1e308, 1e308  # of which a block's sum overflows, and that of the whole does not
    for written in ({}, {300: np.inf}, {300: np.inf, 310: -np.inf}, {300: np.nan}):
        x = near.copy()
        for place, value in written.items():
            np.moveaxis(x, axis, 0)[place] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if written else "error")
            assert np.array_equal(accumulated(np.add, x, axis), np.add.accumulate(x, axis), equal_nan=True)
            assert np.array_equal(accumulated(np.maximum, x, axis), np.maximum.accumulate(x, axis), equal_nan=True)


def test_running_sums_of_negative_zeros_keep_their_sign() -> None:
    for shape, axis in LONG:
        assert np.signbit(accumulated(np.add, np.full(shape, -0.0), axis)).all()
        assert np.signbit(accumulated(np.add, np.full(shape, -0.0, "float32"), axis, np.float64)).all()


@pytest.mark.parametrize("dim", [0, 1])
def test_running_extremes_and_their_gradient_are_right_along_both_dimensions(dim: int) -> None:
    for shape in ((6000, 3), (700, 40), (3, 6000)):
        for array in (np.random.default_rng(0).standard_normal(shape), np.random.default_rng(0).integers(0, 9, shape).astype("float64")):
            x = gradlib.tensor(array).requires_grad_()
            values, places = gradlib.cummax(x, dim)
            wanted = np.maximum.accumulate(array, dim)
            latest = np.maximum.accumulate(np.where(array == wanted, np.indices(shape)[dim], 0), dim)
            assert np.array_equal(values.numpy(force=True), wanted)
            assert np.array_equal(places.numpy(), latest)
            assert values.is_contiguous()
            assert places.is_contiguous()
            g = np.random.default_rng(1).standard_normal(shape)
            expected = np.zeros(shape)
            other = np.indices(shape)[1 - dim]
            np.add.at(expected, (latest, other) if dim == 0 else (other, latest), g)
            values.backward(gradlib.tensor(g))
            assert np.allclose(x.grad.numpy(), expected)
