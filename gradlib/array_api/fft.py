"""The standard's extension ``fft``: gradlib's Fourier transforms under its argument forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradlib.array_api.array import as_standard, standard
from gradlib.ops import fft as transforms

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip


def _along_one(transform: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return as_standard(transform(x, n, axis, norm))

    return _named(call, transform)


def _over_several(transform: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Any:
        return as_standard(transform(x, s, axes, norm))

    return _named(call, transform)


def _named(call: Callable[..., Any], transform: Callable[..., Any]) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = transform.__name__
    call.__doc__ = f"{(transform.__doc__ or '').splitlines()[0]}\n\nSource: array API standard, ``fft.{transform.__name__}``."
    return call


fft = _along_one(transforms.fft)
ifft = _along_one(transforms.ifft)
rfft = _along_one(transforms.rfft)
irfft = _along_one(transforms.irfft)
hfft = _along_one(transforms.hfft)
ihfft = _along_one(transforms.ihfft)
fftn = _over_several(transforms.fftn)
ifftn = _over_several(transforms.ifftn)
rfftn = _over_several(transforms.rfftn)
irfftn = _over_several(transforms.irfftn)


@standard
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequency of each element of a spectrum, in cycles per unit of the sample spacing."""
    return transforms.fftfreq(n, d, dtype=dtype, device=device)


@standard
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequency of each element of the half spectrum of ``rfft``."""
    return transforms.rfftfreq(n, d, dtype=dtype, device=device)


@standard
def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """A spectrum with frequency zero in the middle."""
    return transforms.fftshift(x, axes)


@standard
def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of ``fftshift``."""
    return transforms.ifftshift(x, axes)
