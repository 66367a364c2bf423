"""Thrust's sorts and CUB's reductions, scans and histograms on the CPU, through CuPy's own functions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
ONE_OF_EACH_KIND = ["bool", "int64", "uint8", "float16", "float32", "complex64"]  # where CuPy's kernels are generated for a dtype


def made(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different values, so that many are equal; floating ones with NaN, infinities and both zeros."""
    kind = np.dtype(dtype).kind
    values = rng.integers(0, 7, shape)
    if kind in "biu":
        return values.astype(dtype)
    chosen = np.array([-2.5, 0.0, -0.0, 1.0, np.nan, np.inf, -np.inf])
    if kind == "f":
        return chosen[values].astype(dtype)
    made = np.empty(shape, dtype)
    made.real, made.imag = chosen[values], chosen[rng.integers(0, 7, shape)]
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (500,), (7, 60), (3, 40, 5)])
def test_sort(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    a = made(rng, shape, dtype)
    for axis in range(-1, len(shape)):
        np.testing.assert_array_equal(cupy.sort(cupy.asarray(a), axis=axis).get(), np.sort(a, axis=axis))
        np.testing.assert_array_equal(cupy.argsort(cupy.asarray(a), axis=axis).get(), np.argsort(a, axis=axis, kind="stable"))
    np.testing.assert_array_equal(cupy.sort(cupy.asarray(a).T, axis=0).get(), np.sort(a.T, axis=0))
    np.testing.assert_array_equal(cupy.argsort(cupy.asarray(a), axis=None).get(), np.argsort(a, axis=None, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_in_place_and_lexsort(rng: np.random.Generator, dtype: str) -> None:
    a = made(rng, (3, 50), dtype)
    device = cupy.asarray(a)
    device.sort()
    np.testing.assert_array_equal(device.get(), np.sort(a))
    np.testing.assert_array_equal(cupy.lexsort(cupy.asarray(a)).get(), np.lexsort(a))


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32"])
def test_what_stands_on_sorts(rng: np.random.Generator, dtype: str) -> None:
    a = rng.integers(0, 50, 300).astype(dtype)
    device = cupy.asarray(a)
    for got, expected in zip(
        cupy.unique(device, return_index=True, return_inverse=True, return_counts=True),
        np.unique(a, return_index=True, return_inverse=True, return_counts=True),
        strict=True,
    ):
        np.testing.assert_array_equal(got.get(), expected)
    np.testing.assert_array_equal(cupy.sort(cupy.partition(device, 40)[:41]).get(), np.sort(a)[:41])
    np.testing.assert_array_equal(cupy.median(device).get(), np.median(a))
    np.testing.assert_array_equal(cupy.searchsorted(cupy.sort(device), device).get(), np.searchsorted(np.sort(a), a))
    np.testing.assert_array_equal(cupy.isin(device, device[:5]).get(), np.isin(a, a[:5]))


def as_gpu_adds(a: np.ndarray, axis: int | None) -> np.ndarray:
    """Half precision adds up in half precision; halves of the array first."""
    line = a.reshape(-1) if axis is None else np.moveaxis(a, axis, -1)
    while line.shape[-1] > 1:
        middle = line.shape[-1] // 2
        return as_gpu_adds(line[..., :middle], -1) + as_gpu_adds(line[..., middle:], -1)
    return line[..., 0]


@pytest.mark.nonfinite
@pytest.mark.parametrize(("dtype", "order"), [*((dtype, "C") for dtype in DTYPES), ("int64", "F"), ("float32", "F"), ("complex64", "F")])
def test_reductions(rng: np.random.Generator, dtype: str, order: str) -> None:
    a = np.asarray(rng.integers(-1, 2, (6, 7, 5)).astype(dtype), order=order)  # no product overflows, in whichever order
    device = cupy.asarray(a, order=order)
    axes: list[Any] = [None, 2, (1, 2)]  # CUB's, of a contiguous array
    names = ["sum", "prod", "max", "min"]
    if dtype in ONE_OF_EACH_KIND:
        axes += [0, (0, 1)]
        names += ["any", "all"]
    for axis in axes:
        for keepdims in (False, True):
            for name in names:
                got, expected = getattr(device, name)(axis=axis, keepdims=keepdims), getattr(a, name)(axis=axis, keepdims=keepdims)
                assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
                np.testing.assert_allclose(got.get(), expected, rtol=1e-2 if dtype == "float16" else 1e-5)
    with_nan = made(rng, (40,), dtype)
    for name in ("max", "min", "argmax", "argmin"):
        np.testing.assert_array_equal(getattr(cupy.asarray(with_nan), name)().get(), getattr(with_nan, name)())
    np.testing.assert_array_equal(device.argmax(axis=1).get(), a.argmax(axis=1))


def test_a_sum_of_halves_is_a_half_all_along(rng: np.random.Generator) -> None:
    a = rng.standard_normal(1000).astype("e")
    assert cupy.asarray(a).sum().get() == as_gpu_adds(a, None)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_reductions_of_nothing(dtype: str, name: str) -> None:
    for shape in [(0,), (0, 3), (3, 0)]:
        a = np.empty(shape, dtype)
        for axis in (None, 0):
            np.testing.assert_array_equal(getattr(cupy.asarray(a), name)(axis=axis).get(), getattr(a, name)(axis=axis))
    with pytest.raises(ValueError, match="zero-size"):
        cupy.empty(0, dtype).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(rng: np.random.Generator, dtype: str, name: str) -> None:
    a = rng.integers(0, 3, (4, 9, 5)).astype(dtype)
    for axis in (None, 0, 1, 2):
        got, expected = getattr(cupy, name)(cupy.asarray(a), axis=axis), getattr(np, name)(a, axis=axis)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(got.get(), expected, rtol=1e-2 if dtype == "float16" else 1e-5)
    np.testing.assert_array_equal(getattr(cupy, name)(cupy.asarray(a).T).get(), getattr(np, name)(a.T))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_histograms(rng: np.random.Generator, dtype: str) -> None:
    a = rng.integers(0, 20, 400).astype(dtype)
    for bins in (5, [0, 1, 4, 11, 20]):
        got, expected = cupy.histogram(cupy.asarray(a), bins if isinstance(bins, int) else cupy.asarray(bins)), np.histogram(a, bins)
        np.testing.assert_array_equal(got[0].get(), expected[0])
        np.testing.assert_allclose(got[1].get(), expected[1])
    if np.dtype(dtype).kind in "iu" and dtype != "uint64":
        np.testing.assert_array_equal(cupy.bincount(cupy.asarray(a)).get(), np.bincount(a))


def test_cub_serves_what_it_serves_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from cupy._core import _accelerator

    assert [int(one) for one in _accelerator.get_routine_accelerators()] == [_accelerator.ACCELERATOR_CUB]
