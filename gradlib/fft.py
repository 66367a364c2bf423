"""Discrete Fourier transforms, by torch.fft's names. Source: torch.fft."""

from gradlib.ops.fft import *  # noqa: F403
from gradlib.ops.fft import __all__ as __all__
