"""Fourier transforms: dtypes, sizes, adjoints over many shapes, frequencies, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import fft
from tests.values import host

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = tuple(name + "n" for name in ONE)
TAKES_REAL = ("rfft", "ihfft", "rfftn", "ihfftn", "rfft2", "ihfft2")


def drawn(rng: np.random.Generator, shape: tuple[int, ...], real: bool) -> np.ndarray:
    return rng.standard_normal(shape) if real else rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_value_and_adjoint_over_sizes_dimensions_and_norms(name: str, rng: np.random.Generator, device: str) -> None:
    """As in NumPy, where NumPy has it; and the real inner products of F(x) with g and of x with the adjoint of g are the same."""
    for _ in range(12):
        shape = tuple(rng.integers(1, 6, 3).tolist())
        dims = [int(d) for d in rng.permutation(3)[: 1 if name in ONE else rng.integers(1, 4)]]
        sizes = None if rng.random() < 0.4 and min(shape) > 1 else [int(n) for n in rng.integers(1, 8, len(dims))]
        norm = [None, "backward", "ortho", "forward"][rng.integers(4)]
        a = drawn(rng, shape, name in TAKES_REAL or rng.random() < 0.3)
        said: dict[str, Any] = {"norm": norm, "dim": dims[0] if name in ONE else tuple(dims)}
        said["n" if name in ONE else "s"] = sizes if sizes is None or name in SEVERAL else sizes[0]
        x = gradlib.tensor(a, device=device, requires_grad=True)
        y = getattr(fft, name)(x, **said)
        if hasattr(np.fft, name):
            full = [a.shape[d] for d in dims]
            full[-1] = 2 * (full[-1] - 1) if name == "irfftn" else full[-1]
            axes = {"axis": dims[0], "n": said["n"]} if name in ONE else {"axes": dims, "s": sizes or full}
            np.testing.assert_allclose(host(y), getattr(np.fft, name)(a, **axes, norm=norm), atol=1e-12)
        g = drawn(rng, y.shape, not y.is_complex())
        (adjoint,) = gradlib.autograd.grad(y, x, gradlib.tensor(g, device=device))
        np.testing.assert_allclose(np.vdot(g, host(y)).real, np.vdot(host(adjoint), a).real, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_single_precision_stays_single_in_value_and_gradient(name: str, device: str) -> None:
    for dtype in (gradlib.float32, gradlib.complex64):
        if dtype is gradlib.complex64 and name in TAKES_REAL:
            continue
        x = gradlib.ones(3, 4, dtype=dtype, device=device, requires_grad=True)
        y = getattr(fft, name)(x)
        assert y.dtype == (gradlib.float32 if name.removesuffix("n") in ("irfft", "hfft") else gradlib.complex64)
        gradlib.abs(y).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype


def test_integers_count_as_the_default_float_dtype() -> None:
    assert fft.fft(gradlib.arange(4)).dtype == gradlib.complex64
    assert fft.irfft(gradlib.tensor([True, False])).dtype == gradlib.float32


def test_raw_arrays_give_raw_arrays() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert type(fft.rfft(a, 4)) is np.ndarray
    np.testing.assert_allclose(fft.rfft(a, 4), np.fft.rfft(a, 4))


def test_frequencies_and_shifts() -> None:
    for n in range(7):
        if n:
            np.testing.assert_allclose(host(fft.fftfreq(n, 0.5, dtype=gradlib.float64)), np.fft.fftfreq(n, 0.5))
            np.testing.assert_allclose(host(fft.rfftfreq(n, 0.5, dtype=gradlib.float64)), np.fft.rfftfreq(n, 0.5))
            x = gradlib.arange(n)
            assert fft.fftshift(x).tolist() == np.fft.fftshift(np.arange(n)).tolist()
            assert fft.ifftshift(fft.fftshift(x)).tolist() == x.tolist()
    assert fft.fftfreq(0).shape == (0,)
    assert fft.fftfreq(3, requires_grad=True).requires_grad
    assert fft.fftshift(gradlib.arange(6).reshape(2, 3), dim=(1, 1)).tolist() == [[1, 2, 0], [4, 5, 3]]


X = gradlib.ones(4, 6)
WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: fft.fft(X.half()), RuntimeError, "Unsupported dtype float16; convert"),
    (lambda: fft.rfft(X + 1j), RuntimeError, "rfft expects a real input tensor, but got complex64"),
    (lambda: fft.fft(X, 0), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: fft.fft(X, -1), RuntimeError, r"Invalid number of data points \(-1\)"),
    (lambda: fft.fftn(X, (0, 3)), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: fft.irfft(X[:, :1]), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: fft.fft(gradlib.ones(0)), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: fft.fft(X, dim=2), IndexError, "Dimension out of range"),
    (lambda: fft.fft(gradlib.tensor(1.0)), IndexError, "tensor has no dimensions"),
    (lambda: fft.fft(X, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: fft.fftn(X, (1,), (0, 1)), RuntimeError, "must have the same length"),
    (lambda: fft.fftn(X, (1, 2, 3)), RuntimeError, "Got shape with 3 values but input tensor only has 2"),
    (lambda: fft.fftn(X, dim=(0, -2)), RuntimeError, "FFT dims must be unique"),
    (lambda: fft.rfftn(X, dim=()), RuntimeError, "rfftn must transform at least one axis"),
    (lambda: fft.fftfreq(-1), RuntimeError, "negative dimension -1"),
    (lambda: fft.fftfreq(3, dtype=gradlib.int64), RuntimeError, "requires a floating point dtype"),
    (lambda: fft.fftshift(gradlib.tensor(1.0)), RuntimeError, "`shifts` required"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_say_the_rule(number: int) -> None:
    call, error, text = WRONG[number]
    with pytest.raises(error, match=text):
        call()


def test_arguments_that_equal_those_of_a_call_before_are_still_refused() -> None:
    """What follows from sizes and dimensions is kept, and a bool or a float equals an integer."""
    want = fft.fftn(X, (2, 1), (1, 0)).tolist()
    assert fft.fftn(X, [2, 1], [1, 0]).tolist() == want
    for sizes, dims in (((2.0, 1), (1, 0)), ((2, 1), (True, 0)), ((2, 1), [1, False])):
        with pytest.raises(TypeError):
            fft.fftn(X, sizes, dims)
