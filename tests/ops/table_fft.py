"""Fourier transforms, held against sums over the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from gradlib import fft as fourier
from gradlib.ops import fft
from tests.ops.case import Case, normal


def spectrum(a: Any, axis: int, forward: bool = True) -> Any:
    """The sum of the definition along one axis, undivided."""
    n = a.shape[axis]
    turn = np.exp((-2j if forward else 2j) * np.pi / n * np.outer(np.arange(n), np.arange(n)))
    return np.moveaxis(np.tensordot(turn, a, (1, axis)), 0, axis)


def whole(half: Any, n: int, axis: int) -> Any:
    """A spectrum that is its own conjugate mirrored, from its first half, whose real ends lose their imaginary parts."""
    half = np.moveaxis(half, axis, 0)
    full = np.concatenate([half, np.conj(half[1 : (n + 1) // 2][::-1])])
    full[0] = full[0].real
    if n % 2 == 0:
        full[n // 2] = full[n // 2].real
    return np.moveaxis(full, 0, axis)


def parts(function: Any) -> Any:
    """The function of a complex tensor as one of its real and imaginary part."""
    return lambda a, b: function(gradlib.complex(a, b))


CASES = [
    Case("fft", fourier.fft, normal((3, 6)), lambda a: spectrum(a, 1), complex=True),
    Case("fft", lambda a: fourier.fft(a, 7, 0, "ortho"), normal((4, 2)), lambda a: spectrum(np.pad(a, ((0, 3), (0, 0))), 0) / np.sqrt(7),
         complex=True, label="padded"),
    Case("fft", lambda a: fourier.fft(a, 3, norm="forward"), normal((5,)), lambda a: spectrum(a[:3], 0) / 3, complex=True, label="cut"),
    Case("fft", fourier.fft, lambda rng: [rng.integers(-5, 5, (2, 4))], lambda a: spectrum(a, 1).astype("c8"), tolerance=1e-5,
         label="integers"),
    Case("ifft", fourier.ifft, normal((2, 5)), lambda a: spectrum(a, 1, False) / 5, complex=True),
    Case("rfft", fourier.rfft, normal((3, 6)), lambda a: spectrum(a, 1)[:, :4]),
    Case("rfft", lambda a: fourier.rfft(a, 5, 0, "forward"), normal((3, 2)),
         lambda a: spectrum(np.pad(a, ((0, 2), (0, 0))), 0)[:3] / 5, label="odd"),
    Case("irfft", fourier.irfft, normal((3, 4)), lambda a: spectrum(whole(a, 6, 1), 1, False).real / 6, complex=True),
    Case("irfft", parts(lambda z: fourier.irfft(z, 7, 0, "ortho")), normal((4, 2), (4, 2)),
         lambda a, b: spectrum(whole(a + 1j * b, 7, 0), 0, False).real / np.sqrt(7), label="odd"),
    Case("irfft", parts(lambda z: fourier.irfft(z, 1)), normal((2, 3), (2, 3)), lambda a, b: a[:, :1], label="one"),
    Case("hfft", fourier.hfft, normal((2, 3)), lambda a: spectrum(whole(a, 4, 1), 1).real, complex=True),
    Case("ihfft", fourier.ihfft, normal((2, 5)), lambda a: spectrum(a, 1, False)[:, :3] / 5),
    Case("fftn", fourier.fftn, normal((2, 3, 4)), lambda a: spectrum(spectrum(spectrum(a, 0), 1), 2), complex=True),
    Case("fftn", lambda a: fourier.fftn(a, (-1, 5), (2, 0), "ortho"), normal((4, 2, 3)),
         lambda a: spectrum(spectrum(np.pad(a, ((0, 1), (0, 0), (0, 0))), 0), 2) / np.sqrt(15), complex=True, label="some"),
    Case("fftn", lambda a: fourier.fftn(a, dim=()), normal((2, 3)), lambda a: a + 0j, complex=True, label="none"),
    Case("fftn", lambda a: fourier.fftn(a, dim=(1,)), normal((0, 3)), lambda a: a + 0j, complex=True, label="empty"),
    Case("ifftn", lambda a: fourier.ifftn(a, (2, 3)), normal((2, 4, 2)),
         lambda a: spectrum(spectrum(np.pad(a, ((0, 0), (0, 0), (0, 1)))[:, :2], 1, False), 2, False) / 6, complex=True),
    Case("rfftn", fourier.rfftn, normal((2, 3, 4)), lambda a: spectrum(spectrum(spectrum(a, 0), 1), 2)[:, :, :3]),
    Case("rfftn", lambda a: fourier.rfftn(a, dim=(2, 0)), normal((3, 2, 4)), lambda a: spectrum(spectrum(a, 0), 2)[:2], label="first"),
    Case("rfftn", lambda a: fourier.rfftn(a, dim=(1,)), normal((0, 4)), lambda a: np.zeros((0, 3), complex), label="empty"),
    Case("irfftn", parts(lambda z: fourier.irfftn(z, (2, 5))), normal((2, 3), (2, 3)),
         lambda a, b: spectrum(whole(spectrum(a + 1j * b, 0, False), 5, 1), 1, False).real / 10),
    Case("irfftn", lambda a: fourier.irfftn(a, dim=(1,)), normal((0, 3)), lambda a: np.zeros((0, 4)), complex=True, label="empty"),
    Case("hfftn", parts(lambda z: fourier.hfftn(z, norm="forward")), normal((3, 3), (3, 3)),
         lambda a, b: spectrum(whole(spectrum(a + 1j * b, 0), 4, 1), 1).real / 12),
    Case("ihfftn", fourier.ihfftn, normal((3, 4)), lambda a: spectrum(spectrum(a, 0, False), 1, False)[:, :3] / 12),
    Case("fft2", fourier.fft2, normal((2, 3, 4)), lambda a: spectrum(spectrum(a, 1), 2), complex=True),
    Case("ifft2", fourier.ifft2, normal((2, 3, 4)), lambda a: spectrum(spectrum(a, 1, False), 2, False) / 12, complex=True),
    Case("rfft2", fourier.rfft2, normal((2, 3, 4)), lambda a: spectrum(spectrum(a, 1), 2)[..., :3]),
    Case("irfft2", parts(fourier.irfft2), normal((3, 3), (3, 3)),
         lambda a, b: spectrum(whole(spectrum(a + 1j * b, 0, False), 4, 1), 1, False).real / 12),
    Case("hfft2", parts(fourier.hfft2), normal((3, 3), (3, 3)), lambda a, b: spectrum(whole(spectrum(a + 1j * b, 0), 4, 1), 1).real),
    Case("ihfft2", fourier.ihfft2, normal((3, 4)), lambda a: spectrum(spectrum(a, 0, False), 1, False)[:, :3] / 12),
    Case("fftshift", fourier.fftshift, normal((3, 4)), lambda a: np.roll(a, (1, 2), (0, 1)), complex=True),
    Case("ifftshift", lambda a: fourier.ifftshift(a, 0), normal((3, 4)), lambda a: np.roll(a, 2, 0), complex=True),
    Case("fft_c2c", lambda a: fft.fft_c2c_op(a, (0,), "ortho", False), normal((4, 2)), lambda a: spectrum(a, 0, False) / 2, complex=True),
    Case("fft_r2c", lambda a: fft.fft_r2c_op(a, 0, "backward"), normal((4, 2)), lambda a: spectrum(a, 0)[:3]),
    Case("fft_c2r", lambda a: fft.fft_c2r_op(a, 0, "forward", 4), normal((3, 2)), lambda a: spectrum(whole(a, 4, 0), 0, False).real,
         complex=True),
    Case("fft_inner", lambda a: fft.fft_inner_op(a, 1, 5, 2), normal((2, 3)), lambda a: a * [1, 2, 2], complex=True),
]  # fmt: skip
