"""cuFFT on the CPU, through CuPy's own functions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.testing import hostcuda
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 12, 17, 30, 97])
def test_one_dimension(rng: np.random.Generator, n: int) -> None:
    a = drawn(rng, 2, 3, n)
    for axis in range(3):
        for name in ("fft", "ifft", "irfft", "hfft"):
            said = {"axis": axis, "n": n} if "fft" in name[1:] and name != "ifft" else {"axis": axis}
            np.testing.assert_allclose(getattr(cupy.fft, name)(cupy.asarray(a), **said).get(), getattr(np.fft, name)(a, **said), atol=1e-11)
        np.testing.assert_allclose(cupy.fft.rfft(cupy.asarray(a.real), axis=axis).get(), np.fft.rfft(a.real, axis=axis), atol=1e-11)
    single = cupy.fft.fft(cupy.asarray(a, "complex64")).get()
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, np.fft.fft(a), atol=2e-5)


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2, 3), (1, 2, 3), (0, 1, 2), (0, 3), (0, 1, 2, 3)])
def test_several_dimensions_by_plans_of_both_orders(rng: np.random.Generator, axes: tuple[int, ...]) -> None:
    a = drawn(rng, 3, 4, 5, 6)
    for order in "CF":
        for name in ("fftn", "ifftn"):
            got = getattr(cupy.fft, name)(cupy.asarray(a, order=order), axes=axes).get()
            np.testing.assert_allclose(got, getattr(np.fft, name)(a, axes=axes), atol=1e-11)
    half = np.fft.rfftn(a.real, axes=axes)
    np.testing.assert_allclose(cupy.fft.rfftn(cupy.asarray(a.real), axes=axes).get(), half, atol=1e-11)
    shape = [a.shape[axis] for axis in axes]
    np.testing.assert_allclose(cupy.fft.irfftn(cupy.asarray(half), shape, axes=axes).get(), a.real, atol=1e-12)


def test_a_complex_to_real_transform_destroys_its_input(rng: np.random.Generator) -> None:
    from cupy.cuda import cufft

    half, out = cupy.asarray(drawn(rng, 3)), cupy.empty(4)
    cufft.Plan1d(4, cufft.CUFFT_Z2D, 1).fft(half, out, cufft.CUFFT_INVERSE)
    assert np.isfinite(out.get()).all()
    assert np.isnan(half.get()).any()


def test_memory_that_another_stream_writes_is_a_hazard() -> None:
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with one:
        a = cupy.ones(8, "complex64")
    with hostcuda.expected("cufftExecC2C"), other:
        cupy.fft.fft(a)
